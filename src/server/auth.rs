//! The way in: first packets, password, greeting.
//!
//! Mechanism, on the server's thread. Passwords are not kept: what is kept verifies them. Who names a user that does not
//! exist goes the whole way and fails at its end, as with a wrong password.

use super::cancel::{self, Entry};
use super::config::{Role, User};
use super::fault::{Fault, Severity};
use super::frame::{self, First, Message};
use super::listen::{Door, Shared};
use super::settings::{RESOURCE_GROUP, Settings, canonical};
use super::wire::{Broken, Wire};
use crate::unit::Nanos;
use async_trait::async_trait;
use pgwire::api::DefaultClient;
use pgwire::api::auth::mechanism::{AuthMechanismFactory, AuthState};
use pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramAuth, ScramSecret, gen_salted_password, random_nonce,
};
use pgwire::api::auth::{AuthSource, LoginInfo, Password};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus,
    PasswordMessageFamily, SASLInitialResponse, SASLResponse,
};
use pgwire::messages::{PgWireBackendMessage, ProtocolVersion};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::sleep;

/// Somebody who may come in, as the server keeps them.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) roles: Vec<String>,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

/// Without what verifies the password.
impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// All who may come in.
#[derive(Debug, Default)]
pub(super) struct Members {
    pub(super) all: Vec<Member>,
    /// Gives each name its salt, whether there is such a user or not: salts tell nobody who there is.
    salts: RandomState,
}

impl Members {
    pub(super) fn new(users: Vec<User>) -> Members {
        let salts = RandomState::new();
        let member = |user: User| {
            let salt = salt(&salts, &user.name);
            Member::new(user, salt)
        };
        Members {
            all: users.into_iter().map(member).collect(),
            salts,
        }
    }

    fn find(&self, name: &str) -> Option<&Member> {
        self.all.iter().find(|member| member.name == name)
    }
}

/// The salt of a name, which stays the same.
fn salt(salts: &RandomState, name: &str) -> Vec<u8> {
    let parts = [0_u8, 1, 2].map(|part| salts.hash_one((part, name)).to_be_bytes());
    parts.concat()
}

impl Member {
    fn new(user: User, salt: Vec<u8>) -> Member {
        let salted = gen_salted_password(&user.password, &salt, SCRAM_ITERATIONS);
        let secret =
            ScramSecret::verifier_from_salted_password(salt.clone(), salted, SCRAM_ITERATIONS);
        let (stored_key, server_key) = match secret {
            ScramSecret::Verifier {
                stored_key,
                server_key,
                ..
            } => (stored_key, server_key),
            ScramSecret::SaltedPassword { .. } => Default::default(),
        };
        Member {
            name: user.name,
            role: user.role,
            roles: user.roles,
            salt,
            stored_key,
            server_key,
        }
    }
}

#[async_trait]
impl AuthSource for Members {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        // Only the verifier is known.
        Err(PgWireError::InvalidPassword(
            login.user().unwrap_or_default().to_owned(),
        ))
    }

    async fn get_scram_secret(&self, login: &LoginInfo) -> PgWireResult<(ScramSecret, Option<()>)> {
        let name = login.user().unwrap_or_default();
        let (salt, stored_key, server_key) = match self.find(name) {
            Some(member) => (
                member.salt.clone(),
                member.stored_key.clone(),
                member.server_key.clone(),
            ),
            None => {
                // No proof fits what nobody has made; it is as long as what somebody has.
                let key = || {
                    let mut key = (random_nonce() + &random_nonce()).into_bytes();
                    key.truncate(32);
                    key
                };
                (salt(&self.salts, name), key(), key())
            }
        };
        let iterations = SCRAM_ITERATIONS;
        Ok((
            ScramSecret::Verifier {
                salt,
                iterations,
                stored_key,
                server_key,
            },
            None,
        ))
    }
}

/// A client that is in.
pub(super) struct Guest {
    pub(super) user: String,
    pub(super) database: String,
    pub(super) role: Role,
    pub(super) roles: Vec<String>,
    pub(super) address: Option<IpAddr>,
    pub(super) settings: Settings,
    pub(super) entry: Entry,
}

/// Leads a client in. None if it only wanted to interrupt another.
pub(super) async fn enter(
    wire: &mut Wire,
    shared: &Arc<Shared>,
    door: &mut Door,
    address: Option<IpAddr>,
) -> Result<Option<Guest>, Broken> {
    let mut asked = 0;
    let (minor, parameters) = loop {
        match wire.first().await? {
            First::Startup { minor, parameters } => break (minor, parameters),
            First::Cancel { process, secret } => {
                shared.sessions.cancel(process, &secret);
                return Ok(None);
            }
            First::Tls | First::Gss if asked < 4 => {
                asked += 1;
                wire.feed_bytes(b"N").await?;
            }
            First::Tls | First::Gss => {
                return Err(Broken::Fault(Fault::protocol("encryption is not offered")));
            }
        }
    };
    let version = negotiate(wire, minor, &parameters).await?;
    let parameter = |name: &str| {
        let found = parameters.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.clone())
            .filter(|value| !value.is_empty())
    };
    let user = parameter("user").ok_or_else(|| {
        Broken::Fault(Fault::fatal(
            "28000",
            "no PostgreSQL user name specified in startup packet",
        ))
    })?;
    let client = cancel::client(&user, version);
    let member = authenticate(wire, shared, &client, &user, address).await?;
    if !door.enter() {
        return Err(Broken::Fault(
            Fault::fatal("53300", "sorry, too many clients already").detail(format!(
                "{} may be connected at once",
                shared.config.max_connections
            )),
        ));
    }
    let mut settings = Settings::default();
    for (name, value) in &parameters {
        // Whoever wants a group must SET it, where it is asked whether they may.
        if canonical(name) == Some(RESOURCE_GROUP) {
            continue;
        }
        match settings.set(name, value) {
            Err(fault) if name == "client_encoding" => {
                return Err(Broken::Fault(Fault {
                    severity: Severity::Fatal,
                    ..fault
                }));
            }
            // What it asks for besides is a wish.
            _ => {}
        }
    }
    let (role, roles) = match member {
        Some(member) => (member.role, member.roles.clone()),
        None => (Role::Admin, Vec::new()),
    };
    settings.tell(
        "is_superuser",
        if role == Role::Admin { "on" } else { "off" },
    );
    settings.tell("session_authorization", &user);
    settings.begin();
    let guest = Guest {
        database: parameter("database").unwrap_or_else(|| user.clone()),
        user,
        role,
        roles,
        address,
        settings,
        entry: shared.sessions.enter(&client),
    };
    greet(wire, &guest).await?;
    Ok(Some(guest))
}

/// 3.0 and 3.2 are spoken; for anything else of 3 the client is told which.
async fn negotiate(
    wire: &mut Wire,
    minor: u16,
    parameters: &[(String, String)],
) -> Result<ProtocolVersion, Broken> {
    let version = if minor >= 2 {
        ProtocolVersion::PROTOCOL3_2
    } else {
        ProtocolVersion::PROTOCOL3_0
    };
    let extensions = parameters
        .iter()
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("_pq_."));
    let extensions: Vec<String> = extensions.cloned().collect();
    if !matches!(minor, 0 | 2) || !extensions.is_empty() {
        let message = NegotiateProtocolVersion::new(version.into(), extensions);
        wire.feed(PgWireBackendMessage::NegotiateProtocolVersion(message))
            .await?;
    }
    Ok(version)
}

/// By SCRAM-SHA-256, if anybody has a password.
async fn authenticate<'a>(
    wire: &mut Wire,
    shared: &'a Arc<Shared>,
    client: &DefaultClient<()>,
    user: &str,
    address: Option<IpAddr>,
) -> Result<Option<&'a Member>, Broken> {
    if shared.members.all.is_empty() {
        return Ok(None);
    }
    let refused = |error: &PgWireError| {
        crate::event::admin_port(&format_args!("{user:?} was not let in: {error}"));
        Broken::Fault(Fault::fatal(
            "28P01",
            format!("password authentication failed for user \"{user}\""),
        ))
    };
    let mut scram = ScramAuth::<()>::new(shared.members.clone());
    scram.set_iterations(SCRAM_ITERATIONS);
    let mut mechanism = scram.create();
    let who = shared.guesses.lock().of(address, user);
    let mut state = mechanism.begin(client).await;
    let mut is_first = true;
    loop {
        let ended = match state {
            Ok(AuthState::InProgress(request)) => {
                wire.feed(PgWireBackendMessage::Authentication(request))
                    .await?;
                false
            }
            Ok(AuthState::Ok { final_message, .. }) => {
                if let Some(message) = final_message {
                    wire.feed(PgWireBackendMessage::Authentication(message))
                        .await?;
                }
                true
            }
            Ok(AuthState::Failed(error)) | Err(error) => return Err(refused(&error)),
        };
        if ended {
            shared.guesses.lock().right(who);
            // The name that was authenticated is that of the secret which was asked for.
            return Ok(shared.members.find(user));
        }
        wire.flush().await?;
        /// More than any step of SCRAM needs.
        const MOST: usize = 4 << 10;
        let body = match wire.message(MOST).await? {
            Message::Password(body) => body,
            Message::Terminate => return Err(Broken::Gone),
            _ => {
                return Err(Broken::Fault(Fault::protocol(
                    "expected an answer of authentication",
                )));
            }
        };
        let answer = if is_first {
            let (mechanism, data) =
                frame::sasl_first(&body).map_err(|it| Broken::Fault(Fault::of_malformed(&it)))?;
            PasswordMessageFamily::SASLInitialResponse(SASLInitialResponse::new(
                mechanism,
                data.map(Into::into),
            ))
        } else {
            PasswordMessageFamily::SASLResponse(SASLResponse::new(body.into()))
        };
        if !std::mem::take(&mut is_first) {
            // It has the proof of a password.
            look(wire, shared, who, user).await?;
        }
        state = mechanism.next(client, answer).await;
    }
}

/// Waits until the password may be looked at, if somebody has guessed wrong before.
async fn look(wire: &Wire, shared: &Arc<Shared>, who: u64, user: &str) -> Result<(), Broken> {
    let mut place = None;
    loop {
        let now = Nanos::from(shared.began.elapsed());
        let Err(until) = shared.guesses.lock().look(who, now) else {
            return Ok(());
        };
        if place.is_none() {
            place = Some(Waiting::new(shared, until, now).ok_or_else(|| {
                let delay = shared.config.auth_delay.as_secs_f64();
                crate::event::admin_port(&format_args!(
                    "{user:?} was sent away: a password is looked at {delay} s after a wrong one, and no more \
                     connections wait for that"
                ));
                let fault = Fault::fatal("53300", "too many passwords wait to be looked at");
                let hint = format!("after a wrong one the next is looked at {delay} s later");
                Broken::Fault(fault.hint(hint))
            })?);
        }
        tokio::select! {
            () = sleep(until.since(now).into()) => {}
            // Who has gone does not wait.
            () = wire.hung_up() => return Err(Broken::Gone),
        }
    }
}

/// A place to wait at, until it is dropped.
struct Waiting<'a>(&'a Shared);

impl Waiting<'_> {
    fn new(shared: &Shared, until: Nanos, now: Nanos) -> Option<Waiting<'_>> {
        let is_free = shared.guesses.lock().wait(until, now);
        is_free.then(|| Waiting(shared))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.guesses.lock().go();
    }
}

async fn greet(wire: &mut Wire, guest: &Guest) -> Result<(), Broken> {
    wire.feed(PgWireBackendMessage::Authentication(Authentication::Ok))
        .await?;
    for (name, value) in guest.settings.reported() {
        let status = ParameterStatus::new(name.to_owned(), value.to_owned());
        wire.feed(PgWireBackendMessage::ParameterStatus(status))
            .await?;
    }
    let key = BackendKeyData::new(guest.entry.process, guest.entry.secret.clone());
    wire.feed(PgWireBackendMessage::BackendKeyData(key)).await
}
