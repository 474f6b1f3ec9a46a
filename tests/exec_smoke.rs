//! The executor alone, without governor or SQL.
use quotient::clock::Clock;
use quotient::exec::account::Account;
use quotient::exec::core::{Config, Core};
use quotient::exec::group::Group;
use quotient::exec::host::attached;
use quotient::exec::join::Cause;
use quotient::exec::task::spawn;
use quotient::unit::{Nanos, Weight};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn cause() -> Cause {
    Arc::new(std::io::Error::other("shutdown"))
}

fn start(workers: usize) -> (Arc<Core>, Vec<tokio::task::JoinHandle<()>>) {
    let (core, workers) = Core::new(Config {
        workers,
        policy: Default::default(),
        quantum: Nanos::from_micros(100),
        long_poll: Nanos::from_millis(5),
        clock: Clock::tsc(),
        displace: true,
    });
    let drivers = attached::start(&tokio::runtime::Handle::current(), workers, &cause());
    (core, drivers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_run_and_shares_hold() {
    let (core, drivers) = start(2);
    let a = Account::for_group(Group::new(&core, "a", Weight::new(2)));
    let b = Account::for_group(Group::new(&core, "b", Weight::new(1)));
    assert_eq!(spawn(&a, None, async { 7 }).await.unwrap(), 7);
    let handles: Vec<_> = (0..10_000)
        .map(|i| spawn(&a, None, async move { i }))
        .collect();
    for (i, h) in handles.into_iter().enumerate() {
        assert_eq!(h.await.unwrap(), i);
    }
    let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut tasks = Vec::new();
    for i in 0..64 {
        for (k, account) in [&a, &b].into_iter().enumerate() {
            let counts = counts.clone();
            tasks.push(spawn(account, None, async move {
                let _ = i;
                loop {
                    let t = Instant::now();
                    while t.elapsed() < Duration::from_micros(20) {}
                    counts[k].fetch_add(1, Relaxed);
                    let mut done = false;
                    std::future::poll_fn(|cx| {
                        if done {
                            return std::task::Poll::Ready(());
                        }
                        done = true;
                        cx.waker().wake_by_ref();
                        std::task::Poll::Pending
                    })
                    .await;
                }
            }));
        }
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (ca, cb) = (
        counts[0].load(Relaxed) as f64,
        counts[1].load(Relaxed) as f64,
    );
    println!("ratio {}", ca / cb);
    println!("{:?}", a.group().usage());
    println!("{:?}", b.group().usage());
    println!("{}", core.dump());
    core.cancel(cause());
    for t in tasks {
        assert!(t.await.unwrap_err().is_cancelled());
    }
    for d in drivers {
        d.await.unwrap();
    }
    assert_eq!(core.live(), 0);
}
