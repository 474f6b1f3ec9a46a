//! What a refused statement looks like: pictures, whole.

#![allow(clippy::unwrap_used)]

use quotient::catalog::{Catalog, Machine, Origin};
use quotient::sql::{self, SqlError};
use quotient::unit::Bytes;

fn refuse(script: &str) -> SqlError {
    let catalog = Catalog::new(Machine {
        workers: 4,
        memory_limit: Bytes(8 << 30),
    });
    let statements = match sql::parse(script) {
        Err(error) => return error,
        Ok(statements) => statements,
    };
    for (i, statement) in statements.iter().enumerate() {
        if let Err(error) = catalog.apply(statement, Origin::Statement) {
            return error.at_statement(i + 1, i);
        }
    }
    panic!("accepted: {script}");
}

fn assert_picture(script: &str, expected: &[&str]) {
    let picture = refuse(script).render(script);
    assert_eq!(picture.lines().collect::<Vec<_>>(), expected, "\n{picture}");
}

#[test]
fn a_misspelt_property() {
    assert_picture(
        "CREATE RESOURCE GROUP etl TO (user='loader')\n  WITH ('cpu_cor_limit' = '4')",
        &[
            "error[42704]: unknown property 'cpu_cor_limit'",
            " --> line 2, column 9",
            "  |",
            "2 |   WITH ('cpu_cor_limit' = '4')",
            "  |         ^^^^^^^^^^^^^^^",
            "  = did you mean cpu_core_limit?",
            "  = properties are cpu_core_limit, max_cpu_cores, exclusive_cpu_cores, type, mem_limit, \
             spill_mem_limit_threshold, concurrency_limit, max_queued_queries, queue_timeout, \
             big_query_cpu_second_limit, big_query_scan_rows_limit, big_query_mem_limit, \
             big_query_elapsed_second_limit, big_query_action, quarantine_after, quarantine_window, io_weight, \
             max_io_bytes_per_second, mem_pool",
        ],
    );
}

#[test]
fn a_value_out_of_range_in_the_third_statement() {
    assert_picture(
        "CREATE RESOURCE GROUP a WITH ('cpu_weight'='1');\nSHOW RESOURCE GROUPS;\nALTER RESOURCE GROUP a WITH ('spill_mem_limit_threshold'='120%');",
        &[
            "error[22023]: 'spill_mem_limit_threshold' cannot be \"120%\": it is outside the range",
            " --> line 3, column 58, statement 3 (2 applied)",
            "  |",
            "3 | ALTER RESOURCE GROUP a WITH ('spill_mem_limit_threshold'='120%');",
            "  |                                                          ^^^^^^",
            "  = allowed is more than 0 and at most 1, as 80% or 0.8; 1 is off, as in 'spill_mem_limit_threshold'='80%'",
        ],
    );
}

#[test]
fn letters_of_all_alphabets_before_the_place_are_counted_as_characters() {
    assert_picture(
        "ALTER RESOURCE GROUP /* größer — 更大 */ default_wg ADD (user='x')",
        &[
            "error[55000]: default_wg is built in: it takes no classifiers",
            " --> line 1, column 40",
            "  |",
            "1 | ALTER RESOURCE GROUP /* größer — 更大 */ default_wg ADD (user='x')",
            "  |                                        ^^^^^^^^^^",
            "  = for example ALTER RESOURCE GROUP default_wg WITH ('cpu_core_limit'='2')",
        ],
    );
}

#[test]
fn a_place_behind_the_last_word() {
    assert_picture(
        "DROP RESOURCE GROUP",
        &[
            "error[42601]: found the end of the statement, expected a name",
            " --> line 1, column 20",
            "  |",
            "1 | DROP RESOURCE GROUP",
            "  |                    ^",
            "  = a name is a letter or _ followed by at most 63 letters, digits, _, $ or -, for example etl_1",
        ],
    );
}

#[test]
fn a_quote_that_is_never_closed() {
    assert_picture(
        "SHOW RESOURCE GROUPS;\nSHOW RESOURCE GROUPS LIKE 'etl%;\n",
        &[
            "error[42601]: this 'text' is never closed",
            " --> line 2, column 27, statement 2 (0 applied)",
            "  |",
            "2 | SHOW RESOURCE GROUPS LIKE 'etl%;",
            "  |                           ^",
            "  = close it with '; a quote inside is doubled: 'it''s'",
        ],
    );
}

#[test]
fn the_line_alone_says_it_too() {
    let error = refuse("ALTER RESOURCE GROUP dflt WITH ('cpu_weight'='1')");
    assert_eq!(
        error.to_string(),
        "resource group dflt does not exist (line 1, column 22); \
         SHOW RESOURCE GROUPS ALL lists them; case counts in names"
    );
    assert_eq!(error.message(), "resource group dflt does not exist");
}

#[test]
fn an_error_is_an_error_value_that_travels() {
    fn travels<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    travels(&refuse("x"));
    assert!(size_of::<SqlError>() <= 8);
}
