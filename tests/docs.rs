//! The documents say what the code does: SQL is run, tables are compared, links lead somewhere.
//!
//! `QUOTIENT_WRITE_DOCS=1 cargo test --test docs` writes what the code says into the documents instead of failing:
//! read the difference before it is committed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "docs/compare.rs"]
mod compare;
#[path = "docs/markdown.rs"]
mod markdown;
#[path = "docs/sql.rs"]
mod sql;

use markdown::{links, rows};
use quotient::exec::stats::TIME_BOUNDS;
use quotient::metrics::names;
use std::collections::BTreeSet;

/// Everything that a user reads. Their Rust is compiled and run as doctests, through src/lib.rs.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/sql.md",
    "docs/guide/first-group.md",
    "docs/guide/classifiers.md",
    "docs/guide/shares.md",
    "docs/guide/running-work.md",
    "docs/guide/hosts.md",
    "docs/guide/tokio.md",
    "docs/guide/http.md",
    "docs/guide/administration.md",
    "docs/guide/memory.md",
    "docs/guide/operating.md",
    "docs/guide/metrics.md",
    "docs/guide/dashboard.md",
    "docs/guide/long-polls.md",
    "docs/guide/io.md",
    "docs/guide/runaway-queries.md",
    "docs/guide/cli.md",
    "docs/guide/fleet.md",
    "docs/guide/coming-from.md",
    "docs/COMPARE.md",
];

/// What is written for those who work on the crate.
const RECORDS: [&str; 6] = [
    "docs/DESIGN.md",
    "docs/benchmarks.md",
    "docs/hazards.md",
    "docs/decisions.md",
    "docs/CHANGELOG.md",
    "docs/DEPENDENCIES.md",
];

fn root() -> std::path::PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The document says what the code says, or is made to.
fn held(path: &str, document: &str, as_it_is: &str) {
    if document == as_it_is {
        return;
    }
    if std::env::var_os("QUOTIENT_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(root().join(path), as_it_is).unwrap();
        return;
    }
    let differs = document
        .lines()
        .zip(as_it_is.lines())
        .enumerate()
        .find(|(_, (a, b))| a != b);
    let (line, shown, found) = match differs {
        Some((i, (a, b))) => (i + 1, a, b),
        None => (document.lines().count(), "(the end)", "(more)"),
    };
    panic!(
        "{path}:{line}\n shows {shown}\n found {found}\nQUOTIENT_WRITE_DOCS=1 writes what was found"
    );
}

#[test]
fn every_document_is_known_and_its_rust_is_compiled() {
    let mut found = BTreeSet::from(["README.md".to_owned()]);
    for folder in ["docs", "docs/guide"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.insert(format!("{folder}/{name}"));
            }
        }
    }
    let known = DOCUMENTS
        .iter()
        .chain(&RECORDS)
        .map(|path| path.to_string());
    assert_eq!(found, known.collect());
    let root = read("src/lib.rs");
    for path in DOCUMENTS {
        let line = format!("#[doc = include_str!(\"../{path}\")]");
        assert!(root.contains(&line), "src/lib.rs does not include {path}");
    }
    for path in RECORDS {
        let rust = markdown::blocks(&read(path));
        assert!(
            rust.iter().all(|b| b.info != "rust"),
            "{path} has Rust that nobody compiles"
        );
    }
}

/// `src/…`, `tests/…`, `examples/…` or `benches/…` between backticks: files and folders.
fn paths_named(document: &str) -> impl Iterator<Item = &str> {
    let rooms = ["src/", "tests/", "examples/", "benches/"];
    document
        .split('`')
        .filter(move |word| rooms.iter().any(|room| word.starts_with(room)))
        .map(|word| word.split_once("::").map_or(word, |(file, _)| file))
        .filter(|word| !word.contains(char::is_whitespace))
}

#[test]
fn a_file_that_a_document_names_exists() {
    for path in DOCUMENTS.iter().chain(&RECORDS) {
        let document = read(path);
        for named in paths_named(&document) {
            let source = ["", ".rs"].map(|end| root().join(format!("{named}{end}")));
            assert!(source.iter().any(|it| it.exists()), "{path} names {named}");
        }
    }
}

#[test]
fn the_readme_leads_to_every_document() {
    let page = read("README.md");
    for path in DOCUMENTS.iter().chain(&RECORDS).skip(1) {
        assert!(
            links(&page).contains(path),
            "README.md has no link to {path}"
        );
    }
}

#[test]
fn links_lead_to_files() {
    for path in DOCUMENTS.iter().chain(&RECORDS) {
        let folder = root().join(path).parent().unwrap().to_owned();
        for target in links(&read(path)) {
            assert!(folder.join(target).is_file(), "{path} links to {target}");
        }
    }
}

/// `tests/file.rs::module::name` or `src/file.rs::name` in a document.
fn tests_named(document: &str) -> Vec<(String, String)> {
    let words = document
        .split('`')
        .filter(|word| word.starts_with("tests/") || word.starts_with("src/"));
    words
        .filter_map(|word| word.split_once("::"))
        .map(|(file, name)| (file.to_owned(), name.to_owned()))
        .collect()
}

#[test]
fn a_test_that_a_document_names_exists() {
    let page = read("docs/guide/tokio.md");
    let lines = rows(&page);
    for cells in lines.iter().skip(1) {
        assert_eq!(tests_named(&cells[3]).len(), 1, "{cells:?}");
    }
    let page = read("docs/hazards.md");
    for cells in rows(&page).iter().skip(1) {
        assert!(!tests_named(&cells[2]).is_empty(), "{cells:?}");
    }
    for path in DOCUMENTS.iter().chain(&RECORDS) {
        for (file, name) in tests_named(&read(path)) {
            let source = read(&file);
            let name = name.rsplit("::").next().unwrap_or(&name);
            // Either a test, or a scenario in the list of those that are compared.
            let is_there =
                source.contains(&format!("fn {name}(")) || source.contains(&format!(" {name},\n"));
            assert!(is_there, "{path} names {file}::{name}");
        }
    }
}

#[test]
fn the_readme_says_how_hard_each_property_binds() {
    let page = read("README.md");
    let table = rows(page.split_once("## What is isolated").unwrap().1);
    let properties = &quotient::catalog::property::PROPERTIES;
    let mut silent: BTreeSet<&str> = properties.iter().map(|property| property.name).collect();
    for cells in table.iter().filter(|cells| cells.len() == 3) {
        for key in cells[1].split('`').skip(1).step_by(2) {
            silent.retain(|name| match key.strip_suffix('*') {
                Some(prefix) => !name.starts_with(prefix),
                None => *name != key,
            });
        }
    }
    // It names a pool of which there is one.
    assert_eq!(silent, BTreeSet::from(["mem_pool"]));
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
    for path in DOCUMENTS.iter().chain(&RECORDS) {
        for word in read(path).split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let others = [
                "quotient_loom",
                "quotient_catalog",
                "quotient_catalog_history",
            ];
            if !word.starts_with("quotient_") || others.contains(&word) {
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
