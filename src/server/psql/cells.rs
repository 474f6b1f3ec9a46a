//! What a row of PostgreSQL's catalog says, by the words that clients ask with.
//!
//! Pure.

use super::{Catalog, View};
use crate::sql::{Type, Value};

/// A row of some relation of the catalog.
#[derive(Clone, Copy, Debug)]
pub(super) enum Row<'a> {
    View(usize, &'a View),
    Column(usize, &'a View, usize),
    Database,
    Schema,
    User(&'a str, bool),
}

const SCHEMA: &str = "public";

/// The value that `word` stands for in the row; none if the row does not know the word.
pub(super) fn cell(row: &Row<'_>, word: &str, catalog: &Catalog<'_>) -> Option<Value> {
    let text = |text: &str| Some(Value::from(text));
    let flag = |truth: bool| text(if truth { "t" } else { "f" });
    match (*row, word) {
        (
            Row::View(..) | Row::Column(..),
            "schema" | "nspname" | "table_schema" | "schemaname" | "table_schem",
        ) => text(SCHEMA),
        (Row::View(..) | Row::Column(..), "table_catalog" | "table_cat") => text(catalog.database),
        (
            Row::View(_, view) | Row::Column(_, view, _),
            "table_name" | "relname" | "tablename" | "viewname",
        ) => text(&view.name),
        (Row::View(oid, _), "oid") | (Row::Column(oid, ..), "attrelid") => text(&oid.to_string()),
        (Row::View(_, view), "name") => text(&view.name),
        (Row::View(..), "type") => text("view"),
        (Row::View(..), "table_type") => text("VIEW"),
        (Row::View(..), "relkind") => text("v"),
        (Row::View(..), "relpersistence") => text("p"),
        (Row::View(..), "persistence") => text("permanent"),
        (Row::View(..), "relreplident") => text("n"),
        (Row::View(..), "relchecks" | "reltablespace") => text("0"),
        (Row::View(..), "case" | "?column?") => text(""),
        (Row::View(..), word) if word.starts_with("relhas") || word.starts_with("relis") => {
            flag(false)
        }
        (Row::View(..), "relrowsecurity" | "relforcerowsecurity") => flag(false),
        (Row::View(..) | Row::Database | Row::Schema, "owner" | "schema_owner") => {
            text(catalog.owner)
        }
        (Row::Column(_, view, at), word) => column(view, at, word),
        (Row::Database, "name" | "datname") => text(catalog.database),
        (Row::Database, "encoding") => text("UTF8"),
        (Row::Database, "collate" | "ctype" | "datcollate" | "datctype") => text("C"),
        (Row::Database, "locale provider") => text("libc"),
        (Row::Database, "oid") => text("1"),
        (Row::Schema, "name" | "nspname" | "schema_name") => text(SCHEMA),
        (Row::User(name, _), "rolname" | "usename" | "role name") => text(name),
        (Row::User(_, admin), "rolsuper" | "usesuper") => flag(admin),
        (Row::User(..), "rolinherit" | "rolcanlogin") => flag(true),
        (Row::User(..), "rolcreaterole" | "rolcreatedb" | "rolreplication" | "rolbypassrls") => {
            flag(false)
        }
        (Row::User(..), "rolconnlimit") => text("-1"),
        (Row::User(_, admin), "memberof") => text(if admin { "{admin}" } else { "{viewer}" }),
        _ => None,
    }
}

fn column(view: &View, at: usize, word: &str) -> Option<Value> {
    let (name, kind) = view.columns.get(at)?;
    let text = |text: &str| Some(Value::from(text));
    match word {
        "attname" | "column_name" => text(name),
        "format_type" | "data_type" => text(kind.name()),
        "attnotnull" | "atthasdef" | "attisdropped" => text("f"),
        "is_nullable" => text("YES"),
        "attnum" | "ordinal_position" => text(&(at + 1).to_string()),
        "atttypmod" => text("-1"),
        "attidentity" | "attgenerated" => text(""),
        "attstorage" => text(if *kind == Type::Text { "x" } else { "p" }),
        _ => None,
    }
}
