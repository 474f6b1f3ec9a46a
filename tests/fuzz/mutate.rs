//! New texts from old ones: by the grammar's words, or byte by byte.

use crate::dice::Dice;
use crate::seeds::WORDS;

/// Longer texts are cut: a long one costs as much as thousands of short ones.
const LONGEST: usize = 4_096;

/// A text that is like one of `texts`, or like two, or like none any more.
pub(crate) fn mutate(dice: &mut Dice, texts: &[String]) -> String {
    let mut text = texts[dice.below(texts.len())].clone();
    for _ in 0..=dice.below(3) {
        text = if dice.once_in(3) {
            by_bytes(dice, text)
        } else {
            by_words(dice, &text, texts)
        };
    }
    let cut = (0..=LONGEST.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    text.truncate(cut.unwrap_or(0));
    text
}

fn by_bytes(dice: &mut Dice, text: String) -> String {
    let mut bytes = text.into_bytes();
    for _ in 0..dice.few() {
        let at = dice.below(bytes.len() + 1);
        match dice.below(5) {
            0 => bytes.insert(at, dice.number() as u8),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            3 => bytes.truncate(at),
            _ => {
                let to = (at + dice.below(40)).min(bytes.len());
                let part = bytes[at..to].to_vec();
                let place = dice.below(bytes.len() + 1);
                bytes.splice(place..place, part);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn by_words(dice: &mut Dice, text: &str, texts: &[String]) -> String {
    let mut words = words(text);
    let at = dice.below(words.len() + 1);
    let inside = at.min(words.len().saturating_sub(1));
    match dice.below(10) {
        0 if !words.is_empty() => drop(words.remove(inside)),
        1 if !words.is_empty() => words[inside] = dice.of(&WORDS),
        2 => words.insert(at, dice.of(&WORDS)),
        3 if !words.is_empty() => {
            let other = dice.below(words.len());
            words.swap(inside, other);
        }
        // A long chain of something.
        4 | 5 if !words.is_empty() => {
            let end = (inside + dice.few()).min(words.len());
            let part = words[inside..end].to_vec();
            let times = dice.few();
            for _ in 0..times {
                words.splice(inside..inside, part.iter().copied());
            }
        }
        // Deep inside something.
        6 => {
            let (open, close) = *dice.of(&[
                &("(", ")"),
                &("NOT (", ")"),
                &("'", "'"),
                &("/*", "*/"),
                &("count(", ")"),
            ]);
            let end = (at + dice.few()).min(words.len());
            for _ in 0..dice.few() {
                words.insert(end, close);
                words.insert(at, open);
            }
        }
        // The head of one, the tail of another.
        7 | 8 => {
            let other = self::words(&texts[dice.below(texts.len())]);
            let from = dice.below(other.len() + 1);
            words.truncate(at);
            words.extend(&other[from..]);
        }
        _ => words.truncate(at),
    }
    let glue = if dice.once_in(8) { " " } else { "" };
    words.join(glue)
}

/// Words, numbers, blanks and single characters; joined, they are the text.
fn words(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        _ => 2,
    };
    let (mut words, mut begin, mut last) = (Vec::new(), 0, None);
    for (at, c) in text.char_indices() {
        if last.is_some_and(|last| last != kind(c) || last == 2) {
            words.push(&text[begin..at]);
            begin = at;
        }
        last = Some(kind(c));
    }
    words.push(&text[begin..]);
    words.retain(|word| !word.is_empty());
    words
}
