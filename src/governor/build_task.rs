//! `task::Builder`: a task with a name, in a group of its own.
//!
//! Wiring; any thread.

use super::Governor;
use super::error::Error;
use crate::exec::account::Account;
use crate::exec::blocking;
use crate::exec::join::JoinHandle;
use crate::exec::task::{self, Origin};
use crate::exec::task::{Surroundings, surroundings};
use crate::query::Query;
use crate::sql;
use std::any::Any;
use std::future::Future;
use std::io;
use std::sync::Arc;

impl Governor {
    /// The account of a group's tasks that belong to no query.
    pub(crate) fn loose_account(&self, group: &str) -> Result<Arc<Account>, Error> {
        let routing = self.inner.routing.load();
        if let Some(entry) = routing.by_name(group) {
            return Ok(entry.loose.clone());
        }
        let names = routing.entries().map(|entry| &*entry.name);
        let similar = sql::suggest::closest(group, names).map(str::to_owned);
        Err(Error::UnknownGroup {
            name: group.to_owned(),
            similar,
        })
    }

    /// As `loose_account`; that of `default_wg` once the group is gone.
    #[cfg(feature = "hyper")]
    pub(crate) fn loose_account_or_default(&self, group: &str) -> Arc<Account> {
        let routing = self.inner.routing.load();
        let entry = routing.by_name(group);
        entry.unwrap_or_else(|| routing.default()).loose.clone()
    }

    /// The governor that an executor works for.
    fn from_owner(owner: Arc<dyn Any + Send + Sync>) -> Option<Governor> {
        let inner = owner.downcast().ok()?;
        Some(Governor { inner })
    }
}

/// A task in the making, as `tokio::task::Builder`, and in which group it is to be.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::{Governor, task};
///
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP upkeep WITH ('cpu_core_limit'='1')")
///     .build()?;
/// let query = governor.admit(&quotient::Attributes::new()).await?;
/// // What a query begins and must not end with it leaves it through a group of its own.
/// let flush = query
///     .run(async {
///         let group = || task::current().map(|it| (it.group().to_owned(), it.query_id()));
///         task::Builder::new().name("flush").group("upkeep").spawn(async move { group() })
///     })
///     .await??;
/// assert_eq!(flush.await?, Some(("upkeep".to_owned(), None)));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use = "nothing happens before `spawn`"]
pub struct Builder<'a> {
    name: Option<&'a str>,
    group: Option<&'a str>,
}

impl<'a> Builder<'a> {
    /// A task without a name, where [`quotient::spawn`](crate::spawn) would put it.
    pub fn new() -> Builder<'a> {
        Builder::default()
    }

    /// What hooks know the task by.
    pub fn name(&self, name: &'a str) -> Builder<'a> {
        Builder {
            name: Some(name),
            ..*self
        }
    }

    /// The group of the surrounding governor that the task is to be in, outside of any query and without admission.
    pub fn group(&self, group: &'a str) -> Builder<'a> {
        Builder {
            group: Some(group),
            ..*self
        }
    }

    /// Spawns the task: in the group that was asked for, else as [`quotient::spawn`](crate::spawn).
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no group of that name; the error inside is an [`Error`].
    ///
    /// # Panics
    ///
    /// As [`quotient::spawn`](crate::spawn).
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let origin = self.origin();
        let at = self.place()?;
        Ok(task::spawn_as(origin, at.account, at.lease, future))
    }

    /// Spawns the task in `query`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a group was asked for as well: a query is in its own.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, query: &Query) -> io::Result<JoinHandle<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let origin = self.origin();
        self.insist_on_no_group()?;
        Ok(query.spawn_as(origin, future))
    }

    /// Runs a closure as [`task::spawn_blocking`](crate::task::spawn_blocking) does, in the group that was asked for.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn`].
    ///
    /// # Panics
    ///
    /// As [`task::spawn_blocking`](crate::task::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, R>(self, closure: F) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let origin = self.origin();
        let at = self.place()?;
        Ok(blocking::spawn(origin, &at.account, at.lease, closure))
    }

    /// Runs a closure as [`Query::spawn_blocking`] does.
    ///
    /// # Errors
    ///
    /// As [`Builder::spawn_on`].
    #[track_caller]
    pub fn spawn_blocking_on<F, R>(self, closure: F, query: &Query) -> io::Result<JoinHandle<R>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let origin = self.origin();
        self.insist_on_no_group()?;
        Ok(query.spawn_blocking_as(origin, closure))
    }

    #[track_caller]
    fn origin(&self) -> Origin {
        Origin {
            name: self.name.map(Box::from),
            ..Origin::here()
        }
    }

    #[track_caller]
    fn place(&self) -> io::Result<Surroundings> {
        let around = surroundings();
        let Some(name) = self.group else {
            return Ok(around);
        };
        let core = around.account.group().core();
        let account = match core.owner().and_then(Governor::from_owner) {
            Some(governor) => governor.loose_account(name),
            // Every governor value is gone: everything is being ended.
            None => Err(Error::UnknownGroup {
                name: name.to_owned(),
                similar: None,
            }),
        };
        Ok(Surroundings {
            account: account.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))?,
            lease: None,
        })
    }

    fn insist_on_no_group(&self) -> io::Result<()> {
        match self.group {
            None => Ok(()),
            Some(group) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the task of a query is in the query's group, not in {group:?}"),
            )),
        }
    }
}
