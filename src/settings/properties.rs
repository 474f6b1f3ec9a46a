//! Java's properties files: lines to keys and values.
//!
//! Pure. As `java.util.Properties` reads them: `#` and `!` begin a comment line; a key ends at `=`, `:` or a blank;
//! a backslash at the end of a line continues it; `\uXXXX` is a UTF-16 unit. Linear, without recursion.

use super::{SettingsError, VARIABLES, Variable, VariableSpec};
use crate::sql::suggest::closest;

/// Keys that begin with this are for us.
const OURS: &str = "pinot.query.scheduler.";

/// One key and its value, without escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Property {
    /// Where it begins, from 1.
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

impl Property {
    /// The variable that it sets; none if it is not for us.
    pub(super) fn variable(&self) -> Result<Option<Variable>, SettingsError> {
        let Some(name) = self.key.strip_prefix(OURS) else {
            return Ok(None);
        };
        let known = || {
            VARIABLES
                .iter()
                .filter_map(|spec| spec.property?.strip_prefix(OURS))
        };
        let spec = |name: &str| {
            let is = |spec: &&VariableSpec| {
                spec.property.and_then(|key| key.strip_prefix(OURS)) == Some(name)
            };
            VARIABLES.iter().find(is)
        };
        match spec(name) {
            Some(spec) => Ok(Some(spec.variable)),
            None => Err(SettingsError::UnknownKey {
                line: self.line,
                key: self.key.clone(),
                did_you_mean: closest(name, known())
                    .and_then(spec)
                    .and_then(|spec| spec.property),
            }),
        }
    }
}

/// All properties of a text, in its order.
pub(super) fn read(text: &str) -> Result<Vec<Property>, SettingsError> {
    logical_lines(text)
        .into_iter()
        .map(|(line, text)| {
            let (key, value) = split(&text);
            Ok(Property {
                line,
                key: unescape(key, line)?,
                value: unescape(value, line)?,
            })
        })
        .collect()
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Lines that say something, continued ones joined, each with its number. Escapes are still there.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in (1..).zip(text.split('\n')) {
        let line = line.trim_start_matches(is_blank);
        if open.is_none() && (line.is_empty() || line.starts_with(['#', '!'])) {
            continue;
        }
        let continues = line.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
        let line = if continues {
            line.get(..line.len() - 1).unwrap_or_default()
        } else {
            line
        };
        let (_, joined) = open.get_or_insert_with(|| (number, String::new()));
        joined.push_str(line);
        if !continues {
            lines.extend(open.take());
        }
    }
    lines.extend(open);
    lines
}

/// Key and value, at the first `=`, `:` or blank that is not escaped.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|&(_, c)| {
        let ends = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = !escaped && c == '\\';
        ends
    });
    let (key, rest) = line.split_at(end.map_or(line.len(), |(at, _)| at));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_blank))
}

fn unescape(text: &str, line: usize) -> Result<String, SettingsError> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let hex = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| hex);
                    units.push(unit.ok_or(SettingsError::BadEscape { line })?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => continue,
            },
            c => c,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    Ok(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, String, String)> {
        let all = read(text).unwrap();
        all.into_iter().map(|p| (p.line, p.key, p.value)).collect()
    }

    #[test]
    fn keys_and_values_are_told_apart_as_java_does() {
        for (line, key, value) in [
            ("a=b", "a", "b"),
            ("a = b", "a", "b"),
            ("a:b", "a", "b"),
            ("a : b", "a", "b"),
            ("a b", "a", "b"),
            ("  a\t \u{c}b c ", "a", "b c "),
            ("a==b", "a", "=b"),
            ("a = = b", "a", "= b"),
            ("a", "a", ""),
            ("a=", "a", ""),
            ("=b", "", "b"),
            ("a\\=b=c", "a=b", "c"),
            ("a\\:\\ b:c", "a: b", "c"),
            ("a=b#c", "a", "b#c"),
            ("\\#a=b", "#a", "b"),
            ("a\\\\=b", "a\\", "b"),
            ("a=\\t\\n\\r\\f\\z\\\\", "a", "\t\n\r\u{c}z\\"),
            ("k=\\u0041\\u00e4", "k", "Aä"),
            ("k=\\uD83D\\uDE00!", "k", "😀!"),
            ("k=\\uD83D!", "k", "\u{fffd}!"),
            ("größe=5", "größe", "5"),
        ] {
            assert_eq!(
                pairs(line),
                [(1, key.to_owned(), value.to_owned())],
                "{line:?}"
            );
        }
    }

    #[test]
    fn comments_blank_lines_and_continuations() {
        let text = "\u{feff}# a\r\n! b\r\n\r\n  # c \\\na = 1, \\\n    2, \\\r\n    # not a comment\rb=x\\\\\nc = \\\n\nd=e\\";
        let expected = [
            (5, "a", "1, 2, # not a comment"),
            (8, "b", "x\\"),
            (9, "c", ""),
            (11, "d", "e"),
        ];
        let expected = expected.map(|(line, key, value)| (line, key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
    }

    #[test]
    fn an_escape_that_is_cut_short_is_refused_with_its_line() {
        for text in ["a=1\nb=\\u00", "a=1\nb=\\u00g0", "a=1\n\\u+041=1"] {
            assert_eq!(
                read(text),
                Err(SettingsError::BadEscape { line: 2 }),
                "{text:?}"
            );
        }
    }
}
