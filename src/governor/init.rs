//! The catalog and the script that a governor begins with.
//!
//! Wiring; the thread that builds.

use super::{Error, variables};
use crate::catalog::store::CatalogStore;
use crate::catalog::{Catalog, CatalogMode, Machine, Origin};
use crate::event;
use crate::settings::Settings;
use crate::sql::{self, SqlError, SqlErrorKind, Statement};
use std::sync::Arc;

/// The catalog that is kept, or a new one as the script says, kept from now on.
pub(super) fn open(
    machine: Machine,
    kept: Option<(Arc<dyn CatalogStore>, CatalogMode)>,
    script: &str,
    settings: &mut Settings,
) -> Result<Catalog, Error> {
    let Some((store, mode)) = kept else {
        let catalog = Catalog::new(machine);
        run(script, Some(&catalog), settings)?;
        return Ok(catalog);
    };
    let opened = Catalog::open(machine, store.clone(), mode)?;
    if let Some(why) = &opened.away {
        event::catalog_away(why);
    }
    let (catalog, found) = (opened.catalog, opened.found);
    match run(script, (!found).then_some(&catalog), settings) {
        // Another program began at the same time, and its script came first.
        Err(error) if matches!(error.kind, SqlErrorKind::ChangedElsewhere { .. }) => {
            let opened = Catalog::open(machine, store, mode)?;
            let found = opened.found;
            run(script, (!found).then_some(&opened.catalog), settings)?;
            Ok(opened.catalog)
        }
        Err(error) => Err(error.into()),
        Ok(()) => Ok(catalog),
    }
}

/// Runs the script as one: what is about groups, if there is no catalog yet, and what is about variables.
fn run(script: &str, catalog: Option<&Catalog>, settings: &mut Settings) -> Result<(), SqlError> {
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
