//! Whole files, copies, links and names.

use super::side::fs;
use crate::live::eventually;
use crate::room::pattern;
use crate::saying::{Transcript, line};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const MIB: usize = 1 << 20;

pub async fn files_of_all_sizes_are_written_and_read(room: PathBuf) -> Transcript {
    let mut said = Vec::new();
    let path = room.join("f");
    for length in [
        3 * MIB + 1,
        2 * MIB,
        MIB + 1,
        MIB,
        MIB - 1,
        8_192,
        33,
        32,
        1,
        0,
    ] {
        let bytes = pattern(length);
        said.push(line("write", fs::write(&path, &bytes).await));
        let read = fs::read(&path).await.unwrap();
        said.push(format!("{length}: {}", read == bytes));
    }
    said.push(line(
        "owned",
        fs::write(path.clone(), String::from("text")).await,
    ));
    said.push(line("text", fs::read_to_string(path).await));
    said
}

pub async fn a_dropped_write_is_written_to_its_end(room: PathBuf) -> Transcript {
    let mut said = Vec::new();
    for polls in 1..4 {
        let path = room.join(format!("{polls}"));
        let bytes = pattern(5 * MIB + 7);
        let mut writing = Box::pin(fs::write(path.clone(), bytes.clone()));
        let mut begun = 0;
        while begun < polls && futures::poll!(&mut writing).is_pending() {
            begun += 1;
            if begun < polls {
                tokio::task::yield_now().await;
            }
        }
        drop(writing);
        let is_there = || std::fs::read(&path).is_ok_and(|it| it == bytes);
        eventually("all of it is written", is_there).await;
        said.push(format!("{polls}: written"));
    }
    said
}

pub async fn text_must_be_utf8(room: PathBuf) -> Transcript {
    let path = room.join("f");
    std::fs::write(&path, b"ab\xff").unwrap();
    vec![line("text", fs::read_to_string(&path).await)]
}

pub async fn copies_have_bytes_and_permissions(room: PathBuf) -> Transcript {
    let (from, to) = (room.join("from"), room.join("to"));
    let mut said = Vec::new();
    for length in [2 * MIB + 5, 2 * MIB, 10, 0] {
        std::fs::write(&from, pattern(length)).unwrap();
        std::fs::set_permissions(&from, PermissionsExt::from_mode(0o640)).unwrap();
        said.push(line("copy", fs::copy(&from, &to).await));
        said.push(format!(
            "{}",
            std::fs::read(&to).unwrap() == pattern(length)
        ));
        let mode = std::fs::metadata(&to).unwrap().permissions().mode();
        said.push(format!("{mode:o}"));
    }
    said
}

pub async fn copies_refuse_what_is_no_file(room: PathBuf) -> Transcript {
    let file = room.join("f");
    std::fs::write(&file, "x").unwrap();
    let mut said = vec![line("a directory", fs::copy(&room, room.join("to")).await)];
    said.push(line("to one", fs::copy(&file, &room).await));
    said.push(line("missing", fs::copy(room.join("none"), &file).await));
    said.push(line(
        "to nowhere",
        fs::copy(&file, room.join("no/where")).await,
    ));
    said.push(line("to the full", fs::copy(&file, "/dev/full").await));
    said.push(line("there is", fs::try_exists(room.join("to")).await));
    said
}

pub async fn links_lead_and_names_change(room: PathBuf) -> Transcript {
    let at = |name: &str| room.join(name);
    std::fs::write(at("a"), "hello").unwrap();
    let mut said = vec![line("hard", fs::hard_link(at("a"), at("b")).await)];
    said.push(line("soft", fs::symlink("b", at("c")).await));
    said.push(line("again", fs::symlink("b", at("c")).await));
    said.push(line("leads", fs::read_link(at("c")).await));
    said.push(line("no link", fs::read_link(at("a")).await));
    let of = |it: std::fs::Metadata| (it.is_symlink(), it.is_file(), it.is_dir());
    said.push(line("link", fs::symlink_metadata(at("c")).await.map(of)));
    said.push(line("target", fs::metadata(at("c")).await.map(of)));
    let whole = fs::canonicalize(at("c")).await.unwrap();
    said.push(format!(
        "{}",
        whole == std::fs::canonicalize(at("b")).unwrap()
    ));
    said.push(line("rename", fs::rename(at("a"), at("d")).await));
    said.push(line("there is", fs::try_exists(at("a")).await));
    said.push(line("there is", fs::try_exists(at("d")).await));
    said.push(line("remove", fs::remove_file(at("b")).await));
    said.push(line("leads nowhere", fs::read(at("c")).await));
    said.push(line("there is", fs::try_exists(at("c")).await));
    let closed = std::fs::Permissions::from_mode(0o400);
    said.push(line(
        "permissions",
        fs::set_permissions(at("d"), closed).await,
    ));
    let mode = fs::metadata(at("d")).await.unwrap().permissions().mode();
    said.push(format!("{mode:o}"));
    said
}

pub async fn what_is_missing_is_an_error_everywhere(room: PathBuf) -> Transcript {
    let none = room.join("none");
    vec![
        line("read", fs::read(&none).await),
        line("text", fs::read_to_string(&none).await),
        line("write", fs::write(none.join("f"), b"x").await),
        line("metadata", fs::metadata(&none).await.map(drop)),
        line("symlink", fs::symlink_metadata(&none).await.map(drop)),
        line("remove", fs::remove_file(&none).await),
        line("directory", fs::remove_dir(&none).await),
        line("all", fs::remove_dir_all(&none).await),
        line("rename", fs::rename(&none, room.join("x")).await),
        line("hard", fs::hard_link(&none, room.join("x")).await),
        line("leads", fs::read_link(&none).await),
        line("whole", fs::canonicalize(&none).await),
        line("list", fs::read_dir(&none).await.map(drop)),
        line("create", fs::create_dir(none.join("x")).await),
        line("there is", fs::try_exists(none.join("x")).await),
        line("a file is no directory", {
            std::fs::write(room.join("f"), "").unwrap();
            fs::try_exists(room.join("f/x")).await
        }),
    ]
}
