//! One version of the catalog, translated: which group a request goes to, and each group's stages.
//!
//! Wiring; read by any thread, made by one that holds the catalog's turn. A [`Routing`] is immutable and swapped as
//! a whole; an [`Entry`] lives as long as its group and is changed in place, so that an ALTER keeps vruntime,
//! counters and running queries.

use super::blocking;
use super::breaker::{Breaker, Fuse};
use crate::admission::{Gate, GroupLimits};
use crate::catalog::{GroupSpec, GroupType, Snapshot};
use crate::classify::{Index, Input};
use crate::exec::account::Account;
use crate::exec::core::Core;
use crate::exec::group::Group;
use crate::exec::stats::GroupUsage;
use crate::io::flow::{self, Flow, Station};
use crate::metrics::snapshot::{GroupRow, add_usage};
use crate::query::Outcome;
use crate::sched::Limits;
use crate::unit::{Cores, GroupId};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A group with its parts in the stages.
pub(super) struct Entry {
    /// By this its classifiers and people know it.
    pub(super) id: GroupId,
    /// By this the stages know it: its id, unless another group had that one before.
    pub(super) key: GroupId,
    pub(super) name: Arc<str>,
    pub(super) group: Arc<Group>,
    /// The account of its tasks that belong to no query.
    pub(super) loose: Arc<Account>,
    /// What its files and streams may pass.
    flow: Arc<Flow>,
    /// What its queries may use.
    pub(super) fuse: Fuse,
    pub(super) classified: AtomicU64,
    /// Its `mem_limit` in bytes, also where the governor's limit is what binds.
    pub(super) mem_limit: AtomicU64,
    outcomes: [AtomicU64; 4],
    /// What dropped groups of this name had counted when they were gone: no series may go back.
    pub(super) heritage: Mutex<GroupRow>,
}

impl Entry {
    fn new(
        spec: &GroupSpec,
        key: GroupId,
        version: u64,
        core: &Arc<Core>,
        station: &Arc<Station>,
        breaker: &Arc<Breaker>,
    ) -> Arc<Entry> {
        let group = Group::new(core, &spec.name, spec.cpu_core_limit());
        group.set_limits(limits(spec));
        let flow = Flow::new(station, &spec.name, streams(spec));
        flow.bind(&group);
        group.set_io_share(blocking::share(spec, &group));
        let entry = Arc::new(Entry {
            id: spec.id,
            key,
            name: spec.name.as_str().into(),
            loose: Account::for_group(group.clone()),
            group,
            flow,
            fuse: Fuse::new(spec, version, limits(spec), breaker),
            classified: AtomicU64::new(0),
            mem_limit: AtomicU64::new(0),
            outcomes: Default::default(),
            heritage: Mutex::default(),
        });
        entry.limit_memory(spec);
        entry
    }

    /// Its memory's limits. A group that may have everything has the governor's limit, not one of its own.
    fn limit_memory(&self, spec: &GroupSpec) {
        let limit = spec.mem_limit().0;
        let memory = self.group.memory();
        let all = memory.above().and_then(|governor| governor.limit());
        memory.set_limit(Some(limit).filter(|&limit| all.is_none_or(|all| limit < all)));
        self.mem_limit.store(limit, Relaxed);
        let desk = self.group.desk();
        let threshold = spec.spill_mem_limit_threshold();
        desk.set_spill_threshold(threshold.map(|share| (limit as f64 * share) as u64));
        desk.set_queue_timeout(spec.queue_timeout());
        // A raised limit serves who waits, a lowered one may refuse.
        desk.settle();
    }

    /// Whether anything of it is alive: tasks, or queries, which may have moved.
    pub(super) fn is_alive(&self) -> bool {
        let usage = self.usage();
        let tasks = usage.tasks_running + usage.tasks_queued + usage.tasks_waiting;
        tasks + usage.blocking > 0 || self.group.has_queries()
    }

    /// What its tasks have used, those of queries that are cooled down included.
    pub(super) fn usage(&self) -> GroupUsage {
        let mut usage = self.group.usage();
        if let Some(cooled) = self.fuse.cooled.usage() {
            add_usage(&mut usage, &cooled);
        }
        usage
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.outcomes[outcome as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn outcome(&self, outcome: Outcome) -> u64 {
        self.outcomes[outcome as usize].load(Relaxed)
    }
}

/// What a group may have of the workers.
fn limits(spec: &GroupSpec) -> Limits {
    Limits {
        weight: spec.cpu_core_limit(),
        reserved: u32::try_from(spec.reserved_cores()).unwrap_or(u32::MAX),
        cap: spec.max_cpu_cores().map(Cores::from_f64),
    }
}

/// What a group may pass by files and streams, and have of shared capacities.
fn streams(spec: &GroupSpec) -> flow::Limits {
    flow::Limits {
        weight: spec.io_weight(),
        first: spec.group_type() == GroupType::ShortQuery,
        bytes_per_second: spec.max_io_bytes_per_second().map(|bytes| bytes.0),
    }
}

/// The catalog as the request path needs it.
pub(super) struct Routing {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) index: Index,
    by_id: FxHashMap<GroupId, Arc<Entry>>,
    by_name: FxHashMap<Arc<str>, Arc<Entry>>,
    default: Arc<Entry>,
}

impl Routing {
    /// Translates `snapshot`. Groups that `last` has too, by id and name, are changed in place; the others are made.
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        core: &Arc<Core>,
        station: &Arc<Station>,
        gate: &Gate,
        breaker: &Arc<Breaker>,
        last: Option<&Routing>,
    ) -> Routing {
        let version = snapshot.version();
        // A shared store may give a known id to another name.
        let known = |spec: &GroupSpec| {
            let entry = last?.by_id.get(&spec.id)?;
            (*entry.name == *spec.name).then_some(entry)
        };
        let entry = |spec: &GroupSpec| match known(spec) {
            Some(entry) => {
                entry.fuse.set(spec, version);
                entry.fuse.cooled.set_limits(&entry.group, limits(spec));
                entry.flow.set_limits(streams(spec));
                entry
                    .group
                    .set_io_share(blocking::share(spec, &entry.group));
                entry.limit_memory(spec);
                gate.set_limits(entry.key, admission(spec));
                entry.clone()
            }
            None => {
                let key = key(spec, gate);
                gate.register(key, &spec.name, admission(spec));
                Entry::new(spec, key, version, core, station, breaker)
            }
        };
        let by_id: FxHashMap<_, _> = snapshot
            .groups()
            .map(|spec| (spec.id, entry(spec)))
            .collect();
        let default = match by_id.get(&snapshot.default_group().id) {
            Some(default) => default.clone(),
            // The snapshot lists its default group among its groups.
            None => entry(snapshot.default_group()),
        };
        let inputs = snapshot.classifiers().map(|(spec, classifier)| Input {
            group: spec.id,
            short_query: spec.group_type() == GroupType::ShortQuery,
            classifier,
        });
        let by_name = by_id
            .values()
            .map(|entry| (entry.name.clone(), entry.clone()))
            .collect();
        Routing {
            index: Index::new(inputs),
            by_name,
            by_id,
            default,
            snapshot,
        }
    }

    pub(super) fn by_id(&self, id: GroupId) -> Option<&Arc<Entry>> {
        self.by_id.get(&id)
    }

    pub(super) fn by_key(&self, key: GroupId) -> Option<&Arc<Entry>> {
        self.entries().find(|entry| entry.key == key)
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_name.get(name)
    }

    /// `default_wg`.
    pub(super) fn default(&self) -> &Arc<Entry> {
        &self.default
    }

    /// All groups, the oldest id first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.snapshot
            .groups()
            .filter_map(|spec| self.by_id.get(&spec.id))
    }

    /// Groups of `self` that are not in `next`: dropped.
    pub(super) fn missing_in(&self, next: &Routing) -> Vec<Arc<Entry>> {
        let stays = |entry: &Arc<Entry>| {
            let there = next.by_id.get(&entry.id);
            there.is_some_and(|there| Arc::ptr_eq(there, entry))
        };
        let entries = self.by_id.values();
        entries.filter(|entry| !stays(entry)).cloned().collect()
    }
}

/// By what the stages are to know a group that is new here: its id, unless a group that had it before still drains, or has
/// now another one.
fn key(spec: &GroupSpec, gate: &Gate) -> GroupId {
    /// From the other end of all numbers than ids.
    static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);
    match gate.group(spec.id) {
        Some(_) => GroupId(NEXT.fetch_sub(1, Relaxed)),
        None => spec.id,
    }
}

/// The part of a group that is about who may run and who may wait.
fn admission(spec: &GroupSpec) -> GroupLimits {
    GroupLimits {
        concurrency_limit: spec.concurrency_limit(),
        max_queued_queries: spec.max_queued_queries(),
        queue_timeout: spec.queue_timeout(),
    }
}
