//! Memory as a task asks for it: reserving it before it is used, and being asked for it while others need it.
//!
//! Any thread. Finds out who pays, the query of the running task or its group, and goes to the group's desk.

use super::{Query, WeakQuery};
use crate::exec::account::Account;
use crate::exec::task;
use crate::mem::desk::{Ask, Registration};
use crate::mem::reservation::{self, Reserving};
use crate::mem::transfer::{self, Buffer};
use crate::mem::{MemoryError, Reservation};
use std::sync::{Arc, Weak};

/// Reserves `bytes` for the query of the running task, or for its group if it belongs to none.
///
/// Waits for them, up to the group's `queue_timeout`, in the order in which the group's queries asked: a small request
/// does not overtake a large one. What the query allocates from then on is taken out of the reservation first, so that
/// nothing counts twice; see [`Reservation`].
///
/// # Errors
///
/// [`MemoryError::TooLarge`] at once for more than the limit, without hurting others; [`MemoryError::TimedOut`];
/// [`MemoryError::NoTask`] outside of a governor's tasks.
///
/// # Cancel safety
///
/// Cancel safe: dropped before it is done, nothing is reserved, and the next in the queue has its turn.
///
/// # Metrics
///
/// `quotient_group_memory_reserved_bytes`; `quotient_group_memory_waiting` while it waits.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::memory::{self, MemoryError};
///
/// let governor = quotient::Governor::builder()
///     .memory_limit(1 << 30)
///     .init_sql("CREATE RESOURCE GROUP etl TO (user='loader') WITH ('mem_limit'='64MiB')")
///     .build()?;
/// let query = governor.admit(&quotient::Attributes::new().user("loader")).await?;
///
/// let answer = query.run(async {
///     let mut table = memory::reserve(48 << 20).await?;
///     // The rest of the group's memory is 16 MiB: no more than that can be had at once.
///     assert!(matches!(table.try_grow(32 << 20), Err(MemoryError::Full { .. })));
///     table.shrink(16 << 20);
///     table.try_grow(32 << 20)?;
///     Ok::<_, MemoryError>(table.size())
/// });
/// assert_eq!(answer.await??, 64 << 20);
/// # Ok(()) }
/// ```
pub async fn reserve(bytes: u64) -> Result<Reservation, MemoryError> {
    let account = current()?;
    waiting(&account, bytes).await
}

/// Reserves `bytes` for the query of the running task, now or not at all.
///
/// # Errors
///
/// [`MemoryError::Full`] if they do not fit or others wait already, [`MemoryError::TooLarge`],
/// [`MemoryError::NoTask`].
pub fn try_reserve(bytes: u64) -> Result<Reservation, MemoryError> {
    at_once(&*current()?, bytes)
}

/// Registers `callback` as a way to get memory back from the query of the running task.
///
/// While its group uses more than `spill_mem_limit_threshold` of its `mem_limit`, or a reservation of the group waits,
/// registered queries are asked for bytes, before any query is ended: the higher `priority` first, then the query that
/// holds most, each for no more than it holds and no more than is needed. `callback` is called with the number of
/// bytes, as a task of the query: it is charged to it, may spawn and reserve, and ends with it. It is not called while
/// the threshold is off (1, the default), nor again for half a second or until what it was asked for has been freed.
///
/// Nothing has to be freed at once, or at all: writing something out may take a while. A callback that only sets a flag
/// which the operator reads is the usual one.
///
/// # Errors
///
/// [`MemoryError::NoTask`] outside of a governor's tasks.
///
/// # Metrics
///
/// `quotient_group_spill_requests_total`, whenever a query is asked.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::memory;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// # let governor = quotient::Governor::builder().build()?;
/// # governor.admit(&quotient::Attributes::new()).await?.run(async {
/// let wanted = Arc::new(AtomicU64::new(0));
/// let asked = wanted.clone();
/// let _registration = memory::on_pressure(0, move |bytes| asked.store(bytes, Relaxed))?;
///
/// // In the operator's loop:
/// if wanted.swap(0, Relaxed) > 0 {
///     // write the largest partition to a file
/// }
/// # Ok::<_, memory::MemoryError>(()) }).await??;
/// # Ok(()) }
/// ```
pub fn on_pressure(
    priority: i32,
    callback: impl Fn(u64) + Send + Sync + 'static,
) -> Result<Registration, MemoryError> {
    let account = current()?;
    let query = Query::current().map(|query| query.downgrade());
    Ok(register(&account, query, priority, Arc::new(callback)))
}

/// Makes `buffer` the property of the query of the running task: from now on it is charged for it, and whoever was
/// before is not. Nothing is copied. For what a query gets from another and keeps: without it, memory stays its
/// producer's until it is freed.
///
/// The bytes that moved: the buffer's capacity, or 0 if it is the query's already, has at most 1022 bytes, or nothing
/// is tracked.
///
/// # Errors
///
/// [`MemoryError::Full`] if it does not fit under the limits of the query's group: it stays whose it is.
/// [`MemoryError::NoTask`].
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let governor = quotient::Governor::builder().build()?;
/// # let query = governor.admit(&quotient::Attributes::new()).await?;
/// # let (sender, receiver) = tokio::sync::oneshot::channel::<Vec<u64>>();
/// # let _ = sender.send(vec![7; 1 << 16]);
/// let kept = query.spawn(async move {
///     let mut rows = receiver.await.expect("the producer sends");
///     quotient::memory::transfer(&mut rows).map(|_| rows.len())
/// });
/// assert_eq!(kept.await??, 1 << 16);
/// # Ok(()) }
/// ```
pub fn transfer(buffer: &mut impl Buffer) -> Result<u64, MemoryError> {
    let account = current()?;
    let desk = account.desk();
    transfer::transfer(account.memory(), buffer).map_err(|short| desk.does_not_fit(short))
}

impl Query {
    /// As [`memory::reserve`](reserve), for this query and from anywhere.
    ///
    /// # Errors
    ///
    /// As [`memory::reserve`](reserve).
    ///
    /// # Cancel safety
    ///
    /// As [`memory::reserve`](reserve).
    pub async fn reserve(&self, bytes: u64) -> Result<Reservation, MemoryError> {
        waiting(self.account(), bytes).await
    }

    /// As [`memory::try_reserve`](try_reserve), for this query and from anywhere.
    ///
    /// # Errors
    ///
    /// As [`memory::try_reserve`](try_reserve).
    pub fn try_reserve(&self, bytes: u64) -> Result<Reservation, MemoryError> {
        at_once(self.account(), bytes)
    }

    /// As [`memory::on_pressure`](on_pressure), for this query and from anywhere.
    pub fn on_pressure(
        &self,
        priority: i32,
        callback: impl Fn(u64) + Send + Sync + 'static,
    ) -> Registration {
        let query = Some(self.downgrade());
        register(self.account(), query, priority, Arc::new(callback))
    }
}

fn current() -> Result<Arc<Account>, MemoryError> {
    let task = task::current().ok_or(MemoryError::NoTask)?;
    Ok(task.account)
}

fn waiting(account: &Account, bytes: u64) -> Reserving {
    let desk = account.desk().clone();
    Reserving::new(desk, account.memory().clone(), bytes)
}

fn at_once(account: &Account, bytes: u64) -> Result<Reservation, MemoryError> {
    let desk = account.desk().clone();
    reservation::try_reserve(desk, account.memory().clone(), bytes)
}

type Callback = Arc<dyn Fn(u64) + Send + Sync>;

fn register(
    account: &Arc<Account>,
    query: Option<WeakQuery>,
    priority: i32,
    callback: Callback,
) -> Registration {
    let weak = Arc::downgrade(account);
    let ask: Ask = Arc::new(move |bytes| ask(&weak, query.as_ref(), &callback, bytes));
    let desk = account.desk();
    desk.register(account.memory().clone(), priority, ask)
}

/// Calls back from a task of the account. A query that has ended has nothing to give.
fn ask(account: &Weak<Account>, query: Option<&WeakQuery>, callback: &Callback, bytes: u64) {
    let callback = callback.clone();
    let call = async move { callback(bytes) };
    match query {
        Some(query) => {
            if let Some(query) = query.upgrade() {
                drop(query.spawn(call));
            }
        }
        None => {
            if let Some(account) = account.upgrade() {
                drop(task::spawn(account, None, call));
            }
        }
    }
}
