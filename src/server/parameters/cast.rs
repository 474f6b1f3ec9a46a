//! The cast of a value among the tokens of a statement: `$1::int8`, `CAST($1 AS int8)`, `(($1))::int8`.
//!
//! Pure.

use crate::server::kinds;
use crate::server::lex::Token;
use crate::sql::input::Kind;

pub(super) const BOOL: u32 = 16;
pub(super) const INT8: u32 = 20;
pub(super) const INT2: u32 = 21;
pub(super) const INT4: u32 = 23;
pub(super) const TEXT: u32 = 25;
pub(super) const FLOAT8: u32 = 701;
/// As good as none.
pub(super) const UNKNOWN: u32 = 705;
pub(super) const VARCHAR: u32 = 1043;

/// The type that the value there is cast to, by `::` or CAST, in parentheses or not, and what is behind it.
pub(super) fn cast<'a>(tokens: &'a [Token<'a>], at: usize) -> Option<&'a [Token<'a>]> {
    match find(tokens, at)? {
        [schema, dot, name @ ..] if schema.is("pg_catalog") && dot.sign('.') => Some(name),
        name => Some(name),
    }
}

fn find<'a>(tokens: &'a [Token<'a>], at: usize) -> Option<&'a [Token<'a>]> {
    let (mut before, mut behind) = (tokens.get(..at)?, tokens.get(at + 1..)?);
    loop {
        match (before, behind) {
            (_, [a, b, name @ ..]) if a.sign(':') && b.sign(':') => return Some(name),
            ([.., word, open], [by, name @ ..])
                if word.is("cast") && open.sign('(') && by.is("as") =>
            {
                return Some(name);
            }
            ([rest @ .., open], [close, more @ ..]) if open.sign('(') && close.sign(')') => {
                (before, behind) = (rest, more);
            }
            ([rest @ .., sign], _) if sign.sign('-') || sign.sign('+') => before = rest,
            _ => return None,
        }
    }
}

/// The number in `pg_type` of a type that a SELECT may cast to, whose name is at the beginning.
pub(super) fn of_type(tokens: &[Token<'_>]) -> Option<u32> {
    let (kind, _) = kinds::named(tokens)?;
    Some(match kind {
        Kind::Varchar => VARCHAR,
        other => kinds::column(other).oid(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    #[test]
    fn a_cast_is_found_however_it_is_written() {
        for (text, at, kind) in [
            ("$1::int8", 0, Some("int8")),
            ("$1 :: /* x */ \"int8\"", 0, Some("int8")),
            ("CAST($1 AS Int8)", 2, Some("int8")),
            ("CAST(-5 AS int8)", 3, Some("int8")),
            ("((-5))::int8", 3, Some("int8")),
            ("(($1)::int8)", 2, Some("int8")),
            ("cast(($1)as int8)", 3, Some("int8")),
            ("($1) AS int8", 1, None),
            ("($1, $2)::int8", 1, None),
            ("f($1) AS int8", 2, None),
            ("$1 = 5::int8", 0, None),
            ("-$1", 1, None),
        ] {
            let tokens = tokens(text);
            let found = cast(&tokens, at).and_then(|name| Some(name.first()?.value()));
            assert_eq!(found.as_deref(), kind, "{text}");
        }
    }

    #[test]
    fn a_type_has_its_whole_name() {
        for (text, kind) in [
            ("$1::pg_catalog.int8", Some(INT8)),
            ("CAST($1 AS pg_catalog.text)", Some(TEXT)),
            ("$1::double precision", Some(FLOAT8)),
            ("$1::character varying", Some(VARCHAR)),
            ("$1::double", None),
            ("$1::character", None),
        ] {
            let tokens = tokens(text);
            let at = tokens.iter().position(|token| token.text == "$1").unwrap();
            assert_eq!(cast(&tokens, at).and_then(of_type), kind, "{text}");
        }
    }
}
