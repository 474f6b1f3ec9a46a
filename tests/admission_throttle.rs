//! The memory throttle: freeze at what runs, then one more per interval; exactly, through the gauges, and live.

#![allow(clippy::unwrap_used)]

use quotient::admission::policy::{Throttle, ThrottleRules};
use quotient::admission::{
    Answer, Decision, GovernorLimits, GroupLimits, Order, Policy, Refusal, WaitReason,
};
use quotient::settings::Scheduler;
use quotient::unit::{Bytes, GroupId, Nanos, QueryId};
use quotient::{AdmissionError, Attributes, Governor, Settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const NOBODY: [u64; 0] = [];
const A: GroupId = GroupId(10_001);
const GB: u64 = 1_000_000_000;

fn rules(interval_ms: u64) -> ThrottleRules {
    ThrottleRules {
        threshold: Bytes(90),
        interval: Nanos::from_millis(interval_ms),
    }
}

// ---- exactly -------------------------------------------------------------------------------------------------------

/// Times in ms, memory, running; what the cap is afterwards, with 8 runner threads.
fn caps(looks: &[(u64, u64, u64)]) -> Vec<Option<u64>> {
    let mut throttle = Throttle::default();
    throttle.set_rules(Some(rules(1_000)), Nanos::ZERO);
    let cap = |&(ms, used, running): &(u64, u64, u64)| {
        throttle.look(Nanos::from_millis(ms), Bytes(used), running, 8);
        throttle.cap()
    };
    looks.iter().map(cap).collect()
}

#[test]
fn it_starts_open_and_at_the_threshold_it_stays_open() {
    assert_eq!(caps(&[(0, 50, 8), (1_000, 90, 8)]), [None, None]);
}

#[test]
fn the_cap_becomes_the_number_running_then_rises_by_one_per_interval() {
    let looks = [
        (0, 91, 4),
        (1_000, 95, 3),
        (2_000, 91, 2),
        (3_000, 90, 2),
        (3_500, 50, 2),
        (4_000, 50, 4),
        (4_999, 50, 5),
        (5_000, 50, 5),
        (6_000, 50, 6),
        (7_000, 50, 7),
        (8_000, 50, 7),
        (9_000, 50, 7),
    ];
    // While it is short the cap follows what runs, downwards only. At 3 s memory is enough again; the first rise
    // comes one interval later. At 9 s it is that of the runner threads: open.
    let expected = [4, 3, 2, 2, 2, 3, 3, 4, 5, 6, 7, 0];
    let expected = expected.map(|cap| Some(cap).filter(|cap| *cap > 0));
    assert_eq!(caps(&looks), expected);
}

#[test]
fn the_cap_is_at_least_one_and_at_most_the_runner_threads() {
    assert_eq!(caps(&[(0, 91, 0)]), [Some(1)]);
    let mut throttle = Throttle::default();
    throttle.set_rules(Some(rules(1_000)), Nanos::ZERO);
    // The runner threads were lowered below what runs: throttling frees nothing.
    let step = throttle.look(Nanos::ZERO, Bytes(91), 12, 8);
    assert_eq!(step.began, Some(8));
}

#[test]
fn when_the_last_query_ends_under_pressure_one_may_start() {
    let mut policy: Policy<u64> = Policy::new();
    policy.register(A, "a".into(), GroupLimits::default(), Nanos::ZERO);
    policy.set_governor(
        GovernorLimits {
            runner_threads: Some(8),
            order: Order::Fcfs,
            throttle: Some(rules(1_000)),
        },
        Nanos::ZERO,
    );
    let arrive =
        |policy: &mut Policy<u64>, id: u64| policy.arrive(A, QueryId(id), Nanos::ZERO, || id);
    assert_eq!(arrive(&mut policy, 1), Decision::Admit);
    assert_eq!(arrive(&mut policy, 2), Decision::Admit);
    policy.look(Bytes(99), Nanos::ZERO);
    for id in 3..6 {
        assert!(matches!(arrive(&mut policy, id), Decision::Wait(_)));
    }
    // Two to one, one to one, one to one: it crawls, and does not stop.
    for expected in [vec![], vec![3], vec![4], vec![5]] {
        policy.leave(A, Nanos::ZERO);
        let answers = policy.take_answers();
        assert_eq!(
            answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(policy.governor(Nanos::ZERO).max_allowed, Some(1));
    }
}

#[test]
fn pressure_that_returns_during_the_rise_freezes_again_at_what_runs_then() {
    let looks = [
        (0, 91, 6),
        (1_000, 10, 6),
        (2_000, 10, 7),
        (3_000, 95, 3),
        (4_000, 10, 3),
        (5_000, 10, 3),
    ];
    assert_eq!(caps(&looks), [6, 6, 7, 3, 3, 4].map(Some));
}

#[test]
fn a_collection_is_asked_for_once_per_ten_intervals_of_lasting_pressure() {
    let mut throttle = Throttle::default();
    throttle.set_rules(Some(rules(100)), Nanos::ZERO);
    let asked = |throttle: &mut Throttle, from: u64, to: u64, used| -> Vec<u64> {
        let looks = (from..to).step_by(100);
        looks
            .filter(|ms| {
                throttle
                    .look(Nanos::from_millis(*ms), Bytes(used), 1, 8)
                    .collect
            })
            .collect()
    };
    assert_eq!(asked(&mut throttle, 0, 3_500, 91), [1_000, 2_000, 3_000]);
    assert_eq!(asked(&mut throttle, 3_500, 6_000, 10), NOBODY);
    assert_eq!(
        asked(&mut throttle, 6_000, 6_900, 91),
        NOBODY,
        "a new spell begins anew"
    );
    assert_eq!(throttle.collections(), 3);
    assert_eq!(
        throttle.total(Nanos::from_millis(6_900)),
        Nanos::from_millis(3_500 + 900)
    );
}

#[test]
fn rules_that_are_given_up_open_it_at_once_and_keep_the_total() {
    let mut throttle = Throttle::default();
    throttle.set_rules(Some(rules(1_000)), Nanos::ZERO);
    throttle.look(Nanos::ZERO, Bytes(91), 2, 8);
    throttle.set_rules(None, Nanos::from_millis(1_500));
    assert_eq!((throttle.cap(), throttle.since()), (None, None));
    assert_eq!(
        throttle.total(Nanos::from_secs(9)),
        Nanos::from_millis(1_500)
    );
    throttle.look(Nanos::from_secs(9), Bytes(99), 2, 8);
    assert_eq!(throttle.cap(), None);
}

#[test]
fn a_new_threshold_and_a_new_interval_bind_from_the_next_look_on() {
    let mut throttle = Throttle::default();
    throttle.set_rules(Some(rules(1_000)), Nanos::ZERO);
    throttle.look(Nanos::ZERO, Bytes(80), 2, 8);
    let lower = ThrottleRules {
        threshold: Bytes(70),
        interval: Nanos::from_millis(10),
    };
    throttle.set_rules(Some(lower), Nanos::ZERO);
    assert_eq!(throttle.cap(), None);
    throttle.look(Nanos::from_millis(1), Bytes(80), 2, 8);
    assert_eq!(throttle.cap(), Some(2));
    throttle.look(Nanos::from_millis(2), Bytes(70), 2, 8);
    throttle.look(Nanos::from_millis(12), Bytes(70), 2, 8);
    assert_eq!(throttle.cap(), Some(3));
}

#[test]
fn running_queries_go_on_new_ones_wait_in_order_and_start_as_the_cap_rises() {
    let mut policy: Policy<u64> = Policy::new();
    let ms = Nanos::from_millis;
    policy.register(A, "a".into(), GroupLimits::default(), ms(0));
    policy.set_governor(
        GovernorLimits {
            runner_threads: Some(8),
            order: Order::Fcfs,
            throttle: Some(rules(1_000)),
        },
        ms(0),
    );
    let arrive = |policy: &mut Policy<u64>, id: u64| policy.arrive(A, QueryId(id), ms(0), || id);
    for id in 1..=4 {
        assert_eq!(arrive(&mut policy, id), Decision::Admit);
    }
    assert_eq!(policy.look(Bytes(95), ms(0)).began, Some(4));
    for id in 5..=20 {
        let Decision::Wait(standing) = arrive(&mut policy, id) else {
            panic!("{id} does not wait")
        };
        assert_eq!(
            (standing.reason, standing.position),
            (WaitReason::MemoryThrottle, id - 4)
        );
    }
    let refused = Refusal::Throttled {
        used: Bytes(95),
        threshold: Bytes(90),
        retry_after: Some(ms(1_000)),
    };
    assert_eq!(policy.try_arrive(A, ms(1)), Decision::Reject(refused));
    let started = |policy: &mut Policy<u64>| -> Vec<u64> {
        let answers = policy.take_answers();
        answers
            .into_iter()
            .map(|(id, answer)| match answer {
                Answer::Admit { .. } => id,
                other => panic!("{other:?}"),
            })
            .collect()
    };
    // One ends under pressure: nobody takes its place, and the cap falls with it.
    policy.leave(A, ms(500));
    assert_eq!(started(&mut policy), NOBODY);
    assert_eq!(policy.governor(ms(500)).max_allowed, Some(3));
    policy.look(Bytes(50), ms(1_000));
    assert_eq!(started(&mut policy), NOBODY);
    let mut rises = Vec::new();
    for second in 2..8 {
        policy.look(Bytes(50), ms(second * 1_000));
        rises.push(started(&mut policy));
    }
    assert_eq!(rises, [vec![5], vec![6], vec![7], vec![8], vec![9], vec![]]);
    assert_eq!(policy.governor(ms(9_000)).max_allowed, Some(8));
    let counts = policy.group(A).unwrap().counts;
    assert_eq!((counts.waited.throttle, counts.rejected.throttle), (5, 1));
}

// ---- through the governor ------------------------------------------------------------------------------------------

/// A governor of 16 GB, throttled above 90 %, whose memory is a number in the test's hand.
fn scene(properties: &str) -> (Governor, Arc<AtomicU64>, Arc<AtomicU64>) {
    let (memory, collections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (probe, collect) = (memory.clone(), collections.clone());
    let governor = Governor::builder()
        .settings(Settings::from_properties(properties).unwrap())
        .memory_limit(16 * GB)
        .memory_probe(move || probe.load(SeqCst))
        .memory_collect(move || {
            collect.fetch_add(1, SeqCst);
        })
        .build()
        .unwrap();
    (governor, memory, collections)
}

const SOURCE: &str = "\
pinot.query.scheduler.name=MemoryThrottledFCFS
pinot.query.scheduler.throttle.memoryUsagePercentageThreshold=90
pinot.query.scheduler.throttle.maxRunningQueriesUpdateFrequencyMs=1000
";

fn gauge(governor: &Governor, name: &str) -> f64 {
    let page = governor.render_metrics();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix(&format!("quotient_query_{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not in {page}"))
        .parse()
        .unwrap()
}

/// A little more than so many seconds, so that the beat of that second is over.
async fn seconds(count: u64) {
    sleep(Duration::from_millis(count * 1_000 + 5)).await;
}

#[tokio::test(start_paused = true)]
async fn at_16_gb_and_90_percent_throttling_begins_above_14_4_gb() {
    let (governor, memory, _) = scene(SOURCE);
    memory.store(14_400_000_000, SeqCst);
    seconds(3).await;
    assert_eq!(gauge(&governor, "throttling_since_ms"), 0.0);
    memory.store(14_400_000_001, SeqCst);
    seconds(1).await;
    assert!(gauge(&governor, "throttling_since_ms") > 0.0);
    memory.store(14_400_000_000, SeqCst);
    seconds(1).await;
    assert_eq!(gauge(&governor, "throttling_since_ms"), 0.0);
}

/// The source's list: since becomes non-zero, max drops, memory falls, since returns to zero, max ramps back.
#[tokio::test(start_paused = true)]
async fn the_gauges_go_through_the_five_steps_of_a_short_spike() {
    let runner_threads = "pinot.query.scheduler.query_runner_threads=6\n";
    let (governor, memory, collections) = scene(&format!("{SOURCE}{runner_threads}"));
    let anybody = Attributes::new();
    let running = [
        governor.admit(&anybody).await.unwrap(),
        governor.admit(&anybody).await.unwrap(),
    ];
    let read = || {
        ["num_runner_threads", "running_total", "max_allowed_queries"]
            .map(|name| gauge(&governor, name))
    };
    seconds(1).await;
    assert_eq!(read(), [6.0, 2.0, 6.0], "it starts with no throttling");

    memory.store(15 * GB, SeqCst);
    seconds(1).await;
    assert!(
        gauge(&governor, "throttling_since_ms") > 0.0,
        "1. it throttles"
    );
    assert_eq!(read(), [6.0, 2.0, 2.0], "2. max drops");
    let late: Vec<_> = (0..6)
        .map(|_| governor.spawn(&anybody, sleep(Duration::from_secs(3_600))))
        .collect();
    seconds(1).await;
    assert_eq!(read(), [6.0, 2.0, 2.0], "running ones go on, new ones wait");
    let since = gauge(&governor, "throttling_since_ms");
    assert!((1_000.0..=2_100.0).contains(&since), "{since}");

    memory.store(9 * GB, SeqCst);
    seconds(1).await;
    assert_eq!(
        gauge(&governor, "throttling_since_ms"),
        0.0,
        "4. it returns to zero"
    );
    let mut ramp = vec![gauge(&governor, "max_allowed_queries")];
    for _ in 0..5 {
        sleep(Duration::from_secs(1)).await;
        let allowed = gauge(&governor, "max_allowed_queries");
        assert_eq!(gauge(&governor, "running_total"), allowed);
        ramp.push(allowed);
    }
    assert_eq!(
        ramp,
        [2.0, 3.0, 4.0, 5.0, 6.0, 6.0],
        "5. max ramps back to the runner threads"
    );
    let total = gauge(&governor, "throttling_total_ms");
    assert!((1_900.0..=2_100.0).contains(&total), "{total}");
    assert_eq!(
        collections.load(SeqCst),
        0,
        "a short spike asks for no collection"
    );
    drop((running, late));
}

#[tokio::test(start_paused = true)]
async fn throttling_that_lasts_asks_for_a_collection_per_ten_intervals() {
    let (governor, memory, collections) = scene(SOURCE);
    memory.store(16 * GB, SeqCst);
    seconds(35).await;
    assert_eq!(collections.load(SeqCst), 3);
    assert_eq!(gauge(&governor, "throttling_gc_requested"), 3.0);
}

/// Memory that this can be made of panics when it is read.
const BROKEN: u64 = 7;

#[tokio::test(start_paused = true)]
async fn a_probe_and_a_collection_that_panic_are_asked_again_at_the_next_interval() {
    let used = Arc::new(AtomicU64::new(0));
    let collections = Arc::new(AtomicU64::new(0));
    let (probe, collect) = (used.clone(), collections.clone());
    let governor = Governor::builder()
        .memory_limit(100)
        .memory_probe(move || match probe.load(SeqCst) {
            BROKEN => panic!("no figure"),
            used => used,
        })
        .memory_collect(move || {
            collect.fetch_add(1, SeqCst);
            panic!("nothing to collect");
        })
        .init_sql(
            "SET GLOBAL query_scheduler_name = 'MemoryThrottledFCFS';
             SET GLOBAL max_running_queries_update_frequency_ms = 1000",
        )
        .build()
        .unwrap();
    let max_allowed = || governor.metrics().queries.max_allowed;
    let open = max_allowed();

    used.store(99, SeqCst);
    seconds(25).await;
    assert_eq!(max_allowed(), Some(1));
    assert_eq!(collections.load(SeqCst), 2, "one per ten intervals");

    // A look that fails decides nothing.
    used.store(BROKEN, SeqCst);
    seconds(3).await;
    assert_eq!(max_allowed(), Some(1));

    used.store(0, SeqCst);
    seconds(100).await;
    assert_eq!(max_allowed(), open);
}

#[tokio::test(start_paused = true)]
async fn a_query_that_waits_for_memory_times_out_and_is_refused_with_that_reason() {
    let (governor, memory, _) = scene(SOURCE);
    let anybody = Attributes::new();
    let _running = governor.admit(&anybody).await.unwrap();
    memory.store(16 * GB, SeqCst);
    seconds(1).await;
    let refused = governor.try_admit(&anybody).unwrap_err();
    let AdmissionError::MemoryThrottled {
        used,
        threshold,
        retry_after,
        ..
    } = &refused
    else {
        panic!("{refused}")
    };
    assert_eq!((used.0, threshold.0), (16 * GB, 14_400_000_000));
    assert_eq!(*retry_after, Some(Duration::from_secs(1)));
    assert!(refused.is_transient());
    let begun = Instant::now();
    let late = governor.admit(&anybody).await.unwrap_err();
    let AdmissionError::Timeout { reason, .. } = &late else {
        panic!("{late}")
    };
    assert_eq!(*reason, WaitReason::MemoryThrottle);
    assert_eq!(
        begun.elapsed().as_secs(),
        300,
        "the default of queue_timeout"
    );
    let page = governor.render_metrics();
    for line in [
        "outcome=\"rejected\",reason=\"throttle\"} 1",
        "outcome=\"timed_out\",reason=\"throttle\"} 1",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn set_global_changes_the_throttle_while_it_works() {
    let (governor, memory, _) = scene("");
    let execute = |text: &'static str| {
        let governor = governor.clone();
        async move { governor.execute(text).await.map(drop) }
    };
    memory.store(12 * GB, SeqCst);
    seconds(5).await;
    assert_eq!(gauge(&governor, "throttling_total_ms"), 0.0);
    assert_eq!(gauge(&governor, "max_allowed_queries"), f64::INFINITY);
    execute("SET GLOBAL query_scheduler_name = 'MemoryThrottledFCFS'")
        .await
        .unwrap();
    seconds(2).await;
    assert_eq!(gauge(&governor, "throttling_since_ms"), 0.0);
    let workers = governor.metrics().workers.len() as f64;
    assert_eq!(gauge(&governor, "num_runner_threads"), 16.0 * workers);
    execute("SET GLOBAL memory_usage_percentage_threshold = 70")
        .await
        .unwrap();
    seconds(1).await;
    assert_eq!(gauge(&governor, "max_allowed_queries"), 1.0, "at least one");
    // Out of range: refused, and nothing changes.
    assert!(
        execute("SET GLOBAL memory_usage_percentage_threshold = 100")
            .await
            .is_err()
    );
    execute("SET GLOBAL max_running_queries_update_frequency_ms = 100; SET GLOBAL memory_usage_percentage_threshold = 80")
        .await
        .unwrap();
    sleep(Duration::from_millis(350)).await;
    let allowed = gauge(&governor, "max_allowed_queries");
    assert!(
        (2.0..=5.0).contains(&allowed),
        "ten steps a second: {allowed}"
    );
    execute("SET GLOBAL query_scheduler_name = 'round_robin'")
        .await
        .unwrap();
    assert_eq!(gauge(&governor, "max_allowed_queries"), f64::INFINITY);
}

#[test]
fn a_runtime_without_timers_cannot_throttle_and_says_so() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut settings = Settings::new();
        settings.query_scheduler_name = Scheduler::MemoryThrottledFcfs;
        let refused = Governor::builder().settings(settings).build().unwrap_err();
        assert!(refused.to_string().contains("timers"), "{refused}");
        let governor = Governor::builder().build().unwrap();
        let refused = governor
            .execute("SET GLOBAL query_scheduler_name = MemoryThrottledFCFS")
            .await;
        assert!(refused.unwrap_err().to_string().contains("timers"));
    });
}

// ---- live -----------------------------------------------------------------------------------------------------------

/// Real allocations cross the threshold: the queries that hold them go on, others wait. They are freed: all run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_memory_crosses_the_threshold_and_recovers() {
    // Large enough for every allocator to map it and to give it back when it is freed.
    const EACH: usize = 40 << 20;
    let resident = quotient::mem::pressure::Probe::new(Bytes(u64::MAX), Default::default);
    let before = resident
        .read()
        .resident
        .expect("the kernel tells the size")
        .0;
    // Room for four and a half below the threshold.
    let limit = ((before + 9 * EACH as u64 / 2) as f64 / 0.9) as u64;
    let mut settings = Settings::new();
    settings.query_scheduler_name = Scheduler::MemoryThrottledFcfs;
    settings.memory_usage_percentage_threshold = 90.0;
    settings.max_running_queries_update_frequency_ms = 5;
    settings.query_runner_threads = 16;
    let governor = Governor::builder()
        .settings(settings)
        .memory_limit(limit)
        .memory_probe(move || resident.read().resident.unwrap_or_default().0)
        .build()
        .unwrap();
    let (go, gone) = tokio::sync::watch::channel(false);
    let query = |number: u64| {
        let mut gone = gone.clone();
        governor.spawn(&Attributes::new(), async move {
            let block = vec![number as u8; EACH];
            gone.wait_for(|go| *go).await.unwrap();
            block
                .iter()
                .step_by(4_096)
                .map(|b| u64::from(*b))
                .sum::<u64>()
        })
    };
    let until = async |what: &str, holds: &dyn Fn() -> bool| {
        let wait = async {
            while !holds() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
        assert!(waited.is_ok(), "{what}: {}", governor.render_metrics());
    };
    let throttles = || gauge(&governor, "throttling_since_ms") > 0.0;

    let first: Vec<_> = (1..=5).map(query).collect();
    until("it throttles", &throttles).await;
    let cap = gauge(&governor, "max_allowed_queries");
    assert!(cap <= 5.0, "{cap}");
    let more: Vec<_> = (6..=25).map(query).collect();
    sleep(Duration::from_millis(50)).await;
    assert!(throttles() && gauge(&governor, "running_total") == cap);
    go.send(true).unwrap();
    for (number, handle) in (1..).zip(first.into_iter().chain(more)) {
        assert_eq!(handle.await.unwrap(), number * (EACH as u64 / 4_096));
    }
    until("it recovers", &|| {
        gauge(&governor, "max_allowed_queries") == 16.0
    })
    .await;
    assert!(!throttles() && gauge(&governor, "throttling_total_ms") > 0.0);
}
