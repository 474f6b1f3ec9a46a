//! What metering costs on a socket: `quotient::io::Metered` around a loopback TCP stream, beside the stream itself.
//!
//! `cargo bench --bench metered -- [--quick] [--only NAME] [--aa]`
//!
//! Both ends are on one current-thread runtime, outside of any group, so that nothing differs but the wrapper around
//! both of them: a system call per operation, with two additions, and a draw where something is limited. Repetitions of
//! the sides are interleaved and alternate in who is first; ratios are of the CPU time of the whole process per
//! operation, medians of pairs. `--aa` puts the bare stream on all sides. A target that is missed is printed as MISSED;
//! the exit status is 0 all the same.

mod support;

use quotient::io::{IoResource, Metered};
use quotient::{Attributes, Governor, GroupHandle};
use std::time::{Duration, Instant};
use support::measure::{Cost, Quartiles, cost, load, median, ratios};
use support::options::Options;
use support::watchdog::Watchdog;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const TIME_PER_SHAPE: Duration = Duration::from_secs(16);
const LEAST_REPETITIONS: usize = 5;
const WARM_UP: usize = 2;
/// CPU per operation ÷ the bare stream's, without a limit that is reached: the most that is wanted.
const TARGET: f64 = 1.02;

/// Whose the streams are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Bare,
    /// Counted, and bound by nothing.
    Counted,
    /// With a rate that is never reached.
    Rate,
    /// At a shared capacity that is never reached.
    Shared,
}

const SIDES: [Side; 4] = [Side::Bare, Side::Counted, Side::Rate, Side::Shared];

/// A name, how many operations of how many bytes, and whether each is answered.
const SHAPES: [(&str, usize, usize, bool); 4] = [
    ("echo 64 B", 4_000, 64, true),
    ("echo 1 KiB", 4_000, 1 << 10, true),
    ("bulk 8 KiB", 4_000, 8 << 10, false),
    ("bulk 64 KiB", 1_000, 64 << 10, false),
];

struct Scene {
    runtime: Runtime,
    governor: Governor,
    free: GroupHandle,
    limited: GroupHandle,
    resource: IoResource,
}

impl Scene {
    fn new() -> Scene {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        let inside = runtime.enter();
        let governor = Governor::builder()
            .init_sql(
                "CREATE RESOURCE GROUP free TO (user='free') WITH ('cpu_core_limit'='1');
                 CREATE RESOURCE GROUP limited TO (user='limited') WITH ('max_io_bytes_per_second'='1TB')",
            )
            .build()
            .expect("a governor can be built");
        let group = |name| {
            let found = governor.classify(&Attributes::new().user(name));
            found.expect("the group is there")
        };
        let (free, limited) = (group("free"), group("limited"));
        drop(inside);
        Scene {
            runtime,
            free,
            limited,
            resource: IoResource::new("loopback", 1 << 40),
            governor,
        }
    }

    fn run(&self, side: Side, shape: (&str, usize, usize, bool)) -> usize {
        self.runtime.block_on(async {
            let (near, far) = connection().await;
            let metered = |group, stream| Metered::in_group(group, stream);
            match side {
                Side::Bare => transfer(near, far, shape).await,
                Side::Counted => {
                    let (near, far) = (metered(&self.free, near), metered(&self.free, far));
                    transfer(near, far, shape).await
                }
                Side::Rate => {
                    let (near, far) = (metered(&self.limited, near), metered(&self.limited, far));
                    transfer(near, far, shape).await
                }
                Side::Shared => {
                    let near = metered(&self.free, near).with_resource(&self.resource);
                    let far = metered(&self.free, far).with_resource(&self.resource);
                    transfer(near, far, shape).await
                }
            }
        })
    }
}

async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (near, (far, _)) = (near.expect("connected"), far.expect("accepted"));
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("a TCP socket");
    }
    (near, far)
}

async fn transfer<S>(
    mut near: S,
    mut far: S,
    (_, times, size, answered): (&str, usize, usize, bool),
) -> usize
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (sent, mut got, mut back) = (vec![1_u8; size], vec![0_u8; size], vec![0_u8; size]);
    let there = async {
        for _ in 0..times {
            near.write_all(&sent).await.expect("the far end reads");
            if answered {
                near.read_exact(&mut back).await.expect("it answers");
            }
        }
    };
    let here = async {
        for _ in 0..times {
            far.read_exact(&mut got).await.expect("the near end writes");
            if answered {
                far.write_all(&got).await.expect("it reads");
            }
        }
    };
    tokio::join!(there, here);
    times
}

fn main() {
    let options = Options::from_args();
    let scene = Scene::new();
    let governor = scene.governor.clone();
    let watchdog = Watchdog::start(move || governor.dump());
    println!("loopback TCP on one thread, {}\n", load());
    println!(
        "{:<12} {:<8} {:>10} | cpu per operation ÷ the bare stream's",
        "shape", "side", "cpu ns"
    );
    for shape in SHAPES.into_iter().filter(|shape| options.wants(shape.0)) {
        compare(&options, &watchdog, &scene, shape);
    }
    println!("\n{}", load());
}

fn compare(
    options: &Options,
    watchdog: &Watchdog,
    scene: &Scene,
    shape: (&str, usize, usize, bool),
) {
    let mut costs: [Vec<Cost>; SIDES.len()] = Default::default();
    let (start, time) = (Instant::now(), options.time(TIME_PER_SHAPE));
    for repetition in 0.. {
        if repetition > WARM_UP + LEAST_REPETITIONS && start.elapsed() > time {
            break;
        }
        for turn in 0..SIDES.len() {
            let at = (turn + repetition) % SIDES.len();
            watchdog.enter(shape.0);
            let side = if options.same { Side::Bare } else { SIDES[at] };
            let cost = cost(|| scene.run(side, shape));
            if repetition >= WARM_UP {
                costs[at].push(cost);
            }
        }
    }
    for (side, own) in SIDES.iter().zip(&costs) {
        let ratio: Quartiles = ratios(&costs[0], own, |cost| cost.cpu);
        let verdict = match side {
            Side::Bare => "",
            _ if ratio.median <= TARGET => "≤ 1.02 ok",
            _ => "≤ 1.02 MISSED",
        };
        println!(
            "{:<12} {:<8} {:>10.0} | {:.3} [{:.3} … {:.3}] {verdict}",
            shape.0,
            format!("{side:?}"),
            median(own, |cost| cost.cpu),
            ratio.median,
            ratio.first,
            ratio.third,
        );
    }
}
