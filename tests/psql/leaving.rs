//! Who is gone in the middle of a statement: the statement ends, and the place is free.

use crate::Service;
use crate::clients::SlowStore;
use crate::hostile::{PATIENCE, enter, frame, message};
use crate::roles::{column, connect};
use quotient::server::{Config, serve};
use quotient::{Governor, Host};
use rustix::net::sockopt::set_socket_linger;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How a client is gone.
#[derive(Clone, Copy, Debug)]
enum Exit {
    /// It closed its socket, as the system does for one that was killed.
    Closed,
    /// The server is told by a reset, as by who was killed with an answer unread.
    Reset,
    /// The same as closed, after some more was said that nobody has read.
    WithMore,
}

const EXITS: [Exit; 3] = [Exit::Closed, Exit::Reset, Exit::WithMore];

impl Exit {
    fn by(self, mut socket: TcpStream) {
        match self {
            Exit::Closed => {}
            Exit::Reset => set_socket_linger(&socket, Some(Duration::ZERO)).unwrap(),
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

/// A client in a statement that does not end.
fn inside(service: &Service, statement: &str) -> TcpStream {
    let mut socket = enter(service);
    // An answer of this length is sent before the script goes on: whoever has it knows that the next statement is run.
    let long = "x".repeat(40 << 10);
    let script = format!("SELECT '{long}'; {statement}\0");
    socket.write_all(&frame(b'Q', script.as_bytes())).unwrap();
    assert_eq!([(); 2].map(|()| message(&mut socket)), ['T', 'D']);
    socket
}

/// All places are taken by clients in a statement that does not end; all of them die. Another one gets in.
async fn the_places_come_back(service: &Service, clients: Vec<TcpStream>, exit: Exit) {
    assert_eq!(service.server.connections(), clients.len());
    clients.into_iter().for_each(|client| exit.by(client));
    until(&format!("{exit:?}"), || service.server.connections() == 0).await;
    let client = connect(service, "ops", "").await.unwrap();
    assert_eq!(column(&client, "SELECT 1").await, ["1"]);
}

#[tokio::test]
async fn whoever_dies_in_a_statement_without_end_leaves_its_place() {
    let service = Service::with(Config::default().max_connections(2));
    for exit in EXITS {
        let clients = [(); 2].map(|()| inside(&service, "SELECT pg_sleep(3600)"));
        the_places_come_back(&service, clients.into(), exit).await;
        until("nobody", || service.server.connections() == 0).await;
    }
}

/// On the server's thread, and in a group: one client waits for the store, the other for its turn at it.
#[tokio::test]
async fn so_does_who_waits_for_a_store_that_does_not_answer() {
    let configs = [Config::default(), Config::default().group("default_wg")];
    for (config, exit) in configs.iter().flat_map(|it| EXITS.map(|exit| (it, exit))) {
        let store = SlowStore::default();
        let governor = Governor::builder()
            .host(Host::Owned)
            .workers(1)
            .catalog_store(store.clone())
            .build()
            .unwrap();
        let server = serve(&governor, config.clone().max_connections(2)).unwrap();
        let service = Service::of(governor, server);
        let saved = store.saving.load(SeqCst);
        store.slow.store(true, SeqCst);
        let create = "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')";
        let clients = [(); 2].map(|()| inside(&service, create));
        until("begun", || store.saving.load(SeqCst) > saved).await;
        the_places_come_back(&service, clients.into(), exit).await;
        assert_eq!(store.saving.load(SeqCst), saved + 1, "who left had a turn");
        // What was begun is made.
        store.slow.store(false, SeqCst);
        until("made", || service.governor.has_group("a")).await;
    }
}
