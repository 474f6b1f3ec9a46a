//! The catalog queries of psql and its kind, recognised by their shape: `\d`, `\dt`, `\d name`, `\l`, `\du`, `\dn`.
//!
//! Pure. Nobody evaluates PostgreSQL's catalog here. A query is known by the relation behind its FROM; what it wants
//! is in its select list, which differs between versions of the clients: each item is looked up by its name among the
//! words that a row of that relation knows, and is NULL if it is not there. So the result always has the columns that
//! the client counts on. Of the conditions those that narrow by name, number and kind of relation are heeded.

mod cells;
mod shape;

use super::answer::{Answer, Field, Kind};
use super::lex::{Kind as Lexis, Token};
use super::weight;
use crate::sql::{Type, Value};
use cells::{Row, cell};
use shape::{Item, Wanted};

/// A system view, as the catalog shows it.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) columns: Vec<(String, Type)>,
}

/// What the catalog speaks of.
#[derive(Clone, Debug)]
pub(super) struct Catalog<'a> {
    pub(super) views: &'a [View],
    /// Who may come in, and whether as an admin.
    pub(super) users: &'a [(String, bool)],
    pub(super) database: &'a str,
    pub(super) owner: &'a str,
}

/// A query on PostgreSQL's catalog.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CatalogQuery {
    relation: String,
    items: Vec<Item>,
    wanted: Wanted,
}

/// The number of the first view; those below are PostgreSQL's own.
const FIRST_OID: usize = 16_384;

impl CatalogQuery {
    /// The query, if the statement is a SELECT from PostgreSQL's catalog.
    pub(super) fn recognise(tokens: &[Token<'_>]) -> Option<CatalogQuery> {
        let (select, rest) = tokens.split_first()?;
        if !select.is("select") {
            return None;
        }
        let (items, behind) = shape::items(rest)?;
        match behind {
            [schema, dot, ..]
                if dot.sign('.')
                    && (schema.is("pg_catalog") || schema.is("information_schema")) => {}
            [name, ..] if name.kind == Lexis::Word && name.value().starts_with("pg_") => {}
            _ => return None,
        }
        let relations = shape::relations(behind);
        // A list of schemas that relations are joined to is one of relations.
        let joined = ["pg_attribute", "pg_class"]
            .iter()
            .find(|name| relations.iter().any(|it| it == *name));
        let relation = match relations.first()?.as_str() {
            "pg_namespace" => joined.map_or("pg_namespace", |name| name),
            first => first,
        };
        Some(CatalogQuery {
            relation: relation.to_owned(),
            items,
            wanted: shape::wanted(behind),
        })
    }

    /// Bytes that it keeps on the heap.
    pub(super) fn bytes(&self) -> usize {
        let text = |item: &Item| weight::text(&item.name) + weight::text(&item.word);
        let texts: usize = self.items.iter().map(text).sum();
        size_of_val(self.items.as_slice()) + texts + self.wanted.bytes()
    }

    /// The columns of its result.
    pub(super) fn fields(&self) -> Vec<Field> {
        let field = |item: &Item| Field {
            name: item.name.clone(),
            kind: Kind::Text,
        };
        self.items.iter().map(field).collect()
    }

    /// Its result.
    pub(super) fn answer(&self, catalog: &Catalog<'_>) -> Answer {
        let rows = self.rows(catalog).into_iter().map(|row| {
            let cell = |item: &Item| cell(&row, &item.word, catalog).unwrap_or(Value::Null);
            self.items.iter().map(cell).collect()
        });
        Answer::table("SELECT", self.fields(), rows.collect())
    }

    fn rows<'a>(&self, catalog: &Catalog<'a>) -> Vec<Row<'a>> {
        let views = catalog
            .views
            .iter()
            .enumerate()
            .map(|(at, view)| (FIRST_OID + at, view));
        let wanted = &self.wanted;
        match self.relation.as_str() {
            "pg_class" | "tables" | "views" | "pg_tables" | "pg_views" => views
                .filter(|(oid, view)| {
                    wanted.shows_views()
                        && wanted.is_named(&view.name)
                        && wanted.has_oid(*oid, &view.name)
                })
                .map(|(oid, view)| Row::View(oid, view))
                .collect(),
            "pg_attribute" | "columns" => views
                .filter(|(oid, view)| {
                    wanted.is_named(&view.name) && wanted.has_oid(*oid, &view.name)
                })
                .flat_map(|(oid, view)| {
                    (0..view.columns.len()).map(move |at| Row::Column(oid, view, at))
                })
                .collect(),
            "pg_database" => vec![Row::Database],
            "pg_namespace" | "schemata" => vec![Row::Schema],
            "pg_roles" | "pg_user" | "pg_authid" => {
                let users = catalog.users.iter();
                let users = users.filter(|(name, _)| wanted.is_named(name));
                users.map(|(name, admin)| Row::User(name, *admin)).collect()
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::lex::tokens;

    fn answer(query: &str) -> Option<Answer> {
        let views = ["groups", "queries"].map(|name| View {
            name: name.to_owned(),
            columns: vec![
                ("id".to_owned(), Type::Int),
                ("name".to_owned(), Type::Text),
            ],
        });
        let users = [("ops".to_owned(), true), ("grafana".to_owned(), false)];
        let catalog = Catalog {
            views: &views,
            users: &users,
            database: "quotient",
            owner: "ops",
        };
        Some(CatalogQuery::recognise(&tokens(query))?.answer(&catalog))
    }

    /// The cells as psql shows them.
    fn cells(query: &str) -> Vec<Vec<String>> {
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let rows = answer(query).unwrap().rows;
        rows.iter()
            .map(|row| row.iter().map(text).collect())
            .collect()
    }

    const LIST: &str = "SELECT n.nspname as \"Schema\", c.relname as \"Name\", \
        CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as \"Type\", \
        pg_catalog.pg_get_userbyid(c.relowner) as \"Owner\" FROM pg_catalog.pg_class c \
        LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r','p','v','') \
        AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'";

    #[test]
    fn the_views_are_listed_as_relations() {
        let expected = [
            ["public", "groups", "view", "ops"],
            ["public", "queries", "view", "ops"],
        ];
        assert_eq!(cells(LIST), expected);
        let indices = LIST.replace("'r','p','v',''", "'i','I',''");
        assert!(cells(&indices).is_empty());
    }

    #[test]
    fn a_pattern_narrows_the_list() {
        for (pattern, count) in [
            ("^(groups)$", 1),
            ("^(gr.*)$", 1),
            ("^(.*)$", 2),
            ("^(nosuch)$", 0),
            ("^(groups|queries)$", 2),
        ] {
            let query = format!(
                "{LIST} AND c.relname OPERATOR(pg_catalog.~) '{pattern}' COLLATE pg_catalog.default"
            );
            assert_eq!(cells(&query).len(), count, "{pattern}");
        }
    }

    #[test]
    fn a_view_is_described_by_its_number() {
        let found = cells(
            "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
             WHERE c.relname OPERATOR(pg_catalog.~) '^(queries)$' COLLATE pg_catalog.default ORDER BY 2, 3",
        );
        assert_eq!(found, [["16385", "public", "queries"]]);
        let columns = cells(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
             (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d), a.attnotnull, \
             (SELECT c.collname FROM pg_catalog.pg_collation c) AS attcollation, a.attidentity, a.attgenerated \
             FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16385' AND a.attnum > 0 AND NOT a.attisdropped",
        );
        assert_eq!(
            columns,
            [
                ["id", "bigint", "", "f", "", "", ""],
                ["name", "text", "", "f", "", "", ""]
            ]
        );
    }

    #[test]
    fn databases_and_users_are_listed() {
        let databases = cells(
            "SELECT d.datname as \"Name\", pg_catalog.pg_encoding_to_char(d.encoding) as \"Encoding\" \
             FROM pg_catalog.pg_database d ORDER BY 1",
        );
        assert_eq!(databases, [["quotient", "UTF8"]]);
        let users = cells(
            "SELECT r.rolname, r.rolsuper, ARRAY(SELECT b.rolname FROM pg_catalog.pg_auth_members m) as memberof \
             , r.rolbypassrls FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_' ORDER BY 1",
        );
        assert_eq!(
            users,
            [
                ["ops", "t", "{admin}", "f"],
                ["grafana", "f", "{viewer}", "f"]
            ]
        );
    }

    #[test]
    fn completion_and_the_lists_of_drivers_find_the_views() {
        let completion = "SELECT c.relname, NULL::pg_catalog.text FROM pg_catalog.pg_class c \
             WHERE c.relkind IN ('r', 'S', 'v') AND (c.relname) LIKE 'gr%' \
             AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'x') \
             UNION ALL SELECT NULL::pg_catalog.text, n.nspname FROM pg_catalog.pg_namespace n LIMIT 1000";
        assert_eq!(cells(completion), [["groups", ""]]);
        let driver = "SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME, \
             CASE n.nspname ~ '^pg_' WHEN true THEN 'SYSTEM TABLE' ELSE 'VIEW' END AS TABLE_TYPE \
             FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid) \
             WHERE c.relnamespace = n.oid AND c.relname LIKE 'q%'";
        assert_eq!(cells(driver), [["quotient", "public", "queries", "VIEW"]]);
    }

    #[test]
    fn an_unknown_query_on_the_catalog_is_empty_with_its_columns() {
        let answer =
            answer("SELECT e.extname AS \"Name\", e.extversion FROM pg_catalog.pg_extension e")
                .unwrap();
        let names: Vec<_> = answer
            .fields
            .unwrap()
            .into_iter()
            .map(|field| field.name)
            .collect();
        assert_eq!(names, ["Name", "extversion"]);
        assert!(answer.rows.is_empty());
    }

    #[test]
    fn a_select_from_our_own_views_is_left_alone() {
        for query in [
            "SELECT name FROM groups",
            "SHOW RESOURCE GROUPS",
            "SELECT 1",
            "SELECT",
            "",
        ] {
            assert!(answer(query).is_none(), "{query}");
        }
    }
}
