//! What a program wants to be told of tasks: that one was spawned, is about to be polled, was polled, has ended.
//!
//! Mechanism; a hook runs on whichever thread the event happens on. Without hooks each event costs one branch. A
//! hook that panics harms nobody: it is no part of the task that it is told of.

use super::account::Account;
use super::task::Id;
use crate::foreign::contain;
use crate::unit::QueryId;
use std::fmt;
use std::panic::Location;

/// What a hook is told of a task, as `tokio::runtime::TaskMeta`.
#[derive(Clone, Copy)]
pub struct TaskMeta<'a> {
    id: Id,
    spawned_at: &'static Location<'static>,
    name: Option<&'a str>,
    account: &'a Account,
}

impl<'a> TaskMeta<'a> {
    pub(super) fn new(
        id: Id,
        spawned_at: &'static Location<'static>,
        name: Option<&'a str>,
        account: &'a Account,
    ) -> TaskMeta<'a> {
        TaskMeta {
            id,
            spawned_at,
            name,
            account,
        }
    }

    /// The task's id.
    pub fn id(&self) -> Id {
        self.id
    }

    /// The line that spawned it.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }

    /// The name that [`Builder::name`](crate::task::Builder::name) gave it, if any.
    pub fn name(&self) -> Option<&'a str> {
        self.name
    }

    /// The name of its group.
    pub fn group(&self) -> &'a str {
        self.account.group().name()
    }

    /// The query that it belongs to, if any.
    pub fn query(&self) -> Option<QueryId> {
        self.account.query()
    }
}

impl fmt::Debug for TaskMeta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskMeta")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("group", &self.group())
            .field("spawned_at", &self.spawned_at)
            .finish()
    }
}

/// Called with what is known of a task.
pub type Hook = Box<dyn Fn(&TaskMeta<'_>) + Send + Sync>;

/// The hooks of an executor, each set at most once.
#[derive(Default)]
pub struct Hooks {
    /// A task was spawned and is not queued yet.
    pub spawn: Option<Hook>,
    /// It is about to be polled.
    pub before_poll: Option<Hook>,
    /// It was polled.
    pub after_poll: Option<Hook>,
    /// Its future is gone and its output is there.
    pub terminate: Option<Hook>,
}

impl Hooks {
    /// Whether none is set.
    pub fn are_none(&self) -> bool {
        let Hooks {
            spawn,
            before_poll,
            after_poll,
            terminate,
        } = self;
        [spawn, before_poll, after_poll, terminate]
            .iter()
            .all(|hook| hook.is_none())
    }
}

#[cold]
pub(super) fn call(hook: Option<&Hook>, meta: &TaskMeta<'_>) {
    if let Some(hook) = hook {
        contain(|| hook(meta));
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("spawn", &self.spawn.is_some())
            .field("before_poll", &self.before_poll.is_some())
            .field("after_poll", &self.after_poll.is_some())
            .field("terminate", &self.terminate.is_some())
            .finish()
    }
}
