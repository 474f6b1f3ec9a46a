//! Who guesses: passwords, and the secrets by which statements are interrupted.

use crate::Service;
use crate::hostile::{PATIENCE, frame, last_words, open};
use crate::roles::{code, column, connect};
use quotient::server::{Config, User, serve};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

const HOUR: Duration = Duration::from_secs(3600);

fn users() -> Config {
    Config::default()
        .user(User::admin("ops", "right"))
        .user(User::viewer("grafana", "right"))
        .startup_timeout(HOUR)
}

#[tokio::test]
async fn after_a_wrong_password_the_next_is_looked_at_a_while_later() {
    let delay = Duration::from_millis(200);
    let service = Service::with(users().auth_delay(delay));
    let begun = Instant::now();
    for wrong in ["wrong", "Right", "right "] {
        let error = connect(&service, "ops", wrong).await.expect_err("let in");
        assert_eq!(code(&error), &SqlState::INVALID_PASSWORD);
    }
    connect(&service, "ops", "right").await.unwrap();
    assert!(begun.elapsed() >= 3 * delay, "{:?}", begun.elapsed());
}

/// However many guess beside each other, one of them is looked at: the others wait, and more than a few are sent away.
#[tokio::test]
async fn guesses_beside_each_other_are_looked_at_one_after_the_other_and_hold_up_nobody_else() {
    let config = users().auth_delay(HOUR).startup_timeout(100 * HOUR);
    let service = Service::with(config.max_connections(64));
    let guess = async |number: usize| {
        let error = connect(&service, "ops", &format!("guess {number}")).await;
        error.expect_err("let in").code().cloned()
    };
    let error = guess(0).await;
    assert_eq!(error, Some(SqlState::INVALID_PASSWORD));
    let guesses = futures::future::join_all((1..40).map(guess));
    let others = async {
        // A quarter of the places is for those who wait; the others were told so.
        for _ in 0..50 {
            // Somebody else gets in all the while, and so who has not guessed would.
            let client = connect(&service, "grafana", "right").await.unwrap();
            assert_eq!(column(&client, "SELECT current_user").await, ["grafana"]);
        }
        let error = connect(&service, "ops", "right")
            .await
            .expect_err("looked at");
        assert_eq!(code(&error), &SqlState::TOO_MANY_CONNECTIONS);
    };
    tokio::select! {
        all = guesses => panic!("all were looked at: {all:?}"),
        () = others => {}
    }
}

/// Whoever would be cut before their look does not wait for it, nor takes a place of others.
#[tokio::test]
async fn whose_look_comes_too_late_is_told_so_at_once() {
    let config = users().auth_delay(HOUR).startup_timeout(HOUR / 2);
    let service = Service::with(config);
    let error = connect(&service, "ops", "wrong").await.expect_err("let in");
    assert_eq!(code(&error), &SqlState::INVALID_PASSWORD);
    let next = tokio::time::timeout(PATIENCE, connect(&service, "ops", "right"));
    let error = next.await.expect("it waits").expect_err("looked at");
    assert_eq!(code(&error), &SqlState::TOO_MANY_CONNECTIONS);
    let hint = error.as_db_error().unwrap().hint().unwrap().to_owned();
    assert!(hint.contains("3600 s"), "{hint}");
}

/// At the port somebody guesses all the while; the operator's own socket is elsewhere.
#[cfg(unix)]
#[tokio::test]
async fn whose_name_is_guessed_at_by_everybody_gets_in_by_a_socket_of_their_own() {
    let service = Service::with(users().auth_delay(HOUR));
    let error = connect(&service, "ops", "wrong").await.expect_err("let in");
    assert_eq!(code(&error), &SqlState::INVALID_PASSWORD);
    let folder = std::env::temp_dir().join(format!("quotient-ops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = Config::unix(folder.join(".s.PGSQL.5432")).auth_delay(HOUR);
    let own = serve(&service.governor, config.user(User::admin("ops", "right"))).unwrap();
    let mut ops = tokio_postgres::Config::new();
    ops.host_path(&folder).user("ops").password("right");
    let (client, connection) = ops.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(column(&client, "SELECT current_user").await, ["ops"]);
    own.shutdown().await;
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn who_is_not_there_is_guessed_as_slowly_as_who_is() {
    let service = Service::with(users().auth_delay(HOUR));
    for user in ["ops", "nobody"] {
        let error = connect(&service, user, "wrong").await.expect_err("let in");
        assert_eq!(code(&error), &SqlState::INVALID_PASSWORD);
        let next = connect(&service, user, "wrong");
        let waits = tokio::time::timeout(Duration::from_millis(300), next).await;
        assert!(waits.is_err(), "{user} was looked at at once");
    }
}

/// Comes in by protocol 3 of this minor version: the number of the session and its secret.
fn secret(service: &Service, minor: u8) -> (std::net::TcpStream, Vec<u8>, Vec<u8>) {
    let mut socket = open(service);
    let body = [&[0, 3, 0, minor][..], b"user\0ops\0\0"].concat();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    socket.write_all(&[&length[..], &body].concat()).unwrap();
    let mut key = Vec::new();
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        socket.read_exact(&mut body).unwrap();
        match head[0] {
            b'K' => key = body,
            b'Z' => break,
            _ => {}
        }
    }
    let secret = key.split_off(4);
    (socket, key, secret)
}

fn cancel(service: &Service, process: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut socket = open(service);
    let body = [&80_877_102_u32.to_be_bytes()[..], process, secret].concat();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    socket.write_all(&[&length[..], &body].concat()).unwrap();
    last_words(socket)
}

#[tokio::test]
async fn secrets_are_as_long_as_the_protocol_allows_and_a_wrong_one_is_answered_as_the_right_one() {
    let service = Service::new();
    for (minor, length) in [(0, 4), (2, 32)] {
        let all: Vec<_> = (0..3).map(|_| secret(&service, minor)).collect();
        for (at, (_, _, secret)) in all.iter().enumerate() {
            assert_eq!(secret.len(), length);
            assert!(all.iter().skip(at + 1).all(|other| other.2 != *secret));
        }
        let (mut socket, process, secret) = secret(&service, minor);
        let sleep = frame(b'Q', b"SELECT pg_sleep(3600)\0");
        socket.write_all(&sleep).unwrap();
        let mut wrong = secret.clone();
        wrong[0] ^= 1;
        let long = [&secret[..], b"\0"].concat();
        for secret in [&wrong[..], &secret[1..], &long, b""] {
            assert!(cancel(&service, &process, secret).is_empty());
        }
        // That of another session opens nothing here.
        assert!(cancel(&service, &process, &all[0].2).is_empty());
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut byte = [0];
        assert!(socket.read(&mut byte).is_err(), "it was interrupted");
        // The statement may not have begun, and what was asked before it is not meant for it.
        let mut answer = [0; 1];
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let begun = Instant::now();
        while socket.read(&mut answer).is_err() {
            assert!(begun.elapsed() < PATIENCE, "it is not interrupted");
            assert!(cancel(&service, &process, &secret).is_empty());
        }
        assert_eq!(&answer, b"E");
    }
}
