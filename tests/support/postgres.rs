//! A PostgreSQL of a test's own: its data folder and socket in a temporary place, stopped when dropped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub(crate) struct Postgres {
    server: Child,
    folder: PathBuf,
    bin: PathBuf,
}

/// Debian keeps the server's programs out of PATH.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions
        .filter_map(|version| Some(version.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists())
        .collect();
    found.sort();
    found.pop()
}

/// PostgreSQL refuses to run as root; the package brings a user for it.
fn as_owner(program: &Path) -> Command {
    let root = fs::metadata("/proc/self").is_ok_and(|me| {
        use std::os::unix::fs::MetadataExt;
        me.uid() == 0
    });
    if root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

fn checked(output: Output, what: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {errors}");
}

fn serve(bin: &Path, folder: &Path) -> Child {
    as_owner(&bin.join("postgres"))
        .arg("-D")
        .arg(folder.join("data"))
        .args(["-h", "", "-F", "-k"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}

impl Postgres {
    /// None if there is no PostgreSQL here and none is required.
    pub(crate) fn start() -> Option<Postgres> {
        let Some(bin) = programs() else {
            let required = std::env::var_os("QUOTIENT_REQUIRE_TOOLS").is_some();
            assert!(!required, "PostgreSQL's server is not installed");
            eprintln!("skipped: PostgreSQL's server is not installed");
            return None;
        };
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let nth = STARTED.fetch_add(1, Relaxed);
        let name = format!("quotient-pg-{}-{nth}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        // Its owner may be another user than ours.
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let data = folder.join("data");
        let init = as_owner(&bin.join("initdb"))
            .args(["--auth=trust", "--username=quotient", "--no-sync"])
            .args(["--locale=C", "--encoding=UTF8", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        checked(init, "initdb");
        let server = serve(&bin, &folder);
        let postgres = Postgres {
            server,
            folder,
            bin,
        };
        postgres.wait();
        Some(postgres)
    }

    fn wait(&self) {
        let patience = Instant::now() + Duration::from_secs(120);
        while !self.psql("SELECT 1").status.success() {
            if Instant::now() > patience {
                let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                panic!("PostgreSQL did not start: {log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends the server; its data stay.
    #[allow(dead_code)]
    pub(crate) fn stop(&mut self) {
        let stopped = as_owner(&self.bin.join("pg_ctl"))
            .args(["stop", "-m", "fast", "-w", "-D"])
            .arg(self.folder.join("data"))
            .output()
            .unwrap();
        checked(stopped, "pg_ctl stop");
        self.server.wait().unwrap();
    }

    /// Starts it again.
    #[allow(dead_code)]
    pub(crate) fn start_again(&mut self) {
        self.server = serve(&self.bin, &self.folder);
        self.wait();
    }

    /// How a client of tokio-postgres reaches it.
    #[allow(dead_code)]
    pub(crate) fn url(&self) -> String {
        let folder = self.folder.display();
        format!("host={folder} user=quotient dbname=postgres")
    }

    /// A file of a test's own, beside the data.
    #[allow(dead_code)]
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The lines that psql prints for one statement.
    #[allow(dead_code)]
    pub(crate) fn ask(&self, statement: &str) -> Vec<String> {
        let output = self.psql(statement);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        checked(output, "psql");
        text.lines().map(str::to_owned).collect()
    }

    fn psql(&self, script: &str) -> Output {
        let mut psql = Command::new(self.bin.join("psql"))
            .args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "quotient"])
            .args(["-d", "postgres", "-h"])
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = psql.stdin.take().unwrap();
        let script = script.to_owned();
        let writer = std::thread::spawn(move || {
            // A client that gave up tells its reason by itself.
            let _ = stdin.write_all(script.as_bytes());
        });
        let output = psql.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// Runs a script that must succeed.
    #[allow(dead_code)]
    pub(crate) fn script(&self, script: &str) {
        checked(self.psql(script), "psql");
    }

    #[allow(dead_code)]
    /// What PostgreSQL answers to each statement: rows of texts, NULL as none, or the SQLSTATE of its refusal.
    pub(crate) fn answers(
        &self,
        statements: &[&str],
    ) -> Vec<Result<Vec<Vec<Option<String>>>, String>> {
        let mut script = String::from(
            "CREATE FUNCTION answer(q text) RETURNS text LANGUAGE plpgsql AS $body$
             DECLARE r record; answer text := '';
             BEGIN
               FOR r IN EXECUTE q LOOP answer := answer || r::text || chr(1); END LOOP;
               RETURN '+' || answer;
             EXCEPTION WHEN OTHERS THEN RETURN '-' || SQLSTATE;
             END $body$;\n",
        );
        for statement in statements {
            script += &format!("SELECT answer('{}');\n", statement.replace('\'', "''"));
        }
        let output = self.psql(&script);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        checked(output, "psql");
        text.lines()
            .map(|line| match line.strip_prefix('+') {
                Some(rows) => Ok(rows
                    .split_terminator('\u{1}')
                    .map(|row| record(row.trim_start_matches('(')))
                    .collect()),
                None => Err(line.trim_start_matches('-').to_owned()),
            })
            .collect()
    }
}

#[allow(dead_code)]
/// The fields of a record as PostgreSQL writes it, behind its opening parenthesis.
fn record(text: &str) -> Vec<Option<String>> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), None::<String>, false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.get_or_insert_default().push('"');
            }
            '"' => {
                quoted = !quoted;
                field.get_or_insert_default();
            }
            '\\' if quoted => field.get_or_insert_default().extend(letters.next()),
            ',' | ')' if !quoted => fields.push(field.take()),
            other => field.get_or_insert_default().push(other),
        }
    }
    fields
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = as_owner(&self.bin.join("pg_ctl"))
            .args(["stop", "-m", "immediate", "-w", "-D"])
            .arg(self.folder.join("data"))
            .output();
        if stop.is_err() {
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
        let removed = as_owner(Path::new("rm"))
            .arg("-rf")
            .arg(self.folder.join("data"))
            .output();
        drop(removed);
        let _ = fs::remove_dir_all(&self.folder);
    }
}
