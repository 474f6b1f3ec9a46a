//! Long polls: they are noticed, blamed and charged while they go on, and the other groups are served meanwhile.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{bare, compute, eventually_blocking, multi_thread, named, watched};
use quotient::{Builder, Governor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const SQL: &str = "CREATE RESOURCE GROUP hog WITH ('cpu_core_limit'='1');
                   CREATE RESOURCE GROUP small WITH ('cpu_core_limit'='1');";
const WORKERS: usize = 2;

/// A governor with these options, in `runtime`.
fn governed(runtime: &Runtime, options: impl FnOnce(Builder) -> Builder) -> Governor {
    let builder = options(Governor::builder().workers(WORKERS).init_sql(SQL));
    runtime.block_on(async { builder.build() }).unwrap()
}

/// Tasks of the group `hog` whose polls take this long, until it is dropped.
struct Hogs {
    stop: Arc<AtomicBool>,
    alive: Arc<AtomicUsize>,
    /// How many of them were being polled at once, at most.
    peak: Arc<AtomicUsize>,
    polls: Arc<AtomicUsize>,
}

impl Hogs {
    fn start(governor: &Governor, tasks: usize, poll: fn()) -> Hogs {
        let hogs = Hogs {
            stop: Arc::default(),
            alive: Arc::new(AtomicUsize::new(tasks)),
            peak: Arc::default(),
            polls: Arc::default(),
        };
        let now = Arc::new(AtomicUsize::new(0));
        for _ in 0..tasks {
            let (stop, alive) = (hogs.stop.clone(), hogs.alive.clone());
            let (peak, polls, now) = (hogs.peak.clone(), hogs.polls.clone(), now.clone());
            let task = async move {
                while !stop.load(SeqCst) {
                    peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    poll();
                    now.fetch_sub(1, SeqCst);
                    polls.fetch_add(1, SeqCst);
                    quotient::task::yield_now().await;
                }
                alive.fetch_sub(1, SeqCst);
            };
            drop(governor.spawn_in("hog", task).unwrap());
        }
        hogs
    }

    fn stop(self) {
        self.stop.store(true, SeqCst);
        eventually_blocking("the hogs end", || self.alive.load(SeqCst) == 0);
    }
}

/// What jobs of the group `small`, sent from this thread at uneven times, wait for their first poll; sorted.
fn waits(governor: &Governor, jobs: usize) -> Vec<Duration> {
    let mut waits: Vec<Duration> = (0..jobs)
        .map(|i| {
            std::thread::sleep(Duration::from_micros(3_000 + (i as u64 * 7_919) % 9_000));
            let (tell, told) = std::sync::mpsc::channel();
            let sent = Instant::now();
            let job = async move { tell.send(sent.elapsed()).unwrap() };
            drop(governor.spawn_in("small", job).unwrap());
            told.recv().unwrap()
        })
        .collect();
    waits.sort();
    waits
}

#[test]
fn the_others_do_not_wait_for_polls_of_100_ms() {
    const JOBS: usize = 60;
    let _watched = watched("latency beside long polls");
    let run = |spares: usize| {
        let runtime = multi_thread(WORKERS);
        let governor = governed(&runtime, |builder| builder.spares(spares));
        let hogs = Hogs::start(&governor, 8, || compute(Duration::from_millis(100)));
        // The first overrun may be found late.
        std::thread::sleep(Duration::from_millis(300));
        let waits = waits(&governor, JOBS);
        let peak = hogs.peak.load(SeqCst);
        hogs.stop();
        assert!(peak <= WORKERS, "a spare served the hog: {peak} at once");
        (waits[JOBS / 2], waits[JOBS * 9 / 10], waits[JOBS - 1])
    };
    let (without, with) = (run(0), run(WORKERS));
    println!("median, p90, max of what jobs wait: without {without:?}, with spares {with:?}");
    assert!(with.1 * 4 < without.1, "without {without:?}, with {with:?}");
}

/// Lets what spins end, also when a test fails.
struct GoOn(Arc<AtomicBool>);

impl Drop for GoOn {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

#[test]
fn a_long_poll_is_put_down_with_its_place_its_query_and_who_waited() {
    let _watched = watched("blame");
    let runtime = multi_thread(WORKERS);
    // On a machine that leaves a worker's thread waiting, one that stands in may take its hog, and the worker be free.
    let attempt = || {
        let governor = governed(&runtime, |builder| builder);
        let go_on = Arc::new(AtomicBool::new(true));
        let guard = GoOn(go_on.clone());
        let query = governor.try_admit(&named("hog")).unwrap();
        let mut line = 0;
        let hogs: Vec<_> = (0..WORKERS)
            .map(|_| {
                let go_on = go_on.clone();
                let spin = async move {
                    while go_on.load(SeqCst) {
                        std::hint::spin_loop();
                    }
                };
                line = line!() + 1;
                query.spawn(spin)
            })
            .collect();
        eventually_blocking("both run", || {
            let stats = governor.classify(&named("hog")).unwrap().stats();
            stats.tasks_running == WORKERS as u64
        });
        let only_workers = governor.metrics().spares.started == 0;
        only_workers.then_some((governor, guard, query, hogs, line))
    };
    let (governor, go_on, query, hogs, line) = (0..50).find_map(|_| attempt()).unwrap();
    // Runs although no worker is left, and while the hogs go on.
    let job = governor.spawn_in("small", async { 1 }).unwrap();
    assert_eq!(runtime.block_on(job).unwrap(), 1);
    eventually_blocking("it is put down", || !governor.long_polls().is_empty());
    let seen = governor.long_polls().remove(0);
    let place = seen.place.unwrap();
    assert_eq!((place.file(), place.line()), (file!(), line));
    assert_eq!((seen.group.as_str(), seen.query), ("hog", Some(query.id())));
    assert!(!seen.over && seen.lasted.0 > 5_000_000, "{seen:?}");
    assert!(
        seen.waited
            .iter()
            .any(|(group, tasks)| group == "small" && *tasks == 1),
        "{seen:?}"
    );
    drop(go_on);
    for hog in hogs {
        runtime.block_on(hog).unwrap();
    }
    eventually_blocking("it is over", || {
        governor.long_polls().iter().all(|p| p.over)
    });
    let usage = query.usage();
    assert_eq!(usage.longest_poll_at.map(|at| at.line()), Some(line));
    // Poured out at the end of the slice.
    eventually_blocking("both are counted", || {
        let stats = governor.classify(&named("hog")).unwrap().stats();
        stats.long_polls == WORKERS as u64
    });
    let metrics = governor.metrics();
    assert!(
        metrics.spares.late_polls >= 1 && metrics.spares.started >= 1,
        "{:?}",
        metrics.spares
    );
    eventually_blocking("the spares retire", || {
        governor.metrics().spares.serving == 0
    });
}

#[test]
fn timers_sockets_and_spawns_work_in_tasks_that_a_spare_polls() {
    let _watched = watched("a spare's context");
    // One tokio worker more than ours, which drives I/O while both of ours are stuck.
    let runtime = multi_thread(WORKERS + 1);
    let governor = governed(&runtime, |builder| builder);
    let hogs = Hogs::start(&governor, 4, || compute(Duration::from_millis(60)));
    let echo = async {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = quotient::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut byte = [0; 1];
            while stream.read_exact(&mut byte).await.is_ok() {
                stream.write_all(&byte).await.unwrap();
            }
        });
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        for i in 0..20u8 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            stream.write_all(&[i]).await.unwrap();
            let mut byte = [0; 1];
            stream.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [i]);
        }
        drop(stream);
        server.await.unwrap();
        tokio::task::spawn_blocking(|| 7).await.unwrap()
    };
    let job = governor.spawn_in("small", echo).unwrap();
    assert_eq!(runtime.block_on(job).unwrap(), 7);
    assert!(governor.metrics().spares.started > 0);
    hogs.stop();
}

#[test]
fn a_poll_that_waits_instead_of_computing_does_not_keep_its_own_group_either() {
    let _watched = watched("blocked polls");
    let runtime = multi_thread(WORKERS);
    let governor = governed(&runtime, |builder| builder);
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let stuck: Vec<_> = (0..WORKERS)
        .map(|_| {
            let wait = wait.clone();
            // A lock, or a synchronous call, in a poll.
            let task = async move {
                let _ = wait.lock().unwrap().recv();
            };
            governor.spawn_in("hog", task).unwrap()
        })
        .collect();
    eventually_blocking("both are stuck", || {
        let stats = governor.classify(&named("hog")).unwrap().stats();
        stats.tasks_running == WORKERS as u64
    });
    let of_its_own = governor.spawn_in("hog", async { 2 }).unwrap();
    assert_eq!(runtime.block_on(of_its_own).unwrap(), 2);
    drop(release);
    for task in stuck {
        runtime.block_on(task).unwrap();
    }
}

#[test]
fn a_current_thread_host_has_no_spares_unless_asked_for() {
    let _watched = watched("spares on a current-thread runtime");
    for asked in [false, true] {
        let runtime = live::current_thread();
        let governor = governed(&runtime, |builder| {
            let builder = builder.workers(1);
            if asked { builder.spares(1) } else { builder }
        });
        let there = Arc::new(AtomicBool::new(false));
        let (seen, told) = (there.clone(), there.clone());
        let hog = async move {
            let start = Instant::now();
            let patience = Duration::from_secs(if asked { 20 } else { 0 });
            compute(Duration::from_millis(100));
            while start.elapsed() < patience && !seen.load(SeqCst) {
                std::hint::spin_loop();
            }
            seen.load(SeqCst)
        };
        let hog = governor.spawn_in("hog", hog).unwrap();
        let job = async move { told.store(true, SeqCst) };
        let job = governor.spawn_in("small", job).unwrap();
        let order = runtime.block_on(async {
            let during = hog.await.unwrap();
            job.await.unwrap();
            during
        });
        // Without, it depends on who is first; the number of threads does not.
        assert!(order || !asked);
        assert_eq!(governor.metrics().spares.started > 0, asked);
    }
}

#[test]
fn work_that_comes_from_everywhere_while_polls_are_long_is_never_stranded() {
    let _watched = watched("spares under stress");
    let runtime = multi_thread(WORKERS);
    let governor = governed(&runtime, |builder| {
        builder.long_poll_threshold(Duration::from_micros(200))
    });
    let hogs = Hogs::start(&governor, 3, || compute(Duration::from_micros(700)));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let governor = governor.clone();
            std::thread::spawn(move || {
                for i in 0..400u64 {
                    let (tell, told) = std::sync::mpsc::channel();
                    let job = async move {
                        let child = quotient::spawn(async { 1 });
                        if i % 3 == 0 {
                            quotient::task::yield_now().await;
                        }
                        tell.send(child.await.unwrap()).unwrap();
                    };
                    drop(governor.spawn_in("small", job).unwrap());
                    let got = told.recv_timeout(Duration::from_secs(60));
                    assert_eq!(got, Ok(1), "stranded:\n{}", governor.dump());
                    std::thread::sleep(Duration::from_micros(i * 37 % 900));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    println!("{:?}", governor.metrics().spares);
    hogs.stop();
    eventually_blocking("the spares retire", || {
        governor.metrics().spares.serving == 0
    });
}

#[test]
fn the_view_and_the_log_say_whose_poll_it_was() {
    let _watched = watched("the view of long polls");
    let runtime = multi_thread(WORKERS);
    let governor = governed(&runtime, |builder| builder);
    let hogs = Hogs::start(&governor, 4, || compute(Duration::from_millis(40)));
    let rows = |sql: &'static str| {
        let outputs = runtime.block_on(governor.execute(sql)).unwrap();
        outputs[0].rows().to_vec()
    };
    eventually_blocking("jobs wait", || {
        drop(waits(&governor, 1));
        !rows("SELECT * FROM long_polls WHERE is_over").is_empty()
    });
    let row = rows("SELECT group_name, spawned_at, waited FROM long_polls LIMIT 1").remove(0);
    let [group, place, waited] = [0, 1, 2].map(|cell| row[cell].to_string());
    assert_eq!(group, "hog");
    assert!(place.contains("tests/spares.rs:"), "{place}");
    assert!(waited.contains('('), "{waited}");
    hogs.stop();
}

#[test]
fn a_worker_that_never_comes_back_is_replaced_up_to_a_bound() {
    use quotient::clock::Clock;
    use quotient::exec::account::Account;
    use quotient::exec::core::{Config, Core};
    use quotient::exec::group::Group;
    use quotient::exec::{host, task};
    use quotient::unit::{Nanos, Weight};
    let _watched = watched("replaced workers");
    let runtime = multi_thread(2);
    let (core, workers) = Core::new(Config {
        quantum: Nanos::from_micros(100),
        displace: true,
        watchdog: true,
        hands_over: true,
        // Only where threads may be parked for good is a worker replaced, and a single one watched: whoever stands in
        // may look for what it left behind before that counts as stuck.
        park: Some(host::park_attached),
        ..bare(1, Clock::tsc())
    });
    core.stand_in_on(runtime.handle());
    let shut: quotient::exec::join::Cause = Arc::new(std::fmt::Error);
    let _driven = host::attach(&core, runtime.handle().clone(), workers, &shut);
    let group = Group::new(&core, "g", Weight::new(1));
    let account = Account::for_group(group);
    let (release, parked) = std::sync::mpsc::channel::<()>();
    let (begun, begins) = std::sync::mpsc::channel();
    let lost = task::spawn(account.clone(), None, async move {
        // Woken into the hands of the worker that is lost.
        let child = task::spawn(quotient_account(), None, async { 1 });
        begun.send(child).unwrap();
        let _ = parked.recv();
    });
    let child = begins.recv().unwrap();
    assert!(core.replace_worker(0));
    assert!(!core.replace_worker(0), "one for each worker at most");
    assert_eq!(runtime.block_on(child).unwrap(), 1);
    let later = task::spawn(account.clone(), None, async { 2 });
    assert_eq!(runtime.block_on(later).unwrap(), 2);
    drop(release);
    runtime.block_on(lost).unwrap();
    core.cancel(shut);
}

/// The account of the running task.
fn quotient_account() -> Arc<quotient::exec::account::Account> {
    quotient::exec::task::current().unwrap().account
}
