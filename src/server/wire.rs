//! One client's socket: frames in, messages out, each within its caps and deadlines.
//!
//! Mechanism, on the server's thread.
//!
//! 1. A frame's length is judged before its body is read: a client makes the server hold one frame and what is behind it.
//! 2. Who neither sends nor takes a byte for the stall timeout in the middle of something is cut.
//! 3. While nothing is read, because a statement runs, a client that hangs up is noticed all the same.
//! 4. Nothing is held over an await but the socket's own buffers: a slow client makes nobody wait.

use super::fault::Fault;
use super::frame::{self, First, Malformed, Message};
use super::socket::Socket;
use bytes::{Buf, BytesMut};
use pgwire::messages::PgWireBackendMessage;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Answers are handed to the system in parts of about this size.
const PART: usize = 32 << 10;

/// Whoever has said more than was read may have hung up behind it, which nothing tells of itself.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Why there is no further message.
#[derive(Debug)]
pub(super) enum Broken {
    /// The client is gone, or does not move.
    Gone,
    /// The connection ends, and the client is told why.
    Fault(Fault),
    /// A message was read to its end and cannot be understood, but the next one can. Whether it was a simple query.
    Unreadable(Fault, bool),
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Gone
    }
}

pub(super) struct Wire {
    socket: Box<dyn Socket>,
    input: BytesMut,
    output: BytesMut,
    stall: Duration,
}

impl Wire {
    pub(super) fn new(socket: Box<dyn Socket>, stall: Duration) -> Wire {
        Wire {
            socket,
            input: BytesMut::new(),
            output: BytesMut::new(),
            stall,
        }
    }

    /// Waits until so many bytes are there, with the stall timeout between any two reads.
    async fn fill(&mut self, bytes: usize) -> Result<(), Broken> {
        while self.input.len() < bytes {
            let read = timeout(self.stall, self.socket.read_buf(&mut self.input));
            match read.await {
                Ok(Ok(more)) if more > 0 => {}
                _ => return Err(Broken::Gone),
            }
        }
        Ok(())
    }

    fn length(&self, at: usize) -> Option<usize> {
        let length = self.input.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(i32::from_be_bytes(length)).ok()
    }

    /// Waits for the first byte of a message, without a deadline.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn readable(&mut self) -> Result<(), Broken> {
        if self.input.is_empty() && self.socket.read_buf(&mut self.input).await? == 0 {
            return Err(Broken::Gone);
        }
        Ok(())
    }

    /// Waits until the client has hung up, and says no more. What it said before is not read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(super) async fn hung_up(&self) {
        while let Ok(ready) = self.socket.readable().await {
            if ready.is_read_closed() {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    /// The next message, of `cap` bytes at most.
    pub(super) async fn message(&mut self, cap: usize) -> Result<Message, Broken> {
        self.fill(5).await?;
        let letter = self.input.first().copied().unwrap_or_default();
        let body = match self.length(1) {
            Some(length) if length > cap => {
                let fault =
                    Fault::fatal("54000", format!("a message of {length} bytes is too long"));
                return Err(Broken::Fault(
                    fault.hint(format!("{cap} bytes are allowed")),
                ));
            }
            Some(length @ 4..) => length - 4,
            _ => {
                return Err(Broken::Fault(Fault::protocol(
                    "a message has no valid length",
                )));
            }
        };
        self.fill(5 + body).await?;
        self.input.advance(5);
        let body = self.input.split_to(body);
        frame::message(letter, &body).map_err(|malformed| {
            let fault = Fault::of_malformed(&malformed);
            match malformed {
                Malformed::NotUtf8 => Broken::Unreadable(fault, letter == b'Q'),
                _ => Broken::Fault(fault),
            }
        })
    }

    /// One of the first packets, which have no letter.
    pub(super) async fn first(&mut self) -> Result<First, Broken> {
        /// As in PostgreSQL.
        const MOST: usize = 10_000;
        self.fill(4).await?;
        let body = match self.length(0) {
            Some(length @ 8..=MOST) => length - 4,
            _ => {
                return Err(Broken::Fault(Fault::protocol(
                    "invalid length of startup packet",
                )));
            }
        };
        self.fill(4 + body).await?;
        self.input.advance(4);
        let body = self.input.split_to(body);
        frame::first(&body).map_err(|it| Broken::Fault(Fault::of_malformed(&it)))
    }

    /// Puts a message behind those that wait to be sent, and sends them when they have become many.
    pub(super) async fn feed(&mut self, message: PgWireBackendMessage) -> Result<(), Broken> {
        let before = self.output.len();
        if message.encode(&mut self.output).is_err() {
            // Over one of the library's own caps: nobody needs such a message.
            self.output.truncate(before);
        }
        if self.output.len() >= PART {
            self.flush().await?;
        }
        Ok(())
    }

    pub(super) async fn feed_bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.output.extend_from_slice(bytes);
        self.flush().await
    }

    /// Sends what waits.
    pub(super) async fn flush(&mut self) -> Result<(), Broken> {
        while !self.output.is_empty() {
            let write = timeout(self.stall, self.socket.write_buf(&mut self.output));
            match write.await {
                Ok(Ok(more)) if more > 0 => {}
                _ => return Err(Broken::Gone),
            }
        }
        let flushed = timeout(self.stall, self.socket.flush()).await;
        if self.output.capacity() > 4 * PART {
            self.output = BytesMut::new();
        }
        match flushed {
            Ok(Ok(())) => Ok(()),
            _ => Err(Broken::Gone),
        }
    }

    /// Gives back what a large message has left behind.
    pub(super) fn rest(&mut self) {
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
    }

    /// The last word. What the client still sends is thrown away for a moment, so that the word reaches it.
    pub(super) async fn close(mut self, fault: Option<Fault>) {
        const MOMENT: Duration = Duration::from_secs(1);
        if let Some(fault) = fault {
            let message = PgWireBackendMessage::ErrorResponse(fault.into_info().into());
            if self.feed(message).await.is_err() || self.flush().await.is_err() {
                return;
            }
        }
        let drain = async {
            self.socket.shutdown().await?;
            loop {
                self.input.clear();
                if self.socket.read_buf(&mut self.input).await? == 0 {
                    return io::Result::Ok(());
                }
            }
        };
        let _ = timeout(MOMENT.min(self.stall), drain).await;
    }
}
