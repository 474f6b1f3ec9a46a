//! A model to a frame.

use crate::model::{Mode, Model};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState};

const KEYS: &str = "Tab page  ←→ sort  r reverse  / filter  ↑↓ select  k kill  space pause  q quit";

/// Draws all of it.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let rows = model.rows();
    let filter = match (&model.mode, model.filter.as_str()) {
        (Mode::Filter(_), filter) => format!("  /{filter}▏"),
        (_, "") => String::new(),
        (_, filter) => format!("  /{filter}"),
    };
    let paused = if model.paused { "  paused" } else { "" };
    let title = format!(
        "{}  {} of {}{filter}{paused}",
        model.page.name(),
        rows.len(),
        model.table.rows.len()
    );
    frame.render_widget(
        Line::styled(title, Style::new().add_modifier(Modifier::BOLD)),
        head,
    );
    table(frame, body, model, &rows);
    let foot_text = if model.message.is_empty() {
        KEYS
    } else {
        &model.message
    };
    frame.render_widget(
        Line::styled(foot_text, Style::new().fg(Color::DarkGray)),
        foot,
    );
    if let Mode::Confirm(query) = model.mode {
        confirm(frame, query);
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, rows: &[&[Option<String>]]) {
    let columns = &model.table.columns;
    let sorted = model.sorted();
    let heading = |at: usize, name: &str| match (at == sorted, model.ascending) {
        (false, _) => name.to_owned(),
        (true, true) => format!("{name} ▲"),
        (true, false) => format!("{name} ▼"),
    };
    let headings: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(at, name)| heading(at, name))
        .collect();
    let shown: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            row.iter()
                .zip(columns)
                .map(|(cell, column)| readable(column, cell.as_deref()))
                .collect()
        })
        .collect();
    let is_number = |at: usize| {
        let mut cells = rows
            .iter()
            .filter_map(|row| row.get(at)?.as_deref())
            .peekable();
        cells.peek().is_some() && cells.all(|cell| cell.parse::<f64>().is_ok())
    };
    let width = |at: usize| {
        let cells = shown.iter().filter_map(|row| row.get(at));
        let longest = cells
            .chain(headings.get(at))
            .map(|text| text.chars().count())
            .max();
        Constraint::Length(u16::try_from(longest.unwrap_or_default().min(32)).unwrap_or(32))
    };
    let line = |cells: &[String]| {
        let cell = |(at, text): (usize, &String)| {
            let alignment = if is_number(at) {
                Alignment::Right
            } else {
                Alignment::Left
            };
            Cell::new(Line::raw(text.clone()).alignment(alignment))
        };
        Row::new(cells.iter().enumerate().map(cell).collect::<Vec<_>>())
    };
    let widget = Table::new(
        shown.iter().map(|row| line(row)),
        (0..columns.len()).map(width),
    )
    .header(line(&headings).style(Style::new().add_modifier(Modifier::REVERSED)))
    .column_spacing(2)
    .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state =
        TableState::default().with_selected((!rows.is_empty()).then_some(model.selected));
    frame.render_stateful_widget(widget, area, &mut state);
}

fn confirm(frame: &mut Frame<'_>, query: u64) {
    let question = format!("Kill query {query}?  y / n");
    let width = u16::try_from(question.chars().count() + 4).unwrap_or(40);
    let all = frame.area();
    let area = Rect {
        x: all.width.saturating_sub(width) / 2,
        y: all.height.saturating_sub(3) / 2,
        width: width.min(all.width),
        height: 3.min(all.height),
    };
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(question)
            .alignment(Alignment::Center)
            .block(Block::bordered()),
        area,
    );
}

/// Shares in percent, bytes and counts in a few digits, seconds with two.
fn readable(column: &str, cell: Option<&str>) -> String {
    let Some(cell) = cell else {
        return "–".to_owned();
    };
    let Ok(number) = cell.parse::<f64>() else {
        return cell.to_owned();
    };
    match column {
        "share" | "entitled" => percent(number),
        "memory" | "memory_limit" => bytes(number),
        "elapsed" | "cpu_seconds" => format!("{number:.2}"),
        "lag_ms" => format!("{number:.1}"),
        _ => cell.to_owned(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "G", "T"];
    let (mut size, mut unit) = (bytes, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    if size < 10.0 && !unit.is_empty() {
        format!("{size:.1}{unit}")
    } else {
        format!("{size:.0}{unit}")
    }
}
