//! The dashboard in a real browser: what it shows, that it goes on, and that it comes back.

#![cfg(feature = "dashboard")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

#[path = "support/browser.rs"]
mod browser;
mod live;
#[path = "support/page.rs"]
mod page;
#[allow(dead_code, reason = "its main")]
#[path = "../examples/dashboard.rs"]
mod scene;
mod support;

use browser::Browser;
use live::{governor, multi_thread, named, watched};
use page::Page;
use quotient::Governor;
use serde_json::Value;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const SQL: &str = "
    CREATE RESOURCE GROUP bi  TO (user='b') WITH ('cpu_core_limit'='2', 'concurrency_limit'='7', 'mem_limit'='25%');
    CREATE RESOURCE GROUP etl TO (user='e') WITH ('cpu_core_limit'='1', 'concurrency_limit'='1', 'max_queued_queries'='3', 'mem_limit'='10%');
    CREATE RESOURCE GROUP etl2 WITH ('cpu_core_limit'='1', 'big_query_scan_rows_limit'='10')";

/// A server on a runtime of its own: dropped, it is as if the process were gone.
struct Server {
    runtime: Runtime,
    governor: Governor,
    address: SocketAddr,
}

impl Server {
    fn start(address: SocketAddr, sql: &str) -> Server {
        let runtime = multi_thread(2);
        let governor = governor(&runtime, 2, sql);
        let listener = runtime.block_on(async {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => break listener,
                    Err(error) => assert!(Instant::now() < deadline, "{address}: {error}"),
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let address = listener.local_addr().unwrap();
        let service = scene::service(&governor);
        runtime.spawn(async move { axum::serve(listener, service).await });
        Server {
            runtime,
            governor,
            address,
        }
    }

    fn metrics(&self) -> Page {
        page::read(&self.governor.render_metrics())
    }

    /// Tasks of the group that always have work, more than there are workers: one task has one worker at most, whatever
    /// its group's weight.
    fn busy(&self, group: &str) {
        for _ in 0..4 {
            let work = async {
                loop {
                    live::compute(Duration::from_micros(100));
                    quotient::task::yield_now().await;
                }
            };
            let task: Result<quotient::JoinHandle<()>, _> = self.governor.spawn_in(group, work);
            drop(task);
        }
    }

    fn stop(self) {
        self.runtime
            .block_on(self.governor.shutdown(Duration::ZERO));
        self.runtime.shutdown_timeout(Duration::from_secs(20));
    }
}

/// Asks until it is so; only a bug waits out the limit.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, ask: impl Fn() -> F) -> T {
    let deadline = Instant::now() + Duration::from_secs(150);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Browser {
    async fn open(&self, address: SocketAddr) {
        let url = format!("http://{address}/dashboard");
        self.client.goto(&url).await.unwrap();
    }

    /// The raw value of a group's field in the table; None if it is not there or not known.
    async fn field(&self, group: &str, field: &str) -> Option<f64> {
        let cell = format!("#group-table tr[data-group=\"{group}\"] [data-field=\"{field}\"]");
        let value = self
            .eval(&format!("document.querySelector('{cell}')?.dataset.value"))
            .await;
        value.as_str()?.parse().ok()
    }

    async fn is(&self, expression: &str) -> bool {
        self.eval(expression).await == Value::Bool(true)
    }

    async fn comes(&self, expression: &str) {
        until(expression, || async {
            self.is(expression).await.then_some(())
        })
        .await;
    }

    async fn keys(&self, keys: &str) {
        let active = self.client.active_element().await.unwrap();
        active.send_keys(keys).await.unwrap();
    }
}

const LIVE: &str = "document.getElementById('state').dataset.state === 'live'";
const ROWS: &str =
    "[...document.querySelectorAll('#group-table tbody tr')].map(row => row.dataset.group).join()";

/// One browser at a time: two of them and their loads would wait for each other on a small machine.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn the_page_shows_the_groups_and_their_figures_goes_on_and_survives_a_restart_of_the_server() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watched = watched("dashboard");
    let looker = multi_thread(1);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(anywhere, SQL);
    let address = server.address;
    let Some(browser) = looker.block_on(Browser::start(1280, 1000)) else {
        return;
    };
    looker.block_on(shows_what_the_metrics_say(&browser, &server));
    looker.block_on(goes_on(&browser, &server));
    looker.block_on(is_used_by_keys(&browser));

    server.stop();
    looker.block_on(browser.comes("document.getElementById('state').dataset.state === 'lost'"));
    let server = Server::start(
        address,
        "CREATE RESOURCE GROUP reborn WITH ('cpu_core_limit'='5', 'mem_limit'='10%')",
    );
    looker.block_on(async {
        browser
            .comes(&format!("{LIVE} && {ROWS} === 'reborn,default_wg'"))
            .await;
        assert_eq!(browser.field("reborn", "cpu_core_limit").await, Some(5.0));
        let errors = browser.eval("window.failures.join()").await;
        assert_eq!(errors, "", "the page failed meanwhile");
    });
    server.stop();
}

async fn shows_what_the_metrics_say(browser: &Browser, server: &Server) {
    let bi = server
        .governor
        .admit(
            &named("bi")
                .user("<img src=x onerror=\"document.title='owned'\">")
                .db("a&b"),
        )
        .await
        .unwrap();
    drop(bi.spawn(std::future::pending::<()>()));
    let etl = server.governor.admit(&named("etl")).await.unwrap();
    drop(etl.spawn(std::future::pending::<()>()));
    let waiting = server.governor.clone();
    server
        .runtime
        .spawn(async move { waiting.admit(&named("etl")).await.map(drop) });
    server.busy("bi");
    server.busy("etl");

    browser.open(server.address).await;
    browser.eval("(window.failures = [], window.addEventListener('error', it => window.failures.push(it.message)))").await;
    browser.comes(LIVE).await;
    // What stands still is the same in both; the page is a second behind at most.
    let same = [
        (
            "running",
            "quotient_group_queries{group=\"G\",state=\"running\"}",
        ),
        (
            "queued",
            "quotient_group_queries{group=\"G\",state=\"queued\"}",
        ),
        (
            "memory_limit",
            "quotient_group_memory_limit_bytes{group=\"G\"}",
        ),
        ("tasks", "TASKS"),
    ];
    for group in ["bi", "etl", "default_wg"] {
        for (field, series) in same.iter().filter(|(field, _)| *field != "memory_limit") {
            let series = series.replace('G', group);
            until(&format!("{field} of {group}"), || async {
                let page = server.metrics();
                let tasks = page.iter().filter(|(name, _)| {
                    name.starts_with(&format!("quotient_group_tasks{{group=\"{group}\""))
                });
                let expected = match series.as_str() {
                    "TASKS" => tasks.map(|(_, value)| value).sum(),
                    series => page[series],
                };
                (browser.field(group, field).await == Some(expected)).then_some(())
            })
            .await;
        }
    }
    assert_eq!(browser.field("etl", "queued").await, Some(1.0));
    assert_eq!(browser.field("bi", "cpu_core_limit").await, Some(2.0));
    let text = "document.querySelector('tr[data-group=bi] [data-field=running]').innerText";
    assert_eq!(browser.eval(text).await, "1 of 7");

    // What moves: shares as they were asked for, and counters that the metrics have passed since.
    until("shares of two to one", || async {
        let (bi, etl) = (
            browser.field("bi", "share").await?,
            browser.field("etl", "share").await?,
        );
        (bi > 1.3 * etl && bi < 3.0 * etl).then_some(())
    })
    .await;
    let before = browser.field("bi", "cpu_seconds").await.unwrap();
    until("the counter goes up", || async {
        (browser.field("bi", "cpu_seconds").await? > before).then_some(())
    })
    .await;
    let shown = browser.field("bi", "cpu_seconds").await.unwrap();
    let page = server.metrics();
    let kinds = ["poll", "drop", "blocking"].map(|kind| {
        page[&format!("quotient_group_cpu_seconds_total{{group=\"bi\",kind=\"{kind}\"}}")]
    });
    let measured: f64 = kinds.iter().sum();
    assert!(shown <= measured, "{shown} of {measured}");

    // A query that goes over a limit of its group is told of, with what it used.
    let greedy = server.governor.admit(&named("etl2")).await.unwrap();
    let scan = async {
        quotient::record_scan_rows(100);
        std::future::pending::<()>().await;
    };
    assert!(greedy.run(scan).await.unwrap_err().is_cancelled());
    let cells = "[...document.querySelectorAll('#runaway-table tbody td')].map(it => it.dataset.value).slice(1)";
    let told = format!(
        "{},etl2,,big_query_scan_rows_limit,10,100,kill",
        greedy.id()
    );
    browser.comes(&format!("{cells}.join() === '{told}'")).await;

    // Names from outside are text.
    browser.comes("[...document.querySelectorAll('#top-table [data-field=user_name]')].some(it => it.textContent.startsWith('<img'))").await;
    assert!(
        browser
            .is("document.title === 'Resource groups' && !document.querySelector('img')")
            .await
    );
    assert!(browser.is("[...document.querySelectorAll('#top-table [data-field=state]')].some(it => it.textContent.startsWith('waiting'))").await);
}

async fn goes_on(browser: &Browser, server: &Server) {
    let sql = "CREATE RESOURCE GROUP late WITH ('cpu_core_limit'='3')";
    server.governor.execute(sql).await.unwrap();
    browser.comes(&format!("{ROWS}.includes('late')")).await;
    let alter = "ALTER RESOURCE GROUP late WITH ('cpu_core_limit'='4')";
    server.governor.execute(alter).await.unwrap();
    until("the new weight", || async {
        (browser.field("late", "cpu_core_limit").await == Some(4.0)).then_some(())
    })
    .await;
    server
        .governor
        .execute("DROP RESOURCE GROUP late")
        .await
        .unwrap();
    browser.comes(&format!("!{ROWS}.includes('late')")).await;
    let version = server.metrics()["quotient_catalog_version"];
    let shown = "document.querySelector('[data-total=catalog_version]').dataset.value";
    browser.comes(&format!("{shown} === '{version}'")).await;
}

async fn is_used_by_keys(browser: &Browser) {
    browser.keys("/").await;
    assert!(browser.is("document.activeElement.id === 'filter'").await);
    browser.keys("BI").await;
    assert_eq!(browser.eval(ROWS).await, "bi");
    // Escape.
    browser.keys("\u{e00c}").await;
    assert_eq!(browser.eval(ROWS).await, "bi,default_wg,etl,etl2");
    let sorted = "document.querySelector('[data-sort=cpu_core_limit]').getAttribute('aria-sort')";
    browser
        .eval("document.querySelector('[data-sort=cpu_core_limit] button').focus()")
        .await;
    // Enter.
    browser.keys("\u{e007}").await;
    assert_eq!(browser.eval(sorted).await, "descending");
    assert!(
        browser
            .eval(ROWS)
            .await
            .as_str()
            .unwrap()
            .starts_with("bi,")
    );

    browser.keys("p").await;
    assert!(
        browser
            .is("document.getElementById('pause').getAttribute('aria-pressed') === 'true'")
            .await
    );
    assert!(
        browser
            .is("document.getElementById('state').textContent === 'paused'")
            .await
    );
    browser.keys("p").await;
    browser.comes(LIVE).await;
}

/// The example's own load, on a screen and on a phone. `QUOTIENT_WRITE_DOCS=1` keeps the picture that the documents show.
#[test]
fn the_examples_tenants_are_seen_on_a_screen_and_fit_on_a_phone() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let _watched = watched("dashboard of the example");
    let looker = multi_thread(1);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(anywhere, scene::GROUPS);
    let Some(browser) = looker.block_on(Browser::start(1440, 1180)) else {
        return;
    };
    server
        .runtime
        .block_on(async { scene::keep_busy(&server.governor) });
    looker.block_on(async {
        browser.open(server.address).await;
        browser.comes(&format!("{LIVE} && {ROWS} === 'bi,default_wg,etl,ml,web'")).await;
        // One more than the places of bi asks; memory is counted.
        browser
            .comes("document.querySelector('tr[data-group=bi] [data-field=queued]').dataset.value === '1'")
            .await;
        until("memory of bi", || async {
            (browser.field("bi", "memory").await? > (24 << 20) as f64).then_some(())
        })
        .await;
        if std::env::var_os("QUOTIENT_WRITE_DOCS").is_some_and(|value| value == "1") {
            // A minute of history.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let picture = browser.client.screenshot().await.unwrap();
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
            std::fs::write(folder.join("dashboard.png"), picture).unwrap();
        }
        browser.client.set_window_size(500, 900).await.unwrap();
        browser.comes("innerWidth <= 500").await;
        assert!(browser.is("document.documentElement.scrollWidth <= innerWidth").await);
        let cell = "tr[data-group=bi] td[data-field=running]";
        let label = format!("getComputedStyle(document.querySelector('{cell}'), '::before').content");
        assert_eq!(browser.eval(&label).await, "\"Running\"");
        if std::env::var_os("QUOTIENT_WRITE_DOCS").is_some_and(|value| value == "1") {
            let picture = browser.client.screenshot().await.unwrap();
            std::fs::write(std::env::temp_dir().join("quotient-phone.png"), picture).unwrap();
        }
    });
    server.stop();
}
