//! Writing to a metered stream.
//!
//! Mechanism; whichever thread polls the stream. Flushing and shutting down pass no bytes of ours, and wait for nothing.

use super::Metered;
use crate::exec::stats::Direction;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

impl<T: AsyncWrite> Metered<T> {
    /// Has its turn for up to `len` bytes, at least one, and lets `write` write as many as it is granted.
    fn poll_turn_and_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        len: usize,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>, usize) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let turn = this.meter.poll_turn(Direction::Write, len as u64, cx);
        let granted = usize::try_from(ready!(turn)?).unwrap_or(len);
        let polled = write(this.inner, cx, granted);
        let written = match &polled {
            Poll::Ready(Ok(written)) => *written as u64,
            _ => 0,
        };
        this.meter.passed(Direction::Write, written);
        polled
    }
}

impl<T: AsyncWrite> AsyncWrite for Metered<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return self.project().inner.poll_write(cx, buf);
        }
        self.poll_turn_and_write(cx, buf.len(), |inner, cx, granted| {
            inner.poll_write(cx, buf.get(..granted).unwrap_or(buf))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len = bufs
            .iter()
            .fold(0, |sum: usize, buf| sum.saturating_add(buf.len()));
        if len == 0 {
            return self.project().inner.poll_write_vectored(cx, bufs);
        }
        self.poll_turn_and_write(cx, len, |inner, cx, granted| {
            if granted >= len {
                return inner.poll_write_vectored(cx, bufs);
            }
            match whole(bufs, granted) {
                Part::Slices(part) => inner.poll_write_vectored(cx, part),
                Part::Bytes(part) => inner.poll_write(cx, part),
            }
        })
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(cx)
    }
}

/// A beginning of some slices.
enum Part<'a, 'b> {
    Slices(&'a [IoSlice<'b>]),
    Bytes(&'a [u8]),
}

/// As much of the beginning as fits into `most` bytes, which is at least one: whole slices, or a part of the first.
fn whole<'a, 'b>(bufs: &'a [IoSlice<'b>], most: usize) -> Part<'a, 'b> {
    let mut sum = 0_usize;
    let fits = |buf: &&IoSlice<'_>| {
        sum = sum.saturating_add(buf.len());
        sum <= most
    };
    let slices = bufs.iter().take_while(fits).count();
    let (part, rest) = bufs.split_at(slices);
    if part.iter().any(|buf| !buf.is_empty()) {
        return Part::Slices(part);
    }
    let first: &[u8] = rest.first().map_or(&[], |buf| buf);
    Part::Bytes(first.get(..most).unwrap_or(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_write_takes_whole_slices_or_a_part_of_the_first() {
        let bufs = [&b""[..], b"ab", b"cde", b""].map(IoSlice::new);
        let lens = |most| match whole(&bufs, most) {
            Part::Slices(part) => part.iter().map(|buf| buf.len()).collect(),
            Part::Bytes(part) => vec![part.len()],
        };
        assert_eq!(lens(1), [1]);
        assert_eq!(lens(2), [0, 2]);
        assert_eq!(lens(4), [0, 2]);
        assert_eq!(lens(5), [0, 2, 3, 0]);
    }
}
