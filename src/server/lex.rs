//! The words of a statement that is answered here and not by the governor.
//!
//! Pure. Lenient where the governor's tokenizer is strict: clients send PostgreSQL's whole lexis, of which a few words
//! decide. What is never closed ends with the text.

use super::escape::unescaped;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word or keyword.
    Word,
    /// `"name"` or `` `name` ``
    Name,
    /// `'text'` or `E'text'`
    Text,
    /// Digits, perhaps with a fraction and an exponent.
    Number,
    /// `$1`
    Parameter(u16),
    /// One other character.
    Sign(char),
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    /// As it stands in the statement.
    pub(super) text: &'a str,
    /// Bytes before it.
    pub(super) byte: usize,
    /// Characters before it.
    pub(super) char: usize,
}

impl Token<'_> {
    /// Whether it is this word, in any case.
    pub(super) fn is(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is this character.
    pub(super) fn sign(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }

    /// Whether it is `E'text'` with a backslash that cannot be read, or without an end.
    pub(super) fn is_unreadable(&self) -> bool {
        let quoted = match self.kind {
            Kind::Text => self.text.strip_prefix(['e', 'E']),
            _ => None,
        };
        quoted.is_some_and(|quoted| inner(quoted).and_then(unescaped).is_none())
    }

    /// What it says, without quotes; words in lower case, as PostgreSQL folds them.
    pub(super) fn value(&self) -> String {
        match self.kind {
            Kind::Word => self.text.to_ascii_lowercase(),
            Kind::Name => unquoted(self.text),
            Kind::Text => match self.text.strip_prefix(['e', 'E']) {
                Some(quoted) => inner(quoted)
                    .and_then(unescaped)
                    .unwrap_or_else(|| self.text.to_owned()),
                None => unquoted(self.text),
            },
            _ => self.text.to_owned(),
        }
    }
}

/// What stands between the quotes of a text that is closed.
fn inner(quoted: &str) -> Option<&str> {
    quoted.strip_prefix('\'')?.strip_suffix('\'')
}

fn unquoted(text: &str) -> String {
    let mut letters = text.chars();
    let Some(quote) = letters.next() else {
        return String::new();
    };
    let inner = letters.as_str();
    let inner = inner.strip_suffix(quote).unwrap_or(inner);
    inner.replace(&format!("{quote}{quote}"), &quote.to_string())
}

/// The tokens of one statement, without comments.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    each(text).collect()
}

/// The same one after the other: a list of them takes many times the memory that the text does.
pub(super) fn each(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || {
        loop {
            let (byte, char) = (lexer.byte, lexer.char);
            let Some(kind) = lexer.next()? else {
                continue;
            };
            let text = text.get(byte..lexer.byte).unwrap_or_default();
            return Some(Token {
                kind,
                text,
                byte,
                char,
            });
        }
    })
}

/// Characters before the first comment or quote of which the reader of scripts finds another end, if there is one: it ends `--`
/// at a line feed alone, and knows neither comments within comments nor `\'` in a text.
pub(super) fn odd_end(text: &str) -> Option<usize> {
    let mut lexer = Lexer::new(text);
    while lexer.next().is_some() {}
    lexer.odd
}

struct Lexer<'a> {
    text: &'a str,
    byte: usize,
    char: usize,
    /// See [`odd_end`].
    odd: Option<usize>,
}

impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Lexer<'a> {
        Lexer {
            text,
            byte: 0,
            char: 0,
            odd: None,
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.byte..)?.chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.byte += c.len_utf8();
        self.char += 1;
        Some(c)
    }

    fn past(&mut self, belongs: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.bump();
        }
    }

    /// The next token; within, none for what is no token: blanks and comments.
    fn next(&mut self) -> Option<Option<Kind>> {
        let from = self.char;
        let first = self.bump()?;
        Some(match first {
            c if c.is_whitespace() => None,
            '-' if self.peek() == Some('-') => {
                self.past(|c| !matches!(c, '\n' | '\r'));
                let mut rest = self.text.get(self.byte..).unwrap_or_default().chars();
                if rest.next() == Some('\r') && !matches!(rest.next(), Some('\n') | None) {
                    self.odd.get_or_insert(from);
                }
                None
            }
            '/' if self.peek() == Some('*') => {
                self.bump();
                if self.past_comment() > 1 {
                    self.odd.get_or_insert(from);
                }
                None
            }
            '\'' => Some(self.quoted('\'', false)),
            'e' | 'E' if self.peek() == Some('\'') => {
                self.bump();
                Some(self.quoted('\'', true))
            }
            '"' | '`' => Some(self.quoted(first, false)),
            '$' if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                let from = self.byte;
                self.past(|c| c.is_ascii_digit());
                let digits = self.text.get(from..self.byte).unwrap_or_default();
                Some(Kind::Parameter(digits.parse().unwrap_or(u16::MAX)))
            }
            c if c.is_ascii_digit() => Some(self.number(true)),
            '.' if self.peek().is_some_and(|c| c.is_ascii_digit()) => Some(self.number(false)),
            c if c.is_alphabetic() || c == '_' => {
                self.past(|c| c.is_alphanumeric() || c == '_' || c == '$');
                Some(Kind::Word)
            }
            c => Some(Kind::Sign(c)),
        })
    }

    /// Comments of this kind nest: how deep.
    fn past_comment(&mut self) -> usize {
        let (mut depth, mut deepest) = (1_usize, 1);
        while depth > 0
            && let Some(c) = self.bump()
        {
            match (c, self.peek()) {
                ('*', Some('/')) => depth -= 1,
                ('/', Some('*')) => depth += 1,
                _ => continue,
            }
            deepest = deepest.max(depth);
            self.bump();
        }
        deepest
    }

    /// What its first digit or its point begins. Letters that touch it make it one that nobody can read.
    fn number(&mut self, whole: bool) -> Kind {
        self.past(|c| c.is_ascii_digit());
        if whole && self.peek() == Some('.') {
            self.bump();
            self.past(|c| c.is_ascii_digit());
        }
        let mut rest = self.text.get(self.byte..).unwrap_or_default().chars();
        if matches!(rest.next(), Some('e' | 'E'))
            && matches!(rest.next(), Some('+' | '-'))
            && rest.next().is_some_and(|c| c.is_ascii_digit())
        {
            self.bump();
            self.bump();
        }
        self.past(|c| c.is_alphanumeric() || c == '_');
        Kind::Number
    }

    fn quoted(&mut self, quote: char, escapes: bool) -> Kind {
        while let Some(c) = self.bump() {
            if escapes && c == '\\' {
                if self.bump() == Some(quote) {
                    self.odd.get_or_insert(self.char.saturating_sub(2));
                }
            } else if c == quote {
                if self.peek() != Some(quote) {
                    break;
                }
                self.bump();
            }
        }
        if quote == '\'' {
            Kind::Text
        } else {
            Kind::Name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).iter().map(|token| token.kind).collect()
    }

    #[test]
    fn words_quotes_numbers_and_parameters_are_told_apart() {
        let text = "SELECT \"A\"\"b\", 'it''s', E'a\\x41b\\\\', 1.5, $12 -- $3\n/* 'x */ <> é";
        let found: Vec<String> = tokens(text).iter().map(Token::value).collect();
        let expected = [
            "select", "A\"b", ",", "it's", ",", "aAb\\", ",", "1.5", ",", "$12", "<", ">", "é",
        ];
        assert_eq!(found, expected);
        assert_eq!(kinds("$12"), [Kind::Parameter(12)]);
        assert_eq!(kinds("$"), [Kind::Sign('$')]);
    }

    #[test]
    fn numbers_and_comments_end_where_postgresql_ends_them() {
        for (text, expected) in [
            ("1.5e-3,.5,5.", &["1.5e-3", ",", ".5", ",", "5."][..]),
            ("1e3-1", &["1e3", "-", "1"]),
            ("1e-x", &["1e", "-", "x"]),
            ("0x10 1_000 5x", &["0x10", "1_000", "5x"]),
            ("a.b.5", &["a", ".", "b", ".5"]),
            ("1/* /* */ $1 */2", &["1", "2"]),
            ("1--$1\r2", &["1", "2"]),
            ("1/*/2*/3", &["1", "3"]),
        ] {
            let found: Vec<&str> = tokens(text).iter().map(|token| token.text).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn places_are_counted_in_bytes_and_in_characters() {
        let tokens = tokens("é 'ü' x");
        let places: Vec<_> = tokens
            .iter()
            .map(|token| (token.byte, token.char))
            .collect();
        assert_eq!(places, [(0, 0), (3, 2), (8, 6)]);
    }

    #[test]
    fn what_is_never_closed_ends_with_the_text() {
        for text in ["'", "\"", "/*", "E'\\", "--", "$99999999", "'a''"] {
            tokens(text);
        }
        assert_eq!(tokens("E'").len(), 1);
    }
}
