//! The canonical text of a SELECT.
//!
//! Pure.

use super::ast::*;
use sqlparser::keywords::ALL_KEYWORDS;
use std::fmt::{self, Display, Formatter, Write};

/// Words that some dialect has a use for, and that are names everywhere in a SELECT nevertheless.
const PLAIN: [&str; 10] = [
    "action", "id", "kind", "limits", "name", "reason", "state", "tasks", "value", "version",
];

/// A name: bare if that says the same, else in double quotes.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
        let keyword = !PLAIN.contains(&self.0)
            && ALL_KEYWORDS
                .binary_search(&self.0.to_ascii_uppercase().as_str())
                .is_ok();
        let bare = !keyword
            && self.0.chars().all(plain)
            && self.0.starts_with(|c: char| !c.is_ascii_digit());
        if bare {
            f.write_str(self.0)
        } else {
            write!(f, "\"{}\"", self.0.replace('"', "\"\""))
        }
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        list(f, &self.items)?;
        write!(f, " FROM {}", Name(&self.from))?;
        if let Some(filter) = &self.filter {
            write!(f, " WHERE {filter}")?;
        }
        if !self.group_by.is_empty() {
            f.write_str(" GROUP BY ")?;
            list(f, &self.group_by)?;
        }
        if !self.order_by.is_empty() {
            f.write_str(" ORDER BY ")?;
            list(f, &self.order_by)?;
        }
        if let Some(limit) = self.limit {
            write!(f, " LIMIT {limit}")?;
        }
        if self.offset > 0 {
            write!(f, " OFFSET {}", self.offset)?;
        }
        Ok(())
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::All(_) => f.write_char('*'),
            Item::Term { term, alias: None } => term.fmt(f),
            Item::Term {
                term,
                alias: Some(alias),
            } => write!(f, "{term} AS {}", Name(alias)),
        }
    }
}

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Term::Scalar(scalar) => scalar.fmt(f),
            Term::Aggregate(Aggregate {
                function, of: None, ..
            }) => write!(f, "{}(*)", function.name()),
            Term::Aggregate(Aggregate {
                function,
                of: Some(column),
                ..
            }) => write!(f, "{}({})", function.name(), Name(column)),
        }
    }
}

impl Display for Scalar {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Column(column) => Name(column).fmt(f),
            Scalar::Literal(literal) => literal.value.fmt(f),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Null => f.write_str("NULL"),
            Literal::NullOf(kind) => write!(f, "NULL::{}", kind.name()),
            Literal::Bool(true) => f.write_str("TRUE"),
            Literal::Bool(false) => f.write_str("FALSE"),
            Literal::Number(digits) => f.write_str(digits),
            Literal::Float(digits) => write!(f, "'{}'::float8", digits.replace('\'', "''")),
            Literal::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

impl Display for OrderBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.term.fmt(f)?;
        if self.descending {
            f.write_str(" DESC")?;
        }
        match self.nulls_first {
            Some(true) => f.write_str(" NULLS FIRST"),
            Some(false) => f.write_str(" NULLS LAST"),
            None => Ok(()),
        }
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { " NOT" } else { "" };
        match self {
            Predicate::And(all) => chain(f, " AND ", all),
            Predicate::Or(any) => chain(f, " OR ", any),
            // A parenthesis is a level for who reads it: no more of them than there must be.
            Predicate::Not(inner) => match &**inner {
                Predicate::And(_) | Predicate::Or(_) => write!(f, "NOT ({inner})"),
                other => write!(f, "NOT {other}"),
            },
            Predicate::Compare {
                left,
                operator,
                right,
            } => write!(f, "{left} {} {right}", operator.sign()),
            Predicate::In {
                scalar,
                list: among,
                negated,
            } => {
                write!(f, "{scalar}{} IN (", not(negated))?;
                list(f, among)?;
                f.write_char(')')
            }
            Predicate::Like {
                scalar,
                pattern,
                negated,
            } => write!(f, "{scalar}{} LIKE {pattern}", not(negated)),
            Predicate::Between {
                scalar,
                low,
                high,
                negated,
            } => write!(f, "{scalar}{} BETWEEN {low} AND {high}", not(negated)),
            Predicate::IsNull { scalar, negated } => {
                write!(f, "{scalar} IS{} NULL", not(negated))
            }
            Predicate::Truth(scalar) => scalar.fmt(f),
        }
    }
}

fn chain(f: &mut Formatter<'_>, between: &str, parts: &[Predicate]) -> fmt::Result {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        match part {
            Predicate::And(_) | Predicate::Or(_) => write!(f, "({part})")?,
            other => other.fmt(f)?,
        }
    }
    Ok(())
}
