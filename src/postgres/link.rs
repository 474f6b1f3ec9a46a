//! The link to the database: one thread that connects, answers, listens and comes back.
//!
//! Mechanism; the thread of the link, and those that wait for its answers.
//!
//! 1. Each ask is answered, at the latest when the patience is over twice.
//! 2. `Conflict` and `Failed` are certain: nothing was written. What is not certain is looked up in the history once the
//!    server answers again, and is `Unknown` if it does not.
//! 3. The bell rings after each connection, each notification and each interval.

use super::backoff::Backoff;
use super::options::Options;
use super::schema::Schema;
use super::session::{Ears, Failure, Row, Session};
use super::store::Status;
use crate::catalog::store::{Changed, StoreError};
use crate::event;
use parking_lot::Mutex;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::sync::mpsc::{
    UnboundedReceiver, UnboundedSender, WeakUnboundedSender, unbounded_channel,
};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Statement;

/// What both sides see.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) bell: Mutex<Option<Changed>>,
    pub(super) status: Mutex<Status>,
}

impl Shared {
    fn ring(&self) {
        let bell = self.bell.lock().clone();
        if let Some(bell) = bell {
            bell();
        }
    }
}

/// What is asked of the link.
pub(super) enum Ask {
    Load,
    Save { text: String, seen: Option<String> },
}

/// The text that was loaded; nothing after a save.
pub(super) type Answer = Result<Option<String>, StoreError>;

pub(super) enum Event {
    Ask(Ask, Instant, SyncSender<Answer>),
    /// The session of that number is over.
    Lost(u64),
}

/// Starts the thread. It ends when the sender is dropped.
pub(super) fn start(options: Options, shared: Arc<Shared>) -> io::Result<UnboundedSender<Event>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (sender, events) = unbounded_channel();
    let link = Link {
        schema: Arc::new(Schema::of(&options.table)),
        shared,
        events,
        itself: sender.downgrade(),
        // A different seed in each process.
        backoff: Backoff::new(RandomState::new().hash_one(std::process::id())),
        session: None,
        since: Instant::now(),
        number: 0,
        known: None,
        away: false,
        options,
    };
    std::thread::Builder::new()
        .name("quotient-postgres".into())
        .spawn(move || runtime.block_on(link.run()))?;
    Ok(sender)
}

struct Link {
    options: Options,
    schema: Arc<Schema>,
    shared: Arc<Shared>,
    events: UnboundedReceiver<Event>,
    itself: WeakUnboundedSender<Event>,
    backoff: Backoff,
    session: Option<Session>,
    /// When it began.
    since: Instant,
    number: u64,
    /// The row as it was read or written last.
    known: Option<Row>,
    /// The last attempt failed.
    away: bool,
}

impl Link {
    async fn run(mut self) {
        let mut next = Instant::now() + self.backoff.about(self.options.poll);
        loop {
            let before = (self.session.is_some(), self.away);
            match timeout_at(next, self.events.recv()).await {
                Ok(None) => break,
                Ok(Some(Event::Ask(ask, asked, reply))) => {
                    let answer = self.answer(ask, asked).await;
                    // Who asked may have lost patience.
                    let _ = reply.try_send(answer);
                    // However often somebody asks, the link's own attempts and polls go on in their time.
                    if before == (self.session.is_some(), self.away) {
                        continue;
                    }
                }
                Ok(Some(Event::Lost(number))) if number == self.number => {
                    self.leave("the connection has ended");
                }
                Ok(Some(Event::Lost(_))) => continue,
                Err(_) => self.tick().await,
            }
            let wait = match &self.session {
                Some(_) => self.backoff.about(self.options.poll),
                None => self.backoff.next(),
            };
            next = Instant::now() + wait;
        }
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    async fn tick(&mut self) {
        if self.session.is_some() {
            self.shared.ring();
        } else {
            let deadline = Instant::now() + self.options.patience;
            let _ = self.connected(deadline).await;
        }
    }

    async fn connected(&mut self, deadline: Instant) -> Result<&Session, Failure> {
        if self.session.as_ref().is_some_and(Session::is_closed) {
            self.leave("the connection has ended");
        }
        let session = match self.session.take() {
            Some(session) => session,
            None => self.connect(deadline).await?,
        };
        Ok(self.session.insert(session))
    }

    async fn connect(&mut self, deadline: Instant) -> Result<Session, Failure> {
        self.number += 1;
        let (number, itself) = (self.number, self.itself.clone());
        let shared = self.shared.clone();
        let ears = Ears {
            heard: Box::new(move || shared.ring()),
            lost: Box::new(move || {
                if let Some(events) = itself.upgrade() {
                    let _ = events.send(Event::Lost(number));
                }
            }),
        };
        match Session::open(&self.options, &self.schema, deadline, ears).await {
            Ok(session) => {
                self.since = Instant::now();
                {
                    let mut status = self.shared.status.lock();
                    status.connected = true;
                    status.connections += 1;
                    status.last_error = None;
                }
                if std::mem::take(&mut self.away) {
                    event::catalog_back(&self.options.place());
                }
                // What was changed meanwhile was told to nobody.
                self.shared.ring();
                Ok(session)
            }
            Err(failure) => {
                self.gone(&failure.to_string());
                Err(failure)
            }
        }
    }

    /// The session is of no use any more.
    fn leave(&mut self, why: &str) {
        if let Some(session) = self.session.take() {
            session.end();
            // A server that hangs up on whoever comes is not to be asked ten times a second.
            if self.since.elapsed() >= STEADY {
                self.backoff.reset();
            }
        }
        self.gone(why);
    }

    fn gone(&mut self, why: &str) {
        {
            let mut status = self.shared.status.lock();
            status.connected = false;
            status.last_error = Some(why.to_owned());
        }
        if !std::mem::replace(&mut self.away, true) {
            let place = self.options.place();
            event::catalog_away(&format_args!("{place}: {why}"));
        }
    }

    async fn answer(&mut self, ask: Ask, asked: Instant) -> Answer {
        let deadline = asked + self.options.patience;
        if Instant::now() >= deadline {
            return Err(self.failed("reach the database", &"it did not answer others in time"));
        }
        match ask {
            Ask::Load => match self.read(deadline).await {
                Ok(row) => Ok(row.map(|row| row.script)),
                Err(failure) => Err(self.failed("read", &failure)),
            },
            Ask::Save { text, seen } => self.save(&text, seen.as_deref(), deadline).await,
        }
    }

    async fn read(&mut self, deadline: Instant) -> Result<Option<Row>, Failure> {
        let mut fresh = self.session.is_none();
        loop {
            match self.connected(deadline).await?.read(deadline).await {
                Ok(row) => {
                    self.known.clone_from(&row);
                    return Ok(row);
                }
                Err(Failure::Lost(why)) => {
                    self.leave(&why);
                    // A connection of yesterday says little about the server of today: once more.
                    if std::mem::replace(&mut fresh, true) {
                        return Err(Failure::Lost(why));
                    }
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    async fn save(&mut self, text: &str, seen: Option<&str>, deadline: Instant) -> Answer {
        let place = self.options.place();
        let known = self.known.clone();
        let row = match (seen, known) {
            (None, _) => None,
            (Some(seen), Some(row)) if row.script == seen => Some(row),
            (Some(seen), _) => match self.read(deadline).await {
                Ok(Some(row)) if row.script == seen => Some(row),
                Ok(_) => return Err(StoreError::Conflict { place }),
                Err(failure) => return Err(self.failed("read", &failure)),
            },
        };
        let by = match self.ready(row.as_ref(), deadline).await {
            Ok(by) => by,
            Err(Failure::Refused(why)) => return Err(self.failed("write", &why)),
            Err(Failure::Lost(why)) => return Err(self.failed("reach the database", &why)),
        };
        // That one and no other: the statement is known to it alone.
        let Some(session) = &self.session else {
            return Err(self.failed("reach the database", &"the connection has ended"));
        };
        let sent = Instant::now();
        match session.replace(&by, text, row.as_ref(), deadline).await {
            Ok(Some(revision)) => {
                let script = text.to_owned();
                self.known = Some(Row { revision, script });
                Ok(None)
            }
            Ok(None) => {
                self.known = None;
                Err(StoreError::Conflict { place })
            }
            Err(Failure::Refused(why)) => Err(self.failed("write", &why)),
            Err(Failure::Lost(why)) => {
                self.leave(&why);
                self.known = None;
                let settled = sent + self.options.given_up();
                let last = deadline + self.options.patience;
                self.find_out(text, row.as_ref(), settled, last, why).await
            }
        }
    }

    /// Gets ready to replace a row. What is lost here was not a change yet: another connection is as good.
    async fn ready(&mut self, row: Option<&Row>, deadline: Instant) -> Result<Statement, Failure> {
        let mut fresh = self.session.is_none();
        loop {
            match self.connected(deadline).await?.ready(row, deadline).await {
                Err(Failure::Lost(why)) => {
                    self.leave(&why);
                    if std::mem::replace(&mut fresh, true) {
                        return Err(Failure::Lost(why));
                    }
                }
                done => return done,
            }
        }
    }

    /// Whether a change was made whose answer was lost. The server may be at it still, but not when `settled` has come:
    /// it gives up before.
    async fn find_out(
        &mut self,
        text: &str,
        before: Option<&Row>,
        settled: Instant,
        deadline: Instant,
        why: String,
    ) -> Answer {
        loop {
            let late = Instant::now() >= settled;
            let found = match self.connected(deadline).await {
                Ok(session) => session.happened(text, before, deadline).await,
                Err(failure) => Err(failure),
            };
            match found {
                Ok(true) => return Ok(None),
                Ok(false) if late => return Err(self.failed("write", &why)),
                Ok(false) | Err(Failure::Refused(_)) => {}
                Err(Failure::Lost(lost)) => self.leave(&lost),
            }
            if Instant::now() >= deadline {
                let place = self.options.place();
                return Err(StoreError::Unknown { place, why });
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn failed(&self, step: &'static str, why: &dyn ToString) -> StoreError {
        StoreError::Failed {
            place: self.options.place(),
            step,
            why: why.to_string(),
        }
    }
}

/// A session that lasted so long was one: the next wait is short again.
const STEADY: Duration = Duration::from_secs(10);

/// Between two looks whether a change was made.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
