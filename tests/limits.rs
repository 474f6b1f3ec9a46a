//! Caps and reservations, live: a cap binds on an idle machine, a reservation beside a heavy group, both at once by
//! ALTER; on any runtime and with any clock. Generous: what is exact is tested in virtual time on the policy itself.

#![allow(clippy::unwrap_used, reason = "a test")]

mod live;
mod support;

use live::{compute, current_thread, governor, multi_thread, named, settled, watched};
use quotient::unit::Nanos;
use quotient::{Governor, task::yield_now};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_micros(50);
const WINDOW: Duration = Duration::from_millis(600);

/// Windows are measured one at a time: what other tests do at once is not there to be given.
static ALONE: Mutex<()> = Mutex::new(());

fn alone(name: &'static str) -> (MutexGuard<'static, ()>, support::Watch) {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    (alone, watched(name))
}

/// Endless load that ends when the value is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(governor: &Governor, group: &str, tasks: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..tasks {
            let stop = stop.clone();
            let task = async move {
                while !stop.load(Relaxed) {
                    compute(POLL);
                    yield_now().await;
                }
            };
            governor.spawn_in(group, task).unwrap();
        }
        Load(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn cpu(governor: &Governor, group: &str) -> Duration {
    governor.classify(&named(group)).unwrap().usage().cpu
}

fn throttled(governor: &Governor, group: &str) -> Nanos {
    governor.classify(&named(group)).unwrap().stats().throttled
}

/// What the groups are charged per time during a window, in cores. The window is measured by the calling thread.
fn cores<const N: usize>(governor: &Governor, groups: [&str; N]) -> [f64; N] {
    let (start, before) = (Instant::now(), groups.map(|g| cpu(governor, g)));
    std::thread::sleep(WINDOW);
    let after = groups.map(|g| cpu(governor, g));
    let wall = start.elapsed().as_secs_f64();
    std::array::from_fn(|i| (after[i] - before[i]).as_secs_f64() / wall)
}

#[test]
fn a_cap_binds_on_an_idle_machine() {
    let _watch = alone("a_cap_binds_on_an_idle_machine");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP half WITH ('max_cpu_cores'='0.5');
               CREATE RESOURCE GROUP tiny WITH ('max_cpu_cores'='0.05')";
    let governor = governor(&runtime, 2, sql);
    for (group, cap) in [("half", 0.5), ("tiny", 0.05)] {
        let load = Load::start(&governor, group, 8);
        std::thread::sleep(Duration::from_millis(200));
        let [given] = cores(&governor, [group]);
        assert!(given <= cap * 1.4, "{group}: {given}");
        // On a busy machine the system may have given less than that.
        assert!(given >= cap * 0.1, "{group}: {given}");
        drop(load);
        runtime.block_on(settled(&governor, group));
        println!(
            "{group}: {given} cores, held back for {}",
            throttled(&governor, group)
        );
    }
    assert!(throttled(&governor, "tiny") > Nanos::ZERO);
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_cap_is_lowered_raised_and_lifted_while_the_group_works() {
    let _watch = alone("a_cap_is_lowered_raised_and_lifted_while_the_group_works");
    let runtime = multi_thread(2);
    let governor = governor(
        &runtime,
        2,
        "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
    );
    let load = Load::start(&governor, "g", 8);
    let mut given = Vec::new();
    for value in ["0.1", "1", "0.02", "2"] {
        let sql = format!("ALTER RESOURCE GROUP g WITH ('max_cpu_cores'='{value}')");
        runtime.block_on(governor.execute(&sql)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        given.push(cores(&governor, ["g"])[0]);
    }
    assert!(
        given[0] <= 0.15 && given[1] <= 1.15 && given[2] <= 0.04,
        "{given:?}"
    );
    // A hundred times as much is asked for; other programs may take most of this machine.
    assert!(given[3] >= 2.0 * given[2], "{given:?}");
    // OR REPLACE without it lifts it.
    let sql = "CREATE RESOURCE GROUP OR REPLACE g WITH ('cpu_core_limit'='1')";
    runtime.block_on(governor.execute(sql)).unwrap();
    drop(load);
    runtime.block_on(settled(&governor, "g"));
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_capped_group_is_woken_on_a_current_thread_runtime_with_a_paused_clock_and_without_timers() {
    let _watch = alone("a_capped_group_is_woken");
    let paused = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let bare = || {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    };
    for (name, runtime) in [
        ("plain", current_thread()),
        ("paused", paused()),
        ("bare", bare()),
    ] {
        let sql = "CREATE RESOURCE GROUP g WITH ('max_cpu_cores'='0.2')";
        let governor = governor(&runtime, 1, sql);
        let start = Instant::now();
        let task = governor.spawn_in("g", async {
            for _ in 0..60 {
                compute(Duration::from_millis(1));
                yield_now().await;
            }
        });
        runtime.block_on(task.unwrap()).unwrap();
        // 60 ms of work, of which a fifth of half a period may go at once.
        let used = cpu(&governor, "g").as_secs_f64();
        let allowed = 0.2 * (start.elapsed().as_secs_f64() + 0.05) + 0.002;
        assert!(used <= allowed * 1.1, "{name}: {used} of {allowed}");
        runtime.block_on(governor.shutdown(Duration::ZERO));
    }
}

#[test]
fn with_a_clock_that_is_moved_by_hand_a_cap_opens_when_the_clock_says_so() {
    let _watch = alone("with_a_clock_that_is_moved_by_hand");
    // One worker: of two, each may have begun its slice before the other one's first poll has taken its 10 ms.
    let runtime = multi_thread(1);
    let (clock, hand) = quotient::clock::Clock::manual();
    let governor = runtime
        .block_on(async {
            Governor::builder()
                .workers(1)
                .clock(clock)
                .init_sql("CREATE RESOURCE GROUP g WITH ('max_cpu_cores'='0.1')")
                .build()
        })
        .unwrap();
    let (polls, count) = (Arc::new(AtomicU64::new(0)), 20);
    let (seen, mine) = (polls.clone(), hand.clone());
    let task = governor.spawn_in("g", async move {
        for _ in 0..count {
            mine.advance(Nanos::from_millis(10));
            seen.fetch_add(1, Relaxed);
            yield_now().await;
        }
    });
    // The first poll of 10 ms takes more than the 5 that are there: 60 ms are to pass now, and none does.
    runtime.block_on(live::eventually("one poll", || polls.load(Relaxed) == 1));
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(polls.load(Relaxed), 1);
    let task = task.unwrap();
    while !task.is_finished() {
        hand.advance(Nanos::from_millis(5));
        std::thread::sleep(Duration::from_millis(1));
    }
    runtime.block_on(task).unwrap();
    assert_eq!(polls.load(Relaxed), count);
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn held_back_tasks_are_killed_aborted_and_shut_down_like_others() {
    let _watch = alone("held_back_tasks");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP g WITH ('max_cpu_cores'='0.01')";
    let governor = governor(&runtime, 2, sql);
    runtime.block_on(async {
        let held_back = || async {
            loop {
                compute(Duration::from_millis(100));
                yield_now().await;
            }
        };
        let task = governor.spawn_in("g", held_back()).unwrap();
        live::eventually("it is held back", || {
            throttled(&governor, "g") > Nanos::ZERO
        })
        .await;
        // What only has to be dropped passes by the cap; at ten seconds' debt this would wait for minutes. One that was pushed
        // since has not come into the queue yet.
        let pushed = governor.spawn_in("g", held_back()).unwrap();
        pushed.abort();
        let ended = tokio::time::timeout(Duration::from_secs(5), pushed).await;
        assert!(
            ended
                .expect("it waits for the cap")
                .unwrap_err()
                .is_cancelled()
        );
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let queries: Vec<_> = (0..50)
            .map(|_| governor.try_admit(&named("g")).unwrap())
            .collect();
        let mut tasks: Vec<_> = queries.iter().map(|q| q.spawn(held_back())).collect();
        for query in &queries {
            query.kill("planned");
        }
        let begun = Instant::now();
        for task in tasks.drain(..) {
            assert!(task.await.unwrap_err().reason().is_some());
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let last = governor.spawn_in("g", held_back()).unwrap();
        governor.shutdown(Duration::ZERO).await;
        assert!(last.await.unwrap_err().is_cancelled());
    });
}

/// Weight 1 beside 10, on two workers.
fn beside_ten(sql: &str) -> (tokio::runtime::Runtime, Governor) {
    let runtime = multi_thread(2);
    let sql = format!("{sql}; CREATE RESOURCE GROUP big WITH ('cpu_core_limit'='10')");
    let governor = governor(&runtime, 2, &sql);
    (runtime, governor)
}

#[test]
fn a_reservation_gives_half_of_two_workers_where_the_weights_give_a_tenth() {
    let _watch = alone("a_reservation_gives_half_of_two_workers");
    for (sql, least, most) in [
        (
            "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
            0.0,
            0.25,
        ),
        (
            "CREATE RESOURCE GROUP g WITH ('type'='short_query')",
            0.4,
            0.7,
        ),
        (
            "CREATE RESOURCE GROUP g WITH ('exclusive_cpu_cores'='1')",
            0.4,
            0.7,
        ),
    ] {
        let (runtime, governor) = beside_ten(sql);
        let loads = [
            Load::start(&governor, "g", 8),
            Load::start(&governor, "big", 8),
        ];
        std::thread::sleep(Duration::from_millis(50));
        // Two threads share by what the system gives them: where other programs use most of the machine, one window
        // says little.
        let mut shares = (0..8).map(|_| {
            let [g, big] = cores(&governor, ["g", "big"]);
            println!("{sql}: {}", g / (g + big));
            g / (g + big)
        });
        assert!(
            shares.any(|share| (least..=most).contains(&share)),
            "{sql}: in no window"
        );
        drop(loads);
        runtime.block_on(governor.shutdown(Duration::ZERO));
    }
}

#[test]
fn a_reservation_is_lent_and_comes_back_at_the_next_poll() {
    let _watch = alone("a_reservation_is_lent");
    let (runtime, governor) = beside_ten("CREATE RESOURCE GROUP g WITH ('type'='short_query')");
    // Polls that are long beside the wake-up of a thread, so that they are what a task waits for.
    let stop = Arc::new(AtomicBool::new(false));
    for _ in 0..8 {
        let stop = stop.clone();
        let long = async move {
            while !stop.load(Relaxed) {
                compute(Duration::from_millis(10));
                yield_now().await;
            }
        };
        governor.spawn_in("big", long).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    let before = governor.classify(&named("big")).unwrap().usage();
    // Weight 1 beside 10: served by weight alone, each of these would wait for ten turns of the others.
    for _ in 0..20 {
        runtime
            .block_on(governor.spawn_in("g", async {}).unwrap())
            .unwrap();
    }
    let mut polls = governor.classify(&named("big")).unwrap().usage().polls - before.polls;
    // Two workers poll meanwhile: two polls per task, and as much again for a machine that is busy.
    assert!(polls <= 20 * 4, "{polls} polls of others for 20 tasks");
    let [g, big] = cores(&governor, ["g", "big"]);
    assert!(g < 0.1 * big, "{g} {big}: it is lent");
    polls = governor.classify(&named("big")).unwrap().usage().polls - before.polls;
    assert!(polls > 20);
    stop.store(true, Relaxed);
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_reservation_is_granted_by_id_and_shown_and_changes_at_run_time() {
    let _watch = alone("a_reservation_is_granted_by_id");
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP a WITH ('type'='short_query', 'cpu_core_limit'='2');
               CREATE RESOURCE GROUP b WITH ('exclusive_cpu_cores'='1');
               CREATE RESOURCE GROUP c WITH ('type'='short_query', 'cpu_core_limit'='8')";
    let governor = governor(&runtime, 5, sql);
    let reserved = || {
        let output = runtime
            .block_on(governor.execute("SHOW USAGE RESOURCE GROUPS"))
            .unwrap();
        let column = output[0]
            .columns()
            .iter()
            .position(|c| c == "reserved")
            .unwrap();
        let cells = output[0].rows().iter().map(|row| row[column].to_string());
        cells.collect::<Vec<_>>().join(" ")
    };
    let run = |sql: &str| runtime.block_on(governor.execute(sql)).map(drop);
    // a, b, c, default_wg; of five workers one is left to the weights.
    assert_eq!(reserved(), "2 1 1 0");
    run("ALTER RESOURCE GROUP b WITH ('exclusive_cpu_cores'='2')").unwrap();
    assert_eq!(reserved(), "2 2 0 0");
    run("ALTER RESOURCE GROUP a WITH ('cpu_core_limit'='1')").unwrap();
    assert_eq!(reserved(), "1 2 1 0");
    run("ALTER RESOURCE GROUP b WITH ('exclusive_cpu_cores'='5')").unwrap_err();
    run("DROP RESOURCE GROUP b").unwrap();
    assert_eq!(reserved(), "1 3 0");
    runtime.block_on(governor.shutdown(Duration::ZERO));
}

#[test]
fn a_cap_binds_on_a_host_of_its_own() {
    let _watch = alone("a_cap_binds_on_a_host_of_its_own");
    let governor = Governor::builder()
        .host(quotient::Host::Owned)
        .workers(2)
        .init_sql("CREATE RESOURCE GROUP tiny WITH ('max_cpu_cores'='0.05')")
        .build()
        .unwrap();
    let load = Load::start(&governor, "tiny", 8);
    std::thread::sleep(Duration::from_millis(200));
    let [given] = cores(&governor, ["tiny"]);
    assert!((0.005..=0.075).contains(&given), "{given}");
    drop(load);
    governor.block_on(async {
        settled(&governor, "tiny").await;
        governor.shutdown(Duration::ZERO).await;
    });
}

/// Tasks that compute, sleep, yield and wake each other, until the value of `stop` is set; all of them end.
async fn bustle(stop: Arc<AtomicBool>, notify: Arc<tokio::sync::Notify>) {
    for round in 0u32.. {
        if stop.load(Relaxed) {
            return;
        }
        compute(Duration::from_micros(u64::from(round % 7) * 20));
        match round % 5 {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            1 => notify.notify_one(),
            2 => drop(tokio::time::timeout(Duration::from_millis(2), notify.notified()).await),
            3 => tokio::task::yield_now().await,
            _ => yield_now().await,
        }
    }
}

#[test]
fn nothing_is_lost_while_limits_change() {
    let _watch = alone("nothing_is_lost_while_limits_change");
    for (runtime, workers) in [(multi_thread(3), 3), (current_thread(), 1)] {
        let sql = "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP b WITH ('cpu_core_limit'='5');
                   CREATE RESOURCE GROUP c WITH ('type'='short_query')";
        let governor = governor(&runtime, workers, sql);
        runtime.block_on(async {
            let (stop, notify) = (Arc::new(AtomicBool::new(false)), Arc::default());
            let mut tasks = Vec::new();
            for group in ["a", "b", "c"].repeat(4) {
                let task = bustle(stop.clone(), Arc::clone(&notify));
                tasks.push(governor.spawn_in(group, task).unwrap());
            }
            let caps = ["0.01", "0.3", "1", "0.05", "0.7"];
            for round in 0..120 {
                let (group, cap) = (["a", "b", "c"][round % 3], caps[round % 5]);
                let mut sql =
                    format!("ALTER RESOURCE GROUP {group} WITH ('max_cpu_cores'='{cap}')");
                if workers > 1 {
                    sql += &format!(
                        ";CREATE RESOURCE GROUP OR REPLACE a WITH ('exclusive_cpu_cores'='{}')",
                        round % 3
                    );
                }
                governor.execute(&sql).await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await;
                if round % 10 == 0 {
                    let aborted = governor
                        .spawn_in(group, std::future::pending::<()>())
                        .unwrap();
                    aborted.abort();
                    assert!(aborted.await.unwrap_err().is_cancelled());
                }
            }
            stop.store(true, Relaxed);
            for task in tasks {
                task.await.unwrap();
            }
            governor.shutdown(Duration::ZERO).await;
        });
    }
}
