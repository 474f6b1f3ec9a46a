//! A group's files and streams: what they are limited to, and what their governor has for all of them.
//!
//! Mechanism; any thread. A [`Flow`] is changed in place, so that an ALTER binds what is open, and what waits, at
//! once. The executor's group keeps it without knowing what it is, and so does its companion, where queries are
//! that were cooled down: their streams are the group's.

use super::resource::{IoResource, Way};
use super::turnstile::{Beat, Lane, Turnstile};
use crate::exec::account::Account;
use crate::exec::group::Group;
use crate::mem;
use crate::unit::Weight;
use parking_lot::Mutex;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tokio::runtime::Handle;

/// What a group may pass by files and streams, and have of shared capacities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Its part of a capacity among groups that want some of it.
    pub weight: Weight,
    /// Whether its requests go first.
    pub first: bool,
    /// The most that its files and streams pass in a second, together, in bytes; `None` = no limit.
    pub bytes_per_second: Option<u64>,
}

/// What the streams of one governor have in common.
#[derive(Debug)]
pub struct Station {
    beat: Arc<Beat>,
    /// Capacities that its streams have used, in the order in which they came.
    resources: Mutex<Vec<IoResource>>,
}

impl Station {
    /// Streams wait by the timers of `runtime`; `None` if it has none: then nothing may wait.
    pub fn new(runtime: Option<Handle>) -> Arc<Station> {
        Arc::new(Station {
            beat: Arc::new(Beat::new(runtime)),
            resources: Mutex::default(),
        })
    }

    /// The shared capacities that streams of this governor have used and that are still there.
    pub fn resources(&self) -> Vec<IoResource> {
        let _ours = mem::enter_process();
        let mut resources = self.resources.lock();
        // Only this list holds it.
        let gone: Vec<_> = resources.extract_if(.., |it| it.is_forgotten()).collect();
        let there = resources.clone();
        drop(resources);
        drop(gone);
        there
    }

    fn note(&self, resource: &IoResource) {
        let mut resources = self.resources.lock();
        if resources.contains(resource) {
            return;
        }
        // One per connection must not add up.
        let gone: Vec<_> = resources.extract_if(.., |it| it.is_forgotten()).collect();
        resources.push(resource.clone());
        drop(resources);
        drop(gone);
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The files and streams of one group.
pub struct Flow {
    pub(super) id: u64,
    pub(super) name: Arc<str>,
    station: Arc<Station>,
    limits: Mutex<Limits>,
    /// A mirror of what the limits say.
    is_limited: AtomicBool,
    /// The way through the group's own limit.
    pub(super) own: Arc<Lane>,
}

impl Flow {
    /// The files and streams of a group.
    pub fn new(station: &Arc<Station>, name: &str, limits: Limits) -> Arc<Flow> {
        let turnstile = Turnstile::new(limits.bytes_per_second);
        let own = Arc::new(Lane::new(&turnstile, Weight::MIN, false));
        Flow::with(station, name.into(), limits, own)
    }

    fn with(station: &Arc<Station>, name: Arc<str>, limits: Limits, own: Arc<Lane>) -> Arc<Flow> {
        Arc::new(Flow {
            id: NEXT_ID.fetch_add(1, Relaxed),
            name,
            station: station.clone(),
            is_limited: AtomicBool::new(limits.bytes_per_second.is_some()),
            limits: Mutex::new(limits),
            own,
        })
    }

    /// Changes the limits, also for what is open and for what waits.
    pub fn set_limits(&self, limits: Limits) {
        let before = std::mem::replace(&mut *self.limits.lock(), limits);
        if before == limits {
            return;
        }
        self.is_limited
            .store(limits.bytes_per_second.is_some(), Relaxed);
        self.own.set_rate(limits.bytes_per_second);
        for resource in self.station.resources() {
            resource.reweigh(self);
        }
    }

    /// Lets a group's files and streams be bound by these limits.
    pub fn bind(self: &Arc<Flow>, group: &Group) {
        group.keep(self.clone());
    }

    pub(super) fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.is_limited.load(Relaxed)
    }

    pub(super) fn beat(&self) -> &Arc<Beat> {
        &self.station.beat
    }

    /// The error of what would have to wait and cannot.
    pub(super) fn no_timers(&self) -> io::Error {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!(
                "the IO of resource group '{}' is limited, and the runtime under its governor has no timers to wait \
                 with: build it with enable_time",
                self.name
            ),
        )
    }

    /// The group's way through a shared capacity.
    pub(super) fn way(&self, resource: &IoResource) -> Arc<Way> {
        let _ours = mem::enter_process();
        self.station.note(resource);
        resource.way(self)
    }
}

/// The flow that pays for an account's streams; none if nobody governs its group.
#[inline]
pub(super) fn of(account: &Account) -> Option<&Flow> {
    account.group().kept()?.downcast_ref()
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flow")
            .field("group", &self.name)
            .field("limits", &self.limits())
            .finish_non_exhaustive()
    }
}
