//! The program `quotient`. One thread, its own process.

use std::process::ExitCode;

fn main() -> ExitCode {
    quotient::cli::run(std::env::args_os())
}
