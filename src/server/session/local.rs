//! Does what concerns the session alone: settings, transactions that are none, SELECT of values.
//!
//! Mechanism, on the server's thread.

use super::Session;
use crate::server::answer::{Answer, Field, Kind};
use crate::server::fault::{Fault, Severity};
use crate::server::local::{Local, Transaction};
use crate::server::scalar::{Scalar, What};
use crate::server::settings::{RESOURCE_GROUP, SERVER_VERSION, canonical};
use crate::server::wire::Broken;
use crate::sql::Value;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::startup::ParameterStatus;

impl Session<'_> {
    pub(super) async fn local(&mut self, local: &Local) -> Result<Answer, Fault> {
        match local {
            Local::Set { name, value, at } => {
                let told = match value
                    .as_deref()
                    .filter(|value| !value.is_empty() || name != RESOURCE_GROUP)
                {
                    Some(value) => {
                        if name == RESOURCE_GROUP {
                            self.choose(value).map_err(|fault| fault.at(*at))?;
                        }
                        self.guest.settings.set(name, value)
                    }
                    None => self.guest.settings.reset(name),
                };
                let told = told.map_err(|fault| fault.at(*at))?;
                self.tell(told).await;
                Ok(Answer::done("SET"))
            }
            Local::Nothing(tag) => Ok(Answer::done(*tag)),
            Local::Reset(Some((name, at))) => {
                let told = self
                    .guest
                    .settings
                    .reset(name)
                    .map_err(|fault| fault.at(*at))?;
                self.tell(told).await;
                Ok(Answer::done("RESET"))
            }
            Local::Reset(None) => {
                self.reset_all().await;
                Ok(Answer::done("RESET"))
            }
            Local::Show { name, at } => {
                let value = self
                    .guest
                    .settings
                    .get(name)
                    .map_err(|fault| fault.at(*at))?
                    .to_owned();
                let fields = self.local_fields(local).unwrap_or_default();
                Ok(Answer::table("SHOW", fields, vec![vec![value.into()]]))
            }
            Local::ShowAll => {
                let rows = self
                    .guest
                    .settings
                    .all()
                    .map(|(name, value)| vec![name.into(), value.into(), "".into()]);
                let rows = rows.collect();
                Ok(Answer::table(
                    "SHOW",
                    self.local_fields(local).unwrap_or_default(),
                    rows,
                ))
            }
            Local::Transaction(word) => Ok(self.transaction(*word)),
            Local::DiscardAll => {
                self.reset_all().await;
                self.prepared.clear();
                self.in_transaction = false;
                Ok(Answer::done("DISCARD ALL"))
            }
            Local::Deallocate(None) => {
                self.prepared.clear();
                Ok(Answer::done("DEALLOCATE ALL"))
            }
            Local::Deallocate(Some(name)) => {
                if !self.prepared.forget(name) {
                    let message = format!("prepared statement \"{name}\" does not exist");
                    return Err(Fault::error("26000", message));
                }
                Ok(Answer::done("DEALLOCATE"))
            }
            Local::Select(items) => self.select(items).await,
        }
    }

    /// The columns of what has rows.
    pub(super) fn local_fields(&self, local: &Local) -> Option<Vec<Field>> {
        let text = |name: &str| Field {
            name: name.to_owned(),
            kind: Kind::Text,
        };
        match local {
            Local::Show { name, .. } => Some(vec![text(canonical(name).unwrap_or(name))]),
            Local::ShowAll => Some(["name", "setting", "description"].map(text).into()),
            Local::Select(items) => {
                let field = |item: &Scalar| Field {
                    name: item.name.clone(),
                    kind: item.what.kind(),
                };
                Some(items.iter().map(field).collect())
            }
            other => {
                debug_assert!(!other.has_rows());
                None
            }
        }
    }

    /// There are no transactions. The client's belief is kept, so that it goes on, and it is told.
    fn transaction(&mut self, word: Transaction) -> Answer {
        let warning = |message: &str| Fault::new(Severity::Warning, "01000", message);
        let mut answer = Answer::done(word.tag());
        let remark = match word {
            Transaction::Begin if self.in_transaction => {
                Some(Fault::new(Severity::Warning, "25001", "there is already a transaction in progress"))
            }
            Transaction::Begin => Some(
                warning("there are no transactions here: each statement takes effect on its own, at once")
                    .hint("ROLLBACK CATALOG TO VERSION n goes back; SHOW CATALOG HISTORY lists the versions"),
            ),
            Transaction::Rollback | Transaction::RollbackTo => Some(
                warning("nothing is rolled back: each statement took effect on its own")
                    .hint("ROLLBACK CATALOG TO VERSION n goes back; SHOW CATALOG HISTORY lists the versions"),
            ),
            Transaction::Commit if !self.in_transaction => {
                Some(Fault::new(Severity::Warning, "25P01", "there is no transaction in progress"))
            }
            Transaction::Commit | Transaction::Savepoint | Transaction::Release => None,
        };
        answer.remarks.extend(remark);
        match word {
            Transaction::Begin => self.in_transaction = true,
            Transaction::Commit | Transaction::Rollback => self.in_transaction = false,
            _ => {}
        }
        answer
    }

    async fn select(&mut self, items: &[Scalar]) -> Result<Answer, Fault> {
        let mut row = Vec::with_capacity(items.len());
        for item in items {
            row.push(match &item.what {
                What::Literal(value, _) => value.clone(),
                What::Version => format!("PostgreSQL {SERVER_VERSION}").into(),
                What::User => self.guest.user.as_str().into(),
                What::Database => self.guest.database.as_str().into(),
                What::Schema => "public".into(),
                What::Process => i64::from(self.guest.entry.process).into(),
                What::ClientAddress => self.guest.address.map(|address| address.to_string()).into(),
                What::Setting(name) => self.guest.settings.get(name)?.into(),
                What::Sleep(time) => {
                    tokio::select! {
                        () = tokio::time::sleep(*time) => Value::from(""),
                        fault = self.stopped() => return Err(fault),
                        () = self.shared.ended() => return Err(Fault::cancelled()),
                    }
                }
            });
        }
        let fields = items.iter().map(|item| Field {
            name: item.name.clone(),
            kind: item.what.kind(),
        });
        Ok(Answer::table("SELECT", fields.collect(), vec![row]))
    }

    async fn reset_all(&mut self) {
        for name in self.guest.settings.reset_all() {
            self.tell(Some(name)).await;
        }
    }

    /// Tells the client of a setting that it keeps a copy of.
    async fn tell(&mut self, name: Option<&'static str>) {
        let Some(name) = name else {
            return;
        };
        let value = self.guest.settings.get(name).unwrap_or_default();
        let status = ParameterStatus::new(name.to_owned(), value.to_owned());
        // If the client is gone, the next message will say so.
        let _: Result<(), Broken> = self
            .wire
            .feed(PgWireBackendMessage::ParameterStatus(status))
            .await;
    }
}
