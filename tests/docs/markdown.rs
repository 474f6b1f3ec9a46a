//! The parts of a document that can be checked: fenced blocks, table rows, links.

use std::ops::Range;

/// A fenced block.
pub(crate) struct Block {
    /// What stands behind the opening fence.
    pub(crate) info: String,
    pub(crate) text: String,
    /// Where `text` stands in the document, in bytes.
    pub(crate) place: Range<usize>,
    /// Nothing but blank lines lies between it and the block before it.
    pub(crate) follows: bool,
}

/// All fenced blocks in order.
pub(crate) fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut follows = false;
    let mut at = 0;
    for line in document.split_inclusive('\n') {
        let begin = at;
        at += line.len();
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                open = Some(Block {
                    info: info.trim().to_owned(),
                    text: String::new(),
                    place: at..at,
                    follows: std::mem::take(&mut follows),
                });
            }
            (Some(block), Some(_)) => {
                block.place.end = begin;
                document[block.place.clone()].clone_into(&mut block.text);
                found.extend(open.take());
                follows = true;
            }
            (None, None) => follows &= line.trim().is_empty(),
            (Some(_), None) => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    found
}

/// The cells of all table rows that are not rules.
pub(crate) fn rows(document: &str) -> Vec<Vec<String>> {
    document
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|line| {
            line.split('|')
                .map(|cell| cell.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|cells| !cells[0].starts_with("--"))
        .collect()
}

/// The targets of `[text](target)` that are files here.
pub(crate) fn links(document: &str) -> Vec<&str> {
    document
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split_once('#').map_or(target, |(file, _)| file))
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

/// The place between `<!-- name` with its line and `<!-- end -->`.
pub(crate) fn generated(document: &str, name: &str) -> Range<usize> {
    let mark = format!("<!-- {name}:");
    let begin = document.find(&mark).expect("the mark of a generated part");
    let begin = begin + document[begin..].find('\n').expect("its line ends") + 1;
    let end = document[begin..]
        .find("<!-- end -->")
        .expect("the generated part ends");
    begin..begin + end
}

#[test]
fn blocks_know_their_place_and_what_follows() {
    let text = "a\n```sql refused\nX;\n```\n\n```text\n```\nb\n```sh\nls\n```\n";
    let found = blocks(text);
    let seen: Vec<_> = found
        .iter()
        .map(|b| (b.info.as_str(), b.text.as_str(), b.follows))
        .collect();
    assert_eq!(
        seen,
        [
            ("sql refused", "X;\n", false),
            ("text", "", true),
            ("sh", "ls\n", false)
        ]
    );
    assert_eq!(&text[found[0].place.clone()], "X;\n");
    assert_eq!(&text[found[2].place.clone()], "ls\n");
}

#[test]
fn links_are_files_only() {
    let text = "[a](b.md#c) ![d](e.svg) [f](https://g.h) [i](#j)";
    assert_eq!(links(text), ["b.md", "e.svg"]);
}
