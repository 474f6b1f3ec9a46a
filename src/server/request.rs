//! A script of a client to what each of its statements is.
//!
//! Pure. The governor's grammar comes first, so that nothing of it is ever taken for something else.

use super::fault::Fault;
use super::lex::{Kind, Token, tokens};
use super::local::Local;
use super::psql::CatalogQuery;
use super::weight;
use crate::sql::ast::{ShowGroups, Which};
use crate::sql::{Caps, Operation, SqlError, SqlErrorKind, Statement, parse_each};

/// A statement of a script.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// Its text.
    pub(super) text: String,
    /// Characters of the script before it.
    pub(super) begins: usize,
    pub(super) what: What,
}

/// What is to be done about it.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The governor runs it. Only what must be known of it is kept: a script has many.
    Governed(Governed),
    /// It concerns the session.
    Local(Local),
    /// It asks PostgreSQL's catalog.
    Catalog(CatalogQuery),
}

/// A statement of the governor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Governed {
    tag: &'static str,
    only_looks: bool,
    /// It is a SHOW RESOURCE GROUPS that lists what fits the client.
    for_the_client: bool,
}

/// Longer statements are the governor's, or nobody's.
const LOCAL: usize = 64 << 10;

/// Statements of a script at most: all of them are read before the first is run.
pub(super) const STATEMENTS: usize = 10_000;

/// The statements of a script, each of them read when it is asked for.
///
/// # Errors
///
/// Each that cannot be read, with its place in the script, and whatever is behind [`STATEMENTS`] of them: then none is
/// to be run.
pub(super) fn requests(script: &str) -> impl Iterator<Item = Result<Request, Fault>> {
    let each = parse_each(script, Caps::CLIENT).enumerate();
    each.map(|(before, (begins, text, parsed))| {
        if before >= STATEMENTS {
            let fault = Fault::error("54000", "the message has too many statements");
            let hint = format!("{STATEMENTS} are allowed; send them in parts");
            return Err(fault.at(begins).hint(hint));
        }
        request(begins, text, parsed)
    })
}

fn request(
    begins: usize,
    text: &str,
    parsed: Result<Statement, SqlError>,
) -> Result<Request, Fault> {
    let what = match parsed {
        Ok(statement) => What::Governed(Governed::of(&statement)),
        Err(error) => {
            // What is broken as a text is nobody's.
            let is_text = !matches!(
                error.kind,
                SqlErrorKind::Unterminated { .. }
                    | SqlErrorKind::BadCharacter { .. }
                    | SqlErrorKind::TooLong { what: "script", .. }
            );
            let tokens = if is_text && text.len() <= LOCAL {
                tokens(text)
            } else {
                Vec::new()
            };
            match foreign(&tokens) {
                Some(what) => what.map_err(|fault| fault.behind(begins))?,
                None => {
                    let fault = Fault::of_sql(&error);
                    return Err(missing_parameter(&tokens, begins).unwrap_or(fault));
                }
            }
        }
    };
    let text = text.to_owned();
    Ok(Request { text, begins, what })
}

fn foreign(tokens: &[Token<'_>]) -> Option<Result<What, Fault>> {
    let found = recognise(tokens)?;
    let Some(token) = tokens.iter().find(|token| token.is_unreadable()) else {
        return Some(found);
    };
    let fault = Fault::error("22025", "invalid escape in a text").at(token.char);
    Some(Err(fault.hint("a quote in a text is written twice")))
}

fn recognise(tokens: &[Token<'_>]) -> Option<Result<What, Fault>> {
    if let Some(local) = Local::recognise(tokens) {
        return Some(local.map(What::Local));
    }
    CatalogQuery::recognise(tokens).map(|query| Ok(What::Catalog(query)))
}

fn missing_parameter(tokens: &[Token<'_>], begins: usize) -> Option<Fault> {
    let token = tokens
        .iter()
        .find(|token| matches!(token.kind, Kind::Parameter(_)))?;
    let fault = Fault::error("42P02", format!("there is no parameter {}", token.text));
    Some(
        fault
            .at(begins + token.char)
            .hint("parameters need a prepared statement"),
    )
}

impl Governed {
    fn of(statement: &Statement) -> Governed {
        // What is not known to look is taken to change something.
        let only_looks = matches!(
            statement,
            Statement::ShowGroups(_)
                | Statement::ShowCreateGroup(_)
                | Statement::ShowUsage(_)
                | Statement::ShowVariables(_)
                | Statement::ShowHistory
                | Statement::Select(_)
                | Statement::ExplainClassify(_)
                | Statement::ExplainChange(_)
                | Statement::Operate(
                    Operation::ShowQueries
                        | Operation::ShowRunningQueries { .. }
                        | Operation::ShowRunawayEvents { .. }
                        | Operation::ShowWatches
                )
        );
        let for_the_client = matches!(
            statement,
            Statement::ShowGroups(ShowGroups {
                which: Which::Many { all: false, .. },
                ..
            })
        );
        Governed {
            tag: statement.tag(),
            only_looks,
            for_the_client,
        }
    }
}

impl Request {
    /// Bytes that it keeps.
    pub(super) fn bytes(&self) -> usize {
        let what = match &self.what {
            What::Governed(_) => 0,
            What::Local(local) => local.bytes(),
            What::Catalog(query) => query.bytes(),
        };
        weight::text(&self.text) + what
    }
}

impl What {
    /// What an audit would call it.
    pub(super) fn tag(&self) -> &str {
        match self {
            What::Governed(statement) => statement.tag,
            What::Local(Local::Transaction(word)) => word.tag(),
            What::Local(Local::Set { .. }) => "SET",
            What::Local(Local::Nothing(tag)) => tag,
            What::Local(_) => "SHOW",
            What::Catalog(_) => "SELECT",
        }
    }

    /// Whether it only looks.
    pub(super) fn only_looks(&self) -> bool {
        match self {
            What::Governed(statement) => statement.only_looks,
            What::Local(Local::Set { name, .. }) => name != super::settings::RESOURCE_GROUP,
            What::Local(_) | What::Catalog(_) => true,
        }
    }

    /// Whether it is a SHOW RESOURCE GROUPS that lists what fits the client.
    pub(super) fn is_for_the_client(&self) -> bool {
        matches!(self, What::Governed(statement) if statement.for_the_client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Vec<What> {
        requests(script)
            .map(|request| request.unwrap().what)
            .collect()
    }

    fn refused(script: &str) -> Fault {
        let read: Result<Vec<_>, _> = requests(script).collect();
        read.unwrap_err()
    }

    #[test]
    fn each_statement_goes_where_it_belongs() {
        let script = "SHOW RESOURCE GROUPS; SET a = 1; SELECT 1; SELECT name FROM groups;
                      SELECT relname FROM pg_catalog.pg_class";
        let found = of(script);
        assert!(matches!(
            found.as_slice(),
            [
                What::Governed(_),
                What::Local(Local::Set { .. }),
                What::Local(Local::Select(_)),
                What::Governed(_),
                What::Catalog(_)
            ]
        ));
    }

    #[test]
    fn a_script_with_a_mistake_is_refused_as_a_whole_with_the_place() {
        let fault = refused("SELECT 1; SHOW RESOURCE GRUOPS; SELECT 2");
        assert_eq!((fault.code, fault.at), ("42601", Some(24)));
        let fault = refused("SELECT 1; SET a");
        assert_eq!((fault.code, fault.at), ("42601", Some(15)));
        let fault = refused("SELECT 1; SELECT $1");
        assert_eq!((fault.code, fault.at), ("42P02", Some(17)));
        assert_eq!(refused("SELECT 'a").code, "42601");
    }

    #[test]
    fn a_text_that_would_end_elsewhere_is_refused_with_what_is_behind() {
        for (script, at) in [
            (r"SELECT E'\'; DROP RESOURCE GROUP a; --'", 7),
            (r"SELECT 1; SELECT E'it\'", 17),
            (r"SET application_name = E'\xff'", 23),
        ] {
            let fault = refused(script);
            assert_eq!((fault.code, fault.at), ("22025", Some(at)), "{script}");
        }
        assert!(requests(r"SELECT E'a\nb'").all(|request| request.is_ok()));
    }

    #[test]
    fn a_viewer_may_look_and_nothing_else() {
        for text in [
            "SHOW RESOURCE GROUPS",
            "SHOW VERBOSE RESOURCE GROUP a",
            "SHOW CREATE RESOURCE GROUP a",
            "SHOW USAGE RESOURCE GROUPS",
            "SHOW QUERIES",
            "SHOW RUNNING QUERIES LIMIT 3",
            "SHOW RUNAWAY EVENTS",
            "SHOW WATCHES",
            "SHOW VARIABLES",
            "SHOW CATALOG HISTORY",
            "EXPLAIN CLASSIFY (user='a')",
            "EXPLAIN DROP RESOURCE GROUP a",
            "SELECT * FROM groups",
            "SELECT 1",
            "SET application_name = 'x'",
            "BEGIN",
        ] {
            assert!(of(text)[0].only_looks(), "{text}");
        }
        for text in [
            "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1')",
            "ALTER RESOURCE GROUP a DROP ALL",
            "DROP RESOURCE GROUP a",
            "KILL QUERY 1",
            "DROP WATCH 1",
            "SET GLOBAL query_runner_threads = 1",
            "SET resource_group = 'a'",
            "SET \"RESOURCE_GROUP\" TO a",
            "ROLLBACK CATALOG TO VERSION 1",
        ] {
            assert!(!of(text)[0].only_looks(), "{text}");
        }
    }

    #[test]
    fn only_the_list_without_all_is_for_the_client() {
        assert!(of("SHOW RESOURCE GROUPS LIKE 'a%'")[0].is_for_the_client());
        assert!(!of("SHOW RESOURCE GROUPS ALL")[0].is_for_the_client());
        assert!(!of("SHOW RESOURCE GROUP a")[0].is_for_the_client());
    }
}
