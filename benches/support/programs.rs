//! Four programs that allocate much, and a binary per allocator: an allocator is a process's.
//!
//! `cargo bench --bench alloc_groups` runs itself, `alloc_mimalloc` and `alloc_system` in turn, each program in a
//! process of its own, and prints CPU time and resident size relative to mimalloc's. Each process is of a fresh copy of its
//! binary: of two copies of one binary, one has taken half as long again as the other, in every process of it, by where
//! the page cache had put it. How much is left of that is the column in which mimalloc is compared with itself.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 4] = ["json", "maps", "nodes", "columns"];
const ROUNDS: usize = 15;

/// Documents of objects, numbers and texts, parsed and dropped, some of them kept.
fn json() {
    let mut text = String::from("[");
    for n in 0..6_000 {
        let comma = if n == 0 { "" } else { "," };
        let _ = write!(
            text,
            r#"{comma}{{"id":{n},"name":"customer number {n}","tags":["a","bc","def{n}"],"at":{{"x":{n}.5,"y":-{n}}},"open":true}}"#
        );
    }
    text.push(']');
    let mut kept: Vec<serde_json::Value> = Vec::new();
    for round in 0..24 {
        let document = serde_json::from_str(&text).expect("it was written above");
        if kept.len() < 4 {
            kept.push(document);
        } else {
            kept[round % 4] = document;
        }
    }
    black_box(kept);
}

fn maps() {
    let mut by_number: HashMap<u64, String> = HashMap::new();
    let mut by_name: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut state = 1u64;
    for n in 0..1_200_000u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let key = state >> 48;
        by_number.insert(key, format!("value {n}"));
        if key.is_multiple_of(3) {
            by_name
                .entry(format!("key {}", key % 5_000))
                .or_default()
                .push(n as u32);
        }
        if key.is_multiple_of(7) {
            by_number.remove(&(key / 7));
            by_name.remove(&format!("key {}", key % 4_999));
        }
    }
    black_box((by_number, by_name));
}

/// Boxes of exact size classes: the worst case for two bytes more.
fn nodes() {
    enum Node {
        Small(Box<[u64; 2]>),
        Middle(Box<[u64; 4]>),
        Large(Box<[u64; 8]>),
        Largest(Box<[u64; 16]>),
    }
    let node = |n: u64| match n % 4 {
        0 => Node::Small(Box::new([n; 2])),
        1 => Node::Middle(Box::new([n; 4])),
        2 => Node::Large(Box::new([n; 8])),
        _ => Node::Largest(Box::new([n; 16])),
    };
    let first = |node: &Node| match node {
        Node::Small(it) => it[0],
        Node::Middle(it) => it[0],
        Node::Large(it) => it[0],
        Node::Largest(it) => it[0],
    };
    let mut nodes: Vec<Node> = (0..1_200_000).map(node).collect();
    for n in 0..4_000_000u64 {
        let place = (n.wrapping_mul(2_654_435_761) % 1_200_000) as usize;
        nodes[place] = node(first(&nodes[place]).wrapping_add(n));
    }
    black_box(nodes);
}

/// Columns that grow by pushing, and texts.
fn columns() {
    for round in 0..20 {
        let mut columns: Vec<Vec<u64>> = Vec::new();
        for column in 0..400u64 {
            let mut values = Vec::new();
            for value in 0..(64 << (column % 8)) {
                values.push(value ^ column);
            }
            columns.push(values);
        }
        let texts: Vec<String> = (0..100_000)
            .map(|n| format!("text {n} of round {round}"))
            .collect();
        black_box((columns, texts));
    }
}

fn run(program: &str) {
    match program {
        "json" => json(),
        "maps" => maps(),
        "nodes" => nodes(),
        "columns" => columns(),
        other => panic!("no program is called {other}"),
    }
    let usage = super::measure::process_cpu();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("0");
    println!(
        "{} {}",
        usage.as_micros(),
        peak.trim().trim_end_matches(" kB")
    );
}

/// CPU time and resident size of a process of a fresh copy of `binary`.
fn measured(binary: &Path, program: &str) -> (f64, f64) {
    let copy = binary.with_extension(format!("copy-{}", std::process::id()));
    std::fs::copy(binary, &copy).expect("the folder is writable");
    let output = Command::new(&copy).args(["--run", program]).output();
    std::fs::remove_file(&copy).expect("it is there");
    let output = output.expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    (
        numbers.next().expect("CPU time"),
        numbers.next().expect("resident size"),
    )
}

/// A benchmark's binary beside this one: the newest of its name.
fn sibling(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folder = own.parent().expect("a folder");
    let of_it = std::fs::read_dir(folder)
        .expect("readable")
        .flatten()
        .filter(|entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            file.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('-') && !rest.contains('.'))
        });
    let newest = of_it.max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok());
    newest
        .unwrap_or_else(|| panic!("build {name} first: cargo bench --no-run"))
        .path()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare() {
    let names = [
        "alloc_mimalloc",
        "alloc_mimalloc",
        "alloc_system",
        "alloc_groups",
    ];
    let binaries = names.map(sibling);
    println!("CPU time and peak resident size relative to mimalloc; median of {ROUNDS} runs\n");
    println!(
        "{:>10} {:>16} {:>16} {:>16} {:>16}",
        "program", "mimalloc ms/MiB", "itself", "system", "groups"
    );
    let mut groups = Vec::new();
    for program in PROGRAMS {
        let mut times = [const { Vec::new() }; 4];
        let mut sizes = [const { Vec::new() }; 4];
        for round in 0..ROUNDS {
            for turn in 0..4 {
                // Each is first and last about as often; forwards in one round, backwards in the next.
                let which = if round % 2 == 0 {
                    (round / 2 + turn) % 4
                } else {
                    (round / 2 + 3 - turn) % 4
                };
                let (time, size) = measured(&binaries[which], program);
                times[which].push(time);
                sizes[which].push(size);
            }
        }
        let [time, size] = [times, sizes].map(|columns| columns.map(median));
        print!(
            "{program:>10} {:>8.0} {:>7.0}",
            time[0] / 1e3,
            size[0] / 1024.0
        );
        for which in 1..4 {
            print!(
                " {:>8.2} {:>7.2}",
                time[which] / time[0],
                size[which] / size[0]
            );
        }
        println!();
        groups.push(time[3] / time[0]);
    }
    groups.sort_by(f64::total_cmp);
    println!(
        "\nmedian of the four for groups: {:.3}",
        (groups[1] + groups[2]) / 2.0
    );
}

pub(crate) fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--run") {
        Some(at) => run(&arguments[at + 1]),
        None => compare(),
    }
}
