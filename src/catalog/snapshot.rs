//! The catalog at one moment: every group, by name and by id.
//!
//! Pure and immutable. Whoever holds a snapshot sees one version, whole, however long it takes.

use super::classifier::ClassifierSpec;
use super::group::{GroupSpec, Machine};
use crate::sql::{Spanned, SqlError};
use crate::unit::GroupId;
use std::sync::Arc;

/// The name of the group for work that no classifier matches.
pub const DEFAULT_GROUP: &str = "default_wg";

/// One version of the catalog.
#[derive(Clone, Debug)]
pub struct Snapshot {
    version: u64,
    machine: Machine,
    default: Arc<GroupSpec>,
    /// Sorted by id; with `default`.
    by_id: Vec<Arc<GroupSpec>>,
    /// Sorted by name; with `default`.
    by_name: Vec<Arc<GroupSpec>>,
}

impl Snapshot {
    /// The parts must hold the same groups, sorted; `draft.rs` keeps them so.
    pub(super) fn new(
        version: u64,
        machine: Machine,
        default: Arc<GroupSpec>,
        by_id: Vec<Arc<GroupSpec>>,
        by_name: Vec<Arc<GroupSpec>>,
    ) -> Snapshot {
        Snapshot {
            version,
            machine,
            default,
            by_id,
            by_name,
        }
    }

    /// Whether it says anything that a new catalog does not.
    pub(super) fn says_something(&self) -> bool {
        self.by_id.len() > 1 || !self.default.properties.is_empty()
    }

    /// Grows by one with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the effective values are computed for.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// The group of that name; case counts.
    pub fn group(&self, name: &str) -> Option<&Arc<GroupSpec>> {
        let at = self
            .by_name
            .binary_search_by(|group| group.name.as_str().cmp(name))
            .ok()?;
        self.by_name.get(at)
    }

    /// The group that a statement names.
    ///
    /// # Errors
    ///
    /// The error of a statement that names no group, with the closest of those that exist.
    pub fn find(&self, name: &Spanned<String>) -> Result<&Arc<GroupSpec>, SqlError> {
        super::show::existing(self, name)
    }

    /// The group with that id.
    pub fn group_by_id(&self, id: GroupId) -> Option<&Arc<GroupSpec>> {
        let at = self
            .by_id
            .binary_search_by(|group| group.id.cmp(&id))
            .ok()?;
        self.by_id.get(at)
    }

    /// `default_wg`: work that no classifier matches.
    pub fn default_group(&self) -> &Arc<GroupSpec> {
        &self.default
    }

    /// All groups, the oldest id first; `default_wg` is the first.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &Arc<GroupSpec>> {
        self.by_id.iter()
    }

    /// All groups by name, in the order of bytes.
    pub fn groups_by_name(&self) -> impl ExactSizeIterator<Item = &Arc<GroupSpec>> {
        self.by_name.iter()
    }

    /// Every classifier with its group.
    pub fn classifiers(&self) -> impl Iterator<Item = (&Arc<GroupSpec>, &ClassifierSpec)> {
        self.by_id
            .iter()
            .flat_map(|group| group.classifiers.iter().map(move |c| (group, c)))
    }
}

/// Two are equal when they say the same, whatever their versions: what a refused statement leaves behind.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Snapshot) -> bool {
        self.machine == other.machine && self.by_id == other.by_id
    }
}
