//! The house keeps its shape: imports point left, pure files stay pure, files stay small.
//!
//! Walks `src/`, reads the paths that each file names, and compares them with the tables below. To add a
//! room or an arrow, add it to `ROOMS` with its reason. The tables are tested themselves, at the end.

#[path = "support/source.rs"]
mod source;

use source::{SourceFile, read_tree};

/// A folder or file of `src/`, in the order of the sentence that the crate is.
struct Room {
    name: &'static str,
    /// Modules it may name: a room, or one module of a room (`exec::stats`).
    may: &'static [&'static str],
    why: &'static str,
}

#[rustfmt::skip]
const ROOMS: &[Room] = &[
    Room { name: "unit", may: &[], why: "units are spoken by everybody, so they know nobody" },
    Room { name: "clock", may: &["unit"], why: "a clock gives numbers and knows nothing else" },
    Room { name: "sync", may: &[], why: "the switch between real and modelled primitives depends on neither" },
    Room { name: "foreign", may: &[], why: "whose code it is does not matter to the one that catches its panic" },
    Room { name: "event", may: &["unit", "clock"], why: "anybody may tell an event; who listens is not their affair" },
    Room { name: "sql", may: &["unit"], why: "text and meaning are different failures: the parser does not ask the catalog" },
    Room { name: "catalog", may: &["unit", "clock", "sync", "sql"], why: "what groups exist does not depend on what they do now" },
    Room { name: "settings", may: &["unit", "sql"], why: "a variable is a text and its range; governor tells the stages what it means" },
    Room { name: "classify", may: &["unit", "catalog::classifier", "catalog::group", "catalog::property", "catalog::GroupSpec", "catalog::Snapshot"],
        why: "classification is a function of (snapshot, attributes): it sees specs, never the mutable catalog" },
    Room { name: "admission", may: &["unit", "clock", "sync", "foreign", "event"],
        why: "admission has its own small input struct; governor translates, so that a new property touches three places" },
    Room { name: "sched", may: &["unit"], why: "the policy must run in the simulator, so it knows only numbers" },
    Room { name: "mem", may: &["unit", "sync", "foreign", "event"],
        why: "memory is counted for owners that are numbers: it knows no statement, no task and no query" },
    Room { name: "exec", may: &["unit", "clock", "sync", "foreign", "event", "sched", "mem"], why: "the hot path does not know what a statement is" },
    Room { name: "io", may: &["unit", "clock", "sync", "foreign", "event", "sched", "mem", "exec"],
        why: "the blocking pool, files and metered streams know groups as exec does: by number, never by statement" },
    Room { name: "query", may: &["unit", "clock", "sync", "event", "sched", "mem", "exec", "admission::error", "admission::permit"],
        why: "a query holds a slot, owns tasks and knows why one was refused; how admission decides does not matter any more" },
    Room { name: "metrics", may: &["unit", "admission::waits", "exec::stats"], why: "metrics pull plain values; they write nowhere" },
    Room { name: "view", may: &["unit", "sql", "catalog", "classify::explanation", "classify::shadow", "exec::stats", "metrics::snapshot", "metrics::memory"], why: "a view shows what was pulled; it asks no stage" },
    Room { name: "governor", may: &["unit", "clock", "sync", "foreign", "event", "sql", "catalog", "settings", "classify", "admission", "sched", "mem", "exec",
        "io", "query", "metrics", "view"], why: "the composition root sees everything to its left and nothing to its right" },
    Room { name: "postgres", may: &["unit", "event", "sql", "catalog", "governor"], why: "a catalog kept elsewhere is one more store behind the trait" },
    Room { name: "tower", may: &["unit", "event", "classify", "admission", "exec", "io", "query", "governor"], why: "a layer speaks to the governor's front door" },
    Room { name: "hyper", may: &["unit", "event", "classify", "exec", "query", "governor", "tower"], why: "connections are tasks of groups, spawned at the governor's front door" },
    Room { name: "server", may: &["unit", "event", "sql", "classify", "view", "governor"], why: "the admin port is a thin client of the governor" },
    Room { name: "publish", may: &["unit", "metrics", "governor"], why: "other people's formats of the same figures: the facade, the exporter's page" },
    Room { name: "dashboard", may: &["unit", "sql", "metrics", "view", "governor"], why: "a page shows what was pulled, and changes nothing" },
    Room { name: "cli", may: &["unit", "sql", "catalog", "settings", "classify", "admission::policy", "sched", "view", "governor"], why: "a program around the same statements, without a service" },
];

/// Arrows that somebody will want one day, each with the reason against it.
#[rustfmt::skip]
const NEVER: &[(&str, &str, &str)] = &[
    ("sched", "clock", "time comes in as a number, so that a minute of scheduling is tested in a millisecond"),
    ("sched", "sync", "the policy is called under somebody else's lock; its own would be a second one"),
    ("exec", "catalog", "governor translates the catalog's limits into exec's own inputs"),
    ("exec", "admission", "a task carries its slot as an opaque guard, dropped at the end"),
    ("exec", "metrics", "no stage knows that it is being watched: metrics pull"),
    ("admission", "catalog", "a limit arrives as a number in admission's own struct"),
    ("sql", "catalog", "a statement is parsed without knowing which groups exist"),
];

/// What a room shows under its name though it lies to the right: a re-export in its `mod.rs`, which nothing there uses.
#[rustfmt::skip]
const SHOWN: &[(&str, &str, &str)] = &[
    ("metrics/mod.rs", "crate::publish", "metrics::facade and metrics::prometheus are where a reader looks for them"),
];

/// Something a pure file must not do, by the paths and keywords that do it, and the files that may.
struct Effect {
    name: &'static str,
    paths: &'static [&'static str],
    keywords: &'static [&'static str],
    may: &'static [&'static str],
}

#[rustfmt::skip]
const EFFECTS: &[Effect] = &[
    Effect { name: "reads the clock", paths: &["std::time::Instant", "std::time::SystemTime", "quanta"], keywords: &[],
        may: &["clock.rs", "admission/error.rs", "catalog/history.rs", "query/runaway.rs",
            "io/fs/file_times.rs", "io/fs/file/mod.rs"] }, // all but the first name a type, and read nothing
    Effect { name: "starts or parks a thread", paths: &["std::thread"], keywords: &[],
        may: &["mem/local/beyond.rs", "exec/", "io/", "governor/", "postgres/", "server/listen.rs"] },
    Effect { name: "shares mutable state", paths: &["std::sync", "parking_lot", "arc_swap", "crossbeam_deque", "crossbeam_utils", "loom"],
        keywords: &[],
        may: &["clock.rs", "sync.rs", "event.rs", "catalog/mod.rs", "catalog/store/", "admission/gate/", "admission/permit.rs", "mem/", "exec/",
            "query.rs", "query/", "io/", "governor/", "postgres/", "tower/", "hyper/", "server/", "publish/", "dashboard/"] },
    Effect { name: "imports locks and atomics", paths: &["crate::sync"], keywords: &[],
        may: &["catalog/mod.rs", "admission/gate/", "admission/permit.rs", "mem/", "exec/", "query.rs", "query/", "io/", "governor/"] },
    Effect { name: "waits", paths: &["tokio", "futures", "async_task", "std::task", "std::future"], keywords: &["async", "await"],
        may: &["foreign.rs", "admission/gate/", "admission/permit.rs", "mem/", "exec/", "query.rs", "query/", "io/", "governor/",
            "postgres/", "tower/", "hyper/", "server/", "publish/", "dashboard/"] },
    Effect { name: "does I/O", paths: &["std::fs", "std::io", "std::env", "std::process", "std::net::TcpStream", "std::net::TcpListener",
        "std::net::UdpSocket", "rustix", "nix"], keywords: &[], may: &["clock.rs", "catalog/store/", "mem/", "exec/", "io/", "governor/", "postgres/", "hyper/", "server/", "cli/"] },
    Effect { name: "is unsafe", paths: &[], keywords: &["unsafe"], may: &["mem/alloc.rs", "mem/alloc/"] },
];

/// Sharing something immutable is no effect.
const HARMLESS: &[&str] = &["std::sync::Arc", "std::sync::Weak"];

/// Names that say nothing.
const EMPTY_NAMES: &[&str] = &[
    "manager", "helper", "helpers", "util", "utils", "common", "misc",
];

const LINE_CAP: usize = 400;

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_listed(file: &str, list: &[&str]) -> bool {
    list.iter()
        .any(|entry| file == *entry || (entry.ends_with('/') && file.starts_with(entry)))
}

fn wrong_arrows(file: &SourceFile) -> Vec<String> {
    let Some(from) = file.room() else {
        return Vec::new(); // lib.rs re-exports from everywhere
    };
    let Some(room) = ROOMS.iter().find(|room| room.name == from) else {
        return vec![format!("src/{}: room `{from}` is not in ROOMS", file.path)];
    };
    let mut found = Vec::new();
    for path in file.paths.iter().filter(|path| !path.in_test) {
        let Some(named) = path.text.strip_prefix("crate::") else {
            continue;
        };
        let to = named.split("::").next().unwrap_or(named);
        // A name at the crate's root is a re-export: it hides which room it comes from.
        let known = ROOMS.iter().any(|room| room.name == to);
        let is_shown = |(front, shown, why): &(&str, &str, &str)| {
            file.path == *front && is_within(&path.text, shown) && !why.is_empty()
        };
        if SHOWN.iter().any(is_shown) {
            continue;
        }
        if to == from || (known && room.may.iter().any(|module| is_within(named, module))) {
            continue;
        }
        let reason = NEVER
            .iter()
            .find(|(a, b, _)| *a == from && *b == to)
            .map_or(room.why, |(_, _, reason)| reason);
        let allowed = if room.may.is_empty() {
            "nothing".to_owned()
        } else {
            room.may.join(", ")
        };
        found.push(format!(
            "src/{}:{}: `{from}` names `{}`. Imports point left, and {from} may import only {allowed}: {reason}.",
            file.path, path.line, path.text
        ));
    }
    found
}

fn effects_in_pure_files(file: &SourceFile) -> Vec<String> {
    let says_pure = file.header.contains("Pure");
    let mut found = Vec::new();
    for effect in EFFECTS {
        if is_listed(&file.path, effect.may) && !says_pure {
            continue;
        }
        let paths = file.paths.iter().filter(|path| {
            effect.paths.iter().any(|bad| {
                // `use std::time;` would let `time::Instant` slip through.
                is_within(&path.text, bad)
                    || path.text == "std::time" && bad.starts_with("std::time")
            }) && !HARMLESS.iter().any(|good| is_within(&path.text, good))
        });
        let words = file
            .words
            .iter()
            .filter(|word| effect.keywords.contains(&word.text.as_str()));
        for place in paths.chain(words).filter(|place| !place.in_test) {
            let why = if says_pure {
                "its header says that it is pure"
            } else {
                "it is not among the files that may; see EFFECTS"
            };
            found.push(format!(
                "src/{}:{}: `{}` {}, but {why}.",
                file.path, place.line, place.text, effect.name
            ));
        }
    }
    found
}

fn bad_manners(file: &SourceFile) -> Vec<String> {
    let mut found = Vec::new();
    let at = |text: String| format!("src/{}: {text}", file.path);
    let first = file.header.split("\n\n").next().unwrap_or_default();
    if !first.trim_end().ends_with('.') {
        found.push(at(
            "it does not begin with a `//!` header of whole sentences".into(),
        ));
    }
    let is_front = file.path.ends_with("mod.rs") || file.path == "lib.rs" || file.path == "sync.rs";
    let header = file.header.to_lowercase();
    if !is_front
        && !header.contains("pure")
        && !["thread", "worker"].iter().any(|w| header.contains(w))
    {
        found.push(at(
            "the header says neither `Pure` nor which threads or workers call it".into(),
        ));
    }
    if file.lines > LINE_CAP {
        found.push(at(format!(
            "{} lines, over {LINE_CAP}: make it a folder",
            file.lines
        )));
    }
    let names = file.path.trim_end_matches(".rs").split('/');
    for name in names.filter(|name| EMPTY_NAMES.contains(name)) {
        found.push(at(format!("`{name}` says nothing about what is inside")));
    }
    found
}

fn judge(file: &SourceFile) -> Vec<String> {
    let mut found = wrong_arrows(file);
    found.extend(effects_in_pure_files(file));
    found.extend(bad_manners(file));
    found
}

#[test]
fn every_file_keeps_to_its_room() {
    let files = read_tree("src");
    assert!(files.len() > ROOMS.len() / 2, "src/ was not found");
    let found: Vec<String> = files.iter().flat_map(judge).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_room_may_name_only_rooms_to_its_left() {
    for (place, room) in ROOMS.iter().enumerate() {
        for module in room.may {
            let to = module.split("::").next().unwrap_or(module);
            let left = ROOMS[..place].iter().any(|room| room.name == to);
            assert!(
                left,
                "`{}` may import `{module}`, which is not to its left",
                room.name
            );
        }
        assert!(!room.why.is_empty());
    }
    for (from, to, _) in NEVER {
        let room = ROOMS.iter().find(|room| room.name == *from);
        let may = room.is_some_and(|room| room.may.iter().any(|module| is_within(module, to)));
        assert!(!may, "NEVER and ROOMS disagree about {from} → {to}");
    }
}

// ---- the rules find what they are for -------------------------------------------------------------------

const PURE: &str = "//! A file. Pure.\n";

fn verdict(path: &str, body: &str) -> Vec<String> {
    judge(&SourceFile::read(path, &format!("{PURE}{body}")))
}

#[test]
fn every_arrow_that_is_not_allowed_is_found() {
    for room in ROOMS {
        for other in ROOMS.iter().filter(|other| other.name != room.name) {
            let file = format!("{}/file.rs", room.name);
            let body = format!("use crate::{}::inner::Thing;\n", other.name);
            let found = wrong_arrows(&SourceFile::read(&file, &format!("{PURE}{body}")));
            let allowed = room.may.contains(&other.name);
            assert_eq!(
                found.is_empty(),
                allowed,
                "{} → {}: {found:?}",
                room.name,
                other.name
            );
            if !allowed {
                assert!(found[0].contains(&format!("src/{file}:2")), "{found:?}");
            }
        }
    }
}

#[test]
fn a_wrong_arrow_is_found_however_it_is_written() {
    let hidden = [
        "use crate::{unit::Nanos, catalog::{self, group::Limits}};",
        "use super::super::catalog::Catalog;",
        "use crate::exec as nothing;",
        "use crate::{\n    unit::Nanos,\n    exec::*,\n};",
        "fn f(g: &crate::governor::Governor) {}",
        "fn f() -> Vec<crate::metrics::Snapshot> { Vec::new() }",
        "mod inner { use super::super::super::admission::gate::Gate; }",
        "macro_rules! m { () => { $crate::sql::parse(\"\") } }",
        "use crate::Governor;",
    ];
    for body in hidden {
        assert_eq!(
            verdict("sched/fair.rs", body).len(),
            1 + usize::from(body.contains("{self")),
            "{body}"
        );
    }
}

#[test]
fn a_failure_names_the_file_the_line_and_the_reason() {
    let found = verdict("sched/fair.rs", "\nuse crate::clock::Clock;\n");
    assert_eq!(
        found,
        [
            "src/sched/fair.rs:3: `sched` names `crate::clock::Clock`. Imports point left, and sched may import only unit: \
             time comes in as a number, so that a minute of scheduling is tested in a millisecond."
        ]
    );
}

#[test]
fn what_is_allowed_is_not_reported() {
    let fine = [
        (
            "sched/fair.rs",
            "use crate::unit::{Nanos, Weight}; use super::weight::Charge;",
        ),
        (
            "sched/fair.rs",
            "// use crate::catalog::Catalog;\n/* crate::exec /* nested */ crate::sql */",
        ),
        (
            "sched/fair.rs",
            "const S: &str = \"crate::catalog \\\" crate::exec\"; const R: &str = r#\"crate::sql \" std::thread\"#;",
        ),
        (
            "sched/fair.rs",
            "const C: char = '\"'; fn f<'a>(x: &'a str) -> &'a str { x } // crate::exec",
        ),
        (
            "sched/fair.rs",
            "use std::time::Duration; use std::sync::Arc; use std::cmp::{max, min};",
        ),
        (
            "sched/fair.rs",
            "#[cfg(test)]\nmod tests { use crate::exec::Task; use std::thread; #[test] fn t() {} }",
        ),
        (
            "sched/fair.rs",
            "#[cfg(all(test, quotient_loom))]\nmod loom { use std::sync::Mutex; }",
        ),
        (
            "classify/index.rs",
            "use crate::catalog::classifier::ClassifierSpec;",
        ),
        ("metrics/text.rs", "use crate::exec::stats::GroupUsage;"),
    ];
    for (path, body) in fine {
        assert_eq!(verdict(path, body), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn an_effect_in_a_pure_file_is_found() {
    let effects = [
        "use std::time::{Duration, Instant};",
        "use std::time;",
        "fn f() { std::thread::yield_now() }",
        "use std::sync::{Arc, Mutex};",
        "use std::sync;",
        "use parking_lot::Mutex;",
        "async fn f() {}",
        "fn f() { tokio::spawn(g()); }",
        "use std::fs;",
        "fn f() { unsafe { g() } }",
    ];
    for body in effects {
        assert_eq!(verdict("admission/policy/mod.rs", body).len(), 1, "{body}");
    }
    // A file that may do it must not claim that it does not.
    assert_eq!(verdict("exec/stats.rs", "use std::thread;").len(), 1);
    let worker = SourceFile::read(
        "exec/worker.rs",
        "//! Polls, on worker threads.\nuse std::thread;\n",
    );
    assert_eq!(judge(&worker), Vec::<String>::new());
}

#[test]
fn code_after_a_test_module_is_still_read() {
    let body = "#[cfg(test)]\nmod tests { fn f() { if true {} } }\nuse crate::exec::Task;";
    assert_eq!(verdict("sched/fair.rs", body).len(), 1);
    let body = "#[cfg(test)]\nmod tests;\nuse crate::exec::Task;";
    assert_eq!(verdict("sched/fair.rs", body).len(), 1);
}

#[test]
fn a_file_without_header_or_with_too_many_lines_is_found() {
    let judge = |path: &str, text: &str| judge(&SourceFile::read(path, text));
    assert_eq!(judge("sched/fair.rs", "use crate::unit::Nanos;\n").len(), 2);
    assert_eq!(
        judge("sched/fair.rs", "//! Which group is next.\n").len(),
        1
    );
    assert_eq!(judge("sched/util.rs", PURE).len(), 1);
    assert_eq!(judge("sched/fair.rs", &PURE.repeat(LINE_CAP + 1)).len(), 1);
    assert_eq!(judge("attic/fair.rs", PURE).len(), 1);
}
