//! Who is gone in the middle of a statement: the statement ends, and the place is free.

use crate::Service;
use crate::clients::SlowStore;
use crate::hostile::{PATIENCE, enter, frame};
use crate::roles::{column, connect};
use quotient::server::{Config, serve};
use quotient::{Governor, Host};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How a client is gone.
#[derive(Clone, Copy, Debug)]
enum Exit {
    /// It closed its socket, as the system does for one that was killed.
    Closed,
    /// It closed its socket with an answer unread in it: the server is told by a reset.
    Reset,
    /// The same as closed, after some more was said that nobody has read.
    WithMore,
}

const EXITS: [Exit; 3] = [Exit::Closed, Exit::Reset, Exit::WithMore];

impl Exit {
    fn by(self, mut socket: TcpStream) {
        match self {
            Exit::Closed => {}
            Exit::Reset => socket.shutdown(Shutdown::Write).unwrap(),
            Exit::WithMore => socket
                .write_all(&frame(b'Q', b"SELECT 'and another thing'\0").repeat(1_000))
                .unwrap(),
        }
    }
}

async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// All places are taken by clients in a statement that does not end; all of them die. Another one gets in.
async fn the_places_come_back(service: &Service, statement: &str, begun: impl Fn() -> bool) {
    for exit in EXITS {
        let mut clients = vec![enter(service), enter(service)];
        let extra = match exit {
            Exit::Reset => "SELECT 'unread'; ",
            Exit::Closed | Exit::WithMore => "",
        };
        for client in &mut clients {
            let script = format!("{extra}{statement}\0");
            client.write_all(&frame(b'Q', script.as_bytes())).unwrap();
        }
        until("begun", &begun).await;
        clients.into_iter().for_each(|client| exit.by(client));
        until(&format!("{exit:?} in {statement}"), || {
            service.server.connections() == 0
        })
        .await;
    }
    let client = connect(service, "ops", "").await.unwrap();
    assert_eq!(column(&client, "SELECT 1").await, ["1"]);
}

#[tokio::test]
async fn whoever_dies_in_a_statement_without_end_leaves_its_place() {
    let service = Service::with(Config::default().max_connections(2));
    the_places_come_back(&service, "SELECT pg_sleep(3600)", || true).await;
}

/// On the server's thread, and in a group.
#[tokio::test]
async fn so_does_who_waits_for_a_store_that_does_not_answer() {
    for config in [Config::default(), Config::default().group("default_wg")] {
        let store = SlowStore::default();
        let governor = Governor::builder()
            .host(Host::Owned)
            .workers(1)
            .catalog_store(store.clone())
            .build()
            .unwrap();
        let server = serve(&governor, config.max_connections(2)).unwrap();
        let service = Service { governor, server };
        let saved = store.saving.load(SeqCst);
        store.slow.store(true, SeqCst);
        let create = "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')";
        the_places_come_back(&service, create, || store.saving.load(SeqCst) > saved).await;
        // What was begun is made.
        store.slow.store(false, SeqCst);
        until("made", || service.governor.has_group("a")).await;
    }
}
