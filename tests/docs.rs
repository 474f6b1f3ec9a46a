//! The documents say what the code does: metrics, dependencies, commands.

use quotient::exec::stats::TIME_BOUNDS;
use quotient::metrics::names;
use std::collections::BTreeSet;

fn read(path: &str) -> String {
    let whole = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of all table rows whose first cell is not a heading or a rule.
fn rows(text: &str) -> Vec<Vec<String>> {
    text.lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| {
            line.split('|')
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|cells| !cells[0].starts_with("--") && !cells[0].is_empty())
        .collect()
}

#[test]
fn every_metric_has_a_row_in_the_guide_and_no_row_is_invented() {
    let page = read("docs/guide/metrics.md");
    let documented: Vec<Vec<String>> = rows(&page)
        .into_iter()
        .filter(|cells| cells[0].starts_with('`'))
        .collect();
    let listed: Vec<&str> = documented
        .iter()
        .map(|cells| cells[0].trim_matches('`'))
        .collect();
    let known: Vec<&str> = names::ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(
        listed, known,
        "rows of the guide against metrics/names.rs, in order"
    );
    for (cells, metric) in documented.iter().zip(names::ALL) {
        assert_eq!(cells[1], metric.kind.word(), "{}", metric.name);
        assert_eq!(label_names(&cells[2]), metric.labels, "{}", metric.name);
    }
}

/// `group, outcome = admitted, rejected; reason = none`: names stand before `=`, or alone; `–` is none.
fn label_names(cell: &str) -> Vec<&str> {
    let names = cell
        .split(';')
        .flat_map(|part| part.split('=').next().unwrap_or(part).split(','));
    names.map(str::trim).filter(|name| *name != "–").collect()
}

#[test]
fn every_metric_that_a_document_names_exists() {
    for path in [
        "README.md",
        "docs/guide/metrics.md",
        "docs/decisions.md",
        "docs/CHANGELOG.md",
    ] {
        for word in read(path).split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if !word.starts_with("quotient_") || word == "quotient_loom" {
                continue;
            }
            assert!(
                names::ALL.iter().any(|metric| metric.name == word),
                "{path} names `{word}`"
            );
        }
    }
}

#[test]
fn the_histogram_bounds_in_the_guide_are_the_ones_in_use() {
    let bounds: Vec<String> = TIME_BOUNDS.iter().map(|bound| readable(bound.0)).collect();
    let sentence = format!("{}.", bounds.join(", "));
    let page = read("docs/guide/metrics.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(page.contains(&sentence), "{sentence}");
}

fn readable(ns: u64) -> String {
    match ns {
        ns if ns < 1_000_000 => format!("{} µs", ns / 1_000),
        ns if ns < 1_000_000_000 => format!("{} ms", ns / 1_000_000),
        ns => format!("{} s", ns / 1_000_000_000),
    }
}

#[test]
fn every_dependency_has_its_line() {
    let manifest = read("Cargo.toml");
    let mut in_dependencies = false;
    let mut used = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.trim_end_matches(']').ends_with("dependencies");
        } else if let (true, Some((name, _))) = (in_dependencies, line.split_once(" = ")) {
            used.insert(name.to_owned());
        }
    }
    let page = read("docs/DEPENDENCIES.md");
    let described: BTreeSet<String> = rows(&page)
        .into_iter()
        .map(|cells| cells[0].clone())
        .filter(|name| name != "crate")
        .collect();
    assert_eq!(described, used, "docs/DEPENDENCIES.md against Cargo.toml");
}

#[test]
fn ci_ends_with_the_command_that_the_readme_names() {
    let command = "cargo test --all-features";
    assert!(read("README.md").contains(command));
    let ci = read(".ci/run");
    let last = ci.lines().rfind(|line| !line.trim().is_empty());
    assert_eq!(last, Some(command));
    assert!(ci.contains("export QUOTIENT_REQUIRE_TOOLS=1"));
}
