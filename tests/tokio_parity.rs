//! The same scenarios on `tokio::spawn` and on ours: outcomes, texts and the order of events must be equal.
//!
//! Each file of `tokio_parity/` is compiled twice, against tokio's names and against ours, which also shows
//! that ours can be dropped in. A scenario returns a transcript; tokio's is the expectation. Each runs on a
//! multi-thread and on a current-thread runtime and on the governor's own threads, from outside any task, inside a task of a group, and inside
//! an admitted query; afterwards the group's accounts must be at zero and its one place free.

#![allow(clippy::duplicate_mod, reason = "the point of this test")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

#[path = "tokio_parity/bounds.rs"]
mod bounds;
mod live;
#[path = "tokio_parity/scene.rs"]
mod scene;
mod support;

use futures::future::BoxFuture;
use live::{Ground, WORKERS, alive, flavours, governor, named, settled, watched};
use scene::Transcript;
use tokio::runtime::Runtime;

#[path = "tokio_parity"]
mod on_tokio {
    pub mod side {
        pub use tokio::spawn;
        pub use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};
        pub use tokio::task::{consume_budget, id, spawn_blocking, try_id, yield_now};
        pub use tokio_util::task::{AbortOnDrop, AbortOnDropHandle};
    }
    pub mod aborting;
    pub mod blocking;
    pub mod errors;
    pub mod guards;
    pub mod handles;
    pub mod inside;
    pub mod outcome;
    pub mod panics;
    pub mod sets;
    pub mod spawning;
}

#[path = "tokio_parity"]
mod on_quotient {
    pub mod side {
        pub use quotient::spawn;
        pub use quotient::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};
        pub use quotient::task::{AbortOnDrop, AbortOnDropHandle};
        pub use quotient::task::{consume_budget, id, spawn_blocking, try_id, yield_now};
    }
    pub mod aborting;
    pub mod blocking;
    pub mod errors;
    pub mod guards;
    pub mod handles;
    pub mod inside;
    pub mod outcome;
    pub mod panics;
    pub mod sets;
    pub mod spawning;
}

/// A group with one place, so that a place that leaks is noticed.
const GROUP: &str = "g";
const SQL: &str = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1')";

/// Where the scenario's own code runs.
#[derive(Clone, Copy, Debug)]
enum Root {
    /// In `block_on`, outside any task.
    Outside,
    /// In a task of a group.
    Task,
    /// In a task of an admitted query.
    Query,
}

type Scenario = fn() -> BoxFuture<'static, Transcript>;

fn tokio_says(runtime: &Runtime, root: Root, scenario: Scenario) -> Transcript {
    match root {
        Root::Outside => runtime.block_on(scenario()),
        Root::Task | Root::Query => runtime
            .block_on(async { tokio::spawn(scenario()).await })
            .unwrap(),
    }
}

fn quotient_says(
    runtime: &Ground,
    governor: &quotient::Governor,
    root: Root,
    scenario: Scenario,
) -> Transcript {
    runtime.block_on(async {
        match root {
            Root::Outside => {
                let _entered = governor.enter();
                scenario().await
            }
            Root::Task => governor.spawn_in(GROUP, scenario()).unwrap().await.unwrap(),
            Root::Query => {
                let query = governor.admit(&named(GROUP)).await.unwrap();
                query.run(scenario()).await.unwrap()
            }
        }
    })
}

fn compare(name: &str, tokio: Scenario, quotient: Scenario) {
    let _watched = watched(name);
    for (flavour, ground, plain) in flavours() {
        for root in [Root::Outside, Root::Task, Root::Query] {
            let expected = tokio_says(&plain(), root, tokio);
            assert!(!expected.is_empty(), "a scenario says something");
            let runtime = ground();
            let governor = governor(&runtime, WORKERS, SQL);
            if matches!(runtime, Ground::Owned(_)) {
                runtime.block_on(async { scene::has_two_threads() });
            }
            let found = quotient_says(&runtime, &governor, root, quotient);
            assert_eq!(found, expected, "{name}: {flavour}, root: {root:?}");
            runtime.block_on(async {
                settled(&governor, GROUP).await;
                settled(&governor, "default_wg").await;
                let again = governor.try_admit(&named(GROUP));
                assert!(
                    again.is_ok(),
                    "{name}: {flavour}, {root:?}: the place is free"
                );
            });
            assert_eq!(alive(&governor, GROUP), 0);
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
                    || Box::pin(super::on_tokio::$room::$scenario()),
                    || Box::pin(super::on_quotient::$room::$scenario()),
                );
            }
        )+}
    )+};
}

same_as_tokio! {
    spawning::{
        a_task_starts_without_being_awaited,
        a_task_goes_on_when_its_handle_is_dropped,
        a_task_is_not_polled_inside_spawn,
        a_thousand_tasks_all_run,
        tasks_spawn_tasks_that_spawn_tasks,
        a_destructor_spawns,
        a_destructor_of_an_aborted_task_spawns,
        a_large_future_is_moved_whole,
        yields_let_every_task_have_its_turn,
    }
    aborting::{
        before_the_first_poll,
        while_it_waits,
        while_it_runs_and_then_waits,
        while_it_runs_and_then_returns,
        after_it_has_completed,
        twice,
        from_another_thread,
        with_the_handle_dropped_at_once,
        by_the_task_itself_before_it_waits,
        by_the_task_itself_before_it_returns,
        an_abort_handle_and_its_clones,
        a_dropped_abort_handle_does_nothing,
        a_task_that_is_being_awaited,
        races_with_completion,
    }
    errors::{
        of_a_cancelled_task,
        of_a_panic_with_a_literal,
        of_a_panic_with_a_string,
        of_a_panic_with_another_payload,
        a_payload_comes_back_whole,
        a_cancelled_task_has_no_payload,
        carry_the_id_of_their_task,
        become_io_errors,
    }
    handles::{
        know_when_the_task_has_ended,
        have_the_id_that_the_task_sees,
        have_ids_of_their_own,
        show_their_id,
        panic_when_polled_after_completion,
        wake_the_last_waker_only,
        can_be_awaited_by_reference,
        drop_the_output_of_a_finished_task_here,
        swallow_a_panic_of_a_dropped_output,
        are_as_free_as_tokios,
    }
    panics::{
        nowhere,
        in_poll,
        in_the_drop_of_the_future,
        in_the_drop_of_the_output,
        in_the_wake_of_the_join_waker,
        of_many_tasks_at_once,
    }
    sets::{
        are_joined_in_the_order_in_which_members_end,
        without_members_have_nothing,
        can_be_asked_without_waiting,
        tell_which_member_it_was,
        abort_their_members_when_they_are_dropped,
        abort_their_members_and_keep_them,
        wait_for_the_last_one_when_they_shut_down,
        let_their_members_go,
        join_all_of_them,
        pass_a_panic_on_when_all_are_joined,
        mix_tasks_and_closures,
        lose_nothing_when_the_wait_is_given_up,
        wake_the_last_waker_only,
        give_way_when_the_budget_is_spent,
        swallow_what_the_drop_of_an_output_panics_with,
        end_once_for_all,
    }
    blocking::{
        closures_run_on_another_thread,
        a_panic_is_delivered,
        an_abort_of_a_running_closure_does_nothing,
        a_closure_goes_on_when_its_handle_is_dropped,
        a_closure_has_an_id,
        a_closure_may_spawn_and_wait,
        what_a_closure_holds_is_dropped_there,
    }
    guards::{
        end_their_task,
        can_be_awaited,
        let_go_of_their_task,
    }
    inside::{
        task_locals_are_not_inherited,
        a_timeout_fires_and_does_not,
        select_takes_what_is_ready,
        an_interval_ticks,
        channels_carry_everything_in_order,
        a_semaphore_is_fair,
        a_notify_and_a_watch_wake,
        a_mutex_is_handed_on,
        tcp_works,
        blocking_closures_run,
        block_in_place_runs,
        tokios_own_tasks_and_sets_run,
        a_task_tracker_tracks,
        unconstrained_and_consume_budget_work,
        the_runtime_is_the_current_one,
        block_on_inside_a_task_panics,
        spawn_local_inside_a_task_panics,
    }
}
