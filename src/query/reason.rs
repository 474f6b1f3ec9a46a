//! Why the governor ended a task or refused to begin one.
//!
//! Data only; any thread. The executor carries it as an opaque cause; [`JoinError::reason`] gives it back.

use super::Runaway;
use crate::admission::error::AdmissionError;
use crate::event;
use crate::exec::account::Account;
use crate::exec::blocking::Refusal;
use crate::exec::join::{Cause, JoinError};
use crate::mem::{MemoryScope, Shortfall};
use crate::sched::breaker::BigQueryKind;
use crate::unit::QueryId;
use std::sync::Arc;

/// Why the governor ended a task or refused to begin one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KillReason {
    /// The query went over a limit of its group, whose `big_query_action` is to kill.
    #[error(
        "{report}; ask for less at a time, raise the limit with ALTER RESOURCE GROUP {group} WITH ('{}'='..'), \
         or run it in a group that allows more",
        kind.property()
    )]
    BigQuery {
        /// What it used too much of.
        kind: BigQueryKind,
        /// How much it had used: nanoseconds, rows or bytes.
        used: u64,
        /// How much it may use, in the same unit.
        limit: u64,
        /// The group whose limit it was.
        group: Arc<str>,
        /// The query.
        query: QueryId,
        /// Everything that was known of it.
        report: Arc<Runaway>,
    },
    /// Somebody killed the query.
    #[error("killed by {by}: {why}")]
    Killed {
        /// The reason given.
        why: Arc<str>,
        /// Through what: `Query::kill` or an operator's statement.
        by: Arc<str>,
    },
    /// It asked for memory that was not there, or holds what others have a right to.
    #[error(
        "out of memory in resource group '{group}': {asked} bytes more than the {used} in use would exceed the \
         {scope}'s limit of {limit} bytes; {}", remedy(*.scope)
    )]
    MemoryLimit {
        /// Whose limit was met.
        scope: MemoryScope,
        /// The limit, in bytes.
        limit: u64,
        /// Bytes in use below that limit at that moment.
        used: u64,
        /// Bytes asked for, by this query or by another of its group or governor.
        asked: u64,
        /// The query's group.
        group: Arc<str>,
        /// The query; none for a task that belongs to no query.
        query: Option<QueryId>,
    },
    /// The governor shut down, or the runtime under it was dropped.
    #[error("the governor was shut down")]
    Shutdown,
    /// As many blocking closures of the group wait for a thread as may.
    #[error(
        "{limit} blocking closures of resource group '{group}' wait for a thread already: await some before spawning \
         more, or raise max_queued_blocking of the governor's builder"
    )]
    BlockingQueueFull {
        /// The group.
        group: Arc<str>,
        /// How many of its closures may wait.
        limit: usize,
    },
    /// The system gives no thread to run a blocking closure on, and there is none.
    #[error("the system gives no thread to run a blocking closure of resource group '{group}' on")]
    NoThread {
        /// The group.
        group: Arc<str>,
    },
    /// A spawn was refused at admission.
    #[error("not admitted: {0}")]
    NotAdmitted(#[source] AdmissionError),
}

fn remedy(scope: MemoryScope) -> &'static str {
    match scope {
        MemoryScope::Group => "raise mem_limit of the group, or run fewer of its queries at once",
        MemoryScope::Governor => {
            "raise memory_limit of the governor, or lower mem_limit of its groups"
        }
        _ => "raise the query's limit",
    }
}

impl KillReason {
    /// What the handle of a blocking closure is told that was not taken.
    pub(crate) fn refusal(account: &Account, refusal: Refusal) -> Cause {
        let group = account.group().name().into();
        let reason = match refusal {
            Refusal::Full { limit } => KillReason::BlockingQueueFull { group, limit },
            Refusal::NoThread => KillReason::NoThread { group },
        };
        event::refused(account.group().name(), &reason);
        reason.into_cause()
    }

    /// What a task of `account` is told that ends for want of memory.
    pub(crate) fn shortage(account: &Account, shortfall: Shortfall) -> Cause {
        let reason = KillReason::MemoryLimit {
            scope: shortfall.scope,
            limit: shortfall.limit,
            used: shortfall.used,
            asked: shortfall.asked,
            group: account.desk().name().as_ref().into(),
            query: account.query(),
        };
        reason.into_cause()
    }

    pub(crate) fn into_cause(self) -> Cause {
        Arc::new(self)
    }
}

impl JoinError {
    /// Why the governor ended the task: `Some` if it was killed, shut down or refused; `None` for a plain
    /// abort and for a panic.
    pub fn reason(&self) -> Option<&KillReason> {
        self.cause()?.downcast_ref()
    }
}
