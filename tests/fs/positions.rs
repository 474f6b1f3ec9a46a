//! Seeks, lengths, clones, and what is known of a file.

use super::side::fs::{File, FileTimes, OpenOptions};
use crate::saying::{Transcript, begin_to_read, line};
use std::io::{Read, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncSeek, AsyncSeekExt, AsyncWriteExt};

async fn for_both(room: &std::path::Path) -> (File, PathBuf) {
    let path = room.join("f");
    std::fs::write(&path, "0123456789").unwrap();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(&path).await.unwrap();
    (file, path)
}

pub async fn reads_writes_and_seeks_mix(room: PathBuf) -> Transcript {
    let (mut file, path) = for_both(&room).await;
    let mut bytes = [0; 3];
    let mut said = vec![line("read", file.read(&mut bytes).await)];
    said.push(line("write", file.write(b"XY").await));
    said.push(line("read", file.read(&mut bytes).await));
    said.push(format!("{bytes:?}"));
    said.push(line("seek", file.seek(SeekFrom::End(-2)).await));
    said.push(line("write", file.write_all(b"abcd").await));
    said.push(line("seek", file.seek(SeekFrom::Current(-6)).await));
    said.push(line("read", file.read_exact(&mut bytes).await));
    said.push(format!("{bytes:?}"));
    said.push(line("position", file.stream_position().await));
    said.push(line("rewind", file.rewind().await));
    said.push(line("hole", file.seek(SeekFrom::Start(20)).await));
    said.push(line("write", file.write_all(b"!").await));
    said.push(line("flush", file.flush().await));
    said.push(format!("{:?}", std::fs::read_to_string(&path).unwrap()));
    said
}

pub async fn a_seek_forgets_what_was_read_ahead(room: PathBuf) -> Transcript {
    let (mut file, path) = for_both(&room).await;
    let mut said = Vec::new();
    for step in [
        SeekFrom::Current(1),
        SeekFrom::Start(5),
        SeekFrom::Current(-3),
    ] {
        // Begun and dropped: six bytes are read, two of them are taken.
        begin_to_read(&mut file).await;
        let mut two = [0; 2];
        said.push(line("read", file.read_exact(&mut two).await));
        said.push(format!("{two:?}"));
        said.push(line("seek", file.seek(step).await));
    }
    begin_to_read(&mut file).await;
    said.push(line("read", file.read_exact(&mut [0; 1]).await));
    said.push(line("write", file.write_all(b"_").await));
    said.push(line("flush", file.flush().await));
    said.push(std::fs::read_to_string(&path).unwrap());
    // As far as a number goes.
    begin_to_read(&mut file).await;
    said.push(line("far", file.seek(SeekFrom::Current(i64::MIN)).await));
    said.push(line("position", file.stream_position().await));
    said
}

pub async fn a_seek_beyond_the_beginning_is_refused(room: PathBuf) -> Transcript {
    let (mut file, _) = for_both(&room).await;
    let mut said = vec![line("seek", file.seek(SeekFrom::Current(-1)).await)];
    said.push(line("seek", file.seek(SeekFrom::End(-11)).await));
    said.push(line("read", file.read(&mut [0; 64]).await));
    said.push(line("far", file.seek(SeekFrom::Start(u64::MAX)).await));
    said
}

pub async fn a_second_seek_must_wait(room: PathBuf) -> Transcript {
    let (mut file, _) = for_both(&room).await;
    let first = Pin::new(&mut file).start_seek(SeekFrom::Start(4));
    let second = Pin::new(&mut file).start_seek(SeekFrom::Start(5));
    let mut said = vec![line("first", first), line("second", second)];
    said.push(line("position", file.stream_position().await));
    said
}

pub async fn a_length_is_set_at_the_position_of_the_program(room: PathBuf) -> Transcript {
    let (mut file, path) = for_both(&room).await;
    begin_to_read(&mut file).await;
    let mut two = [0; 2];
    let mut said = vec![line("read", file.read_exact(&mut two).await)];
    said.push(line("shorter", file.set_len(8).await));
    said.push(line("position", file.stream_position().await));
    said.push(line("read", file.read(&mut [0; 64]).await));
    said.push(line("longer", file.set_len(12).await));
    said.push(line("read", file.read(&mut [0; 64]).await));
    said.push(format!("{:?}", std::fs::read(&path).unwrap()));
    let file = File::open(&path).await.unwrap();
    said.push(line("for reading", file.set_len(1).await));
    said.push(line("length", file.metadata().await.map(|it| it.len())));
    said
}

pub async fn clones_share_their_position(room: PathBuf) -> Transcript {
    let (mut file, path) = for_both(&room).await;
    let mut clone = file.try_clone().await.unwrap();
    let mut said = vec![line("read", file.read(&mut [0; 4]).await)];
    let mut bytes = [0; 2];
    said.push(line("clone", clone.read(&mut bytes).await));
    said.push(format!("{bytes:?}"));
    said.push(line("write", clone.write_all(b"..").await));
    // It waits for what is under way.
    let third = clone.try_clone().await.unwrap();
    said.push(std::fs::read_to_string(&path).unwrap());
    drop(third);
    said.push(line("file", file.stream_position().await));
    said
}

pub async fn the_standard_library_gets_its_file_back(room: PathBuf) -> Transcript {
    let (mut file, path) = for_both(&room).await;
    file.write_all(b"ab").await.unwrap();
    let mut std = file.into_std().await;
    let mut said = vec![std::fs::read_to_string(&path).unwrap()];
    let mut rest = String::new();
    said.push(line("std", std.read_to_string(&mut rest)));
    said.push(rest);
    let file = File::from_std(std);
    said.push(format!("{}", file.try_into_std().is_ok()));
    let (mut file, _) = for_both(&room).await;
    let _ = futures::poll!(Box::pin(file.metadata()));
    let std = {
        file.rewind().await.unwrap();
        file.into_std().await
    };
    said.push(line("length", std.metadata().map(|it| it.len())));
    said
}

pub async fn options_say_how_a_file_is_opened(room: PathBuf) -> Transcript {
    let path = room.join("f");
    let mut said = vec![line("none", OpenOptions::new().open(&path).await.map(drop))];
    said.push(line("missing", File::open(&path).await.map(drop)));
    let new = || File::create_new(&path);
    said.push(line("new", new().await.map(drop)));
    said.push(line("again", new().await.map(drop)));
    let mut both = OpenOptions::new();
    both.append(true);
    both.truncate(true);
    let refused = both.open(&path).await;
    said.push(line("append and truncate", refused.map(drop)));
    let with_mode = room.join("mode");
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o640);
    drop(options.open(&with_mode).await.unwrap());
    let mode = std::fs::metadata(&with_mode).unwrap().permissions().mode();
    said.push(format!("{mode:o}"));
    std::os::unix::fs::symlink(&path, room.join("link")).unwrap();
    // O_NOFOLLOW, as Linux has it on most machines.
    let flags = if cfg!(target_arch = "aarch64") {
        0o100_000
    } else {
        0o400_000
    };
    let link = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(room.join("link"))
        .await;
    said.push(line("a link", link.map(drop)));
    let std = std::fs::OpenOptions::new().read(true).clone();
    said.push(line(
        "std",
        OpenOptions::from(std).open(&path).await.map(drop),
    ));
    said
}

pub async fn permissions_and_metadata(room: PathBuf) -> Transcript {
    let (file, path) = for_both(&room).await;
    let known = file.metadata().await.unwrap();
    let mut said = vec![format!("{} {}", known.len(), known.is_file())];
    let mut permissions = known.permissions();
    permissions.set_mode(0o600);
    said.push(line("set", file.set_permissions(permissions).await));
    said.push(format!("{:o}", std::fs::metadata(&path).unwrap().mode()));
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let times = FileTimes::new().set_accessed(at(7)).set_modified(at(8));
    said.push(line("times", file.set_times(times).await));
    let known = std::fs::metadata(&path).unwrap();
    said.push(format!("{} {}", known.atime(), known.mtime()));
    said.push(line("modified", file.set_modified(at(9)).await));
    let known = std::fs::metadata(&path).unwrap();
    said.push(format!("{} {}", known.atime(), known.mtime()));
    said.push(line("sync", file.sync_all().await));
    said.push(line("sync", file.sync_data().await));
    said
}
