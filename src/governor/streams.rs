//! Whose a metered stream is, and what shared capacities there are.
//!
//! Wiring; any thread.

use super::{Governor, GroupHandle};
use crate::exec::task::surroundings;
use crate::io::{IoResource, Metered};
use crate::query::Query;
use crate::view::io_resources::{self, ResourceRow};
use crate::view::relation::Relation;

impl<T> Metered<T> {
    /// A stream of the query and group that [`spawn`](crate::spawn) would choose: inside a task, of that task's.
    ///
    /// # Panics
    ///
    /// Outside of a task, with no governor entered or installed.
    #[track_caller]
    pub fn new(inner: T) -> Metered<T> {
        Metered::of(surroundings().account, inner)
    }

    /// A stream of a group, and of no query. It stays the group's when that is dropped.
    pub fn in_group(group: &GroupHandle, inner: T) -> Metered<T> {
        Metered::of(group.entry.loose.clone(), inner)
    }

    /// A stream of a query. It does not keep the query's place: when the query has ended, its bytes still count.
    pub fn in_query(query: &Query, inner: T) -> Metered<T> {
        Metered::of(query.account().clone(), inner)
    }

    /// From now on its bytes are this query's: for a connection that serves one after the other.
    pub fn charge_to(&mut self, query: &Query) {
        self.move_to(query.account().clone());
    }
}

impl Governor {
    /// The shared capacities that streams of this governor's groups have used and that somebody still has.
    pub fn io_resources(&self) -> Vec<IoResource> {
        self.inner.station.resources()
    }

    pub(super) fn io_resources_view(&self) -> Relation {
        let mut rows = Vec::new();
        for resource in self.io_resources() {
            let bare = ResourceRow {
                resource: resource.name().to_owned(),
                bytes_per_second: Some(resource.bytes_per_second()).filter(|&rate| rate > 0),
                bytes_total: resource.bytes(),
                group: None,
            };
            let uses = resource.usage();
            if uses.is_empty() {
                rows.push(bare.clone());
            }
            rows.extend(uses.iter().map(|it| ResourceRow {
                group: Some((it.group.to_string(), it.weight, it.bytes, it.waiting)),
                ..bare.clone()
            }));
        }
        io_resources::table(&rows)
    }
}
