//! Tokens to one statement.
//!
//! Pure. A loop over a flat list of tokens: no recursion, no look-ahead beyond two tokens, linear time. Words decide
//! first and errors say what may stand at that very place.

use super::ast::*;
use super::error::{SqlError, SqlErrorKind};
use super::span::{Span, Spanned};
use super::suggest::closest;
use super::token::{Piece, Tok, TokKind, tokens};

const EXAMPLE: &str =
    "for example CREATE RESOURCE GROUP etl TO (user='loader') WITH ('cpu_core_limit'='4')";
const CLASSIFIER: &str = "for example (user='bi', query_type IN ('select', 'insert'))";
const ASSIGNMENT: &str = "for example WITH ('cpu_core_limit'='4', 'concurrency_limit'='10')";
const NAME: &str =
    "a name is a letter or _ followed by at most 63 letters, digits, _, $ or -, for example etl_1";

type Parsed<T> = Result<T, SqlError>;

/// The statement that a piece of a script holds.
pub(super) fn statement(piece: &Piece<'_>) -> Parsed<Statement> {
    let toks = tokens(piece)?;
    let mut parser = Parser {
        toks: &toks,
        at: 0,
        text: piece.text,
        base: piece.at.byte,
    };
    let statement = parser.statement()?;
    parser.end()?;
    Ok(statement)
}

struct Parser<'a> {
    toks: &'a [Tok<'a>],
    at: usize,
    text: &'a str,
    base: usize,
}

impl<'a> Parser<'a> {
    fn statement(&mut self) -> Parsed<Statement> {
        if self.keyword("CREATE") {
            self.create()
        } else if self.keyword("ALTER") {
            self.alter()
        } else if self.keyword("DROP") {
            self.resource_group()?;
            let if_exists = self.keyword("IF");
            if if_exists {
                self.expect("EXISTS")?;
            }
            let name = self.name()?;
            Ok(Statement::DropGroup(DropGroup { if_exists, name }))
        } else if self.keyword("SHOW") {
            self.show()
        } else {
            Err(self.unexpected(&["CREATE", "ALTER", "DROP", "SHOW"], EXAMPLE))
        }
    }

    fn create(&mut self) -> Parsed<Statement> {
        if self.peek_keyword("OR") {
            return Err(self.unexpected(
                &["RESOURCE"],
                "OR REPLACE stands before the name: CREATE RESOURCE GROUP OR REPLACE etl ..",
            ));
        }
        self.resource_group()?;
        let if_not_exists = self.keyword("IF");
        if if_not_exists {
            self.expect("NOT")?;
            self.expect("EXISTS")?;
        }
        let or_replace = self.keyword("OR");
        if or_replace {
            self.expect("REPLACE")?;
        }
        if self.peek_keyword("IF") {
            let hint = "IF NOT EXISTS stands before OR REPLACE; a group of this name is `if`";
            return Err(self.unexpected(&[], hint));
        }
        let name = self.name()?;
        let classifiers = if self.keyword("TO") {
            self.classifiers()?
        } else {
            Vec::new()
        };
        if !self.keyword("WITH") {
            let expected: &[&str] = if classifiers.is_empty() {
                &["TO", "WITH"]
            } else {
                &[",", "WITH"]
            };
            return Err(self.unexpected(expected, ASSIGNMENT));
        }
        let properties = self.assignments()?;
        Ok(Statement::CreateGroup(CreateGroup {
            if_not_exists,
            or_replace,
            name,
            classifiers,
            properties,
        }))
    }

    fn alter(&mut self) -> Parsed<Statement> {
        self.resource_group()?;
        let name = self.name()?;
        let action = if self.keyword("ADD") {
            AlterAction::Add(self.classifiers()?)
        } else if self.keyword("WITH") {
            AlterAction::With(self.assignments()?)
        } else if self.keyword("DROP") {
            if self.keyword("ALL") {
                AlterAction::DropAll
            } else {
                AlterAction::Drop(self.ids()?)
            }
        } else {
            let hint = "one change per statement, for example ALTER RESOURCE GROUP etl WITH ('concurrency_limit'='4')";
            return Err(self.unexpected(&["ADD", "DROP", "WITH"], hint));
        };
        Ok(Statement::AlterGroup(AlterGroup { name, action }))
    }

    fn show(&mut self) -> Parsed<Statement> {
        if self.keyword("CREATE") {
            self.resource_group()?;
            return Ok(Statement::ShowCreateGroup(self.name()?));
        }
        if self.keyword("USAGE") {
            self.expect("RESOURCE")?;
            return Ok(Statement::ShowUsage(if self.keyword("GROUPS") {
                None
            } else {
                self.groups_or_group()?;
                Some(self.name()?)
            }));
        }
        let verbose = self.keyword("VERBOSE");
        if !self.keyword("RESOURCE") {
            let expected: &[&str] = if verbose {
                &["RESOURCE"]
            } else {
                &["RESOURCE", "VERBOSE", "CREATE", "USAGE"]
            };
            return Err(self.unexpected(expected, "for example SHOW RESOURCE GROUPS ALL"));
        }
        let which = if self.keyword("GROUPS") {
            let all = self.keyword("ALL");
            let like = if self.keyword("LIKE") {
                Some(self.quoted("a pattern in quotes", "for example LIKE 'etl%'")?)
            } else {
                None
            };
            Which::Many { all, like }
        } else {
            self.groups_or_group()?;
            Which::One(self.name()?)
        };
        Ok(Statement::ShowGroups(ShowGroups { verbose, which }))
    }

    fn groups_or_group(&mut self) -> Parsed<()> {
        if self.keyword("GROUP") {
            return Ok(());
        }
        Err(self.unexpected(
            &["GROUPS", "GROUP"],
            "for example SHOW RESOURCE GROUPS ALL, or SHOW RESOURCE GROUP etl",
        ))
    }

    fn resource_group(&mut self) -> Parsed<()> {
        self.expect("RESOURCE")?;
        self.expect("GROUP")
    }

    /// `(cond, ..) [, (cond, ..)]..`
    fn classifiers(&mut self) -> Parsed<Vec<Classifier>> {
        let mut all = vec![self.classifier()?];
        while self.punct(',') {
            all.push(self.classifier()?);
        }
        Ok(all)
    }

    fn classifier(&mut self) -> Parsed<Classifier> {
        let open = self.open(CLASSIFIER)?;
        if let Some(close) = self.take_punct(')') {
            let hint = format!("at least one of {} is needed", CLASSIFIER_KEYS.join(", "));
            return Err(
                SqlError::new(SqlErrorKind::EmptyClassifier, open.to(close)).with_hint(hint)
            );
        }
        let mut conditions = Vec::new();
        loop {
            conditions.push(self.condition()?);
            if let Some(close) = self.take_punct(')') {
                let span = open.to(close);
                return Ok(Classifier { conditions, span });
            }
            self.comma_or_close(CLASSIFIER)?;
        }
    }

    fn condition(&mut self) -> Parsed<Condition> {
        let key = self.key("the key of a condition", CLASSIFIER)?;
        if self.punct('=') {
            let test = Test::Equals(self.operand(&key)?);
            return Ok(Condition { key, test });
        }
        if !self.keyword("IN") {
            return Err(self.not_an_operator(&key));
        }
        self.open(CLASSIFIER)?;
        let mut texts = vec![self.operand(&key)?];
        while !self.punct(')') {
            self.comma_or_close(CLASSIFIER)?;
            texts.push(self.operand(&key)?);
        }
        let test = Test::In(texts);
        Ok(Condition { key, test })
    }

    /// The quoted text that a condition compares with.
    fn operand(&mut self, key: &str) -> Parsed<Spanned<String>> {
        let tok = self.peek();
        match tok.map(|t| &t.kind) {
            Some(TokKind::Text(_)) => self.quoted("a quoted text", CLASSIFIER),
            Some(TokKind::Word | TokKind::Number | TokKind::Name(_) | TokKind::Other)
            | Some(TokKind::Punct('-')) => {
                let kind = SqlErrorKind::IllegalOperand {
                    key: key.to_owned(),
                    found: self.found(),
                };
                Err(SqlError::new(kind, self.here())
                    .with_hint(format!("values stand in quotes, {CLASSIFIER}")))
            }
            _ => Err(self.expected("a quoted text", &[], CLASSIFIER)),
        }
    }

    /// The token after a condition's key is neither `=` nor IN.
    fn not_an_operator(&self, key: &Spanned<String>) -> SqlError {
        let hint = format!("conditions are key = 'text' and query_type IN (..), {CLASSIFIER}");
        let compares = match self.peek() {
            Some(t) if t.kind == TokKind::Word => ["NOT", "LIKE", "IS", "BETWEEN", "REGEXP"]
                .iter()
                .any(|k| t.text.eq_ignore_ascii_case(k)),
            Some(t) => t.kind == TokKind::Other,
            None => false,
        };
        if !compares {
            return self.unexpected(&["=", "IN"], &hint);
        }
        let kind = SqlErrorKind::IllegalOperator {
            key: key.value.clone(),
            operator: self.found(),
        };
        SqlError::new(kind, self.here()).with_hint(hint)
    }

    /// `('key'='value', ..)`
    fn assignments(&mut self) -> Parsed<Vec<Assignment>> {
        let open = self.open(ASSIGNMENT)?;
        if let Some(close) = self.take_punct(')') {
            return Err(
                SqlError::new(SqlErrorKind::NothingToSet, open.to(close)).with_hint(ASSIGNMENT)
            );
        }
        let mut all = Vec::new();
        loop {
            let key = self.key("the key of a property", ASSIGNMENT)?;
            if !self.punct('=') {
                return Err(self.unexpected(&["="], ASSIGNMENT));
            }
            let value = self.value()?;
            all.push(Assignment { key, value });
            if self.punct(')') {
                return Ok(all);
            }
            self.comma_or_close(ASSIGNMENT)?;
        }
    }

    /// A quoted text, or a bare number with an optional sign (so that the range check can speak of it).
    fn value(&mut self) -> Parsed<Spanned<String>> {
        let minus = match self.peek() {
            Some(t) if t.kind == TokKind::Punct('-') => 1,
            _ => 0,
        };
        if let Some(number) = self.toks.get(self.at + minus)
            && number.kind == TokKind::Number
        {
            let sign = if minus == 1 { "-" } else { "" };
            let span = self.here().to(number.span);
            self.at += minus + 1;
            return Ok(Spanned::new(format!("{sign}{}", number.text), span));
        }
        self.quoted("a value in quotes", ASSIGNMENT)
    }

    /// `(id, ..)`
    fn ids(&mut self) -> Parsed<Vec<Spanned<u64>>> {
        const IDS: &str =
            "ids of classifiers are shown by SHOW RESOURCE GROUP, for example DROP (10012, 10013)";
        if !self.peek_punct('(') {
            return Err(self.unexpected(&["(", "ALL"], IDS));
        }
        self.open(IDS)?;
        let mut ids = Vec::new();
        loop {
            let id = match self.peek() {
                Some(t) if t.kind == TokKind::Number => t.text.parse::<u64>().ok(),
                _ => None,
            };
            let Some(id) = id else {
                return Err(self.expected("the id of a classifier", &[], IDS));
            };
            ids.push(Spanned::new(id, self.here()));
            self.at += 1;
            if self.punct(')') {
                return Ok(ids);
            }
            self.comma_or_close(IDS)?;
        }
    }

    /// A group's name: quoted in any way, or bare. Bare, it goes up to the next blank, comma or parenthesis, so that a
    /// wrong name is reported whole and `my-group` needs no quotes.
    fn name(&mut self) -> Parsed<Spanned<String>> {
        let first = match self.peek() {
            Some(t) => t,
            None => return Err(self.expected("a name", &[], NAME)),
        };
        let span = self.here();
        let name = match &first.kind {
            TokKind::Text(text) | TokKind::Name(text) => {
                self.at += 1;
                Spanned::new(text.clone(), span)
            }
            TokKind::Punct('(' | ')' | ',' | '=') => {
                return Err(self.expected("a name", &[], NAME));
            }
            _ => self.glued(first),
        };
        if is_group_name(&name) {
            return Ok(name);
        }
        let kind = SqlErrorKind::BadName {
            name: name.value.clone(),
        };
        Err(SqlError::new(kind, name.span).with_hint(NAME))
    }

    /// All tokens that stand against each other without a blank, as one text.
    fn glued(&mut self, first: &Tok<'_>) -> Spanned<String> {
        let mut span = first.span;
        let mut end = first.byte + first.text.len();
        self.at += 1;
        while let Some(t) = self.peek()
            && t.byte == end
            && !matches!(t.kind, TokKind::Punct('(' | ')' | ',' | '='))
        {
            end += t.text.len();
            span = span.to(t.span);
            self.at += 1;
        }
        let text = self
            .text
            .get(first.byte - self.base..end - self.base)
            .unwrap_or_default();
        Spanned::new(text.to_owned(), span)
    }

    /// A key in lower case: in any quotes, or bare.
    fn key(&mut self, what: &str, example: &str) -> Parsed<Spanned<String>> {
        let span = self.here();
        let key = match self.peek().map(|t| (&t.kind, t.text)) {
            Some((TokKind::Text(text) | TokKind::Name(text), _)) => text.to_ascii_lowercase(),
            Some((TokKind::Word, text)) => text.to_ascii_lowercase(),
            Some((TokKind::Punct(')'), _)) => {
                let hint = format!("there is no comma behind the last one, {example}");
                return Err(self.expected(what, &[], &hint));
            }
            _ => return Err(self.expected(what, &[], example)),
        };
        self.at += 1;
        Ok(Spanned::new(key, span))
    }

    fn quoted(&mut self, what: &str, example: &str) -> Parsed<Spanned<String>> {
        if let Some(Tok {
            kind: TokKind::Text(text),
            span,
            ..
        }) = self.peek()
        {
            self.at += 1;
            return Ok(Spanned::new(text.clone(), *span));
        }
        Err(self.expected(what, &[], example))
    }

    fn open(&mut self, example: &str) -> Parsed<Span> {
        match self.take_punct('(') {
            Some(span) => Ok(span),
            None => Err(self.unexpected(&["("], example)),
        }
    }

    fn comma_or_close(&mut self, example: &str) -> Parsed<()> {
        if self.punct(',') {
            return Ok(());
        }
        Err(self.unexpected(&[",", ")"], example))
    }

    fn end(&self) -> Parsed<()> {
        if self.at < self.toks.len() {
            return Err(self.unexpected(
                &["the end of the statement"],
                "statements are separated by ;",
            ));
        }
        Ok(())
    }

    fn peek(&self) -> Option<&'a Tok<'a>> {
        self.toks.get(self.at)
    }

    fn peek_keyword(&self, word: &str) -> bool {
        self.peek()
            .is_some_and(|t| t.kind == TokKind::Word && t.text.eq_ignore_ascii_case(word))
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = self.peek_keyword(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.keyword(word) {
            return Ok(());
        }
        Err(self.unexpected(&[word], EXAMPLE))
    }

    fn peek_punct(&self, c: char) -> bool {
        self.peek().is_some_and(|t| t.kind == TokKind::Punct(c))
    }

    fn take_punct(&mut self, c: char) -> Option<Span> {
        let span = self.peek().filter(|t| t.kind == TokKind::Punct(c))?.span;
        self.at += 1;
        Some(span)
    }

    fn punct(&mut self, c: char) -> bool {
        self.take_punct(c).is_some()
    }

    /// The place of the next token, or just behind the last one.
    fn here(&self) -> Span {
        match self.peek() {
            Some(t) => t.span,
            None => self.toks.last().map_or(Span::default(), |t| t.span.after()),
        }
    }

    /// The next token as a message names it: short, whatever it is.
    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the statement".to_owned(),
            Some(t) if t.text.chars().count() > 40 => {
                let head: String = t.text.chars().take(40).collect();
                format!("{head}…")
            }
            Some(t) => t.text.to_owned(),
        }
    }

    /// An error: one of these words or signs may stand here.
    fn unexpected(&self, words: &[&str], example: &str) -> SqlError {
        let expected = match words {
            [] => "something else".to_owned(),
            [one] => (*one).to_owned(),
            [most @ .., last] => format!("{} or {last}", most.join(", ")),
        };
        self.expected(&expected, words, example)
    }

    fn expected(&self, expected: &str, words: &[&str], example: &str) -> SqlError {
        let kind = SqlErrorKind::Syntax {
            found: self.found(),
            expected: expected.to_owned(),
        };
        let suggestion = self
            .peek()
            .filter(|t| t.kind == TokKind::Word)
            .and_then(|t| closest(t.text, words.iter().copied()));
        SqlError::new(kind, self.here())
            .with_hint(example)
            .with_suggestion(suggestion)
    }
}
