//! The bytes that a file holds between the program and the kernel.
//!
//! Mechanism; whichever thread has the file. The memory beyond the bytes is kept as it is, not cleared, so that it is
//! written with zeros once at most.

use std::io::{ErrorKind, IoSlice, Read, Result};
use tokio::io::ReadBuf;

#[derive(Debug, Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..self.end).unwrap_or_default()
    }

    /// Forgets its bytes; how many they were.
    pub(super) fn discard(&mut self) -> usize {
        let left = self.len();
        (self.start, self.end) = (0, 0);
        left
    }

    /// Gives as many bytes as there is room for.
    pub(super) fn give(&mut self, to: &mut ReadBuf<'_>) {
        let many = self.len().min(to.remaining());
        if let Some(bytes) = self.bytes().get(..many) {
            to.put_slice(bytes);
            self.start += many;
        }
    }

    /// Takes up to `most` bytes from the front of several buffers, in place of what it has; how many.
    pub(super) fn take(&mut self, from: &[IoSlice<'_>], most: usize) -> usize {
        self.memory.clear();
        for part in from {
            let many = part.len().min(most - self.memory.len());
            self.memory
                .extend_from_slice(part.get(..many).unwrap_or_default());
        }
        (self.start, self.end) = (0, self.memory.len());
        self.end
    }

    /// One read of at most `most` bytes, in place of what it has.
    pub(super) fn read_from(&mut self, source: &mut impl Read, most: usize) -> Result<usize> {
        self.discard();
        if self.memory.len() < most {
            self.memory.resize(most, 0);
        }
        let room = self.memory.get_mut(..most).unwrap_or_default();
        loop {
            match source.read(room) {
                Ok(many) => {
                    self.end = many.min(most);
                    return Ok(self.end);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_kept_for_the_next_time() {
        let mut buffer = Buffer::default();
        assert_eq!(buffer.read_from(&mut &b"abcdef"[..], 4).ok(), Some(4));
        let mut room = [0; 3];
        let mut to = ReadBuf::new(&mut room);
        buffer.give(&mut to);
        assert_eq!((to.filled(), buffer.bytes()), (&b"abc"[..], &b"d"[..]));
        assert_eq!(buffer.discard(), 1);
        assert!(buffer.is_empty());
    }

    #[test]
    fn it_takes_no_more_than_it_may() {
        let mut buffer = Buffer::default();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cd"), IoSlice::new(b"e")];
        assert_eq!(buffer.take(&parts, 3), 3);
        assert_eq!(buffer.bytes(), b"abc");
        assert_eq!(buffer.take(&parts, 9), 5);
        assert_eq!(buffer.bytes(), b"abcde");
        // Reading afterwards gives what is read, not what was there.
        assert_eq!(buffer.read_from(&mut &b"xyz"[..], 9).ok(), Some(3));
        assert_eq!(buffer.bytes(), b"xyz");
    }
}
