//! Reading, writing and seeking by polls.
//!
//! Mechanism; the thread that polls. Each waits for what is under way, and then begins its own: as tokio's file does,
//! a write returns before it is done, a read and a seek when they are.

use super::super::toll::Pass;
use super::File;
use super::cursor::{Cursor, Done};
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let file = self.get_mut();
        let most = to.remaining().min(file.most());
        let cursor = file.cursor.get_mut();
        loop {
            let read = match ready!(cursor.poll_done(cx))? {
                Some(Done::Read(read)) => Some(read),
                other => {
                    cursor.note(other);
                    None
                }
            };
            let has_read = read.transpose()?.is_some();
            if has_read || !cursor.buffer.is_empty() || most == 0 {
                cursor.buffer.give(to);
                return Poll::Ready(Ok(()));
            }
            let pass = ready!(file.toll.poll(most, cx))?;
            cursor.start_read(&file.std, pass);
        }
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let file = self.get_mut();
        let cursor = file.cursor.get_mut();
        if cursor.is_busy() {
            // The text is tokio's.
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        cursor.start_seek(&file.std, to);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let cursor = self.get_mut().cursor.get_mut();
        match ready!(cursor.poll_done(cx))? {
            Some(Done::Seek(sought)) => {
                if let Ok(position) = sought {
                    cursor.position = position;
                }
                Poll::Ready(sought)
            }
            other => {
                cursor.note(other);
                Poll::Ready(Ok(cursor.position))
            }
        }
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let file = self.get_mut();
        let most = file.most();
        let cursor = file.cursor.get_mut();
        cursor.told()?;
        if let Some(Done::Write(written)) = ready!(cursor.poll_done(cx))? {
            written?;
        }
        let want = bytes.iter().map(|part| part.len()).sum::<usize>().min(most);
        let pass = match want {
            0 => Pass::free(most),
            want => ready!(file.toll.poll(want, cx))?,
        };
        Poll::Ready(cursor.start_write(&file.std, bytes, pass))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().cursor.get_mut().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl Cursor {
    /// An operation ended that the caller did not wait for.
    fn note(&mut self, done: Option<Done>) {
        match done {
            Some(Done::Write(Err(error))) => self.write_error = Some(error.kind()),
            Some(Done::Seek(Ok(position))) => self.position = position,
            _ => {}
        }
    }
}
