//! Reads.

use super::side::fs::{self, File};
use crate::room::pattern;
use crate::saying::{Transcript, begin_to_read, line};
use std::path::PathBuf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub async fn a_file_is_read_in_parts(room: PathBuf) -> Transcript {
    let path = room.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    let mut file = File::open(&path).await.unwrap();
    let mut said = Vec::new();
    for room in [1, 4, 3, 8, 8] {
        let mut bytes = vec![0; room];
        let read = file.read(&mut bytes).await;
        bytes.truncate(*read.as_ref().unwrap());
        said.push(line("read", read.map(|_| bytes)));
    }
    let mut rest = vec![0; 1];
    said.push(line("exactly", file.read_exact(&mut rest).await));
    said
}

pub async fn a_buffer_without_room_is_filled_at_once(room: PathBuf) -> Transcript {
    let path = room.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    let mut file = File::open(&path).await.unwrap();
    let mut said = vec![line("nothing", file.read(&mut []).await)];
    let mut text = String::new();
    said.push(line("all", file.read_to_string(&mut text).await));
    said.push(text);
    // Opened for writing only, but nothing is asked of the kernel.
    let mut file = File::create(&path).await.unwrap();
    said.push(line("nothing", file.read(&mut []).await));
    said.push(line("something", file.read(&mut [0; 4]).await));
    said
}

pub async fn what_a_cancelled_read_has_read_is_kept(room: PathBuf) -> Transcript {
    let path = room.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    let mut file = File::open(&path).await.unwrap();
    begin_to_read(&mut file).await;
    let mut said = Vec::new();
    for _ in 0..4 {
        let mut small = [0; 4];
        said.push(line("read", file.read(&mut small).await));
        said.push(format!("{small:?}"));
    }
    said
}

pub async fn a_pipe_gives_what_there_is(room: PathBuf) -> Transcript {
    let path = room.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || std::fs::OpenOptions::new().write(true).open(path).unwrap()
    });
    let mut reader = File::open(&path).await.unwrap();
    let mut writer = File::from_std(writer.join().unwrap());
    let mut said = Vec::new();
    for text in ["one", "seven", ""] {
        if text.is_empty() {
            drop(writer.into_std().await);
            said.push(line("end", reader.read(&mut [0; 64]).await));
            break;
        }
        writer.write_all(text.as_bytes()).await.unwrap();
        writer.flush().await.unwrap();
        // There is room for more, and it does not wait for it.
        let mut bytes = [0; 64];
        said.push(line("read", reader.read(&mut bytes).await));
    }
    said
}

pub async fn a_directory_cannot_be_read(room: PathBuf) -> Transcript {
    let mut file = File::open(&room).await.unwrap();
    let mut said = vec![line("read", file.read(&mut [0; 4]).await)];
    said.push(line("again", file.read(&mut [0; 4]).await));
    said.push(line("whole", fs::read(&room).await));
    said.push(line("text", fs::read_to_string(&room).await));
    said
}

pub async fn a_file_without_a_length_is_read_whole(_: PathBuf) -> Transcript {
    let known = std::fs::read("/proc/cpuinfo").unwrap();
    let read = fs::read("/proc/version").await.unwrap();
    let long = fs::read("/proc/cpuinfo").await.unwrap();
    vec![
        format!("{}", long.len().abs_diff(known.len()) < 4_096),
        String::from_utf8(read).unwrap(),
    ]
}

pub async fn many_readers_of_clones_take_turns(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let bytes = pattern(64 << 10);
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut clone = file.try_clone().await.unwrap();
        readers.push(async move {
            let mut parts = Vec::new();
            loop {
                let mut part = vec![0; 1 << 10];
                let many = clone.read(&mut part).await.unwrap();
                if many == 0 {
                    break parts;
                }
                part.truncate(many);
                parts.push(part);
            }
        });
    }
    let mut parts: Vec<_> = futures::future::join_all(readers).await.concat();
    parts.sort();
    let mut expected: Vec<_> = bytes.chunks(1 << 10).map(<[u8]>::to_vec).collect();
    expected.sort();
    vec![format!("every part once: {}", parts == expected)]
}
