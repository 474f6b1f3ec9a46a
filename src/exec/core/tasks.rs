//! A list of tasks, for people: never all of a million.
//!
//! Mechanism; any thread. Locks that workers take are held for about a thousand steps at a time. A task can be found
//! from its first wait on; what ends within its first poll never appears.

use super::Core;
use crate::exec::account::Account;
use crate::exec::stats::{TaskSeen, TaskState};
use crate::exec::task::Task;
use crate::mem;
use crate::unit::Nanos;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Accounts that are looked up under one lock.
const LOOK: usize = 1_024;

impl Core {
    /// At most so many of the tasks that have waited for something and are not gone.
    pub fn tasks(&self, most: usize) -> Vec<TaskSeen> {
        let _ours = mem::enter_process();
        let (now, polled) = (self.clock().now(), self.polled());
        let mut seen = Vec::new();
        let mut from = Some(0);
        while let Some(place) = from.filter(|_| seen.len() < most) {
            let (accounts, next) = self.some_accounts(place);
            from = next;
            for account in &accounts {
                let tasks = account.waiting.tasks(most - seen.len());
                seen.extend(tasks.iter().map(|task| look(task, &polled, now)));
                if seen.len() >= most {
                    break;
                }
            }
        }
        seen
    }

    /// The accounts at some places of the list, and where to go on.
    fn some_accounts(&self, from: usize) -> (Vec<Arc<Account>>, Option<usize>) {
        let mut found = Vec::with_capacity(LOOK);
        let accounts = self.accounts.lock();
        let end = from + LOOK;
        let places = from..end.min(accounts.capacity());
        found.extend(places.filter_map(|place| accounts.get(place)?.upgrade()));
        (found, (end < accounts.capacity()).then_some(end))
    }

    /// The numbers of the tasks that are being polled.
    fn polled(&self) -> Vec<u64> {
        self.all_seats()
            .filter(|seat| seat.poll_start.load(Relaxed) != 0)
            .map(|seat| seat.task.load(Relaxed))
            .collect()
    }
}

fn look(task: &Task, polled: &[u64], now: Nanos) -> TaskSeen {
    let number = task.id().number();
    let ready = task.ready_since();
    let running = polled.contains(&number);
    TaskSeen {
        id: number,
        name: task.name().map(str::to_owned),
        group: task.group().name().to_owned(),
        query: task.account().query(),
        state: match ready {
            _ if running => TaskState::Running,
            Some(_) => TaskState::Ready,
            None => TaskState::Waiting,
        },
        ready_for: ready.filter(|_| !running).map(|since| now.since(since)),
        cpu: task.own_cpu(),
        spawned_at: task.spawned_at(),
    }
}
