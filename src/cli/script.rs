//! A script, read and run against an empty catalog: what it makes, what of it is refused, where it says what.
//!
//! Pure. As a catalog's file is: what comes later may be named before, values beyond the machine are cut.
//! Statements that ask or act on running work are read, and that is all.

use super::finding::{Finding, Level};
use crate::catalog::{Catalog, Machine, Origin, Snapshot, condition};
use crate::governor::variables;
use crate::settings::Settings;
use crate::sql::ast::AlterAction;
use crate::sql::{self, Caps, Notice, NoticeKind, Span, SqlError, Statement};
use crate::unit::ClassifierId;
use std::collections::HashMap;
use std::sync::Arc;

/// Errors that are told one by one; of a script with more, the rest is counted, and not run.
const ERRORS: usize = 50;

/// What a script makes.
pub(super) struct Script {
    pub(super) text: String,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) settings: Settings,
    /// Errors, and what the catalog remarks.
    pub(super) findings: Vec<Finding>,
    /// Errors that are not among them.
    pub(super) more_errors: usize,
    places: HashMap<Place, Span>,
}

/// Something that a script speaks of.
#[derive(PartialEq, Eq, Hash)]
enum Place {
    Group(String),
    /// By what it asks, normalised.
    Classifier(String),
}

impl Script {
    pub(super) fn read(text: String, machine: Machine) -> Script {
        let mut script = Script {
            text: String::new(),
            snapshot: Catalog::new(machine).snapshot(),
            settings: Settings::default(),
            findings: Vec::new(),
            more_errors: 0,
            places: HashMap::new(),
        };
        let mut changes = Vec::new();
        for (_, _, statement) in sql::parse_each(&text, Caps::NONE) {
            match statement {
                Err(error) => script.refused(&error),
                Ok(Statement::SetGlobal(set)) => {
                    if let Err(error) = variables::assign(&mut script.settings, &set) {
                        script.refused(&error);
                    }
                }
                Ok(
                    change @ (Statement::CreateGroup(_)
                    | Statement::AlterGroup(_)
                    | Statement::DropGroup(_)),
                ) => {
                    script.remember(&change);
                    changes.push(change);
                }
                Ok(_) => {}
            }
        }
        script.run(changes, machine);
        script.text = text;
        script
    }

    /// Whether anything of it is refused.
    pub(super) fn is_refused(&self) -> bool {
        self.findings.iter().any(|one| one.level == Level::Error)
    }

    /// Where a group is spoken of first, or the place of nothing.
    pub(super) fn group(&self, name: &str) -> Span {
        let place = self.places.get(&Place::Group(name.to_owned()));
        place.copied().unwrap_or_default()
    }

    /// Where a classifier with that identity stands, or the place of nothing.
    pub(super) fn classifier(&self, identity: String) -> Span {
        let place = self.places.get(&Place::Classifier(identity));
        place.copied().unwrap_or_default()
    }

    fn refused(&mut self, error: &SqlError) {
        if self.findings.len() < ERRORS {
            self.findings.push(Finding::from(error));
        } else {
            self.more_errors += 1;
        }
    }

    fn remember(&mut self, change: &Statement) {
        if let Some(name) = change.group() {
            let place = Place::Group(name.value.clone());
            self.places.entry(place).or_insert(name.span);
        }
        let classifiers = match change {
            Statement::CreateGroup(create) => &create.classifiers[..],
            Statement::AlterGroup(alter) => match &alter.action {
                AlterAction::Add(classifiers) => &classifiers[..],
                _ => &[],
            },
            _ => &[],
        };
        for written in classifiers {
            if let Ok(spec) = condition::read(ClassifierId(0), written) {
                let place = Place::Classifier(spec.identity());
                self.places.insert(place, written.span);
            }
        }
    }

    /// Runs the changes as one; what is refused is left out, and the others are run again.
    fn run(&mut self, mut changes: Vec<Statement>, machine: Machine) {
        loop {
            let catalog = Catalog::new(machine);
            let error = match catalog.apply_all(&changes, Origin::File) {
                Ok(done) => {
                    self.snapshot = done.snapshot;
                    let notices = done.outputs.iter().flat_map(|output| output.notices());
                    let remarks: Vec<Finding> = notices.map(|notice| self.remark(notice)).collect();
                    self.findings.extend(remarks);
                    break;
                }
                Err(error) => error,
            };
            self.refused(&error);
            let refused = error.statement.wrapping_sub(1);
            if refused >= changes.len() || self.more_errors > 0 {
                break;
            }
            changes.remove(refused);
        }
        self.findings
            .sort_by_key(|one| (one.span.start, std::cmp::Reverse(one.level)));
    }

    fn remark(&self, notice: &Notice) -> Finding {
        let (level, code) = match notice.kind {
            NoticeKind::Clamped => (Level::Warning, "clamped"),
            NoticeKind::NoEffect => (Level::Warning, "no_effect"),
            NoticeKind::Skipped => (Level::Note, "skipped"),
            NoticeKind::Shortened => (Level::Note, "shortened"),
        };
        let group = notice.groups.first().map(String::as_str);
        let span = self.group(group.unwrap_or_default());
        Finding::new(level, code, notice.message.clone(), span)
    }
}
