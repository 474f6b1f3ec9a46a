//! One connection: reads the row, replaces it, hears of others.
//!
//! Mechanism; the thread of the link. Every answer of the server is waited for until a deadline; one that does not
//! come ends the session, since nobody knows what the server does meanwhile.

use super::connect::Messages;
use super::options::Options;
use super::schema::Schema;
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Statement};

/// The row as it was read or written last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) revision: i64,
    pub(super) script: String,
}

/// Why a session did not do what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused: nothing happened, and the session is as good as before.
    Refused(String),
    /// The answer is lost, and the session with it.
    Lost(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why) | Failure::Lost(why) => f.write_str(why),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Failure {
        let why = said(&error);
        match error.as_db_error() {
            // A server that ends the session may have done the work before. Without our table the next session makes it.
            Some(db)
                if matches!(
                    db.parsed_severity(),
                    Some(Severity::Fatal | Severity::Panic)
                ) || *db.code() == SqlState::UNDEFINED_TABLE =>
            {
                Failure::Lost(why)
            }
            Some(_) => Failure::Refused(why),
            None => Failure::Lost(why),
        }
    }
}

/// The error with what is behind it: tokio-postgres keeps the reason for the source.
pub(super) fn said(error: &tokio_postgres::Error) -> String {
    use std::error::Error;
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// A connection that listens.
pub(super) struct Session {
    client: Client,
    schema: Arc<Schema>,
    fleet: String,
    member: String,
    messages: JoinHandle<()>,
}

/// Told when others changed something, and when the connection ended.
pub(super) struct Ears {
    pub(super) heard: Box<dyn Fn() + Send>,
    pub(super) lost: Box<dyn FnOnce() + Send>,
}

/// How long a server is given to read that we leave.
const GOODBYE: Duration = Duration::from_secs(1);

impl Session {
    /// Connects, makes the tables if they are not there, and listens.
    pub(super) async fn open(
        options: &Options,
        schema: &Arc<Schema>,
        deadline: Instant,
        ears: Ears,
    ) -> Result<Session, Failure> {
        let connect = (options.connect)(options.connection());
        let (client, messages) = within(deadline, connect).await?;
        let fleet = options.fleet.clone();
        let task = tokio::spawn(hear(messages, fleet.clone(), ears));
        let session = Session {
            client,
            schema: schema.clone(),
            fleet,
            member: options.member.clone(),
            messages: task,
        };
        match within(deadline, session.prepare(options.statement_limit())).await {
            Ok(()) => Ok(session),
            Err(failure) => {
                session.end();
                Err(failure)
            }
        }
    }

    async fn prepare(&self, limit: Duration) -> Result<(), tokio_postgres::Error> {
        // The server gives up before we do: then it is certain that nothing happened.
        let limit = limit.as_millis();
        let set = format!("SET statement_timeout = {limit}; SET lock_timeout = {limit}");
        self.client.batch_execute(&set).await?;
        // CREATE TABLE IF NOT EXISTS wants the right to create also where it has nothing to do.
        let there = "SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL";
        let tables: [&(dyn ToSql + Sync); 2] = [&self.schema.table, &self.schema.history];
        let there = self.client.query_one(there, &tables).await?;
        let (table, history): (bool, bool) = (there.try_get(0)?, there.try_get(1)?);
        if !(table && history) {
            let created = self.client.batch_execute(&self.schema.create).await;
            match created {
                // Whoever may not make the history anew can read all the same; a change will say what is missing.
                Err(error) if table && error.as_db_error().is_some() => {
                    self.client.batch_execute("ROLLBACK").await?;
                }
                created => created?,
            }
        }
        self.client.batch_execute(&self.schema.listen).await
    }

    /// The row, if there is one.
    pub(super) async fn read(&self, deadline: Instant) -> Result<Option<Row>, Failure> {
        let params: [&(dyn ToSql + Sync); 1] = [&self.fleet];
        let asked = self.client.query_opt(&self.schema.read, &params);
        let row = within(deadline, asked).await?;
        let Some(row) = row else {
            return Ok(None);
        };
        Ok(Some(Row {
            revision: row.try_get(0)?,
            script: row.try_get(1)?,
        }))
    }

    /// Gets ready to [replace](Session::replace) the row `seen`, or to make the first one: nothing is changed.
    pub(super) async fn ready(
        &self,
        seen: Option<&Row>,
        deadline: Instant,
    ) -> Result<Statement, Failure> {
        let text = match seen {
            None => &self.schema.insert,
            Some(_) => &self.schema.update,
        };
        within(deadline, self.client.prepare(text)).await
    }

    /// Replaces the row if it is still `seen`: its new revision, or none if it is not. It is one message, sent when this
    /// is called.
    pub(super) async fn replace(
        &self,
        by: &Statement,
        text: &str,
        seen: Option<&Row>,
        deadline: Instant,
    ) -> Result<Option<i64>, Failure> {
        let member = &self.member;
        let rows = match seen {
            None => {
                let params: [&(dyn ToSql + Sync); 3] = [&self.fleet, &text, member];
                within(deadline, self.client.query(by, &params)).await
            }
            Some(row) => {
                let params: [&(dyn ToSql + Sync); 5] =
                    [&self.fleet, &text, member, &row.revision, &row.script];
                within(deadline, self.client.query(by, &params)).await
            }
        };
        match rows?.first() {
            Some(row) => Ok(Some(row.try_get(0)?)),
            None => Ok(None),
        }
    }

    /// Whether we replaced a row of that revision, or an earlier one, with this text. Known for as long as the history
    /// goes back.
    pub(super) async fn happened(
        &self,
        text: &str,
        before: Option<&Row>,
        deadline: Instant,
    ) -> Result<bool, Failure> {
        let revision = before.map_or(0, |row| row.revision);
        let params: [&(dyn ToSql + Sync); 4] = [&self.fleet, &text, &revision, &self.member];
        let asked = self.client.query_one(&self.schema.happened, &params);
        Ok(within(deadline, asked).await?.try_get(0)?)
    }

    /// Ends it at once.
    pub(super) fn end(self) {
        self.messages.abort();
    }

    /// Ends it in a way that the server's log does not mention.
    pub(super) async fn close(self) {
        drop(self.client);
        let _ = timeout(GOODBYE, self.messages).await;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Drives the connection; tells what comes unasked.
async fn hear(mut messages: Messages, fleet: String, ears: Ears) {
    while let Some(Ok(message)) = messages.next().await {
        if let AsyncMessage::Notification(told) = message
            && told.payload() == fleet
        {
            (ears.heard)();
        }
    }
    (ears.lost)();
}

async fn within<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Failure> {
    match timeout_at(deadline, work).await {
        Ok(done) => done.map_err(Failure::from),
        Err(_) => Err(Failure::Lost("the server did not answer in time".into())),
    }
}
