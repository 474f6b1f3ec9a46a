//! The server: its thread, its socket, and who is let in how far.
//!
//! Mechanism. The server has a thread of its own with a runtime of its own: the operator gets in while every worker of
//! the service is in a long poll, and what the operator asks takes no turn from anybody.
//!
//! 1. Clients that are in are at most `max_connections`.
//! 2. As many again may be on their way in. One more cuts the one that has been so for the longest: who opens
//!    connections and says nothing shuts nobody out who speaks.

use super::auth::{self, Members};
use super::cancel::Sessions;
use super::config::{Address, Config, ServerError};
use super::guesses::Guesses;
#[cfg(unix)]
use super::place::{self, Place};
use super::psql::View;
use super::session::Session;
use super::socket::{self, Socket};
use super::wire::{Broken, Wire};
use crate::event;
use crate::governor::Governor;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// What all sessions of a server share.
pub(super) struct Shared {
    pub(super) governor: Governor,
    pub(super) config: Config,
    pub(super) members: Arc<Members>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) guesses: Mutex<Guesses>,
    /// When the server began: the times of guesses are since then.
    pub(super) began: Instant,
    /// The system views, as the catalog shows them.
    pub(super) views: Vec<View>,
    doors: Mutex<Doors>,
    ending: watch::Receiver<bool>,
}

#[derive(Default)]
struct Doors {
    next: u64,
    inside: usize,
    /// Those on their way in, the oldest first.
    coming: VecDeque<(u64, Option<AbortHandle>)>,
}

/// One client's place.
pub(super) struct Door {
    shared: Arc<Shared>,
    number: u64,
    is_inside: bool,
}

impl Door {
    fn new(shared: &Arc<Shared>) -> Door {
        let mut doors = shared.doors.lock();
        let number = doors.next;
        doors.next += 1;
        doors.coming.push_back((number, None));
        let oldest = if doors.coming.len() > shared.config.max_connections {
            doors.coming.pop_front().and_then(|(_, task)| task)
        } else {
            None
        };
        drop(doors);
        if let Some(task) = oldest {
            task.abort();
        }
        Door {
            shared: shared.clone(),
            number,
            is_inside: false,
        }
    }

    fn opened_by(shared: &Shared, number: u64, task: AbortHandle) {
        let mut doors = shared.doors.lock();
        if let Some(place) = doors.coming.iter_mut().find(|(at, _)| *at == number) {
            place.1 = Some(task);
        }
    }

    /// From the way in to the inside, if there is room.
    pub(super) fn enter(&mut self) -> bool {
        let mut doors = self.shared.doors.lock();
        if doors.inside >= self.shared.config.max_connections {
            return false;
        }
        doors.inside += 1;
        doors.coming.retain(|(number, _)| *number != self.number);
        self.is_inside = true;
        true
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let mut doors = self.shared.doors.lock();
        if self.is_inside {
            doors.inside -= 1;
        } else {
            doors.coming.retain(|(number, _)| *number != self.number);
        }
    }
}

/// A running server. Dropping it ends the server; until then it keeps the governor alive.
#[must_use = "the server ends when its handle is dropped"]
pub struct ServerHandle {
    end: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
    address: Option<SocketAddr>,
    path: Option<PathBuf>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerHandle")
            .field("address", &self.address)
            .field("path", &self.path)
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// Where it listens, with the port that the system chose; none for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The Unix socket; none for TCP.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// How many clients are in.
    pub fn connections(&self) -> usize {
        self.shared.doors.lock().inside
    }

    /// Ends the server: no client comes in any more, those that are in are told so (SQLSTATE 57P01) at the end of the
    /// statement they run, and are cut a second later at the latest.
    ///
    /// # Cancel safety
    ///
    /// The server ends all the same.
    pub async fn shutdown(mut self) {
        self.end.send_replace(true);
        // An error is the thread's end too.
        let _ = self.ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.end.send_replace(true);
    }
}

/// What listens; a Unix socket with its place, which is dropped first.
enum Listener {
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(Place, std::os::unix::net::UnixListener),
}

pub(super) fn start(governor: &Governor, config: Config) -> Result<ServerHandle, ServerError> {
    config.check()?;
    let place = match &config.address {
        Address::Tcp(address) => address.to_string(),
        Address::Unix(path) => path.display().to_string(),
    };
    let refused = |error| ServerError::Listen {
        place: place.clone(),
        error,
    };
    let (listener, address, path) = bind(&config.address).map_err(refused)?;
    let (end, ending) = watch::channel(false);
    let (tell_ended, ended) = watch::channel(false);
    let views = governor.views().into_iter().map(|(name, columns)| View {
        name: name.to_owned(),
        columns: columns
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect(),
    });
    let mut config = config;
    // The others are for those who have not guessed.
    let waiting = (config.max_connections / 4).max(1);
    let guesses = Guesses::new(config.auth_delay, config.startup_timeout, waiting);
    let shared = Arc::new(Shared {
        members: Arc::new(Members::new(std::mem::take(&mut config.users))),
        governor: governor.clone(),
        config,
        sessions: Arc::default(),
        guesses: Mutex::new(guesses),
        began: Instant::now(),
        views: views.collect(),
        doors: Mutex::default(),
        ending,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(refused)?;
    let (serving, last) = (shared.clone(), shared.clone());
    std::thread::Builder::new()
        .name("quotient-admin".into())
        .spawn(move || {
            runtime.block_on(serve(listener, serving));
            runtime.shutdown_background();
            // Perhaps the governor with it, which must not end inside of a runtime.
            drop(last);
            tell_ended.send_replace(true);
        })
        .map_err(refused)?;
    Ok(ServerHandle {
        end,
        ended,
        address,
        path,
        shared,
    })
}

type Bound = (Listener, Option<SocketAddr>, Option<PathBuf>);

fn bind(address: &Address) -> std::io::Result<Bound> {
    match address {
        Address::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((Listener::Tcp(listener), Some(address), None))
        }
        #[cfg(unix)]
        Address::Unix(path) => {
            let (place, listener) = place::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok((Listener::Unix(place, listener), None, Some(path.clone())))
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}

enum Accept {
    Tcp(tokio::net::TcpListener),
    #[cfg(unix)]
    Unix {
        /// Kept for its drop.
        _place: Place,
        listener: tokio::net::UnixListener,
    },
}

impl Accept {
    async fn next(&self) -> std::io::Result<(Box<dyn Socket>, Option<IpAddr>)> {
        match self {
            Accept::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                socket::prepare(&socket);
                Ok((Box::new(socket), Some(address.ip().to_canonical())))
            }
            #[cfg(unix)]
            Accept::Unix { listener, .. } => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}

async fn serve(listener: Listener, shared: Arc<Shared>) {
    let accept = match listener {
        Listener::Tcp(listener) => tokio::net::TcpListener::from_std(listener).map(Accept::Tcp),
        #[cfg(unix)]
        Listener::Unix(_place, listener) => tokio::net::UnixListener::from_std(listener)
            .map(|listener| Accept::Unix { _place, listener }),
    };
    let Ok(accept) = accept else {
        return;
    };
    let mut ending = shared.ending.clone();
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            _ = ending.wait_for(|end| *end) => break,
            Some(_) = clients.join_next() => {}
            next = accept.next() => match next {
                Ok((socket, address)) => {
                    let door = Door::new(&shared);
                    let number = door.number;
                    let task = clients.spawn(client(socket, address, shared.clone(), door));
                    Door::opened_by(&shared, number, task);
                }
                // Out of descriptors, most likely: some client will go.
                Err(error) => {
                    event::accept_failed(&error);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(accept);
    let all = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    clients.shutdown().await;
}

async fn client(
    socket: Box<dyn Socket>,
    address: Option<IpAddr>,
    shared: Arc<Shared>,
    mut door: Door,
) {
    let mut wire = Wire::new(socket, shared.config.stall_timeout);
    let mut ending = shared.ending.clone();
    let entered = {
        let enter = auth::enter(&mut wire, &shared, &mut door, address);
        tokio::select! {
            entered = tokio::time::timeout(shared.config.startup_timeout, enter) => entered.ok(),
            _ = ending.wait_for(|end| *end) => None,
        }
    };
    let end = match entered {
        Some(Ok(Some(guest))) => {
            let mut session = Session::new(&mut wire, shared.clone(), guest);
            tokio::select! {
                end = session.run() => end,
                _ = grace(ending) => Broken::Gone,
            }
        }
        Some(Err(broken)) => broken,
        // It interrupted another, was too slow, or came too late.
        Some(Ok(None)) | None => Broken::Gone,
    };
    let fault = match end {
        Broken::Fault(fault) | Broken::Unreadable(fault, _) => Some(fault),
        Broken::Gone => None,
    };
    wire.close(fault).await;
    drop(door);
}

/// The time that a session has to end by itself.
async fn grace(mut ending: watch::Receiver<bool>) {
    let _ = ending.wait_for(|end| *end).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
}

impl Shared {
    /// Waits until the server is to end.
    pub(super) async fn ended(&self) {
        let mut ending = self.ending.clone();
        let _ = ending.wait_for(|end| *end).await;
    }
}
