//! Parameters of a SELECT: which type each has, and its value as a literal in the place of `$n`.
//!
//! Pure. The views' SELECT has no parameters of its own; a literal that is quoted here cannot become anything else.

mod cast;
mod list;
mod literal;
mod types;

use super::answer::Field;
use super::fault::Fault;
use super::lex::{Kind, Token, each, odd_end};
use crate::sql::{Caps, Type};
use list::Listed;
use literal::literal;

/// A statement with parameters, as it was prepared.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    /// The number of each type, by position; what the client did not say was found out.
    pub(super) types: Vec<u32>,
    /// Those whose columns have their types.
    listed: Vec<Listed>,
}

/// A text with its parameters filled in, and where in it each of them stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Filled {
    pub(super) text: String,
    /// Characters before and of each literal here, characters before and of its parameter there.
    moved: Vec<[usize; 4]>,
    /// The parameters that are columns of the result, and the numbers of their types.
    listed: Vec<(Listed, u32)>,
}

impl Filled {
    /// Where a place of the filled text is in the text that the client sent.
    pub(super) fn original(&self, at: usize) -> usize {
        let before = self.moved.partition_point(|&[here, ..]| here <= at);
        let last = before.checked_sub(1).and_then(|last| self.moved.get(last));
        match last {
            None => at,
            Some(&[here, literal, there, _]) if at < here + literal => there,
            Some(&[here, literal, there, parameter]) => at - here - literal + there + parameter,
        }
    }

    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(self.moved.as_slice()) + size_of_val(self.listed.as_slice())
    }

    /// Gives the columns of its result the types of the parameters that they are.
    pub(super) fn retype(&self, fields: &mut [Field]) {
        for &(listed, oid) in &self.listed {
            list::retype(fields, listed, oid);
        }
    }
}

/// The most parameters of one statement.
const MOST: u16 = 1_000;

/// The most bytes of a statement with its values: a longer one would not be read. A value stands once for each of its
/// parameters in the text, so that a short message could make a text that no memory holds.
const LONGEST: usize = Caps::CLIENT.statement;

impl Parameters {
    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.types.as_slice()) + size_of_val(self.listed.as_slice())
    }

    /// The parameters of a statement. `declared` are the types that the client gives, 0 for those that it does not;
    /// `columns` are those of the view that the statement reads.
    pub(super) fn of(
        text: &str,
        tokens: &[Token<'_>],
        declared: &[u32],
        columns: &[(String, Type)],
    ) -> Result<Parameters, Fault> {
        let known = |&oid: &u32| if oid == cast::UNKNOWN { 0 } else { oid };
        let mut types: Vec<u32> = declared.iter().take(usize::from(MOST)).map(known).collect();
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
            let end = token.byte + token.text.len();
            let next = tokens.get(at + 1).filter(|next| next.byte == end);
            if let Some(next) = next.filter(|next| next.kind == Kind::Word) {
                let message = format!("trailing junk after parameter: {}{}", token.text, next.text);
                let fault = Fault::error("42601", message).at(token.char);
                return Err(fault.hint("a blank parts them"));
            }
            types.resize(types.len().max(usize::from(number)), 0);
        }
        let is_parameter = |token: &Token<'_>| matches!(token.kind, Kind::Parameter(_));
        if tokens.iter().any(is_parameter) {
            // What is a value here would be the end of a comment there.
            if let Some(at) = odd_end(text) {
                let message = "parameters beside a comment or a text that could end elsewhere";
                let hint = "a comment has none within and ends with a line feed; a quote in a text is written twice";
                return Err(Fault::error("0A000", message).at(at).hint(hint));
            }
            // NULL may stand wherever a parameter may.
            let filled = Parameters::default().fill(text, &[], |_| false)?;
            types::find(&mut types, tokens, &filled, columns)?;
        }
        // One that is declared by its position alone, and never used, and one of which nothing is asked.
        types
            .iter_mut()
            .filter(|kind| **kind == 0)
            .for_each(|kind| *kind = cast::TEXT);
        let listed = list::listed(tokens);
        Ok(Parameters { types, listed })
    }

    /// The text with a literal for each parameter; NULL for those without a value. A long value that stands in many
    /// places is refused before the text is.
    pub(super) fn fill(
        &self,
        text: &str,
        values: &[Option<Vec<u8>>],
        binary: impl Fn(usize) -> bool,
    ) -> Result<Filled, Fault> {
        let type_of = |number: u16| {
            let index = usize::from(number).saturating_sub(1);
            self.types.get(index).copied().unwrap_or(cast::TEXT)
        };
        let listed = self.listed.iter();
        let mut filled = Filled {
            listed: listed.map(|&it| (it, type_of(it.number))).collect(),
            ..Filled::default()
        };
        let (mut from, mut written) = (0, 0_usize);
        let mut tokens = each(text).peekable();
        while let Some(token) = tokens.next() {
            let Kind::Parameter(number) = token.kind else {
                continue;
            };
            let index = usize::from(number).saturating_sub(1);
            let oid = type_of(number);
            let value = values.get(index).and_then(Option::as_deref);
            let mut literal = literal(value, oid, binary(index)).map_err(|fault| {
                fault
                    .detail(format!("it is the value of {}", token.text))
                    .at(token.char)
            })?;
            let before = text.get(from..token.byte).unwrap_or_default();
            let end = token.byte + token.text.len();
            let behind = tokens.peek().filter(|next| next.sign(':'));
            // A cast binds tighter than a minus.
            if literal.starts_with('-') && behind.is_some() {
                literal = format!("({literal})");
            }
            // A parameter is a token by itself, whatever it touches; so is its value.
            let touched = text.get(..token.byte).and_then(|it| it.chars().next_back());
            if touched.is_some_and(touches) {
                literal.insert(0, ' ');
            }
            let touched = text.get(end..).and_then(|it| it.chars().next());
            if touched.is_some_and(touches) {
                literal.push(' ');
            }
            if filled.text.len() + before.len() + literal.len() > LONGEST {
                let fault = Fault::error("54000", "the statement is too long with its values");
                return Err(fault
                    .at(token.char)
                    .hint(format!("{LONGEST} bytes are allowed")));
            }
            filled.text.push_str(before);
            written += before.chars().count();
            filled.text.push_str(&literal);
            let (long, short) = (literal.chars().count(), token.text.chars().count());
            filled.moved.push([written, long, token.char, short]);
            written += long;
            from = end;
        }
        filled.text.push_str(text.get(from..).unwrap_or_default());
        Ok(filled)
    }
}

/// Whether a token may go on over a character. Blanks are those of ASCII: others are letters to some who read them.
fn touches(c: char) -> bool {
    !c.is_ascii_whitespace() && !"(),:;".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    fn columns() -> Vec<(String, Type)> {
        let column = |name: &str, kind| (name.to_owned(), kind);
        vec![
            column("name", Type::Text),
            column("id", Type::Int),
            column("cpu_share", Type::Float),
            column("sick", Type::Bool),
        ]
    }

    fn of_types(types: Vec<u32>) -> Parameters {
        let listed = Vec::new();
        Parameters { types, listed }
    }

    fn types(text: &str) -> Vec<u32> {
        Parameters::of(text, &tokens(text), &[], &columns())
            .unwrap()
            .types
    }

    #[test]
    fn a_long_value_in_many_places_is_refused_before_it_fills_the_memory() {
        let text = format!(
            "SELECT name FROM groups WHERE name IN ({}$1)",
            "$1,".repeat(999)
        );
        let parameters = of_types(vec![25]);
        let fill = |length: usize| parameters.fill(&text, &[Some(vec![b'a'; length])], |_| false);
        assert_eq!(fill(40).unwrap().text.matches('a').count(), 40 * 1_000 + 2);
        assert_eq!(fill(1 << 20).unwrap_err().code, "54000");
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
            ("$1::int8 = id AND id = $2::int4", vec![20, 23]),
            ("id = $1 :: smallint LIMIT $2::integer", vec![21, 23]),
            (
                "($1::double precision) > id OR sick = $2::bool",
                vec![701, 16],
            ),
            ("name = $1::text OR name = $2::varchar", vec![25, 1043]),
        ] {
            assert_eq!(
                types(&format!("SELECT * FROM groups WHERE {condition}")),
                expected,
                "{condition}"
            );
        }
        for text in [
            "-- a\r\nSELECT name FROM groups WHERE id = $1 -- b\r",
            "/* a */ SELECT name FROM groups WHERE /*/ * */ id = $1 -- /* b /* c",
        ] {
            assert_eq!(types(text), [20], "{text}");
        }
        let text = "SELECT * FROM groups WHERE id = $1";
        let declared = Parameters::of(text, &tokens(text), &[1043], &columns());
        assert_eq!(declared.unwrap().types, [1043]);
    }

    #[test]
    fn elsewhere_a_parameter_is_refused_at_its_place() {
        for (text, code, at) in [
            ("KILL QUERY $1", "0A000", 11),
            ("SELECT * FROM groups WHERE id = $0", "42P02", 32),
            ("SELECT $60000 FROM groups", "42P02", 7),
            ("SELECT * FROM groups WHERE id=$1and sick", "42601", 30),
            ("SELECT * FROM groups ORDER BY id, ($1)", "0A000", 35),
            ("SELECT $1, count(*) FROM groups GROUP BY $1", "0A000", 41),
            ("-- é\rSELECT name FROM groups WHERE name = $1", "0A000", 0),
            (
                "SELECT /* a /* é */ -- c */ name FROM groups WHERE name = $1",
                "0A000",
                7,
            ),
            ("SELECT E'it\\'s', $1", "0A000", 11),
        ] {
            for declared in [&[][..], &[23]] {
                let fault = Parameters::of(text, &tokens(text), declared, &columns()).unwrap_err();
                assert_eq!((fault.code, fault.at), (code, Some(at)), "{text}");
            }
        }
    }

    #[test]
    fn a_value_stays_a_value_and_places_find_back() {
        let text = "SELECT * FROM groups WHERE name = $1 AND idd = $2 AND x = '$1'";
        let parameters = of_types(vec![25, 20]);
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
    fn a_cast_binds_tighter_than_the_minus_of_a_value() {
        let fill = |text: &str, kind, value: &str| {
            let parameters = of_types(vec![kind]);
            let value = Some(value.as_bytes().to_vec());
            parameters.fill(text, &[value], |_| false).unwrap().text
        };
        for (text, kind, value, expected) in [
            ("id = $1::int2", 21, "-32768", "id = (-32768)::int2"),
            (
                "x = $1 /* ! */ :: float8",
                701,
                "-0.5",
                "x = (-0.5) /* ! */ :: float8",
            ),
            ("id = $1::int2", 21, "7", "id = 7::int2"),
            // No parenthesis may stand inside of a call.
            ("id = CAST($1 AS int2)", 21, "-7", "id = CAST(-7 AS int2)"),
            ("name = $1::text", 25, "-7", "name = '-7'::text"),
            ("id = ($1)::int2", 21, "-7", "id = (-7)::int2"),
        ] {
            assert_eq!(fill(text, kind, value), expected);
        }
    }

    #[test]
    fn a_value_is_a_token_by_itself_as_its_parameter_was() {
        let parameters = of_types(vec![20, 25]);
        for (text, expected) in [
            ("id = $1", "id = -7"),
            ("id IN ($1,$1)", "id IN (-7,-7)"),
            ("id>$1", "id> -7"),
            ("id!=$1", "id!= -7"),
            ("id = -$1", "id = - -7"),
            ("$1<id", "-7 <id"),
            ("id=$1--x", "id= -7 --x"),
            ("id=/**/$1/**/", "id=/**/ -7 /**/"),
            ("LIMIT $1$1", "LIMIT -7  -7"),
            ("id = 1$1", "id = 1 -7"),
            ("id = $1.5", "id = -7 .5"),
            ("name = 'a'$2'c'", "name = 'a' 'b' 'c'"),
            ("name = N$2 ", "name = N$2 "),
            ("name =\u{3000}$2\u{3000}", "name =\u{3000} 'b' \u{3000}"),
        ] {
            let values = [Some(b"-7".to_vec()), Some(b"b".to_vec())];
            let filled = parameters.fill(text, &values, |_| false).unwrap();
            assert_eq!(filled.text, expected, "{text}");
            let all = filled.text.chars().count();
            assert_eq!(filled.original(all), text.chars().count(), "{text}");
        }
    }
}
