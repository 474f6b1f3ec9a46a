//! An error drawn under the line of the script that it speaks of.
//!
//! Pure. The picture has at most a dozen lines of bounded width, whatever the script looks like.

use super::error::SqlError;
use super::span::Span;

/// Characters of a source line that are shown; a longer one is cut around the place.
const WIDTH: usize = 100;

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

/// A heading, the line of the script with carets under the span, and notes below.
pub(crate) fn draw(
    heading: &str,
    span: Span,
    place: &str,
    script: &str,
    notes: &[String],
) -> String {
    let mut out = format!("{}\n", one_line(heading));
    let source = span
        .line
        .checked_sub(1)
        .and_then(|above| script.split('\n').nth(above));
    if let Some(source) = source {
        let number = span.line.to_string();
        let gutter = " ".repeat(number.len());
        let (text, column, carets) = window(source, span.column, span.end - span.start);
        let indent = " ".repeat(column);
        let carets = "^".repeat(carets);
        out += &format!(
            "{gutter}--> {place}\n{gutter} |\n{number} | {text}\n{gutter} | {indent}{carets}\n"
        );
    }
    for note in notes {
        out += &format!("  = {}\n", one_line(note));
    }
    out.truncate(out.trim_end().len());
    out
}

/// The visible part of a line, the caret's offset in it, and how many carets.
fn window(line: &str, column: usize, length: usize) -> (String, usize, usize) {
    let chars = line.trim_end_matches('\r').chars().count();
    let at = column.saturating_sub(1).min(chars);
    let from = if chars <= WIDTH {
        0
    } else {
        at.saturating_sub(WIDTH / 3).min(chars - WIDTH)
    };
    let to = chars.min(from + WIDTH);
    let mut text = String::new();
    let mut indent = at - from;
    if from > 0 {
        text.push('…');
        indent += 1;
    }
    text.extend(
        line.chars()
            .skip(from)
            .take(to - from)
            .map(|c| if c.is_control() { ' ' } else { c }),
    );
    if to < chars {
        text.push('…');
    }
    let carets = length.clamp(1, (to - at).max(1));
    (text, indent, carets)
}

/// A message is one line of bounded length, whatever the name in it was.
fn one_line(text: &str) -> String {
    text.chars()
        .take(8 * WIDTH)
        .map(|c| if c.is_control() { ' ' } else { c })
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
    fn a_span_over_several_lines_is_underlined_to_the_end_of_the_first() {
        let picture = error(1, 3, 500).render("ab cdef\nghi");
        assert!(picture.ends_with("1 | ab cdef\n  |   ^^^^^"), "{picture}");
    }
}
