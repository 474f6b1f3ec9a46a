//! `quotient check`: what is wrong with a script, or in vain.
//!
//! One thread: the program's.

use super::finding::{Finding, Level, pictures};
use super::script::Script;
use super::{Answer, Common, Unable, lint};
use clap::Args;
use serde_json::json;

/// Findings that are shown.
const SHOWN: usize = 200;

#[derive(Args, Debug)]
pub(super) struct Check {
    #[command(flatten)]
    common: Common,
    /// Do not mind warnings of this kind, such as never_matches; may be repeated.
    #[arg(long, value_name = "KIND")]
    allow: Vec<String>,
}

impl Check {
    pub(super) fn answer(&self) -> Result<Answer, Unable> {
        let script = Script::read(self.common.text()?, self.common.machine());
        let mut findings = script.findings.clone();
        if !script.is_refused() {
            // Of half a catalog nobody can say what never happens.
            findings.extend(lint::warnings(&script));
        }
        findings.retain(|one| {
            one.level == Level::Error || !self.allow.iter().any(|kind| kind == one.code)
        });
        findings.sort_by_key(|one| (one.span.start, std::cmp::Reverse(one.level)));
        let count = |level| {
            findings
                .iter()
                .filter(|one: &&Finding| one.level == level)
                .count()
        };
        let errors = count(Level::Error) + script.more_errors;
        let warnings = count(Level::Warning);
        let unlisted = script.more_errors + findings.len().saturating_sub(SHOWN);
        findings.truncate(SHOWN);
        let groups = script.snapshot.groups().len() - 1;
        let classifiers = script.snapshot.classifiers().count();
        let name = self.common.name();
        let text = if self.common.json {
            let findings: Vec<_> = findings.iter().map(Finding::json).collect();
            let answer = json!({
                "file": name,
                "workers": script.snapshot.machine().workers,
                "groups": groups,
                "classifiers": classifiers,
                "errors": errors,
                "warnings": warnings,
                "findings": findings,
                "unlisted": unlisted,
            });
            format!("{answer}\n")
        } else {
            let more = match unlisted {
                0 => String::new(),
                more => format!("and {more} more\n\n"),
            };
            format!(
                "{}{more}{name}: {groups} groups with {classifiers} classifiers on {} workers: {errors} errors, {warnings} warnings\n",
                pictures(&findings, &name, &script.text),
                script.snapshot.machine().workers,
            )
        };
        Ok(Answer {
            text,
            found: errors + warnings > 0,
        })
    }
}

/// The answer of a command that needs a whole script, to one that is not.
pub(super) fn refused(script: &Script, name: &str, json: bool) -> Answer {
    let errors: Vec<Finding> = script
        .findings
        .iter()
        .filter(|one| one.level == Level::Error)
        .cloned()
        .collect();
    let text = if json {
        let errors: Vec<_> = errors.iter().map(Finding::json).collect();
        format!("{}\n", json!({ "file": name, "findings": errors }))
    } else {
        pictures(&errors, name, &script.text)
    };
    Answer { text, found: true }
}
