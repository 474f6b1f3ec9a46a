//! The process's default governor. Alone in its binary: there is one per process.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{governor, multi_thread, watched};
use quotient::Error;

const SQL: &str = "CREATE RESOURCE GROUP g WITH ('cpu_core_limit'='1')";

#[test]
fn spawns_outside_of_tasks_go_to_the_installed_governor_unless_another_is_entered() {
    let _watched = watched("installed");
    let runtime = multi_thread(2);
    let (first, second) = (governor(&runtime, 2, SQL), governor(&runtime, 2, SQL));
    let spawned = |governor: &quotient::Governor| live::spawned(governor, "default_wg");
    first.install().unwrap();
    let error = second.install().unwrap_err();
    assert!(matches!(error, Error::AlreadyInstalled));
    assert!(matches!(
        first.install().unwrap_err(),
        Error::AlreadyInstalled
    ));

    runtime.block_on(quotient::spawn(async {})).unwrap();
    assert_eq!((spawned(&first), spawned(&second)), (1, 0));
    {
        let _entered = second.enter();
        runtime.block_on(quotient::spawn(async {})).unwrap();
    }
    assert_eq!((spawned(&first), spawned(&second)), (1, 1));
    // Any thread.
    let handle = std::thread::spawn(|| quotient::spawn(async { 7 })).join();
    assert_eq!(runtime.block_on(handle.unwrap()).unwrap(), 7);
    assert_eq!((spawned(&first), spawned(&second)), (2, 1));

    // Its last value is the process's: dropping ours does not end it.
    drop(first);
    assert_eq!(runtime.block_on(quotient::spawn(async { 8 })).unwrap(), 8);
}
