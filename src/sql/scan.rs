//! A script to statements' texts, within caps.
//!
//! Pure. Finds the semicolons that end statements and refuses what no later stage should see: NUL, quotes and comments
//! that never end, statements beyond the cap. It says the same as the tokenizer about what a quote and a comment is:
//!
//! 1. `'`, `"` and `` ` `` quote; doubled they stand for themselves; a backslash is a plain character.
//! 2. `--` begins a comment up to the line feed; `/* */` does not nest.

use super::error::{SqlError, SqlErrorKind};
use super::span::{Cursor, Span};

/// How long a script may be. Longer ones are refused before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Bytes of a script.
    pub script: usize,
    /// Bytes of one statement, comments inside it included.
    pub statement: usize,
}

impl Caps {
    /// For what a client sends: 16 MiB, and 1 MiB per statement.
    pub const CLIENT: Caps = Caps {
        script: 16 << 20,
        statement: 1 << 20,
    };
    /// For catalog files and set-up scripts of the program itself: no cap.
    pub const NONE: Caps = Caps {
        script: usize::MAX,
        statement: usize::MAX,
    };
}

/// A statement's text and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) at: Cursor,
}

/// Splits a script at its semicolons. Pieces without any token are left out; comments before the first token of a
/// statement belong to nobody.
pub(super) fn split(script: &str, caps: Caps) -> Result<Vec<Piece<'_>>, SqlError> {
    if script.len() > caps.script {
        let (what, bytes, limit) = ("script", script.len(), caps.script);
        let kind = SqlErrorKind::TooLong { what, bytes, limit };
        return Err(SqlError::new(kind, Span::default()).with_hint("send it in parts"));
    }
    let mut scan = Scan::new(script);
    let mut pieces = Vec::new();
    loop {
        match scan.next(caps) {
            Ok(Some(piece)) => pieces.push(piece),
            Ok(None) => return Ok(pieces),
            Err(error) => return Err(error.at_statement(pieces.len() + 1, 0)),
        }
    }
}

/// Finds the statements of a script one after the other.
pub(super) struct Scan<'a> {
    script: &'a str,
    here: Cursor,
    /// Where the running statement begins.
    begun: Option<Cursor>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(script: &'a str) -> Scan<'a> {
        Scan {
            script,
            here: Cursor::START,
            begun: None,
        }
    }

    /// After an error: where the statement begins that it is in.
    pub(super) fn broken_at(&self) -> Cursor {
        self.begun.unwrap_or(self.here)
    }

    /// The next statement; none at the end.
    pub(super) fn next(&mut self, caps: Caps) -> Result<Option<Piece<'a>>, SqlError> {
        loop {
            let from = self.here;
            match self.bump()? {
                None => break,
                Some('\u{feff}') if from.byte == 0 => {}
                Some('-') if self.peek() == Some('-') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.bump()?;
                    }
                }
                Some('/') if self.peek() == Some('*') => {
                    self.bump()?;
                    self.past_comment(from)?;
                }
                Some(';') => {
                    if let Some(at) = self.begun.take() {
                        return self.piece(at, from, caps).map(Some);
                    }
                }
                Some(quote @ ('\'' | '"' | '`')) => {
                    self.begun.get_or_insert(from);
                    self.past_quote(quote, from)?;
                }
                Some(c) if c.is_whitespace() => {}
                Some(_) => {
                    self.begun.get_or_insert(from);
                }
            }
        }
        let Some(at) = self.begun else {
            return Ok(None);
        };
        let last = self.piece(at, self.here, caps)?;
        self.begun = None;
        Ok(Some(last))
    }

    fn peek(&self) -> Option<char> {
        self.script.get(self.here.byte..)?.chars().next()
    }

    fn bump(&mut self) -> Result<Option<char>, SqlError> {
        let Some(character) = self.peek() else {
            return Ok(None);
        };
        let from = self.here;
        self.here.step(character);
        if character == '\0' {
            let kind = SqlErrorKind::BadCharacter { character };
            let error = SqlError::new(kind, from.until(&self.here));
            return Err(error.with_hint("text holds any character but this one; remove it"));
        }
        Ok(Some(character))
    }

    fn past_quote(&mut self, quote: char, from: Cursor) -> Result<(), SqlError> {
        while let Some(c) = self.bump()? {
            if c == quote {
                if self.peek() != Some(quote) {
                    return Ok(());
                }
                self.bump()?;
            }
        }
        let (what, hint) = match quote {
            '\'' => (
                "'text'",
                "close it with '; a quote inside is doubled: 'it''s'",
            ),
            '"' => ("\"text\"", "close it with \"; a quote inside is doubled"),
            _ => ("`name`", "close it with a back-quote"),
        };
        Err(self.unterminated(what, from).with_hint(hint))
    }

    fn past_comment(&mut self, from: Cursor) -> Result<(), SqlError> {
        while let Some(c) = self.bump()? {
            if c == '*' && self.peek() == Some('/') {
                self.bump()?;
                return Ok(());
            }
        }
        let error = self.unterminated("/* comment */", from);
        Err(error.with_hint("close it with */; comments do not nest"))
    }

    fn unterminated(&self, what: &'static str, from: Cursor) -> SqlError {
        let mut opened = from;
        if let Some(c) = self.script.get(from.byte..).and_then(|t| t.chars().next()) {
            opened.step(c);
        }
        SqlError::new(SqlErrorKind::Unterminated { what }, from.until(&opened))
    }

    fn piece(&self, at: Cursor, end: Cursor, caps: Caps) -> Result<Piece<'a>, SqlError> {
        let text = self.script.get(at.byte..end.byte).unwrap_or_default();
        if text.len() > caps.statement {
            let (what, bytes, limit) = ("statement", text.len(), caps.statement);
            let kind = SqlErrorKind::TooLong { what, bytes, limit };
            return Err(SqlError::new(kind, at.until(&at)).with_hint(
                "add the classifiers in several ALTER RESOURCE GROUP .. ADD statements",
            ));
        }
        Ok(Piece { text, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        split(script, Caps::CLIENT)
            .unwrap()
            .iter()
            .map(|p| p.text.trim())
            .collect()
    }

    #[test]
    fn only_a_semicolon_outside_quotes_and_comments_ends_a_statement() {
        assert_eq!(texts("a;b ; c"), ["a", "b", "c"]);
        assert_eq!(texts(";; /* x;y */ ; -- z;\n"), Vec::<&str>::new());
        assert_eq!(
            texts("a ';' \";\" `;` 'it''s;' /*;*/ -- ;\n b"),
            ["a ';' \";\" `;` 'it''s;' /*;*/ -- ;\n b"]
        );
        assert_eq!(texts("a '\\'; b"), ["a '\\'", "b"]);
        assert_eq!(texts("/*/ a */ b"), ["b"]);
        assert_eq!(texts("\u{feff}a"), ["a"]);
    }

    #[test]
    fn the_opening_quote_is_shown_when_it_is_never_closed() {
        for (script, what, line, column) in [
            ("a;\n b 'c", "'text'", 2, 4),
            ("\"", "\"text\"", 1, 1),
            ("é `", "`name`", 1, 3),
            ("/* /* */ */ /* *", "/* comment */", 1, 13),
            ("'a''", "'text'", 1, 1),
        ] {
            let error = split(script, Caps::CLIENT).unwrap_err();
            assert_eq!(error.kind, SqlErrorKind::Unterminated { what }, "{script}");
            assert_eq!((error.line(), error.column()), (line, column), "{script}");
        }
    }

    #[test]
    fn nul_is_refused_wherever_it_hides() {
        for script in ["\0", "a '\0'", "-- \0", "/* \0 */", "a\0;"] {
            let error = split(script, Caps::NONE).unwrap_err();
            assert_eq!(error.kind.code(), "bad_character", "{script:?}");
        }
    }

    #[test]
    fn a_statement_beyond_its_cap_is_refused_unread_and_files_have_no_cap() {
        let long = format!("a;{}", "(".repeat(10 << 20));
        let error = split(&long, Caps::CLIENT).unwrap_err();
        assert_eq!((error.kind.code(), error.statement), ("too_long", 2));
        assert_eq!(split(&long, Caps::NONE).unwrap().len(), 2);
        let error = split(&"x ".repeat(9 << 20), Caps::CLIENT).unwrap_err();
        assert_eq!(error.kind.code(), "too_long");
    }
}
