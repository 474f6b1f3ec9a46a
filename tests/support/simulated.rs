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

/// Weights 10 and 1, both with more tasks than workers and no limits from now on: the next 100 ms of the first, which may
/// lack so many ns besides the polls that run, and the second after, which is fair to one part in `fair_to`.
pub(crate) fn check_return(
    sim: &mut Sim,
    workers: usize,
    groups: [Slot; 2],
    lacks: u64,
    fair_to: u64,
) {
    let given = during(sim, ms(100), &groups);
    let entitled = 100 * MS * workers as u64 * 10 / 11;
    let most = entitled + HALF_IDEAL;
    let least = entitled.saturating_sub(lacks + 2 * workers as u64 * 100_000);
    assert!(
        (least..=most).contains(&given[0]),
        "{workers} workers: {given:?}"
    );
    let given = during(sim, ms(1_000), &groups);
    let fair = 1_000 * MS * workers as u64 * 10 / 11;
    assert!(
        given[0].abs_diff(fair) <= fair / fair_to,
        "{given:?} of {fair}"
    );
    assert_eq!(sim.wasted(), Nanos::ZERO);
}

/// Half of what a group of weight 10 beside one of weight 1 should have in a period.
pub(crate) const HALF_IDEAL: u64 = 50 * MS * 10 / 11;
