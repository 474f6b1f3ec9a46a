//! Who means no good, or does not know better: scans, half-open and slow clients, frames that lie. Others go on.

use crate::roles::{code, column, connect};
use crate::{Service, support};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};
use quotient::server::{Config, User};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn open(service: &Service) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", service.port())).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// All that the server says until it hangs up.
pub(crate) fn last_words(mut socket: TcpStream) -> Vec<u8> {
    let mut words = Vec::new();
    match socket.read_to_end(&mut words) {
        Ok(_) => {}
        Err(error) => assert_ne!(
            error.kind(),
            ErrorKind::WouldBlock,
            "the server did not hang up"
        ),
    }
    words
}

pub(crate) fn frame(letter: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[letter], &length[..], body].concat()
}

/// The first packet, with these parameters.
pub(crate) fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = b"\0\x03\0\0".to_vec();
    for (name, value) in parameters {
        body.extend_from_slice(format!("{name}\0{value}\0").as_bytes());
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&length[..], &body].concat()
}

const OPS: &[(&str, &str)] = &[("user", "ops")];

/// Comes in and reads up to ReadyForQuery.
pub(crate) fn enter(service: &Service) -> TcpStream {
    let mut socket = open(service);
    socket.write_all(&startup(OPS)).unwrap();
    ready(&mut socket);
    socket
}

/// Reads one whole message; its letter.
pub(crate) fn message(socket: &mut TcpStream) -> char {
    let mut head = [0; 5];
    socket.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    let mut body = vec![0; length - 4];
    socket.read_exact(&mut body).unwrap();
    head[0] as char
}

/// Reads whole messages up to ReadyForQuery; their letters.
fn ready(socket: &mut TcpStream) -> String {
    let mut letters = String::new();
    while !letters.ends_with('Z') {
        letters.push(message(socket));
    }
    letters
}

/// The most that the process has had in memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.unwrap().split_whitespace().nth(1);
    kib.unwrap().parse().unwrap()
}

async fn is_well(service: &Service) {
    let client = connect(service, "ops", "").await.unwrap();
    assert_eq!(
        column(&client, "SELECT name FROM groups").await,
        ["default_wg"]
    );
}

#[tokio::test]
async fn any_bytes_at_the_port_are_answered_or_hung_up_on() {
    let service = Service::with(Config::default().startup_timeout(Duration::from_secs(5)));
    let cases = Cases {
        cases: 300,
        failure_persistence: None,
        ..Cases::default()
    };
    // Garbage, and garbage behind a way in.
    let strategy = (
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 0..400),
        any::<Option<u8>>(),
        0_u32..600,
    );
    let run = TestRunner::new(cases).run(&strategy, |(inside, bytes, letter, length)| {
        let mut socket = if inside {
            enter(&service)
        } else {
            open(&service)
        };
        let mut sent = Vec::new();
        if let Some(letter) = letter {
            sent.push(b"QPBDECHSXpFcdf"[usize::from(letter) % 14]);
            sent.extend(length.to_be_bytes());
        }
        sent.extend(&bytes);
        // The server may hang up in the middle of it.
        let _ = socket.write_all(&sent);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        last_words(socket);
        Ok(())
    });
    run.unwrap();
    is_well(&service).await;
}

#[tokio::test]
async fn other_peoples_protocols_are_told_that_this_is_another() {
    let service = Service::new();
    for (sent, said) in [
        (
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            &b"invalid length of startup packet"[..],
        ),
        (
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"invalid length of startup packet",
        ),
        (b"\0\0\0\x08\0\x02\0\0", b"protocol 2.0 is not supported"),
        (b"\0\0\0\x09\0\x03\0\0\0", b"no PostgreSQL user name"),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\xff",
            b"invalid length of startup packet",
        ),
    ] {
        let mut socket = open(&service);
        socket.write_all(sent).unwrap();
        let words = last_words(socket);
        let found = words.windows(said.len()).any(|part| part == said);
        assert!(found, "{:?}", String::from_utf8_lossy(&words));
    }
    is_well(&service).await;
}

#[tokio::test]
async fn encryption_is_declined_and_the_client_may_go_on_without() {
    let service = Service::new();
    let mut socket = open(&service);
    for request in [80_877_104_u32, 80_877_103] {
        socket.write_all(&8_u32.to_be_bytes()).unwrap();
        socket.write_all(&request.to_be_bytes()).unwrap();
        let mut answer = [0];
        socket.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    socket.write_all(&startup(OPS)).unwrap();
    assert!(ready(&mut socket).starts_with("RS"));
    // Asking for ever is not an occupation.
    let mut socket = open(&service);
    for _ in 0..100 {
        let _ = socket.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f");
    }
    last_words(socket);
    is_well(&service).await;
}

/// In a process of its own: what the memory of the others is says nothing.
pub(crate) async fn in_little_memory(what: &str) {
    let before = resident();
    match what {
        "frames" => frames_that_are_too_long().await,
        "connections" => connections_that_say_nothing().await,
        "script" => a_long_script().await,
        "prepared" => what_is_prepared_and_kept().await,
        "statements" => short_messages_of_many_statements().await,
        "wide" => wide_portals(Wide::Bound).await,
        "described" => wide_portals(Wide::Described).await,
        "sent" => wide_portals(Wide::Sent).await,
        other => panic!("{other}"),
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more");
    println!("alive, {grown} KiB more");
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    support::in_child("frames");
}

#[test]
fn a_thousand_connections_that_say_nothing_keep_nobody_out() {
    support::in_child("connections");
}

#[test]
fn a_script_takes_little_more_memory_than_its_text() {
    support::in_child("script");
}

#[test]
fn what_is_prepared_and_filled_in_takes_little_memory_and_no_stack() {
    support::in_child("prepared");
}

#[test]
fn a_short_message_of_many_statements_takes_little_memory() {
    support::in_child("statements");
}

#[test]
fn what_is_read_of_wide_statements_takes_as_much_memory_as_is_promised() {
    support::in_child("wide");
    support::in_child("described");
    support::in_child("sent");
}

/// A message of the extended protocol: texts, and what is behind them.
fn extended(letter: u8, texts: &[&[u8]], behind: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        body.extend_from_slice(text);
        body.push(0);
    }
    body.extend_from_slice(behind);
    frame(letter, &body)
}

async fn what_is_prepared_and_kept() {
    let service = Service::new();
    // Names are kept as texts are.
    let mut socket = enter(&service);
    for number in 0..40 {
        let name = format!("{number}{}", "n".repeat(1 << 20));
        let parse = extended(b'P', &[name.as_bytes(), b"SELECT 1"], &[0, 0]);
        socket.write_all(&parse).unwrap();
    }
    socket.write_all(&frame(b'S', b"")).unwrap();
    assert_eq!(ready(&mut socket), "111EZ");
    // One value in many places.
    let mut socket = enter(&service);
    let list = "SELECT name FROM groups WHERE name IN ($1".to_owned() + &",$1".repeat(300) + ")";
    socket
        .write_all(&extended(b'P', &[b"", list.as_bytes()], &[0, 0]))
        .unwrap();
    let value = vec![b'v'; 1 << 20];
    let length = u32::try_from(value.len()).unwrap().to_be_bytes();
    let behind = [&[0, 0, 0, 1], &length[..], &value, &[0, 0]].concat();
    socket
        .write_all(&extended(b'B', &[b"", b""], &behind))
        .unwrap();
    socket.write_all(&frame(b'S', b"")).unwrap();
    assert_eq!(ready(&mut socket), "1EZ");
    // Each name is a cell of each row; each schema is a level of nothing.
    let client = connect(&service, "ops", "").await.unwrap();
    let wide = "SELECT a".to_owned() + &",a".repeat(30_000) + " FROM pg_catalog.pg_attribute";
    let deep = "SELECT ".to_owned() + &"pg_catalog.".repeat(5_900) + "version()";
    for script in [wide, deep] {
        let error = client.simple_query(&script).await.unwrap_err();
        assert_eq!(code(&error), &SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
    client
        .simple_query("SELECT pg_catalog.version()")
        .await
        .unwrap();
    // Answers that are fetched in part, one beside the other, without end.
    let mut socket = enter(&service);
    let ask = "SELECT a".to_owned() + &",a".repeat(1_000) + " FROM pg_catalog.pg_attribute";
    socket
        .write_all(&extended(b'P', &[b"", ask.as_bytes()], &[0, 0]))
        .unwrap();
    for number in 0..100 {
        let portal = number.to_string();
        let bind = extended(b'B', &[portal.as_bytes(), b""], &[0; 6]);
        let execute = extended(b'E', &[portal.as_bytes()], &[0, 0, 0, 1]);
        socket.write_all(&[bind, execute].concat()).unwrap();
    }
    socket.write_all(&frame(b'S', b"")).unwrap();
    let letters = ready(&mut socket);
    assert!(
        letters.ends_with("DsEZ") || letters.ends_with("2EZ"),
        "{letters}"
    );
}

async fn a_long_script() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    // All of it is read before any of it is run; with a mistake at its end, none is.
    let statement = format!("SELECT id FROM queries WHERE id = 1{}; ", " ".repeat(160));
    let script = statement.repeat(9_999) + "SELECT";
    let error = client.batch_execute(&script).await.unwrap_err();
    assert_eq!(code(&error), &SqlState::SYNTAX_ERROR);
}

async fn short_messages_of_many_statements() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    let wide = format!("SELECT 1{};", ",1".repeat(1_600)).repeat(600);
    client.batch_execute(&wide).await.unwrap();
    // One more than may be, and the place where it begins.
    client.batch_execute(&"END;".repeat(10_000)).await.unwrap();
    for script in ["END;".repeat(10_001), "END;".repeat(500_000)] {
        let error = client.batch_execute(&script).await.unwrap_err();
        assert_eq!(code(&error), &SqlState::PROGRAM_LIMIT_EXCEEDED);
        let position = error.as_db_error().unwrap().position().cloned();
        let begins = tokio_postgres::error::ErrorPosition::Original(40_001);
        assert_eq!(position, Some(begins));
        let error = client.prepare(&script).await.unwrap_err();
        assert_eq!(code(&error), &SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
    // A sign is a byte there, and much more once it is read.
    let many = format!("SELECT $1{}", ",1".repeat(1_000_000));
    let error = client.prepare(&many).await.unwrap_err();
    assert_eq!(code(&error), &SqlState::PROGRAM_LIMIT_EXCEEDED);
}

/// How far portals come.
#[derive(Clone, Copy, PartialEq)]
enum Wide {
    Bound,
    Described,
    Sent,
}

/// As many as may be, of as many columns as may be: until the session is told that it is too much.
async fn wide_portals(how: Wide) {
    let service = Service::new();
    for relation in ["pg_catalog.pg_class WHERE oid = '1'", "groups", ""] {
        let mut socket = enter(&service);
        let items = if relation.is_empty() { "1" } else { "id" };
        let mut ask = format!("SELECT {items}") + &format!(",{items}").repeat(1_600);
        if !relation.is_empty() {
            ask = format!("{ask} FROM {relation}");
        }
        let mut letters = String::new();
        for number in 0..510 {
            let name = number.to_string();
            let mut messages = match how {
                Wide::Described => extended(b'P', &[name.as_bytes(), ask.as_bytes()], &[0, 0]),
                _ => extended(b'P', &[b"", ask.as_bytes()], &[0, 0]),
            };
            match how {
                Wide::Described => messages.extend(frame(b'D', format!("S{name}\0").as_bytes())),
                _ => messages.extend(extended(b'B', &[name.as_bytes(), b""], &[0; 6])),
            }
            if how == Wide::Sent {
                messages.extend(extended(b'E', &[name.as_bytes()], &[0; 4]));
            }
            messages.extend(frame(b'H', b""));
            socket.write_all(&messages).unwrap();
            let last = match how {
                Wide::Bound => '2',
                Wide::Described => 'T',
                Wide::Sent => 'C',
            };
            loop {
                letters.push(message(&mut socket));
                if letters.ends_with([last, 'E']) {
                    break;
                }
            }
            if letters.ends_with('E') {
                break;
            }
        }
        // A catalog's SELECT keeps all of its columns; what the governor runs keeps them once they are asked for.
        if how != Wide::Bound || relation != "groups" {
            assert!(letters.ends_with('E'), "{relation}: {}", letters.len());
        }
        socket.write_all(&frame(b'S', b"")).unwrap();
        ready(&mut socket);
    }
}

async fn frames_that_are_too_long() {
    let service = Service::with(Config::default().max_message(1 << 16));
    for letter in b"QPB" {
        let mut socket = enter(&service);
        let _ = socket.write_all(&[&[*letter][..], &0x3fff_ffff_u32.to_be_bytes()].concat());
        let part = [b'x'; 1 << 16];
        for _ in 0..16 {
            if socket.write_all(&part).is_err() {
                break;
            }
        }
        let words = String::from_utf8_lossy(&last_words(socket)).into_owned();
        assert!(words.is_empty() || words.contains("54000"), "{words:?}");
    }
    // Before it is in, a client has less.
    let mut socket = open(&service);
    let _ = socket.write_all(&0x3fff_ffff_u32.to_be_bytes());
    assert!(String::from_utf8_lossy(&last_words(socket)).contains("08P01"));
    let client = connect(&service, "ops", "").await.unwrap();
    let just = format!("SELECT 1 /* {} */", "x".repeat((1 << 16) - 100));
    assert_eq!(column(&client, &just).await, ["1"]);
}

async fn connections_that_say_nothing() {
    let service = Service::with(Config::default().max_connections(8));
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        match TcpStream::connect(("127.0.0.1", service.port())) {
            Ok(mut socket) => {
                // Half of them begin, and stop.
                if idle.len() % 2 == 0 {
                    let _ = socket.write_all(&startup(OPS)[..6]);
                }
                idle.push(socket);
            }
            // Out of descriptors: it is enough.
            Err(_) => break,
        }
    }
    assert!(idle.len() > 200, "{}", idle.len());
    is_well(&service).await;
    assert!(service.server.connections() <= 8);
    // All but the youngest were cut.
    let mut oldest = idle.swap_remove(0);
    oldest.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut byte = [0];
    match oldest.read(&mut byte) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

#[tokio::test]
async fn a_client_too_many_is_told_so_and_a_place_that_is_left_is_free() {
    let service = Service::with(Config::default().max_connections(2));
    let a = connect(&service, "ops", "").await.unwrap();
    let b = connect(&service, "ops", "").await.unwrap();
    assert_eq!(column(&a, "SELECT 1").await, ["1"]);
    let refused = connect(&service, "ops", "").await.expect_err("let in");
    assert_eq!(code(&refused), &SqlState::TOO_MANY_CONNECTIONS);
    drop(b);
    let patience = Instant::now();
    while connect(&service, "ops", "").await.is_err() {
        assert!(patience.elapsed() < PATIENCE, "the place was never free");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn who_is_too_slow_on_the_way_in_is_cut() {
    let users = Config::default().user(User::admin("ops", "x"));
    let service = Service::with(users.startup_timeout(Duration::from_millis(200)));
    // One byte after the other.
    let mut socket = open(&service);
    let begun = Instant::now();
    for byte in startup(OPS).iter().cycle() {
        if socket.write_all(&[*byte]).is_err() || begun.elapsed() > PATIENCE {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() < PATIENCE, "never cut");
    // Half-way through the password.
    let mut socket = open(&service);
    socket.write_all(&startup(OPS)).unwrap();
    let words = last_words(socket);
    assert_eq!(words[0], b'R');
    // Junk instead of a proof.
    let mut socket = open(&service);
    socket.write_all(&startup(OPS)).unwrap();
    socket
        .write_all(&frame(b'p', b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,"))
        .unwrap();
    assert!(String::from_utf8_lossy(&last_words(socket)).contains("FATAL"));
}

#[tokio::test]
async fn who_stops_in_the_middle_of_a_message_or_between_two_is_cut() {
    let config = Config::default().stall_timeout(Duration::from_millis(200));
    let service = Service::with(config.idle_timeout(Duration::from_millis(400)));
    let mut socket = enter(&service);
    socket.write_all(b"Q\0\0\0\x20SELECT").unwrap();
    assert!(last_words(socket).is_empty());
    let words = last_words(enter(&service));
    assert!(String::from_utf8_lossy(&words).contains("57P05"));
}

#[tokio::test]
async fn who_does_not_read_makes_nobody_wait() {
    let service = Service::with(Config::default().stall_timeout(PATIENCE));
    for group in 0..200 {
        service.run(&format!(
            "CREATE RESOURCE GROUP g{group} WITH ('cpu_weight'='1')"
        ));
    }
    // Far more answers than sockets hold; none of them is read.
    let mut slow = enter(&service);
    let script = "SELECT * FROM groups;".repeat(400);
    slow.write_all(&frame(b'Q', format!("{script}\0").as_bytes()))
        .unwrap();
    let client = connect(&service, "ops", "").await.unwrap();
    for group in 0..200 {
        client
            .batch_execute(&format!("DROP RESOURCE GROUP g{group}"))
            .await
            .unwrap();
    }
    assert_eq!(column(&client, "SELECT count(*) FROM groups").await, ["1"]);
    service.run("CREATE RESOURCE GROUP g0 WITH ('cpu_weight'='1')");
    drop(slow);
}

#[tokio::test]
async fn a_broken_order_of_messages_is_an_error_and_the_session_goes_on() {
    let service = Service::new();
    let mut socket = enter(&service);
    // An unknown portal and statement, a COPY that was not begun, then Sync.
    for message in [
        frame(b'd', b"data"),
        frame(b'E', b"nosuch\0\0\0\0\0"),
        frame(b'P', b"\0SELECT 1\0\0\0"),
        frame(b'S', b""),
    ] {
        socket.write_all(&message).unwrap();
    }
    assert_eq!(ready(&mut socket), "EZ");
    socket
        .write_all(&frame(b'B', b"\0nosuch\0\0\0\0\0\0\0"))
        .unwrap();
    socket.write_all(&frame(b'S', b"")).unwrap();
    assert_eq!(ready(&mut socket), "EZ");
    socket.write_all(&frame(b'Q', b"SELECT '\xff'\0")).unwrap();
    assert_eq!(ready(&mut socket), "EZ");
    socket.write_all(&frame(b'F', b"")).unwrap();
    assert_eq!(ready(&mut socket), "EZ");
    // Two prepared, one of them empty, described, executed in parts that no table could hold.
    for message in [
        frame(b'P', b"\0SELECT 1\0\0\0"),
        frame(b'B', b"\0\0\0\0\0\0\0\0"),
        frame(b'D', b"P\0"),
        frame(b'E', b"\0\x7f\xff\xff\xff"),
        frame(b'P', b"empty\0\0\0\0"),
        frame(b'B', b"\0empty\0\0\0\0\0\0\0"),
        frame(b'D', b"P\0"),
        frame(b'E', b"\0\xff\xff\xff\xff"),
        frame(b'C', b"Sempty\0"),
        frame(b'S', b""),
    ] {
        socket.write_all(&message).unwrap();
    }
    assert_eq!(ready(&mut socket), "12TDC12nI3Z");
    socket.write_all(&frame(b'X', b"")).unwrap();
    assert!(last_words(socket).is_empty());
}

/// The body of the next message.
pub(crate) fn said(socket: &mut TcpStream) -> String {
    let mut head = [0; 5];
    socket.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
    let mut body = vec![0; length - 4];
    socket.read_exact(&mut body).unwrap();
    String::from_utf8_lossy(&body).into_owned()
}

/// The salt that the server sends for a user's name, in base64.
fn salt(service: &Service, user: &str) -> String {
    let mut socket = open(service);
    let body = [b"\0\x03\0\0user\0", user.as_bytes(), b"\0\0"].concat();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    socket.write_all(&[&length[..], &body].concat()).unwrap();
    assert!(said(&mut socket).contains("SCRAM-SHA-256"));
    let first = b"n,,n=,r=rOprNGfwEbeRWgbNEkqO";
    let length = u32::try_from(first.len()).unwrap().to_be_bytes();
    let answer = [b"SCRAM-SHA-256\0", &length[..], first].concat();
    socket.write_all(&frame(b'p', &answer)).unwrap();
    let said = said(&mut socket);
    let (_, salt) = said.split_once(",s=").unwrap();
    salt.split_once(",i=4096").unwrap().0.to_owned()
}

#[tokio::test]
async fn what_is_said_before_the_password_does_not_tell_who_there_is() {
    let names = ["ops", "a", "b", "c", "d", "e", "f", "g"];
    let config = names.iter().fold(Config::default(), |config, name| {
        config.user(User::viewer(*name, "secret"))
    });
    let service = Service::with(config);
    // Of bytes that are all letters, base64 has few letters in the first place of each group.
    let first = |salt: &str| {
        salt.bytes()
            .step_by(4)
            .all(|letter| b"KLMNOQRSTUVWYZabcde".contains(&letter))
    };
    assert!(!names.iter().all(|name| first(&salt(&service, name))));
    let (there, not) = (salt(&service, "ops"), salt(&service, "nobody"));
    assert_eq!(there.len(), not.len());
    assert_ne!(there, not);
    // Both stay what they are.
    assert_eq!(
        (&salt(&service, "ops"), &salt(&service, "nobody")),
        (&there, &not)
    );
}

#[tokio::test]
async fn a_cancel_request_with_a_wrong_secret_does_nothing() {
    let service = Service::new();
    let client = connect(&service, "ops", "").await.unwrap();
    for process in 99_990_u32..100_020 {
        let mut socket = open(&service);
        let packet = [16_u32, 80_877_102, process, 0]
            .map(u32::to_be_bytes)
            .concat();
        socket.write_all(&packet).unwrap();
        assert!(last_words(socket).is_empty());
    }
    assert_eq!(column(&client, "SELECT pg_sleep(0.01)").await, [""]);
}
