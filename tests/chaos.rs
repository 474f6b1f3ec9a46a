//! Anything in any order, and what must hold after each step: a task is polled by one thread at a time and dropped once,
//! by a worker; whoever holds a place is counted; what was charged is what the workers were busy.
//!
//! `QUOTIENT_CHAOS_SECONDS` (default 4) is how long; a failure prints its seed, and `QUOTIENT_CHAOS_SEED` repeats the
//! choices of one history.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

#[path = "chaos/being.rs"]
mod being;
mod live;
mod support;

use being::{Being, Output, Random, Threads, World};
use futures::FutureExt;
use live::{
    Ground, current_thread, eventually, eventually_blocking, multi_thread_noted, named, watched,
};
use quotient::{Governor, GroupHandle, GroupId, JoinHandle, JoinSet, Query};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

const GROUPS: usize = 6;
const STEPS: usize = 120;
const LIMIT: usize = 5;

fn from_env(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().unwrap())
}

/// Says how to repeat a history that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat it with QUOTIENT_CHAOS_SEED={}", self.0);
        }
    }
}

/// One history: a governor on a runtime of its own, and everything that is held of it.
struct History {
    world: Arc<World>,
    governor: Governor,
    random: Random,
    handles: Vec<JoinHandle<Output>>,
    queries: Vec<Query>,
    /// Every group that ever was.
    groups: BTreeMap<GroupId, GroupHandle>,
}

impl History {
    fn being(&mut self) -> Being {
        Being::new(&self.world, &mut self.random)
    }

    fn keep(&mut self, handle: JoinHandle<Output>) {
        if self.random.one_in(2) {
            self.world
                .aborts
                .lock()
                .unwrap()
                .push(handle.abort_handle());
        }
        if self.random.one_in(2) {
            self.handles.push(handle);
        }
    }

    fn any<T>(random: &mut Random, of: &mut Vec<T>) -> Option<T> {
        let n = of.len().max(1);
        let i = random.below(n);
        (i < of.len()).then(|| of.swap_remove(i))
    }

    fn note_groups(&mut self) {
        for row in self.governor.metrics().groups {
            // A group that drains may have been replaced by a namesake, or not: then it is known already.
            if let Ok(group) = self.governor.classify(&named(&row.name)) {
                self.groups.insert(group.id(), group);
            }
        }
    }

    async fn ddl(&mut self) {
        let (i, n) = (self.random.below(GROUPS), 1 + self.random.below(9));
        let statement = match self.random.below(4) {
            0 => format!("DROP RESOURCE GROUP g{i}"),
            1 => format!("ALTER RESOURCE GROUP g{i} WITH ('cpu_core_limit'='{n}')"),
            2 => format!("ALTER RESOURCE GROUP g{i} WITH ('concurrency_limit'='{n}')"),
            _ => format!(
                "CREATE RESOURCE GROUP g{i} WITH ('cpu_core_limit'='{n}', 'concurrency_limit'='{LIMIT}')"
            ),
        };
        // Refused if the group is there, or is not.
        let _ = self.governor.execute(&statement).await;
        self.note_groups();
    }

    async fn step(&mut self) {
        let group = format!("g{}", self.random.below(GROUPS));
        match self.random.below(20) {
            0..=5 => {
                if self.governor.classify(&named(&group)).is_ok() {
                    let being = self.being();
                    let handle = self.governor.spawn_in(&group, being).unwrap();
                    self.keep(handle);
                }
            }
            6..=8 => {
                if let Ok(query) = self.governor.try_admit(&named(&group)) {
                    for _ in 0..self.random.below(4) {
                        let handle = query.spawn(self.being());
                        self.keep(handle);
                    }
                    self.queries.push(query);
                }
            }
            9 | 10 => drop(Self::any(&mut self.random, &mut self.queries)),
            11 => {
                if let Some(query) = Self::any(&mut self.random, &mut self.queries) {
                    query.kill("by chance");
                }
            }
            12 => {
                let handle = Self::any(&mut self.random, &mut self.handles);
                handle.inspect(JoinHandle::abort);
            }
            13 => drop(Self::any(&mut self.random, &mut self.handles)),
            14 => self.world.wake_all(),
            15 | 16 => self.ddl().await,
            17 => {
                let Some(query) = Self::any(&mut self.random, &mut self.queries) else {
                    return;
                };
                let mut set = JoinSet::new();
                for _ in 0..3 {
                    set.spawn_on(self.being(), &query);
                }
                set.spawn_blocking_on(|| panic!("planned: in a closure"), &query);
                if self.random.one_in(2) {
                    // The drop of an output may panic, which is the waiter's then; the rest is aborted.
                    let _ = AssertUnwindSafe(set.shutdown()).catch_unwind().await;
                }
            }
            _ => tokio::time::sleep(Duration::from_micros(self.random.below(800) as u64)).await,
        }
    }

    /// What must hold after each step.
    fn check(&self) {
        self.world.check();
        for (name, (running, held)) in self.places() {
            assert!(running >= held, "{name}: {held} held, {running} counted");
        }
    }

    /// By name, over a group and its namesakes that drain: queries that are counted as running, and that are held.
    fn places(&self) -> BTreeMap<String, (u64, u64)> {
        let mut places = BTreeMap::<String, (u64, u64)>::new();
        for row in self.governor.metrics().groups {
            places.entry(row.name).or_default().0 += row.queries_running;
        }
        for query in &self.queries {
            places.entry(query.group().to_owned()).or_default().1 += 1;
        }
        places
    }

    /// Lets everything end, and settles the accounts.
    async fn calm(&mut self) {
        self.world.calm.store(true, SeqCst);
        let world = self.world.clone();
        eventually("everybody ends", || {
            world.wake_all();
            world.alive.load(SeqCst) == 0
        })
        .await;
        for handle in self.handles.drain(..) {
            // However it ended; its output may panic when it is dropped, which is the dropper's then.
            let joined = handle.await;
            let _ = catch_unwind(AssertUnwindSafe(|| drop(joined)));
        }
        self.note_groups();
        eventually("no task and no closure is left", || {
            self.groups.values().map(GroupHandle::stats).all(|stats| {
                stats.tasks_running + stats.tasks_queued + stats.tasks_waiting + stats.blocking == 0
            })
        })
        .await;
        eventually("what was charged is what the workers were busy", || {
            let metrics = self.governor.metrics();
            let workers = metrics.workers.iter().chain([&metrics.spares.work]);
            let busy: u64 = workers.map(|worker| worker.busy.0).sum();
            let stats = self.groups.values().map(GroupHandle::stats);
            busy == stats.map(|s| s.cpu_poll.0 + s.cpu_drop.0).sum::<u64>()
        })
        .await;
        for (name, (running, held)) in self.places() {
            assert_eq!(running, held, "places of {name}");
        }
        let made = self.world.all_gone() as u64;
        // Refused ones are no tasks: only the end refuses.
        self.world.calm.store(false, SeqCst);
        assert!(
            self.groups
                .values()
                .map(|g| g.stats().tasks_total)
                .sum::<u64>()
                >= made
        );
    }
}

/// How a history ends, with everything still going on.
#[derive(Clone, Copy, Debug)]
enum End {
    Shutdown,
    GovernorDropped,
    RuntimeDropped,
}

fn history(seed: u64) {
    let _seed = Seed(seed);
    let mut random = Random(seed);
    let workers = 1 + random.below(4);
    let here = std::thread::current().id();
    let (ground, threads) = match random.below(4) {
        0 => (Ground::Tokio(current_thread()), Threads::AllBut(None)),
        1 => (Ground::owned(), Threads::AllBut(Some(here))),
        _ => {
            let (runtime, threads) = multi_thread_noted(workers);
            (Ground::Tokio(runtime), Threads::Only(threads))
        }
    };
    let ends = [End::Shutdown, End::GovernorDropped, End::RuntimeDropped];
    let end = ends[random.below(ends.len())];
    let governor = live::governor(&ground, workers, "");
    let world = World::new(threads);
    let _watched = support::watch(&format!("chaos, seed {seed}"), {
        let governor = governor.clone();
        move || governor.dump()
    });
    let mut history = History {
        world: world.clone(),
        governor,
        random,
        handles: Vec::new(),
        queries: Vec::new(),
        groups: BTreeMap::new(),
    };
    ground.block_on(async {
        for _ in 0..GROUPS {
            history.ddl().await;
        }
        for step in 0..STEPS {
            history.step().await;
            history.check();
            if step % 40 == 39 {
                history.calm().await;
            }
        }
        for _ in 0..20 {
            history.step().await;
        }
    });
    drop(_watched);
    finish(history, ground, end);
    eventually_blocking(&format!("{end:?}: everybody is dropped"), || {
        world.alive.load(SeqCst) == 0
    });
    world.wake_all();
    world.all_gone();
}

fn finish(history: History, ground: Ground, end: End) {
    let History {
        world,
        governor,
        handles,
        queries,
        groups,
        ..
    } = history;
    world.over.store(true, SeqCst);
    drop((queries, groups));
    match (end, ground) {
        (End::Shutdown, ground) => ground.block_on(governor.shutdown(Duration::from_millis(1))),
        (End::GovernorDropped, Ground::Tokio(runtime)) => {
            drop(governor);
            // A current-thread runtime works only while somebody waits in it.
            runtime.block_on(eventually("everybody is dropped", || {
                world.alive.load(SeqCst) == 0
            }));
        }
        (End::RuntimeDropped, Ground::Tokio(runtime)) => {
            runtime.shutdown_timeout(Duration::from_secs(20));
        }
        // It keeps the governor, and the governor the runtime.
        (_, ground @ Ground::Owned(_)) => drop((governor, ground)),
    }
    for handle in handles {
        eventually_blocking("every handle resolves", || handle.is_finished());
    }
}

#[test]
fn whatever_happens_every_task_ends_once_and_every_account_settles() {
    let _watched = watched("chaos");
    if let Ok(seed) = std::env::var("QUOTIENT_CHAOS_SEED") {
        return history(seed.parse().unwrap());
    }
    let time = Duration::from_secs(from_env("QUOTIENT_CHAOS_SECONDS", 4));
    let first = from_env("QUOTIENT_CHAOS_FIRST", u64::from(std::process::id()) << 20);
    let (start, mut histories) = (Instant::now(), 0);
    while histories == 0 || start.elapsed() < time {
        history(first + histories);
        histories += 1;
    }
    println!("{histories} histories of {STEPS} steps from seed {first}");
}

/// What happened to one task of the stress below.
#[derive(Default)]
struct Fate {
    polling: AtomicBool,
    drops: AtomicU32,
}

struct Mark(Arc<Fate>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.drops.fetch_add(1, SeqCst);
    }
}

/// The task cell itself: tasks whose wakers are cloned, kept, woken and dropped by other threads at any time, also long
/// after their end, while yet others abort them and drop their handles.
#[test]
fn kept_wakers_and_racing_aborts_end_every_task_once() {
    const ROUNDS: u64 = 60;
    const TASKS: usize = 200;
    let _watched = watched("kept wakers");
    let (runtime, _) = multi_thread_noted(2);
    let governor = live::governor(
        &runtime,
        2,
        "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
    );
    let twice = Arc::new(AtomicU32::new(0));
    for round in 0..ROUNDS {
        let (keep, kept) = mpsc::channel::<Waker>();
        let (give, given) = mpsc::channel::<JoinHandle<()>>();
        let waking = std::thread::spawn(move || {
            let (mut random, mut kept_for_long) = (Random(round), Vec::new());
            for waker in kept {
                match random.below(4) {
                    0 => waker.wake(),
                    1 => waker.wake_by_ref(),
                    2 => drop(waker.clone()),
                    _ => kept_for_long.push(waker),
                }
                if random.one_in(4)
                    && let Some(waker) = kept_for_long.pop()
                {
                    waker.wake();
                }
            }
            kept_for_long
        });
        let aborting = std::thread::spawn(move || {
            let mut random = Random(!round);
            for handle in given {
                match random.below(3) {
                    0 => handle.abort(),
                    1 => {
                        let abort = handle.abort_handle();
                        drop(handle);
                        abort.abort();
                    }
                    _ => handle.abort_handle().abort(),
                }
            }
        });
        let fates: Vec<Arc<Fate>> = (0..TASKS).map(|_| Arc::default()).collect();
        for fate in &fates {
            let (mark, keep, twice) = (Mark(fate.clone()), keep.clone(), twice.clone());
            let mut polls = 0;
            let handle = governor.spawn_in(
                "g",
                poll_fn(move |cx| {
                    if mark.0.polling.swap(true, SeqCst) {
                        twice.fetch_add(1, SeqCst);
                    }
                    let _ = keep.send(cx.waker().clone());
                    polls += 1;
                    mark.0.polling.store(false, SeqCst);
                    if polls > 3 {
                        Poll::Ready(())
                    } else {
                        Poll::Pending
                    }
                }),
            );
            give.send(handle.unwrap()).unwrap();
        }
        drop((keep, give));
        aborting.join().unwrap();
        eventually_blocking("every task is dropped", || {
            fates.iter().all(|fate| fate.drops.load(SeqCst) > 0)
        });
        let kept_for_long = waking.join().unwrap();
        kept_for_long.into_iter().for_each(Waker::wake);
        assert!(fates.iter().all(|fate| fate.drops.load(SeqCst) == 1));
    }
    assert_eq!(twice.load(SeqCst), 0, "polled by two threads at once");
    runtime.block_on(live::settled(&governor, "g"));
}
