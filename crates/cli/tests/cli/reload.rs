//! A hangup makes a running server take its configuration anew, or say why it does not.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;

use crate::running::{Desk, entry};

/// A server whose log is read.
struct Logged {
    child: Child,
    desk: Desk,
    url: String,
    log: BufReader<ChildStderr>,
}

impl Logged {
    fn start(config: &str) -> Logged {
        let desk = Desk::new();
        desk.file("lazaret.toml", config);
        let mut child = desk
            .command(&["serve", "--listen", "127.0.0.1:0", "--color", "never"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("listening on ").unwrap().trim().to_owned();
        Logged { child, desk, url, log }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// The lines of the log up to the one that holds these words.
    fn until(&mut self, words: &str) -> String {
        let mut text = String::new();
        while !text.lines().last().is_some_and(|line| line.contains(words)) {
            assert!(self.log.read_line(&mut text).unwrap() > 0, "the log ended without {words:?}: {text}");
        }
        text
    }

    /// Writes the file anew, hangs up, and gives the log up to the words.
    fn reload(&mut self, config: &str, words: &str) -> String {
        self.desk.file("lazaret.toml", config);
        self.signal("-HUP");
        self.until(words)
    }

    /// The class of a letter that is reported now.
    fn class(&self, event: &str) -> String {
        let report = ["--url", &self.url, "report", "--json"];
        let answer = self.desk.run_with_input(&report, entry(event, "a.one").as_bytes()).ok();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["items"][0]["id"].as_str().unwrap();
        let shown = self.desk.run(&["--url", &self.url, "show", id, "--json"]).ok();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        shown["class"].as_str().unwrap().to_owned()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

const BUSINESS: &str = "[[class_rules]]\nclass = 'business'\nerror_type = 'TimeoutError'\n";

#[test]
fn a_hangup_takes_the_configuration_anew() {
    let mut server = Logged::start("");
    assert_eq!(server.class("e-1"), "transient");
    let told = server.reload(&format!("listen = '127.0.0.1:1'\n{BUSINESS}"), "configuration reloaded");
    assert!(told.contains("class_rules changed"), "{told}");
    // The flag beats the file, now as at the start.
    assert!(!told.contains("requires a restart"), "{told}");
    assert_eq!(server.class("e-2"), "business");

    let told = server.reload("lisen = 'x'\n[limits]\nconnections_max = 0\n", "configuration not reloaded");
    assert!(told.contains("did you mean \"listen\"?") && told.contains("connections_max"), "{told}");
    assert_eq!(server.class("e-3"), "business");

    let told = server.reload("data = 'elsewhere'\n", "configuration reloaded");
    assert!(told.contains("data changed from \"./lazaret-data\" to \"elsewhere\""), "{told}");
    assert_eq!(server.class("e-4"), "transient");

    server.reload("[log]\nlevel = 'debug'\n", "log.level changed");
    assert_eq!(server.class("e-5"), "transient");
    server.until("GET /api/v1/dead-letters/");
    server.signal("-TERM");
    server.until("stopped");
    assert!(server.child.wait().unwrap().success());
}
