//! The files for Prometheus and Grafana: checked by promtool, and by name against the table of metrics.

use crate::support::require_tool;
use quotient::metrics::names::{self, Kind};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(docs().join(path)).unwrap()
}

#[test]
fn promtool_accepts_the_rules_and_their_own_tests_pass() {
    let Some(promtool) = require_tool("promtool") else {
        return;
    };
    let run = |arguments: &[&str]| {
        let said = Command::new(&promtool)
            .args(arguments)
            .current_dir(docs().join("prometheus"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        assert!(said.status.success(), "{arguments:?}: {text}");
    };
    run(&["check", "rules", "alerts.yml", "recording.yml"]);
    run(&["test", "rules", "alerts_test.yml", "recording_test.yml"]);
}

/// What stands behind a key of a rule file.
fn rules(file: &str, key: &str) -> BTreeSet<String> {
    let text = read(&format!("prometheus/{file}"));
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(key));
    lines.map(str::to_owned).collect()
}

#[test]
fn every_alert_and_every_recorded_series_has_a_test() {
    let alerts = rules("alerts.yml", "- alert: ");
    let recorded = rules("recording.yml", "- record: ");
    assert!(alerts.len() > 5 && recorded.len() > 4);
    let tested = [
        read("prometheus/alerts_test.yml"),
        read("prometheus/recording_test.yml"),
    ];
    for (names, tests) in [alerts, recorded].iter().zip(&tested) {
        let untested: Vec<_> = names.iter().filter(|name| !tests.contains(*name)).collect();
        assert!(untested.is_empty(), "{untested:?}");
    }
}

/// The words of a text that are named as our metrics are.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    let ours = words.filter(|word| word.starts_with("quotient_") || word.contains(":quotient_"));
    ours.map(str::to_owned).collect()
}

/// Every series that can be asked for, and the labels that it has.
fn known() -> Vec<(String, Vec<&'static str>)> {
    let mut all = Vec::new();
    for metric in names::ALL {
        let parts: &[&str] = match metric.kind {
            Kind::Counter | Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_sum", "_count"],
        };
        for part in parts {
            let labels = metric.labels.iter().copied();
            let bound = (*part == "_bucket").then_some("le");
            all.push((
                format!("{}{part}", metric.name),
                labels.chain(bound).collect(),
            ));
        }
    }
    all
}

#[test]
fn the_rules_name_metrics_that_exist_and_series_that_they_record() {
    let recorded = rules("recording.yml", "- record: ");
    for file in [
        "alerts.yml",
        "recording.yml",
        "alerts_test.yml",
        "recording_test.yml",
    ] {
        let text = read(&format!("prometheus/{file}"));
        let names = named(&text);
        assert!(names.len() > 5, "{file}");
        for word in names {
            let exists = recorded.contains(&word) || known().iter().any(|(name, _)| *name == word);
            assert!(exists, "{file} names {word}");
        }
    }
}

/// `name{…}` in an expression: the names, and the labels that are asked for.
fn selectors(expression: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    for name in named(expression) {
        for (at, _) in expression.match_indices(&format!("{name}{{")) {
            let inside = &expression[at + name.len() + 1..];
            let inside = inside.split('}').next().unwrap();
            let label = |matcher: &str| matcher.split(['=', '!']).next().unwrap().to_owned();
            found.push((name.clone(), inside.split(", ").map(label).collect()));
        }
    }
    found
}

#[test]
fn every_panel_of_the_dashboard_asks_for_metrics_and_labels_that_exist_and_has_a_unit() {
    let dashboard: Value = serde_json::from_str(&read("grafana/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = BTreeSet::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(
            ids.insert(panel["id"].as_u64()) && titles.insert(title),
            "{title} comes twice"
        );
        if panel["type"] == "row" {
            continue;
        }
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
        assert!(
            unit.is_some_and(|unit| !unit.is_empty()),
            "{title} has no unit"
        );
        let told = panel["description"].as_str();
        assert!(
            told.is_some_and(|text| text.ends_with('.')),
            "{title} is not described"
        );
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            let selected = selectors(expression);
            assert!(!selected.is_empty(), "{title}: {expression}");
            for (name, labels) in selected {
                let found = known().into_iter().find(|(known, _)| *known == name);
                let (_, has) = found.unwrap_or_else(|| panic!("{title} asks for {name}"));
                for label in &labels {
                    let of_the_scrape = ["job", "instance"].contains(&label.as_str());
                    let exists = of_the_scrape || has.contains(&label.as_str());
                    assert!(exists, "{title}: {name} has no label {label}");
                }
                // Whoever picks a group sees that group.
                let by_group = labels.iter().any(|label| label == "group");
                assert_eq!(has.contains(&"group"), by_group, "{title}: {name}");
                asked.insert(name);
            }
        }
    }
    for word in named(&dashboard.to_string()) {
        let exists = known().iter().any(|(name, _)| *name == word);
        assert!(exists, "the dashboard names {word}");
    }
    assert!(asked.len() > 20, "{asked:?}");
}
