//! A browser of a test's own: Debian's chromium by its driver, both gone when it is dropped.

use crate::support::require_tool;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub(crate) struct Browser {
    driver: Child,
    profile: PathBuf,
    pub(crate) client: Client,
}

impl Browser {
    /// None if there is no browser here and none is required.
    pub(crate) async fn start(width: u32, height: u32) -> Option<Browser> {
        let chromium = require_tool("chromium")?;
        let driver = require_tool("chromedriver")?;
        let mut driver = Command::new(driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said.find_map(|line| {
            let line = line.unwrap();
            let port = line.rsplit_once("on port ")?.1;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        let profile = std::env::temp_dir().join(format!("quotient-chromium-{}", driver.id()));
        let options = json!({
            "binary": chromium,
            "args": [
                "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                "--disable-dev-shm-usage", "--hide-scrollbars",
                format!("--window-size={width},{height}"),
                format!("--user-data-dir={}", profile.display()),
            ],
        });
        let capabilities = json!({ "goog:chromeOptions": options });
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{}", port.unwrap()))
            .await;
        Some(Browser {
            driver,
            profile,
            client: client.unwrap(),
        })
    }

    /// What the expression is in the page.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let script = format!("return {expression}");
        let answer = self.client.execute(&script, Vec::new()).await;
        answer.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver and all that it has started.
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
