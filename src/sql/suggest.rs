//! The closest known word to a misspelt one.
//!
//! Pure.

/// Longer words are not compared: nobody misspells one of ours that way.
const LONGEST: usize = 64;

/// The candidate with the fewest edits to `word` (insert, delete, replace, swap of neighbours; case ignored), if
/// these are at most two and at most a third of the longer word; at equal distance the first candidate.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in candidates {
        let other: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
        let allowed = (word.len().max(other.len()) / 3).min(2);
        let edits = distance(&word, &other);
        if edits <= allowed && best.is_none_or(|(fewest, _)| edits < fewest) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance, three rows at a time.
fn distance(a: &[char], b: &[char]) -> usize {
    let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut above: Option<char> = None;
    for (i, &ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        let mut left: Option<char> = None;
        for (j, &cb) in b.iter().enumerate() {
            let mut edits = (at(&last, j) + usize::from(ca != cb))
                .min(at(&last, j + 1) + 1)
                .min(at(&row, j) + 1);
            if j > 0 && left == Some(ca) && above == Some(cb) {
                edits = edits.min(at(&before, j - 1) + 1);
            }
            row.push(edits);
            left = Some(cb);
        }
        above = Some(ca);
        before = std::mem::replace(&mut last, row);
    }
    at(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_find_their_word() {
        let known = ["cpu_core_limit", "mem_limit", "user", "role", "db"];
        for (typed, meant) in [
            ("cpu_cor_limit", Some("cpu_core_limit")),
            ("CPU_CORE_LIMITS", Some("cpu_core_limit")),
            ("mem_limti", Some("mem_limit")),
            ("usr", Some("user")),
            ("usre", Some("user")),
            ("dbx", Some("db")),
            ("memory", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(closest(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn a_huge_word_is_not_compared() {
        assert_eq!(closest(&"x".repeat(1 << 20), ["user"]), None);
    }
}
