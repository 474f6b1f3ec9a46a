//! A client's socket of either kind: its bytes, and whether anybody is left at its other end.
//!
//! Mechanism, on the server's thread.

use futures::future::BoxFuture;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, Ready};

/// A socket of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + Sync {
    /// Waits until there is something to read, or never will be any more. Nothing is read.
    fn readable(&self) -> BoxFuture<'_, io::Result<Ready>>;
}

impl Socket for tokio::net::TcpStream {
    fn readable(&self) -> BoxFuture<'_, io::Result<Ready>> {
        Box::pin(self.ready(Interest::READABLE))
    }
}

#[cfg(unix)]
impl Socket for tokio::net::UnixStream {
    fn readable(&self) -> BoxFuture<'_, io::Result<Ready>> {
        Box::pin(self.ready(Interest::READABLE))
    }
}

/// How long a client may be silent before it is asked whether it is there, in between, and how often: one whose machine
/// is gone hangs up by itself two minutes later, on Linux, macOS and FreeBSD.
const SILENCE: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_secs(10);
const TIMES: u32 = 6;

/// How long, in milliseconds, a client's machine may leave what it is sent without an acknowledgement. While there is
/// such, it is not asked whether it is there; the system by itself would go on sending for a quarter of an hour. On Linux.
#[cfg(target_os = "linux")]
const UNHEARD: u32 = 120_000;

/// Sets up what a client has opened. What the system does not do, it does not.
pub(super) fn prepare(socket: &tokio::net::TcpStream) {
    // Answers are written whole: waiting for more of them only delays.
    let _ = socket.set_nodelay(true);
    #[cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd"))]
    {
        use rustix::net::sockopt;
        let _ = sockopt::set_tcp_keepidle(socket, SILENCE);
        let _ = sockopt::set_tcp_keepintvl(socket, BETWEEN);
        let _ = sockopt::set_tcp_keepcnt(socket, TIMES);
        let _ = sockopt::set_socket_keepalive(socket, true);
        #[cfg(target_os = "linux")]
        let _ = sockopt::set_tcp_user_timeout(socket, UNHEARD);
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
    let _ = (SILENCE, BETWEEN, TIMES);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::net::sockopt;

    #[tokio::test]
    async fn a_client_whose_machine_is_gone_is_noticed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (there, here) =
            tokio::join!(tokio::net::TcpStream::connect(address), listener.accept());
        let (_there, here) = (there.unwrap(), here.unwrap().0);
        prepare(&here);
        assert!(sockopt::socket_keepalive(&here).unwrap());
        let longest = sockopt::tcp_keepidle(&here).unwrap()
            + sockopt::tcp_keepintvl(&here).unwrap() * sockopt::tcp_keepcnt(&here).unwrap();
        assert_eq!(longest, Duration::from_secs(120));
        // What it was sent and has not acknowledged is not asked after, but given up.
        assert_eq!(sockopt::tcp_user_timeout(&here).unwrap(), 120_000);
    }
}
