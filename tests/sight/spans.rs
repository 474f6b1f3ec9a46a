//! Tasks as a subscriber of `tracing` sees them: spans as tokio-console reads them.

use crate::live::{current_thread, governor, watched};
use quotient::{Attributes, task};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes as SpanAttributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

type Fields = BTreeMap<&'static str, String>;

#[derive(Default)]
struct Seen {
    /// Spans with their fields, in the order of their beginning.
    spans: Vec<(u64, Fields)>,
    entered: BTreeMap<u64, usize>,
    closed: Vec<u64>,
    /// Events of the governor.
    events: Vec<Fields>,
    /// What happened to wakers: the span that they are of, and what.
    wakers: Vec<(String, String)>,
}

#[derive(Clone, Default)]
struct Console(Arc<Mutex<Seen>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

/// What the console's own layer listens to.
fn is_spawn(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.name() == "runtime.spawn" && metadata.target() == "tokio::task"
}

impl<S: Subscriber> Layer<S> for Console {
    fn on_new_span(&self, attributes: &SpanAttributes<'_>, id: &Id, _: Context<'_, S>) {
        if is_spawn(attributes.metadata()) {
            let mut fields = Fields::new();
            attributes.record(&mut Reader(&mut fields));
            assert!(attributes.is_root());
            self.0.lock().unwrap().spans.push((id.into_u64(), fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "quotient" {
            let mut fields = Fields::from([("level", event.metadata().level().to_string())]);
            event.record(&mut Reader(&mut fields));
            self.0.lock().unwrap().events.push(fields);
        }
        if event.metadata().target() == "tokio::task::waker" {
            let mut fields = Fields::new();
            event.record(&mut Reader(&mut fields));
            let waker = (fields["task.id"].clone(), fields["op"].clone());
            self.0.lock().unwrap().wakers.push(waker);
        }
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        *self
            .0
            .lock()
            .unwrap()
            .entered
            .entry(id.into_u64())
            .or_default() += 1;
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.0.lock().unwrap().closed.push(id.into_u64());
    }
}

#[test]
fn a_task_is_a_span_named_runtime_spawn_with_its_kind_name_group_query_and_place() {
    let _watched = watched("spans");
    let console = Console::default();
    let subscriber = tracing_subscriber::registry().with(console.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let runtime = current_thread();
    let sql = "CREATE RESOURCE GROUP spans TO (user='s') WITH ('cpu_core_limit'='1')";
    let governor = governor(&runtime, 1, sql);
    let (first, id, line) = runtime.block_on(async {
        let query = governor.admit(&Attributes::new().user("s")).await.unwrap();
        let body = async {
            task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            7
        };
        let named = task::Builder::new().name("scan");
        let (handle, line) = (named.spawn_on(body, &query).unwrap(), line!());
        let first = handle.id().to_string();
        // The handle is kept until the end: the span ends with the future.
        let mut handle = handle;
        assert_eq!((&mut handle).await.unwrap(), 7);
        let seen = console.0.lock().unwrap();
        let scan = seen
            .spans
            .iter()
            .find(|(_, fields)| fields["task.name"] == "scan");
        assert!(seen.closed.contains(&scan.unwrap().0));
        (first, query.id().to_string(), line)
    });
    let seen = console.0.lock().unwrap();
    let (span, scan) = seen
        .spans
        .iter()
        .find(|(_, fields)| fields["task.name"] == "scan")
        .unwrap();
    let expected = [
        ("kind", "task"),
        ("task.name", "scan"),
        ("task.id", &first),
        ("group", "spans"),
        ("query", &id),
        ("loc.file", file!()),
        ("loc.line", &line.to_string()),
    ];
    for (field, value) in expected {
        assert_eq!(scan[field], value, "{field}");
    }
    assert!(scan["loc.col"].parse::<u32>().unwrap() > 1);
    assert_eq!(scan.len(), expected.len() + 1);
    // Three polls and the drop of the future.
    assert_eq!(seen.entered[span], 4);
    let span = span.to_string();
    let ops = seen.wakers.iter().filter(|(task, _)| *task == span);
    let ops: Vec<&str> = ops.map(|(_, op)| op.as_str()).collect();
    // What is kept while it waits; woken by itself, which takes effect after the poll; woken by the timer.
    let expected = ["waker.clone", "waker.wake_by_ref", "waker.wake_by_ref"];
    assert_eq!(ops, expected);
}

#[test]
fn a_blocking_closure_is_a_span_too_and_what_a_task_logs_is_inside_its_span() {
    let _watched = watched("blocking spans");
    let console = Console::default();
    let subscriber = tracing_subscriber::registry().with(console.clone());
    let dispatch = tracing::Dispatch::new(subscriber);
    let _default = tracing::dispatcher::set_default(&dispatch);
    let runtime = current_thread();
    let governor = governor(
        &runtime,
        1,
        "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
    );
    runtime.block_on(async {
        let _entered = governor.enter();
        let name = || {
            tracing::Span::current()
                .metadata()
                .map(|metadata| metadata.name())
        };
        let inside = quotient::spawn(async move { name() }).await.unwrap();
        assert_eq!((inside, name()), (Some("runtime.spawn"), None));
        task::spawn_blocking(|| ()).await.unwrap();
        let aborted = quotient::spawn(std::future::pending::<()>());
        aborted.abort();
        assert!(aborted.await.unwrap_err().is_cancelled());
    });
    let seen = console.0.lock().unwrap();
    let kinds: Vec<&str> = seen
        .spans
        .iter()
        .map(|(_, fields)| fields["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["task", "blocking", "task"]);
    let ended = seen.spans.iter().all(|(id, _)| seen.closed.contains(id));
    assert!(ended, "{:?} of {:?}", seen.closed, seen.spans);
}

#[test]
fn a_subscriber_that_wants_only_events_is_asked_for_no_span() {
    let _watched = watched("no spans");
    let console = Console::default();
    let only_warnings = tracing_subscriber::filter::LevelFilter::WARN;
    let subscriber =
        tracing_subscriber::registry().with(console.clone().with_filter(only_warnings));
    let _default = tracing::subscriber::set_default(subscriber);
    let runtime = current_thread();
    let governor = governor(
        &runtime,
        1,
        "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')",
    );
    runtime.block_on(async {
        governor.spawn_in("g", async {}).unwrap().await.unwrap();
    });
    let seen = console.0.lock().unwrap();
    assert!(seen.spans.is_empty() && seen.wakers.is_empty());
}

#[test]
fn changes_of_the_catalog_and_kills_are_events_with_their_fields() {
    let _watched = watched("events");
    let console = Console::default();
    let subscriber = tracing_subscriber::registry().with(console.clone());
    let _default = tracing::subscriber::set_default(subscriber);
    let runtime = current_thread();
    let governor = governor(
        &runtime,
        1,
        "CREATE RESOURCE GROUP told TO (user='t') WITH ('cpu_core_limit'='1')",
    );
    let id = runtime.block_on(async {
        governor
            .execute("ALTER RESOURCE GROUP told WITH ('cpu_core_limit'='2'); SHOW RESOURCE GROUPS")
            .await
            .unwrap();
        assert!(
            governor
                .execute("DROP RESOURCE GROUP nobody")
                .await
                .is_err()
        );
        let query = governor.admit(&Attributes::new().user("t")).await.unwrap();
        let handle = query.spawn(std::future::pending::<()>());
        query.kill("enough");
        assert!(handle.await.is_err());
        query.id().to_string()
    });
    let seen = console.0.lock().unwrap();
    let of = |kind: &str| -> Vec<&Fields> {
        seen.events
            .iter()
            .filter(|event| event["kind"] == kind)
            .collect()
    };
    let changes = of("catalog");
    // One for the statement; what is shown or refused is none.
    let last = changes.last().unwrap();
    let version = governor.metrics().catalog_version.to_string();
    assert_eq!(
        (last["level"].as_str(), last["version"].as_str()),
        ("INFO", version.as_str())
    );
    assert!(
        last["message"].starts_with("ALTER RESOURCE GROUP told"),
        "{last:?}"
    );
    let altered = changes
        .iter()
        .filter(|change| change["message"].contains("ALTER"));
    assert_eq!(altered.count(), 1);
    let kills = of("kill");
    assert_eq!(kills.len(), 1);
    let kill = kills[0];
    assert_eq!(
        (
            kill["group"].as_str(),
            kill["query"].as_str(),
            kill["level"].as_str()
        ),
        ("told", id.as_str(), "WARN")
    );
    assert!(kill["message"].contains("enough"), "{kill:?}");
}
