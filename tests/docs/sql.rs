//! The SQL of the documents, run: what follows a block is what it printed, tables are those of the code.
//!
//! Each document has a governor of its own, with four workers and 8 GiB, and its blocks are run in order.

use super::markdown::{blocks, generated, rows};
use super::{DOCUMENTS, held, read};
use quotient::catalog::property::PROPERTIES;
use quotient::settings::VARIABLES;
use quotient::{Error, Governor};

fn on_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

fn governor() -> Governor {
    let builder = Governor::builder().workers(4).memory_limit(8 << 30);
    builder.build().unwrap()
}

/// What a script prints: its outputs, or the picture of its refusal.
async fn print(governor: &Governor, script: &str) -> Result<String, String> {
    match governor.execute(script).await {
        Ok(outputs) => Ok(outputs.iter().map(ToString::to_string).collect()),
        Err(Error::Sql(refusal)) => Err(refusal.render(script)),
        Err(other) => panic!("{other}"),
    }
}

async fn run_blocks(path: &str, document: &str, governor: &Governor) -> String {
    let mut as_it_is = document.to_owned();
    let all = blocks(document);
    // From the end, so that places stay; but run from the beginning.
    let mut answers = Vec::new();
    for (i, block) in all.iter().enumerate() {
        if block.info.split(' ').next() != Some("sql") {
            continue;
        }
        let printed = print(governor, &block.text).await;
        let printed = match (block.info.as_str(), printed) {
            ("sql", Ok(text)) | ("sql refused", Err(text)) => text,
            ("sql", Err(text)) => panic!("{path}: refused\n{}\n{text}", block.text),
            ("sql refused", Ok(text)) => panic!("{path}: accepted\n{}\n{text}", block.text),
            (info, _) => panic!("{path}: `{info}`: blocks are `sql` or `sql refused`"),
        };
        if let Some(answer) = all.get(i + 1).filter(|b| b.follows && b.info == "text") {
            let mut lines = printed.trim_end().to_owned();
            lines.push('\n');
            answers.push((answer.place.clone(), lines));
        }
    }
    for (place, text) in answers.into_iter().rev() {
        as_it_is.replace_range(place, &text);
    }
    as_it_is
}

#[test]
fn every_block_runs_and_prints_what_the_document_shows() {
    for path in DOCUMENTS {
        let document = read(path);
        let as_it_is = on_runtime(async { run_blocks(path, &document, &governor()).await });
        held(path, &document, &as_it_is);
    }
}

#[test]
fn the_table_of_properties_is_the_one_that_statements_are_checked_against() {
    let mut table =
        String::from("| key | value | if absent | example | meaning |\n|---|---|---|---|---|\n");
    for p in &PROPERTIES {
        let alias = p
            .alias
            .map(|alias| format!(" (`{alias}`)"))
            .unwrap_or_default();
        let mut doc = p.doc.to_owned();
        if p.immutable {
            doc += "; fixed once the group exists, but for OR REPLACE";
        }
        table += &format!(
            "| `{}`{alias} | {} | {} | `'{}'='{}'` | {doc} |\n",
            p.name, p.allowed, p.absent, p.name, p.example
        );
    }
    let page = read("docs/sql.md");
    let mut as_it_is = page.clone();
    as_it_is.replace_range(generated(&page, "properties"), &table);
    held("docs/sql.md", &page, &as_it_is);
}

#[test]
fn the_table_of_variables_is_the_one_that_set_global_is_checked_against() {
    let mut table = String::from(
        "| variable | key in properties files | default | value | meaning |\n|---|---|---|---|---|\n",
    );
    for v in &VARIABLES {
        let key = v.property.map_or("–".to_owned(), |key| format!("`{key}`"));
        table += &format!(
            "| `{}` | {key} | `{}` | {} | {} |\n",
            v.name, v.default, v.allowed, v.doc
        );
    }
    let page = read("docs/sql.md");
    let mut as_it_is = page.clone();
    as_it_is.replace_range(generated(&page, "variables"), &table);
    held("docs/sql.md", &page, &as_it_is);
}

#[test]
fn the_columns_of_show_are_listed() {
    let outputs = on_runtime(async {
        governor()
            .execute("SHOW RESOURCE GROUPS ALL; SHOW VERBOSE RESOURCE GROUPS ALL")
            .await
            .unwrap()
    });
    let plain = outputs[0].columns();
    let more: Vec<String> = outputs[1]
        .columns()
        .iter()
        .filter(|column| !plain.contains(column))
        .cloned()
        .collect();
    let listed = format!("`{}` + `{}`\n", plain.join("` `"), more.join("` `"));
    let page = read("docs/sql.md");
    let mut as_it_is = page.clone();
    as_it_is.replace_range(generated(&page, "columns"), &listed);
    held("docs/sql.md", &page, &as_it_is);
}

#[test]
fn the_views_and_their_columns_are_listed() {
    let listed = on_runtime(async {
        let governor = governor();
        let refusal = match governor.execute("SELECT * FROM nothing").await {
            Err(Error::Sql(refusal)) => refusal,
            other => panic!("{other:?}"),
        };
        let hint = refusal.hint.clone().unwrap();
        let names = hint.strip_prefix("the views are ").unwrap().to_owned();
        let mut listed = String::new();
        for name in names.split(", ") {
            let text = format!("SELECT * FROM {name} LIMIT 0");
            let output = governor.execute(&text).await.unwrap();
            listed += &format!("- `{name}`: `{}`\n", output[0].columns().join("` `"));
        }
        listed
    });
    let page = read("docs/sql.md");
    let mut as_it_is = page.clone();
    as_it_is.replace_range(generated(&page, "views"), &listed);
    held("docs/sql.md", &page, &as_it_is);
}

/// Each word that may begin a statement, or follow SHOW or EXPLAIN, is in the grammar.
#[test]
fn the_grammar_has_every_statement_that_is_read() {
    let page = read("docs/sql.md");
    let (_, grammar) = page.split_once("statement   = ").unwrap();
    let (grammar, _) = grammar.split_once("\nclassifiers = ").unwrap();
    for first in ["", "SHOW", "EXPLAIN"] {
        let refusal = quotient::sql::parse(&format!("{first} nonsense")).unwrap_err();
        let message = refusal.message();
        let (_, words) = message.split_once(", expected ").unwrap();
        for word in words.replace(" or ", ", ").split(", ") {
            let said = grammar.split('|').any(|alternative| {
                let mut words = alternative.split_whitespace();
                match first {
                    "" => words.next() == Some(word),
                    "SHOW" => {
                        let plain = |word: &str| word.trim_matches(['[', ']']).to_owned();
                        words.next() == Some("SHOW")
                            && words.map(plain).take(2).any(|it| it == word)
                    }
                    _ => grammar.contains(first) && words.any(|it| it == word),
                }
            });
            assert!(said, "{first} {word} is not in the grammar");
        }
    }
}

/// The words for kinds of refusals, as the two functions `code` list them.
fn codes() -> Vec<String> {
    let of = |path: &str, function: &str| {
        let source = read(path);
        let (_, body) = source.split_once(function).unwrap();
        let end = [body.find("pub fn "), body.find("\nimpl ")];
        let body = &body[..end.into_iter().flatten().min().unwrap_or(body.len())];
        let quoted = body.lines().filter_map(|line| line.split('"').nth(1));
        quoted.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut codes = of("src/sql/error.rs", "pub fn code(&self)");
    codes.extend(of("src/sql/select/error.rs", "pub(crate) fn code(&self)"));
    codes
}

#[test]
fn every_kind_of_refusal_has_a_row_and_its_example_is_refused_so() {
    let page = read("docs/sql.md");
    let mut listed = Vec::new();
    on_runtime(async {
        let governor = governor();
        run_blocks("docs/sql.md", &page, &governor).await;
        let (_, table) = page.split_once("| kind | SQLSTATE | example |").unwrap();
        for cells in rows(table).iter().filter(|cells| cells[0].starts_with('`')) {
            let (code, sqlstate) = (cells[0].trim_matches('`'), &cells[1]);
            listed.push(code.to_owned());
            if cells[2].starts_with('–') {
                continue;
            }
            let example = cells[2].trim_matches('`');
            match governor.execute(example).await {
                Err(Error::Sql(refusal)) => {
                    let found = (refusal.kind.code(), refusal.sqlstate());
                    assert_eq!(found, (code, sqlstate.as_str()), "{example}: {refusal}");
                }
                other => panic!("{example}: {other:?}"),
            }
        }
    });
    let mut known = codes();
    assert!(known.len() > 20, "{known:?}");
    listed.sort();
    known.sort();
    assert_eq!(
        listed, known,
        "rows of docs/sql.md against src/sql/error.rs"
    );
}
