//! Writes `docs/benchmarks.md`'s tables and its picture from the runs that `--save` has kept.
//!
//! `cargo bench --bench spawn -- --save && cargo bench --bench spawn_mimalloc -- --save && cargo bench --bench report`

mod support;

use plotters::prelude::*;
use std::error::Error;
use std::path::Path;
use support::saved::{Row, Run, read};
use support::spawn::Allocator;

const PAGE: &str = "docs/benchmarks.md";
const PICTURE: &str = "docs/benchmarks.svg";
const SHOWN: &str = "![CPU per operation beside tokio's](benchmarks.svg)

Dots are medians, lines reach from quartile to quartile; blue is Quotient, grey async-executor, one group; the black line is
tokio.
";
const SIZE: (u32, u32) = (1000, 560);
/// Ratios above this are drawn at the edge.
const EDGE: f64 = 2.5;

fn main() -> Result<(), Box<dyn Error>> {
    let runs: Vec<(Allocator, Run)> = [Allocator::System, Allocator::Mimalloc]
        .into_iter()
        .filter_map(|allocator| Some((allocator, read(allocator)?)))
        .collect();
    if runs.is_empty() {
        println!("nothing was saved: run `cargo bench --bench spawn -- --save` first");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut page = std::fs::read_to_string(root.join(PAGE))?;
    for (allocator, run) in &runs {
        page = replaced(&page, &format!("{allocator:?}"), &table(run))?;
    }
    page = replaced(&page, "Picture", SHOWN)?;
    std::fs::write(root.join(PAGE), page)?;
    std::fs::write(root.join(PICTURE), picture(&runs)?)?;
    println!("{PAGE} and {PICTURE} are written");
    Ok(())
}

/// The page with what stands between the marks of `name` replaced.
fn replaced(page: &str, name: &str, by: &str) -> Result<String, String> {
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = page
        .split_once(&begin)
        .ok_or(format!("{PAGE} has no {begin}"))?;
    let (_, after) = rest
        .split_once(&end)
        .ok_or(format!("{PAGE} has no {end}"))?;
    Ok(format!("{before}{begin}\n{by}\n{end}{after}"))
}

fn table(run: &Run) -> String {
    let mut text = format!(
        "{}\n\n| shape | groups | tokio, ns | Quotient, ns | ratio [quartiles] | wanted | async-executor, ratio |\n|---|---|---|---|---|---|---|\n",
        run.how
    );
    let of = |side: &'static str| run.rows.iter().filter(move |row| row.side == side);
    for row in of("quotient") {
        let same = |other: &&Row| other.shape == row.shape && other.groups == row.groups;
        let other = of("async-executor").find(same);
        text += &format!(
            "| `{}` | {} | {:.0} | {:.0} |{} | {} | {} |\n",
            row.shape,
            row.groups,
            row.tokio,
            row.cpu,
            row.ratio,
            row.target,
            other.map_or("–".into(), |other| format!("{:.2}", other.ratio.median)),
        );
    }
    text
}

/// CPU beside tokio's, shape by shape: a dot for the median, a line between the quartiles.
fn picture(runs: &[(Allocator, Run)]) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let panels = area.split_evenly((1, runs.len()));
        for (panel, (allocator, run)) in panels.iter().zip(runs) {
            let rows: Vec<&Row> = run.rows.iter().filter(|row| row.groups == 1).collect();
            let ours = rows.iter().filter(|row| row.side == "quotient");
            let shapes: Vec<&str> = ours.map(|row| &*row.shape).collect();
            let lines = shapes.len() as f64;
            let mut chart = ChartBuilder::on(panel)
                .caption(
                    format!("CPU per operation ÷ tokio's, {allocator:?}"),
                    ("sans-serif", 16),
                )
                .margin(12)
                .x_label_area_size(28)
                .build_cartesian_2d(0.0..EDGE, 0.0..lines)?;
            chart
                .configure_mesh()
                .disable_y_mesh()
                .disable_y_axis()
                .draw()?;
            let font = ("sans-serif", 13).into_font();
            chart.draw_series(shapes.iter().enumerate().map(|(line, shape)| {
                let at = (0.03, lines - line as f64 - 0.1);
                Text::new((*shape).to_owned(), at, font.clone())
            }))?;
            chart.draw_series(LineSeries::new([(1.0, 0.0), (1.0, lines)], BLACK.mix(0.6)))?;
            for row in rows {
                let Some(line) = shapes.iter().position(|shape| *shape == row.shape) else {
                    continue;
                };
                let (color, offset) = match &*row.side {
                    "quotient" => (RGBColor(31, 97, 141), 0.35),
                    _ => (RGBColor(190, 190, 190), 0.6),
                };
                let y = lines - line as f64 - offset;
                let [first, median, third] =
                    [row.ratio.first, row.ratio.median, row.ratio.third].map(|x| x.min(EDGE));
                let between = [(first, y), (third, y)];
                chart.draw_series(LineSeries::new(between, color.stroke_width(3)))?;
                chart.draw_series([Circle::new((median, y), 5, color.filled())])?;
            }
        }
        area.present()?;
    }
    Ok(text)
}
