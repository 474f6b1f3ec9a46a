//! Reading whole files.
//!
//! Mechanism; slices run on the pool's threads.

use super::slice::{Slice, Work, run};
use crate::exec::stats::Direction;
use crate::exec::task::record_io;
use crate::mem;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The least room that is made for a file that is longer than it said.
const ROOM: usize = 8 << 10;

/// The bytes of a file.
///
/// # Errors
///
/// As [`std::fs::read`]. A file that does not fit the memory limit of the query's group is an error of the kind
/// [`OutOfMemory`](ErrorKind::OutOfMemory) and ends nobody.
///
/// # Cancel safety
///
/// It changes nothing. What nobody waits for any more is read no further than to the end of its slice.
///
/// # Metrics
///
/// `quotient_group_io_bytes_total`, direction `read`.
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref().to_owned();
    run(Reading::of(path, Ok)).await
}

/// The text of a file.
///
/// # Errors
///
/// As [`read`]; and [`InvalidData`](ErrorKind::InvalidData), if the file is not UTF-8.
///
/// # Cancel safety
///
/// As [`read`].
///
/// # Metrics
///
/// As [`read`].
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let path = path.as_ref().to_owned();
    run(Reading::of(path, text)).await
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    // The text is the standard library's.
    let not = "stream did not contain valid UTF-8";
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, not))
}

struct Reading<T> {
    path: PathBuf,
    /// None before the first slice.
    file: Option<File>,
    /// How long the file said that it is.
    length: usize,
    bytes: Vec<u8>,
    finish: fn(Vec<u8>) -> io::Result<T>,
}

impl<T: Send + 'static> Work for Reading<T> {
    type Output = T;
    const UNATTENDED: bool = false;

    fn slice(&mut self, most: usize) -> Slice<T> {
        let before = self.bytes.len();
        let is_whole = self.read(most);
        let bytes = (self.bytes.len() - before) as u64;
        record_io(Direction::Read, bytes);
        let end = match is_whole {
            Ok(false) => None,
            Ok(true) => Some((self.finish)(std::mem::take(&mut self.bytes))),
            Err(error) => Some(Err(error)),
        };
        Slice { bytes, end }
    }
}

impl<T> Reading<T> {
    fn of(path: PathBuf, finish: fn(Vec<u8>) -> io::Result<T>) -> Reading<T> {
        Reading {
            path,
            file: None,
            length: 0,
            bytes: Vec::new(),
            finish,
        }
    }

    /// A slice; true at the end of the file.
    fn read(&mut self, most: usize) -> io::Result<bool> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = File::open(&self.path)?;
                let length = file.metadata().map_or(0, |it| it.len());
                self.length = usize::try_from(length).unwrap_or(usize::MAX);
                make_room(&mut self.bytes, self.length)?;
                self.file.insert(file)
            }
        };
        let mut left = most;
        loop {
            // At the length that the file said the end is looked for, in the same slice and without making room.
            let is_due = self.bytes.len() == self.length;
            if is_due || left > 0 && self.bytes.len() == self.bytes.capacity() {
                let mut more = [0; 32];
                let room = more.len().min(left.max(1));
                let more = more.get_mut(..room).unwrap_or_default();
                let many = retried(|| (&mut &*file).read(more))?;
                if many == 0 {
                    return Ok(true);
                }
                let room = self.bytes.len().max(ROOM);
                make_room(&mut self.bytes, room)?;
                self.bytes
                    .extend_from_slice(more.get(..many).unwrap_or_default());
                left = left.saturating_sub(many);
            }
            if left == 0 {
                return Ok(false);
            }
            let many = append(file, &mut self.bytes, left)?;
            if many == 0 {
                return Ok(true);
            }
            left = left.saturating_sub(many);
        }
    }
}

/// Makes room for so many bytes more, or fails; nobody is killed for it.
fn make_room(bytes: &mut Vec<u8>, more: usize) -> io::Result<()> {
    mem::fallible(|| bytes.try_reserve_exact(more)).map_err(|_| ErrorKind::OutOfMemory.into())
}

/// Reads up to `most` bytes into the room that there is; zero at the end.
fn append(file: &File, bytes: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let room = bytes.capacity() - bytes.len();
    // In one call where it cannot be too much, which the vector's room says, and nothing else can.
    #[cfg(unix)]
    if room <= most {
        return retried(|| {
            let room = rustix::buffer::spare_capacity(bytes);
            rustix::io::read(file, room).map_err(io::Error::from)
        });
    }
    let most = u64::try_from(most.min(room)).unwrap_or(u64::MAX);
    (&mut &*file).take(most).read_to_end(bytes)
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
