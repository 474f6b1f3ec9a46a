//! Directories.

use super::side::fs::{self, DirBuilder};
use crate::saying::{Transcript, line};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

pub async fn are_made_and_removed(room: PathBuf) -> Transcript {
    let deep = room.join("a/b/c");
    let mut said = vec![line("deep", fs::create_dir(&deep).await)];
    said.push(line("all", fs::create_dir_all(&deep).await));
    said.push(line("again", fs::create_dir_all(&deep).await));
    said.push(line("one", fs::create_dir(&deep).await));
    said.push(line("not empty", fs::remove_dir(room.join("a")).await));
    said.push(line("empty", fs::remove_dir(&deep).await));
    std::fs::write(room.join("a/f"), "x").unwrap();
    said.push(line("a file", fs::remove_dir(room.join("a/f")).await));
    said.push(line("no file", fs::remove_file(room.join("a")).await));
    said.push(line("everything", fs::remove_dir_all(room.join("a")).await));
    said.push(format!("{}", room.join("a").exists()));
    said
}

pub async fn list_everything_that_is_in_them(room: PathBuf) -> Transcript {
    let mut said = Vec::new();
    for many in [0, 1, 31, 32, 33, 64, 100] {
        let directory = room.join(format!("{many}"));
        std::fs::create_dir(&directory).unwrap();
        for number in 0..many {
            std::fs::write(directory.join(format!("{number:03}")), vec![0; number]).unwrap();
        }
        let mut entries = fs::read_dir(&directory).await.unwrap();
        let mut found = Vec::new();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            assert!(entry.ino() > 0 && entry.path().starts_with(&directory));
            let length = entry.metadata().await.unwrap().len();
            let kind = entry.file_type().await.unwrap();
            found.push(format!(
                "{:?} {length} {}",
                entry.file_name(),
                kind.is_file()
            ));
        }
        found.sort();
        said.push(format!("{many}: {found:?}"));
        said.push(line(
            "after the end",
            entries.next_entry().await.map(|it| it.is_none()),
        ));
    }
    std::fs::write(room.join("f"), "").unwrap();
    said.push(line("a file", fs::read_dir(room.join("f")).await.map(drop)));
    let mut entries = fs::read_dir(&room).await.unwrap();
    let mut directories = 0;
    while let Some(entry) = entries.next_entry().await.unwrap() {
        directories += usize::from(entry.file_type().await.unwrap().is_dir());
    }
    said.push(format!("{directories} directories"));
    said
}

pub async fn are_made_with_options(room: PathBuf) -> Transcript {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    let mut said = vec![line("deep", builder.create(room.join("a/b")).await)];
    said.push(line("one", builder.create(room.join("a")).await));
    said.push(line("again", builder.create(room.join("a")).await));
    builder.recursive(true);
    said.push(line("deep", builder.create(room.join("a/b/c")).await));
    said.push(line("again", builder.create(room.join("a")).await));
    let mode = std::fs::metadata(room.join("a/b/c"))
        .unwrap()
        .permissions()
        .mode();
    said.push(format!("{mode:o}"));
    said
}
