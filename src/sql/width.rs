//! How many columns of a terminal a character takes, and what is shown of one that takes none.
//!
//! Pure. After Unicode's East Asian Width and the marks that stand on other letters, in ranges that are close enough for a
//! caret; terminals do not agree on the rest.

/// A character as a picture shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) shown: char,
    pub(super) columns: usize,
}

/// Columns of a tab: where it would end depends on what stands before the line.
const TAB: usize = 4;

/// How `c` is shown. What would break the line or change the direction of the text is not shown as it is: a picture
/// says what is there.
pub(super) fn cell(c: char) -> Cell {
    let (shown, columns) = match c {
        '\t' => (' ', TAB),
        '\u{2028}' | '\u{2029}' => (' ', 1),
        c if c.is_control() => (' ', 1),
        c if within(c, &HIDDEN) => (char::REPLACEMENT_CHARACTER, 1),
        c if within(c, &MARKS) => (c, 0),
        c if within(c, &WIDE) => (c, 2),
        c => (c, 1),
    };
    Cell { shown, columns }
}

fn within(c: char, ranges: &[(u32, u32)]) -> bool {
    let c = u32::from(c);
    // The most usual letters are in none.
    c >= 0xad
        && ranges
            .binary_search_by(|&(first, last)| {
                if last < c {
                    std::cmp::Ordering::Less
                } else if first > c {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
}

/// Invisible: joiners, directions, tags.
const HIDDEN: [(u32, u32); 9] = [
    (0xad, 0xad),
    (0x61c, 0x61c),
    (0x180e, 0x180e),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0xfeff, 0xfeff),
    (0xfff9, 0xfffb),
    (0xe0000, 0xe007f),
];

/// Stand on the letter before.
const MARKS: [(u32, u32); 26] = [
    (0x300, 0x36f),
    (0x483, 0x489),
    (0x591, 0x5bd),
    (0x5bf, 0x5bf),
    (0x5c1, 0x5c2),
    (0x610, 0x61a),
    (0x64b, 0x65f),
    (0x670, 0x670),
    (0x6d6, 0x6dc),
    (0x6df, 0x6e4),
    (0x900, 0x902),
    (0x93a, 0x93a),
    (0x93c, 0x93c),
    (0x941, 0x948),
    (0x94d, 0x94d),
    (0xe31, 0xe31),
    (0xe34, 0xe3a),
    (0xe47, 0xe4e),
    (0x1ab0, 0x1aff),
    (0x1dc0, 0x1dff),
    (0x20d0, 0x20ff),
    (0x302a, 0x302d),
    (0x3099, 0x309a),
    (0xfe00, 0xfe0f),
    (0xfe20, 0xfe2f),
    (0xe0100, 0xe01ef),
];

/// Two columns: Chinese, Japanese and Korean letters, full-width forms, pictures.
const WIDE: [(u32, u32); 33] = [
    (0x1100, 0x115f),
    (0x231a, 0x231b),
    (0x2329, 0x232a),
    (0x23e9, 0x23ec),
    (0x23f0, 0x23f0),
    (0x23f3, 0x23f3),
    (0x25fd, 0x25fe),
    (0x2614, 0x2615),
    (0x2648, 0x2653),
    (0x26a1, 0x26a1),
    (0x26aa, 0x26ab),
    (0x2705, 0x2705),
    (0x270a, 0x270b),
    (0x2728, 0x2728),
    (0x274c, 0x274c),
    (0x2753, 0x2755),
    (0x2757, 0x2757),
    (0x2795, 0x2797),
    (0x2b50, 0x2b50),
    (0x2e80, 0x303e),
    (0x3041, 0xa4cf),
    (0xa960, 0xa97f),
    (0xac00, 0xd7a3),
    (0xf900, 0xfaff),
    (0xfe30, 0xfe6f),
    (0xff01, 0xff60),
    (0xffe0, 0xffe6),
    (0x16fe0, 0x1b2ff),
    (0x1f300, 0x1f64f),
    (0x1f680, 0x1f6ff),
    (0x1f7e0, 0x1f7eb),
    (0x1f900, 0x1faff),
    (0x20000, 0x3fffd),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_in_order() {
        for ranges in [&HIDDEN[..], &MARKS, &WIDE] {
            assert!(ranges.iter().all(|(first, last)| first <= last));
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }

    #[test]
    fn letters_take_one_column_two_or_none_and_nothing_hides() {
        for (c, shown, columns) in [
            ('a', 'a', 1),
            ('ä', 'ä', 1),
            ('—', '—', 1),
            ('更', '更', 2),
            ('한', '한', 2),
            ('Ａ', 'Ａ', 2),
            ('🦀', '🦀', 2),
            ('\u{301}', '\u{301}', 0),
            ('\u{202e}', '\u{fffd}', 1),
            ('\u{feff}', '\u{fffd}', 1),
            ('\0', ' ', 1),
            ('\u{2028}', ' ', 1),
            ('\t', ' ', 4),
        ] {
            assert_eq!(cell(c), Cell { shown, columns }, "{c:?}");
        }
    }
}
