//! Statements about running work.
//!
//! Pure.

use super::{Parsed, Parser};
use crate::sql::ast::Statement;
use crate::sql::operation::Operation;
use crate::sql::span::Spanned;

const KILL: &str = "SHOW QUERIES lists the ids, for example KILL QUERY 17";
const WATCH: &str = "SHOW WATCHES lists the ids, for example DROP WATCH 3";
const LIMIT: &str = "for example LIMIT 10";

impl Parser<'_> {
    /// Behind KILL.
    pub(super) fn kill(&mut self) -> Parsed<Statement> {
        let _ = self.keyword("QUERY");
        let id = self.whole_number("the id of a query", KILL)?;
        Ok(Statement::Operate(Operation::Kill(id)))
    }

    /// Behind DROP WATCH.
    pub(super) fn drop_watch(&mut self) -> Parsed<Statement> {
        let id = self.whole_number("the id of a watch", WATCH)?;
        Ok(Statement::Operate(Operation::DropWatch(id)))
    }

    /// Behind SHOW: one of these statements, if it is one.
    pub(super) fn show_operation(&mut self) -> Parsed<Option<Statement>> {
        let operation = if self.keyword("QUERIES") {
            Operation::ShowQueries
        } else if self.keyword("RUNNING") {
            if !self.keyword("QUERIES") {
                return Err(
                    self.unexpected(&["QUERIES"], "for example SHOW RUNNING QUERIES LIMIT 10")
                );
            }
            Operation::ShowRunningQueries {
                limit: self.limit()?,
            }
        } else if self.keyword("RUNAWAY") {
            if !self.keyword("EVENTS") {
                return Err(
                    self.unexpected(&["EVENTS"], "for example SHOW RUNAWAY EVENTS LIMIT 10")
                );
            }
            Operation::ShowRunawayEvents {
                limit: self.limit()?,
            }
        } else if self.keyword("WATCHES") {
            Operation::ShowWatches
        } else {
            return Ok(None);
        };
        Ok(Some(Statement::Operate(operation)))
    }

    fn limit(&mut self) -> Parsed<Option<Spanned<u64>>> {
        if self.keyword("LIMIT") {
            return self.whole_number("a number of rows", LIMIT).map(Some);
        }
        Ok(None)
    }
}
