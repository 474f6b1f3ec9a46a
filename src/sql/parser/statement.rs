//! Statements: keywords in their order.
//!
//! Pure.

use super::{ASSIGNMENT, EXAMPLE, Parsed, Parser, VARIABLE};
use crate::sql::ast::*;
use crate::sql::error::{SqlError, SqlErrorKind};
use crate::sql::like::{ESCAPES, ends_in_escape};
use crate::sql::span::Spanned;

const ALTER: &str = "for example ALTER RESOURCE GROUP etl WITH ('concurrency_limit'='4')";
const DROP: &str = "for example DROP RESOURCE GROUP IF EXISTS etl";
const SHOW: &str = "for example SHOW RESOURCE GROUPS ALL, or SHOW RESOURCE GROUP etl";
const USAGE: &str = "for example SHOW USAGE RESOURCE GROUPS, or SHOW USAGE RESOURCE GROUP etl";
const ROLLBACK: &str = "for example ROLLBACK CATALOG TO VERSION 3; SHOW CATALOG HISTORY lists them";

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<Statement> {
        if self.keyword("CREATE") {
            self.create()
        } else if self.keyword("ALTER") {
            self.alter()
        } else if self.keyword("DROP") {
            if self.keyword("WATCH") {
                return self.drop_watch();
            }
            if !self.peek_keyword("RESOURCE") {
                return Err(self.unexpected(&["RESOURCE", "WATCH"], DROP));
            }
            self.drop_group()
        } else if self.keyword("EXPLAIN") {
            self.explain()
        } else if self.keyword("SHOW") {
            self.show()
        } else if self.keyword("KILL") {
            self.kill()
        } else if self.keyword("ROLLBACK") {
            for word in ["CATALOG", "TO", "VERSION"] {
                self.expect(word, ROLLBACK)?;
            }
            Ok(Statement::Rollback(
                self.whole_number("a version", ROLLBACK)?,
            ))
        } else if self.keyword("SET") {
            if !self.keyword("GLOBAL") {
                return Err(self.unexpected(&["GLOBAL"], VARIABLE));
            }
            Ok(Statement::SetGlobal(self.setting()?))
        } else {
            let words = [
                "CREATE", "ALTER", "DROP", "SHOW", "SET", "KILL", "SELECT", "EXPLAIN", "ROLLBACK",
            ];
            Err(self.unexpected(&words, EXAMPLE))
        }
    }

    pub(super) fn drop_group(&mut self) -> Parsed<Statement> {
        self.resource_group(DROP)?;
        let if_exists = self.keyword("IF");
        if if_exists {
            self.expect("EXISTS", DROP)?;
        }
        let name = self.name()?;
        Ok(Statement::DropGroup(DropGroup { if_exists, name }))
    }

    pub(super) fn create(&mut self) -> Parsed<Statement> {
        if self.peek_keyword("OR") {
            return Err(self.unexpected(
                &["RESOURCE"],
                "OR REPLACE stands before the name: CREATE RESOURCE GROUP OR REPLACE etl ..",
            ));
        }
        self.resource_group(EXAMPLE)?;
        let if_not_exists = self.keyword("IF");
        if if_not_exists {
            self.expect("NOT", EXAMPLE)?;
            self.expect("EXISTS", EXAMPLE)?;
        }
        let or_replace = self.keyword("OR");
        if or_replace {
            self.expect("REPLACE", EXAMPLE)?;
        }
        if self.peek_keyword("IF") {
            let hint = "IF NOT EXISTS stands before OR REPLACE; a group of this name is `if`";
            return Err(self.unexpected(&[], hint));
        }
        let name = self.name()?;
        let classifiers = if self.keyword("TO") {
            self.classifiers()?
        } else {
            Vec::new()
        };
        if !self.keyword("WITH") {
            let expected: &[&str] = if classifiers.is_empty() {
                &["TO", "WITH"]
            } else {
                &[",", "WITH"]
            };
            return Err(self.unexpected(expected, ASSIGNMENT));
        }
        let properties = self.assignments()?;
        Ok(Statement::CreateGroup(CreateGroup {
            if_not_exists,
            or_replace,
            name,
            classifiers,
            properties,
        }))
    }

    pub(super) fn alter(&mut self) -> Parsed<Statement> {
        self.resource_group(ALTER)?;
        let name = self.name()?;
        let action = if self.keyword("ADD") {
            AlterAction::Add(self.classifiers()?)
        } else if self.keyword("WITH") {
            AlterAction::With(self.assignments()?)
        } else if self.keyword("DROP") {
            if self.keyword("ALL") {
                AlterAction::DropAll
            } else {
                AlterAction::Drop(self.ids()?)
            }
        } else {
            let hint = format!("one change per statement, {ALTER}");
            return Err(self.unexpected(&["ADD", "DROP", "WITH"], &hint));
        };
        Ok(Statement::AlterGroup(AlterGroup { name, action }))
    }

    fn show(&mut self) -> Parsed<Statement> {
        if self.keyword("CREATE") {
            self.resource_group("for example SHOW CREATE RESOURCE GROUP etl")?;
            return Ok(Statement::ShowCreateGroup(self.name()?));
        }
        if self.keyword("USAGE") {
            self.expect("RESOURCE", USAGE)?;
            return Ok(Statement::ShowUsage(if self.keyword("GROUPS") {
                None
            } else {
                self.groups_or_group(USAGE)?;
                Some(self.name()?)
            }));
        }
        if let Some(statement) = self.show_operation()? {
            return Ok(statement);
        }
        if self.keyword("VARIABLES") {
            return Ok(Statement::ShowVariables(self.like()?));
        }
        if self.keyword("CATALOG") {
            self.expect("HISTORY", "for example SHOW CATALOG HISTORY")?;
            return Ok(Statement::ShowHistory);
        }
        let verbose = self.keyword("VERBOSE");
        if !self.keyword("RESOURCE") {
            let expected: &[&str] = if verbose {
                &["RESOURCE"]
            } else {
                &[
                    "RESOURCE",
                    "VERBOSE",
                    "CREATE",
                    "USAGE",
                    "VARIABLES",
                    "CATALOG",
                    "QUERIES",
                    "RUNNING",
                    "RUNAWAY",
                    "WATCHES",
                ]
            };
            return Err(self.unexpected(expected, SHOW));
        }
        let which = if self.keyword("GROUPS") {
            let all = self.keyword("ALL");
            let like = self.like()?;
            Which::Many { all, like }
        } else {
            self.groups_or_group(SHOW)?;
            Which::One(self.name()?)
        };
        Ok(Statement::ShowGroups(ShowGroups { verbose, which }))
    }

    fn like(&mut self) -> Parsed<Option<Spanned<String>>> {
        if !self.keyword("LIKE") {
            return Ok(None);
        }
        let pattern = self.quoted("a pattern in quotes", "for example LIKE 'etl%'")?;
        if ends_in_escape(&pattern) {
            return Err(SqlError::new(SqlErrorKind::OpenEscape, pattern.span).with_hint(ESCAPES));
        }
        Ok(Some(pattern))
    }

    fn groups_or_group(&mut self, example: &str) -> Parsed<()> {
        if self.keyword("GROUP") {
            return Ok(());
        }
        Err(self.unexpected(&["GROUPS", "GROUP"], example))
    }

    fn resource_group(&mut self, example: &str) -> Parsed<()> {
        self.expect("RESOURCE", example)?;
        self.expect("GROUP", example)
    }
}
