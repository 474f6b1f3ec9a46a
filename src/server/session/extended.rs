//! Prepared statements: Parse, Bind, Describe, Execute, Close, Sync.
//!
//! Mechanism, on the server's thread. What a session keeps of them is bounded.

use super::prepared::{Answered, Portal, Statement};
use super::{Done, Session};
use crate::server::answer::{Field, Formats, describe, row};
use crate::server::fault::Fault;
use crate::server::frame::{Bind, Message, Parse, Target};
use crate::server::lex::{Kind, each};
use crate::server::parameters::{Filled, Parameters};
use crate::server::request::{Request, requests};
use crate::server::weight;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::EmptyQueryResponse;

/// Words and signs at most of a statement with parameters, whose types they tell: each takes 48 bytes while it is read.
const TOKENS: usize = 64 << 10;

impl Session<'_> {
    pub(super) async fn extended(&mut self, message: Message) -> Done {
        match message {
            Message::Parse(parse) => self.parse(parse).await,
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(Target::Statement(name)) => self.describe_statement(&name).await,
            Message::Describe(Target::Portal(name)) => self.describe_portal(&name).await,
            Message::Execute { portal, most } => {
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                self.execute_portal(&portal, most).await
            }
            Message::Close(target) => {
                match target {
                    Target::Statement(name) => drop(self.prepared.statements.remove(&name)),
                    Target::Portal(name) => drop(self.prepared.portals.remove(&name)),
                }
                self.wire
                    .feed(PgWireBackendMessage::CloseComplete(CloseComplete::new()))
                    .await?;
                Ok(())
            }
            Message::Flush => Ok(self.wire.flush().await?),
            _ => {
                if !self.in_transaction {
                    self.prepared.portals.clear();
                }
                self.skipping = false;
                self.owes_ready = true;
                Ok(())
            }
        }
    }

    /// Refuses what would make the session keep too much.
    fn has_room(&self, count: usize, more: usize) -> Result<(), Fault> {
        self.prepared
            .has_room(count, more, self.shared.config.max_message)
    }

    /// The same for a description, which is kept the first time that it is asked for.
    fn has_room_for(&self, is_new: bool, fields: Option<&[Field]>) -> Result<(), Fault> {
        match fields.filter(|_| is_new) {
            Some(fields) => self.has_room(0, weight::fields(fields)),
            None => Ok(()),
        }
    }

    async fn parse(&mut self, parse: Parse) -> Done {
        let name = parse.name;
        if name.is_empty() {
            self.prepared.statements.remove(&name);
        } else if self.prepared.statements.contains_key(&name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(Fault::error("42P05", message).into());
        }
        // Before it is read.
        self.has_room(
            self.prepared.statements.len(),
            name.len() + parse.query.len(),
        )?;
        let statement = self.read_statement(parse.query, &parse.types)?;
        self.has_room(
            self.prepared.statements.len(),
            name.len() + statement.bytes(),
        )?;
        self.prepared.statements.insert(name, statement);
        self.wire
            .feed(PgWireBackendMessage::ParseComplete(ParseComplete::new()))
            .await?;
        Ok(())
    }

    /// Whatever of it is not kept is gone before anybody is waited for.
    fn read_statement(&self, text: String, declared: &[u32]) -> Result<Statement, Fault> {
        let has_parameters = each(&text).any(|token| matches!(token.kind, Kind::Parameter(_)));
        let parameters = if has_parameters || !declared.is_empty() {
            let tokens: Vec<_> = each(&text).take(TOKENS + 1).collect();
            if tokens.len() > TOKENS {
                let message = "a statement with parameters has too many words and signs";
                let hint = format!("{TOKENS} are allowed");
                return Err(Fault::error("54000", message).hint(hint));
            }
            let view = tokens.iter().skip_while(|token| !token.is("from")).nth(1);
            let view = view.map(|token| token.value()).unwrap_or_default();
            Parameters::of(&text, &tokens, declared, self.columns_of(&view))?
        } else {
            Parameters::default()
        };
        // Read now, so that a mistake is told now: with NULL, which may stand wherever a parameter may.
        one(&parameters.fill(&text, &[], |_| false)?)?;
        Ok(Statement {
            text,
            parameters,
            fields: None,
        })
    }

    fn statement(&self, name: &str) -> Result<&Statement, Fault> {
        self.prepared.statements.get(name).ok_or_else(|| {
            Fault::error(
                "26000",
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    async fn bind(&mut self, bind: Bind) -> Done {
        if bind.portal.is_empty() {
            self.prepared.portals.remove("");
        } else if self.prepared.portals.contains_key(&bind.portal) {
            let message = format!("portal \"{}\" already exists", bind.portal);
            return Err(Fault::error("42P03", message).into());
        }
        let statement = self.statement(&bind.statement)?;
        let (needs, supplied) = (statement.parameters.types.len(), bind.values.len());
        if needs != supplied {
            let message = format!(
                "bind message supplies {supplied} parameters, but the statement requires {needs}"
            );
            return Err(Fault::error("08P01", message).into());
        }
        let formats = Formats::read(bind.formats).filter(|formats| formats.fit(needs));
        let results = Formats::read(bind.result_formats);
        let (Some(formats), Some(results)) = (formats, results) else {
            return Err(Fault::error("08P01", "the message's formats do not fit").into());
        };
        let filled = statement
            .parameters
            .fill(&statement.text, &bind.values, |at| formats.is_binary(at))?;
        let fields = statement.fields.clone();
        // Before it is read.
        self.has_room(self.prepared.portals.len(), 2 * filled.bytes())?;
        let portal = Portal {
            request: one(&filled)?,
            statement: bind.statement,
            filled,
            formats: results,
            fields,
            answer: None,
        };
        let more = bind.portal.len() + portal.bytes();
        self.has_room(self.prepared.portals.len(), more)?;
        self.prepared.portals.insert(bind.portal, portal);
        self.wire
            .feed(PgWireBackendMessage::BindComplete(BindComplete::new()))
            .await?;
        Ok(())
    }

    async fn describe_statement(&mut self, name: &str) -> Done {
        let statement = self.statement(name)?.clone();
        let types = ParameterDescription::new(statement.parameters.types.clone());
        let filled = statement.parameters.fill(&statement.text, &[], |_| false)?;
        let request = one(&filled)?;
        let fields = match (&statement.fields, request) {
            (Some(fields), _) => Some(fields.clone()),
            (None, Some(request)) => self.described(&request, &filled).await?,
            (None, None) => None,
        };
        self.has_room_for(statement.fields.is_none(), fields.as_deref())?;
        if let Some(statement) = self.prepared.statements.get_mut(name) {
            statement.fields.clone_from(&fields);
        }
        self.wire
            .feed(PgWireBackendMessage::ParameterDescription(types))
            .await?;
        self.told(fields.as_deref(), &Formats::default()).await
    }

    async fn describe_portal(&mut self, name: &str) -> Done {
        let portal = self.portal(name)?;
        let formats = portal.formats.clone();
        let is_new = portal.fields.is_none();
        let fields = match (&portal.fields, &portal.request) {
            (Some(fields), _) => Some(fields.clone()),
            (None, Some(request)) => {
                let (request, filled) = (request.clone(), portal.filled.clone());
                self.described(&request, &filled).await?
            }
            (None, None) => None,
        };
        self.has_room_for(is_new, fields.as_deref())?;
        if let Some(portal) = self.prepared.portals.get_mut(name) {
            portal.fields.clone_from(&fields);
        }
        self.told(fields.as_deref(), &formats).await
    }

    async fn described(
        &mut self,
        request: &Request,
        filled: &Filled,
    ) -> Result<Option<Vec<Field>>, Fault> {
        // It may ask the governor, and what was asked to end before is not meant.
        self.guest.entry.interrupt.begin();
        let fields = self.describe(request).await.map_err(|fault| {
            let mut fault = fault.behind(request.begins);
            fault.at = fault.at.map(|at| filled.original(at));
            fault
        });
        Ok(fields?.map(|mut fields| {
            filled.retype(&mut fields);
            fields
        }))
    }

    async fn told(&mut self, fields: Option<&[Field]>, formats: &Formats) -> Done {
        let message = match fields {
            Some(fields) => describe(fields, formats),
            None => PgWireBackendMessage::NoData(NoData::new()),
        };
        self.wire.feed(message).await?;
        Ok(())
    }

    fn portal(&self, name: &str) -> Result<&Portal, Fault> {
        let missing = || Fault::error("34000", format!("portal \"{name}\" does not exist"));
        self.prepared.portals.get(name).ok_or_else(missing)
    }

    /// Runs a portal the first time; sends so many rows of what it answered, 0 being all.
    async fn execute_portal(&mut self, name: &str, most: usize) -> Done {
        self.guest.entry.interrupt.begin();
        let portal = self.portal(name)?;
        let Some(request) = portal.request.clone() else {
            self.wire
                .feed(PgWireBackendMessage::EmptyQueryResponse(
                    EmptyQueryResponse::new(),
                ))
                .await?;
            return Ok(());
        };
        if portal.answer.is_none() {
            // One answer may be as long as it is, but not many of them beside each other.
            self.has_room(0, 0)?;
            let filled = portal.filled.clone();
            let answer = self
                .answer(&request, &move |at| filled.original(at))
                .await?;
            self.remark(&answer.remarks).await?;
            if let Some(portal) = self.prepared.portals.get_mut(name) {
                portal.answer = Some(Answered::new(answer));
            }
        }
        // Taken out, for the time that the client takes to read.
        let Some(mut portal) = self.prepared.portals.remove(name) else {
            return Ok(());
        };
        let sent = self.send_rows(&mut portal, most).await;
        self.prepared.portals.insert(name.to_owned(), portal);
        sent
    }

    async fn send_rows(&mut self, portal: &mut Portal, most: usize) -> Done {
        let Some(Answered { answer, sent, rows }) = &mut portal.answer else {
            return Ok(());
        };
        let mut own = answer.fields.clone().unwrap_or_default();
        portal.filled.retype(&mut own);
        let fields = portal.fields.as_ref().unwrap_or(&own);
        if fields.len() != own.len() || !portal.formats.fit(fields.len()) {
            let message = format!(
                "the columns of \"{}\" are not those that were asked for",
                portal.statement
            );
            return Err(Fault::error("0A000", message).into());
        }
        let until = if most == 0 {
            usize::MAX
        } else {
            sent.saturating_add(most)
        };
        while let Some(values) = answer.rows.get(*sent).filter(|_| *sent < until) {
            if self.guest.entry.interrupt.is_asked() {
                return Err(Fault::cancelled().into());
            }
            self.wire.feed(row(values, fields, &portal.formats)).await?;
            *sent += 1;
        }
        let message = if *sent < answer.rows.len() {
            PgWireBackendMessage::PortalSuspended(PortalSuspended::new())
        } else {
            (answer.rows, *rows) = (Vec::new(), 0);
            answer.complete(*sent)
        };
        self.wire.feed(message).await?;
        Ok(())
    }
}

/// The one statement of a text, if it has one.
fn one(filled: &Filled) -> Result<Option<Request>, Fault> {
    let mut requests = requests(&filled.text).map(|request| {
        request.map_err(|mut fault| {
            fault.at = fault.at.map(|at| filled.original(at));
            fault
        })
    });
    let first = requests.next().transpose()?;
    // A mistake in another one is told before there being another.
    match requests.try_fold(0_usize, |others, request| request.map(|_| others + 1))? {
        0 => Ok(first),
        _ => {
            let message = "cannot insert multiple commands into a prepared statement";
            Err(Fault::error("42601", message))
        }
    }
}
