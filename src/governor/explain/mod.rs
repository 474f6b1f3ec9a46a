//! EXPLAIN: where a request would go, and what a change of the catalog would do. Nothing is counted or changed.
//!
//! Wiring; any thread.

pub(crate) mod attributes;

use super::{Error, Governor};
use crate::admission::AdmissionError;
use crate::catalog::DEFAULT_GROUP;
use crate::classify::Attributes;
use crate::classify::explanation::{Explanation, explanation};
use crate::mem;
use crate::sql::ast::Assignment;
use crate::sql::{Output, SqlError, Statement};
use crate::unit::{Bytes, GroupId, Nanos};
use crate::view::change::{self, Now, NowQuery};
use crate::view::classify;
use std::collections::BTreeMap;

impl Governor {
    /// Where a request with these attributes would go, with every classifier's part in it: which conditions it meets,
    /// why each one that matches lost. The group is the one that [`classify`](Governor::classify) finds; no metric
    /// moves. It looks at every classifier, so it is for people, not for each request.
    ///
    /// # Errors
    ///
    /// As [`classify`](Governor::classify): the request names a group that does not exist, or that it may not choose.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use quotient::{Attributes, Governor};
    ///
    /// let governor = Governor::builder().build()?;
    /// governor.execute("CREATE RESOURCE GROUP bi TO (user='bi'), (user='bi', db='sales') WITH ('cpu_weight'='2')").await?;
    ///
    /// let explained = governor.explain_classify(&Attributes::new().user("bi").db("sales"))?;
    /// assert_eq!(explained.group_name, "bi");
    /// assert_eq!(explained.candidates[1].to_string(), "lost to 10003: has a db condition");
    /// # Ok(()) }
    /// ```
    pub fn explain_classify(&self, attributes: &Attributes) -> Result<Explanation, Error> {
        let _ours = mem::enter_process();
        let routing = self.inner.routing.load();
        let wish = attributes.get_resource_group().unwrap_or_default();
        let Some(explained) = explanation(&routing.snapshot, attributes) else {
            return Err(AdmissionError::UnknownGroup { group: wish.into() }.into());
        };
        if !wish.is_empty() && !(self.inner.allow_override)(attributes, wish) {
            return Err(AdmissionError::OverrideRefused { group: wish.into() }.into());
        }
        Ok(explained)
    }

    /// `EXPLAIN CLASSIFY (..)`
    pub(super) fn explain_classify_statement(
        &self,
        written: &[Assignment],
    ) -> Result<Output, SqlError> {
        let attributes = attributes::read(written)?;
        match self.explain_classify(&attributes) {
            Ok(explained) => Ok(classify::table(&explained, DEFAULT_GROUP)),
            Err(error) => Err(attributes::refused_wish(
                written,
                &error,
                &self.inner.routing.load().snapshot,
            )),
        }
    }

    /// `EXPLAIN CREATE ..`, `ALTER` or `DROP`
    pub(super) fn explain_change(&self, change: &Statement) -> Result<Output, SqlError> {
        let explained = self.inner.catalog.explain(change)?;
        let (before, after) = (&explained.before, &explained.after);
        let mut output = change::table(before, after, &self.now());
        for notice in explained.output.notices() {
            output.notice(notice.clone());
        }
        Ok(output)
    }

    /// What each group does at this moment.
    fn now(&self) -> BTreeMap<GroupId, Now> {
        let inner = &*self.inner;
        let mut all: BTreeMap<GroupId, Now> = BTreeMap::new();
        let runner_threads = inner.gate.governor().runner_threads;
        let routing = inner.routing.load();
        for entry in routing.entries() {
            let usage = entry.usage();
            let now = Now {
                running: inner.gate.group(entry.key).map_or(0, |group| group.running),
                tasks: usage.tasks_running + usage.tasks_queued + usage.tasks_waiting,
                memory: Bytes(entry.group.memory().used()),
                reservations_only: !mem::is_installed(),
                runner_threads,
                ..Now::default()
            };
            all.insert(entry.key, now);
        }
        for waiting in inner.gate.waiting() {
            // One that was given a place is among those that run.
            if waiting.reason.is_some()
                && let Some(now) = all.get_mut(&waiting.group)
            {
                now.waited.push(Nanos::from(waiting.since.elapsed()));
            }
        }
        for (query, running) in inner.all_running() {
            let Some(now) = all.get_mut(&running.entry.key) else {
                continue;
            };
            let usage = query.usage();
            now.queries.push(NowQuery {
                id: query.id().0,
                cpu: usage.cpu.into(),
                elapsed: usage.elapsed.into(),
                scan_rows: usage.scan_rows,
                memory: Bytes(usage.memory),
                tripped: running.runaway.is_some(),
            });
        }
        let entries = routing.entries();
        entries
            .filter_map(|entry| Some((entry.id, all.remove(&entry.key)?)))
            .collect()
    }
}
