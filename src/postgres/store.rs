//! The front of the link: options, and a store that waits for its answers.
//!
//! Mechanism; any thread that may block. Without a link yet, the first call starts it.

use super::connect::{self, Connect};
use super::link::{self, Answer, Ask, Event, Shared};
use super::options::Options;
use super::schema::is_name;
use crate::catalog::store::{CatalogStore, Changed, FileStore, StoreError};
use crate::governor::Error;
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, NoTls, Socket};

/// Between these are all intervals: a deadline is some of them from now, and the server counts them in milliseconds of
/// 32 bits.
const LEAST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_secs(24 * 3600);

/// A catalog in a table of PostgreSQL, shared by the processes of a fleet. Clones are the same link, which is for one
/// governor: give it the store, and keep a clone for [`status`](PostgresCatalog::status).
#[derive(Clone)]
pub struct PostgresCatalog {
    options: Options,
    shared: Arc<Shared>,
    link: Arc<Mutex<Option<UnboundedSender<Event>>>>,
}

/// How the link to the database is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether it is connected.
    pub connected: bool,
    /// How often it was, since the program began.
    pub connections: u64,
    /// Why it is not, or was not when it was tried last.
    pub last_error: Option<String>,
}

impl PostgresCatalog {
    /// In the database that `url` names, as `host=… user=… dbname=…` or `postgres://…`, without encryption: within one
    /// machine, through a Unix socket or a tunnel. Nothing is connected before the governor is built.
    ///
    /// # Errors
    ///
    /// A text that cannot be read.
    pub fn new(url: &str) -> Result<PostgresCatalog, tokio_postgres::Error> {
        Ok(PostgresCatalog::with(url.parse()?, NoTls))
    }

    /// The same, by an own configuration and an own way of encryption, as `tokio_postgres::Config::connect` takes them.
    pub fn with<T>(config: Config, tls: T) -> PostgresCatalog
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connect: Connect = connect::by(tls);
        PostgresCatalog {
            options: Options::new(config, connect),
            shared: Arc::default(),
            link: Arc::default(),
        }
    }

    /// Whose catalog it is: processes that name the same fleet share one. Default: `default`.
    #[must_use]
    pub fn fleet(mut self, name: impl Into<String>) -> PostgresCatalog {
        self.options.fleet = name.into();
        self
    }

    /// The table; it is created with another one, of the same name and `_history`, if it is not there. Default:
    /// `quotient_catalog`.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for anything but one or two words of lower case, digits and `_`, with a dot between, of 40
    /// bytes each at most.
    pub fn table(mut self, name: &str) -> Result<PostgresCatalog, Error> {
        if !is_name(name) {
            return Err(Error::Invalid {
                what: "table",
                value: name.to_owned(),
                allowed: "a name as groups or ops.groups: lower case, digits and _",
            });
        }
        self.options.table = name.to_owned();
        Ok(self)
    }

    /// What the table says of who made a change. Default: the host's name and the process's id.
    #[must_use]
    pub fn member(mut self, name: impl Into<String>) -> PostgresCatalog {
        self.options.member = name.into();
        self
    }

    /// How often the table is read though nobody told of a change; at least 10 ms, a day at
    /// most. Default: 30 s, give or take a tenth.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> PostgresCatalog {
        self.options.poll = interval.clamp(LEAST, MOST);
        self
    }

    /// How long an answer of the database is waited for, connecting included; at least 10 ms, a day at most. A statement that changes
    /// the catalog fails after it, or after twice of it if the answer was lost. A fifth of it is what a message may be under
    /// way, unless the configuration has a `tcp_user_timeout` of its own; the server gives up a statement after seven
    /// tenths. Default: 5 s.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> PostgresCatalog {
        self.options.patience = patience.clamp(LEAST, MOST);
        self
    }

    /// A file of this host, to which each text that was read or written is copied. With
    /// [`CatalogMode::Lenient`](crate::catalog::CatalogMode::Lenient) a program that starts while the database is away
    /// begins with it. Default: none.
    #[must_use]
    pub fn copy_to(mut self, path: impl Into<PathBuf>) -> PostgresCatalog {
        self.options.copy = Some(path.into());
        self
    }

    /// How the link is now.
    pub fn status(&self) -> Status {
        self.shared.status.lock().clone()
    }

    fn failed(&self, step: &'static str, why: &dyn ToString) -> StoreError {
        StoreError::Failed {
            place: self.place(),
            step,
            why: why.to_string(),
        }
    }

    /// The link, started if it is not there, or anew if its thread broke.
    fn link(&self) -> Result<UnboundedSender<Event>, StoreError> {
        let mut link = self.link.lock();
        if let Some(events) = link.as_ref().filter(|events| !events.is_closed()) {
            return Ok(events.clone());
        }
        let started = link::start(self.options.clone(), self.shared.clone())
            .map_err(|error| self.failed("start the link", &error))?;
        Ok(link.insert(started).clone())
    }

    fn ask(&self, ask: Ask) -> Answer {
        let lost = "the link broke";
        let unknown = |why: &str| match ask_is_save(&ask) {
            true => StoreError::Unknown {
                place: self.place(),
                why: why.to_owned(),
            },
            false => self.failed("read", &why),
        };
        let (late, broken) = (unknown("it did not answer in time"), unknown(lost));
        let (reply, answer) = sync_channel(1);
        let sent = self.link()?.send(Event::Ask(ask, Instant::now(), reply));
        sent.map_err(|_| self.failed("reach the link", &lost))?;
        // The link answers by itself before this is over.
        let patience = self.options.patience * 3 + Duration::from_secs(1);
        match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(late),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(broken),
        }
    }

    /// Keeps a copy. One that cannot be kept is missed at a start without the database, and only then.
    fn keep_copy(&self, text: &str) {
        let Some(path) = &self.options.copy else {
            return;
        };
        let copy = FileStore::new(path);
        let there = copy.load().ok().flatten();
        if there.as_deref() != Some(text) {
            let _ = copy.save(text, there.as_deref());
        }
    }
}

fn ask_is_save(ask: &Ask) -> bool {
    matches!(ask, Ask::Save { .. })
}

impl CatalogStore for PostgresCatalog {
    fn load(&self) -> Result<Option<String>, StoreError> {
        let text = self.ask(Ask::Load)?;
        if let Some(text) = &text {
            self.keep_copy(text);
        }
        Ok(text)
    }

    fn save(&self, text: &str, seen: Option<&str>) -> Result<(), StoreError> {
        self.ask(Ask::Save {
            text: text.to_owned(),
            seen: seen.map(str::to_owned),
        })?;
        self.keep_copy(text);
        Ok(())
    }

    fn place(&self) -> String {
        self.options.place()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn watch(&self, changed: Changed) {
        *self.shared.bell.lock() = Some(changed);
    }

    fn copy(&self) -> Option<String> {
        let path = self.options.copy.as_ref()?;
        FileStore::new(path).load().ok().flatten()
    }
}

impl fmt::Debug for PostgresCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresCatalog")
            .field("place", &self.place())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
