//! A system view: typed columns and the rows of one moment.
//!
//! Pure.

use crate::sql::{Output, Type, Value};

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

impl Relation {
    /// All of it, as the answer of a SHOW.
    pub fn show(self) -> Output {
        let mut output = Output::table("SHOW", self.columns.iter().map(|column| column.name))
            .with_types(self.columns.iter().map(|column| column.kind));
        self.rows.into_iter().for_each(|row| output.push(row));
        output
    }
}

/// One column of a view over rows of one kind: its name, which carries the unit, its type, and its cell.
pub(super) type Cell<Row> = (&'static str, Type, fn(&Row) -> Value);

/// A view of these rows, in the order given.
pub(super) fn relation<Row>(name: &'static str, columns: &[Cell<Row>], rows: &[Row]) -> Relation {
    let cells = |row| columns.iter().map(|(_, _, cell)| cell(row)).collect();
    Relation {
        name,
        columns: columns
            .iter()
            .map(|&(name, kind, _)| Column { name, kind })
            .collect(),
        rows: rows.iter().map(cells).collect(),
    }
}
