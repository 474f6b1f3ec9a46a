//! Level 2 in virtual time: queries of one group, by age.

use quotient::clock::ThreadTime;
use quotient::sched::fair::Slot;
use quotient::sched::feedback::{Feedback, Stream};
use quotient::sched::sim::{Rng, Setup, Sim, job, steady};
use quotient::unit::{Nanos, QueryId};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// A query of `tasks` tasks that use `cpu` each.
fn query(
    sim: &mut Sim,
    group: Slot,
    at: Nanos,
    tasks: usize,
    cpu: Nanos,
) -> Vec<quotient::sched::sim::TaskId> {
    let id = sim.query();
    (0..tasks)
        .map(|_| sim.spawn(group, Some(id), at, job(cpu, ms(1))))
        .collect()
}

fn last(sim: &Sim, tasks: &[quotient::sched::sim::TaskId]) -> Nanos {
    let ends = tasks.iter().map(|&t| sim.finished(t).expect("it is done"));
    ends.max().expect("it has tasks")
}

/// Latencies of short queries (10 ms of CPU in two tasks) that come at random, beside `long` endless ones of
/// four tasks each, in the same group; and what the long ones were given.
fn short_beside_long(long: usize) -> (Vec<Nanos>, Nanos) {
    let mut sim = Sim::new(Setup::default());
    let group = sim.group(1);
    for _ in 0..long {
        let id: QueryId = sim.query();
        for _ in 0..4 {
            sim.spawn(group, Some(id), ms(0), steady(ms(1)));
        }
    }
    let (mut rng, mut at, mut shorts) = (Rng::new(5), ms(10_000), Vec::new());
    while at < ms(40_000) {
        shorts.push((at, query(&mut sim, group, at, 2, ms(5))));
        at = at.plus(rng.gap(ms(50)));
    }
    sim.run_until(ms(10_000));
    let before = sim.given(group);
    sim.run_until(ms(42_000));
    let short_cpu = shorts.len() as u64 * 10 * MS;
    let long_cpu = Nanos(sim.given(group).since(before).0 - short_cpu);
    let mut took: Vec<Nanos> = shorts
        .iter()
        .map(|(at, tasks)| last(&sim, tasks).since(*at))
        .collect();
    took.sort();
    (took, long_cpu)
}

#[test]
fn short_queries_overtake_long_ones_of_their_group() {
    let (alone, _) = short_beside_long(0);
    let (beside, long_cpu) = short_beside_long(10);
    let at = |took: &[Nanos], percent: usize| took[took.len() * percent / 100];
    // First come, first served would let a short one wait for 40 polls of 1 ms, ten times over.
    assert!(
        at(&beside, 50).0 <= 2 * at(&alone, 50).0,
        "{}",
        at(&beside, 50)
    );
    assert!(
        at(&beside, 99).0 <= 3 * at(&alone, 99).0,
        "{}",
        at(&beside, 99)
    );
    // The short ones leave 90 % of two workers, and the long ones use them.
    assert!(long_cpu >= ms(55_000), "{long_cpu}");
}

#[test]
fn equal_queries_finish_one_after_the_other() {
    let mut sim = Sim::new(Setup::default());
    let group = sim.group(1);
    let queries: Vec<_> = (0..4)
        .map(|_| query(&mut sim, group, ms(0), 4, ms(25)))
        .collect();
    sim.run_until(ms(400));
    let ends: Vec<u64> = queries
        .iter()
        .map(|tasks| last(&sim, tasks).0 / MS)
        .collect();
    // 100 ms of CPU each on two workers; in rotation all would end between 180 and 200 ms.
    for (i, end) in ends.iter().enumerate() {
        assert!(end.abs_diff(50 * (i as u64 + 1)) <= 3, "{ends:?}");
    }
}

#[test]
fn a_long_query_goes_on_beside_a_flood_of_short_ones() {
    let mut sim = Sim::new(Setup::default());
    let group = sim.group(1);
    let long = sim.query();
    let mut long_tasks = Vec::new();
    for _ in 0..4 {
        long_tasks.push(sim.spawn(group, Some(long), ms(0), job(ms(1_000), ms(1))));
    }
    // From 1 s on more short work than two workers can do.
    for i in 0..2_000 {
        query(&mut sim, group, ms(1_000 + 5 * i), 3, ms(4));
    }
    sim.run_until(ms(11_000));
    let end = last(&sim, &long_tasks);
    // 2 s are left for it when the flood begins, at 2000 to 3000 ms of its age: a fifth of the time or more.
    assert!(end > ms(2_000) && end <= ms(7_000), "{end}");
}

#[test]
fn of_sixteen_half_minute_queries_the_first_are_done_in_half_the_time_of_all() {
    // A program gave each of 16 queries of 30 s a minute, on 7 threads; served in turns, all 16 came too late.
    for workers in [2, 7] {
        let mut sim = Sim::new(Setup {
            workers,
            ..Setup::default()
        });
        let group = sim.group(1);
        let queries: Vec<_> = (0..16)
            .map(|_| query(&mut sim, group, ms(0), 1, ms(30_000)))
            .collect();
        let all = 16 * 30_000 / workers as u64;
        sim.run_until(ms(2 * all));
        let ends: Vec<u64> = queries.iter().map(|q| last(&sim, q).0 / MS).collect();
        let within = |time: u64| ends.iter().filter(|&&end| end <= time).count();
        // By their last levels all have had 5.6 s; from there on they finish in the order in which they came.
        assert!(workers < 7 || within(60_000) >= 7, "{ends:?}");
        assert!(within(all * 5 / 8) >= 7, "{workers} workers: {ends:?}");
        println!("{ends:?}");
        assert_eq!(sim.wasted(), Nanos::ZERO);
    }
}

/// A slice asks for its query once it has ended, whether or not others of its group are ready: with sixteen times as
/// many, all slices together take sixteen times as long, not 256 times. In CPU time of the thread, which others do not
/// use up.
#[test]
fn a_slice_costs_the_same_however_many_queries_are_ready() {
    let base = Nanos::from_millis(2);
    let began = Instant::now();
    let now = || match ThreadTime::read() {
        Some(time) => Duration::from(time.cpu),
        None => began.elapsed(),
    };
    // Young queries, and old ones of the last level that have used many turns of it.
    for cpu in [Nanos::ZERO, Nanos::from_secs(100)] {
        let serve = |queries: u64| {
            let begin = now();
            let mut queue = Feedback::new(base);
            for id in 0..queries {
                let used = cpu.plus(Nanos::from_millis(if cpu.0 == 0 {
                    0
                } else {
                    id * 7 % 5_000
                }));
                queue.push(Stream::Query(QueryId(id)), used, id);
            }
            while let Some(turn) = queue.begin() {
                assert!(queue.take(turn).is_some());
                assert_eq!(queue.waiting(turn), 0);
                queue.charge(turn, Nanos(1));
            }
            assert!(queue.is_empty());
            now() - begin
        };
        let best = |queries| (0..3).map(|_| serve(queries)).min().unwrap();
        let ratio = best(16_000).as_secs_f64() / best(1_000).as_secs_f64();
        assert!(
            ratio < 80.0,
            "16 times the queries took {ratio:.0} times as long"
        );
    }
}
