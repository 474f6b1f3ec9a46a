//! One client that is in: its messages one after the other, until it leaves.
//!
//! Mechanism, on the server's thread. A statement has run, and every lock of the governor is free, before the first byte of
//! its answer is sent.

mod extended;
mod local;
mod prepared;
mod run;

use super::answer::{Answer, Formats, describe, row};
use super::auth::Guest;
use super::fault::{Fault, Severity};
use super::frame::Message;
use super::listen::Shared;
use super::request::{Request, requests};
use super::wire::{Broken, Wire};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{EmptyQueryResponse, ReadyForQuery, TransactionStatus};
use prepared::Prepared;
use std::sync::Arc;

/// A client that is in.
pub(super) struct Session<'a> {
    wire: &'a mut Wire,
    shared: Arc<Shared>,
    guest: Guest,
    /// Between BEGIN and COMMIT, as the client believes.
    in_transaction: bool,
    prepared: Prepared,
    /// After an error in the extended protocol nothing counts up to the next Sync.
    skipping: bool,
    /// The client waits to be told that it may send the next statement.
    owes_ready: bool,
}

/// What a message does to the session: it may break the connection, or be an error that the client is told.
pub(super) enum Trouble {
    Broken(Broken),
    Fault(Fault),
}

impl From<Broken> for Trouble {
    fn from(broken: Broken) -> Trouble {
        Trouble::Broken(broken)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Fault(fault)
    }
}

pub(super) type Done = Result<(), Trouble>;

impl<'a> Session<'a> {
    pub(super) fn new(wire: &'a mut Wire, shared: Arc<Shared>, guest: Guest) -> Session<'a> {
        Session {
            wire,
            shared,
            guest,
            in_transaction: false,
            prepared: Prepared::default(),
            skipping: false,
            owes_ready: true,
        }
    }

    /// Serves the client; why it ended.
    pub(super) async fn run(&mut self) -> Broken {
        loop {
            if let Err(broken) = self.step().await {
                return broken;
            }
        }
    }

    async fn step(&mut self) -> Result<(), Broken> {
        if std::mem::take(&mut self.owes_ready) {
            self.ready().await?;
        }
        let message = match self.next().await {
            Ok(message) => message,
            Err(Broken::Unreadable(fault, is_simple)) if !self.skipping => {
                return self.failed(fault, is_simple).await;
            }
            Err(Broken::Unreadable(..)) => return Ok(()),
            Err(broken) => return Err(broken),
        };
        if self.skipping && !matches!(message, Message::Sync | Message::Terminate) {
            return Ok(());
        }
        let is_simple = matches!(message, Message::Query(_) | Message::Call);
        let done = match message {
            Message::Query(script) => self.simple(&script).await,
            Message::Terminate => return Err(Broken::Gone),
            Message::Call => {
                Err(Fault::error("0A000", "functions cannot be called by their number").into())
            }
            // Of a COPY that was never begun: PostgreSQL is silent too.
            Message::Copy => return Ok(()),
            Message::Password(_) => Err(Fault::protocol("there is nothing to authenticate").into()),
            extended => self.extended(extended).await,
        };
        match done {
            Ok(()) => {
                self.owes_ready |= is_simple;
                Ok(())
            }
            Err(Trouble::Broken(broken)) => Err(broken),
            Err(Trouble::Fault(fault)) if fault.severity == Severity::Fatal => {
                Err(Broken::Fault(fault))
            }
            Err(Trouble::Fault(fault)) => self.failed(fault, is_simple).await,
        }
    }

    /// The next message; within, the end of the server and of the client's patience.
    async fn next(&mut self) -> Result<Message, Broken> {
        let idle = self.shared.config.idle_timeout;
        tokio::select! {
            readable = self.wire.readable() => readable?,
            _ = tokio::time::sleep(idle) => {
                let fault = Fault::fatal("57P05", "terminating connection due to idle-session timeout");
                return Err(Broken::Fault(fault));
            }
            _ = self.shared.ended() => {
                let fault = Fault::fatal("57P01", "terminating connection due to administrator command");
                return Err(Broken::Fault(fault));
            }
        }
        self.wire.message(self.shared.config.max_message).await
    }

    /// Tells the client of an error. In the extended protocol, what follows is skipped up to a Sync.
    async fn failed(&mut self, fault: Fault, is_simple: bool) -> Result<(), Broken> {
        let message = PgWireBackendMessage::ErrorResponse(fault.into_info().into());
        self.wire.feed(message).await?;
        self.owes_ready = is_simple;
        self.skipping = !is_simple;
        self.wire.flush().await
    }

    async fn ready(&mut self) -> Result<(), Broken> {
        let status = if self.in_transaction {
            TransactionStatus::Transaction
        } else {
            TransactionStatus::Idle
        };
        self.wire.rest();
        self.wire
            .feed(PgWireBackendMessage::ReadyForQuery(ReadyForQuery::new(
                status,
            )))
            .await?;
        self.wire.flush().await
    }

    /// A script in one message: each statement's answer is sent before the next is run, the first that fails ends it.
    async fn simple(&mut self, script: &str) -> Done {
        self.guest.entry.interrupt.begin();
        let all = self.read(script).await?;
        if all == 0 {
            self.wire
                .feed(PgWireBackendMessage::EmptyQueryResponse(
                    EmptyQueryResponse::new(),
                ))
                .await?;
        }
        // Read again, so that no more than one of them is held.
        for (done, request) in requests(script).enumerate() {
            let request = request?;
            if done > 0 {
                // The thread is everybody's, also of who would interrupt this.
                tokio::task::yield_now().await;
            }
            let answer = self
                .answer(&request, &|at| at)
                .await
                .map_err(|fault| match all {
                    1 => fault,
                    _ => fault.detail(format!(
                        "statement {} of {all}; {done} done before it stay done",
                        done + 1
                    )),
                })?;
            self.send(&answer).await?;
        }
        Ok(())
    }

    /// Reads a script to its end, or to its first mistake: how many statements it has.
    async fn read(&self, script: &str) -> Result<usize, Fault> {
        /// Statements that are read in a turn: the thread is everybody's.
        const TURN: usize = 64;
        let mut all = 0;
        for request in requests(script) {
            drop(request?);
            all += 1;
            if all % TURN == 0 {
                tokio::task::yield_now().await;
            }
        }
        Ok(all)
    }

    /// Runs a statement. `original` finds a place of its text in what the client sent.
    async fn answer(
        &mut self,
        request: &Request,
        original: &(dyn Fn(usize) -> usize + Send + Sync),
    ) -> Result<Answer, Fault> {
        if self.guest.entry.interrupt.is_asked() {
            return Err(Fault::cancelled());
        }
        let answer = self.execute(request).await;
        answer.map_err(|fault| {
            let mut fault = fault.behind(request.begins);
            fault.at = fault.at.map(original);
            fault
        })
    }

    /// Sends a whole answer with its description.
    async fn send(&mut self, answer: &Answer) -> Done {
        self.remark(&answer.remarks).await?;
        let mut sent = 0;
        if let Some(fields) = &answer.fields {
            let formats = Formats::default();
            self.wire.feed(describe(fields, &formats)).await?;
            for values in &answer.rows {
                if self.guest.entry.interrupt.is_asked() {
                    return Err(Fault::cancelled().into());
                }
                self.wire.feed(row(values, fields, &formats)).await?;
                sent += 1;
            }
        }
        self.wire.feed(answer.complete(sent)).await?;
        Ok(())
    }

    async fn remark(&mut self, remarks: &[Fault]) -> Result<(), Broken> {
        for remark in remarks {
            if self
                .guest
                .settings
                .hears(remark.severity == Severity::Warning)
            {
                let message =
                    PgWireBackendMessage::NoticeResponse(remark.clone().into_info().into());
                self.wire.feed(message).await?;
            }
        }
        Ok(())
    }
}
