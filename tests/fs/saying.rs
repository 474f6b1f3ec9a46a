//! What scenarios say.

use std::fmt::Debug;
use std::io::{self, SeekFrom};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeek, AsyncSeekExt};

/// What happened, line by line; equal on both sides.
pub type Transcript = Vec<String>;

/// A result as a line: of an error its kind, number and text.
pub fn line<T: Debug>(what: &str, result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{what}: {value:?}"),
        Err(error) => format!(
            "{what}: {:?} {:?} {error}",
            error.kind(),
            error.raw_os_error()
        ),
    }
}

/// Begins to read six bytes and gives it up, which does not end it. One that was done at once is begun anew.
pub async fn begin_to_read(file: &mut (impl AsyncRead + AsyncSeek + Unpin)) {
    loop {
        let read = futures::poll!(Box::pin(file.read(&mut [0; 6])));
        let std::task::Poll::Ready(read) = read else {
            return;
        };
        let back = -i64::try_from(read.unwrap()).unwrap();
        file.seek(SeekFrom::Current(back)).await.unwrap();
    }
}
