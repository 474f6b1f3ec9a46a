//! Where the server listens, who may come in, and how much of everything.
//!
//! Plain values; any thread.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Everything.
    Admin,
    /// SHOW, SELECT and EXPLAIN; whatever changes something is refused with SQLSTATE 42501.
    Viewer,
}

impl Role {
    /// Its name, which is also a role of its clients for SHOW RESOURCE GROUPS.
    pub fn name(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Viewer => "viewer",
        }
    }
}

/// Somebody who may come in with a password (SCRAM-SHA-256).
#[derive(Clone)]
pub struct User {
    pub(super) name: String,
    pub(super) password: String,
    pub(super) role: Role,
    pub(super) roles: Vec<String>,
}

impl User {
    /// Somebody who may do everything.
    pub fn admin(name: impl Into<String>, password: impl Into<String>) -> User {
        User::new(name.into(), password.into(), Role::Admin)
    }

    /// Somebody who may look.
    pub fn viewer(name: impl Into<String>, password: impl Into<String>) -> User {
        User::new(name.into(), password.into(), Role::Viewer)
    }

    fn new(name: String, password: String, role: Role) -> User {
        User {
            name,
            password,
            role,
            roles: Vec::new(),
        }
    }

    /// Adds a role that classifiers may name. It only matters for which groups SHOW RESOURCE GROUPS lists.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>) -> User {
        self.roles.push(role.into());
        self
    }
}

/// Without the password.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// What [`serve`](super::serve) is started with. The default listens on 127.0.0.1 at a port that the system chooses,
/// lets everybody on this machine in as an admin, and bounds everything.
///
/// ```
/// use quotient::server::{Config, User};
///
/// let config = Config::tcp(([127, 0, 0, 1], 6432))
///     .user(User::admin("ops", "correct horse"))
///     .user(User::viewer("grafana", "battery staple"));
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) address: Address,
    pub(super) users: Vec<User>,
    pub(super) group: Option<String>,
    pub(super) max_connections: usize,
    pub(super) max_message: usize,
    pub(super) auth_delay: Duration,
    pub(super) startup_timeout: Duration,
    pub(super) stall_timeout: Duration,
    pub(super) idle_timeout: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config::tcp((Ipv4Addr::LOCALHOST, 0))
    }
}

impl Config {
    /// Listens at a TCP address; port 0 is one that the system chooses. An address that other machines can reach
    /// needs a [`user`](Config::user): without, [`serve`](super::serve) refuses.
    pub fn tcp(address: impl Into<SocketAddr>) -> Config {
        Config::at(Address::Tcp(address.into()))
    }

    /// Listens at a Unix socket, which only this user of the system may open (mode 0600). psql looks for
    /// `FOLDER/.s.PGSQL.PORT` when it is started with `-h FOLDER -p PORT`.
    pub fn unix(path: impl Into<PathBuf>) -> Config {
        Config::at(Address::Unix(path.into()))
    }

    fn at(address: Address) -> Config {
        Config {
            address,
            users: Vec::new(),
            group: None,
            max_connections: 64,
            max_message: 2 << 20,
            auth_delay: Duration::from_secs(1),
            startup_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(3600),
        }
    }

    /// Adds somebody who may come in. With the first one, nobody comes in without a password.
    #[must_use]
    pub fn user(mut self, user: User) -> Config {
        self.users.push(user);
        self
    }

    /// Statements run as tasks of this group instead of on the server's own thread. While there is no such group,
    /// they run on the thread. A group that has no turns, because it is frozen or far behind, keeps the operator
    /// waiting: leave it unset unless what clients ask must be charged.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Config {
        self.group = Some(name.into());
        self
    }

    /// Clients at once, 1 at least; 64 by default. One more is refused with SQLSTATE 53300. As many again may be on
    /// their way in; beyond that, the one that has been so for the longest is cut.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Config {
        self.max_connections = most.max(1);
        self
    }

    /// Bytes of one message of a client, 1 KiB at least; 2 MiB by default. A longer one ends the connection with
    /// SQLSTATE 54000. A client can make the server hold about three times as much: twice as much, but 64 KiB at least, of
    /// what it prepares. One of more than 10 000 statements is refused with 54000, too.
    #[must_use]
    pub fn max_message(mut self, bytes: usize) -> Config {
        self.max_message = bytes.clamp(1 << 10, 256 << 20);
        self
    }

    /// How long after a wrong password the next one is looked at that comes from the same address (of IPv6, the same
    /// /64, or the same host of a link) for the same user; 1 s by default, zero for at once. The next one waits, without
    /// a thread and without holding up other users or addresses. At most as many wait so as are looked at within the
    /// [`startup_timeout`](Config::startup_timeout), which goes on meanwhile, and at most a quarter of
    /// [`max_connections`](Config::max_connections), but one in any case. One more is refused without a look, with SQLSTATE
    /// 53300, and so is one whose look would come after that timeout.
    ///
    /// A right password is not waited for, unless somebody has just guessed from the same address; whoever guesses there on
    /// and on keeps the user out. Through a tunnel, a proxy or a NAT all clients have one address: let the operator have
    /// another way in, such as a second server at a [Unix socket](Config::unix).
    #[must_use]
    pub fn auth_delay(mut self, delay: Duration) -> Config {
        self.auth_delay = delay;
        self
    }

    /// How long a client may take until it is in; 10 s by default.
    #[must_use]
    pub fn startup_timeout(mut self, timeout: Duration) -> Config {
        self.startup_timeout = timeout;
        self
    }

    /// How long a client may rest in the middle of a message, or take nothing of an answer; 30 s by default.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Config {
        self.stall_timeout = timeout;
        self
    }

    /// How long a client may rest between two messages; an hour by default. It is told so with SQLSTATE 57P05.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Config {
        self.idle_timeout = timeout;
        self
    }
}

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An address that other machines can reach, and nobody who would need a password.
    #[error(
        "{address} can be reached from other machines, and no user is configured: anybody could administer the \
         groups. Add one with `Config::user`, or listen on 127.0.0.1 or a Unix socket"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// A user without a name or a password, or named twice.
    #[error("the user '{name}' {why}")]
    BadUser {
        /// The name.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The system refused the address or the thread.
    #[error("the administration server could not listen at {place}: {error}")]
    Listen {
        /// The address or path.
        place: String,
        /// What the system says.
        #[source]
        error: std::io::Error,
    },
}

impl Config {
    /// Refuses what would be open to everybody, or cannot work.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        for (at, user) in self.users.iter().enumerate() {
            let why = if user.name.is_empty() || user.name.contains('\0') {
                "has no name that a client could send"
            } else if user.password.is_empty() {
                "has no password"
            } else if self
                .users
                .iter()
                .take(at)
                .any(|other| other.name == user.name)
            {
                "is configured twice"
            } else {
                continue;
            };
            let name = user.name.clone();
            return Err(ServerError::BadUser { name, why });
        }
        match self.address {
            Address::Tcp(address) if !address.ip().is_loopback() && self.users.is_empty() => {
                Err(ServerError::Open { address })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_password_only_this_machine_is_served() {
        for open in ["0.0.0.0:0", "[::]:0", "192.168.0.1:5432"] {
            let config = Config::tcp(open.parse::<SocketAddr>().unwrap());
            let error = config.check().unwrap_err();
            assert!(matches!(error, ServerError::Open { .. }), "{error}");
            let config = config.user(User::viewer("v", "secret"));
            assert!(config.check().is_ok());
        }
        for closed in ["127.0.0.1:0", "127.8.8.8:0", "[::1]:0"] {
            assert!(
                Config::tcp(closed.parse::<SocketAddr>().unwrap())
                    .check()
                    .is_ok()
            );
        }
        assert!(Config::unix("/nowhere/s").check().is_ok());
    }

    #[test]
    fn a_user_has_a_name_of_its_own_and_a_password() {
        for users in [
            vec![User::admin("", "x")],
            vec![User::admin("a", "")],
            vec![User::admin("a", "x"), User::viewer("a", "y")],
        ] {
            let config = users.into_iter().fold(Config::default(), Config::user);
            assert!(matches!(config.check(), Err(ServerError::BadUser { .. })));
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let config = Config::default().user(User::admin("a", "hunter2"));
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
