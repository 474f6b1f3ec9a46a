//! The terminal view of `examples/top`: its keys, its frames, and a real port behind it.

#![cfg(feature = "pgwire")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[path = "../examples/admin.rs"]
#[allow(dead_code, reason = "it is a program too")]
mod admin;
#[path = "../examples/top/app.rs"]
#[allow(dead_code, reason = "the example runs the rest")]
mod app;
#[path = "../examples/top/link.rs"]
mod link;
#[path = "../examples/top/model.rs"]
mod model;
#[path = "../examples/top/view.rs"]
mod view;

use app::{Options, frame, once};
use crossterm::event::KeyCode;
use model::{Mode, Model, Page, Table, Wish};
use quotient::server::{Config, User, serve};
use quotient::{Attributes, Governor, Host};

fn table(columns: &[&str], rows: &[&[&str]]) -> Table {
    let cell = |cell: &&str| (*cell != "-").then(|| (*cell).to_owned());
    Table {
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        rows: rows
            .iter()
            .map(|row| row.iter().map(cell).collect())
            .collect(),
    }
}

fn groups() -> Model {
    let mut model = Model::default();
    model.show(table(
        &["name", "weight", "share", "lag_ms", "memory"],
        &[
            &["bi", "3", "0.75", "1.5", "5368709120"],
            &["etl", "10", "0.25", "-2", "512"],
            &["default_wg", "2", "0", "0", "-"],
        ],
    ));
    model
}

fn names(model: &Model) -> Vec<String> {
    model
        .rows()
        .iter()
        .map(|row| row[0].clone().unwrap())
        .collect()
}

fn press(model: &mut Model, keys: &[KeyCode]) -> Wish {
    keys.iter().map(|key| model.key(*key)).last().unwrap()
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

#[test]
fn rows_are_sorted_by_number_and_turned_by_keys() {
    let mut model = groups();
    assert_eq!(names(&model), ["bi", "etl", "default_wg"]);
    model.key(KeyCode::Left);
    assert_eq!(
        names(&model),
        ["etl", "bi", "default_wg"],
        "by weight: 10 before 3"
    );
    model.key(KeyCode::Char('r'));
    assert_eq!(names(&model), ["default_wg", "bi", "etl"]);
    press(&mut model, &[KeyCode::Char('r'), KeyCode::Left]);
    assert_eq!(
        names(&model),
        ["etl", "default_wg", "bi"],
        "by name, Z first"
    );
    model.key(KeyCode::Left);
    assert_eq!(model.sort.as_deref(), Some("memory"), "round the end");
    assert_eq!(
        names(&model),
        ["bi", "etl", "default_wg"],
        "nothing is least"
    );
    model.key(KeyCode::Right);
    assert_eq!(model.sort.as_deref(), Some("name"));
}

#[test]
fn a_filter_is_typed_kept_and_given_up() {
    let mut model = groups();
    model.key(KeyCode::Char('/'));
    press(&mut model, &typed("WG"));
    assert_eq!(names(&model), ["default_wg"]);
    model.key(KeyCode::Enter);
    assert_eq!(model.mode, Mode::Browse);
    model.key(KeyCode::Char('/'));
    press(&mut model, &typed("q"));
    assert!(names(&model).is_empty(), "q is a letter while one types");
    model.key(KeyCode::Esc);
    assert_eq!(names(&model), ["default_wg"]);
    press(
        &mut model,
        &[
            KeyCode::Char('/'),
            KeyCode::Backspace,
            KeyCode::Backspace,
            KeyCode::Enter,
        ],
    );
    assert_eq!(names(&model).len(), 3);
    assert_eq!(model.key(KeyCode::Char('q')), Wish::Quit);
}

fn queries() -> Model {
    let mut model = Model {
        page: Page::Queries,
        ..Model::default()
    };
    model.show(table(
        &["id", "group_name", "cpu_seconds"],
        &[&["7", "bi", "2"], &["9", "etl", "11"]],
    ));
    model
}

#[test]
fn a_query_is_killed_only_when_it_was_confirmed() {
    let mut model = queries();
    assert_eq!(model.query(), Some(9));
    model.key(KeyCode::Down);
    assert_eq!(
        press(&mut model, &[KeyCode::Char('k'), KeyCode::Char('n')]),
        Wish::Nothing
    );
    assert_eq!(model.message, "query 7 goes on");
    assert_eq!(
        press(&mut model, &[KeyCode::Char('k'), KeyCode::Enter]),
        Wish::Nothing
    );
    assert_eq!(
        press(&mut model, &[KeyCode::Char('k'), KeyCode::Char('y')]),
        Wish::Kill(7)
    );
    assert_eq!(model.mode, Mode::Browse);
    // On the other page there is nothing to kill.
    let mut model = groups();
    assert_eq!(model.key(KeyCode::Char('k')), Wish::Nothing);
    assert_eq!(model.mode, Mode::Browse);
}

#[test]
fn the_query_that_was_asked_about_is_the_one_that_is_killed() {
    let mut model = queries();
    model.key(KeyCode::Char('k'));
    // Rows move under the question.
    model.show(table(
        &["id", "group_name", "cpu_seconds"],
        &[&["7", "bi", "99"], &["9", "etl", "11"]],
    ));
    assert_eq!(model.mode, Mode::Confirm(9));
    // It ends before it is answered.
    model.show(table(
        &["id", "group_name", "cpu_seconds"],
        &[&["7", "bi", "99"]],
    ));
    assert_eq!(model.key(KeyCode::Char('y')), Wish::Nothing);
    assert_eq!(model.message, "query 9 has ended by itself");
}

#[test]
fn the_cursor_stays_among_the_rows() {
    let mut model = groups();
    press(&mut model, &[KeyCode::End]);
    assert_eq!(model.selected, 2);
    press(&mut model, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(model.selected, 2);
    model.show(table(&["name"], &[&["a"]]));
    assert_eq!(model.selected, 0);
    model.show(Table::default());
    press(
        &mut model,
        &[
            KeyCode::Down,
            KeyCode::Up,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Char('k'),
        ],
    );
    assert_eq!(model.selected, 0);
    assert_eq!(model.key(KeyCode::Tab), Wish::Refresh);
    assert_eq!(model.page, Page::Queries);
}

#[test]
fn a_frame_shows_units_the_sorted_column_and_the_keys() {
    let shown = frame(&groups(), (60, 7)).unwrap();
    let expected = [
        "groups  3 of 3",
        "name        weight  share ▼  lag_ms  memory",
        "bi               3    75.0%     1.5    5.0G",
        "etl             10    25.0%    -2.0     512",
        "default_wg       2     0.0%     0.0       –",
        "",
        "Tab page  ←→ sort  r reverse  / filter  ↑↓ select  k kill  s",
        "",
    ];
    assert_eq!(shown.split('\n').collect::<Vec<_>>(), expected);
}

#[test]
fn a_question_is_drawn_over_the_rows_at_any_size() {
    let mut model = queries();
    model.key(KeyCode::Char('k'));
    let shown = frame(&model, (60, 9)).unwrap();
    assert!(shown.contains("│ Kill query 9?  y / n │"), "{shown}");
    for size in [(1, 1), (5, 2), (200, 60), (0, 0)] {
        frame(&model, size).unwrap();
    }
}

#[test]
fn arguments_are_read_and_mistakes_answered_with_the_usage() {
    let read = |line: &str| Options::read(line.split(' ').map(str::to_owned));
    let options =
        read("--once --page queries --sort id --reverse --interval 0.5 --size 80x20 host=there")
            .unwrap();
    assert_eq!(
        (options.page, options.once, options.ascending, options.size),
        (Page::Queries, true, true, (80, 20))
    );
    assert_eq!(
        (options.connection.as_str(), options.sort.as_deref()),
        ("host=there", Some("id"))
    );
    for wrong in [
        "--page nosuch",
        "--interval 0",
        "--interval",
        "--size 80",
        "--nosuch",
    ] {
        assert!(read(wrong).unwrap_err().contains("usage: top"), "{wrong}");
    }
}

#[tokio::test]
async fn both_pages_come_over_the_port_and_a_query_is_killed_through_it() {
    let governor = Governor::builder()
        .host(Host::Owned)
        .workers(1)
        .init_sql("CREATE RESOURCE GROUP bi TO (user='bi') WITH ('cpu_core_limit'='3')")
        .build()
        .unwrap();
    let users = Config::default()
        .user(User::admin("ops", "secret"))
        .user(User::viewer("eye", "secret"));
    let server = serve(&governor, users).unwrap();
    let query = governor.admit(&Attributes::new().user("bi")).await.unwrap();
    let task = query.spawn(std::future::pending::<()>());
    let port = server.local_addr().unwrap().port();
    let options = |page: &str, user: &str| {
        let connection = format!("host=127.0.0.1 port={port} user={user} password=secret");
        let arguments = ["--once", "--page", page, connection.as_str()].map(str::to_owned);
        Options::read(arguments.into_iter()).unwrap()
    };
    let shown = once(&options("groups", "eye")).await.unwrap();
    assert!(shown.starts_with("groups  2 of 2\n"), "{shown}");
    assert!(shown.lines().nth(1).unwrap().contains("share ▼"), "{shown}");
    let shown = once(&options("queries", "ops")).await.unwrap();
    assert!(shown.starts_with("queries  1 of 1\n"), "{shown}");
    assert!(
        shown.contains(&query.id().to_string()) && shown.contains("running"),
        "{shown}"
    );
    let viewer = link::Link::open(&options("queries", "eye").connection)
        .await
        .unwrap();
    let refused = viewer.kill(query.id().0).await.unwrap_err();
    assert!(
        link::reason(&refused).starts_with("permission denied"),
        "{refused}"
    );
    let admin = link::Link::open(&options("queries", "ops").connection)
        .await
        .unwrap();
    admin.kill(query.id().0).await.unwrap();
    assert!(task.await.unwrap_err().is_cancelled());
    server.shutdown().await;
    let error = once(&options("groups", "ops")).await.unwrap_err();
    assert!(!error.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_service_shows_its_tenants_at_work() {
    let (governor, server) = admin::service(0).unwrap();
    let port = server.local_addr().unwrap().port();
    let connection = format!("host=127.0.0.1 port={port} user=guest password=secret");
    let arguments = [
        "--once",
        "--page",
        "queries",
        "--filter",
        "running",
        &connection,
    ];
    let options = Options::read(arguments.map(str::to_owned).into_iter()).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let shown = once(&options).await.unwrap();
        let rows = |group: &str| {
            shown
                .lines()
                .filter(|line| line.split_whitespace().nth(1) == Some(group))
                .count()
        };
        if rows("bi") == 3 && rows("etl") == 2 {
            break;
        }
        assert!(begun.elapsed().as_secs() < 60, "{shown}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    server.shutdown().await;
    governor.shutdown(std::time::Duration::ZERO).await;
}
