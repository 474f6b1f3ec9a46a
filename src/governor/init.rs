//! The script that a governor begins with.
//!
//! Wiring; the thread that builds.

use super::variables;
use crate::catalog::{Catalog, Origin};
use crate::settings::Settings;
use crate::sql::{self, SqlError, Statement};

/// Runs the script as one: what is about groups, if there is no catalog yet, and what is about variables.
pub(super) fn run(
    script: &str,
    catalog: Option<&Catalog>,
    settings: &mut Settings,
) -> Result<(), SqlError> {
    let statements = sql::parse_within(script, sql::Caps::NONE)?;
    let (mut about_groups, mut numbers) = (Vec::new(), Vec::new());
    for (number, statement) in (1..).zip(statements) {
        if let Statement::SetGlobal(set) = &statement {
            variables::assign(settings, set).map_err(|error| error.at_statement(number, 0))?;
        } else {
            about_groups.push(statement);
            numbers.push(number);
        }
    }
    let Some(catalog) = catalog else {
        return Ok(());
    };
    let number = |nth: usize| numbers.get(nth.wrapping_sub(1)).copied().unwrap_or(nth);
    catalog
        .apply_all(&about_groups, Origin::File)
        .map_err(|error| {
            let number = number(error.statement);
            error.at_statement(number, 0)
        })?;
    Ok(())
}
