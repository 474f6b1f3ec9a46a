//! What can go wrong at the governor's front door: the sum of the stages' errors.
//!
//! Plain values; any thread.

use crate::admission::AdmissionError;
use crate::catalog::OpenError;
use crate::settings::SettingsError;
use crate::sql::SqlError;
use std::sync::Arc;

/// An error of the governor. Each stage's own error is inside, with its data.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement was refused; nothing of it happened. [`SqlError::render`] draws where and why.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A request was not let in, or named a group that it may not have.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// `Host::Attached` was built outside of a tokio runtime.
    #[error(
        "no tokio runtime: build the governor inside one (for instance in `#[tokio::main]`), enter its handle first, \
         or give it threads of its own with `Host::Owned`"
    )]
    NoRuntime,
    /// `Host::Owned` could not be set up: the system refused a thread, or what a runtime's I/O needs.
    #[error("the governor's own threads could not be started: {0}")]
    Host(Arc<std::io::Error>),
    /// The catalog that is kept on disk, or elsewhere, could not be opened.
    #[error("the catalog could not be opened: {0}")]
    Catalog(#[from] OpenError),
    /// A second governor was to become the process's default.
    #[error(
        "a governor is installed already, and there is one default per process; \
         make this one the default of a thread with `enter`, or spawn through its own methods"
    )]
    AlreadyInstalled,
    /// No group of that name.
    #[error("there is no resource group '{name}'{}", did_you_mean(.similar.as_deref()))]
    UnknownGroup {
        /// The name asked for.
        name: String,
        /// A name that exists and looks like it.
        similar: Option<String>,
    },
    /// Settings were refused.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A builder's value is out of range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The builder's method.
        what: &'static str,
        /// What was given.
        value: String,
        /// What may be given.
        allowed: &'static str,
    },
}

fn did_you_mean(similar: Option<&str>) -> String {
    match similar {
        Some(name) => format!("; did you mean '{name}'?"),
        None => "; SHOW RESOURCE GROUPS ALL lists those there are".into(),
    }
}
