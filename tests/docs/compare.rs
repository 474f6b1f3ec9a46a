//! The figures of the comparison are those that runs have printed, where they were printed.

use super::markdown::rows;
use super::read;

/// The rows of the table under the heading that stands in the first line of it.
fn table<'a>(rows: &'a [Vec<String>], head: &[&str]) -> Vec<&'a Vec<String>> {
    let begin = rows.iter().position(|cells| cells == head);
    let begin = begin.unwrap_or_else(|| panic!("no table {head:?}"));
    let same = |cells: &&Vec<String>| cells.len() == head.len();
    rows[begin + 1..].iter().take_while(same).collect()
}

#[test]
fn shares_are_those_of_the_picture() {
    let picture = read("docs/tenants.svg");
    let (tokio, quotient) = picture.split_once("Quotient:").expect("two halves");
    let all = rows(&read("docs/COMPARE.md"));
    let head = ["tenants", "weights", "plain tokio", "Quotient"];
    let table = table(&all, &head);
    assert_eq!(table.len(), 6);
    for cells in table {
        for (cell, half) in [(&cells[2], tokio), (&cells[3], quotient)] {
            for share in cell.split(" : ") {
                let text = format!(" {share} %");
                assert!(half.contains(&text), "{cells:?}: no{text} in the picture");
            }
        }
    }
}

#[test]
fn costs_are_those_of_the_benchmarks() {
    let benchmarks = read("docs/benchmarks.md");
    let measured = rows(&benchmarks);
    let instructions = |shape: &str| {
        let found = measured
            .iter()
            .find(|row| row.len() == 5 && row[0] == shape);
        let row = found.unwrap_or_else(|| panic!("no instructions of {shape}"));
        (row[2].clone(), row[1].clone())
    };
    let range = |shape: &str| {
        let ratios = measured
            .iter()
            .filter(|row| row.len() == 7 && row[0].trim_matches('`').starts_with(shape))
            .map(|row| row[4].split(' ').next().unwrap_or_default());
        let (least, most) = (ratios.clone().min(), ratios.max());
        (
            "1".to_owned(),
            format!("{} to {}", least.unwrap(), most.unwrap()),
        )
    };
    let page = read("docs/COMPARE.md");
    let all = rows(&page);
    let table = table(&all, &["", "tokio", "Quotient"]);
    let expected = [
        ("spawn, instructions", instructions("`spawn`")),
        ("spawn and join, instructions", instructions("`spawn_join`")),
        (
            "a task that wakes itself, instructions",
            instructions("`yield_self`"),
        ),
        (
            "message to and fro between two tasks, instructions",
            instructions("`ping_pong`"),
        ),
        (
            "spawn, CPU time, by shape, groups and allocator",
            range("spawn_"),
        ),
        (
            "echo of 1 KiB over TCP, CPU time, by shape, groups and allocator",
            range("echo"),
        ),
        (
            "yield by `quotient::task::yield_now`, beside tokio's own, CPU time",
            range("yield_own"),
        ),
        (
            "yield by tokio's own `yield_now`, CPU time",
            range("yield_tokio"),
        ),
    ];
    for (what, (tokio, quotient)) in expected {
        let found = table.iter().find(|cells| cells[0] == what);
        let cells = found.unwrap_or_else(|| panic!("no row of {what}"));
        assert_eq!((&cells[1], &cells[2]), (&tokio, &quotient), "{what}");
    }
}
