//! An error drawn under the lines of the script that it speaks of.
//!
//! Pure. The picture has at most a dozen lines of bounded width, whatever the script looks like. Carets stand under what is
//! meant in a terminal: a letter may take two columns or none, a tab takes four.

use super::error::SqlError;
use super::span::Span;
use super::width::{Cell, cell};

/// Columns of a source line that are shown; a longer one is cut around the place.
const WIDTH: usize = 100;
/// Characters of one, as many as they take no column.
const CELLS: usize = 2 * WIDTH;
/// Lines of a place that are all shown; of more, the first and the last.
const LINES: usize = 3;

/// The picture, without a line feed at its end.
pub(super) fn render(error: &SqlError, script: &str) -> String {
    let heading = format!("error[{}]: {}", error.sqlstate(), error.message());
    let mut place = error.span.to_string();
    if error.statement > 1 || error.applied > 0 {
        place += &format!(
            ", statement {} ({} applied)",
            error.statement, error.applied
        );
    }
    let suggestion = error.did_you_mean.as_ref();
    let notes: Vec<String> = suggestion
        .map(|word| format!("did you mean {word}?"))
        .into_iter()
        .chain(error.hint.clone())
        .collect();
    draw(&heading, error.span, &place, script, &notes)
}

/// A heading, the lines of the script with carets under the span, and notes below.
pub(crate) fn draw(
    heading: &str,
    span: Span,
    place: &str,
    script: &str,
    notes: &[String],
) -> String {
    let mut out = format!("{}\n", one_line(heading));
    let lines = lines(span, script);
    if let Some(last) = lines.last() {
        let gutter = " ".repeat(last.number.to_string().len());
        out += &format!("{gutter}--> {place}\n{gutter} |\n");
        let mut expected = span.line;
        for line in &lines {
            if line.number != expected {
                out += "...\n";
            }
            expected = line.number + 1;
            let number = line.number.to_string();
            let pad = " ".repeat(gutter.len() - number.len());
            out += &format!("{pad}{number} | {}\n", line.text);
            if line.carets > 0 {
                let (indent, carets) = (" ".repeat(line.indent), "^".repeat(line.carets));
                out += &format!("{gutter} | {indent}{carets}\n");
            }
        }
    }
    for note in notes {
        out += &format!("  = {}\n", one_line(note));
    }
    out.truncate(out.trim_end().len());
    out
}

/// A line of the script, as it is shown.
struct Line {
    number: usize,
    text: String,
    /// Columns before the carets.
    indent: usize,
    carets: usize,
}

/// The lines of a place: all, or the first and the last. None if the script has no such line.
fn lines(span: Span, script: &str) -> Vec<Line> {
    let Some(above) = span.line.checked_sub(1) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    // Characters of the place that are still to come.
    let mut left = span.end - span.start;
    let mut from = span.column.saturating_sub(1);
    for (at, source) in script.split('\n').enumerate().skip(above) {
        let length = source.chars().count();
        let here = left.min(length.saturating_sub(from));
        let line = trimmed(source, from, here, at + 1, found.is_empty());
        if found.len() == LINES {
            found.pop();
        }
        found.push(line);
        // With the line feed.
        if left <= here + 1 {
            break;
        }
        (left, from) = (left - here - 1, 0);
    }
    if let [_, second, third] = &found[..]
        && third.number > second.number + 1
    {
        found.remove(1);
    }
    found
}

/// The visible part of a line, around `length` characters from `at` on. Under a later line the carets begin with its
/// first letter; under the first there is one at least.
fn trimmed(source: &str, at: usize, length: usize, number: usize, first: bool) -> Line {
    let source = source.trim_end_matches('\r');
    let blanks = source.chars().skip(at).take(length);
    let blanks = match first {
        true => 0,
        false => blanks.take_while(|c| c.is_whitespace()).count(),
    };
    let (at, length) = (at + blanks, length - blanks);
    let split = source
        .char_indices()
        .nth(at)
        .map_or(source.len(), |(byte, _)| byte);
    let (before, after) = source.split_at(split);
    // Whole if it fits; else a third of the width for what stands before, more if little comes after.
    let ahead = columns(after.chars(), WIDTH + 1);
    let behind = columns(before.chars().rev(), WIDTH + 1);
    let room = match ahead + behind {
        all if all <= WIDTH => WIDTH,
        _ => (WIDTH / 3).max(WIDTH.saturating_sub(ahead)),
    };
    let mut shown: Vec<Cell> = Vec::new();
    let mut used = 0;
    for cell in before.chars().rev().map(cell) {
        if used + cell.columns > room || shown.len() == CELLS / 2 {
            break;
        }
        used += cell.columns;
        shown.push(cell);
    }
    shown.reverse();
    let cut = shown.len() < at.min(before.chars().count());
    let indent = used + usize::from(cut);
    let mut carets = 0;
    let mut whole = true;
    for (nth, cell) in after.chars().map(cell).enumerate() {
        if used + cell.columns > WIDTH || shown.len() == CELLS {
            whole = false;
            break;
        }
        used += cell.columns;
        if nth < length {
            carets += cell.columns;
        }
        shown.push(cell);
    }
    let mut text = String::from(if cut { "…" } else { "" });
    for cell in shown {
        // A tab is as many blanks.
        let times = if cell.shown == ' ' { cell.columns } else { 1 };
        text.extend(std::iter::repeat_n(cell.shown, times));
    }
    if !whole {
        text.push('…');
    }
    Line {
        number,
        text,
        indent,
        carets: if first { carets.max(1) } else { carets },
    }
}

/// The columns of some characters; counted no further than `most`.
fn columns(chars: impl Iterator<Item = char>, most: usize) -> usize {
    let mut sum = 0;
    for c in chars {
        sum += cell(c).columns;
        if sum >= most {
            break;
        }
    }
    sum
}

/// A message is one line of bounded length, whatever the name in it was.
fn one_line(text: &str) -> String {
    text.chars()
        .take(8 * WIDTH)
        .map(|c| cell(c).shown)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::error::SqlErrorKind;
    use super::*;

    fn error(line: usize, column: usize, length: usize) -> SqlError {
        let span = Span {
            start: 0,
            end: length,
            line,
            column,
        };
        SqlError::new(SqlErrorKind::NothingToSet, span)
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let script = format!("{}here{}", "a".repeat(500), "b".repeat(500));
        let picture = error(1, 501, 4).render(&script);
        assert!(
            picture.contains("…") && picture.contains("here"),
            "{picture}"
        );
        let lines: Vec<&str> = picture.lines().collect();
        let at = lines[3].chars().take_while(|c| *c != 'h').count();
        let caret = lines[4].chars().take_while(|c| *c != '^').count();
        assert_eq!(at, caret);
        assert!(lines.iter().all(|l| l.chars().count() < 120));
    }

    #[test]
    fn a_place_outside_the_text_draws_something_and_does_not_panic() {
        assert!(
            error(9, 9, 3)
                .render("one line")
                .starts_with("error[42601]")
        );
        assert!(error(1, 900, 900).render("").contains('^'));
        assert!(!error(0, 0, 0).render("x").contains("-->"));
    }

    #[test]
    fn a_span_over_several_lines_is_drawn_under_each_or_under_the_first_and_the_last() {
        let picture = error(1, 3, 500).render("ab cdef\nghi");
        assert!(
            picture.ends_with("1 | ab cdef\n  |   ^^^^^\n2 | ghi\n  | ^^^"),
            "{picture}"
        );
        let picture =
            error(9, 3, 13).render(&format!("{}ab cd\n\n  ef\n gh\nij kl", "\n".repeat(8)));
        let expected = " 9 | ab cd\n   |   ^^^\n...\n12 |  gh\n   |  ^^";
        assert!(picture.ends_with(expected), "{picture}");
    }

    #[test]
    fn a_text_of_many_lines_or_of_one_long_one_is_drawn_in_a_dozen() {
        for script in [
            "x\n".repeat(100_000),
            "x".repeat(100_000),
            "\t\u{301}更".repeat(50_000),
        ] {
            let picture = error(1, 1, 150_000).render(&script);
            assert!(picture.lines().count() <= 12);
            assert!(
                picture.lines().all(|line| line.chars().count() < 300),
                "{picture}"
            );
        }
    }
}
