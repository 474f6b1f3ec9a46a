//! What SET and SHOW know of a session: PostgreSQL's names, of which few have an effect here.
//!
//! Pure.

use super::fault::Fault;
use crate::sql::suggest::closest;
use std::collections::BTreeMap;

/// What a client may do with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It may be set to anything, and be read.
    Free,
    /// As it is, or not at all.
    Fixed,
    /// One of those that [`encoding`] knows.
    Encoding,
    /// It can only be read.
    ReadOnly,
}

/// A setting.
struct Known {
    /// As SHOW writes it.
    name: &'static str,
    /// Its value, if the client does not come in with another.
    first: &'static str,
    allows: Use,
    /// Whether clients are told of its changes.
    is_reported: bool,
}

const fn setting(name: &'static str, first: &'static str, allows: Use, is_reported: bool) -> Known {
    Known {
        name,
        first,
        allows,
        is_reported,
    }
}

/// The version of PostgreSQL whose protocol and catalog queries are understood. Below it psql asks in older words;
/// above it, older programs warn.
pub(super) const SERVER_VERSION: &str = concat!("14.0 (quotient ", env!("CARGO_PKG_VERSION"), ")");

/// The setting that names the group of the session's own statements.
pub(super) const RESOURCE_GROUP: &str = "resource_group";

#[rustfmt::skip]
const KNOWN: &[Known] = &[
    setting("application_name", "", Use::Free, true),
    setting("bytea_output", "hex", Use::Free, false),
    setting("client_encoding", "UTF8", Use::Encoding, true),
    setting("client_min_messages", "notice", Use::Free, false),
    setting("DateStyle", "ISO, MDY", Use::Free, true),
    setting("default_transaction_isolation", "read committed", Use::Free, false),
    setting("default_transaction_read_only", "off", Use::Free, true),
    setting("extra_float_digits", "1", Use::Free, false),
    setting("idle_in_transaction_session_timeout", "0", Use::Free, false),
    setting("idle_session_timeout", "0", Use::Free, false),
    setting("in_hot_standby", "off", Use::ReadOnly, true),
    setting("integer_datetimes", "on", Use::ReadOnly, true),
    setting("IntervalStyle", "postgres", Use::Free, true),
    setting("is_superuser", "on", Use::ReadOnly, true),
    setting("lc_messages", "C", Use::Free, false),
    setting("lock_timeout", "0", Use::Free, false),
    setting("max_identifier_length", "63", Use::ReadOnly, false),
    setting(RESOURCE_GROUP, "", Use::Free, false),
    setting("row_security", "on", Use::Free, false),
    setting("search_path", "public", Use::Free, false),
    setting("server_encoding", "UTF8", Use::ReadOnly, true),
    setting("server_version", SERVER_VERSION, Use::ReadOnly, true),
    setting("server_version_num", "140000", Use::ReadOnly, false),
    setting("session_authorization", "", Use::ReadOnly, true),
    setting("standard_conforming_strings", "on", Use::Fixed, true),
    setting("statement_timeout", "0", Use::Free, false),
    setting("TimeZone", "UTC", Use::Free, true),
    setting("transaction_isolation", "read committed", Use::Free, false),
    setting("transaction_read_only", "off", Use::Free, false),
];

/// The settings of one session, as far as they differ.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// From a server's own: what the client came in with, to which RESET goes back.
    first: BTreeMap<&'static str, String>,
    /// From those.
    changed: BTreeMap<&'static str, String>,
}

fn known(name: &str) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Whether SHOW and SET know the name.
pub(super) fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// How SHOW writes the name.
pub(super) fn canonical(name: &str) -> Option<&'static str> {
    known(name).map(|known| known.name)
}

fn unknown(name: &str) -> Fault {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    let fault = Fault::error("42704", message);
    match closest(name, KNOWN.iter().map(|known| known.name)) {
        Some(word) => fault.hint(format!(
            "did you mean {word}? SET GLOBAL sets the governor's variables"
        )),
        None => fault.hint("SET GLOBAL sets the governor's variables, SHOW VARIABLES lists them"),
    }
}

impl Settings {
    /// The value of a setting.
    pub(super) fn get(&self, name: &str) -> Result<&str, Fault> {
        let known = known(name).ok_or_else(|| unknown(name))?;
        Ok(self.value(known))
    }

    fn value(&self, known: &Known) -> &str {
        let own = self.changed.get(known.name);
        own.or_else(|| self.first.get(known.name))
            .map_or(known.first, String::as_str)
    }

    /// All settings, by name, with their values.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN.iter().map(|known| (known.name, self.value(known)))
    }

    /// What a client is told when it comes in.
    pub(super) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.all().filter(|(name, _)| is_reported(name))
    }

    /// Sets a setting. Its name as SHOW writes it if the client is to be told.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>, Fault> {
        const MOST: usize = 1_000;
        let known = known(name).ok_or_else(|| unknown(name))?;
        let bad = |why: &str| {
            let message = format!(
                "invalid value for parameter \"{}\": \"{value}\"",
                known.name
            );
            Err(Fault::error("22023", message).hint(why.to_owned()))
        };
        match known.allows {
            Use::ReadOnly => {
                let message = format!("parameter \"{}\" cannot be changed", known.name);
                return Err(Fault::error("55P02", message));
            }
            Use::Fixed if !is_same(value, known.first) => {
                return bad(&format!("here it is always {}", known.first));
            }
            _ if value.len() > MOST || value.contains('\0') => {
                return Err(Fault::error(
                    "22023",
                    format!("the value of \"{}\" is too long", known.name),
                ));
            }
            Use::Fixed => {}
            Use::Encoding => {
                let Some(encoding) = encoding(value) else {
                    return bad("here it is UTF8, or SQL_ASCII, which leaves bytes as they are");
                };
                self.changed.insert(known.name, encoding.to_owned());
            }
            Use::Free => {
                self.changed.insert(known.name, value.to_owned());
            }
        }
        Ok(known.is_reported.then_some(known.name))
    }

    /// Puts in what the server itself knows.
    pub(super) fn tell(&mut self, name: &'static str, value: &str) {
        self.first.insert(name, value.to_owned());
    }

    /// The client is in: what was set up to now is what RESET goes back to.
    pub(super) fn begin(&mut self) {
        self.first.append(&mut self.changed);
    }

    /// As at first. Its name if the client is to be told.
    pub(super) fn reset(&mut self, name: &str) -> Result<Option<&'static str>, Fault> {
        let known = known(name).ok_or_else(|| unknown(name))?;
        self.changed.remove(known.name);
        Ok(known.is_reported.then_some(known.name))
    }

    /// All as at first. The names that the client is to be told of.
    pub(super) fn reset_all(&mut self) -> Vec<&'static str> {
        let before = std::mem::take(&mut self.changed);
        let differs = |(name, value): (&'static str, String)| {
            let is_told = is_reported(name) && self.get(name).is_ok_and(|now| now != value);
            is_told.then_some(name)
        };
        before.into_iter().filter_map(differs).collect()
    }

    /// The group that the session's statements were sent to.
    pub(super) fn resource_group(&self) -> Option<&str> {
        let group = self.get(RESOURCE_GROUP).ok();
        group.filter(|group| !group.is_empty())
    }

    /// Whether the client wants remarks of this weight.
    pub(super) fn hears(&self, warning: bool) -> bool {
        let least = self.get("client_min_messages").unwrap_or_default();
        match least.to_ascii_lowercase().as_str() {
            "error" | "fatal" | "panic" => false,
            "warning" => warning,
            _ => true,
        }
    }
}

fn is_reported(name: &str) -> bool {
    known(name).is_some_and(|known| known.is_reported)
}

/// A truth has several spellings.
fn is_same(value: &str, fixed: &str) -> bool {
    let value = value.trim_matches('\'').to_ascii_lowercase();
    value == fixed || matches!(value.as_str(), "on" | "true" | "yes" | "1") && fixed == "on"
}

/// How SHOW writes an encoding that texts are taken and sent in as they are, which is all that is done here. As in
/// PostgreSQL, letters and digits of its name count alone; libpq without a locale says `SQL_ASCII`.
fn encoding(name: &str) -> Option<&'static str> {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    let letters: String = letters.map(|c| c.to_ascii_lowercase()).collect();
    match letters.as_str() {
        "utf8" | "unicode" | "auto" => Some("UTF8"),
        "sqlascii" => Some("SQL_ASCII"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_shown_until_it_is_reset() {
        let mut settings = Settings::default();
        assert_eq!(settings.get("datestyle").unwrap(), "ISO, MDY");
        assert_eq!(
            settings.set("APPLICATION_NAME", "psql").unwrap(),
            Some("application_name")
        );
        assert_eq!(settings.get("application_name").unwrap(), "psql");
        settings.reset("application_name").unwrap();
        assert_eq!(settings.get("application_name").unwrap(), "");
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_its_state() {
        let mut settings = Settings::default();
        for (name, value, code) in [
            ("server_version", "99", "55P02"),
            ("client_encoding", "LATIN1", "22023"),
            ("standard_conforming_strings", "off", "22023"),
            ("query_runner_threads", "4", "42704"),
        ] {
            let fault = settings.set(name, value).unwrap_err();
            assert_eq!(fault.code, code, "{name}");
        }
        assert!(settings.set("client_encoding", "utf-8").is_ok());
        assert!(settings.set("client_encoding", "sql ascii").is_ok());
        assert_eq!(settings.get("client_encoding").unwrap(), "SQL_ASCII");
        let long = "x".repeat(2_000);
        assert_eq!(
            settings.set("search_path", &long).unwrap_err().code,
            "22023"
        );
        let hint = settings
            .set("resource_grop", "x")
            .unwrap_err()
            .hint
            .unwrap();
        assert!(hint.contains("resource_group"), "{hint}");
    }

    #[test]
    fn remarks_are_left_out_as_the_client_wishes() {
        let mut settings = Settings::default();
        assert!(settings.hears(false));
        settings.set("client_min_messages", "WARNING").unwrap();
        assert!(!settings.hears(false) && settings.hears(true));
        settings.set("client_min_messages", "error").unwrap();
        assert!(!settings.hears(true));
        settings.reset_all();
        assert!(settings.hears(false));
    }

    #[test]
    fn names_are_in_order_and_once() {
        let lower: Vec<String> = KNOWN
            .iter()
            .map(|known| known.name.to_lowercase())
            .collect();
        assert!(lower.is_sorted_by(|a, b| a < b), "{lower:?}");
    }
}
