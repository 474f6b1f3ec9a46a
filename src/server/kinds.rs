//! The types that values are cast to, as clients write them and see them.
//!
//! Pure.

use super::answer::Kind as Column;
use super::lex::{self, Token};
use crate::sql::input::Kind;

/// The type whose name is at the beginning, by any of its names.
pub(super) fn named(tokens: &[Token<'_>]) -> Option<Kind> {
    let (first, rest) = tokens.split_first()?;
    let then = |word: &str| rest.first().is_some_and(|next| next.is(word));
    if !matches!(first.kind, lex::Kind::Word | lex::Kind::Name) {
        return None;
    }
    Some(match first.value().as_str() {
        "smallint" | "int2" => Kind::Smallint,
        "integer" | "int" | "int4" => Kind::Integer,
        "bigint" | "int8" => Kind::Bigint,
        "float8" => Kind::Double,
        "double" if then("precision") => Kind::Double,
        "text" => Kind::Text,
        "varchar" => Kind::Varchar,
        "character" if then("varying") => Kind::Varchar,
        "boolean" | "bool" => Kind::Boolean,
        _ => return None,
    })
}

/// The type whose name this is, with nothing behind it.
pub(super) fn named_wholly(tokens: &[Token<'_>]) -> Option<Kind> {
    let kind = named(tokens)?;
    let of_one_word = tokens.first().and_then(|first| named(&[*first])).is_some();
    (tokens.len() == if of_one_word { 1 } else { 2 }).then_some(kind)
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
            assert_eq!(named_wholly(&tokens(catalog_name(kind))), Some(kind));
            assert_eq!(named_wholly(&tokens(kind.name())), Some(kind));
        }
        for (text, at_the_beginning, wholly) in [
            ("INT", Some(Kind::Integer), Some(Kind::Integer)),
            ("\"int8\"", Some(Kind::Bigint), Some(Kind::Bigint)),
            ("int x", Some(Kind::Integer), None),
            ("double precision x", Some(Kind::Double), None),
            ("double", None, None),
            ("double \"precision\"", None, None),
            ("character x", None, None),
            ("'int'", None, None),
            ("", None, None),
        ] {
            let tokens = tokens(text);
            assert_eq!(named(&tokens), at_the_beginning, "{text}");
            assert_eq!(named_wholly(&tokens), wholly, "{text}");
        }
    }
}
