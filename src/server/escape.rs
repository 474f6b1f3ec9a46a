//! What PostgreSQL makes of the backslashes in `E'text'`.
//!
//! Pure.

/// The text between the quotes; none if a backslash asks for what is no character of UTF-8, for half of one, for NUL, or
/// for a quote: the reader of scripts ends the text there, so that what follows would be a statement to it.
pub(super) fn unescaped(inner: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.chars();
    let push = |bytes: &mut Vec<u8>, c: char| {
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    while let Some(c) = rest.next() {
        if c == '\'' {
            // It is doubled: one alone would have been the end.
            rest.next();
        }
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        match rest.next()? {
            '\'' => return None,
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'u' => push(&mut bytes, character(&mut rest, 4)?),
            'U' => push(&mut bytes, character(&mut rest, 8)?),
            'x' => match digits(&mut rest, 16, 2) {
                Some(byte) => bytes.push(u8::try_from(byte).ok()?),
                None => bytes.push(b'x'),
            },
            c if c.is_digit(8) => {
                let mut from = rest.clone();
                let more = digits(&mut from, 8, 2);
                let used = rest.as_str().len() - from.as_str().len();
                let first = c.to_digit(8)? << (3 * used);
                rest = from;
                // PostgreSQL takes the lowest bits of \777.
                bytes.push(u8::try_from((first + more.unwrap_or(0)) & 0xff).ok()?);
            }
            other => push(&mut bytes, other),
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// So many digits at most, one at least.
fn digits(rest: &mut std::str::Chars<'_>, radix: u32, most: usize) -> Option<u32> {
    let mut found = None;
    for _ in 0..most {
        let Some(digit) = rest.clone().next().and_then(|c| c.to_digit(radix)) else {
            break;
        };
        rest.next();
        found = Some(found.unwrap_or(0) * radix + digit);
    }
    found
}

/// A character by exactly so many digits.
fn character(rest: &mut std::str::Chars<'_>, count: usize) -> Option<char> {
    let before = rest.as_str().len();
    let code = digits(rest, 16, count)?;
    (before - rest.as_str().len() == count)
        .then(|| char::from_u32(code))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_is_read_as_postgresql_reads_it() {
        for (inner, expected) in [
            (r"a\nb\tc\rd\be\ff", "a\nb\tc\rd\u{8}e\u{c}f"),
            (r"\\n\\", r"\n\"),
            (r"it''s", "it's"),
            (r"\101\7\1018\x41\x4g\xg", "A\u{7}A8A\u{4}gxg"),
            (r"\501", "A"),
            (r"\303\251 \xc3\xa9 \u00e9 \U0001F600", "é é é 😀"),
            (r"\q\é\8", "qé8"),
            ("", ""),
        ] {
            assert_eq!(unescaped(inner).as_deref(), Some(expected), "{inner}");
        }
    }

    #[test]
    fn what_is_no_text_is_none() {
        for inner in [
            r"\",
            r"it\'s",
            r"\0",
            r"\x00",
            r"\xff",
            r"\377",
            r"\u12",
            r"\ud83d\ude00",
            r"\U00110000",
        ] {
            assert_eq!(unescaped(inner), None, "{inner}");
        }
    }
}
