//! What a statement answers: a table, a tag, notices.
//!
//! Pure.

use std::fmt;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: the property is absent and has no number that stands for it.
    Null,
    /// True or false.
    Bool(bool),
    /// A count, an identity, bytes.
    Int(i64),
    /// Seconds, ratios, cores.
    Float(f64),
    /// A name, or a quantity with its unit.
    Text(String),
}

/// The type of a column; PostgreSQL's name for it is in `Display`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// `text`
    Text,
    /// `bigint`
    Int,
    /// `double precision`
    Float,
    /// `boolean`
    Bool,
}

impl Type {
    /// As PostgreSQL calls it.
    pub fn name(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Int => "bigint",
            Type::Float => "double precision",
            Type::Bool => "boolean",
        }
    }
}

impl Value {
    /// Its type; none for NULL.
    pub fn kind(&self) -> Option<Type> {
        match self {
            Value::Null => None,
            Value::Bool(_) => Some(Type::Bool),
            Value::Int(_) => Some(Type::Int),
            Value::Float(_) => Some(Type::Float),
            Value::Text(_) => Some(Type::Text),
        }
    }

    /// Whether a table sets it flush right.
    fn is_number(&self) -> bool {
        matches!(self, Value::Int(_) | Value::Float(_))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL"),
            Value::Bool(b) => b.fmt(f),
            Value::Int(n) => n.fmt(f),
            Value::Float(x) => x.fmt(f),
            Value::Text(t) => t.fmt(f),
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

/// Saturates at `i64::MAX`.
impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Int(n)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Float(x)
    }
}

impl From<&str> for Value {
    fn from(t: &str) -> Value {
        Value::Text(t.to_owned())
    }
}

impl From<String> for Value {
    fn from(t: String) -> Value {
        Value::Text(t)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Value {
        v.map_or(Value::Null, Into::into)
    }
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoticeKind {
    /// A value is beyond this machine: kept as written, smaller in effect.
    Clamped,
    /// What was set has no effect while something else is as it is.
    NoEffect,
    /// Not all rows are shown.
    Shortened,
    /// There was nothing to do: the group exists already, or does not exist.
    Skipped,
}

/// A remark beside a result: the statement succeeded, but there is something to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// What it is about.
    pub kind: NoticeKind,
    /// The groups it speaks of.
    pub groups: Vec<String>,
    /// The property it speaks of, if it is one.
    pub property: Option<&'static str>,
    /// The whole remark, one line.
    pub message: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The result of one statement. Its `Display` is an aligned table with the notices below.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    tag: String,
    columns: Vec<String>,
    types: Vec<Type>,
    rows: Vec<Vec<Value>>,
    notices: Vec<Notice>,
}

impl Output {
    /// The result of a statement that returns no rows. `tag` names what was done, as `CREATE RESOURCE GROUP`.
    pub fn done(tag: impl Into<String>) -> Output {
        Output {
            tag: tag.into(),
            ..Output::default()
        }
    }

    /// A table without rows yet.
    pub fn table<C: Into<String>>(
        tag: impl Into<String>,
        columns: impl IntoIterator<Item = C>,
    ) -> Output {
        Output {
            tag: tag.into(),
            columns: columns.into_iter().map(Into::into).collect(),
            ..Output::default()
        }
    }

    /// Says of which type each column is, where that does not follow from the values that happen to be there.
    #[must_use]
    pub fn with_types(mut self, types: impl IntoIterator<Item = Type>) -> Output {
        self.types = types.into_iter().collect();
        self
    }

    /// The type of each column: as told, else that of its values, else text.
    pub fn types(&self) -> Vec<Type> {
        let of_values = |column: usize| {
            let mut values = self.rows.iter().filter_map(|row| row.get(column)?.kind());
            let first = values.next()?;
            values.all(|kind| kind == first).then_some(first)
        };
        let of = |column| {
            self.types
                .get(column)
                .copied()
                .or_else(|| of_values(column))
        };
        let columns = 0..self.columns.len();
        columns
            .map(|column| of(column).unwrap_or(Type::Text))
            .collect()
    }

    /// Adds a row. It is cut or filled with [`Value::Null`] to the number of columns.
    pub fn push(&mut self, mut row: Vec<Value>) {
        row.resize(self.columns.len(), Value::Null);
        self.rows.push(row);
    }

    /// Adds a notice, once.
    pub fn notice(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Names of the columns; empty when the statement returns no table.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The rows; each has one value per column.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }

    /// What was done, as `ALTER RESOURCE GROUP`.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// What there is to know besides: values that were clamped, rows that are not shown.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The cell of a row under the column of that name.
    pub fn get(&self, row: usize, column: &str) -> Option<&Value> {
        let column = self.columns.iter().position(|c| c == column)?;
        self.rows.get(row)?.get(column)
    }
}

/// Control characters would break the table's lines.
fn cell(value: &Value) -> String {
    let text = value.to_string();
    if text.contains(char::is_control) {
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    } else {
        text
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.columns.is_empty() {
            writeln!(f, "{}", self.tag)?;
        } else {
            self.write_table(f)?;
        }
        for notice in &self.notices {
            writeln!(f, "notice: {notice}")?;
        }
        Ok(())
    }
}

impl Output {
    fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|r| r.iter().map(cell).collect())
            .collect();
        let mut widths: Vec<usize> = self.columns.iter().map(|c| c.chars().count()).collect();
        for row in &cells {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let head: Vec<String> = self
            .columns
            .iter()
            .zip(&widths)
            .map(|(c, w)| format!("{c:w$}"))
            .collect();
        writeln!(f, "{}", head.join(" | ").trim_end())?;
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
        writeln!(f, "{}", rule.join("-+-"))?;
        for (row, texts) in self.rows.iter().zip(&cells) {
            let line: Vec<String> = row
                .iter()
                .zip(texts)
                .zip(&widths)
                .map(|((value, text), w)| {
                    if value.is_number() {
                        format!("{text:>w$}")
                    } else {
                        format!("{text:w$}")
                    }
                })
                .collect();
            writeln!(f, "{}", line.join(" | ").trim_end())?;
        }
        let plural = if self.rows.len() == 1 { "" } else { "s" };
        writeln!(f, "({} row{plural})", self.rows.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_with_numbers_flush_right() {
        let mut output = Output::table("SHOW", ["name", "id"]);
        output.push(vec!["etl".into(), 7_u64.into()]);
        output.push(vec!["long_name".into(), 10_001_u64.into()]);
        output.push(vec![Value::Null]);
        let expected = [
            "name      | id",
            "----------+------",
            "etl       |     7",
            "long_name | 10001",
            "NULL      | NULL",
            "(3 rows)",
        ];
        assert_eq!(output.to_string().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_line_feed_in_a_cell_does_not_break_the_table() {
        let mut output = Output::table("SHOW", ["user"]);
        output.push(vec!["a\nb".into()]);
        assert_eq!(output.to_string(), "user\n----\na b\n(1 row)\n");
    }

    #[test]
    fn a_statement_without_a_table_shows_its_tag_and_notices() {
        let mut output = Output::done("CREATE RESOURCE GROUP");
        let notice = Notice {
            kind: NoticeKind::Clamped,
            groups: vec!["etl".to_owned()],
            property: Some("mem_limit"),
            message: "'mem_limit' of etl is cut".to_owned(),
        };
        output.notice(notice.clone());
        output.notice(notice);
        assert_eq!(
            output.to_string(),
            "CREATE RESOURCE GROUP\nnotice: 'mem_limit' of etl is cut\n"
        );
    }

    #[test]
    fn a_count_beyond_i64_saturates() {
        assert_eq!(Value::from(u64::MAX), Value::Int(i64::MAX));
    }
}
