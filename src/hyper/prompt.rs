//! A connection whose client has to say soon which HTTP it speaks: hyper waits for that without a deadline.
//!
//! Mechanism; whichever worker polls the connection. From the first byte that cannot begin HTTP/2, or from the end of
//! its preface on, it is the connection it was made of: hyper's own deadlines hold from there.

use super::serve::HEADER_READ_TIMEOUT;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a client of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) struct Prompt<I> {
    io: I,
    awaited: Option<Awaited>,
}

struct Awaited {
    /// What is left of the preface that the client may be sending.
    preface: &'static [u8],
    deadline: Pin<Box<Sleep>>,
}

impl<I> Prompt<I> {
    pub(super) fn new(io: I) -> Prompt<I> {
        Prompt {
            io,
            awaited: Some(Awaited {
                preface: PREFACE,
                deadline: Box::pin(sleep(HEADER_READ_TIMEOUT)),
            }),
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Prompt<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(cx, buffer);
        let Some(awaited) = &mut this.awaited else {
            return read;
        };
        if read.is_pending() {
            ready!(awaited.deadline.as_mut().poll(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let said = buffer.filled().get(before..).unwrap_or_default();
        match awaited.preface.strip_prefix(said) {
            Some(left) if !left.is_empty() => awaited.preface = left,
            _ => this.awaited = None,
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Prompt<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
