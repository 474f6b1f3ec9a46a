//! A system view: typed columns and the rows of one moment.
//!
//! Pure.

use crate::sql::{Type, Value};

/// One column of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, lower case.
    pub name: &'static str,
    /// The type of all its values that are not NULL.
    pub kind: Type,
}

/// A view's rows at one moment. Each has one value per column, of the column's type or NULL.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// The view's name.
    pub name: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
}
