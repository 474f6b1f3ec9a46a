//! Reading from a metered stream.
//!
//! Mechanism; whichever thread polls the stream.

use super::Metered;
use crate::exec::stats::Direction;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

impl<T: AsyncRead> AsyncRead for Metered<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let room = buf.remaining();
        if room == 0 {
            return this.inner.poll_read(cx, buf);
        }
        let turn = this.meter.poll_turn(Direction::Read, room as u64, cx);
        let granted = usize::try_from(ready!(turn)?).unwrap_or(room);
        let before = buf.filled().len();
        let polled = if granted >= room {
            this.inner.poll_read(cx, buf)
        } else {
            // Without unsafe code a part of a buffer has to be initialised, which happens once per buffer.
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(granted));
            let polled = this.inner.poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            polled
        };
        let read = buf.filled().len().saturating_sub(before);
        this.meter.passed(Direction::Read, read as u64);
        polled
    }
}
