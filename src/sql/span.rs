//! Where in a script something was written.
//!
//! Pure. Counted in characters, not bytes: that is what a caret under a terminal line and PostgreSQL's error
//! position want.

use std::fmt;
use std::ops::Deref;

/// A range of characters of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Characters before the range, from the start of the script.
    pub start: usize,
    /// Characters before the end of the range; `end >= start`.
    pub end: usize,
    /// Line of the start, from 1. A line ends with a line feed.
    pub line: usize,
    /// Column of the start, from 1.
    pub column: usize,
}

impl Span {
    /// From the start of this range to the end of a later one.
    pub fn to(self, later: Span) -> Span {
        Span {
            end: later.end.max(self.end),
            ..self
        }
    }

    /// The empty range behind this one, on the assumption that it does not cross a line.
    pub fn after(self) -> Span {
        Span {
            start: self.end,
            end: self.end,
            line: self.line,
            column: self.column + (self.end - self.start),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A part of a statement together with its place. Two are equal when the parts are: where something was written
/// does not change what it says.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    /// What was written.
    pub value: T,
    /// Where.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// A part and its place.
    pub fn new(value: T, span: Span) -> Spanned<T> {
        Spanned { value, span }
    }
}

/// A part that no script contains: made by a program.
impl<T> From<T> for Spanned<T> {
    fn from(value: T) -> Spanned<T> {
        Spanned::new(value, Span::default())
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Spanned<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A place in a text that only moves forward: bytes to slice with, characters, line and column to report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    pub(super) byte: usize,
    pub(super) char: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Cursor {
    pub(super) const START: Cursor = Cursor {
        byte: 0,
        char: 0,
        line: 1,
        column: 1,
    };

    /// Moves over one character.
    pub(super) fn step(&mut self, c: char) {
        self.byte += c.len_utf8();
        self.char += 1;
        if c == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
    }

    /// The range from here to `end`.
    pub(super) fn until(&self, end: &Cursor) -> Span {
        Span {
            start: self.char,
            end: end.char,
            line: self.line,
            column: self.column,
        }
    }
}
