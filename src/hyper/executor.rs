//! hyper's executor: its tasks are ours.
//!
//! Mechanism; any thread.

use crate::exec::join::JoinHandle;
use crate::exec::task::{self, Origin};
use crate::governor::{self, Error, Governor};
use crate::query::Query;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

/// Spawns what hyper asks for in a group or a query.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::{Governor, hyper::Executor};
///
/// let governor = Governor::builder()
///     .init_sql("CREATE RESOURCE GROUP edge WITH ('cpu_core_limit'='2')")
///     .build()?;
/// let executor = Executor::in_group(&governor, "edge")?;
/// let server = hyper::server::conn::http2::Builder::new(executor.clone());
///
/// let group = executor.spawn(async { quotient::task::current().map(|it| it.group().to_owned()) });
/// assert_eq!(group.await?.as_deref(), Some("edge"));
/// # drop(server); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Executor {
    to: To,
    place: &'static Location<'static>,
}

#[derive(Clone, Debug)]
enum To {
    Beside,
    Group(Governor, Arc<str>),
    Query(Query),
}

impl Executor {
    /// Where [`quotient::spawn`](crate::spawn) would put it: in the group and query of the task that spawns. A
    /// connection's streams are then where the connection is.
    #[track_caller]
    pub fn inherit() -> Executor {
        Executor::new(To::Beside)
    }

    /// In a group, outside of any query. Once the group has been dropped, in `default_wg`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownGroup`].
    #[track_caller]
    pub fn in_group(governor: &Governor, group: &str) -> Result<Executor, Error> {
        governor.loose_account(group)?;
        Ok(Executor::new(To::Group(governor.clone(), group.into())))
    }

    /// In a query, which does not end before the executor is dropped.
    #[track_caller]
    pub fn in_query(query: Query) -> Executor {
        Executor::new(To::Query(query))
    }

    #[track_caller]
    fn new(to: To) -> Executor {
        Executor {
            to,
            place: Location::caller(),
        }
    }

    /// Spawns a task; dropping the handle detaches it.
    ///
    /// # Panics
    ///
    /// As [`quotient::spawn`](crate::spawn), if it is one of [`Executor::inherit`].
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let origin = Origin {
            place: self.place,
            name: None,
        };
        match &self.to {
            To::Beside => match task::spawn_beside(origin, future) {
                Ok(handle) => handle,
                Err(future) => governor::spawn(future),
            },
            To::Group(governor, group) => {
                let account = governor.loose_account_or_default(group);
                task::spawn_as(origin, account, None, future)
            }
            To::Query(query) => query.spawn_as(origin, future),
        }
    }
}

impl<F> hyper::rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(self.spawn(future));
    }
}
