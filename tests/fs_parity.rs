//! The same scenarios on `tokio::fs` and on `quotient::fs`: what comes of them must be equal, errors included.
//!
//! Each file of `tests/fs/` is compiled twice, against tokio's names and against ours. A scenario is given an empty
//! directory and returns a transcript; tokio's is the expectation. Each runs on a multi-thread and on a current-thread
//! runtime and on the governor's own threads, outside of tasks and inside an admitted query.

#![cfg(target_os = "linux")]
#![allow(clippy::duplicate_mod, reason = "the point of this test")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
#[path = "fs/room.rs"]
mod room;
#[path = "fs/saying.rs"]
mod saying;
mod support;

use futures::future::BoxFuture;
use live::{WORKERS, flavours, governor, named, settled, watched};
use room::Room;
use saying::Transcript;
use std::path::PathBuf;

#[path = "fs"]
mod on_tokio {
    pub mod side {
        pub use tokio::fs;
    }
    pub mod directories;
    pub mod positions;
    pub mod reading;
    pub mod whole;
    pub mod writing;
}

#[path = "fs"]
mod on_quotient {
    pub mod side {
        pub use quotient::fs;
    }
    pub mod directories;
    pub mod positions;
    pub mod reading;
    pub mod whole;
    pub mod writing;
}

const GROUP: &str = "g";
const SQL: &str = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1')";

type Scenario = fn(PathBuf) -> BoxFuture<'static, Transcript>;

fn compare(name: &str, tokio: Scenario, quotient: Scenario) {
    let _watched = watched(name);
    for (flavour, ground, plain) in flavours() {
        let room = Room::new();
        let expected = plain().block_on(tokio(room.path()));
        assert!(!expected.is_empty(), "a scenario says something");
        let ground = ground();
        let governor = governor(&ground, WORKERS, SQL);
        for inside in [false, true] {
            let room = Room::new();
            let found = ground.block_on(async {
                if inside {
                    let query = governor.admit(&named(GROUP)).await.unwrap();
                    query.run(quotient(room.path())).await.unwrap()
                } else {
                    let _entered = governor.enter();
                    quotient(room.path()).await
                }
            });
            assert_eq!(found, expected, "{name}: {flavour}, in a query: {inside}");
            ground.block_on(async {
                settled(&governor, GROUP).await;
                let again = || governor.try_admit(&named(GROUP)).is_ok();
                live::eventually("the place is free", again).await;
            });
        }
    }
}

macro_rules! same_as_tokio {
    ($($room:ident :: { $($scenario:ident),+ $(,)? })+) => {$(
        mod $room {$(
            #[test]
            fn $scenario() {
                super::compare(
                    stringify!($scenario),
                    |path| Box::pin(super::on_tokio::$room::$scenario(path)),
                    |path| Box::pin(super::on_quotient::$room::$scenario(path)),
                );
            }
        )+}
    )+};
}

same_as_tokio! {
    reading::{
        a_file_is_read_in_parts,
        a_buffer_without_room_is_filled_at_once,
        what_a_cancelled_read_has_read_is_kept,
        a_pipe_gives_what_there_is,
        a_directory_cannot_be_read,
        a_file_without_a_length_is_read_whole,
        many_readers_of_clones_take_turns,
    }
    writing::{
        a_write_is_accepted_before_it_is_done,
        an_error_is_told_by_the_next_flush,
        an_error_is_told_by_the_next_write,
        an_error_is_kept_over_a_read,
        an_error_is_kept_over_a_seek,
        an_error_is_kept_over_a_sync,
        a_full_disk_is_told,
        a_dropped_file_writes_what_it_has_accepted,
        many_parts_are_written_at_once,
        appending_is_always_at_the_end,
        megabytes_pass_through,
        nothing_can_be_written,
    }
    positions::{
        reads_writes_and_seeks_mix,
        a_seek_forgets_what_was_read_ahead,
        a_seek_beyond_the_beginning_is_refused,
        a_second_seek_must_wait,
        a_length_is_set_at_the_position_of_the_program,
        clones_share_their_position,
        the_standard_library_gets_its_file_back,
        options_say_how_a_file_is_opened,
        permissions_and_metadata,
    }
    whole::{
        files_of_all_sizes_are_written_and_read,
        a_dropped_write_is_written_to_its_end,
        text_must_be_utf8,
        copies_have_bytes_and_permissions,
        copies_refuse_what_is_no_file,
        links_lead_and_names_change,
        what_is_missing_is_an_error_everywhere,
    }
    directories::{
        are_made_and_removed,
        list_everything_that_is_in_them,
        are_made_with_options,
    }
}
