//! Writes, and when their errors are told.

use super::side::fs::{self, File, OpenOptions};
use crate::live::eventually;
use crate::room::pattern;
use crate::saying::{Transcript, line};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};

/// A file that cannot be written, but says so only when it is.
async fn for_reading(room: &Path) -> File {
    let path = room.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    File::open(&path).await.unwrap()
}

pub async fn a_write_is_accepted_before_it_is_done(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let mut file = File::create(&path).await.unwrap();
    let mut said = vec![line("write", file.write(b"hello").await)];
    said.push(line("flush", file.flush().await));
    said.push(std::fs::read_to_string(&path).unwrap());
    said.push(line("shutdown", file.shutdown().await));
    said.push(line("after it", file.write_all(b", world").await));
    said.push(line("sync", file.sync_data().await));
    said.push(line("flush", file.flush().await));
    said.push(std::fs::read_to_string(&path).unwrap());
    said
}

pub async fn an_error_is_told_by_the_next_flush(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = vec![line("write", file.write(b"x").await)];
    said.push(line("flush", file.flush().await));
    said.push(line("flush", file.flush().await));
    said
}

pub async fn an_error_is_told_by_the_next_write(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = Vec::new();
    for _ in 0..4 {
        said.push(line("write", file.write(b"x").await));
    }
    said.push(line("flush", file.flush().await));
    said.push(line("flush", file.flush().await));
    said
}

pub async fn an_error_is_kept_over_a_read(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = vec![line("write", file.write(b"x").await)];
    let mut bytes = [0; 4];
    said.push(line("read", file.read(&mut bytes).await));
    said.push(format!("{bytes:?}"));
    said.push(line("write", file.write(b"x").await));
    said.push(line("read", file.read(&mut bytes).await));
    said.push(line("flush", file.flush().await));
    said
}

pub async fn an_error_is_kept_over_a_seek(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = vec![line("write", file.write(b"x").await)];
    said.push(line("seek", file.seek(std::io::SeekFrom::Start(3)).await));
    said.push(line("write", file.write(b"x").await));
    said.push(line("flush", file.flush().await));
    said
}

pub async fn an_error_is_kept_over_a_sync(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = vec![line("write", file.write(b"x").await)];
    said.push(line("sync", file.sync_all().await));
    said.push(line("clone", file.try_clone().await.map(drop)));
    said.push(line("length", file.set_len(3).await));
    said.push(line("flush", file.flush().await));
    said.push(line("flush", file.flush().await));
    said
}

pub async fn a_full_disk_is_told(_: PathBuf) -> Transcript {
    let mut file = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .await
        .unwrap();
    let mut said = vec![line("write", file.write(b"x").await)];
    said.push(line("flush", file.flush().await));
    said.push(line("all", file.write_all(&[7; 3 << 20]).await));
    said.push(line("whole", fs::write("/dev/full", b"xyz").await));
    said.push(line("nothing", fs::write("/dev/full", b"").await));
    said
}

pub async fn a_dropped_file_writes_what_it_has_accepted(room: PathBuf) -> Transcript {
    let mut paths = Vec::new();
    for number in 0..16 {
        let path = room.join(format!("{number}"));
        let mut file = File::create(&path).await.unwrap();
        file.write_all(&pattern(70_000)).await.unwrap();
        paths.push(path);
    }
    for path in paths {
        let is_there = || std::fs::read(&path).unwrap() == pattern(70_000);
        eventually("it is written", is_there).await;
    }
    vec!["all written".to_owned()]
}

pub async fn many_parts_are_written_at_once(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let mut file = File::create(&path).await.unwrap();
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
    let mut said = vec![format!("{}", file.is_write_vectored())];
    said.push(line("write", file.write_vectored(&parts).await));
    file.set_max_buf_size(3);
    said.push(line("less", file.write_vectored(&parts).await));
    said.push(line("less", file.write(b"123456").await));
    said.push(line("flush", file.flush().await));
    said.push(std::fs::read_to_string(&path).unwrap());
    let mut file = File::open(&path).await.unwrap();
    file.set_max_buf_size(3);
    said.push(format!(
        "{}",
        file.try_clone().await.unwrap().max_buf_size()
    ));
    said.push(line("less", file.read(&mut [0; 64]).await));
    said
}

pub async fn appending_is_always_at_the_end(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let mut options = OpenOptions::new();
    options.append(true).create(true).read(true);
    let mut one = options.open(&path).await.unwrap();
    let mut other = options.open(&path).await.unwrap();
    let mut said = Vec::new();
    for number in 0..3 {
        let file = if number == 1 { &mut other } else { &mut one };
        file.rewind().await.unwrap();
        let text = format!("<{number}>");
        said.push(line("write", file.write_all(text.as_bytes()).await));
        said.push(line("flush", file.flush().await));
    }
    said.push(line("position", one.stream_position().await));
    said.push(std::fs::read_to_string(&path).unwrap());
    said
}

pub async fn megabytes_pass_through(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let bytes = pattern((5 << 20) + 3);
    let mut file = File::create_new(&path).await.unwrap();
    let mut said = vec![line("write", file.write_all(&bytes).await)];
    said.push(line("flush", file.flush().await));
    said.push(line("rewind", file.rewind().await));
    let mut read = Vec::new();
    said.push(line("read", file.read_to_end(&mut read).await));
    said.push(format!("the same: {}", read == bytes));
    let mut large = vec![0; bytes.len()];
    file.rewind().await.unwrap();
    said.push(line("exactly", file.read_exact(&mut large).await));
    said.push(format!("the same: {}", large == bytes));
    said
}

pub async fn nothing_can_be_written(room: PathBuf) -> Transcript {
    let mut file = for_reading(&room).await;
    let mut said = vec![line("write", file.write(b"").await)];
    said.push(line("flush", file.flush().await));
    said
}
