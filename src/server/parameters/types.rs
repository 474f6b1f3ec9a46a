//! Which type each parameter of a SELECT has: that of its cast, else what stands beside it asks for, as PostgreSQL finds
//! it. The first place that says something decides, in the order in which PostgreSQL looks at them.
//!
//! Pure. The statement is read with a NULL for each parameter; types have the numbers of PostgreSQL's `pg_type`. A
//! number with a fraction is a double here, where PostgreSQL says numeric: it is read as one, too.

use super::Filled;
use super::cast::{BOOL, FLOAT8, INT2, INT4, INT8, TEXT, VARCHAR, cast, of_type};
use crate::server::answer::Kind as Column;
use crate::server::fault::Fault;
use crate::server::lex::{Kind, Token};
use crate::sql::select::{Item, Literal, Predicate, Scalar, Select, Term};
use crate::sql::{Caps, Span, Statement, Type, parse_each};

/// Of numbers, each can become one that stands further behind: smallint, integer, oid, bigint, numeric, real, double.
const NUMBERS: [u32; 7] = [INT2, INT4, 26, INT8, 1700, 700, FLOAT8];
/// Of texts, the first that is seen stays.
const TEXTS: [u32; 5] = [TEXT, VARCHAR, 1042, 19, 18];

/// Finds the types that are not given, which are 0. `filled` is the statement with a NULL for each parameter.
pub(super) fn find(
    types: &mut [u32],
    tokens: &[Token<'_>],
    filled: &Filled,
    columns: &[(String, Type)],
) -> Result<(), Fault> {
    let mut finder = Finder {
        types,
        tokens,
        filled,
        columns,
    };
    let mut statements = parse_each(&filled.text, Caps::CLIENT);
    if let (Some((_, _, Ok(Statement::Select(select)))), None) =
        (statements.next(), statements.next())
    {
        finder.select(&select)?;
    }
    finder.what_is_left();
    Ok(())
}

/// What a value is known to be before it is compared.
#[derive(Clone, Copy)]
enum Operand {
    Known(u32),
    /// Its place among the parameters; nothing has said yet what it is.
    Parameter(usize),
    /// A text or NULL: of any type.
    Any,
}

impl Operand {
    fn known(self) -> Option<u32> {
        match self {
            Operand::Known(kind) => Some(kind),
            _ => None,
        }
    }
}

struct Finder<'a> {
    types: &'a mut [u32],
    tokens: &'a [Token<'a>],
    filled: &'a Filled,
    columns: &'a [(String, Type)],
}

impl Finder<'_> {
    fn select(&mut self, select: &Select) -> Result<(), Fault> {
        for item in &select.items {
            if let Item::Term {
                term: Term::Scalar(scalar),
                ..
            } = item
            {
                let operand = self.operand(scalar);
                self.is(operand, TEXT);
            }
        }
        if let Some(filter) = &select.filter {
            self.condition(filter);
        }
        let order = select.order_by.iter().map(|key| ("ORDER BY", &key.term));
        let group = select.group_by.iter().map(|key| ("GROUP BY", key));
        for (clause, key) in order.chain(group) {
            if let Some(at) = self.token_at(key.span())
                && let Kind::Parameter(_) = at.1.kind
            {
                // As a literal it would be a position.
                let fault = Fault::error("0A000", format!("a parameter in {clause}"));
                return Err(fault.at(at.1.char).hint("write the column's name"));
            }
        }
        Ok(())
    }

    fn condition(&mut self, predicate: &Predicate) {
        match predicate {
            Predicate::And(parts) | Predicate::Or(parts) => {
                parts.iter().for_each(|part| self.condition(part));
            }
            Predicate::Not(inner) => self.condition(inner),
            Predicate::Compare { left, right, .. } => self.compared(left, right),
            Predicate::In { scalar, list, .. } => self.among(scalar, list),
            Predicate::Like {
                scalar, pattern, ..
            } => {
                for one in [scalar, pattern] {
                    let operand = self.operand(one);
                    self.is(operand, TEXT);
                }
            }
            Predicate::Between {
                scalar, low, high, ..
            } => {
                self.compared(scalar, low);
                self.compared(scalar, high);
            }
            Predicate::IsNull { scalar, .. } => {
                self.operand(scalar);
            }
            Predicate::Truth(scalar) => {
                let operand = self.operand(scalar);
                self.is(operand, BOOL);
            }
        }
    }

    fn compared(&mut self, left: &Scalar, right: &Scalar) {
        let (a, b) = (self.operand(left), self.operand(right));
        let kind = a.known().or(b.known()).map_or(TEXT, compares_as);
        self.is(a, kind);
        self.is(b, kind);
    }

    /// Several values have a type together; columns, and a value alone, are compared one by one.
    fn among(&mut self, scalar: &Scalar, list: &[Scalar]) {
        let is_value = |one: &&Scalar| matches!(one, Scalar::Literal(_));
        let mut one_by_one: Vec<&Scalar> = list.iter().collect();
        if list.iter().filter(is_value).count() > 1 {
            let operand = self.operand(scalar);
            let values: Vec<Operand> = list
                .iter()
                .filter(is_value)
                .map(|one| self.operand(one))
                .collect();
            let all = [operand].into_iter().chain(values.iter().copied());
            if let Some(common) = common(all.filter_map(Operand::known)) {
                values.iter().for_each(|value| self.is(*value, common));
                self.is(operand, compares_as(common));
                one_by_one.retain(|one| !is_value(one));
            }
        }
        for one in one_by_one {
            self.compared(scalar, one);
        }
    }

    /// What is known of a value; a parameter that is cast here first has the type of the cast.
    fn operand(&mut self, scalar: &Scalar) -> Operand {
        let literal = match scalar {
            Scalar::Literal(literal) => literal,
            Scalar::Column(name) => {
                let mut columns = self.columns.iter();
                let column = columns.find(|(column, _)| *column == name.value);
                return column.map_or(Operand::Any, |(_, kind)| Operand::Known(oid(*kind)));
            }
        };
        let token = self.token_at(literal.span);
        let cast = token.and_then(|(at, _)| of_type(cast(self.tokens, at)?));
        if let Some((_, token)) = token
            && let Kind::Parameter(number) = token.kind
        {
            let parameter = Operand::Parameter(usize::from(number).saturating_sub(1));
            return match cast {
                Some(kind) => {
                    self.is(parameter, kind);
                    Operand::Known(kind)
                }
                None => self.as_far_as_known(parameter),
            };
        }
        let own = match &literal.value {
            Literal::Null | Literal::Text(_) => None,
            Literal::NullOf(kind) => Some(oid(*kind)),
            Literal::Bool(_) => Some(BOOL),
            Literal::Float(_) => Some(FLOAT8),
            Literal::Number(digits) => Some(of_number(digits)),
        };
        cast.or(own).map_or(Operand::Any, Operand::Known)
    }

    fn as_far_as_known(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Parameter(at) => match self.types.get(at) {
                None | Some(0) => operand,
                Some(known) => Operand::Known(*known),
            },
            other => other,
        }
    }

    /// It is of this type, if nothing has said otherwise.
    fn is(&mut self, operand: Operand, kind: u32) {
        if let Operand::Parameter(at) = operand
            && let Some(unknown) = self.types.get_mut(at).filter(|kind| **kind == 0)
        {
            *unknown = kind;
        }
    }

    /// The token of the client's text that was read there, and how many are before it.
    fn token_at(&self, span: Span) -> Option<(usize, Token<'_>)> {
        let char = self.filled.original(span.start);
        let at = self.tokens.binary_search_by_key(&char, |token| token.char);
        let at = at.ok()?;
        Some((at, *self.tokens.get(at)?))
    }

    /// Counts behind LIMIT and OFFSET, and whatever stands in a statement that is answered elsewhere.
    fn what_is_left(&mut self) {
        for (at, token) in self.tokens.iter().enumerate() {
            let Kind::Parameter(number) = token.kind else {
                continue;
            };
            let parameter = Operand::Parameter(usize::from(number).saturating_sub(1));
            let before = self.tokens.get(..at).unwrap_or_default();
            let word = before.iter().rev().find(|token| !token.sign('('));
            let counts = word.is_some_and(|word| word.is("limit") || word.is("offset"));
            if let Some(kind) = cast(self.tokens, at).and_then(of_type) {
                self.is(parameter, kind);
            } else if counts {
                self.is(parameter, INT8);
            }
        }
    }
}

fn oid(kind: Type) -> u32 {
    Column::from(kind).oid()
}

/// The least type that a number as written fits.
fn of_number(digits: &str) -> u32 {
    if digits.parse::<i32>().is_ok() {
        INT4
    } else if digits.parse::<i64>().is_ok() {
        INT8
    } else {
        FLOAT8
    }
}

/// What a value without a type becomes beside one of this type.
fn compares_as(kind: u32) -> u32 {
    if kind == VARCHAR { TEXT } else { kind }
}

/// The type that values of these types have together; text if none has one, nothing if they do not go together.
fn common(kinds: impl Iterator<Item = u32>) -> Option<u32> {
    let mut common = None;
    for kind in kinds {
        let rank = |kind| NUMBERS.iter().position(|number| *number == kind);
        common = match common {
            None => Some(kind),
            Some(known) if known == kind => Some(known),
            Some(known) => match (rank(known), rank(kind)) {
                (Some(a), Some(b)) => Some(if a < b { kind } else { known }),
                _ if TEXTS.contains(&known) && TEXTS.contains(&kind) => Some(known),
                _ => return None,
            },
        };
    }
    Some(common.unwrap_or(TEXT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_together_are_the_widest_and_the_first_of_texts() {
        let of = |kinds: &[u32]| common(kinds.iter().copied());
        assert_eq!(of(&[]), Some(TEXT));
        assert_eq!(of(&[21, INT8, INT4]), Some(INT8));
        assert_eq!(of(&[INT8, FLOAT8, 21]), Some(FLOAT8));
        assert_eq!(of(&[VARCHAR, TEXT]), Some(VARCHAR));
        assert_eq!(of(&[BOOL, BOOL]), Some(BOOL));
        assert_eq!(of(&[BOOL, INT4]), None);
        assert_eq!(of(&[TEXT, INT4]), None);
    }
}
