//! A memory squeeze: queries that hold much memory arrive for a while, with the memory throttle and without.
//!
//! Memory is real: blocks that are written to, and the process's resident size. The picture shows for both runs how
//! many queries may run, how many do, and the memory, over time.

use crate::scene::Scene;
use plotters::coord::Shift;
use plotters::prelude::*;
use quotient::mem::pressure::Probe;
use quotient::settings::Scheduler;
use quotient::unit::Bytes;
use quotient::{Attributes, Governor, Settings};
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, interval, sleep};

/// Queries at once while memory is not short.
const RUNNERS: u64 = 12;
/// Large enough for every allocator to map it and to give it back when it is freed.
const BLOCK: usize = 36 << 20;
/// The threshold leaves room for so many blocks.
const ROOM: u64 = 4;
/// How long a query holds its memory: much longer than it takes to fill it, also on a busy machine.
const HEAVY: Duration = Duration::from_millis(1_200);
const LIGHT: Duration = Duration::from_millis(20);
/// Between two arrivals: so many that all runners are taken while queries are heavy.
const GAP: Duration = Duration::from_millis(100);
/// How often the throttle looks; StarTree's default of a second, made short for a demonstration.
const INTERVAL: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_millis(10);

/// One moment of a run.
#[derive(Clone, Copy)]
struct Sample {
    at: f64,
    allowed: f64,
    running: f64,
    memory: f64,
    throttling: bool,
}

/// Runs both, draws the picture, and says what came of it.
///
/// # Errors
/// When a governor cannot be built, or the picture cannot be written.
pub(crate) async fn run(length: Duration, picture: &Path) -> Result<Scene, String> {
    let probe = Probe::new(Bytes(u64::MAX), Default::default);
    let resident = move || probe.read().resident.unwrap_or_default().0;
    let before = resident();
    let threshold = before + ROOM * BLOCK as u64;
    let mut runs = Vec::new();
    for throttled in [false, true] {
        runs.push(squeeze(throttled, threshold, length).await?);
    }
    let scene = judge(&runs[0], &runs[1], before, threshold);
    let texts = ["without the throttle", "MemoryThrottledFCFS"];
    draw(&runs, texts, threshold, picture).map_err(|error| error.to_string())?;
    Ok(scene)
}

async fn squeeze(throttled: bool, threshold: u64, length: Duration) -> Result<Vec<Sample>, String> {
    let mut settings = Settings::new();
    settings.query_runner_threads = RUNNERS;
    // Far below the limit that the allocator enforces: here, it is the throttle that is to be seen.
    settings.memory_usage_percentage_threshold = 25.0;
    settings.max_running_queries_update_frequency_ms = INTERVAL.as_millis() as u64;
    if throttled {
        settings.query_scheduler_name = Scheduler::MemoryThrottledFcfs;
    }
    let probe = Probe::new(Bytes(u64::MAX), Default::default);
    let governor = Governor::builder()
        .settings(settings)
        .memory_limit(threshold * 4)
        .memory_probe(move || probe.read().resident.unwrap_or_default().0)
        .build()
        .map_err(|error| error.to_string())?;
    let asking = tokio::spawn(ask(governor.clone(), length));
    let samples = watch(&governor, length).await;
    asking.await.map_err(|error| error.to_string())?;
    governor.shutdown(Duration::from_secs(1)).await;
    Ok(samples)
}

/// Arrivals at an even pace. Those that start in the first half of the time hold much memory.
async fn ask(governor: Governor, length: Duration) {
    let begun = Instant::now();
    let anybody = Attributes::new();
    let mut beat = interval(GAP);
    let mut asked = Vec::new();
    while begun.elapsed() < length {
        beat.tick().await;
        asked.push(governor.spawn(&anybody, async move {
            let (size, holds) = match begun.elapsed().div_duration_f64(length) {
                0.05..0.5 => (BLOCK, HEAVY),
                _ => (1 << 10, LIGHT),
            };
            // Not zeroes: they would not be written.
            let block = vec![1_u8; size];
            sleep(holds).await;
            block.len()
        }));
    }
    for query in asked {
        // Nothing is refused here: the wait may be longer than the scene.
        let _ = query.await;
    }
}

async fn watch(governor: &Governor, length: Duration) -> Vec<Sample> {
    let probe = Probe::new(Bytes(u64::MAX), Default::default);
    let mut beat = interval(SAMPLE);
    let begun = Instant::now();
    let mut samples = Vec::new();
    while begun.elapsed() < length {
        beat.tick().await;
        let queries = governor.metrics().queries;
        samples.push(Sample {
            at: begun.elapsed().as_secs_f64(),
            allowed: queries.max_allowed.unwrap_or(RUNNERS) as f64,
            running: queries.running as f64,
            memory: probe.read().resident.unwrap_or_default().0 as f64 / f64::from(1 << 20),
            throttling: queries.throttling_for.0 > 0,
        });
    }
    samples
}

fn judge(free: &[Sample], throttled: &[Sample], before: u64, threshold: u64) -> Scene {
    let mut scene = Scene::new("memory squeeze");
    let peak = |run: &[Sample]| run.iter().map(|it| it.memory).fold(0.0, f64::max);
    let least = throttled
        .iter()
        .map(|it| it.allowed)
        .fold(f64::INFINITY, f64::min);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    scene.say(format!(
        "memory   {:.0} MiB at first, threshold {:.0}; peak {:.0} without the throttle, {:.0} with it",
        mib(before),
        mib(threshold),
        peak(free),
        peak(throttled),
    ));
    let last = throttled.last().map_or(0.0, |it| it.allowed);
    let throttling = throttled.iter().filter(|it| it.throttling).count();
    scene.say(format!(
        "allowed  {RUNNERS} at first, at least {least:.0}, {last:.0} at the end; throttling in {:.0} % of the time",
        100.0 * throttling as f64 / throttled.len().max(1) as f64,
    ));
    scene.promise("it throttles", throttling > 0 && least < RUNNERS as f64);
    scene.promise(
        "the cap is back at the runner threads",
        last == RUNNERS as f64,
    );
    let above = |run: &[Sample]| peak(run) - mib(threshold);
    scene.promise(
        "memory above the threshold at most three quarters of that without",
        above(throttled) <= 0.75 * above(free),
    );
    scene
}

type Failure = Box<dyn Error + Send + Sync>;

const SIZE: (u32, u32) = (1200, 620);
const ALLOWED: RGBColor = RGBColor(31, 97, 141);
const RUNNING: RGBColor = RGBColor(150, 190, 220);
const MEMORY: RGBColor = RGBColor(200, 70, 50);

fn draw(
    runs: &[Vec<Sample>],
    texts: [&str; 2],
    threshold: u64,
    path: &Path,
) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let most = runs
            .iter()
            .flatten()
            .map(|it| it.memory)
            .fold(1.0, f64::max);
        let threshold = threshold as f64 / f64::from(1 << 20);
        for ((panel, run), title) in root.split_evenly((2, 1)).iter().zip(runs).zip(texts) {
            draw_panel(panel, title, run, most, threshold)?;
        }
        root.present()?;
    }
    std::fs::write(path, text)?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    run: &[Sample],
    most: f64,
    threshold: f64,
) -> Result<(), Failure> {
    let end = run.last().map_or(1.0, |it| it.at);
    let caption = format!(
        "{title}: queries allowed (line) and running (area); memory in MiB, threshold dashed (red)"
    );
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(caption, ("sans-serif", 17))
        .x_label_area_size(28)
        .y_label_area_size(46)
        .right_y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..RUNNERS as f64 * 1.15)?
        .set_secondary_coord(0.0..end, 0.0..most * 1.15);
    chart
        .configure_mesh()
        .disable_mesh()
        .x_label_formatter(&|at| format!("{at:.1} s"))
        .y_label_formatter(&|queries| format!("{queries:.0}"))
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_label_formatter(&|mib| format!("{mib:.0} MiB"))
        .draw()?;
    let running = run.iter().map(|it| (it.at, it.running));
    chart.draw_series(AreaSeries::new(running, 0.0, RUNNING.filled()))?;
    let allowed = run.iter().map(|it| (it.at, it.allowed));
    chart.draw_series(LineSeries::new(allowed, ALLOWED.stroke_width(2)))?;
    let memory = run.iter().map(|it| (it.at, it.memory));
    chart.draw_secondary_series(LineSeries::new(memory, MEMORY.stroke_width(2)))?;
    let line = [(0.0, threshold), (end, threshold)];
    chart.draw_secondary_series(DashedLineSeries::new(line, 6, 4, MEMORY.stroke_width(1)))?;
    Ok(())
}
