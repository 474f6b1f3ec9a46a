//! How many instructions a spawn, a wake and a yield take, counted by valgrind: the cost that no other program on the
//! machine can change.
//!
//! `cargo bench --profile release --bench instructions` counts every shape on one worker of a current-thread runtime,
//! for a governor, plain tokio and async-executor, and fails if a count of ours is over its bound. Without valgrind it
//! says so and succeeds, unless `QUOTIENT_REQUIRE_TOOLS` is set. The scheduler's clock stands still, so that slices
//! end by the number of polls and every run is the same; a read of the time stamp counter per poll is not counted.

use quotient::clock::{Clock, ManualClock};
use quotient::unit::Nanos;
use quotient::{Attributes, Governor};
use std::future::Future;
use std::pin::Pin;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// Instructions of ours per operation that a shape may take: what was counted when it was set last (rustc 1.95, x86-64,
/// all features, no link-time optimisation), and a seventh more.
const BOUNDS: [(&str, u64); 9] = [
    ("spawn", 2260),
    ("spawn_join", 2940),
    ("chained_spawn", 1700),
    ("yield_self", 610),
    ("yield_tokio", 955),
    ("ping_pong", 1300),
    ("sleep_wake", 5370),
    ("slices", 4480),
    ("mail", 1970),
];

const SIDES: [&str; 3] = ["quotient", "tokio", "async-executor"];

const OPERATIONS: usize = 10_000;
const BATCH: usize = 100;
/// Queries of a group that are under way at a time.
const QUERIES: usize = 10;
/// Groups whose tasks wait for the host at a time, and how many of each.
const SENDERS: [&str; 8] = ["g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7"];
const LETTERS: usize = 4;

/// Whoever runs the tasks. All of it is called inside a task.
trait Side: 'static {
    fn spawn(task: impl Future<Output = ()> + Send + 'static);
    fn join(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send;

    /// Spawns the task of a query of this group, where there are groups.
    fn ask(
        _group: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send {
        Self::spawn(task);
        std::future::ready(())
    }

    /// Spawns a task of this group, where there are groups.
    fn spawn_in(_group: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        Self::spawn(task);
    }

    /// The time of a poll that takes long passes.
    fn long_poll() {}
}

struct Quotient;

impl Side for Quotient {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(quotient::spawn(task));
    }

    fn join(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
        let handle = quotient::spawn(task);
        async move { handle.await.expect("the task succeeds") }
    }

    async fn ask(group: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let (governor, _) = GOVERNOR.get().expect("there is a governor");
        let attributes = Attributes::new().user(group);
        let query = governor.admit(&attributes).await;
        drop(query.expect("there is no limit").spawn(task));
    }

    fn spawn_in(group: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let (governor, _) = GOVERNOR.get().expect("there is a governor");
        drop(governor.spawn_in(group, task).expect("the group exists"));
    }

    fn long_poll() {
        let (_, clock) = GOVERNOR.get().expect("there is a governor");
        clock.advance(Nanos::from_micros(150));
    }
}

/// The one that is counted, and what moves its clock.
static GOVERNOR: OnceLock<(Governor, ManualClock)> = OnceLock::new();

const GROUPS: &str = "
    CREATE RESOURCE GROUP two TO (user = 'two') WITH ('cpu_core_limit' = '2');
    CREATE RESOURCE GROUP one TO (user = 'one') WITH ('cpu_core_limit' = '1');";

/// Those of a shape.
fn groups(shape: &str) -> String {
    let create = |name| {
        format!("CREATE RESOURCE GROUP {name} TO (user = '{name}') WITH ('cpu_core_limit' = '1');")
    };
    match shape {
        "mail" => SENDERS.map(create).concat(),
        _ => GROUPS.to_owned(),
    }
}

struct Tokio;

impl Side for Tokio {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(task));
    }

    fn join(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
        let handle = tokio::spawn(task);
        async move { handle.await.expect("the task succeeds") }
    }
}

struct Other;

static OTHER: async_executor::StaticExecutor = async_executor::StaticExecutor::new();

impl Side for Other {
    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        OTHER.spawn(task).detach();
    }

    fn join(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
        OTHER.spawn(task)
    }
}

/// Counts down; the last one lets the root go on.
#[derive(Clone)]
struct Latch(Arc<(AtomicUsize, tokio::sync::Notify)>);

impl Latch {
    fn new(count: usize) -> Latch {
        Latch(Arc::new((
            AtomicUsize::new(count),
            tokio::sync::Notify::new(),
        )))
    }

    fn arrive(&self) {
        if self.0.0.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.1.notify_one();
        }
    }

    async fn wait(&self) {
        self.0.1.notified().await;
    }
}

async fn spawn<S: Side>() {
    let latch = Latch::new(OPERATIONS);
    for _ in 0..OPERATIONS {
        let latch = latch.clone();
        S::spawn(async move { latch.arrive() });
    }
    latch.wait().await;
}

async fn spawn_join<S: Side>() {
    for _ in 0..OPERATIONS / BATCH {
        let joins: Vec<_> = (0..BATCH).map(|_| S::join(async {})).collect();
        for join in joins {
            join.await;
        }
    }
}

async fn chained_spawn<S: Side>() {
    fn link<S: Side>(latch: Latch, left: usize) {
        if left == 0 {
            latch.arrive();
        } else {
            S::spawn(async move { link::<S>(latch, left - 1) });
        }
    }
    let latch = Latch::new(1);
    link::<S>(latch.clone(), OPERATIONS);
    latch.wait().await;
}

async fn yields<S: Side, F: Future<Output = ()> + Send + 'static>(give_way: fn() -> F) {
    let latch = Latch::new(BATCH);
    for _ in 0..BATCH {
        let latch = latch.clone();
        S::spawn(async move {
            for _ in 0..OPERATIONS / BATCH {
                give_way().await;
            }
            latch.arrive();
        });
    }
    latch.wait().await;
}

/// What a slice takes: queries of two groups, whose polls outlast it. Other sides know no groups: their tasks yield.
async fn slices<S: Side>() {
    let latch = Latch::new(2 * QUERIES);
    for query in 0..2 * QUERIES {
        let latch = latch.clone();
        let group = if query % 2 == 0 { "two" } else { "one" };
        S::ask(group, async move {
            for _ in 0..OPERATIONS / (2 * QUERIES) {
                S::long_poll();
                SelfWake(false).await;
            }
            latch.arrive();
        })
        .await;
    }
    latch.wait().await;
}

/// What is woken outside of all polls, by I/O for instance, some tasks of each of several groups at a time. Here it is
/// tokio's `yield_now`, which wakes when the runtime has its turn.
async fn mail<S: Side>() {
    let tasks = SENDERS.len() * LETTERS;
    let latch = Latch::new(tasks);
    for task in 0..tasks {
        let latch = latch.clone();
        S::spawn_in(SENDERS[task % SENDERS.len()], async move {
            for _ in 0..OPERATIONS / tasks {
                tokio::task::yield_now().await;
            }
            latch.arrive();
        });
    }
    latch.wait().await;
}

/// Pending once, after having woken itself.
struct SelfWake(bool);

impl Future for SelfWake {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Two tasks that send each other messages, one at a time.
async fn ping_pong<S: Side>() {
    let latch = Latch::new(2);
    let (ping, mut pinged) = tokio::sync::mpsc::channel(1);
    let (pong, mut ponged) = tokio::sync::mpsc::channel(1);
    let (here, there) = (latch.clone(), latch.clone());
    S::spawn(async move {
        for _ in 0..OPERATIONS / 2 {
            ping.send(()).await.expect("the other one listens");
            ponged.recv().await;
        }
        here.arrive();
    });
    S::spawn(async move {
        while pinged.recv().await.is_some() {
            let _ = pong.send(()).await;
        }
        there.arrive();
    });
    latch.wait().await;
}

/// A task that waits and is woken while nothing else runs: its worker falls asleep and is woken each time.
async fn sleep_wake<S: Side>() {
    for _ in 0..OPERATIONS {
        tokio::task::yield_now().await;
    }
}

type Root = Pin<Box<dyn Future<Output = ()> + Send>>;

fn root<S: Side>(shape: &str) -> Root {
    match shape {
        "spawn" => Box::pin(spawn::<S>()),
        "spawn_join" => Box::pin(spawn_join::<S>()),
        "chained_spawn" => Box::pin(chained_spawn::<S>()),
        "yield_self" => Box::pin(yields::<S, _>(|| SelfWake(false))),
        "yield_tokio" => Box::pin(yields::<S, _>(tokio::task::yield_now)),
        "ping_pong" => Box::pin(ping_pong::<S>()),
        "sleep_wake" => Box::pin(sleep_wake::<S>()),
        "slices" => Box::pin(slices::<S>()),
        "mail" => Box::pin(mail::<S>()),
        other => panic!("no shape is called {other}"),
    }
}

/// Runs one shape on one side. Only what happens inside `counted_region` is counted.
fn run(side: &str, shape: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be built");
    match side {
        "quotient" => {
            let (clock, hand) = Clock::manual();
            let builder = Governor::builder().clock(clock).init_sql(&groups(shape));
            let governor = runtime.block_on(async { builder.build() });
            let governor = governor.expect("a governor can be built");
            let _ = GOVERNOR.set((governor.clone(), hand));
            let mut go = || {
                let task = governor.spawn_in("default_wg", root::<Quotient>(shape));
                let task = task.expect("the group exists");
                runtime.block_on(task).expect("the root succeeds");
            };
            go();
            counted_region(&mut go);
        }
        "tokio" => {
            let mut go = || {
                let root = async { tokio::spawn(root::<Tokio>(shape)).await };
                runtime.block_on(root).expect("the root succeeds");
            };
            go();
            counted_region(&mut go);
        }
        "async-executor" => {
            let mut go = || runtime.block_on(OTHER.run(OTHER.spawn(root::<Other>(shape))));
            go();
            counted_region(&mut go);
        }
        other => panic!("no side is called {other}"),
    }
}

/// By this name valgrind knows when to count.
#[inline(never)]
fn counted_region(go: &mut dyn FnMut()) {
    go();
}

/// Instructions per operation, counted by valgrind in a process of its own; none without valgrind.
fn count(side: &str, shape: &str) -> Option<u64> {
    let own = std::env::current_exe().expect("a process knows its program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted_region")
        .arg(own)
        .args([side, shape])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{side} {shape}: {said}");
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected : ").nth(1));
    let instructions: u64 = collected
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("valgrind counts nothing: {said}"));
    Some(instructions / OPERATIONS as u64)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if let [side, shape] = &args[..] {
        run(side, shape);
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: not counted, valgrind is not here");
        let required = std::env::var_os("QUOTIENT_REQUIRE_TOOLS").is_some();
        return ExitCode::from(u8::from(required));
    }
    println!(
        "{:<14} {:>9} {:>7} {:>15} {:>8}",
        "instructions", SIDES[0], SIDES[1], SIDES[2], "bound"
    );
    let mut over = false;
    for (shape, bound) in BOUNDS {
        if !args.is_empty() && !args.iter().any(|part| shape.contains(part)) {
            continue;
        }
        let [ours, tokio, other] = SIDES.map(|side| count(side, shape).unwrap_or(0));
        let verdict = if ours > bound { "OVER" } else { "" };
        over |= ours > bound;
        println!("{shape:<14} {ours:>9} {tokio:>7} {other:>15} {bound:>8} {verdict}");
    }
    ExitCode::from(u8::from(over))
}
