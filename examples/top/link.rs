//! The way to the service: two SELECTs, and KILL.

use crate::model::{Page, Table};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A connection to the administration port.
pub(crate) struct Link(Client);

impl Link {
    /// Connects as `config` says: `host=.. port=.. user=.. password=..`.
    pub(crate) async fn open(config: &str) -> Result<Link, tokio_postgres::Error> {
        let mut config: tokio_postgres::Config = config.parse()?;
        config
            .application_name("quotient top")
            .connect_timeout(std::time::Duration::from_secs(5));
        let (client, connection) = config.connect(NoTls).await?;
        // It ends with the client, and tells the client why.
        tokio::spawn(connection);
        Ok(Link(client))
    }

    /// What a page shows, now.
    pub(crate) async fn fetch(&self, page: Page) -> Result<Table, tokio_postgres::Error> {
        let mut table = Table::default();
        for message in self.0.simple_query(page.sql()).await? {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    table.columns = columns
                        .iter()
                        .map(|column| column.name().to_owned())
                        .collect();
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| row.get(at).map(str::to_owned));
                    table.rows.push(cells.collect());
                }
                _ => {}
            }
        }
        Ok(table)
    }

    /// Ends a query.
    pub(crate) async fn kill(&self, query: u64) -> Result<(), tokio_postgres::Error> {
        self.0.batch_execute(&format!("KILL QUERY {query}")).await
    }
}

/// What went wrong in the server's words, which the library keeps behind its own.
pub(crate) fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
