//! `LIKE` patterns: `%` is any text, `_` any character, `\` takes the next one as it is.
//!
//! Pure. Time is at most pattern × text, memory is constant: a pattern cannot make it explode.

/// The pattern ended in a backslash that escapes nothing, and the text led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenEscape;

/// What to write instead.
pub(crate) const ESCAPES: &str = "\\ takes the next character as it is; a backslash itself is \\\\";

/// Whether the whole text fits the pattern. Case counts.
///
/// # Errors
/// As in PostgreSQL: only if the comparison gets as far as a backslash at the pattern's end. A text that has ended or
/// differed before does not fit, and that is all.
pub fn like(pattern: &str, text: &str) -> Result<bool, OpenEscape> {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern behind the last `%`, and the text from which it was last tried.
    let mut retry = None;
    // Nothing but `%` and `_` since a `%` that was met with text left: PostgreSQL looks what comes behind them first.
    let mut looks_ahead = false;
    loop {
        let before = text.clone();
        let fits = match (pattern.next(), text.next()) {
            (None, None) => return Ok(true),
            (Some('%'), next) => {
                text = before;
                looks_ahead |= next.is_some();
                retry = Some((pattern.clone(), text.clone()));
                continue;
            }
            (Some('\\'), next)
                if (looks_ahead || next.is_some()) && pattern.as_str().is_empty() =>
            {
                return Err(OpenEscape);
            }
            // Giving more characters to the `%` would leave even fewer for the rest of the pattern.
            (Some(_), None) => return Ok(false),
            (None, Some(_)) => false,
            (Some('_'), Some(_)) => continue,
            (Some('\\'), Some(c)) => pattern.next() == Some(c),
            (Some(wanted), Some(c)) => wanted == c,
        };
        looks_ahead = false;
        if fits {
            continue;
        }
        let Some((behind, mut from)) = retry.take() else {
            return Ok(false);
        };
        from.next();
        retry = Some((behind.clone(), from.clone()));
        (pattern, text) = (behind, from);
    }
}

/// Whether a pattern ends in a backslash that escapes nothing: whatever the text, it cannot be meant.
pub fn ends_in_escape(pattern: &str) -> bool {
    let rest = pattern.trim_end_matches('\\');
    (pattern.len() - rest.len()) % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::{OpenEscape, ends_in_escape, like};

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, text, fits) in [
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%", "any", true),
            ("etl%", "etl_1", true),
            ("etl%", "xetl", false),
            ("%l_1", "etl_1", true),
            ("e_l", "etl", true),
            ("e_l", "el", false),
            ("a%b%c", "aXbYc", true),
            ("a%b%c", "aXcYb", false),
            ("%ab", "aab", true),
            ("%%", "x", true),
            ("e\\_1", "e_1", true),
            ("e\\_1", "ex1", false),
            ("100\\%", "100%", true),
            ("\\\\", "\\", true),
            ("_", "ü", true),
            ("A", "a", false),
        ] {
            assert_eq!(like(pattern, text), Ok(fits), "{pattern:?} {text:?}");
        }
    }

    /// As PostgreSQL 15 answers each of them.
    #[test]
    fn a_backslash_at_the_end_is_an_error_where_the_comparison_gets_there() {
        for (pattern, text, answer) in [
            ("\\", "\\", Err(OpenEscape)),
            ("\\", "", Ok(false)),
            ("a\\", "a", Ok(false)),
            ("a\\", "ab", Err(OpenEscape)),
            ("a\\", "b", Ok(false)),
            ("%\\", "a", Err(OpenEscape)),
            ("%\\", "", Ok(false)),
            ("%_\\", "a", Err(OpenEscape)),
            ("_%\\", "a", Ok(false)),
            ("a%\\", "a", Ok(false)),
            ("%b\\", "ab", Ok(false)),
            ("%b\\", "abc", Err(OpenEscape)),
            ("%__\\", "a", Ok(false)),
        ] {
            assert_eq!(like(pattern, text), answer, "{pattern:?} {text:?}");
        }
        for (pattern, open) in [
            ("", false),
            ("\\", true),
            ("a\\\\", false),
            ("\\\\\\", true),
        ] {
            assert_eq!(ends_in_escape(pattern), open, "{pattern:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_product_time_not_exponential() {
        let pattern = "%a".repeat(500) + "b";
        assert_eq!(like(&pattern, &"a".repeat(5_000)), Ok(false));
    }
}
