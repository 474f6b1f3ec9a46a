//! Debian's psql, as an operator would use it.

use crate::{Service, support};
use quotient::server::{Config, User};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// psql at a port, not yet started; none where it is missing.
pub(crate) fn psql(service: &Service) -> Option<Command> {
    let mut command = at("127.0.0.1", service.port())?;
    command.args(["-U", "ops", "-d", "quotient"]);
    Some(command)
}

fn at(host: &str, port: u16) -> Option<Command> {
    let mut command = Command::new(support::require_tool("psql")?);
    command
        .args(["-X", "-h", host, "-p", &port.to_string()])
        .env_clear()
        .env("PGCONNECT_TIMEOUT", "20")
        .stdin(Stdio::null());
    Some(command)
}

/// What it wrote, to either output.
fn text(output: Output) -> String {
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

fn said(command: &mut Command, arguments: &[&str]) -> String {
    text(command.args(arguments).output().unwrap())
}

/// psql with a script on its standard input, as if it were typed.
fn typed(command: &mut Command, script: &str) -> String {
    let mut child: Child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    text(child.wait_with_output().unwrap())
}

macro_rules! require {
    ($psql:expr) => {
        match $psql {
            Some(psql) => psql,
            None => return,
        }
    };
}

const GROUPS: &str = "CREATE RESOURCE GROUP bi TO (user='ops') WITH ('cpu_core_limit'='3');
                      CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='1')";

#[test]
fn the_session_in_the_guide_is_what_psql_shows() {
    let service = Service::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/administration.md");
    let document = std::fs::read_to_string(page).unwrap();
    let opening = "```psql\n";
    let begin = document.find(opening).expect("a block of psql") + opening.len();
    let end = begin + document[begin..].find("```").unwrap();
    let shown = &document[begin..end];
    // What stands behind the prompt is typed; between, psql answers.
    let prompt = "quotient=# ";
    let mut script = String::new();
    for line in shown.lines().filter_map(|line| line.strip_prefix(prompt)) {
        script += &format!(
            "\\echo '{prompt}{}'\n{line}\n",
            line.replace('\\', "\\\\").replace('\'', "\\'")
        );
    }
    let psql = require!(psql(&service));
    // Both outputs in one, so that they come in order.
    let mut shell = Command::new("sh");
    let line = format!("exec {:?} \"$@\" 2>&1", psql.get_program());
    shell
        .args(["-c", &line, "sh"])
        .args(psql.get_args())
        .env_clear();
    let found = typed(&mut shell, &script);
    let found = found
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect::<String>();
    if found != shown && std::env::var_os("QUOTIENT_WRITE_DOCS").is_some_and(|value| value == "1") {
        let page_now = format!("{}{found}{}", &document[..begin], &document[end..]);
        std::fs::write(page, page_now).unwrap();
        return;
    }
    assert_eq!(found, shown, "QUOTIENT_WRITE_DOCS=1 writes what was found");
}

#[test]
fn several_statements_in_one_line_each_show_their_result() {
    let service = Service::new();
    let mut psql = require!(psql(&service));
    let shown = said(
        &mut psql,
        &[
            "-At",
            "-c",
            "SELECT 1; SELECT 'two'; SHOW server_version; SELECT",
        ],
    );
    // A mistake anywhere, and none is run: the last one has no list.
    assert!(shown.starts_with("ERROR:"), "{shown}");
    let mut psql = require!(super::real::psql(&service));
    let shown = said(
        &mut psql,
        &[
            "-At",
            "-c",
            "SELECT 1; SELECT 'two'; SHOW transaction_isolation;; ",
        ],
    );
    assert_eq!(shown, "1\ntwo\nread committed\n");
}

#[test]
fn an_error_shows_its_place_and_hint_and_the_next_statement_runs() {
    let service = Service::new();
    let mut psql = require!(psql(&service));
    let shown = typed(
        &mut psql,
        "SHOW RESOURCE GRUOPS;\nSELECT 'still here';\n\\q\n",
    );
    let expected = [
        "still here",
        "ERROR:  found GRUOPS, expected GROUPS or GROUP",
        "LINE 1: SHOW RESOURCE GRUOPS;",
        "                      ^",
        "HINT:  did you mean GROUPS?",
    ];
    for line in expected {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

#[test]
fn an_error_in_the_middle_says_what_was_done_before_it() {
    let service = Service::new();
    let mut psql = require!(psql(&service));
    let script = format!("{GROUPS}; DROP RESOURCE GROUP nosuch; DROP RESOURCE GROUP bi");
    let shown = said(&mut psql, &["-v", "VERBOSITY=verbose", "-c", &script]);
    assert!(
        shown.contains("ERROR:  42704: resource group nosuch does not exist"),
        "{shown}"
    );
    assert!(
        shown.contains("DETAIL:  statement 3 of 4; 2 done before it stay done"),
        "{shown}"
    );
    assert!(shown.contains("LINE 2:"), "{shown}");
    assert!(service.governor.has_group("bi"));
}

#[test]
fn a_script_is_run_statement_by_statement() {
    let service = Service::new();
    let folder = std::env::temp_dir().join(format!("quotient-psql-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("script.sql");
    let script =
        format!("-- a script\n{GROUPS};\nDROP RESOURCE GROUP nosuch;\nDROP RESOURCE GROUP etl;\n");
    std::fs::write(&file, script).unwrap();
    let file = file.to_str().unwrap();
    let mut psql = require!(psql(&service));
    let output = psql.args(["-f", file]).output().unwrap();
    assert!(output.status.success());
    let shown = text(output);
    assert!(
        shown.contains("script.sql:4: ERROR:  resource group nosuch does not exist"),
        "{shown}"
    );
    assert!(!service.governor.has_group("etl"));
    let mut psql = require!(super::real::psql(&service));
    let output = psql
        .args(["-v", "ON_ERROR_STOP=1", "-f", file])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn remarks_are_notices_and_warnings() {
    let service = Service::new();
    service.run(GROUPS);
    let mut psql = require!(psql(&service));
    let script = "DROP RESOURCE GROUP IF EXISTS nosuch;
        BEGIN; DROP RESOURCE GROUP etl; ROLLBACK; COMMIT;
        SET client_min_messages = error; BEGIN;";
    let shown = typed(&mut psql, script);
    assert!(shown.contains("NOTICE:  "), "{shown}");
    assert!(
        shown.contains("WARNING:  there are no transactions here"),
        "{shown}"
    );
    assert!(
        shown.contains("WARNING:  nothing is rolled back"),
        "{shown}"
    );
    assert!(
        shown.contains("WARNING:  there is no transaction in progress"),
        "{shown}"
    );
    assert_eq!(
        shown.matches("there are no transactions").count(),
        1,
        "{shown}"
    );
    assert!(!service.governor.has_group("etl"));
}

#[test]
fn the_views_are_found_by_the_commands_that_find_tables() {
    let service = Service::new();
    let shown = |command: &str| {
        let mut psql = psql(&service)?;
        Some(said(&mut psql, &["-c", command]))
    };
    let list = require!(shown("\\d"));
    for view in ["classifiers", "groups", "queries", "workers"] {
        assert!(list.contains(&format!(" public | {view} ")), "{list}");
    }
    for command in ["\\dt", "\\dv", "\\d *", "\\dt public.*"] {
        let list = require!(shown(command));
        assert!(list.contains("groups"), "{command}: {list}");
    }
    let one = require!(shown("\\d groups"));
    assert!(one.contains("View \"public.groups\""), "{one}");
    assert!(
        one.contains(" cpu_seconds ") && one.contains("double precision"),
        "{one}"
    );
    let more = require!(shown("\\d+ groups"));
    assert!(more.contains("extended"), "{more}");
    let two = require!(shown("\\d q*"));
    assert!(
        two.contains("View \"public.queries\"") && !two.contains("public.groups"),
        "{two}"
    );
    let none = require!(shown("\\d nosuch"));
    assert_eq!(none, "Did not find any relation named \"nosuch\".\n");
    let indices = require!(shown("\\di"));
    assert_eq!(indices, "Did not find any relations.\n");
    let databases = require!(shown("\\l"));
    assert!(
        databases.contains(" quotient | ops   | UTF8 "),
        "{databases}"
    );
    let users = require!(shown("\\du"));
    assert!(
        users.contains(" ops ") && users.contains("Superuser"),
        "{users}"
    );
    let schemas = require!(shown("\\dn"));
    assert!(schemas.contains("public"), "{schemas}");
    let conninfo = require!(shown("\\conninfo"));
    assert!(
        conninfo.contains("connected to database \"quotient\" as user \"ops\""),
        "{conninfo}"
    );
    for command in [
        "\\df",
        "\\dx",
        "\\dT",
        "\\dp",
        "\\db",
        "\\dconfig",
        "\\l+",
        "\\dt+",
        "\\du+",
        "\\dn+",
        "\\sf x",
    ] {
        let shown = require!(shown(command));
        let fine = !shown.contains("syntax") && !shown.contains("lost");
        assert!(fine, "{command}: {shown}");
    }
}

#[test]
fn what_clients_ask_of_a_postgresql_is_answered() {
    let service = Service::new();
    let mut psql = require!(psql(&service));
    let script = "SELECT version(); SHOW server_version; SELECT current_user, current_database(), current_schema();
        SELECT current_setting('server_version_num'); SET DateStyle = 'ISO, DMY'; SHOW datestyle; RESET DateStyle; SHOW datestyle;
        DISCARD ALL; SET TIME ZONE 'UTC'; SHOW TIME ZONE; SELECT pg_catalog.version() IS NULL;";
    let shown = said(
        psql.args(["-At", "-q", "-f", "-"]).stdin(Stdio::piped()),
        &[],
    );
    assert_eq!(shown, "");
    let mut psql = require!(super::real::psql(&service));
    let shown = typed(psql.args(["-At", "-q"]), script);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(
        lines[0].starts_with("PostgreSQL 14.0 (quotient "),
        "{shown}"
    );
    assert!(lines[1].starts_with("14.0 (quotient "), "{shown}");
    assert_eq!(
        &lines[2..7],
        [
            "ops|quotient|public",
            "140000",
            "ISO, DMY",
            "ISO, MDY",
            "UTC"
        ],
        "{shown}"
    );
    assert!(lines[7].starts_with("ERROR:  "), "{shown}");
    // An empty statement, and none at all.
    let mut psql = require!(super::real::psql(&service));
    assert_eq!(
        said(&mut psql, &["-c", ";", "-c", "", "-c", "-- nothing"]),
        ""
    );
}

#[test]
fn a_group_can_be_watched_filled_and_shown_sideways() {
    let service = Service::new();
    service.run(GROUPS);
    let mut psql = require!(psql(&service));
    let shown = typed(
        &mut psql,
        "\\pset null '(none)'\nSELECT name, max_cpu_cores, cpu_core_limit FROM groups WHERE name = 'bi' \\gx\n",
    );
    assert!(
        shown.contains("name           | bi\nmax_cpu_cores  | (none)\ncpu_core_limit | 3\n"),
        "{shown}"
    );
}

/// At a terminal psql asks for the encoding of its locale, which in a bare container is none.
#[test]
fn whoever_types_without_a_locale_gets_in() {
    let service = Service::new();
    let psql = require!(support::require_tool("psql"));
    let mut terminal = Command::new(require!(support::require_tool("script")));
    let port = service.port();
    let ask = format!(
        "{} -X -h 127.0.0.1 -p {port} -U ops -At -P pager=off -c 'SHOW client_encoding'",
        psql.display()
    );
    terminal
        .args(["-qec", &ask, "/dev/null"])
        .env_clear()
        .env("LANG", "C")
        .env("SHELL", "/bin/sh")
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null());
    let shown = text(terminal.output().unwrap());
    assert_eq!(shown.trim(), "SQL_ASCII");
}

#[test]
fn an_interrupt_ends_the_statement_and_not_the_session() {
    let service = Service::new();
    let mut psql = require!(psql(&service));
    let mut child = psql
        .args([
            "-At",
            "-c",
            "SELECT 1",
            "-c",
            "SELECT pg_sleep(600)",
            "-c",
            "SELECT 2",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first answer is there: the second statement is on its way.
    let mut first = [0; 2];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"1\n");
    let id = child.id().to_string();
    let mut tries = 0;
    // A Ctrl-C that comes before the statement has begun is for nothing: as people do, press again.
    while child.try_wait().unwrap().is_none() {
        tries += 1;
        assert!(tries < 600, "it was never interrupted");
        Command::new("kill").args(["-INT", &id]).status().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let shown = text(child.wait_with_output().unwrap());
    assert!(
        shown.contains("ERROR:  canceling statement due to user request"),
        "{shown}"
    );
    assert!(
        shown.starts_with("2\n") || shown.contains("canceling"),
        "{shown}"
    );
}

#[test]
fn a_password_is_asked_for_and_checked() {
    let config = Config::default()
        .user(User::admin("ops", "right 'one' é"))
        .user(User::viewer("grafana", "look"));
    let service = Service::with(config);
    let with = |user: &str, password: &str, script: &str| {
        let mut psql = at("127.0.0.1", service.port())?;
        psql.args([
            "-U",
            user,
            "-d",
            "quotient",
            "-At",
            "-v",
            "VERBOSITY=verbose",
            "-c",
            script,
        ])
        .env("PGPASSWORD", password);
        Some(text(psql.output().unwrap()))
    };
    assert_eq!(
        require!(with("ops", "right 'one' é", "SELECT current_user")),
        "ops\n"
    );
    let wrong = require!(with("ops", "wrong", "SELECT 1"));
    assert!(
        wrong.contains("FATAL:  password authentication failed for user \"ops\""),
        "{wrong}"
    );
    let nobody = require!(with("nobody", "wrong", "SELECT 1"));
    assert_eq!(nobody.replace("nobody", "ops"), wrong);
    let refused = require!(with(
        "grafana",
        "look",
        "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')"
    ));
    assert!(
        refused.contains("ERROR:  42501: permission denied"),
        "{refused}"
    );
    assert_eq!(
        require!(with("grafana", "look", "SHOW is_superuser")),
        "off\n"
    );
    assert!(!service.governor.has_group("a"));
}

#[test]
fn a_unix_socket_is_for_this_user_alone_and_is_cleared_away() {
    use std::os::unix::fs::PermissionsExt;
    let folder = std::env::temp_dir().join(format!("quotient-sock-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(".s.PGSQL.6432");
    let service = Service::with(Config::unix(&path));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(service.server.path(), Some(Path::new(&path)));
    let mut psql = require!(at(folder.to_str().unwrap(), 6432));
    let shown = said(
        &mut psql,
        &[
            "-U",
            "ops",
            "-d",
            "quotient",
            "-At",
            "-c",
            "SELECT 1",
            "-c",
            "\\conninfo",
        ],
    );
    assert!(
        shown.starts_with("1\n") && shown.contains("via socket in"),
        "{shown}"
    );
    // Somebody answers there: it is not taken away.
    let taken = quotient::server::serve(&service.governor, Config::unix(&path)).unwrap_err();
    assert!(taken.to_string().contains(".s.PGSQL.6432"), "{taken}");
    let Service {
        governor, server, ..
    } = service;
    governor.block_on(server.shutdown());
    assert!(!path.exists());
    // One that nobody answers at is what a dead process left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = quotient::server::serve(&governor, Config::unix(&path)).unwrap();
    governor.block_on(server.shutdown());
    // What is no socket is left alone.
    std::fs::write(&path, "precious").unwrap();
    assert!(quotient::server::serve(&governor, Config::unix(&path)).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_dir_all(folder).unwrap();
}
