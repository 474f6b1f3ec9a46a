//! The program `quotient`: checks scripts, says where requests go, simulates loads, all without a service.
//!
//! What it says is computed by the very code of the service: its parser, its catalog, its classifier, its gate and its
//! scheduler. Exit codes: 0, nothing found; 1, something was found or refused in the script; 2, the program was called
//! wrongly, or something cannot be read.

mod check;
mod classify;
mod finding;
mod lint;
mod script;
mod simulate;

use crate::catalog::Machine;
use crate::governor::machine::cpus;
use crate::sql::value;
use crate::unit::Bytes;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::ExitCode;

/// Resource groups without a service: check a script, ask where a request would go, simulate loads.
#[derive(Debug, Parser)]
#[command(name = "quotient", version, after_help = EXIT_CODES)]
struct Call {
    #[command(subcommand)]
    what: What,
}

const EXIT_CODES: &str = "Exit codes: 0 nothing found; 1 errors or warnings; 2 wrong arguments, or a file that cannot be read.";

#[derive(Debug, Subcommand)]
enum What {
    /// Read a script, run it against an empty catalog, say what is wrong or in vain.
    Check(check::Check),
    /// Say where a request would go, as EXPLAIN CLASSIFY does.
    Classify(classify::Classify),
    /// Run loads in virtual time through the groups of a script: shares, waits, refusals.
    Simulate(simulate::Simulate),
}

/// What every command takes.
#[derive(Args, Debug)]
struct Common {
    /// The script; - reads standard input.
    file: OsString,
    /// Print one JSON value instead of text.
    #[arg(long)]
    json: bool,
    /// Workers of the machine that the script is for, 1 to 1024 [default: this machine's].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
    /// The governor's memory limit there, such as 16GiB [default: more than any script asks for].
    #[arg(long, value_name = "BYTES", value_parser = memory)]
    memory: Option<Bytes>,
}

/// What a command found: what it prints, and whether anything was wrong.
struct Answer {
    text: String,
    found: bool,
}

/// The program could not do what it was asked to: why.
struct Unable(String);

/// Runs the program with these arguments, the first of which is its name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let call = match Call::try_parse_from(arguments) {
        Ok(call) => call,
        Err(error) => {
            // Help and version are no errors. If nobody reads what is printed, nobody can be told either.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let answer = match &call.what {
        What::Check(check) => check.answer(),
        What::Classify(classify) => classify.answer(),
        What::Simulate(simulate) => simulate.answer(),
    };
    match answer {
        Ok(answer) => {
            let _ = std::io::stdout().write_all(answer.text.as_bytes());
            ExitCode::from(u8::from(answer.found))
        }
        Err(Unable(why)) => {
            let _ = writeln!(std::io::stderr(), "quotient: {why}");
            ExitCode::from(2)
        }
    }
}

impl Common {
    /// The file as people know it.
    fn name(&self) -> String {
        match self.file.to_str() {
            Some("-") => "(standard input)".to_owned(),
            _ => self.file.to_string_lossy().into_owned(),
        }
    }

    fn text(&self) -> Result<String, Unable> {
        let mut bytes = Vec::new();
        let read = if self.file == "-" {
            std::io::stdin().read_to_end(&mut bytes).map(drop)
        } else {
            std::fs::read(&self.file).map(|read| bytes = read)
        };
        read.map_err(|error| Unable(format!("{}: {error}", self.name())))?;
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Unable(format!("{}: no UTF-8 from byte {at} on", self.name()))
        })
    }

    fn machine(&self) -> Machine {
        Machine {
            workers: self.cores.map_or_else(cpus, usize::from),
            memory_limit: self.memory.unwrap_or(Bytes(1 << 60)),
        }
    }
}

fn memory(text: &str) -> Result<Bytes, String> {
    match value::bytes(text) {
        Ok(bytes) if bytes.0 > 0 => Ok(bytes),
        _ => Err("bytes above 0, with or without a unit, as 16GiB".to_owned()),
    }
}
