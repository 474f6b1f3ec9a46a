//! Statements about running work.
//!
//! Pure.

use super::{Parsed, Parser};
use crate::sql::ast::Statement;
use crate::sql::operation::Operation;
use crate::sql::span::Spanned;
use crate::sql::token::TokKind;

const KILL: &str = "SHOW QUERIES lists the ids, for example KILL QUERY 17";
const WATCH: &str = "SHOW WATCHES lists the ids, for example DROP WATCH 3";
const LIMIT: &str = "for example LIMIT 10";

impl Parser<'_> {
    /// Behind KILL.
    pub(super) fn kill(&mut self) -> Parsed<Statement> {
        let expected: &[&str] = if self.keyword("QUERY") {
            &[]
        } else {
            &["QUERY"]
        };
        let id = self.count("the id of a query", expected, KILL)?;
        Ok(Statement::Operate(Operation::Kill(id)))
    }

    /// Behind DROP WATCH.
    pub(super) fn drop_watch(&mut self) -> Parsed<Statement> {
        let id = self.count("the id of a watch", &[], WATCH)?;
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
            return self.count("a number of rows", &[], LIMIT).map(Some);
        }
        Ok(None)
    }

    /// A whole number.
    fn count(&mut self, what: &str, words: &[&str], example: &str) -> Parsed<Spanned<u64>> {
        let number = match self.peek() {
            Some(t) if t.kind == TokKind::Number => t.text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return Err(self.expected(what, words, example));
        };
        let span = self.here();
        self.at += 1;
        Ok(Spanned::new(number, span))
    }
}
