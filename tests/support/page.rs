//! A metrics page taken apart: every series once, every family once.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, BTreeSet};

/// Series, as they are written, and their values.
pub(crate) type Page = BTreeMap<String, f64>;

/// Reads a page of the text format.
///
/// # Panics
///
/// If a family or a series occurs twice, or a line cannot be read.
pub(crate) fn read(text: &str) -> Page {
    let mut families = BTreeSet::new();
    let mut page = Page::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let name = family.split(' ').next().unwrap();
            assert!(families.insert(name), "twice: {line}");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            let before = page.insert(series.to_owned(), value);
            assert!(before.is_none(), "twice: {line}");
        }
    }
    page
}
