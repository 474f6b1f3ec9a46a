//! What is shown and what keys do to it. It knows no terminal, no network and no clock.

use crossterm::event::KeyCode;
use std::cmp::Ordering;

/// What can be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Page {
    #[default]
    Groups,
    Queries,
}

impl Page {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Page::Groups => "groups",
            Page::Queries => "queries",
        }
    }

    pub(crate) fn sql(self) -> &'static str {
        match self {
            Page::Groups => {
                "SELECT name, cpu_core_limit AS weight, cpu_share AS share, entitled_share AS entitled, lag_ms, running, \
                 queued, tasks, memory, memory_limit, cpu_seconds FROM groups"
            }
            Page::Queries => {
                "SELECT id, group_name, user_name, state, elapsed_seconds AS elapsed, cpu_seconds, polls, \
                 memory_bytes AS memory, waiting_reason FROM queries"
            }
        }
    }

    /// What it is sorted by at first.
    fn sort(self) -> &'static str {
        match self {
            Page::Groups => "share",
            Page::Queries => "cpu_seconds",
        }
    }

    fn other(self) -> Page {
        match self {
            Page::Groups => Page::Queries,
            Page::Queries => Page::Groups,
        }
    }
}

/// Rows as they came; none is NULL.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Option<String>>>,
}

/// What the keys mean at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Browse,
    /// A filter is being typed; what it was before.
    Filter(String),
    /// Whether this query is to be ended.
    Confirm(u64),
}

/// What a key asks of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Quit,
    /// Fetch anew, at once.
    Refresh,
    Kill(u64),
}

/// All that is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) page: Page,
    pub(crate) table: Table,
    /// The column that rows are sorted by, by its name: pages have different ones.
    pub(crate) sort: Option<String>,
    pub(crate) ascending: bool,
    pub(crate) filter: String,
    pub(crate) selected: usize,
    pub(crate) mode: Mode,
    /// The last thing that happened.
    pub(crate) message: String,
    pub(crate) paused: bool,
}

impl Model {
    /// The rows that fit the filter, in order.
    pub(crate) fn rows(&self) -> Vec<&[Option<String>]> {
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&Vec<Option<String>>| {
            wanted.is_empty()
                || row
                    .iter()
                    .flatten()
                    .any(|cell| cell.to_lowercase().contains(&wanted))
        };
        let mut rows: Vec<&[Option<String>]> = self
            .table
            .rows
            .iter()
            .filter(fits)
            .map(Vec::as_slice)
            .collect();
        let column = self.sorted();
        rows.sort_by(|a, b| {
            let cell = |row: &[Option<String>]| row.get(column).cloned().flatten();
            let ordering = compare(cell(a).as_deref(), cell(b).as_deref());
            let ordering = if self.ascending {
                ordering
            } else {
                ordering.reverse()
            };
            // Rows that are alike keep their places from one frame to the next.
            ordering.then_with(|| {
                compare(
                    a.first().and_then(Option::as_deref),
                    b.first().and_then(Option::as_deref),
                )
            })
        });
        rows
    }

    /// The column that is sorted by: what was chosen, if the page has it.
    pub(crate) fn sorted(&self) -> usize {
        let at = |name: &str| self.table.columns.iter().position(|column| column == name);
        let chosen = self.sort.as_deref().and_then(at);
        chosen.or_else(|| at(self.page.sort())).unwrap_or_default()
    }

    /// The number of the query under the cursor.
    pub(crate) fn query(&self) -> Option<u64> {
        if self.page != Page::Queries {
            return None;
        }
        let rows = self.rows();
        rows.get(self.selected)?.first()?.as_ref()?.parse().ok()
    }

    /// New rows. The cursor stays where it is, as far as there are rows.
    pub(crate) fn show(&mut self, table: Table) {
        // It would be of another query than the one that was asked about.
        if let Mode::Confirm(query) = self.mode
            && !table
                .rows
                .iter()
                .any(|row| row.first() == Some(&Some(query.to_string())))
        {
            self.mode = Mode::Browse;
            self.message = format!("query {query} has ended by itself");
        }
        self.table = table;
        self.clamp();
    }

    fn clamp(&mut self) {
        self.selected = self.selected.min(self.rows().len().saturating_sub(1));
    }

    /// What a key does.
    pub(crate) fn key(&mut self, key: KeyCode) -> Wish {
        match (self.mode.clone(), key) {
            (Mode::Confirm(query), KeyCode::Char('y' | 'Y')) => {
                self.mode = Mode::Browse;
                return Wish::Kill(query);
            }
            (Mode::Confirm(query), _) => {
                self.mode = Mode::Browse;
                self.message = format!("query {query} goes on");
            }
            (Mode::Filter(_), KeyCode::Enter) => self.mode = Mode::Browse,
            (Mode::Filter(before), KeyCode::Esc) => {
                self.filter = before;
                self.mode = Mode::Browse;
            }
            (Mode::Filter(_), KeyCode::Backspace) => drop(self.filter.pop()),
            (Mode::Filter(_), KeyCode::Char(letter)) => self.filter.push(letter),
            (Mode::Filter(_), _) => {}
            (Mode::Browse, key) => return self.browse(key),
        }
        self.clamp();
        Wish::Nothing
    }

    fn browse(&mut self, key: KeyCode) -> Wish {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
            KeyCode::Tab => {
                self.page = self.page.other();
                self.table = Table::default();
                self.selected = 0;
                return Wish::Refresh;
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('r') => self.ascending = !self.ascending,
            KeyCode::Right => self.sort_by(1),
            KeyCode::Left => self.sort_by(-1),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected += 1,
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            KeyCode::Char('/') => self.mode = Mode::Filter(self.filter.clone()),
            KeyCode::Char('k') => match self.query() {
                Some(query) => self.mode = Mode::Confirm(query),
                None => self.message = "queries are killed on their page: Tab".to_owned(),
            },
            _ => {}
        }
        self.clamp();
        Wish::Nothing
    }

    fn sort_by(&mut self, step: isize) {
        let columns = self.table.columns.len();
        if columns > 0 {
            let next = (self.sorted() + columns).saturating_add_signed(step) % columns;
            self.sort = self.table.columns.get(next).cloned();
        }
    }
}

/// Numbers by size, texts by letters, nothing below everything.
fn compare(a: Option<&str>, b: Option<&str>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(x), Ok(y)) => x.total_cmp(&y),
            _ => a.cmp(b),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
