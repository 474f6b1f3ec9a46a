//! `quotient classify`: where a request would go, as EXPLAIN CLASSIFY says it.
//!
//! One thread: the program's.

use super::script::Script;
use super::{Answer, Common, Unable, check};
use crate::catalog::DEFAULT_GROUP;
use crate::classify::explanation::{Candidate, Decider, Explanation, explanation};
use crate::governor::explain::attributes;
use crate::sql::ast::Assignment;
use crate::view::classify;
use clap::Args;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(super) struct Classify {
    #[command(flatten)]
    common: Common,
    /// Who asks.
    #[arg(long)]
    user: Option<String>,
    /// A role of the one who asks; may be repeated.
    #[arg(long)]
    role: Vec<String>,
    /// Where the request comes from.
    #[arg(long)]
    source_ip: Option<String>,
    /// select, insert, import, compaction, mv_refresh or other.
    #[arg(long)]
    query_type: Option<String>,
    /// A database that the request touches, or a comma list; may be repeated.
    #[arg(long)]
    db: Vec<String>,
    /// The planner's CPU cost.
    #[arg(long, allow_hyphen_values = true)]
    plan_cpu_cost: Option<String>,
    /// The planner's memory cost.
    #[arg(long, allow_hyphen_values = true)]
    plan_mem_cost: Option<String>,
    /// The group that the request names.
    #[arg(long)]
    resource_group: Option<String>,
}

impl Classify {
    fn stated(&self) -> Vec<Assignment> {
        let one = |key: &str, value: &String| Assignment {
            key: key.to_owned().into(),
            value: value.clone().into(),
        };
        let few = [
            ("user", &self.user),
            ("source_ip", &self.source_ip),
            ("query_type", &self.query_type),
            ("plan_cpu_cost", &self.plan_cpu_cost),
            ("plan_mem_cost", &self.plan_mem_cost),
            ("resource_group", &self.resource_group),
        ];
        let few = few
            .into_iter()
            .filter_map(|(key, value)| Some(one(key, value.as_ref()?)));
        let roles = self.role.iter().map(|role| one("role", role));
        let dbs = self.db.iter().map(|db| one("db", db));
        few.chain(roles).chain(dbs).collect()
    }

    pub(super) fn answer(&self) -> Result<Answer, Unable> {
        let attributes =
            attributes::read(&self.stated()).map_err(|error| Unable(error.to_string()))?;
        let script = Script::read(self.common.text()?, self.common.machine());
        if script.is_refused() {
            return Ok(check::refused(
                &script,
                &self.common.name(),
                self.common.json,
            ));
        }
        let Some(explained) = explanation(&script.snapshot, &attributes) else {
            let name = attributes
                .get_resource_group()
                .unwrap_or_default()
                .to_owned();
            let missing = match script.snapshot.find(&name.into()) {
                Err(error) => error.to_string(),
                Ok(_) => String::new(),
            };
            return Err(Unable(missing));
        };
        let text = if self.common.json {
            format!("{}\n", json(&explained))
        } else {
            classify::table(&explained, DEFAULT_GROUP).to_string()
        };
        Ok(Answer { text, found: false })
    }
}

fn json(explained: &Explanation) -> Value {
    let (by, classifier) = match explained.decided_by {
        Decider::Request => ("request", None),
        Decider::Classifier(id) => ("classifier", Some(id.0)),
        Decider::Nobody => ("nobody", None),
    };
    let candidate = |one: &Candidate| {
        let terms: Vec<Value> = one
            .terms
            .iter()
            .map(|term| json!({ "key": term.key, "asks": term.asks, "met": term.met, "weight": term.weight }))
            .collect();
        json!({
            "group": one.group_name,
            "classifier": one.classifier.id.0,
            "text": one.classifier.identity(),
            "verdict": one.to_string(),
            "weight": one.weight(),
            "terms": terms,
        })
    };
    let candidates: Vec<Value> = explained.candidates.iter().map(candidate).collect();
    json!({
        "group": explained.group_name,
        "decided_by": by,
        "classifier": classifier,
        "candidates": candidates,
        "unlisted": explained.unlisted,
    })
}
