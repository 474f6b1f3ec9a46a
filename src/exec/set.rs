//! A set of tasks that are awaited in the order in which they end: `JoinSet`.
//!
//! Mechanism; any thread. What spawns into it lives with the governor. Invariants:
//! 1. A member is in `ended` at most once: its notice says whether it is. Whoever takes it out of there clears
//!    that *before* it looks at the handle, so that an end at that very moment puts it in again.
//! 2. A queue that nobody reads is closed: it refers to its notices, and they to it.
//! 3. No foreign waker is cloned, woken or dropped under the lock.

use super::join::{AbortHandle, JoinError, JoinHandle};
use super::task::Id;
use parking_lot::Mutex;
use slab::Slab;
use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{self, RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use tokio::task::unconstrained;

/// A collection of tasks, awaited in the order in which they end, as `tokio::task::JoinSet`.
///
/// Dropping it aborts what is left in it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use quotient::{Attributes, Governor, JoinSet};
///
/// let governor = Governor::builder().build()?;
/// let query = governor.admit(&Attributes::new().user("bi")).await?;
/// let sum: u32 = query
///     .run(async {
///         // Members are in the group and query of the task that spawns them.
///         let mut parts: JoinSet<u32> = (1..=4).map(|part| async move { part * 10 }).collect();
///         let mut sum = 0;
///         while let Some(part) = parts.join_next().await {
///             sum += part.expect("a part succeeds");
///         }
///         sum
///     })
///     .await?;
/// assert_eq!(sum, 100);
/// # Ok(()) }
/// ```
pub struct JoinSet<T> {
    members: Slab<Member<T>>,
    ended: Arc<Ended>,
}

struct Member<T> {
    handle: JoinHandle<T>,
    notice: Arc<Notice>,
}

/// Members whose handles are worth a look, the first to end first.
#[derive(Default)]
struct Ended(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    notices: VecDeque<Arc<Notice>>,
    waker: Option<Waker>,
    /// The set is gone. A notice that stayed here would keep the queue, and the queue it, for ever.
    closed: bool,
}

/// A member's join waker.
struct Notice {
    member: usize,
    ended: Arc<Ended>,
    /// Whether it is queued, or its member is gone.
    given: AtomicBool,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut queue = self.ended.0.lock();
        if queue.closed || self.given.swap(true, Relaxed) {
            return;
        }
        queue.notices.push_back(self.clone());
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ended {
    /// The next member to look at; if there is none, `waker` is woken when there is.
    fn next(&self, waker: Option<&Waker>) -> Option<Arc<Notice>> {
        if let Some(notice) = self.pop() {
            return Some(notice);
        }
        let waker = waker?;
        // Cloned outside of the lock; one too many is cheap beside the wait that follows.
        let mut old = Some(waker.clone());
        let mut queue = self.0.lock();
        let notice = Self::pop_from(&mut queue);
        if notice.is_none() {
            std::mem::swap(&mut queue.waker, &mut old);
        }
        drop(queue);
        notice
    }

    fn close(&self) {
        let mut queue = self.0.lock();
        queue.closed = true;
        let queued = (std::mem::take(&mut queue.notices), queue.waker.take());
        drop(queue);
        drop(queued);
    }

    fn put_back(&self, notice: Arc<Notice>) {
        let mut queue = self.0.lock();
        if !notice.given.swap(true, Relaxed) {
            queue.notices.push_front(notice);
        }
    }

    fn pop(&self) -> Option<Arc<Notice>> {
        Self::pop_from(&mut self.0.lock())
    }

    fn pop_from(queue: &mut Queue) -> Option<Arc<Notice>> {
        let notice = queue.notices.pop_front()?;
        notice.given.store(false, Relaxed);
        Some(notice)
    }
}

impl<T> JoinSet<T> {
    /// An empty set.
    pub fn new() -> JoinSet<T> {
        JoinSet {
            members: Slab::new(),
            ended: Arc::default(),
        }
    }

    /// How many tasks are in it, ended or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no task is in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Aborts all tasks; they stay in the set until they are joined.
    pub fn abort_all(&mut self) {
        for (_, member) in &self.members {
            member.handle.abort();
        }
    }

    /// Takes all tasks out of the set without ending them.
    pub fn detach_all(&mut self) {
        std::mem::take(&mut self.ended).close();
        self.members.clear();
    }

    /// Adds a task that was spawned elsewhere: by [`Query::spawn`](crate::Query::spawn), say.
    ///
    /// A handle that has been awaited to its end already makes the set panic, as awaiting it again would.
    pub fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort = handle.abort_handle();
        let entry = self.members.vacant_entry();
        let notice = Arc::new(Notice {
            member: entry.key(),
            ended: self.ended.clone(),
            given: AtomicBool::new(false),
        });
        let member = entry.insert(Member {
            handle,
            notice: notice.clone(),
        });
        member.handle.watch(Waker::from(notice));
        abort
    }

    /// Waits for the next task to end and gives its output; `None` if the set is empty.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if it is dropped, no task has left the set.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// As [`join_next`](JoinSet::join_next), with the id of the task; an error has it already.
    ///
    /// # Cancel safety
    ///
    /// As [`join_next`](JoinSet::join_next).
    pub async fn join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        poll_fn(|cx| self.poll_join_next_with_id(cx)).await
    }

    /// The output of a task that has ended; `None` if there is none, or no task at all.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        Some(self.try_join_next_with_id()?.map(|(_, output)| output))
    }

    /// As [`try_join_next`](JoinSet::try_join_next), with the id of the task.
    pub fn try_join_next_with_id(&mut self) -> Option<Result<(Id, T), JoinError>> {
        loop {
            let notice = self.ended.next(None)?;
            let Some(member) = self.members.get_mut(notice.member) else {
                continue;
            };
            let id = member.handle.id();
            let waker = Waker::from(member.notice.clone());
            // It cannot give way, so a spent budget must not hide what is there.
            let handle = pin!(unconstrained(&mut member.handle));
            if let Poll::Ready(result) = handle.poll(&mut Context::from_waker(&waker)) {
                self.remove(&notice);
                return Some(result.map(|output| (id, output)));
            }
        }
    }

    /// Aborts all tasks and waits until they are gone.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, all are aborted and some may be in the set still.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks: their outputs in the order in which they ended.
    ///
    /// # Panics
    ///
    /// If a task panicked, with its payload; or was cancelled. The others are aborted then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: dropping it aborts the tasks, and outputs are lost.
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result.map_err(JoinError::try_into_panic) {
                Ok(output) => outputs.push(output),
                Err(Ok(payload)) => panic::resume_unwind(payload),
                Err(Err(cancelled)) => panic!("{cancelled}"),
            }
        }
        outputs
    }

    /// As [`join_next`](JoinSet::join_next): `Ready(None)` if the set is empty; `Pending` otherwise means that the
    /// waker is woken when a task ends, or at once if the cooperative budget is spent.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        self.poll_join_next_with_id(cx)
            .map(|next| next.map(|result| result.map(|(_, output)| output)))
    }

    /// As [`poll_join_next`](JoinSet::poll_join_next), with the id of the task.
    pub fn poll_join_next_with_id(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<(Id, T), JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        let Some(notice) = self.ended.next(Some(cx.waker())) else {
            return Poll::Pending;
        };
        if let Some(member) = self.members.get_mut(notice.member) {
            let id = member.handle.id();
            let waker = Waker::from(member.notice.clone());
            let polled = Pin::new(&mut member.handle).poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(result) = polled {
                self.remove(&notice);
                return Poll::Ready(Some(result.map(|output| (id, output))));
            }
            if member.handle.is_finished() {
                // The cooperative budget is spent: the output is the first thing to look at next time.
                self.ended.put_back(notice);
            }
        }
        // No output behind the notice that could be had now: give way.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn remove(&mut self, notice: &Notice) {
        notice.given.store(true, Relaxed);
        let member = self.members.try_remove(notice.member);
        drop(member);
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.ended.close();
        self.abort_all();
    }
}

impl<T> UnwindSafe for JoinSet<T> {}
impl<T> RefUnwindSafe for JoinSet<T> {}

impl<T> Default for JoinSet<T> {
    fn default() -> JoinSet<T> {
        JoinSet::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet").field("len", &self.len()).finish()
    }
}
