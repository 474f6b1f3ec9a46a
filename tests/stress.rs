//! Random wakes, yields, spawns and aborts over many groups on a machine with more busy threads than cores.
//!
//! Finds lost wake-ups: every poke is counted, rounds are short and end in silence, so that workers park all
//! the time, and a round whose pokes do not all arrive has lost one. `QUOTIENT_STRESS_SECONDS` (default 20)
//! is its length, `QUOTIENT_STRESS_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use futures::task::AtomicWaker;
use live::{Ground, governor, multi_thread, watched};
use quotient::Governor;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

const GROUPS: usize = 5;
const RELAYS: usize = 40;
const POKERS: usize = 3;
/// A round of some thousand operations that has not ended after this long has lost something.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// A small generator of random numbers (SplitMix64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Where a relay is poked.
#[derive(Default)]
struct Mailbox {
    pokes: AtomicU64,
    taken: AtomicU64,
    waker: AtomicWaker,
}

struct World {
    boxes: Vec<Mailbox>,
    /// Pokes sent and not yet taken.
    outstanding: AtomicI64,
    /// How many pokes relays may still send on in this round.
    echoes: AtomicI64,
    /// Futures that were made and not yet dropped.
    futures: AtomicI64,
    wakes: AtomicU64,
    aborts: AtomicU64,
    stop: AtomicBool,
}

impl World {
    fn poke(&self, target: usize) {
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        self.wakes.fetch_add(1, Ordering::Relaxed);
        let target = &self.boxes[target];
        target.pokes.fetch_add(1, Ordering::SeqCst);
        target.waker.wake();
    }
}

/// Counts a future from its making to its drop.
struct Counted(Arc<World>);

impl Counted {
    fn new(world: &Arc<World>) -> Counted {
        world.futures.fetch_add(1, Ordering::SeqCst);
        Counted(world.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.futures.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes the pokes of one box and does something random with each.
async fn relay(world: Arc<World>, me: usize, mut random: Random) {
    let _counted = Counted::new(&world);
    let mut taken = 0;
    loop {
        let pokes = poll_fn(|cx| {
            let mine = &world.boxes[me];
            mine.waker.register(cx.waker());
            let pokes = mine.pokes.load(Ordering::SeqCst);
            if pokes > taken || world.stop.load(Ordering::SeqCst) {
                Poll::Ready(pokes)
            } else {
                Poll::Pending
            }
        })
        .await;
        if pokes == taken {
            return;
        }
        for _ in taken..pokes {
            react(&world, &mut random).await;
            world.boxes[me].taken.fetch_add(1, Ordering::SeqCst);
            world.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
        taken = pokes;
    }
}

async fn react(world: &Arc<World>, random: &mut Random) {
    let echo = world.echoes.fetch_sub(1, Ordering::SeqCst) > 0;
    let target = random.below(RELAYS);
    match random.below(16) {
        0..=5 if echo => world.poke(target),
        6 | 7 if echo => {
            let world = world.clone();
            // In flight until it has poked, even if it is not polled for long.
            world.outstanding.fetch_add(1, Ordering::SeqCst);
            drop(quotient::spawn(async move {
                let _counted = Counted::new(&world);
                world.poke(target);
                world.outstanding.fetch_sub(1, Ordering::SeqCst);
            }));
        }
        8 => quotient::task::yield_now().await,
        9 => tokio::task::yield_now().await,
        10 => tokio::time::sleep(Duration::from_micros(random.next() % 300)).await,
        11 => live::compute(Duration::from_micros(random.next() % 200)),
        12 => {
            let inner = quotient::spawn(async { quotient::task::yield_now().await });
            inner.await.unwrap();
        }
        13 => {
            let plain = tokio::spawn(async { tokio::task::yield_now().await });
            plain.await.unwrap();
        }
        14 => tokio::task::spawn_blocking(|| ()).await.unwrap(),
        _ => {}
    }
}

/// Spawns tasks in random states and aborts them from here at random moments; every handle must resolve.
async fn victims(world: &Arc<World>, governor: &Governor, random: &mut Random) {
    let count = random.below(12);
    let mut handles = Vec::new();
    for _ in 0..count {
        let (counted, kind) = (Counted::new(world), random.below(4));
        let handle = governor.spawn_in(&group(random.below(GROUPS)), async move {
            let _counted = counted;
            match kind {
                0 => std::future::pending().await,
                1 => tokio::time::sleep(Duration::from_micros(150)).await,
                2 => (0..3).for_each(|_| std::thread::yield_now()),
                _ => {
                    for _ in 0..50 {
                        quotient::task::yield_now().await;
                    }
                }
            }
        });
        handles.push((handle.unwrap(), kind));
    }
    for (handle, kind) in handles {
        if kind == 0 || random.below(2) == 0 {
            world.aborts.fetch_add(1, Ordering::Relaxed);
            let abort = handle.abort_handle();
            match random.below(3) {
                0 => abort.abort(),
                1 => drop(std::thread::spawn(move || abort.abort())),
                _ => {
                    handle.abort();
                    drop(handle);
                    continue;
                }
            }
        }
        match handle.await {
            Ok(()) => {}
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
}

fn group(n: usize) -> String {
    format!("g{n}")
}

struct Stress {
    world: Arc<World>,
    governor: Governor,
    runtime: Ground,
    seed: u64,
}

impl Stress {
    /// Waits for silence; panics with everything that is known if something is missing.
    fn silence(&self, round: u64) {
        let start = Instant::now();
        while self.world.outstanding.load(Ordering::SeqCst) != 0 {
            assert!(start.elapsed() < ROUND_LIMIT, "{}", self.lost(round));
            if start.elapsed() > Duration::from_millis(5) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn lost(&self, round: u64) -> String {
        let world = &self.world;
        let mut text = format!(
            "round {round}, seed {}: {} pokes never arrived\n",
            self.seed,
            world.outstanding.load(Ordering::SeqCst)
        );
        for (i, mailbox) in world.boxes.iter().enumerate() {
            let sent = mailbox.pokes.load(Ordering::SeqCst);
            let taken = mailbox.taken.load(Ordering::SeqCst);
            if sent != taken {
                text += &format!("  relay {i} of {}: {taken} of {sent}\n", group(i % GROUPS));
            }
        }
        text + &self.governor.dump()
    }

    fn round(&self, round: u64, random: &mut Random) {
        let world = &self.world;
        // Often a single poke into silence, sometimes a storm.
        let (pokes, echoes) = match random.below(8) {
            0..=3 => (1, random.below(4)),
            4 | 5 => (1 + random.below(10), random.below(40)),
            6 => (40 + random.below(200), random.below(400)),
            _ => (1, 2000),
        };
        world.echoes.store(echoes as i64, Ordering::SeqCst);
        if random.below(3) == 0 {
            self.runtime
                .block_on(victims(world, &self.governor, random));
        }
        let threads = if pokes > 20 { POKERS } else { 1 };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let mut random = Random(random.next());
                let mut poke = move || {
                    for _ in 0..pokes {
                        world.poke(random.below(RELAYS));
                    }
                };
                if threads == 1 {
                    poke();
                } else {
                    scope.spawn(poke);
                }
            }
        });
        self.silence(round);
        // Some rounds begin while workers are on their way to sleep, some long after.
        for _ in 0..random.below(300) {
            std::hint::spin_loop();
        }
        if random.below(20) == 0 {
            std::thread::sleep(Duration::from_micros(random.next() % 500));
        }
    }
}

/// Threads that compete for the cores, so that workers are preempted at any instruction.
fn oversubscribe(stop: &Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<()>> {
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    (0..cores + 1)
        .map(|i| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    live::compute(Duration::from_micros(300 + 700 * i as u64));
                    std::thread::sleep(Duration::from_micros(200));
                }
            })
        })
        .collect()
}

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

const WORKERS: usize = 4;

#[test]
fn no_wake_is_lost_on_an_oversubscribed_machine() {
    no_wake_is_lost(Ground::Tokio(multi_thread(WORKERS)));
}

#[test]
fn no_wake_is_lost_by_threads_of_its_own() {
    no_wake_is_lost(Ground::owned());
}

fn no_wake_is_lost(runtime: Ground) {
    let seconds = from_env("QUOTIENT_STRESS_SECONDS", 20);
    let seed = from_env("QUOTIENT_STRESS_SEED", std::process::id().into());
    println!("seed {seed}");
    let sql: String = (0..GROUPS)
        .map(|n| {
            let weight = [1, 2, 4, 100, 10_000][n];
            format!("CREATE RESOURCE GROUP g{n} WITH ('cpu_core_limit'='{weight}');")
        })
        .collect();
    let stress = Stress {
        governor: governor(&runtime, WORKERS, &sql),
        runtime,
        seed,
        world: Arc::new(World {
            boxes: (0..RELAYS).map(|_| Mailbox::default()).collect(),
            outstanding: AtomicI64::new(0),
            echoes: AtomicI64::new(0),
            futures: AtomicI64::new(0),
            wakes: AtomicU64::new(0),
            aborts: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }),
    };
    let world = &stress.world;
    let mut random = Random(seed);
    let relays: Vec<_> = (0..RELAYS)
        .map(|i| {
            let relay = relay(world.clone(), i, Random(random.next()));
            stress.governor.spawn_in(&group(i % GROUPS), relay).unwrap()
        })
        .collect();
    let competing = Arc::new(AtomicBool::new(false));
    let threads = oversubscribe(&competing);

    let start = Instant::now();
    let rounds = AtomicUsize::new(0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let _watched = watched("a round of the stress test");
        let round = rounds.fetch_add(1, Ordering::Relaxed) as u64;
        stress.round(round, &mut random);
    }

    world.stop.store(true, Ordering::SeqCst);
    world.boxes.iter().for_each(|mailbox| mailbox.waker.wake());
    for relay in relays {
        stress.runtime.block_on(relay).unwrap();
    }
    stress.runtime.block_on(async {
        for n in 0..GROUPS {
            live::settled(&stress.governor, &group(n)).await;
        }
        stress.governor.shutdown(Duration::ZERO).await;
    });
    live::eventually_blocking("every future is dropped", || {
        world.futures.load(Ordering::SeqCst) == 0
    });
    competing.store(true, Ordering::Relaxed);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    println!(
        "{} rounds, {} wakes, {} aborts in {seconds} s",
        rounds.load(Ordering::Relaxed),
        world.wakes.load(Ordering::Relaxed),
        world.aborts.load(Ordering::Relaxed)
    );
}
