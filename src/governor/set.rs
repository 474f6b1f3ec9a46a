//! What spawns into a [`JoinSet`].
//!
//! Wiring; any thread.

use super::build_task::Builder;
use super::spawn::{spawn, spawn_blocking};
use crate::exec::join::AbortHandle;
use crate::exec::set::JoinSet;
use crate::query::Query;
use std::fmt;
use std::future::Future;
use std::io;

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task as [`quotient::spawn`](crate::spawn) does, into the set.
    ///
    /// # Panics
    ///
    /// As [`quotient::spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F>(&mut self, task: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(spawn(task))
    }

    /// Spawns a task of `query` into the set. Where tokio's takes a runtime, ours takes who pays.
    #[track_caller]
    pub fn spawn_on<F>(&mut self, task: F, query: &Query) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(query.spawn(task))
    }

    /// Runs a closure as [`task::spawn_blocking`](crate::task::spawn_blocking) does, in the set.
    ///
    /// # Panics
    ///
    /// As [`task::spawn_blocking`](crate::task::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, closure: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(spawn_blocking(closure))
    }

    /// Runs a closure as [`Query::spawn_blocking`] does, in the set.
    #[track_caller]
    pub fn spawn_blocking_on<F>(&mut self, closure: F, query: &Query) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(query.spawn_blocking(closure))
    }

    /// Begins to spawn a task with a name, or in another group, into the set.
    pub fn build_task(&mut self) -> SetBuilder<'_, T> {
        SetBuilder {
            set: self,
            builder: Builder::new(),
        }
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// Spawns every future, as [`JoinSet::spawn`].
    fn from_iter<I: IntoIterator<Item = F>>(tasks: I) -> JoinSet<T> {
        let mut set = JoinSet::new();
        set.extend(tasks);
        set
    }
}

impl<T, F> Extend<F> for JoinSet<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// Spawns every future, as [`JoinSet::spawn`].
    fn extend<I: IntoIterator<Item = F>>(&mut self, tasks: I) {
        for task in tasks {
            self.spawn(task);
        }
    }
}

/// A task in the making that goes into a [`JoinSet`]. Made by [`JoinSet::build_task`].
#[must_use = "nothing happens before `spawn`"]
pub struct SetBuilder<'a, T> {
    set: &'a mut JoinSet<T>,
    builder: Builder<'a>,
}

impl<'a, T: Send + 'static> SetBuilder<'a, T> {
    /// As [`Builder::name`].
    pub fn name(mut self, name: &'a str) -> Self {
        self.builder = self.builder.name(name);
        self
    }

    /// As [`Builder::group`].
    pub fn group(mut self, group: &'a str) -> Self {
        self.builder = self.builder.group(group);
        self
    }

    /// Spawns the task into the set.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
    {
        Ok(self.set.insert(self.builder.spawn(future)?))
    }

    /// Spawns the task of `query` into the set.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn_on`].
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, query: &Query) -> io::Result<AbortHandle>
    where
        F: Future<Output = T> + Send + 'static,
    {
        Ok(self.set.insert(self.builder.spawn_on(future, query)?))
    }

    /// Runs the closure in the set.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn_blocking`].
    #[track_caller]
    pub fn spawn_blocking<F>(self, closure: F) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        Ok(self.set.insert(self.builder.spawn_blocking(closure)?))
    }

    /// Runs the closure of `query` in the set.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn_blocking_on`].
    #[track_caller]
    pub fn spawn_blocking_on<F>(self, closure: F, query: &Query) -> io::Result<AbortHandle>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        Ok(self
            .set
            .insert(self.builder.spawn_blocking_on(closure, query)?))
    }
}

impl<T> fmt::Debug for SetBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetBuilder")
            .field("set", &self.set)
            .field("builder", &self.builder)
            .finish()
    }
}
