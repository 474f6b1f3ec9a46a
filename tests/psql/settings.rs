//! What a session's settings are, what its client is told of them, and what pools send before they lend it again.

use crate::Service;
use crate::hostile::{frame, last_words, open, startup};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A client that hears every word.
struct Raw(TcpStream);

impl Raw {
    /// Comes in with these parameters; what it is told of its settings.
    fn enter(service: &Service, parameters: &[(&str, &str)]) -> (Raw, Vec<String>) {
        let mut raw = Raw(open(service));
        let parameters = [&[("user", "ops")], parameters].concat();
        raw.0.write_all(&startup(&parameters)).unwrap();
        let told = raw.words();
        (raw, told)
    }

    /// One whole message: its letter, and its texts.
    fn message(&mut self) -> (char, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).unwrap();
        (head[0] as char, body)
    }

    /// Up to ReadyForQuery: tags, rows, settings as `S name value` and the states of errors as `E state`.
    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        loop {
            let (letter, body) = self.message();
            let texts: Vec<String> = body
                .split(|byte| *byte == 0)
                .map(|text| String::from_utf8_lossy(text).into_owned())
                .collect();
            match letter {
                'Z' => return words,
                'C' => words.push(texts[0].clone()),
                'S' => words.push(format!("S {} {}", texts[0], texts[1])),
                'D' => words.push(format!("D {}", String::from_utf8_lossy(&body[6..]))),
                'E' | 'N' => {
                    let state = texts.iter().find_map(|text| text.strip_prefix('C'));
                    words.push(format!("{letter} {}", state.unwrap()));
                }
                _ => {}
            }
        }
    }

    fn ask(&mut self, script: &str) -> Vec<String> {
        let body = [script.as_bytes(), b"\0"].concat();
        self.0.write_all(&frame(b'Q', &body)).unwrap();
        self.words()
    }
}

#[test]
fn pools_clean_a_session_before_they_lend_it_again() {
    let service = Service::new();
    let (mut raw, _) = Raw::enter(&service, &[]);
    let asyncpg = "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;";
    assert_eq!(
        raw.ask(asyncpg),
        ["D ", "SELECT 1", "CLOSE CURSOR ALL", "UNLISTEN", "RESET"]
    );
    let deadpool = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
                    SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES;";
    assert_eq!(
        raw.ask(deadpool),
        [
            "CLOSE CURSOR ALL",
            "SET",
            "RESET",
            "UNLISTEN",
            "D ",
            "SELECT 1",
            "DISCARD TEMP",
            "DISCARD SEQUENCES"
        ]
    );
    let others = "DISCARD TEMPORARY; DISCARD PLANS; DISCARD ALL; UNLISTEN news; \
                  RESET SESSION AUTHORIZATION; SET ROLE NONE; RESET ROLE";
    assert_eq!(
        raw.ask(others),
        [
            "DISCARD TEMP",
            "DISCARD PLANS",
            "DISCARD ALL",
            "UNLISTEN",
            "RESET",
            "SET",
            "RESET"
        ]
    );
    // What would have to be done is not said to be.
    for script in [
        "LISTEN news",
        "CLOSE c",
        "DISCARD nothing",
        "DISCARD ALL OF IT",
        "UNLISTEN",
        "SET SESSION AUTHORIZATION 'root'",
    ] {
        let words = raw.ask(script);
        assert!(words[0].starts_with("E 42"), "{script}: {words:?}");
    }
}

/// libpq without a locale, of whose encoding it knows nothing, says SQL_ASCII: bytes are taken as they are.
#[test]
fn a_client_without_a_locale_comes_in_and_is_told_its_own_encoding() {
    let service = Service::new();
    for (asked, told) in [
        ("SQL_ASCII", "SQL_ASCII"),
        ("sql-ascii", "SQL_ASCII"),
        ("utf8", "UTF8"),
        ("'UTF-8'", "UTF8"),
        ("Unicode", "UTF8"),
    ] {
        let (mut raw, words) = Raw::enter(&service, &[("client_encoding", asked)]);
        let told = format!("client_encoding {told}");
        assert!(words.contains(&format!("S {told}")), "{asked}: {words:?}");
        let shown = raw.ask("SHOW client_encoding");
        assert_eq!(format!("client_encoding {}", &shown[0][2..]), told);
        assert_eq!(raw.ask("SELECT 'é'")[0], "D é");
    }
    let (mut raw, _) = Raw::enter(&service, &[]);
    for (script, told) in [
        ("SET client_encoding = 'sql_ascii'", "SQL_ASCII"),
        ("SET NAMES 'UTF8'", "UTF8"),
        ("SET client_encoding TO SQL_ASCII", "SQL_ASCII"),
        ("RESET client_encoding", "UTF8"),
    ] {
        let words = raw.ask(script);
        assert!(
            words.contains(&format!("S client_encoding {told}")),
            "{script}: {words:?}"
        );
    }
    assert_eq!(raw.ask("SET client_encoding = 'LATIN1'"), ["E 22023"]);
    // Not UTF-8 is nothing that anybody here can read.
    raw.ask("SET client_encoding = 'SQL_ASCII'");
    raw.0.write_all(&frame(b'Q', b"SELECT '\xe9'\0")).unwrap();
    assert_eq!(raw.words(), ["E 22021"]);
    let mut latin = open(&service);
    latin
        .write_all(&startup(&[("user", "ops"), ("client_encoding", "LATIN1")]))
        .unwrap();
    let words = last_words(latin);
    assert!(String::from_utf8_lossy(&words).contains("C22023"));
}

/// What the client's copy of a setting is, and what SHOW says.
fn copies(raw: &mut Raw, words: &[String], name: &str) -> (Option<String>, String) {
    let copy = format!("S {name} ");
    let told = words.iter().rev().find_map(|word| word.strip_prefix(&copy));
    let shown = raw.ask(&format!("SHOW {name}"));
    (told.map(str::to_owned), shown[0][2..].to_owned())
}

#[test]
fn a_reset_goes_back_to_what_the_client_came_in_with_and_it_is_told() {
    let service = Service::new();
    let first = [
        ("application_name", "desk"),
        ("TimeZone", "Europe/Berlin"),
        ("client_min_messages", "error"),
    ];
    let (mut raw, told) = Raw::enter(&service, &first);
    assert!(told.contains(&"S TimeZone Europe/Berlin".to_owned()));
    for reset in [
        "RESET ALL",
        "DISCARD ALL",
        "RESET application_name; RESET TimeZone; RESET client_min_messages",
        "SET application_name TO DEFAULT; SET TIME ZONE DEFAULT; SET client_min_messages = DEFAULT",
    ] {
        raw.ask(
            "SET application_name = 'other'; SET TIME ZONE 'UTC'; SET client_min_messages = notice",
        );
        let words = raw.ask(reset);
        for (name, value) in &first[..2] {
            let expected = (Some((*value).to_owned()), (*value).to_owned());
            assert_eq!(copies(&mut raw, &words, name), expected, "{reset}");
        }
        // So it came in: without remarks.
        assert_eq!(raw.ask("BEGIN; ROLLBACK"), ["BEGIN", "ROLLBACK"], "{reset}");
    }
    // What is as it was is not told again, and what the server knows stays.
    assert_eq!(raw.ask("RESET ALL"), ["RESET"]);
    assert_eq!(raw.ask("SHOW session_authorization")[0], "D ops");
}
