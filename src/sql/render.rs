//! The canonical text of statements.
//!
//! Pure. Keywords in upper case, one blank between words, property keys and all values in single quotes, names bare
//! where that is safe. No text ends with a semicolon.

use super::ast::*;
use std::fmt::{self, Display, Formatter};

/// Words that the grammar looks for where a name may stand, or that a reader would take for grammar.
const RESERVED: [&str; 13] = [
    "add", "all", "alter", "create", "drop", "exists", "if", "like", "not", "or", "replace", "to",
    "with",
];

/// A group's name as it is written in a statement: bare, or in back-quotes.
#[derive(Debug)]
pub struct Name<'a>(pub &'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bare = self
            .0
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !self.0.is_empty()
            && !RESERVED.iter().any(|r| r.eq_ignore_ascii_case(self.0));
        if bare {
            f.write_str(self.0)
        } else {
            write!(f, "`{}`", self.0.replace('`', "``"))
        }
    }
}

/// A text as it is written in a statement: in single quotes, with those inside doubled.
#[derive(Debug)]
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0.replace('\'', "''"))
    }
}

/// Writes the parts with `, ` between.
fn list<T: Display>(f: &mut Formatter<'_>, parts: impl IntoIterator<Item = T>) -> fmt::Result {
    for (i, part) in parts.into_iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        part.fmt(f)?;
    }
    Ok(())
}

fn properties(f: &mut Formatter<'_>, all: &[Assignment]) -> fmt::Result {
    f.write_str("WITH (")?;
    list(f, all)?;
    f.write_str(")")
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Statement::CreateGroup(s) => s.fmt(f),
            Statement::AlterGroup(s) => s.fmt(f),
            Statement::DropGroup(s) => s.fmt(f),
            Statement::ShowGroups(s) => s.fmt(f),
            Statement::ShowCreateGroup(name) => {
                write!(f, "SHOW CREATE RESOURCE GROUP {}", Name(name))
            }
            Statement::ShowUsage(Some(name)) => {
                write!(f, "SHOW USAGE RESOURCE GROUP {}", Name(name))
            }
            Statement::ShowHistory => f.write_str("SHOW CATALOG HISTORY"),
            Statement::Rollback(version) => {
                write!(f, "ROLLBACK CATALOG TO VERSION {}", version.value)
            }
            Statement::Select(select) => select.fmt(f),
            Statement::ShowUsage(None) => f.write_str("SHOW USAGE RESOURCE GROUPS"),
            Statement::Operate(operation) => operation.fmt(f),
            Statement::SetGlobal(s) => {
                write!(f, "SET GLOBAL {} = {}", Variable(&s.key), Quoted(&s.value))
            }
            Statement::ExplainClassify(attributes) => {
                f.write_str("EXPLAIN CLASSIFY (")?;
                let written = |a: &Assignment| format!("{}={}", Key(&a.key), Quoted(&a.value));
                list(f, attributes.iter().map(written))?;
                f.write_str(")")
            }
            Statement::ExplainChange(change) => write!(f, "EXPLAIN {change}"),
            Statement::ShowVariables(None) => f.write_str("SHOW VARIABLES"),
            Statement::ShowVariables(Some(pattern)) => {
                write!(f, "SHOW VARIABLES LIKE {}", Quoted(pattern))
            }
        }
    }
}

impl Display for CreateGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CREATE RESOURCE GROUP ")?;
        if self.if_not_exists {
            f.write_str("IF NOT EXISTS ")?;
        }
        if self.or_replace {
            f.write_str("OR REPLACE ")?;
        }
        write!(f, "{} ", Name(&self.name))?;
        if !self.classifiers.is_empty() {
            f.write_str("TO ")?;
            list(f, &self.classifiers)?;
            f.write_str(" ")?;
        }
        properties(f, &self.properties)
    }
}

impl Display for AlterGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER RESOURCE GROUP {} ", Name(&self.name))?;
        match &self.action {
            AlterAction::Add(classifiers) => {
                f.write_str("ADD ")?;
                list(f, classifiers)
            }
            AlterAction::Drop(ids) => {
                f.write_str("DROP (")?;
                list(f, ids.iter().map(|id| id.value))?;
                f.write_str(")")
            }
            AlterAction::DropAll => f.write_str("DROP ALL"),
            AlterAction::With(all) => properties(f, all),
        }
    }
}

impl Display for DropGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let if_exists = if self.if_exists { "IF EXISTS " } else { "" };
        write!(f, "DROP RESOURCE GROUP {if_exists}{}", Name(&self.name))
    }
}

impl Display for ShowGroups {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verbose = if self.verbose { "VERBOSE " } else { "" };
        write!(f, "SHOW {verbose}RESOURCE GROUP")?;
        match &self.which {
            Which::One(name) => write!(f, " {}", Name(name)),
            Which::Many { all, like } => {
                f.write_str(if *all { "S ALL" } else { "S" })?;
                match like {
                    Some(pattern) => write!(f, " LIKE {}", Quoted(pattern)),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for Classifier {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        list(f, &self.conditions)?;
        f.write_str(")")
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Key(&self.key))?;
        match &self.test {
            Test::Equals(text) => write!(f, "={}", Quoted(text)),
            Test::In(texts) => {
                f.write_str(" IN (")?;
                list(f, texts.iter().map(|t| Quoted(t)))?;
                f.write_str(")")
            }
        }
    }
}

impl Display for Assignment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", Quoted(&self.key), Quoted(&self.value))
    }
}

/// A variable's name: bare like the known ones, or quoted.
struct Variable<'a>(&'a str);

impl Display for Variable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bare = |b: u8| b.is_ascii_lowercase() || b == b'_';
        if !self.0.is_empty() && self.0.bytes().all(bare) {
            f.write_str(self.0)
        } else {
            write!(f, "`{}`", self.0.replace('`', "``"))
        }
    }
}

/// A classifier's or a request's key: bare like the known ones, or quoted like nothing that exists.
struct Key<'a>(&'a str);

impl Display for Key<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if CLASSIFIER_KEYS.contains(&self.0) || ATTRIBUTE_KEYS.contains(&self.0) {
            f.write_str(self.0)
        } else {
            write!(f, "`{}`", self.0.replace('`', "``"))
        }
    }
}
