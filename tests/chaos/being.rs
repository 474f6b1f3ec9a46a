//! A future that does anything: yields in every way, waits, computes, spawns, panics in its poll or its drop, keeps its
//! waker where others find it; and that notices when it is treated as no future may be.

use quotient::{AbortHandle, task};
use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// A small generator of random numbers (SplitMix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Where futures may be dropped.
pub enum Threads {
    Only(Arc<Mutex<HashSet<ThreadId>>>),
    AllBut(Option<ThreadId>),
}

impl Threads {
    /// Whether the thread that runs now, which is this one, is among them.
    fn have(&self, thread: ThreadId) -> bool {
        match self {
            Threads::Only(threads) => {
                // A spare that stands in for a worker in a long poll is none of the runtime's.
                let spare = std::thread::current().name() == Some("quotient-spare");
                spare || threads.lock().unwrap().contains(&thread)
            }
            Threads::AllBut(other) => *other != Some(thread),
        }
    }
}

/// What all beings share.
pub struct World {
    /// One record per being that was ever made.
    records: Mutex<Vec<Arc<Record>>>,
    pub alive: AtomicI64,
    faults: Mutex<Vec<String>>,
    pub wakers: Mutex<Vec<Waker>>,
    pub aborts: Mutex<Vec<AbortHandle>>,
    threads: Threads,
    /// Everybody is to end.
    pub calm: AtomicBool,
    /// The governor was told to end: spawns drop their future where they are.
    pub over: AtomicBool,
}

#[derive(Default)]
struct Record {
    polling: AtomicBool,
    ended: AtomicBool,
    drops: AtomicU32,
}

impl World {
    pub fn new(threads: Threads) -> Arc<World> {
        Arc::new(World {
            records: Mutex::default(),
            alive: AtomicI64::new(0),
            faults: Mutex::default(),
            wakers: Mutex::default(),
            aborts: Mutex::default(),
            threads,
            calm: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(what);
    }

    /// What must hold at every moment.
    pub fn check(&self) {
        let faults = self.faults.lock().unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
    }

    /// Wakes whoever left a waker, and forgets it.
    pub fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap());
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Every being is gone: each was dropped once. How many there were.
    pub fn all_gone(&self) -> usize {
        self.check();
        let records = std::mem::take(&mut *self.records.lock().unwrap());
        for (i, record) in records.iter().enumerate() {
            assert_eq!(record.drops.load(SeqCst), 1, "drops of being {i}");
        }
        self.aborts.lock().unwrap().clear();
        records.len()
    }
}

/// Panics when it is dropped, if it is armed.
#[derive(Debug)]
pub struct Output(bool);

impl Drop for Output {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            panic!("planned: drop of an output");
        }
    }
}

type Waits = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Being {
    world: Arc<World>,
    record: Arc<Record>,
    random: Random,
    turns: usize,
    waits: Option<Waits>,
}

impl Being {
    pub fn new(world: &Arc<World>, random: &mut Random) -> Being {
        let record = Arc::new(Record::default());
        world.records.lock().unwrap().push(record.clone());
        world.alive.fetch_add(1, SeqCst);
        Being {
            world: world.clone(),
            record,
            random: Random(random.next()),
            turns: random.below(12),
            waits: None,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Output> {
        loop {
            if let Some(waits) = &mut self.waits {
                match waits.as_mut().poll(cx) {
                    Poll::Pending if !self.world.calm.load(SeqCst) => return Poll::Pending,
                    _ => self.waits = None,
                }
            }
            if self.turns == 0 || self.world.calm.load(SeqCst) {
                return Poll::Ready(Output(self.random.one_in(8)));
            }
            self.turns -= 1;
            if self.act(cx) {
                return Poll::Pending;
            }
        }
    }

    /// Does something; whether it then waits to be woken.
    fn act(&mut self, cx: &mut Context<'_>) -> bool {
        let threads = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        match self.random.below(24) {
            0..=3 => {
                cx.waker().wake_by_ref();
                return true;
            }
            4..=6 => self.waits = Some(Box::pin(tokio::task::yield_now())),
            7..=9 => {
                let time = Duration::from_micros(self.random.below(1_500) as u64);
                self.waits = Some(Box::pin(tokio::time::sleep(time)));
            }
            10..=12 => {
                self.world.wakers.lock().unwrap().push(cx.waker().clone());
                return true;
            }
            13..=15 => self.spawn(),
            16 => {
                let abort = self.world.aborts.lock().unwrap().pop();
                abort.inspect(AbortHandle::abort);
            }
            17 => panic!("planned: in poll"),
            18 if threads => tokio::task::block_in_place(|| {
                std::thread::sleep(Duration::from_micros(100));
            }),
            19 if self.random.one_in(20) => crate::live::compute(Duration::from_millis(7)),
            20 => {
                // Woken from elsewhere, perhaps while this poll goes on.
                let waker = cx.waker().clone();
                drop(task::spawn_blocking(move || waker.wake()));
                return true;
            }
            21 => (0..100).for_each(|_| cx.waker().wake_by_ref()),
            _ => crate::live::compute(Duration::from_micros(self.random.below(60) as u64)),
        }
        false
    }

    fn spawn(&mut self) {
        if self.world.alive.load(SeqCst) > 2_000 {
            return;
        }
        let child = quotient::spawn(Being::new(&self.world, &mut self.random));
        match self.random.below(3) {
            0 => child.abort(),
            1 => self.world.aborts.lock().unwrap().push(child.abort_handle()),
            _ => self.waits = Some(Box::pin(async move { drop(child.await) })),
        }
    }
}

impl Future for Being {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        let record = self.record.clone();
        if record.polling.swap(true, SeqCst) {
            self.world.fault("polled by two threads at once".into());
        }
        if record.ended.load(SeqCst) || record.drops.load(SeqCst) > 0 {
            self.world.fault("polled after its end".into());
        }
        // A panic ends it too.
        record.ended.store(true, SeqCst);
        struct Polled(Arc<Record>);
        impl Drop for Polled {
            fn drop(&mut self) {
                self.0.polling.store(false, SeqCst);
            }
        }
        let _polled = Polled(record.clone());
        let turn = self.turn(cx);
        record.ended.store(turn.is_ready(), SeqCst);
        turn
    }
}

impl Drop for Being {
    fn drop(&mut self) {
        let (world, here) = (self.world.clone(), std::thread::current().id());
        if self.record.polling.load(SeqCst) {
            world.fault("dropped inside its poll".into());
        }
        if Handle::try_current().is_err() {
            world.fault("dropped outside of the runtime".into());
        }
        if !world.threads.have(here) && !world.over.load(SeqCst) {
            world.fault(format!("dropped on {here:?}"));
        }
        if self.record.drops.fetch_add(1, SeqCst) > 0 {
            world.fault("dropped twice".into());
        }
        world.alive.fetch_sub(1, SeqCst);
        if self.random.one_in(12) && !std::thread::panicking() {
            panic!("planned: drop of a being");
        }
    }
}
