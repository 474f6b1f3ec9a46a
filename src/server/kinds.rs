//! The types that values are cast to, as clients write them and see them.
//!
//! Pure.

use super::answer::Kind as Column;
use super::lex::{self, Token};
use crate::sql::input::Kind;

/// The type whose name is at the beginning, by any of its names, and what is behind the name.
pub(super) fn named<'a>(tokens: &'a [Token<'a>]) -> Option<(Kind, &'a [Token<'a>])> {
    let (kind, rest) = match tokens {
        [a, b, rest @ ..] if a.is("double") && b.is("precision") => (Kind::Double, rest),
        [a, b, rest @ ..] if a.is("character") && b.is("varying") => (Kind::Varchar, rest),
        [one, rest @ ..] if matches!(one.kind, lex::Kind::Word | lex::Kind::Name) => {
            (of_one_word(&one.value())?, rest)
        }
        _ => return None,
    };
    Some((kind, rest))
}

fn of_one_word(name: &str) -> Option<Kind> {
    Some(match name {
        "smallint" | "int2" => Kind::Smallint,
        "integer" | "int" | "int4" => Kind::Integer,
        "bigint" | "int8" => Kind::Bigint,
        "float8" => Kind::Double,
        "text" => Kind::Text,
        "varchar" => Kind::Varchar,
        "boolean" | "bool" => Kind::Boolean,
        _ => return None,
    })
}

/// Its name in PostgreSQL's catalog, which the columns of casts have.
pub(super) const fn catalog_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Smallint => "int2",
        Kind::Integer => "int4",
        Kind::Bigint => "int8",
        Kind::Double => "float8",
        Kind::Text => "text",
        Kind::Varchar => "varchar",
        Kind::Boolean => "bool",
    }
}

/// What its column is on the wire.
pub(super) const fn column(kind: Kind) -> Column {
    match kind {
        Kind::Smallint => Column::Int2,
        Kind::Integer => Column::Int4,
        Kind::Bigint => Column::Int8,
        Kind::Double => Column::Float8,
        Kind::Text | Kind::Varchar => Column::Text,
        Kind::Boolean => Column::Bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lex::tokens;

    #[test]
    fn types_have_all_of_their_names() {
        for kind in [
            Kind::Smallint,
            Kind::Integer,
            Kind::Bigint,
            Kind::Double,
            Kind::Text,
            Kind::Varchar,
            Kind::Boolean,
        ] {
            for name in [catalog_name(kind), kind.name()] {
                let tokens = tokens(name);
                assert!(matches!(named(&tokens), Some((found, [])) if found == kind));
            }
        }
        for (text, expected) in [
            ("INT", Some((Kind::Integer, 0))),
            ("\"int8\"", Some((Kind::Bigint, 0))),
            ("int x", Some((Kind::Integer, 1))),
            ("double precision x", Some((Kind::Double, 1))),
            ("double", None),
            ("double \"precision\"", None),
            ("\"double\" precision", None),
            ("character x", None),
            ("'int'", None),
            ("", None),
        ] {
            let tokens = tokens(text);
            let found = named(&tokens).map(|(kind, rest)| (kind, rest.len()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
