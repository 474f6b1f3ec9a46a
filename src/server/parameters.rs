//! Parameters of a SELECT: which type each has, and its value as a literal in the place of `$n`.
//!
//! Pure. The views' SELECT has no parameters of its own; a literal that is quoted here cannot become anything else.

use super::fault::Fault;
use super::lex::{Kind, Token, tokens};
use crate::sql::Type;

/// A statement with parameters, as it was prepared.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    /// The number of each type, by position; what the client did not say was found out.
    pub(super) types: Vec<u32>,
}

/// A text with its parameters filled in, and where in it each of them stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filled {
    pub(super) text: String,
    /// Characters before and of each literal here, characters before and of its parameter there.
    moved: Vec<[usize; 4]>,
}

impl Filled {
    /// Where a place of the filled text is in the text that the client sent.
    pub(super) fn original(&self, at: usize) -> usize {
        let mut original = at;
        for &[here, literal, there, parameter] in &self.moved {
            if at < here {
                break;
            }
            original = if at < here + literal {
                there
            } else {
                at - here - literal + there + parameter
            };
        }
        original
    }
}

/// The most parameters of one statement.
const MOST: u16 = 1_000;

impl Parameters {
    /// The parameters of a statement. `declared` are the types that the client gives, 0 for those that it does not;
    /// `columns` are those of the view that the statement reads.
    pub(super) fn of(
        tokens: &[Token<'_>],
        declared: &[u32],
        columns: &[(String, Type)],
    ) -> Result<Parameters, Fault> {
        let mut types: Vec<u32> = declared.iter().take(usize::from(MOST)).copied().collect();
        for (at, token) in tokens.iter().enumerate() {
            let Kind::Parameter(number) = token.kind else {
                continue;
            };
            if number == 0 || number > MOST {
                let message = format!("there is no parameter {}", token.text);
                return Err(Fault::error("42P02", message).at(token.char));
            }
            if !tokens.first().is_some_and(|first| first.is("select")) {
                let fault = Fault::error("0A000", "only SELECT takes parameters");
                return Err(fault
                    .at(token.char)
                    .hint("write the value into the statement"));
            }
            let index = usize::from(number) - 1;
            if types.len() <= index {
                types.resize(index + 1, 0);
            }
            if let Some(kind) = types.get_mut(index).filter(|kind| **kind == 0) {
                *kind = oid(guess(tokens, at, columns));
            }
        }
        // One that is declared by its position alone, and never used.
        types
            .iter_mut()
            .filter(|kind| **kind == 0)
            .for_each(|kind| *kind = 25);
        Ok(Parameters { types })
    }

    /// The text with a literal for each parameter; NULL for those without a value.
    pub(super) fn fill(
        &self,
        text: &str,
        values: &[Option<Vec<u8>>],
        binary: impl Fn(usize) -> bool,
    ) -> Result<Filled, Fault> {
        let mut filled = Filled::default();
        let (mut from, mut written) = (0, 0_usize);
        for token in tokens(text) {
            let Kind::Parameter(number) = token.kind else {
                continue;
            };
            let index = usize::from(number).saturating_sub(1);
            let oid = self.types.get(index).copied().unwrap_or(25);
            let value = values.get(index).and_then(Option::as_deref);
            let literal = literal(value, oid, binary(index)).map_err(|fault| {
                fault
                    .detail(format!("it is the value of {}", token.text))
                    .at(token.char)
            })?;
            let before = text.get(from..token.byte).unwrap_or_default();
            filled.text.push_str(before);
            written += before.chars().count();
            filled.text.push_str(&literal);
            let (long, short) = (literal.chars().count(), token.text.chars().count());
            filled.moved.push([written, long, token.char, short]);
            written += long;
            from = token.byte + token.text.len();
        }
        filled.text.push_str(text.get(from..).unwrap_or_default());
        Ok(filled)
    }
}

fn oid(kind: Type) -> u32 {
    super::answer::Kind::from(kind).oid()
}

/// The type that the place of a parameter asks for: that of the column it is compared with, a count behind LIMIT.
fn guess(tokens: &[Token<'_>], at: usize, columns: &[(String, Type)]) -> Type {
    let column = |token: &Token<'_>| {
        let name = matches!(token.kind, Kind::Word | Kind::Name).then(|| token.value())?;
        let found = columns.iter().find(|(column, _)| *column == name);
        found.map(|(_, kind)| *kind)
    };
    // `$1 < column`
    let behind = tokens.get(at + 1..).unwrap_or_default();
    let signs = behind
        .iter()
        .take_while(|token| matches!(token.kind, Kind::Sign('=' | '<' | '>' | '!')))
        .count();
    if let Some(kind) = behind.get(signs).filter(|_| signs > 0).and_then(column) {
        return kind;
    }
    let before = tokens.get(..at).unwrap_or_default();
    for (back, token) in before.iter().enumerate().rev() {
        if token.is("limit") || token.is("offset") {
            return Type::Int;
        }
        if let Some(kind) = column(token) {
            return kind;
        }
        // What may stand between a column and what it is compared with.
        let between = match token.kind {
            Kind::Word if token.is("and") => back
                .checked_sub(2)
                .and_then(|back| before.get(back))
                .is_some_and(|token| token.is("between")),
            Kind::Word => ["in", "not", "between", "like"]
                .iter()
                .any(|word| token.is(word)),
            Kind::Sign(sign) => "=<>!(,".contains(sign),
            Kind::Text | Kind::Number | Kind::Parameter(_) => true,
            Kind::Name => false,
        };
        if !between {
            break;
        }
    }
    Type::Text
}

/// A value as the client sent it, as a literal. Types have the numbers of PostgreSQL's `pg_type`.
fn literal(value: Option<&[u8]>, oid: u32, binary: bool) -> Result<String, Fault> {
    let Some(bytes) = value else {
        return Ok("NULL".to_owned());
    };
    let bad = |what: &str| {
        Fault::error(
            "22P02",
            format!("invalid value for a parameter of type {what}"),
        )
    };
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    let whole = |parsed: Option<i64>, what| parsed.map(|n| n.to_string()).ok_or_else(|| bad(what));
    let text = || {
        std::str::from_utf8(bytes).map_err(|_| Fault::error("22021", "a parameter is not UTF-8"))
    };
    let trimmed = || text().map(str::trim);
    match (oid, binary) {
        (16, true) => match bytes {
            [byte] => Ok(if *byte == 0 { "false" } else { "true" }.to_owned()),
            _ => Err(bad("boolean")),
        },
        (16, false) => match trimmed()?.to_ascii_lowercase().as_str() {
            "t" | "true" | "on" | "yes" | "y" | "1" => Ok("true".to_owned()),
            "f" | "false" | "off" | "no" | "n" | "0" => Ok("false".to_owned()),
            _ => Err(bad("boolean")),
        },
        (20, true) => whole(array(bytes).map(i64::from_be_bytes), "bigint"),
        (21, true) => whole(
            array(bytes).map(|it| i16::from_be_bytes(it).into()),
            "smallint",
        ),
        (23, true) => whole(
            array(bytes).map(|it| i32::from_be_bytes(it).into()),
            "integer",
        ),
        (26, true) => whole(array(bytes).map(|it| u32::from_be_bytes(it).into()), "oid"),
        (20 | 21 | 23 | 26, false) => whole(trimmed()?.parse().ok(), "bigint"),
        (701, true) => {
            real(array(bytes).map(f64::from_be_bytes)).ok_or_else(|| bad("double precision"))
        }
        (700, true) => {
            real(array(bytes).map(|it| f32::from_be_bytes(it).into())).ok_or_else(|| bad("real"))
        }
        (700 | 701 | 1700, false) => {
            real(trimmed()?.parse().ok()).ok_or_else(|| bad("double precision"))
        }
        // text, varchar, bpchar, name, unknown
        (25 | 1043 | 1042 | 19 | 705 | 0, _) => Ok(quoted(text()?)),
        (other, _) => {
            let message =
                format!("a parameter of the type with the number {other} is not supported");
            Err(Fault::error("0A000", message)
                .hint("text, bigint, double precision and boolean are"))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Digits that are read as the same number; what has no digits is left to the comparison with a text.
fn real(x: Option<f64>) -> Option<String> {
    let x = x?;
    Some(match x {
        x if x.is_nan() => "'NaN'".to_owned(),
        x if x.is_infinite() => quoted(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        x => format!("{x:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<(String, Type)> {
        let column = |name: &str, kind| (name.to_owned(), kind);
        vec![
            column("name", Type::Text),
            column("id", Type::Int),
            column("cpu_share", Type::Float),
            column("sick", Type::Bool),
        ]
    }

    fn types(text: &str) -> Vec<u32> {
        Parameters::of(&tokens(text), &[], &columns())
            .unwrap()
            .types
    }

    #[test]
    fn a_parameter_has_the_type_of_the_column_it_is_compared_with() {
        for (condition, expected) in [
            ("name = $1", vec![25]),
            ("id = $1 AND cpu_share >= $2", vec![20, 701]),
            ("$1 < id", vec![20]),
            ("id IN (1, $1, $2)", vec![20, 20]),
            ("cpu_share BETWEEN $1 AND $2", vec![701, 701]),
            ("name NOT LIKE $1 OR sick = $2", vec![25, 16]),
            ("id = $2 LIMIT $1", vec![20, 20]),
            ("id <> $1 AND $2 = name", vec![20, 25]),
        ] {
            assert_eq!(
                types(&format!("SELECT * FROM groups WHERE {condition}")),
                expected,
                "{condition}"
            );
        }
        let declared = Parameters::of(
            &tokens("SELECT * FROM groups WHERE id = $1"),
            &[1043],
            &columns(),
        );
        assert_eq!(declared.unwrap().types, [1043]);
    }

    #[test]
    fn elsewhere_a_parameter_is_refused_at_its_place() {
        let fault = Parameters::of(&tokens("KILL QUERY $1"), &[], &[]).unwrap_err();
        assert_eq!((fault.code, fault.at), ("0A000", Some(11)));
        let fault =
            Parameters::of(&tokens("SELECT * FROM groups WHERE id = $0"), &[], &[]).unwrap_err();
        assert_eq!((fault.code, fault.at), ("42P02", Some(32)));
        let fault = Parameters::of(&tokens("SELECT $60000 FROM groups"), &[], &[]).unwrap_err();
        assert_eq!(fault.code, "42P02");
    }

    #[test]
    fn a_value_stays_a_value_and_places_find_back() {
        let text = "SELECT * FROM groups WHERE name = $1 AND idd = $2 AND x = '$1'";
        let parameters = Parameters {
            types: vec![25, 20],
        };
        let values = [
            Some("a' OR ''='é".as_bytes().to_vec()),
            Some(b" 7 ".to_vec()),
        ];
        let filled = parameters.fill(text, &values, |_| false).unwrap();
        assert_eq!(
            filled.text,
            "SELECT * FROM groups WHERE name = 'a'' OR ''''=''é' AND idd = 7 AND x = '$1'"
        );
        let here = filled
            .text
            .chars()
            .collect::<String>()
            .find("idd")
            .map(|byte| filled.text[..byte].chars().count());
        assert_eq!(Some(filled.original(here.unwrap())), text.find("idd"));
        assert_eq!(filled.original(0), 0);
        assert_eq!(filled.original(36), 34);
    }

    #[test]
    fn values_are_read_in_text_and_in_binary() {
        let read = |bytes: &[u8], oid, binary| {
            literal(Some(bytes), oid, binary).map_err(|fault| fault.code)
        };
        assert_eq!(read(&(-3_i64).to_be_bytes(), 20, true).unwrap(), "-3");
        assert_eq!(read(&7_i16.to_be_bytes(), 21, true).unwrap(), "7");
        assert_eq!(read(&0.5_f64.to_be_bytes(), 701, true).unwrap(), "0.5");
        assert_eq!(
            read(&f64::INFINITY.to_be_bytes(), 701, true).unwrap(),
            "'Infinity'"
        );
        assert_eq!(read(b"t", 16, false).unwrap(), "true");
        assert_eq!(read(&[1], 16, true).unwrap(), "true");
        assert_eq!(read(b"x", 20, false), Err("22P02"));
        assert_eq!(read(b"123", 20, true), Err("22P02"));
        assert_eq!(read(b"\xff", 25, false), Err("22021"));
        assert_eq!(read(b"x", 1184, false), Err("0A000"));
        assert_eq!(literal(None, 20, false).unwrap(), "NULL");
    }
}
