//! The result of a task as a line of a transcript.

use super::side::JoinError;
use std::fmt::Debug;

pub fn outcome<T: Debug>(result: Result<T, JoinError>) -> String {
    match result {
        Ok(value) => format!("ok {value:?}"),
        Err(error) => format!(
            "{error} / {error:?} / cancelled {} panic {}",
            error.is_cancelled(),
            error.is_panic()
        ),
    }
}
