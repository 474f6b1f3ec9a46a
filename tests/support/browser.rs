//! A browser of a test's own: Debian's chromium by its driver, both gone when it is dropped.

use crate::support::require_tool;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) struct Browser {
    pub(crate) client: Client,
    _driver: Driver,
}

/// The program that starts and stops the browser.
struct Driver {
    process: Child,
    /// What it says goes somewhere as long as it lives.
    said: Lines<BufReader<ChildStdout>>,
    profile: PathBuf,
}

impl Driver {
    fn start(program: PathBuf) -> Driver {
        let mut process = Command::new(program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let name = format!("quotient-chromium-{}", process.id());
        Driver {
            said: BufReader::new(process.stdout.take().unwrap()).lines(),
            profile: std::env::temp_dir().join(name),
            process,
        }
    }

    /// Where it listens, once it says so.
    fn port(&mut self) -> u16 {
        let told = self.said.find_map(|line| {
            let line = line.unwrap();
            let port = line.rsplit_once("on port ")?.1;
            let port = port.trim_end_matches('.').parse::<u16>().ok();
            port.filter(|port| *port > 0)
        });
        told.expect("the driver says on which port it listens")
    }
}

impl Browser {
    /// None if there is no browser here and none is required.
    pub(crate) async fn start(width: u32, height: u32) -> Option<Browser> {
        let chromium = require_tool("chromium")?;
        let mut driver = Driver::start(require_tool("chromedriver")?);
        let port = driver.port();
        let options = json!({
            "binary": chromium,
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", "--hide-scrollbars",
                format!("--window-size={width},{height}"),
                format!("--user-data-dir={}", driver.profile.display()),
            ],
        });
        let capabilities = json!({ "goog:chromeOptions": options });
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{}", port))
            .await;
        Some(Browser {
            client: client.unwrap(),
            _driver: driver,
        })
    }

    /// What the expression is in the page.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        let answer = self.client.execute(&script, Vec::new()).await;
        answer.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It and all that it has started.
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
