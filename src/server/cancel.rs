//! Who may be interrupted: each session under its process number and secret.
//!
//! Mechanism, on the server's thread and those that drop it.

use parking_lot::Mutex;
use pgwire::api::auth::LoginInfo;
use pgwire::api::{DefaultClient, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::ProtocolVersion;
use pgwire::messages::startup::SecretKey;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::Notify;

/// The interruption of one session's running statement.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    asked: AtomicBool,
    wake: Notify,
}

impl Interrupt {
    /// What was asked before this statement was not meant for it.
    pub(super) fn begin(&self) {
        self.asked.store(false, Relaxed);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Relaxed)
    }

    /// Waits until it is asked.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn asked(&self) {
        loop {
            let woken = self.wake.notified();
            if self.is_asked() {
                return;
            }
            woken.await;
        }
    }

    fn ask(&self) {
        self.asked.store(true, Relaxed);
        self.wake.notify_waiters();
    }
}

/// All sessions that may be interrupted.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    keys: RandomPidSecretKeyGenerator,
    by_process: Mutex<HashMap<i32, Key>>,
}

/// A session's secret, and what it opens.
type Key = (Vec<u8>, Arc<Interrupt>);

/// A session's entry; it is gone with this value.
#[derive(Debug)]
pub(super) struct Entry {
    sessions: Arc<Sessions>,
    pub(super) process: i32,
    pub(super) secret: SecretKey,
    pub(super) interrupt: Arc<Interrupt>,
}

impl Sessions {
    /// Enters a session.
    pub(super) fn enter(self: &Arc<Self>, client: &DefaultClient<()>) -> Entry {
        let (process, secret) = self.keys.generate(client);
        let interrupt = Arc::<Interrupt>::default();
        let key = (secret.to_bytes().to_vec(), interrupt.clone());
        self.by_process.lock().insert(process, key);
        Entry {
            sessions: self.clone(),
            process,
            secret,
            interrupt,
        }
    }

    /// Interrupts the session, if the secret is its own.
    pub(super) fn cancel(&self, process: i32, secret: &[u8]) -> bool {
        let sessions = self.by_process.lock();
        let Some((own, interrupt)) = sessions.get(&process) else {
            return false;
        };
        // All of it is looked at, however early it differs.
        let differs = own
            .iter()
            .zip(secret)
            .fold(0, |differs, (a, b)| differs | (a ^ b));
        let is_own = own.len() == secret.len() && differs == 0;
        if is_own {
            interrupt.ask();
        }
        is_own
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.sessions.by_process.lock().remove(&self.process);
    }
}

/// A client as the library's authentication sees it.
pub(super) fn client(user: &str, version: ProtocolVersion) -> DefaultClient<()> {
    let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let mut client = DefaultClient::new(nowhere, false);
    client.protocol_version = version;
    client
        .metadata
        .insert(pgwire::api::METADATA_USER.to_owned(), user.to_owned());
    debug_assert_eq!(LoginInfo::from_client_info(&client).user(), Some(user));
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_secret_interrupts_and_only_while_the_session_lives() {
        let sessions = Arc::<Sessions>::default();
        let entry = sessions.enter(&client("a", ProtocolVersion::PROTOCOL3_2));
        let secret = entry.secret.to_bytes().to_vec();
        assert_eq!(secret.len(), 32);
        assert!(!sessions.cancel(entry.process, &secret[1..]));
        assert!(!sessions.cancel(entry.process, b""));
        assert!(!sessions.cancel(entry.process + 1, &secret));
        assert!(!entry.interrupt.is_asked());
        assert!(sessions.cancel(entry.process, &secret));
        assert!(entry.interrupt.is_asked());
        entry.interrupt.begin();
        assert!(!entry.interrupt.is_asked());
        let process = entry.process;
        drop(entry);
        assert!(!sessions.cancel(process, &secret));
    }
}
