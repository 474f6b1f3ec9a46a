//! Workers of the simulator and loads on them, as the tests in virtual time set them up. Pure.

use quotient::sched::fair::Slot;
use quotient::sched::sim::{Setup, Sim, steady};
use quotient::unit::Nanos;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

pub(crate) fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

pub(crate) fn sim(workers: usize) -> Sim {
    Sim::new(Setup {
        workers,
        ..Setup::default()
    })
}

/// `tasks` endless tasks that begin at `at`.
pub(crate) fn load(sim: &mut Sim, group: Slot, tasks: usize, at: Nanos, poll: Nanos) {
    for _ in 0..tasks {
        sim.spawn(group, None, at, steady(poll));
    }
}

/// What the groups are given during the next `time`.
pub(crate) fn during(sim: &mut Sim, time: Nanos, groups: &[Slot]) -> Vec<u64> {
    let before: Vec<Nanos> = groups.iter().map(|&g| sim.given(g)).collect();
    sim.run_for(time);
    let after = groups.iter().map(|&g| sim.given(g));
    after.zip(before).map(|(a, b)| a.since(b).0).collect()
}
