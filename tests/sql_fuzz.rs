//! Whatever text comes in, the SQL front gives an answer or an error that is drawn well: never a panic, an abort or a
//! long silence; and what it has read it prints and reads again as the same.
//!
//! Texts are made from seeds of every statement, by the grammar's words and byte by byte. A text whose answer is of a new
//! kind becomes a seed itself. The run is the same each time, but for its length:
//!
//! ```text
//! QUOTIENT_FUZZ_INPUTS=10000000 cargo test --release --test sql_fuzz -- --nocapture
//! ```
//!
//! `QUOTIENT_FUZZ_SEED` makes it another run, `QUOTIENT_FUZZ_TRACE=file` leaves the last text there, should it take the
//! process with it.

#![allow(clippy::unwrap_used)]

#[path = "fuzz/dice.rs"]
mod dice;
#[path = "fuzz/generate.rs"]
mod generate;
#[path = "fuzz/mutate.rs"]
mod mutate;
#[path = "fuzz/seeds.rs"]
mod seeds;

use dice::Dice;
use mutate::mutate;
use quotient::Settings;
use quotient::catalog::store::{CatalogStore, StoreError};
use quotient::catalog::{Catalog, CatalogMode, Machine, Origin};
use quotient::clock::ThreadTime;
use quotient::sql::{self, SqlError, SqlErrorKind, Statement, Type, Value};
use quotient::unit::Bytes;
use quotient::view::relation::{Column, Relation};
use quotient::view::select;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Twenty seconds of a debug build.
const INPUTS: u64 = 25_000;
/// Seeds that were found on the way, at most.
const FOUND: usize = 4_000;
/// Of CPU time, for 4 KiB of text and everything that is done with it, in a build without optimisation.
const TOO_LONG: Duration = Duration::from_secs(2);

const MACHINE: Machine = Machine {
    workers: 4,
    memory_limit: Bytes(8 << 30),
};

/// What the front said: enough to tell a new kind of answer.
#[derive(Default)]
struct Heard {
    accepted: bool,
    sign: DefaultHasher,
}

/// An error's place lies in the text, its picture is whole and small.
fn check_error(text: &str, error: &SqlError, sign: &mut DefaultHasher) {
    let span = error.span;
    let length = text.chars().count();
    assert!(
        span.start <= span.end && span.end <= length,
        "{span:?} of {length}"
    );
    if span.line > 0 {
        // Line and column say the same as the count of characters.
        let before: usize = text
            .split('\n')
            .take(span.line - 1)
            .map(|line| line.chars().count() + 1)
            .sum();
        assert_eq!(before + span.column - 1, span.start, "{span:?}");
        assert!(error.line() <= text.split('\n').count());
    }
    let picture = error.render(text);
    assert!(picture.starts_with("error["), "{picture}");
    assert!(
        picture.len() < 8_000 && error.to_string().len() < 8_000,
        "{picture}"
    );
    assert!(
        !picture.chars().any(|c| c.is_control() && c != '\n'),
        "{picture:?}"
    );
    assert_eq!(error.sqlstate().len(), 5);
    assert!(span.line == 0 || picture.contains('^'), "{picture}");
    error.kind.code().hash(sign);
    error.statement.min(3).hash(sign);
    if let SqlErrorKind::Syntax { expected, .. } = &error.kind {
        expected.hash(sign);
    }
}

/// What was read is printed, and reads back as the same.
fn check_again(statement: &Statement) {
    let printed = statement.to_string();
    match sql::parse(&printed) {
        Ok(again) => {
            assert_eq!(again.len(), 1, "{printed}");
            assert_eq!(again[0], *statement, "{printed}");
            assert_eq!(again[0].to_string(), printed);
        }
        // A statement of nearly the longest text may have a canonical text that is longer.
        Err(error) => assert!(
            matches!(error.sqlstate(), "54000"),
            "{printed}\n{}",
            error.render(&printed)
        ),
    }
}

fn relation() -> Relation {
    let columns = [
        ("id", Type::Int),
        ("n", Type::Int),
        ("x", Type::Float),
        ("t", Type::Text),
        ("b", Type::Bool),
    ];
    let row = |i: i64| {
        vec![
            Value::Int(i),
            if i % 3 == 0 {
                Value::Null
            } else {
                Value::Int(i % 5 - 2)
            },
            if i % 4 == 0 {
                Value::Null
            } else {
                Value::Float([0.0, f64::NAN, -1.5, f64::INFINITY][i as usize % 4])
            },
            if i % 5 == 0 {
                Value::Null
            } else {
                ["", "a", "a_b", "é%"][i as usize % 4].into()
            },
            if i % 6 == 0 {
                Value::Null
            } else {
                Value::Bool(i % 2 == 0)
            },
        ]
    };
    Relation {
        name: "v",
        columns: columns
            .into_iter()
            .map(|(name, kind)| Column { name, kind })
            .collect(),
        rows: (0..12).map(row).collect(),
    }
}

fn as_script(text: &str, view: &Relation, heard: &mut Heard) {
    let statements = match sql::parse(text) {
        Ok(statements) => statements,
        Err(error) => return check_error(text, &error, &mut heard.sign),
    };
    heard.accepted = true;
    let catalog = Catalog::new(MACHINE);
    for (nth, statement) in statements.iter().enumerate() {
        check_again(statement);
        std::mem::discriminant(statement).hash(&mut heard.sign);
        if let Statement::Select(select) = statement {
            match select::answer(select, view) {
                Ok(output) => drop(output.to_string()),
                Err(error) => check_error(text, &error.at_statement(nth + 1, nth), &mut heard.sign),
            }
            continue;
        }
        let before = catalog.snapshot();
        match catalog.apply(statement, Origin::Statement) {
            Ok(applied) => drop(applied.output.to_string()),
            Err(error) => {
                assert!(catalog.snapshot() == before);
                check_error(text, &error.at_statement(nth + 1, nth), &mut heard.sign);
            }
        }
    }
}

fn as_properties(text: &str, heard: &mut Heard) {
    match Settings::from_properties(text) {
        Ok(settings) => settings.check().unwrap(),
        Err(error) => {
            std::mem::discriminant(&error).hash(&mut heard.sign);
        }
    }
}

/// A store of one text.
#[derive(Debug, Default)]
struct Kept(Mutex<Option<String>>);

impl CatalogStore for Kept {
    fn load(&self) -> Result<Option<String>, StoreError> {
        Ok(self.0.lock().unwrap().clone())
    }
    fn save(&self, text: &str, _: Option<&str>) -> Result<(), StoreError> {
        *self.0.lock().unwrap() = Some(text.to_owned());
        Ok(())
    }
    fn place(&self) -> String {
        "memory".into()
    }
}

/// A lenient opening takes any text, and what it saves is whole.
fn as_catalog(text: &str, heard: &mut Heard) {
    let store = Arc::new(Kept(Mutex::new(Some(text.to_owned()))));
    let strict = Catalog::open(MACHINE, store.clone(), CatalogMode::Strict);
    let lenient = Catalog::open(MACHINE, store.clone(), CatalogMode::Lenient).unwrap();
    assert_eq!(strict.is_ok(), lenient.catalog.damaged().is_empty());
    for error in lenient.catalog.damaged() {
        check_error(text, error, &mut heard.sign);
    }
    let change =
        sql::parse("ALTER RESOURCE GROUP default_wg WITH ('concurrency_limit'='77')").unwrap();
    lenient
        .catalog
        .apply(&change[0], Origin::Statement)
        .unwrap();
    let again = Catalog::open(MACHINE, store, CatalogMode::Strict).unwrap();
    assert!(*again.catalog.snapshot() == *lenient.catalog.snapshot());
}

fn run(nth: u64, text: &str, view: &Relation) -> Heard {
    let mut heard = Heard::default();
    as_script(text, view, &mut heard);
    if nth.is_multiple_of(4) || text.contains("pinot.") {
        as_properties(text, &mut heard);
    }
    if nth.is_multiple_of(8) || text.contains("--: ") {
        as_catalog(text, &mut heard);
    }
    heard
}

fn cpu() -> Option<Duration> {
    ThreadTime::read().map(|time| time.cpu.into())
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn fuzz() {
    let inputs = asked("QUOTIENT_FUZZ_INPUTS").unwrap_or(INPUTS);
    let mut dice = Dice::new(asked("QUOTIENT_FUZZ_SEED").unwrap_or(1));
    let trace = std::env::var_os("QUOTIENT_FUZZ_TRACE");
    let view = relation();
    let mut texts: Vec<String> = seeds::SEEDS.map(str::to_owned).into();
    // Those that mean something: the better parents.
    let mut good = texts.clone();
    let mut kinds = HashSet::new();
    let (mut accepted, mut bytes, mut slowest) = (0_u64, 0_u64, Duration::ZERO);
    let began = Instant::now();
    for nth in 0..inputs {
        let text = match usize::try_from(nth) {
            Ok(nth) if nth < seeds::SEEDS.len() => texts[nth].clone(),
            _ => match dice.below(4) {
                0 => generate::script(&mut dice),
                1 => mutate(&mut dice, &texts),
                2 => mutate(&mut dice, &good),
                _ => {
                    let one = [generate::script(&mut dice)];
                    mutate(&mut dice, &one)
                }
            },
        };
        if let Some(trace) = &trace {
            std::fs::write(trace, &text).unwrap();
        }
        let start = cpu();
        let heard = catch_unwind(AssertUnwindSafe(|| run(nth, &text, &view)));
        let heard = heard.unwrap_or_else(|_| panic!("text {nth} is {text:?}"));
        if let (Some(start), Some(end)) = (start, cpu()) {
            slowest = slowest.max(end - start);
            assert!(slowest < TOO_LONG, "{slowest:?} for text {nth}: {text:?}");
        }
        accepted += u64::from(heard.accepted);
        bytes += text.len() as u64;
        let new = kinds.insert(heard.sign.finish()) && text.len() < 1_024;
        if new && heard.accepted && good.len() < FOUND {
            good.push(text);
        } else if new && texts.len() < FOUND {
            texts.push(text);
        }
    }
    println!(
        "{inputs} texts of {bytes} bytes in {:.0} s: {accepted} read, {} refused, {} kinds of answers, the slowest took \
         {:.1} ms of CPU",
        began.elapsed().as_secs_f64(),
        inputs - accepted,
        kinds.len(),
        slowest.as_secs_f64() * 1e3,
    );
    assert!(
        accepted * 10 > inputs,
        "too few texts that mean something: {accepted} of {inputs}"
    );
    assert!(kinds.len() > 300, "{} kinds of answers", kinds.len());
}

/// On the stack that a thread has if nobody asks for more. The parser of SELECTs needs up to half of it where it is not
/// optimised.
#[test]
fn any_text_is_answered_or_refused_and_what_is_read_is_read_again_as_the_same() {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    if let Err(panic) = thread.spawn(fuzz).unwrap().join() {
        std::panic::resume_unwind(panic);
    }
}
