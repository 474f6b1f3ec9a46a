//! The tables, and the statements about them.
//!
//! Pure. One statement per change: the row, its history and the notification are one transaction in one round trip.

/// Revisions of a fleet that the history keeps.
const KEPT: u32 = 1_000;

/// Bytes of a channel's name at most.
const CHANNEL: usize = 63;

/// Statements about one table.
#[derive(Debug)]
pub(super) struct Schema {
    /// As `to_regclass` takes it.
    pub(super) table: String,
    pub(super) history: String,
    pub(super) listen: String,
    pub(super) create: String,
    pub(super) read: String,
    pub(super) insert: String,
    pub(super) update: String,
    pub(super) happened: String,
}

impl Schema {
    /// For a table of that name, as [`is_name`] allows.
    pub(super) fn of(name: &str) -> Schema {
        let quoted = |ending: &str| -> String {
            let mut parts: Vec<String> = name.split('.').map(str::to_owned).collect();
            if let Some(last) = parts.last_mut() {
                last.push_str(ending);
            }
            let parts: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
            parts.join(".")
        };
        let (table, history) = (quoted(""), quoted("_history"));
        // pg_notify refuses what is longer, and a name is plain ASCII. Fleets whose channels are one then hear of each
        // other, which costs them a read.
        let channel = name.replace('.', "_");
        let channel = channel
            .get(channel.len().saturating_sub(CHANNEL)..)
            .unwrap_or(&channel);
        // The lock makes programs that start together create the tables one after the other.
        let create = format!(
            "BEGIN;
             SELECT pg_advisory_xact_lock(hashtext('{table}'));
             CREATE TABLE IF NOT EXISTS {table} (
               fleet text PRIMARY KEY,
               revision bigint NOT NULL,
               script text NOT NULL,
               changed_at timestamptz NOT NULL DEFAULT now(),
               changed_by text NOT NULL DEFAULT session_user);
             CREATE TABLE IF NOT EXISTS {history} (
               fleet text NOT NULL,
               revision bigint NOT NULL,
               script text NOT NULL,
               changed_at timestamptz NOT NULL DEFAULT now(),
               changed_by text NOT NULL DEFAULT session_user,
               PRIMARY KEY (fleet, revision));
             COMMIT;"
        );
        // A revision that the history has already, since somebody counted back by hand, is written over there.
        let and_tell = format!(
            "kept AS (
               INSERT INTO {history} (fleet, revision, script, changed_by)
               SELECT fleet, revision, script, changed_by FROM changed
               ON CONFLICT (fleet, revision) DO UPDATE SET script = excluded.script,
                 changed_at = excluded.changed_at, changed_by = excluded.changed_by),
             forgotten AS (
               DELETE FROM {history} h USING changed c
               WHERE h.fleet = c.fleet AND h.revision <= c.revision - {KEPT})
             SELECT revision, pg_notify('{channel}', fleet) FROM changed"
        );
        Schema {
            listen: format!("LISTEN \"{channel}\""),
            read: format!("SELECT revision, script FROM {table} WHERE fleet = $1"),
            insert: format!(
                "WITH changed AS (
                   INSERT INTO {table} (fleet, revision, script, changed_by)
                   VALUES ($1, 1 + coalesce((SELECT max(revision) FROM {history} WHERE fleet = $1), 0), $2, $3)
                   ON CONFLICT (fleet) DO NOTHING RETURNING *), {and_tell}"
            ),
            update: format!(
                "WITH changed AS (
                   UPDATE {table} SET revision = revision + 1, script = $2, changed_at = now(), changed_by = $3
                   WHERE fleet = $1 AND revision = $4 AND script = $5 RETURNING *), {and_tell}"
            ),
            happened: format!(
                "SELECT EXISTS (SELECT FROM {history}
                 WHERE fleet = $1 AND script = $2 AND revision > $3 AND changed_by = $4)"
            ),
            table,
            history,
            create,
        }
    }
}

/// Whether this may be the name of a table: one or two words of lower case, digits and `_`, 40 bytes each.
pub(super) fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        let mut letters = word.bytes();
        let first = letters
            .next()
            .is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        first
            && word.len() <= 40
            && letters.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    name.split('.').count() <= 2 && name.split('.').all(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_or_two_plain_words_and_nothing_else_gets_into_a_statement() {
        for good in ["quotient_catalog", "ops.groups", "_a1"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "a.", "a.b.c", "Groups", "a-b", "a\"b", "a b", "1a"] {
            assert!(!is_name(bad), "{bad}");
        }
        let schema = Schema::of("ops.groups");
        assert_eq!(schema.table, "\"ops\".\"groups\"");
        assert_eq!(schema.listen, "LISTEN \"ops_groups\"");
        assert!(schema.create.contains("\"ops\".\"groups_history\""));
        let longest = format!("{0}.{0}", "a".repeat(40));
        let channel = "a".repeat(22) + "_" + &"a".repeat(40);
        let schema = Schema::of(&longest);
        assert_eq!(schema.listen, format!("LISTEN \"{channel}\""));
        assert!(schema.update.contains(&format!("pg_notify('{channel}'")));
    }
}
