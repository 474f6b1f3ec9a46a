//! Through the facade, to the exporter that a service has.

use crate::live::{current_thread, eventually, governor, multi_thread, watched};
use crate::page::{self, Page};
use crate::support;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use quotient::metrics::names::{self, Kind, Unit};
use quotient::{Attributes, Governor};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The process's recorder: there can be one.
fn exporter() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| PrometheusBuilder::new().install_recorder().unwrap())
}

/// The exporter's page, as soon as `there` says so.
async fn published(there: impl Fn(&Page) -> bool) -> Page {
    loop {
        let page = page::read(&exporter().render());
        if there(&page) {
            return page;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn promtool_objects(text: &str) -> Option<Vec<String>> {
    let mut child = Command::new(support::require_tool("promtool")?)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let said = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
    // StarTree's names are kept as operators know them.
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("quotient_query_"));
    Some(lines.map(str::to_owned).collect())
}

async fn one_query(governor: &Governor, user: &str) {
    let query = governor.admit(&Attributes::new().user(user)).await.unwrap();
    query.run(async {}).await.unwrap();
}

/// One test, since the recorder is the process's and groups of all governors are in it.
#[test]
fn what_the_recorder_shows_is_what_the_governors_page_shows_and_both_fit_on_one_page() {
    let _watched = watched("facade");
    exporter();
    let runtime = multi_thread(2);
    let sql =
        "CREATE RESOURCE GROUP facade TO (user='f') WITH ('cpu_core_limit'='1', 'mem_limit'='50%')";
    let governor = governor(&runtime, 2, sql);
    runtime.block_on(async {
        quotient::metrics::facade::publish(&governor);
        metrics::describe_counter!("requests_total", "Requests of the program itself.");
        metrics::counter!("requests_total", "path" => "/a\"b").increment(3);
        for _ in 0..5 {
            one_query(&governor, "f").await;
        }
        let ended = "quotient_group_queries_total{group=\"facade\",outcome=\"completed\"}";
        let theirs = published(|page| page.get(ended) == Some(&5.0)).await;
        let ours = page::read(&governor.render_metrics());

        // Every series that is ours is theirs, whatever it counts; what has come to rest is equal.
        for (series, value) in &ours {
            let told = theirs
                .get(series)
                .unwrap_or_else(|| panic!("{series} is missing"));
            let rests = series.contains("group=\"facade\"")
                && !series.contains("_lag_")
                && !series.contains("_ratio");
            assert!(
                !rests || (told - value).abs() <= value.abs() * 1e-9,
                "{series}: {told} for {value}"
            );
        }
        let text = exporter().render();
        for metric in names::ALL
            .iter()
            .filter(|metric| metric.kind != Kind::Histogram)
        {
            let kind = match (metric.kind, metric.unit) {
                (Kind::Counter, Unit::Seconds) | (Kind::Gauge, _) => "gauge",
                _ => "counter",
            };
            let typed = format!("# TYPE {} {kind}\n", metric.name);
            let is_there = ours
                .keys()
                .any(|series| series.split('{').next() == Some(metric.name));
            assert_eq!(text.contains(&typed), is_there, "{typed}");
            assert_eq!(
                text.contains(&format!("# HELP {} ", metric.name)),
                is_there,
                "{}",
                metric.name
            );
        }

        // One page: the program's own, and the governor's in the governor's spelling.
        let both = quotient::metrics::prometheus::render(exporter(), &governor);
        let all = page::read(&both);
        assert_eq!(all["requests_total{path=\"/a\\\"b\"}"], 3.0);
        assert!(both.contains("# TYPE quotient_group_cpu_seconds_total counter\n"));
        assert!(both.contains("# TYPE quotient_group_poll_duration_seconds histogram\n"));
        let names = |page: &Page| page.keys().cloned().collect::<Vec<_>>();
        let mut expected = ours;
        expected.insert("requests_total{path=\"/a\\\"b\"}".to_owned(), 3.0);
        assert_eq!(names(&all), names(&expected));
        if let Some(objections) = promtool_objects(&both) {
            assert!(objections.is_empty(), "{objections:?}");
        }

        // Dropped and created again: the recorder's counter goes on, its gauges were at zero.
        governor
            .execute("DROP RESOURCE GROUP facade")
            .await
            .unwrap();
        let limit = "quotient_group_memory_limit_bytes{group=\"facade\"}";
        let gone = published(|page| page.get(limit) == Some(&0.0)).await;
        assert_eq!(gone[ended], 5.0);
        governor.execute(sql).await.unwrap();
        one_query(&governor, "f").await;
        published(|page| page.get(ended) == Some(&6.0)).await;

        // Publishing keeps no governor from ending, and ends with it.
        let held = Arc::new(());
        let guard = held.clone();
        let task = async move {
            std::future::pending::<()>().await;
            drop(guard);
        };
        drop(governor.spawn_in("facade", task).unwrap());
        drop(governor);
        eventually("the governor ends", || Arc::strong_count(&held) == 1).await;
    });
}

/// A recorder that keeps nothing, and counts how often it is asked for each series.
#[derive(Default)]
struct Forgetful(Mutex<BTreeMap<String, usize>>);

impl Forgetful {
    fn asked(&self, key: &Key) {
        *self.0.lock().unwrap().entry(key.to_string()).or_default() += 1;
    }
}

impl Recorder for Forgetful {
    fn describe_counter(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<metrics::Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.asked(key);
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.asked(key);
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("observations are not kept, so none can be told")
    }
}

#[test]
fn a_recorder_that_forgets_idle_series_is_told_of_them_again_each_second() {
    let _watched = watched("forgetful recorder");
    let recorder = Forgetful::default();
    let _local = metrics::set_default_local_recorder(&recorder);
    let runtime = current_thread();
    let governor = governor(
        &runtime,
        1,
        "CREATE RESOURCE GROUP idle WITH ('cpu_core_limit'='1')",
    );
    runtime.block_on(async {
        tokio::time::pause();
        quotient::metrics::facade::publish(&governor);
        tokio::time::sleep(Duration::from_millis(5_500)).await;
    });
    let asked = recorder.0.lock().unwrap();
    let polls = asked
        .iter()
        .filter(|(key, _)| key.contains("quotient_group_polls_total") && key.contains("idle"));
    let times: Vec<usize> = polls.map(|(_, times)| *times).collect();
    assert_eq!(times, [6]);
}
