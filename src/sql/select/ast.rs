//! A SELECT as a value.
//!
//! Pure. Names are folded as PostgreSQL folds them: to lower case unless quoted. Depth is bounded by the caps and by
//! the reader's own limit; chains of AND and OR are flat.

use crate::sql::output::Type;
use crate::sql::span::{Span, Spanned};

/// `SELECT items FROM view [WHERE ..] [GROUP BY ..] [ORDER BY ..] [LIMIT n] [OFFSET n]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// The select list; never empty when parsed.
    pub items: Vec<Item>,
    /// The view.
    pub from: Spanned<String>,
    /// WHERE.
    pub filter: Option<Predicate>,
    /// GROUP BY: columns, or positions in the select list.
    pub group_by: Vec<Term>,
    /// ORDER BY.
    pub order_by: Vec<OrderBy>,
    /// LIMIT; none for `LIMIT ALL` too.
    pub limit: Option<u64>,
    /// OFFSET, 0 if absent.
    pub offset: u64,
}

/// One entry of the select list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// `*`
    All(Spanned<()>),
    /// `term [AS alias]`
    Term {
        /// What is computed.
        term: Term,
        /// Its name in the result, if it is given one.
        alias: Option<String>,
    },
}

/// What a row has, or a group of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Term {
    /// A column or a literal.
    Scalar(Scalar),
    /// `count(*)`, `sum(column)`, ..
    Aggregate(Aggregate),
}

/// A column or a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scalar {
    /// A column of the view.
    Column(Spanned<String>),
    /// A literal.
    Literal(Spanned<Literal>),
}

/// A literal as written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Literal {
    /// `NULL`
    Null,
    /// `NULL::bigint`: none of a type, which is not text.
    NullOf(Type),
    /// `TRUE` or `FALSE`
    Bool(bool),
    /// Digits, with a minus, a point or an exponent.
    Number(String),
    /// `'number'::float8`: the text of a double precision number, `inf` and `NaN` too.
    Float(String),
    /// `'text'`: of whatever type it is compared with.
    Text(String),
}

/// An aggregate over the rows of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Which.
    pub function: Function,
    /// The column; none for `count(*)`.
    pub of: Option<Spanned<String>>,
    /// Where it stands.
    pub place: Spanned<()>,
}

/// The aggregates that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are SQL's")]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl Function {
    /// All of them.
    pub const ALL: [Function; 5] = [
        Function::Count,
        Function::Sum,
        Function::Min,
        Function::Max,
        Function::Avg,
    ];

    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Avg => "avg",
        }
    }
}

/// A condition: true, false or unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Predicate {
    /// All are true.
    And(Vec<Predicate>),
    /// One is true.
    Or(Vec<Predicate>),
    /// It is false.
    Not(Box<Predicate>),
    /// `left op right`
    Compare {
        /// Left of the operator.
        left: Scalar,
        /// The operator.
        operator: Compare,
        /// Right of it.
        right: Scalar,
    },
    /// `scalar [NOT] IN (list)`
    In {
        /// What is looked for.
        scalar: Scalar,
        /// Among these.
        list: Vec<Scalar>,
        /// With NOT.
        negated: bool,
    },
    /// `scalar [NOT] LIKE pattern`
    Like {
        /// The text.
        scalar: Scalar,
        /// The pattern.
        pattern: Scalar,
        /// With NOT.
        negated: bool,
    },
    /// `scalar [NOT] BETWEEN low AND high`
    Between {
        /// The value.
        scalar: Scalar,
        /// At least this.
        low: Scalar,
        /// At most this.
        high: Scalar,
        /// With NOT.
        negated: bool,
    },
    /// `scalar IS [NOT] NULL`
    IsNull {
        /// The value.
        scalar: Scalar,
        /// With NOT.
        negated: bool,
    },
    /// A boolean by itself.
    Truth(Scalar),
}

/// The comparing operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are SQL's")]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

impl Compare {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            Compare::Eq => "=",
            Compare::Ne => "<>",
            Compare::Lt => "<",
            Compare::Gt => ">",
            Compare::Le => "<=",
            Compare::Ge => ">=",
        }
    }
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// A column, an alias, a position or an aggregate.
    pub term: Term,
    /// With DESC.
    pub descending: bool,
    /// NULLS FIRST or LAST; absent, nulls count as larger than everything.
    pub nulls_first: Option<bool>,
}

impl Scalar {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Scalar::Column(column) => column.span,
            Scalar::Literal(literal) => literal.span,
        }
    }
}

impl Term {
    /// Where it stands.
    pub fn span(&self) -> Span {
        match self {
            Term::Scalar(scalar) => scalar.span(),
            Term::Aggregate(aggregate) => aggregate.place.span,
        }
    }
}
