//! Groups that always have work: what share of the workers' time did each get, window by window?

use super::shapes::SelfWake;
use super::side::Side;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Before the first window: all tasks have been polled, the first credits are gone.
const SETTLE: Duration = Duration::from_millis(300);
const WINDOW: Duration = Duration::from_secs(1);

/// Groups with their weights, the length of one poll, and the number of tasks.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) weights: &'static [u64],
    polls: &'static [Duration],
    tasks: &'static [usize],
}

const fn micros<const N: usize>(lengths: [u64; N]) -> [Duration; N] {
    let mut polls = [Duration::ZERO; N];
    let mut i = 0;
    while i < N {
        polls[i] = Duration::from_micros(lengths[i]);
        i += 1;
    }
    polls
}

/// What is measured.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "2:1, polls 20 and 20 µs",
        weights: &[2, 1],
        polls: &micros([20, 20]),
        tasks: &[64, 64],
    },
    Case {
        name: "2:1, polls 5 and 500 µs",
        weights: &[2, 1],
        polls: &micros([5, 500]),
        tasks: &[64, 64],
    },
    Case {
        name: "2:1, polls 500 and 5 µs",
        weights: &[2, 1],
        polls: &micros([500, 5]),
        tasks: &[64, 64],
    },
    Case {
        name: "1:1, 1 task and 1000",
        weights: &[1, 1],
        polls: &micros([20, 20]),
        tasks: &[1, 1000],
    },
    Case {
        name: "1:3:4, polls 20 µs",
        weights: &[1, 3, 4],
        polls: &micros([20, 20, 20]),
        tasks: &[64, 64, 64],
    },
];

/// Tasks of one group that compute until they are told to stop.
pub(crate) struct Busy {
    in_polls: Arc<AtomicU64>,
    alive: Arc<AtomicUsize>,
}

impl Busy {
    pub(crate) fn start<S: Side>(
        side: &S,
        group: usize,
        tasks: usize,
        poll: Duration,
        stop: &Arc<AtomicBool>,
    ) -> Busy {
        let busy = Busy {
            in_polls: Arc::default(),
            alive: Arc::new(AtomicUsize::new(tasks)),
        };
        for _ in 0..tasks {
            let (in_polls, alive, stop) = (busy.in_polls.clone(), busy.alive.clone(), stop.clone());
            side.remote(group, async move {
                while !stop.load(Ordering::Relaxed) {
                    let spent = compute(poll).as_nanos() as u64;
                    in_polls.fetch_add(spent, Ordering::Relaxed);
                    SelfWake::default().await;
                }
                alive.fetch_sub(1, Ordering::Release);
            });
        }
        busy
    }

    /// Time inside polls so far, in nanoseconds.
    pub(crate) fn in_polls(&self) -> u64 {
        self.in_polls.load(Ordering::Relaxed)
    }

    /// Waits until all tasks have seen the stop.
    pub(crate) fn ended(&self) {
        while self.alive.load(Ordering::Acquire) > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Keeps the CPU busy for so long; returns how long it really took.
pub(crate) fn compute(length: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let spent = start.elapsed();
        if spent >= length {
            return spent;
        }
        std::hint::spin_loop();
    }
}

/// For each window: the error of the group whose share was furthest off, in per cent of its share.
pub(crate) fn share_errors<S: Side>(side: &S, case: &Case, windows: usize) -> Vec<f64> {
    let stop = Arc::new(AtomicBool::new(false));
    let groups: Vec<Busy> = case
        .polls
        .iter()
        .zip(case.tasks)
        .enumerate()
        .map(|(group, (&poll, &tasks))| Busy::start(side, group, tasks, poll, &stop))
        .collect();
    let read = || groups.iter().map(Busy::in_polls).collect::<Vec<u64>>();
    std::thread::sleep(SETTLE);
    let errors = (0..windows)
        .map(|_| {
            let before = read();
            std::thread::sleep(WINDOW);
            let given: Vec<u64> = read().iter().zip(before).map(|(b, a)| b - a).collect();
            worst_error(&given, case.weights)
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    groups.iter().for_each(Busy::ended);
    errors
}

fn worst_error(given: &[u64], weights: &[u64]) -> f64 {
    let all: u64 = given.iter().sum();
    let total: u64 = weights.iter().sum();
    given
        .iter()
        .zip(weights)
        .map(|(&given, &weight)| {
            let share = given as f64 / all as f64;
            let asked = weight as f64 / total as f64;
            (share - asked).abs() / asked * 100.0
        })
        .fold(0.0, f64::max)
}
