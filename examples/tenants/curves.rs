//! The picture's memory panel: what a tenant that tries to take all memory gets, on each host.

use crate::hoard::{LIMIT, Sample, Window};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;
use std::path::Path;

const TOKIO: RGBColor = RGBColor(230, 145, 56);
const PROCESS: RGBColor = RGBColor(31, 97, 141);
const HOARDER: RGBColor = RGBColor(115, 168, 92);

type Failure = Box<dyn Error + Send + Sync>;

/// Writes the curves of both windows to `path`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn draw(tokio: &Window, quotient: &Window, path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (1200, 360)).into_drawing_area();
        root.fill(&WHITE)?;
        draw_panel(&root, tokio, quotient)?;
        root.present()?;
    }
    std::fs::write(path, text)?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    tokio: &Window,
    quotient: &Window,
) -> Result<(), Failure> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let samples = || tokio.samples.iter().chain(&quotient.samples);
    let seconds = samples().map(|s| s.at.as_secs_f64()).fold(0.1, f64::max);
    let most = samples().map(|s| mib(s.process)).fold(mib(LIMIT), f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(
            "memory beside a tenant that tries to take all of it (dashed: its group's mem_limit)",
            ("sans-serif", 17),
        )
        .x_label_area_size(28)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..seconds, 0.0..most * 1.08)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(12)
        .y_labels(5)
        .x_label_formatter(&|at| format!("{at:.1} s"))
        .y_label_formatter(&|size| format!("{size:.0} MiB"))
        .draw()?;
    let of_process = |window: &Window| -> Vec<(f64, f64)> {
        let point = |s: &Sample| (s.at.as_secs_f64(), mib(s.process));
        window.samples.iter().map(point).collect()
    };
    let hoarder = quotient.samples.iter().filter_map(|sample| {
        let used = sample.hoarder?;
        Some((sample.at.as_secs_f64(), mib(used)))
    });
    let curves = [
        ("plain tokio: the process", TOKIO, of_process(tokio)),
        ("Quotient: the process", PROCESS, of_process(quotient)),
        ("Quotient: the hoarder's group", HOARDER, hoarder.collect()),
    ];
    for (name, color, points) in curves {
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    let limit = [(0.0, mib(LIMIT)), (seconds, mib(LIMIT))];
    chart.draw_series(DashedLineSeries::new(limit, 6, 4, BLACK.stroke_width(2)))?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .draw()?;
    Ok(())
}
