//! Where connections come from, and how an accept loop lives through errors.
//!
//! Mechanism; any thread: whichever task polls the loop.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// Something that accepts connections.
pub trait Listener: Send + 'static {
    /// A connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Whose it is; in the extensions of each request as [`Peer`](super::Peer).
    type Addr: Clone + Send + Sync + 'static;

    /// The next connection. Must be cancel safe: dropped, it loses none.
    ///
    /// # Errors
    ///
    /// They end nothing: it is called again, at once after the error of one connection, else after a while.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Io, Self::Addr)>> + Send;
}

impl Listener for TcpListener {
    type Io = TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> io::Result<(TcpStream, Self::Addr)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Answers are written whole: waiting for more of them only delays. One whose peer is gone fails soon enough.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

#[cfg(unix)]
impl Listener for tokio::net::UnixListener {
    type Io = tokio::net::UnixStream;
    /// Clients of such sockets seldom have an address.
    type Addr = ();

    async fn accept(&mut self) -> io::Result<(Self::Io, ())> {
        let (stream, _) = tokio::net::UnixListener::accept(self).await?;
        Ok((stream, ()))
    }
}

/// How long to wait after an error: not at all if it was one connection's, else twice as long each time.
#[derive(Debug, Default)]
pub(super) struct BackOff {
    last: Option<Duration>,
}

impl BackOff {
    const FIRST: Duration = Duration::from_millis(5);
    /// File descriptors come back when connections end; looking each second costs nothing.
    const MOST: Duration = Duration::from_secs(1);

    pub(super) fn accepted(&mut self) {
        self.last = None;
    }

    pub(super) fn failed(&mut self, error: &io::Error) -> Option<Duration> {
        let of_one_connection = matches!(
            error.kind(),
            ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::Interrupted
        );
        if of_one_connection {
            return None;
        }
        let wait = self
            .last
            .map_or(BackOff::FIRST, |last| (last * 2).min(BackOff::MOST));
        self.last = Some(wait);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_descriptors_it_waits_longer_and_longer_and_starts_over_after_a_success() {
        let emfile = io::Error::from_raw_os_error(24);
        let mut back_off = BackOff::default();
        let waits: Vec<u128> = (0..10)
            .filter_map(|_| back_off.failed(&emfile))
            .map(|wait| wait.as_millis())
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        back_off.accepted();
        assert_eq!(back_off.failed(&emfile), Some(BackOff::FIRST));
    }

    #[test]
    fn a_client_that_gave_up_delays_nobody() {
        let mut back_off = BackOff::default();
        for kind in [ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset] {
            assert_eq!(back_off.failed(&kind.into()), None);
        }
    }
}
