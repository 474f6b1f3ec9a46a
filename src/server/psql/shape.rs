//! The shape of a catalog query: the names in its select list, and the conditions that are heeded.
//!
//! Pure.

use crate::server::lex::{Kind, Token};
use crate::server::scalar::COLUMNS;
use crate::server::weight;
use crate::sql::like::like;

/// One item of a select list.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::server) struct Item {
    /// The name of its column.
    pub(super) name: String,
    /// What it is looked up by, in lower case.
    pub(super) word: String,
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::server) struct Wanted {
    /// Letters of `relkind IN (..)`.
    kinds: Option<Vec<String>>,
    /// Patterns of LIKE, one of which a name must fit.
    names: Option<Vec<String>>,
    /// A number, or a name that stands for it.
    oid: Option<String>,
}

/// The select list up to its FROM, and what is behind.
pub(super) fn items<'a, 't>(tokens: &'a [Token<'t>]) -> Option<(Vec<Item>, &'a [Token<'t>])> {
    let tokens = match tokens {
        [distinct, rest @ ..] if distinct.is("distinct") => rest,
        all => all,
    };
    let (mut depth, mut from, mut items) = (0_usize, 0, Vec::new());
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(' | '[') => depth += 1,
            Kind::Sign(')' | ']') => depth = depth.saturating_sub(1),
            Kind::Word if token.is("case") => depth += 1,
            Kind::Word if token.is("end") => depth = depth.saturating_sub(1),
            Kind::Sign(',') if depth == 0 => {
                items.push(item(tokens.get(from..at)?));
                // Each is a cell of each row.
                if items.len() >= COLUMNS {
                    return None;
                }
                from = at + 1;
            }
            Kind::Word if depth == 0 && token.is("from") => {
                items.push(item(tokens.get(from..at)?));
                return Some((items, tokens.get(at + 1..)?));
            }
            _ => {}
        }
    }
    None
}

fn item(tokens: &[Token<'_>]) -> Item {
    let named = |name: String| Item {
        word: name.to_lowercase(),
        name,
    };
    match tokens {
        [.., by, name] if by.is("as") => named(name.value()),
        // An alias without AS is quoted in the queries that are known.
        [_, .., name] if name.kind == Kind::Name => named(name.value()),
        [case, ..] if case.is("case") => named("case".to_owned()),
        [array, open, ..] if array.is("array") && open.sign('(') => named("array".to_owned()),
        [open, ..] if open.sign('(') => named("?column?".to_owned()),
        _ => {
            // `a.b`, `f(..)`, `s.f(..)`: the last word before a parenthesis or the end.
            let end = tokens
                .iter()
                .position(|token| token.sign('(') || token.sign(':'));
            let head = tokens
                .get(..end.unwrap_or(tokens.len()))
                .unwrap_or_default();
            match head.last() {
                Some(word) if matches!(word.kind, Kind::Word | Kind::Name) => named(word.value()),
                _ => named("?column?".to_owned()),
            }
        }
    }
}

/// The relations behind FROM that are of PostgreSQL's catalog: the names behind its schema, or that begin as its own do.
pub(super) fn relations(tokens: &[Token<'_>]) -> Vec<String> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Sign('(') => depth += 1,
            Kind::Sign(')') => depth = depth.saturating_sub(1),
            Kind::Word if depth == 0 && token.is("where") => break,
            Kind::Word if depth == 0 => {
                let schema = at.checked_sub(2).and_then(|at| tokens.get(at));
                let dotted = at
                    .checked_sub(1)
                    .and_then(|at| tokens.get(at))
                    .is_some_and(|it| it.sign('.'));
                let of_catalog =
                    schema.is_some_and(|it| it.is("pg_catalog") || it.is("information_schema"));
                let own = token.value().starts_with("pg_") && !token.is("pg_catalog");
                if dotted && of_catalog || !dotted && own {
                    found.push(token.value());
                }
            }
            _ => {}
        }
    }
    found
}

/// What the conditions behind FROM ask for.
pub(super) fn wanted(tokens: &[Token<'_>]) -> Wanted {
    let mut wanted = Wanted::default();
    for (at, token) in tokens.iter().enumerate() {
        if token.kind != Kind::Word {
            continue;
        }
        let rest = tokens.get(at + 1..).unwrap_or_default();
        // `(c.relname) LIKE ..`, as completion has it.
        let rest = match rest {
            [close, rest @ ..] if close.sign(')') => rest,
            all => all,
        };
        match token.value().as_str() {
            "relkind" => kinds(rest, &mut wanted.kinds),
            "relname" | "table_name" | "rolname" | "usename" | "tablename" | "viewname" => {
                let patterns = name(rest).into_iter();
                patterns.for_each(|patterns| wanted.names = Some(patterns));
            }
            "oid" | "attrelid" => {
                if let [equals, number, ..] = rest
                    && equals.sign('=')
                    && matches!(number.kind, Kind::Text | Kind::Number)
                {
                    wanted.oid = Some(number.value());
                }
            }
            _ => {}
        }
    }
    wanted
}

/// `IN ('a', ..)`, `= ANY ('{..}')` or `= 'a'`
fn kinds(rest: &[Token<'_>], kinds: &mut Option<Vec<String>>) {
    let listed: Vec<String> = match rest {
        [within, open, list @ ..] if within.is("in") && open.sign('(') => list
            .iter()
            .take_while(|token| !token.sign(')'))
            .filter(|token| token.kind == Kind::Text)
            .map(Token::value)
            .collect(),
        [equals, one, ..] if equals.sign('=') && one.kind == Kind::Text => vec![one.value()],
        _ => return,
    };
    *kinds = Some(listed);
}

/// The patterns of `~ 'regex'`, `OPERATOR(pg_catalog.~) 'regex'`, `= 'name'`, `LIKE 'pattern'`; not those of `!~`.
fn name(rest: &[Token<'_>]) -> Option<Vec<String>> {
    let escaped = |text: String| {
        text.replace('\\', "\\\\")
            .replace('%', "\\%")
            .replace('_', "\\_")
    };
    match rest {
        [operator, open, _, dot, tilde, close, text, ..]
            if operator.is("operator")
                && open.sign('(')
                && dot.sign('.')
                && tilde.sign('~')
                && close.sign(')')
                && text.kind == Kind::Text =>
        {
            Some(patterns(&text.value()))
        }
        [tilde, text, ..] if tilde.sign('~') && text.kind == Kind::Text => {
            Some(patterns(&text.value()))
        }
        [equals, text, ..] if equals.sign('=') && text.kind == Kind::Text => {
            Some(vec![escaped(text.value())])
        }
        [by, text, ..] if by.is("like") && text.kind == Kind::Text => Some(vec![text.value()]),
        _ => None,
    }
}

/// What psql makes of the `*` and `?` that a user types, back to patterns of LIKE.
fn patterns(regex: &str) -> Vec<String> {
    let anchored = regex
        .strip_prefix("^(")
        .and_then(|rest| rest.strip_suffix(")$"));
    let one = |alternative: &str| {
        let mut pattern = String::new();
        let mut letters = alternative.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '.' if letters.peek() == Some(&'*') => {
                    letters.next();
                    pattern.push('%');
                }
                '.' => pattern.push('_'),
                '%' | '_' => pattern.extend(['\\', letter]),
                '\\' => pattern.extend(['\\', letters.next().unwrap_or('\\')]),
                other => pattern.push(other),
            }
        }
        pattern
    };
    match anchored {
        Some(inner) => inner.split('|').map(one).collect(),
        None => vec![format!("%{}%", one(regex.trim_start_matches('^')))],
    }
}

impl Wanted {
    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        let lists = [&self.kinds, &self.names].into_iter().flatten();
        let oid = self.oid.as_deref().map_or(0, weight::text);
        oid + lists.map(|list| weight::texts(list)).sum::<usize>()
    }

    /// Views are asked for, or tables, for which ours stand too.
    pub(super) fn shows_views(&self) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind == "v" || kind == "r"))
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        let names = self.names.as_ref();
        names.is_none_or(|patterns| {
            patterns
                .iter()
                .any(|pattern| like(pattern, name) == Ok(true))
        })
    }

    pub(super) fn has_oid(&self, oid: usize, name: &str) -> bool {
        let wanted = self.oid.as_deref();
        wanted.is_none_or(|wanted| wanted == name || wanted.parse() == Ok(oid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    #[test]
    fn an_item_is_named_by_its_alias_its_column_or_its_function() {
        let list = "a.b, c AS \"D\", f(x, y), s.g(a.z), 'x', false AS no, CASE a WHEN 1 THEN 2 END, \
                    ARRAY(SELECT a FROM b), (SELECT 1), e \"E\", h::text, count(*) FROM t";
        let list = tokens(list);
        let (items, behind) = items(&list).unwrap();
        let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
        let expected = [
            "b", "D", "f", "g", "?column?", "no", "case", "array", "?column?", "E", "h", "count",
        ];
        assert_eq!(names, expected);
        assert_eq!(behind.len(), 1);
    }

    #[test]
    fn patterns_come_back_as_they_were_typed() {
        assert_eq!(patterns("^(groups)$"), ["groups"]);
        assert_eq!(patterns("^(gr.*|q.eries)$"), ["gr%", "q_eries"]);
        assert_eq!(patterns("^(long_polls)$"), ["long\\_polls"]);
        assert_eq!(patterns("^(a\\$b)$"), ["a\\$b"]);
        assert_eq!(patterns("^gr"), ["%gr%"]);
    }

    #[test]
    fn a_negative_pattern_narrows_nothing() {
        let text = "pg_class WHERE rolname !~ '^pg_' AND n.nspname <> 'x'";
        assert_eq!(wanted(&tokens(text)), Wanted::default());
    }
}
