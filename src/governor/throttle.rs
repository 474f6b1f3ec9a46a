//! The memory throttle's beat: looks at the memory once per interval, and asks for a collection when it lasts.
//!
//! Wiring; a housekeeping task, on whichever thread of the host's runtime runs it. Nothing is looked at while the
//! throttle is off. The probe and the collection are the host's code: one that panics costs one look, not the beat.

use super::Inner;
use crate::event;
use crate::foreign;
use crate::mem::pressure::Probe;
use crate::unit::Bytes;
use std::panic::catch_unwind;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Memory in use now.
pub(super) type MemoryProbe = Box<dyn Fn() -> Bytes + Send + Sync>;

/// Gives free memory that is kept back to the system.
pub(super) type Collect = Box<dyn Fn() + Send + Sync>;

/// Reads what the process and its surroundings use.
pub(super) fn probe(pressure: Arc<Probe>) -> MemoryProbe {
    Box::new(move || pressure.read().used())
}

/// Runs for as long as the governor is there.
pub(super) async fn beat(governor: Weak<Inner>) {
    let changed = match governor.upgrade() {
        Some(inner) => inner.throttle_changed.clone(),
        None => return,
    };
    while let Some(interval) = interval(&governor) {
        match interval {
            None => changed.notified().await,
            Some(interval) => {
                // Whether it is time or the rules are new: look.
                let _ = timeout(interval, changed.notified()).await;
            }
        }
        if let Some(inner) = governor.upgrade() {
            inner.look_at_memory();
        }
    }
}

/// None when the governor is gone; no interval while the throttle is off.
fn interval(governor: &Weak<Inner>) -> Option<Option<Duration>> {
    let inner = governor.upgrade()?;
    Some(inner.gate.throttle_interval().map(Duration::from))
}

impl Inner {
    fn look_at_memory(&self) {
        if self.gate.throttle_interval().is_none() {
            return;
        }
        let mut used = None;
        foreign::contain(|| used = Some((self.memory_probe)()));
        let Some(used) = used else {
            return;
        };
        let step = self.gate.look(used);
        if let Some(cap) = step.began {
            event::throttle(&format_args!(
                "memory is short ({used} bytes in use): at most {cap} queries run at once"
            ));
        }
        if step.ended {
            event::throttle(&format_args!(
                "memory is enough again ({used} bytes in use): one more query per interval may run"
            ));
        }
        if step.collect {
            foreign::contain(|| (self.collect)());
        }
    }
}

/// Whether the runtime can sleep. tokio does not say so but by a panic.
pub(super) fn has_timers(runtime: &Handle) -> bool {
    let _inside = runtime.enter();
    catch_unwind(|| drop(sleep(Duration::ZERO))).is_ok()
}
