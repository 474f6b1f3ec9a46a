//! The figures of a run, kept as a table of text between the benchmark that measures and the report that shows.

use super::measure::{Quartiles, load};
use super::options::Options;
use super::spawn::Allocator;
use std::path::PathBuf;

/// One shape with one number of groups, of one side beside tokio. CPU in ns per operation, medians.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) side: String,
    pub(crate) shape: String,
    pub(crate) groups: usize,
    pub(crate) tokio: f64,
    pub(crate) cpu: f64,
    pub(crate) ratio: Quartiles,
    pub(crate) target: f64,
}

/// What was saved of one run: how it was made, and its rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) how: String,
    pub(crate) rows: Vec<Row>,
}

fn path(allocator: Allocator) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    PathBuf::from(target).join(format!("benchmarks/{allocator:?}.tsv"))
}

pub(crate) fn write(allocator: Allocator, options: &Options, rows: &[Row]) {
    let mut text = format!(
        "{} workers, {}, {}, {}\n",
        options.workers,
        options.placement(),
        if options.quick {
            "quick"
        } else {
            "full length"
        },
        load()
    );
    for row in rows {
        let Row {
            side,
            shape,
            groups,
            tokio,
            cpu,
            ratio,
            target,
        } = row;
        let Quartiles {
            first,
            median,
            third,
        } = ratio;
        text += &format!(
            "{side}\t{shape}\t{groups}\t{tokio:.1}\t{cpu:.1}\t{first:.3}\t{median:.3}\t{third:.3}\t{target}\n"
        );
    }
    let path = path(allocator);
    let folder = path.parent().expect("the path has a folder");
    std::fs::create_dir_all(folder).expect("the target folder can be written");
    std::fs::write(&path, text).expect("the target folder can be written");
    println!("saved in {}", path.display());
}

/// The last run that was saved; none if there is none.
pub(crate) fn read(allocator: Allocator) -> Option<Run> {
    let text = std::fs::read_to_string(path(allocator)).ok()?;
    let mut lines = text.lines();
    let how = lines.next()?.to_owned();
    let rows = lines.filter_map(row).collect();
    Some(Run { how, rows })
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [side, shape, groups, numbers @ ..] = &cells[..] else {
        return None;
    };
    let numbers: Vec<f64> = numbers
        .iter()
        .filter_map(|cell| cell.parse().ok())
        .collect();
    let [tokio, cpu, first, median, third, target] = numbers[..] else {
        return None;
    };
    Some(Row {
        side: (*side).to_owned(),
        shape: (*shape).to_owned(),
        groups: groups.parse().ok()?,
        tokio,
        cpu,
        ratio: Quartiles {
            first,
            median,
            third,
        },
        target,
    })
}
