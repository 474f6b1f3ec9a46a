//! A real Prometheus scrapes a live governor, and its own query language gives the shares that were asked for.

use crate::live::{compute, governor, multi_thread, named, watched};
use crate::page;
use crate::support::require_tool;
use quotient::{Governor, task};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Answers every request with the governor's page, until the process ends.
fn serve(governor: &Governor) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let governor = governor.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) > 0 {
                asked.push(byte[0]);
            }
            let page = governor.render_metrics();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                page.len()
            );
            let _ = stream.write_all((head + &page).as_bytes());
        }
    });
    address
}

/// A Prometheus of the test's own, with its data in a temporary place.
struct Prometheus {
    process: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Prometheus {
    fn start(program: &Path, target: SocketAddr) -> Prometheus {
        let name = format!("quotient-prometheus-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/prometheus");
        let rules = rules.display();
        let config = format!(
            "global: {{ scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 500ms }}\n\
             rule_files: [ '{rules}/recording.yml', '{rules}/alerts.yml' ]\n\
             scrape_configs: [ {{ job_name: service, static_configs: [ {{ targets: [ '{target}' ] }} ] }} ]\n"
        );
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        // It does not say which port it took: a free one is found for it.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let data = folder.join("data");
        let process = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--log.level=error")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Prometheus {
            process,
            folder,
            address,
        }
    }

    /// What the query API answers, by the label `group`; nothing while it does not answer.
    fn ask(&self, query: &str) -> Vec<(String, f64)> {
        let Some(answer) = self.get(&format!("/api/v1/query?query={}", encoded(query))) else {
            return Vec::new();
        };
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let value = |result: &Value| {
            let group = result["metric"]["group"].as_str().unwrap_or_default();
            let value = result["value"][1].as_str().unwrap();
            (group.to_owned(), value.parse().unwrap())
        };
        let results = answer["data"]["result"].as_array().unwrap();
        results.iter().map(value).collect()
    }

    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn encoded(query: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    query.bytes().map(byte).collect()
}

/// Tasks that always have work, until it is over.
fn keep_busy(governor: &Governor, group: &str, over: &Arc<AtomicBool>) {
    for _ in 0..4 {
        let over = over.clone();
        let work = async move {
            while !over.load(Relaxed) {
                compute(Duration::from_micros(100));
                task::yield_now().await;
            }
        };
        drop(governor.spawn_in(group, work).unwrap());
    }
}

#[test]
fn a_real_prometheus_scrapes_the_page_and_its_queries_give_the_shares_that_were_asked_for() {
    let _watched = watched("scraped");
    let Some(program) = require_tool("prometheus") else {
        return;
    };
    let runtime = multi_thread(2);
    let sql = "CREATE RESOURCE GROUP gold WITH ('cpu_core_limit'='2', 'mem_limit'='50%');
               CREATE RESOURCE GROUP iron WITH ('cpu_core_limit'='1', 'mem_limit'='25%')";
    let governor = governor(&runtime, 2, sql);
    let over = Arc::new(AtomicBool::new(false));
    keep_busy(&governor, "gold", &over);
    keep_busy(&governor, "iron", &over);
    let prometheus = Prometheus::start(&program, serve(&governor));
    let ratio = |query: &str| {
        let answer = prometheus.ask(query);
        let of = |name: &str| answer.iter().find(|(group, _)| group == name);
        let (gold, iron) = (of("gold")?.1, of("iron")?.1);
        (iron > 0.0).then(|| gold / iron)
    };
    let begun = Instant::now();
    let mut seen = Vec::new();
    // By the counters, by the gauge, and by the recorded share: each close to two to one.
    for query in [
        "sum by (group) (rate(quotient_group_cpu_seconds_total[5s]))",
        "avg_over_time(quotient_group_cpu_share_ratio[5s])",
        "group:quotient_group_cpu:share1m",
    ] {
        loop {
            let found = ratio(query);
            // A rate needs some seconds of samples behind it.
            let enough = begun.elapsed() > Duration::from_secs(6);
            if let Some(found) = found.filter(|ratio| enough && (1.4..2.8).contains(ratio)) {
                seen.push(found);
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(90),
                "{query}: {found:?}"
            );
            std::thread::sleep(Duration::from_millis(250));
        }
    }
    println!("gold to iron, asked for 2: {seen:.3?}");
    // Every series of the page arrived, and none was taken for a duplicate.
    let page = page::read(&governor.render_metrics());
    let arrived = prometheus.ask("scrape_samples_post_metric_relabeling");
    let stored = prometheus.ask("count({__name__=~\"quotient_.*\"})");
    assert_eq!(
        (arrived[0].1 as usize, stored[0].1 as usize),
        (page.len(), page.len())
    );
    assert_eq!(prometheus.ask("up"), [(String::new(), 1.0)]);
    let rules = prometheus.get("/api/v1/rules").unwrap().to_string();
    assert!(
        rules.contains("\"health\":\"ok\"") && !rules.contains("\"health\":\"err\""),
        "{rules}"
    );
    over.store(true, Relaxed);
}

#[test]
fn scraping_in_a_loop_beside_ddl_never_hangs_and_every_page_is_whole() {
    let _watched = watched("scraping beside DDL");
    let runtime = multi_thread(2);
    let steady = "CREATE RESOURCE GROUP steady WITH ('cpu_core_limit'='1')";
    let governor = governor(&runtime, 2, steady);
    let over = Arc::new(AtomicBool::new(false));
    let scrape = || {
        let (governor, over) = (governor.clone(), over.clone());
        std::thread::spawn(move || {
            let (mut pages, mut polls) = (0, 0.0);
            while !over.load(Relaxed) {
                let page = page::read(&governor.render_metrics());
                let counted = page["quotient_group_polls_total{group=\"steady\"}"];
                assert!(counted >= polls, "{counted} after {polls}");
                (pages, polls) = (pages + 1, counted);
            }
            pages
        })
    };
    let scrapers = [scrape(), scrape()];
    runtime.block_on(async {
        for round in 0..150 {
            let group = format!("g{}", round % 7);
            let sql = format!(
                "CREATE RESOURCE GROUP OR REPLACE {group} WITH ('cpu_core_limit'='1', 'concurrency_limit'='9');
                 ALTER RESOURCE GROUP {group} WITH ('cpu_core_limit'='2')"
            );
            governor.execute(&sql).await.unwrap();
            let query = governor.admit(&named(&group)).await.unwrap();
            let work = query.spawn(task::yield_now());
            governor.spawn_in("steady", async {}).unwrap().await.unwrap();
            if round % 3 == 0 {
                let sql = format!("DROP RESOURCE GROUP {group}");
                governor.execute(&sql).await.unwrap();
            }
            work.await.unwrap();
        }
    });
    over.store(true, Relaxed);
    let pages: Vec<u64> = scrapers.into_iter().map(|it| it.join().unwrap()).collect();
    println!("pages beside 350 changes of the catalog: {pages:?}");
    assert!(pages.iter().all(|pages| *pages > 0));
}

#[test]
fn a_page_of_a_thousand_groups_is_whole_and_says_what_it_costs() {
    let _watched = watched("a thousand groups");
    let runtime = multi_thread(2);
    let group = |at| format!("CREATE RESOURCE GROUP g{at} WITH ('cpu_core_limit'='1');");
    let sql: String = (0..1000).map(group).collect();
    let governor = governor(&runtime, 2, &sql);
    runtime.block_on(async {
        for at in 0..1000 {
            governor
                .spawn_in(&format!("g{at}"), async {})
                .unwrap()
                .await
                .unwrap();
        }
    });
    let text = governor.render_metrics();
    let series = page::read(&text).len();
    let polled = text
        .lines()
        .filter(|line| line.starts_with("quotient_group_polls_total{group=\"g"));
    assert_eq!(polled.filter(|line| line.ends_with(" 1")).count(), 1000);
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(governor.render_metrics().len() >= text.len() / 2);
    }
    let each = begun.elapsed() / 5;
    println!("{series} series, {} bytes, {each:?} per page", text.len());
}
