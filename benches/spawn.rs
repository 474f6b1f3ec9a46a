//! What a spawn, a yield, a message and an echo cost beside plain tokio, under the system's allocator.
//!
//! `cargo bench --bench spawn -- [--quick] [--only NAME] [--workers N] [--aa]`; see `support/spawn.rs`.

mod support;

fn main() {
    support::spawn::main(support::spawn::Allocator::System);
}
