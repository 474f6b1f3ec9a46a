//! Who uses what, live in a terminal: groups and queries over the administration port, sorted, filtered, killed.
//!
//! ```console
//! $ cargo run --example top -- 'host=127.0.0.1 port=6432 user=ops password=secret'
//! ```
//!
//! The service may be anywhere that the port can be reached. `--once` prints one frame as text and ends.

mod app;
mod link;
mod model;
mod view;

use app::Options;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            std::process::exit(2);
        }
    };
    let done = if options.once {
        app::once(&options).await.map(|frame| print!("{frame}"))
    } else {
        app::live(options).await
    };
    if let Err(error) = done {
        eprintln!("top: {error}");
        std::process::exit(1);
    }
}
