//! Statements as flat values.
//!
//! Pure. Nothing here nests (but for what EXPLAIN explains, once), so that no text can make parsing, printing or
//! dropping recurse. Keys are in lower case, values are as written; what keys and values mean is the catalog's
//! business. `Display` gives the canonical text, and `parse(render(statement)) == statement` for everything that [`parse`](super::parse) returns.

use super::operation::Operation;
use super::select::Select;
use super::span::{Span, Spanned};

/// The keys of a classifier's conditions, in the order of the canonical texts.
pub const CLASSIFIER_KEYS: [&str; 7] = [
    "user",
    "role",
    "query_type",
    "db",
    "source_ip",
    "plan_cpu_cost_range",
    "plan_mem_cost_range",
];

/// What EXPLAIN CLASSIFY may state of a request, in the order of the documents.
pub const ATTRIBUTE_KEYS: [&str; 8] = [
    "user",
    "role",
    "source_ip",
    "query_type",
    "db",
    "plan_cpu_cost",
    "plan_mem_cost",
    "resource_group",
];

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Statement {
    /// `CREATE RESOURCE GROUP ..`
    CreateGroup(CreateGroup),
    /// `ALTER RESOURCE GROUP ..`
    AlterGroup(AlterGroup),
    /// `DROP RESOURCE GROUP ..`
    DropGroup(DropGroup),
    /// `SHOW RESOURCE GROUPS`, of one group or of many.
    ShowGroups(ShowGroups),
    /// `SHOW CREATE RESOURCE GROUP name`
    ShowCreateGroup(Spanned<String>),
    /// `SHOW USAGE RESOURCE GROUP name`, or with `None` `SHOW USAGE RESOURCE GROUPS`.
    ShowUsage(Option<Spanned<String>>),
    /// A statement about running work.
    Operate(Operation),
    /// `SET GLOBAL variable = value`
    SetGlobal(Assignment),
    /// `SHOW VARIABLES [LIKE 'pattern']`
    ShowVariables(Option<Spanned<String>>),
    /// `SHOW CATALOG HISTORY`
    ShowHistory,
    /// `ROLLBACK CATALOG TO VERSION n`
    Rollback(Spanned<u64>),
    /// `SELECT .. FROM view ..`
    Select(Box<Select>),
    /// `EXPLAIN CLASSIFY (key = value, ..)`: of which request; may be empty.
    ExplainClassify(Vec<Assignment>),
    /// `EXPLAIN` of a CREATE, ALTER or DROP of a group; the parser makes no other.
    ExplainChange(Box<Statement>),
}

/// `CREATE RESOURCE GROUP [IF NOT EXISTS] [OR REPLACE] name [TO classifier, ..] WITH (property, ..)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateGroup {
    /// With IF NOT EXISTS. With both, OR REPLACE decides.
    pub if_not_exists: bool,
    /// With OR REPLACE.
    pub or_replace: bool,
    /// The group.
    pub name: Spanned<String>,
    /// Its classifiers, in the order of the text; may be empty.
    pub classifiers: Vec<Classifier>,
    /// Its properties, in the order of the text; never empty when parsed.
    pub properties: Vec<Assignment>,
}

/// `ALTER RESOURCE GROUP name action`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterGroup {
    /// The group.
    pub name: Spanned<String>,
    /// What to change.
    pub action: AlterAction,
}

/// What an ALTER changes; one thing per statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlterAction {
    /// `ADD classifier, ..`
    Add(Vec<Classifier>),
    /// `DROP (id, ..)`
    Drop(Vec<Spanned<u64>>),
    /// `DROP ALL`
    DropAll,
    /// `WITH (property, ..)`
    With(Vec<Assignment>),
}

/// `DROP RESOURCE GROUP [IF EXISTS] name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropGroup {
    /// With IF EXISTS.
    pub if_exists: bool,
    /// The group.
    pub name: Spanned<String>,
}

/// `SHOW [VERBOSE] RESOURCE GROUPS ..` or `SHOW [VERBOSE] RESOURCE GROUP name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShowGroups {
    /// With VERBOSE.
    pub verbose: bool,
    /// Which groups.
    pub which: Which,
}

/// Which groups a SHOW lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// `GROUP name`
    One(Spanned<String>),
    /// `GROUPS [ALL] [LIKE 'pattern']`
    Many {
        /// With ALL: those without classifiers too.
        all: bool,
        /// Only those whose name fits.
        like: Option<Spanned<String>>,
    },
}

/// `(condition, ..)`: all of them must be met.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// In the order of the text; never empty when parsed.
    pub conditions: Vec<Condition>,
    /// From parenthesis to parenthesis.
    pub span: Span,
}

/// Where a classifier was written does not change what it says.
impl PartialEq for Classifier {
    fn eq(&self, other: &Classifier) -> bool {
        self.conditions == other.conditions
    }
}

impl Eq for Classifier {}

/// `key = 'text'` or `key IN ('text', ..)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// In lower case; perhaps none that exists.
    pub key: Spanned<String>,
    /// What it must be.
    pub test: Test,
}

/// What a condition asks of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// `= 'text'`
    Equals(Spanned<String>),
    /// `IN ('text', ..)`; never empty when parsed.
    In(Vec<Spanned<String>>),
}

/// `'key'='value'`, or `key = value` of SET
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// In lower case; perhaps none that exists.
    pub key: Spanned<String>,
    /// As written, without quotes; a bare number has become its text.
    pub value: Spanned<String>,
}

impl Statement {
    /// The group that the statement names, if it names one.
    pub fn group(&self) -> Option<&Spanned<String>> {
        match self {
            Statement::CreateGroup(s) => Some(&s.name),
            Statement::AlterGroup(s) => Some(&s.name),
            Statement::DropGroup(s) => Some(&s.name),
            Statement::ShowGroups(ShowGroups {
                which: Which::One(name),
                ..
            })
            | Statement::ShowCreateGroup(name) => Some(name),
            Statement::ShowGroups(_)
            | Statement::SetGlobal(_)
            | Statement::ShowVariables(_)
            | Statement::Select(_)
            | Statement::ShowHistory
            | Statement::Rollback(_) => None,
            Statement::ShowUsage(name) => name.as_ref(),
            Statement::Operate(_) | Statement::ExplainClassify(_) => None,
            Statement::ExplainChange(change) => change.group(),
        }
    }

    /// What an [`Output`](super::Output) calls the statement.
    pub fn tag(&self) -> &'static str {
        match self {
            Statement::CreateGroup(_) => "CREATE RESOURCE GROUP",
            Statement::AlterGroup(_) => "ALTER RESOURCE GROUP",
            Statement::DropGroup(_) => "DROP RESOURCE GROUP",
            Statement::Operate(operation) => operation.tag(),
            Statement::SetGlobal(_) => "SET",
            Statement::ShowGroups(_)
            | Statement::ShowCreateGroup(_)
            | Statement::ShowUsage(_)
            | Statement::ShowVariables(_) => "SHOW",
            Statement::ShowHistory => "SHOW",
            Statement::Rollback(_) => "ROLLBACK CATALOG",
            Statement::Select(_) => "SELECT",
            Statement::ExplainClassify(_) | Statement::ExplainChange(_) => "EXPLAIN",
        }
    }
}

/// Whether a text may name a resource group: `[A-Za-z_][A-Za-z0-9_$-]{0,63}`.
pub fn is_group_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'-'))
}
