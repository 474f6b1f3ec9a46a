//! The watchdog that the other tests rely on finds a hang, and only a hang.

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{overdue, watch, within};

#[test]
fn a_watch_that_outlives_the_patience_is_overdue_until_it_ends() {
    let watched = watch("a slow thing", || "its state".to_owned());
    assert!(overdue(Duration::from_secs(3600)).is_none());
    std::thread::sleep(Duration::from_millis(2));
    let (what, dump) = overdue(Duration::from_millis(1)).expect("it is late");
    assert_eq!(
        (what.as_str(), dump().as_str()),
        ("a slow thing", "its state")
    );
    drop(watched);
    assert!(overdue(Duration::ZERO).is_none());
}

#[test]
fn a_dump_that_hangs_or_panics_does_not_hang_the_watchdog() {
    let said = within(Duration::from_secs(60), Arc::new(|| "state".to_owned()));
    assert_eq!(said, "state");
    let said = within(Duration::from_secs(60), Arc::new(|| panic!("no state")));
    assert!(said.contains("panicked"));
    let park = || -> String {
        loop {
            std::thread::park();
        }
    };
    assert!(within(Duration::from_millis(1), Arc::new(park)).contains("hangs"));
}
