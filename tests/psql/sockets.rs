//! Unix sockets of servers that come after one another, or go while others are there.

use crate::hostile::{PATIENCE, startup};
use quotient::server::{Config, serve};
use quotient::{Governor, Host};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_postgres::{Client, NoTls};

/// A folder of its own, gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("quotient-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn socket(&self) -> PathBuf {
        self.0.join(".s.PGSQL.5432")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn connect(folder: &Path) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(folder).user("ops");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A governor, and what ends when it is gone: after its server, which keeps it.
fn governor() -> (Governor, oneshot::Receiver<()>) {
    let governor = Governor::builder().host(Host::Owned).workers(1);
    let governor = governor.build().unwrap();
    let (alive, gone) = oneshot::channel();
    let task = governor.spawn_in("default_wg", async move {
        std::future::pending::<()>().await;
        drop(alive);
    });
    drop(task.unwrap());
    (governor, gone)
}

#[tokio::test]
async fn a_server_that_ends_leaves_the_socket_of_the_next_one_alone() {
    let folder = Folder::new("next");
    let (first, gone) = governor();
    let server = serve(&first, Config::unix(folder.socket())).unwrap();
    // It is in, is told of the end, does not leave, and so holds the first server up.
    let mut idle = UnixStream::connect(folder.socket()).unwrap();
    idle.write_all(&startup(&[("user", "ops")])).unwrap();
    idle.read_exact(&mut [0]).unwrap();
    drop((server, first));
    let (second, _gone) = governor();
    let begun = Instant::now();
    let server = loop {
        match serve(&second, Config::unix(folder.socket())) {
            Ok(server) => break server,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let ended = tokio::time::timeout(PATIENCE, gone).await;
    assert!(ended.expect("the first goes on").is_err());
    let client = connect(&folder.0).await;
    assert_eq!(client.query("SELECT 1", &[]).await.unwrap().len(), 1);
    drop((idle, server));
}

#[tokio::test]
async fn a_server_whose_socket_was_taken_away_removes_no_other() {
    let folder = Folder::new("taken");
    let (first, gone) = governor();
    let ended = serve(&first, Config::unix(folder.socket())).unwrap();
    std::fs::remove_file(folder.socket()).unwrap();
    let (second, _gone) = governor();
    let server = serve(&second, Config::unix(folder.socket())).unwrap();
    ended.shutdown().await;
    drop(first);
    assert!(gone.await.is_err());
    let client = connect(&folder.0).await;
    assert_eq!(client.query("SELECT 1", &[]).await.unwrap().len(), 1);
    drop(server);
}
