//! Python's drivers, each of which speaks the protocol in its own way: psycopg over libpq, asyncpg in binary only.

use crate::Service;
use quotient::server::{Config, User};
use std::process::{Command, Stdio};

const PYTHON: &str = "/usr/bin/python3";

/// Whether Debian's Python has both. If not, says so.
///
/// # Panics
/// If not, and `QUOTIENT_REQUIRE_TOOLS=1`.
fn are_there() -> bool {
    let found = Command::new(PYTHON)
        .args(["-c", "import asyncpg, psycopg"])
        .stderr(Stdio::null())
        .status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        let required = std::env::var_os("QUOTIENT_REQUIRE_TOOLS").is_some_and(|value| value == "1");
        assert!(!required, "python3-psycopg or python3-asyncpg is missing");
        eprintln!("not run: python3-psycopg or python3-asyncpg missing");
    }
    found
}

#[test]
fn programs_reach_it_through_psycopg_and_asyncpg() {
    if !are_there() {
        return;
    }
    let service = Service::with(Config::default().user(User::admin("ops", "secret")));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/psql/drivers.py");
    let done = Command::new(PYTHON)
        .args(["-B", "-W", "ignore", script, &service.port().to_string()])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let found = String::from_utf8(done.stdout).unwrap() + &String::from_utf8(done.stderr).unwrap();
    let expected = "\
made: CREATE RESOURCE GROUP ['WARNING']
by parameter: SELECT 1 [('bi', 3, 0.0)]
by parameter: SELECT 1 [('bi', 3, 0.0)]
prepared: bi 3
refused: 42703 8
goes on: (2,)
rolled back: ['WARNING']
in one go: (1,) 2
fetched: [('bi', 0)]
changed: DROP RESOURCE GROUP
refused: 42704
lent: ''
lent: ''
";
    assert_eq!(found, expected);
}
