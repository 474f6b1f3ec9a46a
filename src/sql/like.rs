//! `LIKE` patterns: `%` is any text, `_` any character, `\` takes the next one as it is.
//!
//! Pure. Time is at most pattern × text, memory is constant: a pattern cannot make it explode.

/// Whether the whole text fits the pattern. Case counts.
pub fn like(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern behind the last `%`, and the text from which it was last tried.
    let mut retry = None;
    loop {
        let before = text.clone();
        let fits = match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some('%'), _) => {
                text = before;
                retry = Some((pattern.clone(), text.clone()));
                true
            }
            // Giving more characters to the `%` would leave even fewer for the rest of the pattern.
            (Some(_), None) => return false,
            (None, Some(_)) => false,
            (Some('_'), Some(_)) => true,
            (Some('\\'), Some(c)) => pattern.next().unwrap_or('\\') == c,
            (Some(wanted), Some(c)) => wanted == c,
        };
        if fits {
            continue;
        }
        let Some((behind, mut from)) = retry.take() else {
            return false;
        };
        from.next();
        retry = Some((behind.clone(), from.clone()));
        (pattern, text) = (behind, from);
    }
}

#[cfg(test)]
mod tests {
    use super::like;

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
            ("\\", "\\", true),
            ("_", "ü", true),
            ("A", "a", false),
        ] {
            assert_eq!(like(pattern, text), fits, "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_product_time_not_exponential() {
        let pattern = "%a".repeat(500) + "b";
        assert!(!like(&pattern, &"a".repeat(5_000)));
    }
}
