//! EXPLAIN: of where a request goes, and of what a change would do.
//!
//! Pure.

use super::{Parsed, Parser};
use crate::sql::ast::{Assignment, Statement};

const EXPLAIN: &str =
    "for example EXPLAIN CLASSIFY (user='bi', db='sales'), or EXPLAIN DROP RESOURCE GROUP etl";
const ATTRIBUTES: &str =
    "for example EXPLAIN CLASSIFY (user='bi', query_type='select', plan_cpu_cost=12.5)";

impl Parser<'_> {
    /// Behind EXPLAIN. What it explains is no EXPLAIN itself, so this goes no deeper.
    pub(super) fn explain(&mut self) -> Parsed<Statement> {
        let change = if self.keyword("CLASSIFY") {
            return Ok(Statement::ExplainClassify(self.attributes()?));
        } else if self.keyword("CREATE") {
            self.create()?
        } else if self.keyword("ALTER") {
            self.alter()?
        } else if self.keyword("DROP") {
            self.drop_group()?
        } else {
            let words = ["CLASSIFY", "CREATE", "ALTER", "DROP"];
            return Err(self.unexpected(&words, EXPLAIN));
        };
        Ok(Statement::ExplainChange(Box::new(change)))
    }

    /// `(key = value, ..)`, or `()` for a request of which nothing is known.
    fn attributes(&mut self) -> Parsed<Vec<Assignment>> {
        self.open(ATTRIBUTES)?;
        let mut all = Vec::new();
        if self.punct(')') {
            return Ok(all);
        }
        loop {
            all.push(self.assignment("the key of an attribute", ATTRIBUTES)?);
            if self.punct(')') {
                return Ok(all);
            }
            self.comma_or_close(ATTRIBUTES)?;
        }
    }
}
