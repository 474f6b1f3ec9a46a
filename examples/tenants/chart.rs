//! The picture: each tenant's share of the queries' CPU time, over the measured time of all suites, host by host.

use crate::host::{Arm, TENANTS};
use crate::stage::Window;
use crate::suites::{Company, SUITES};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (1200, 620);
/// Samples between two points of a curve.
const STRIDE: usize = 2;
/// A name's height above the lower edge of its area, in percent.
const LABEL: f64 = 7.0;
const COLORS: [RGBColor; TENANTS] = [
    RGBColor(31, 97, 141),
    RGBColor(230, 145, 56),
    RGBColor(115, 168, 92),
];

type Failure = Box<dyn Error + Send + Sync>;

/// Writes the picture to `path`.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn draw(windows: &[Window], suites: &[usize], path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let panels = root.split_evenly((2, 1));
        for (panel, (arm, title)) in panels.iter().zip([
            (
                Arm::Tokio,
                "plain tokio::spawn: shares of the queries' CPU time (dashed: as asked)",
            ),
            (
                Arm::Quotient,
                "Quotient: shares of the queries' CPU time (dashed: as asked)",
            ),
        ]) {
            let mine: Vec<_> = windows
                .iter()
                .filter(|window| window.arm == arm && suites.contains(&window.suite))
                .collect();
            draw_panel(panel, title, &mine)?;
        }
        root.present()?;
    }
    std::fs::write(path, text)?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    windows: &[&Window],
) -> Result<(), Failure> {
    let seconds: f64 = windows
        .iter()
        .map(|window| window.elapsed().as_secs_f64())
        .sum();
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(title, ("sans-serif", 17))
        .x_label_area_size(28)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..seconds.max(0.1), 0.0..108.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(12)
        .y_labels(5)
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|share| format!("{share:.0} %"))
        .draw()?;
    let mut begin = 0.0;
    let mut last_suite = None;
    for window in windows {
        let suite = &SUITES[window.suite];
        let tenants = suite.present(window.company);
        let end = begin + window.elapsed().as_secs_f64();
        let curve = shares(window, begin);
        // From the top down: each tenant's area is drawn over the sum of its own and all before it.
        for tenant in (0..tenants.len()).rev() {
            let sums = curve
                .iter()
                .map(|(at, shares)| (*at, shares[..=tenant].iter().sum::<f64>()));
            chart.draw_series(AreaSeries::new(sums, 0.0, COLORS[tenant].filled()))?;
        }
        let label = ("sans-serif", 13)
            .into_font()
            .color(&WHITE)
            .pos(Pos::new(HPos::Center, VPos::Center));
        if window.company == Company::Alone {
            chart.draw_series([Text::new("alone", ((begin + end) / 2.0, LABEL), label)])?;
        } else {
            let all: u32 = tenants.iter().map(|tenant| tenant.weight).sum();
            let given = window.tenants().map(|time| time.as_secs_f64());
            let (mut asked, mut below) = (0.0, 0.0);
            for (tenant, given_here) in tenants.iter().zip(given) {
                asked += 100.0 * f64::from(tenant.weight) / f64::from(all);
                let share = 100.0 * given_here / given.iter().sum::<f64>();
                let name = format!("{} {share:.1} %", tenant.name);
                let place = ((begin + end) / 2.0, below + LABEL);
                chart.draw_series([Text::new(name, place, label.clone())])?;
                below += share;
                if asked < 99.9 {
                    let line = DashedLineSeries::new(
                        [(begin, asked), (end, asked)],
                        6,
                        4,
                        BLACK.stroke_width(2),
                    );
                    chart.draw_series(line)?;
                }
            }
            let heading = ("sans-serif", 13)
                .into_font()
                .color(&BLACK)
                .pos(Pos::new(HPos::Center, VPos::Bottom));
            chart.draw_series([Text::new(
                suite.title,
                ((begin + end) / 2.0, 101.5),
                heading,
            )])?;
        }
        if last_suite.is_some_and(|last| last != window.suite) {
            chart.draw_series(LineSeries::new(
                [(begin, 0.0), (begin, 108.0)],
                BLACK.stroke_width(2),
            ))?;
        }
        last_suite = Some(window.suite);
        begin = end;
    }
    Ok(())
}

/// Each tenant's share of the queries' CPU time, in percent, between samples.
fn shares(window: &Window, begin: f64) -> Vec<(f64, [f64; TENANTS])> {
    let samples: Vec<_> = window
        .samples
        .iter()
        .step_by(STRIDE)
        .chain(window.samples.last())
        .collect();
    let mut curve = Vec::with_capacity(samples.len());
    for pair in samples.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let times: [f64; TENANTS] = std::array::from_fn(|tenant| {
            to.tenants[tenant]
                .saturating_sub(from.tenants[tenant])
                .as_secs_f64()
        });
        let all: f64 = times.iter().sum();
        if all > 0.0 {
            let at = |sample: &crate::stage::Sample| {
                begin + (sample.at - window.samples[0].at).as_secs_f64()
            };
            let shares = times.map(|time| 100.0 * time / all);
            // A step, not a slope: the share is that of the whole interval.
            curve.push((at(from), shares));
            curve.push((at(to), shares));
        }
    }
    curve
}
