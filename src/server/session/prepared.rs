//! What a session has prepared, and how much memory it takes.
//!
//! Pure. It is bounded: statements, portals, and the bytes of both with what was read of them.

use crate::server::answer::{Answer, Field, Formats};
use crate::server::fault::Fault;
use crate::server::parameters::{Filled, Parameters};
use crate::server::request::Request;
use crate::server::weight;
use std::collections::HashMap;

/// Statements and portals at most, each.
const MOST: usize = 512;

/// Bytes that a session may prepare at least, however short its messages are: what a statement is takes more than its
/// text.
const LEAST: usize = 64 << 10;

/// What a session has prepared.
#[derive(Default)]
pub(super) struct Prepared {
    pub(super) statements: HashMap<String, Statement>,
    pub(super) portals: HashMap<String, Portal>,
}

/// A statement, as it was prepared.
#[derive(Clone, Default)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) parameters: Parameters,
    /// The columns that the client was told of.
    pub(super) fields: Option<Vec<Field>>,
}

/// A statement with its values.
pub(super) struct Portal {
    pub(super) statement: String,
    pub(super) filled: Filled,
    pub(super) request: Option<Request>,
    pub(super) formats: Formats,
    pub(super) fields: Option<Vec<Field>>,
    pub(super) answer: Option<Answered>,
}

/// What was answered, and how much of it was sent.
pub(super) struct Answered {
    pub(super) answer: Answer,
    pub(super) sent: usize,
    /// Bytes of rows, until all of them are sent.
    pub(super) rows: usize,
}

impl Prepared {
    pub(super) fn clear(&mut self) {
        self.statements.clear();
    }

    pub(super) fn forget(&mut self, name: &str) -> bool {
        self.statements.remove(name).is_some()
    }

    /// Refuses what would make the session keep too much: `more` bytes beside so many of the same kind.
    pub(super) fn has_room(
        &self,
        count: usize,
        more: usize,
        max_message: usize,
    ) -> Result<(), Fault> {
        let bytes = (2 * max_message).max(LEAST);
        if count < MOST && self.bytes() + more <= bytes {
            return Ok(());
        }
        let fault = Fault::error("53400", "the session has prepared too much");
        Err(fault.hint(format!(
            "{MOST} statements and {bytes} bytes are allowed; DEALLOCATE ALL makes room, and Sync"
        )))
    }

    fn bytes(&self) -> usize {
        let statements = self.statements.iter();
        let statements = statements.map(|(name, it)| name.len() + it.bytes());
        let portals = self.portals.iter();
        let portals = portals.map(|(name, it)| name.len() + it.bytes());
        statements.chain(portals).sum()
    }
}

impl Statement {
    pub(super) fn bytes(&self) -> usize {
        let types = self.parameters.bytes();
        let fields = self.fields.as_deref().map_or(0, weight::fields);
        size_of::<Statement>() + self.text.len() + types + fields
    }
}

impl Portal {
    pub(super) fn bytes(&self) -> usize {
        let request = self.request.as_ref().map_or(0, Request::bytes);
        let fields = self.fields.as_deref().map_or(0, weight::fields);
        let answer = self.answer.as_ref().map_or(0, Answered::bytes);
        let own = size_of::<Portal>() + self.statement.len() + self.filled.bytes();
        own + self.formats.bytes() + request + fields + answer
    }
}

impl Answered {
    pub(super) fn new(answer: Answer) -> Answered {
        Answered {
            sent: 0,
            rows: weight::rows(&answer.rows),
            answer,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows + self.answer.fields.as_deref().map_or(0, weight::fields)
    }
}
