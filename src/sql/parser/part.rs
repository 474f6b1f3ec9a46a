//! Parts of statements: classifiers, assignments, names, keys, values, ids.
//!
//! Pure.

use super::{ASSIGNMENT, CLASSIFIER, NAME, Parsed, Parser, VARIABLE};
use crate::sql::ast::*;
use crate::sql::error::{SqlError, SqlErrorKind};
use crate::sql::span::Spanned;
use crate::sql::token::{Tok, TokKind};

impl Parser<'_> {
    /// `(cond, ..) [, (cond, ..)]..`
    pub(super) fn classifiers(&mut self) -> Parsed<Vec<Classifier>> {
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
    pub(super) fn assignments(&mut self) -> Parsed<Vec<Assignment>> {
        let open = self.open(ASSIGNMENT)?;
        if let Some(close) = self.take_punct(')') {
            return Err(
                SqlError::new(SqlErrorKind::NothingToSet, open.to(close)).with_hint(ASSIGNMENT)
            );
        }
        let mut all = Vec::new();
        loop {
            all.push(self.assignment("the key of a property", ASSIGNMENT)?);
            if self.punct(')') {
                return Ok(all);
            }
            self.comma_or_close(ASSIGNMENT)?;
        }
    }

    /// `key = value`, with the value in quotes or a number.
    pub(super) fn assignment(&mut self, what: &str, example: &str) -> Parsed<Assignment> {
        let key = self.key(what, example)?;
        if !self.punct('=') {
            return Err(self.unexpected(&["="], example));
        }
        let value = self.value(example)?;
        Ok(Assignment { key, value })
    }

    /// `variable = value`; the value may be a bare word too.
    pub(super) fn setting(&mut self) -> Parsed<Assignment> {
        let key = self.key("the name of a variable", VARIABLE)?;
        if !self.punct('=') {
            return Err(self.unexpected(&["="], VARIABLE));
        }
        if let Some(word) = self.peek()
            && word.kind == TokKind::Word
        {
            let value = Spanned::new(word.text.to_owned(), self.here());
            self.at += 1;
            return Ok(Assignment { key, value });
        }
        let value = self.value(ASSIGNMENT)?;
        Ok(Assignment { key, value })
    }

    /// A quoted text, or a bare number with an optional sign (so that the range check can speak of it).
    fn value(&mut self, example: &str) -> Parsed<Spanned<String>> {
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
        self.quoted("a value in quotes", example)
    }

    /// `(id, ..)`
    pub(super) fn ids(&mut self) -> Parsed<Vec<Spanned<u64>>> {
        const IDS: &str =
            "ids of classifiers are shown by SHOW RESOURCE GROUP, for example DROP (10012, 10013)";
        if !self.peek_punct('(') {
            return Err(self.unexpected(&["(", "ALL"], IDS));
        }
        self.open(IDS)?;
        let mut ids = Vec::new();
        loop {
            ids.push(self.whole_number("the id of a classifier", IDS)?);
            if self.punct(')') {
                return Ok(ids);
            }
            self.comma_or_close(IDS)?;
        }
    }

    /// Digits that fit 64 bits; `what` they are, for the error.
    pub(super) fn whole_number(&mut self, what: &str, example: &str) -> Parsed<Spanned<u64>> {
        let number = match self.peek() {
            Some(t) if t.kind == TokKind::Number => t.text.parse::<u64>().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return Err(self.expected(what, &[], example));
        };
        let span = self.here();
        self.at += 1;
        Ok(Spanned::new(number, span))
    }

    /// A group's name: quoted in any way, or bare. Bare, it goes up to the next blank, comma or parenthesis, so that a
    /// wrong name is reported whole and `my-group` needs no quotes.
    pub(super) fn name(&mut self) -> Parsed<Spanned<String>> {
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

    pub(super) fn quoted(&mut self, what: &str, example: &str) -> Parsed<Spanned<String>> {
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
}
