//! The attributes that EXPLAIN CLASSIFY states of a request, read.
//!
//! Wiring; any thread. `role` and `db` may be stated several times, as on [`Attributes`]; `db` may be a comma list, as
//! in classifiers. What else is stated twice is refused.

use crate::admission::AdmissionError;
use crate::catalog::{QueryType, Snapshot};
use crate::classify::Attributes;
use crate::governor::Error;
use crate::sql::ast::{ATTRIBUTE_KEYS, Assignment};
use crate::sql::suggest::closest;
use crate::sql::{SqlError, SqlErrorKind, value};
use std::net::IpAddr;

/// Those that may be stated several times.
const LISTS: [&str; 2] = ["role", "db"];

/// Reads them all.
///
/// # Errors
/// An unknown key, one that is stated twice, a value that does not read as what its key asks for.
pub(crate) fn read(written: &[Assignment]) -> Result<Attributes, SqlError> {
    let mut attributes = Attributes::new();
    for (i, one) in written.iter().enumerate() {
        let key = one.key.value.as_str();
        if !ATTRIBUTE_KEYS.contains(&key) {
            let kind = SqlErrorKind::UnknownAttribute {
                key: one.key.value.clone(),
            };
            return Err(SqlError::new(kind, one.key.span)
                .with_suggestion(closest(key, ATTRIBUTE_KEYS))
                .with_hint(format!("attributes are {}", ATTRIBUTE_KEYS.join(", "))));
        }
        let stated = |other: &Assignment| other.key == one.key;
        if !LISTS.contains(&key) && written.iter().take(i).any(stated) {
            let key = one.key.value.clone();
            return Err(SqlError::new(SqlErrorKind::Duplicate { key }, one.key.span)
                .with_hint("a request has one of them; role and db may be stated several times"));
        }
        attributes = add(attributes, one)?;
    }
    Ok(attributes)
}

fn add(attributes: Attributes, one: &Assignment) -> Result<Attributes, SqlError> {
    let text = one.value.as_str();
    Ok(match one.key.as_str() {
        "user" => attributes.user(text),
        "role" => attributes.role(text),
        "db" => {
            let hint = "a comma list of databases, as in db = 'sales, stock'";
            let names = value::list(text);
            attributes.dbs(names.map_err(|_| misfit(one, "a name in the list is empty", hint))?)
        }
        "query_type" => {
            let names = QueryType::ALL.map(QueryType::name);
            let hint = format!("query types are {}", names.join(", "));
            let found = QueryType::from_name(text.trim());
            let none = || misfit(one, "there is no such type", &hint);
            attributes.query_type(
                found.ok_or_else(|| none().with_suggestion(closest(text.trim(), names)))?,
            )
        }
        "source_ip" => {
            let hint = "an address of IPv4 or IPv6, as in '10.1.2.3' or '2001:db8::1'";
            let address = text.trim().parse::<IpAddr>();
            attributes.source_ip(address.map_err(|_| misfit(one, "it is no address", hint))?)
        }
        "plan_cpu_cost" => attributes.plan_cpu_cost(cost(one)?),
        "plan_mem_cost" => attributes.plan_mem_cost(cost(one)?),
        _ => attributes.resource_group(text),
    })
}

/// A signed decimal number, as in a classifier's range.
fn cost(one: &Assignment) -> Result<f64, SqlError> {
    let text = one.value.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let reads = value::number(digits).is_ok() && !digits.starts_with(char::is_whitespace);
    match text.parse::<f64>() {
        Ok(cost) if reads && cost.is_finite() => Ok(cost),
        _ => {
            let hint = "a decimal number, as in plan_cpu_cost = 12.5";
            Err(misfit(one, "it is no finite decimal number", hint))
        }
    }
}

fn misfit(one: &Assignment, why: &str, hint: &str) -> SqlError {
    let kind = SqlErrorKind::BadValue {
        key: one.key.value.clone(),
        value: one.value.value.clone(),
        why: why.to_owned(),
    };
    SqlError::new(kind, one.value.span).with_hint(hint)
}

/// The error of a request that names a group which it cannot have, at the place where it does.
pub(crate) fn refused_wish(written: &[Assignment], error: &Error, catalog: &Snapshot) -> SqlError {
    let wish = written.iter().find(|one| one.key.value == "resource_group");
    let value = wish.map_or_else(|| String::new().into(), |one| one.value.clone());
    match (error, catalog.find(&value)) {
        (Error::Admission(AdmissionError::UnknownGroup { .. }), Err(unknown)) => unknown,
        _ => {
            let kind = SqlErrorKind::BadValue {
                key: "resource_group".to_owned(),
                value: value.value,
                why: error.to_string(),
            };
            SqlError::new(kind, value.span)
                .with_hint("leave resource_group out to see where the classifiers send the request")
        }
    }
}
