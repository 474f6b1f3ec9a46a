//! A shared capacity in bytes per second, divided among the groups whose streams want some of it.
//!
//! Mechanism; any thread. Lock order: a resource's list of ways, then its turnstile.

use super::flow::Flow;
use super::turnstile::{Lane, Turnstile};
use crate::mem;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;
use std::sync::{Arc, Weak};

/// A named capacity that several groups share: a disk, an uplink, an object store.
///
/// Streams take part by [`Metered::with_resource`](super::Metered::with_resource). While it is enough, nobody waits.
/// When it is not, it is divided by the groups' `io_weight`, exactly and whoever has more streams or larger
/// operations; what a group does not use is lent. Operations of `short_query` groups go first, for up to half of the
/// capacity. Nothing but metered streams is counted: what else uses the disk is not seen.
///
/// Clones are the same resource. It may be shared by groups of several governors.
///
/// # Examples
///
/// ```
/// use quotient::{Governor, io::{IoResource, Metered}};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let governor = Governor::builder().build()?;
/// let uplink = IoResource::new("uplink", 100_000_000);
///
/// let (near, mut far) = tokio::io::duplex(1024);
/// let theirs = uplink.clone();
/// let task = governor.spawn_in("default_wg", async move {
///     let mut stream = Metered::new(near).with_resource(&theirs);
///     stream.write_all(b"hello").await
/// })?;
/// task.await??;
///
/// let mut text = String::new();
/// far.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// assert_eq!(uplink.bytes(), 5);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct IoResource(Arc<Inner>);

struct Inner {
    name: Box<str>,
    turnstile: Arc<Turnstile>,
    ways: Mutex<FxHashMap<u64, Weak<Way>>>,
}

/// What a group has had of a resource since its oldest open stream took part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceUse {
    /// The group's name.
    pub group: Arc<str>,
    /// Its `io_weight`.
    pub weight: u64,
    /// Bytes that passed.
    pub bytes: u64,
    /// Operations that wait.
    pub waiting: u64,
}

impl IoResource {
    /// A capacity of so many bytes per second; 0 = no limit.
    pub fn new(name: impl Into<String>, bytes_per_second: u64) -> IoResource {
        let _ours = mem::enter_process();
        IoResource(Arc::new(Inner {
            name: name.into().into(),
            turnstile: Turnstile::new(limit(bytes_per_second)),
            ways: Mutex::default(),
        }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Bytes per second; 0 = no limit.
    pub fn bytes_per_second(&self) -> u64 {
        self.0.turnstile.rate().unwrap_or(0)
    }

    /// Changes the capacity at once, also for those who wait. 0 = no limit.
    pub fn set_bytes_per_second(&self, bytes_per_second: u64) {
        self.0.turnstile.set_rate(limit(bytes_per_second));
    }

    /// Bytes that have passed so far, of all groups.
    pub fn bytes(&self) -> u64 {
        let ways = self.ways();
        let open = ways.iter().map(|way| way.lane.figures().0);
        open.fold(self.0.turnstile.past(), u64::saturating_add)
    }

    /// What each group has of it that has streams open, by name.
    pub fn usage(&self) -> Vec<ResourceUse> {
        let mut all: Vec<ResourceUse> = self.ways().iter().map(|way| way.usage()).collect();
        all.sort_by(|a, b| a.group.cmp(&b.group));
        all
    }

    fn ways(&self) -> Vec<Arc<Way>> {
        let ways = self.0.ways.lock();
        ways.values().filter_map(Weak::upgrade).collect()
    }

    /// Whether nobody has it but who asks.
    pub(super) fn is_forgotten(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// A group's weight may have changed.
    pub(super) fn reweigh(&self, flow: &Flow) {
        let way = self.0.ways.lock().get(&flow.id).and_then(Weak::upgrade);
        if let Some(way) = way {
            way.set_weight(flow);
        }
    }

    /// The way of a group through it: the one that is there, or a new one.
    pub(super) fn way(&self, flow: &Flow) -> Arc<Way> {
        let mut ways = self.0.ways.lock();
        if let Some(way) = ways.get(&flow.id).and_then(Weak::upgrade) {
            return way;
        }
        let limits = flow.limits();
        let way = Arc::new(Way {
            resource: self.clone(),
            flow: flow.id,
            group: flow.name.clone(),
            weight: Mutex::new(limits.weight.get()),
            lane: Arc::new(Lane::new(&self.0.turnstile, limits.weight, limits.first)),
        });
        ways.insert(flow.id, Arc::downgrade(&way));
        drop(ways);
        // An ALTER may have come between.
        way.set_weight(flow);
        way
    }
}

fn limit(bytes_per_second: u64) -> Option<u64> {
    (bytes_per_second > 0).then_some(bytes_per_second)
}

impl PartialEq for IoResource {
    fn eq(&self, other: &IoResource) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for IoResource {}

impl fmt::Debug for IoResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoResource")
            .field("name", &self.name())
            .field("bytes_per_second", &self.bytes_per_second())
            .finish_non_exhaustive()
    }
}

/// The streams of one group at one resource.
pub(super) struct Way {
    pub(super) resource: IoResource,
    pub(super) flow: u64,
    group: Arc<str>,
    weight: Mutex<u64>,
    pub(super) lane: Arc<Lane>,
}

impl Way {
    fn set_weight(&self, flow: &Flow) {
        let mut before = self.weight.lock();
        let weight = flow.limits().weight;
        if *before != weight.get() {
            *before = weight.get();
            self.lane.set_weight(weight);
        }
    }

    fn usage(&self) -> ResourceUse {
        let (bytes, waiting) = self.lane.figures();
        ResourceUse {
            group: self.group.clone(),
            weight: *self.weight.lock(),
            bytes,
            waiting: waiting as u64,
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        let mut ways = self.resource.0.ways.lock();
        // A new one may have taken its place.
        if ways
            .get(&self.flow)
            .is_some_and(|way| way.strong_count() == 0)
        {
            ways.remove(&self.flow);
        }
    }
}
