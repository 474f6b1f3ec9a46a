//! What holds for any load: no worker idles beside a runnable task, nobody's lag and nobody's wait grows with
//! time. Random groups, tasks, poll lengths, sleeps, bursts and arrivals; the bounds are stated here.
//!
//! W workers, G groups, the longest poll L, the slice S. A slice ends with the poll that runs then, so a worker
//! gives a group at most T = S + L at once. C, half a period, is the most that a credit can be.
//!
//! **Lag.** A group is picked only while nobody queued is further behind. So when it is ahead of another, it is
//! by what W workers gave it at once and by the credit that it came with, W T + C; and when it is behind, as
//! many others as there are may be ahead of it: `|lag| ≤ (G - 1) (W T + C)`, for runs of any length.
//!
//! **Wait.** While group i waits, another group j is given what it is behind i, its weight times the difference of
//! their vruntimes, which is at most 2 W T ÷ w(i) + C ÷ w(j), and W T more to end with. W workers do that together:
//! `wait(i) ≤ L + Σ (2 W T w(j) ÷ w(i) + C + W T) ÷ W`, over all j ≠ i.

use proptest::prelude::*;
use quotient::sched::Config;
use quotient::sched::fair::Slot;
use quotient::sched::sim::{Rng, Setup, Sim, bursts, job, random, steady};
use quotient::sched::trace::replay;
use quotient::unit::Nanos;

/// A short period, so that the bounds are much smaller than what a run gives.
const PERIOD: Nanos = Nanos::from_millis(4);
const LENGTH: Nanos = Nanos::from_millis(200);

#[derive(Clone, Debug)]
struct Load {
    weight: u64,
    /// Endless tasks, of these polls.
    endless: usize,
    poll: u64,
    /// Tasks that poll and sleep at random.
    sleepers: usize,
    sleep: u64,
    /// Tasks that all wake at the same instants.
    bursting: usize,
    /// Jobs that arrive at random, and how long one is.
    arrivals: usize,
    job: u64,
}

fn load() -> impl Strategy<Value = Load> {
    let tasks = (0usize..6, 0usize..5, 0usize..5, 0usize..60);
    let times = (
        1_000u64..1_000_000,
        1_000u64..20_000_000,
        1_000u64..3_000_000,
    );
    (1u64..20, tasks, times).prop_map(|(weight, tasks, times)| Load {
        weight,
        endless: tasks.0,
        sleepers: tasks.1,
        bursting: tasks.2,
        arrivals: tasks.3,
        poll: times.0,
        sleep: times.1,
        job: times.2,
    })
}

fn spawn(sim: &mut Sim, group: Slot, load: &Load, rng: &mut Rng) {
    let (poll, sleep) = (Nanos(load.poll), Nanos(load.sleep));
    for _ in 0..load.endless {
        sim.spawn(group, None, Nanos::ZERO, steady(poll));
    }
    for _ in 0..load.sleepers {
        let work = random((Nanos(5_000), poll), (Nanos(1_000), sleep), 4);
        sim.spawn(group, None, Nanos::ZERO, work);
    }
    for _ in 0..load.bursting {
        sim.spawn(group, None, Nanos::ZERO, bursts(5, poll, sleep));
    }
    for _ in 0..load.arrivals {
        let query = sim.query();
        let at = rng.time(Nanos::ZERO, LENGTH);
        for _ in 0..rng.between(1, 3) {
            sim.spawn(group, Some(query), at, job(Nanos(load.job), poll));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_load_is_served_without_waste_with_bounded_lag_and_bounded_waits(
        workers in 1usize..9,
        loads in proptest::collection::vec(load(), 2..7),
        seed in any::<u64>(),
    ) {
        let config = Config { period: PERIOD, ..Config::default() };
        let mut sim = Sim::new(Setup { workers, config, seed, record: true, ..Setup::default() });
        let mut rng = Rng::new(seed);
        let groups: Vec<Slot> = loads.iter().map(|l| sim.group(l.weight)).collect();
        for (&group, load) in groups.iter().zip(&loads) {
            spawn(&mut sim, group, load, &mut rng);
        }
        sim.run_until(LENGTH);

        prop_assert_eq!(sim.wasted(), Nanos::ZERO, "no worker idles beside a runnable task");
        let longest = loads.iter().map(|l| l.poll).max().unwrap_or(0);
        let w = workers as u64;
        let at_once = config.slice.0 + longest;
        let ahead = w * at_once + PERIOD.0 / 2;
        for (i, &group) in groups.iter().enumerate() {
            let bound = ahead * (groups.len() as u64 - 1);
            let worst = sim.worst_lag(group);
            let others = loads.iter().enumerate().filter(|&(j, _)| j != i);
            let wait: u64 = longest + others.map(|(_, other)| {
                let behind = 2 * w * at_once * other.weight / loads[i].weight + PERIOD.0 / 2;
                (behind + w * at_once) / w
            }).sum::<u64>();
            let unserved = sim.longest_unserved(group);
            prop_assert!(worst.0 <= bound, "lag of group {}: {} > {}", i, worst, Nanos(bound));
            prop_assert!(unserved.0 <= wait, "group {} waited {} > {}", i, unserved, Nanos(wait));
        }
        let trace = sim.trace().expect("it was recorded");
        prop_assert!(replay(&trace).is_ok());
    }
}
