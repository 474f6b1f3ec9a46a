//! The program around the model: arguments, keys, the network, the terminal.

use crate::link::{Link, reason};
use crate::model::{Model, Page, Wish};
use crate::view;
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;
use tokio::sync::mpsc;

const USAGE: &str = "usage: top [CONNECTION] [--once] [--page groups|queries] [--sort COLUMN] [--reverse] [--filter TEXT] \
[--interval SECONDS] [--size COLUMNSxLINES]
CONNECTION is as for libpq, in one argument: 'host=127.0.0.1 port=6432 user=ops password=secret'";

/// What was asked for on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) connection: String,
    pub(crate) once: bool,
    pub(crate) page: Page,
    pub(crate) sort: Option<String>,
    pub(crate) ascending: bool,
    pub(crate) filter: String,
    pub(crate) interval: Duration,
    pub(crate) size: (u16, u16),
}

impl Options {
    /// Reads the arguments behind the program's name; else how it is used.
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            connection: "host=127.0.0.1 port=6432 user=ops".to_owned(),
            once: false,
            page: Page::Groups,
            sort: None,
            ascending: false,
            filter: String::new(),
            interval: Duration::from_secs(1),
            size: (120, 30),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))
            };
            match argument.as_str() {
                "--once" => options.once = true,
                "--reverse" => options.ascending = true,
                "--page" => {
                    options.page = match value()?.as_str() {
                        "groups" => Page::Groups,
                        "queries" => Page::Queries,
                        other => return Err(format!("there is no page {other}\n{USAGE}")),
                    }
                }
                "--sort" => options.sort = Some(value()?),
                "--filter" => options.filter = value()?,
                "--interval" => {
                    let seconds = value()?
                        .parse()
                        .ok()
                        .and_then(|it| Duration::try_from_secs_f64(it).ok());
                    let seconds = seconds.filter(|it| *it >= Duration::from_millis(50));
                    options.interval =
                        seconds.ok_or_else(|| format!("--interval is 0.05 at least\n{USAGE}"))?;
                }
                "--size" => {
                    let size = value()?;
                    let size = size
                        .split_once('x')
                        .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                    options.size = size.ok_or_else(|| format!("--size is as 120x30\n{USAGE}"))?;
                }
                other if other.starts_with('-') => {
                    return Err(format!("there is no {other}\n{USAGE}"));
                }
                connection => options.connection = connection.to_owned(),
            }
        }
        Ok(options)
    }

    fn model(&self) -> Model {
        Model {
            page: self.page,
            sort: self.sort.clone(),
            ascending: self.ascending,
            filter: self.filter.clone(),
            ..Model::default()
        }
    }
}

/// One frame, as text.
pub(crate) async fn once(options: &Options) -> Result<String, String> {
    let link = Link::open(&options.connection)
        .await
        .map_err(|error| reason(&error))?;
    let mut model = options.model();
    model.show(
        link.fetch(model.page)
            .await
            .map_err(|error| reason(&error))?,
    );
    frame(&model, options.size)
}

/// The model as text of this size, without the blanks at the ends of lines.
pub(crate) fn frame(model: &Model, (width, height): (u16, u16)) -> Result<String, String> {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| view::draw(frame, model));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for line in buffer.content().chunks(usize::from(width).max(1)) {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}

/// Until the user has enough.
pub(crate) async fn live(options: Options) -> Result<(), String> {
    let (send, mut keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let Event::Key(key) = event
                && key.kind == KeyEventKind::Press
                && send.send(key.code).is_err()
            {
                break;
            }
        }
    });
    let mut model = options.model();
    let mut link: Option<Link> = None;
    let mut tick = tokio::time::interval(options.interval);
    let mut terminal = ratatui::init();
    let end = loop {
        let wish = tokio::select! {
            key = keys.recv() => match key {
                Some(key) => model.key(key),
                None => break Err("the terminal is gone".to_owned()),
            },
            _ = tick.tick(), if !model.paused => Wish::Refresh,
        };
        match wish {
            Wish::Quit => break Ok(()),
            Wish::Nothing => {}
            Wish::Refresh => refresh(&options, &mut link, &mut model).await,
            Wish::Kill(query) => {
                model.message = match &link {
                    None => "not connected".to_owned(),
                    Some(link) => match link.kill(query).await {
                        Ok(()) => format!("query {query} is killed"),
                        Err(error) => reason(&error),
                    },
                };
                refresh(&options, &mut link, &mut model).await;
            }
        }
        if let Err(error) = terminal.draw(|frame| view::draw(frame, &model)) {
            break Err(error.to_string());
        }
    };
    ratatui::restore();
    end
}

/// Fetches the page anew, over a new connection if the old one is gone. What is wrong is shown, and tried again.
async fn refresh(options: &Options, link: &mut Option<Link>, model: &mut Model) {
    if link.is_none() {
        match Link::open(&options.connection).await {
            Ok(open) => {
                *link = Some(open);
                model.message.clear();
            }
            Err(error) => {
                model.message = reason(&error);
                return;
            }
        }
    }
    let Some(open) = link else {
        return;
    };
    match open.fetch(model.page).await {
        Ok(table) => model.show(table),
        Err(error) => {
            model.message = reason(&error);
            *link = None;
        }
    }
}
