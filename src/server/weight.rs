//! How much memory that takes which a session keeps of what it has read.
//!
//! Pure. Counted as allocators count: many short texts weigh more than the message that they came in.

use super::answer::Field;
use crate::sql::Value;

/// What a text of its own takes, besides its letters: rounded up, with the allocator's notes.
const BLOCK: usize = 32;

/// On the heap.
pub(super) fn text(text: &str) -> usize {
    text.len() + BLOCK
}

/// A list of texts, all of it.
pub(super) fn texts(texts: &[String]) -> usize {
    let letters: usize = texts.iter().map(|it| text(it)).sum();
    size_of_val(texts) + letters
}

/// The description of rows.
pub(super) fn fields(fields: &[Field]) -> usize {
    let names: usize = fields.iter().map(|field| text(&field.name)).sum();
    size_of_val(fields) + names
}

/// On the heap.
pub(super) fn value(value: &Value) -> usize {
    match value {
        Value::Text(letters) => text(letters),
        _ => 0,
    }
}

pub(super) fn rows(rows: &[Vec<Value>]) -> usize {
    let row = |row: &Vec<Value>| {
        BLOCK + size_of_val(row.as_slice()) + row.iter().map(value).sum::<usize>()
    };
    size_of_val(rows) + rows.iter().map(row).sum::<usize>()
}
