//! The programs in `examples/report/` and the receiver in `examples/` as a person runs them: the real interpreters
//! against a real server.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::receiver::Receiver;
use crate::running::{Desk, Ran, Server, arg};

/// A program that reports one dead letter.
#[derive(Clone, Copy)]
struct Recipe {
    program: &'static str,
    debian_package: &'static str,
    script: &'static str,
    event: &'static str,
    error_type: &'static str,
}

const PYTHON: Recipe = Recipe {
    program: "python3",
    debian_package: "python3",
    script: "report.py",
    event: "evt-python-1",
    error_type: "ValueError",
};
const NODE: Recipe = Recipe {
    program: "node",
    debian_package: "nodejs",
    script: "report.mjs",
    event: "evt-node-1",
    error_type: "TypeError",
};
const JAVA: Recipe = Recipe {
    program: "java",
    debian_package: "default-jdk-headless",
    script: "Report.java",
    event: "evt-java-1",
    error_type: "java.lang.IllegalArgumentException",
};
const RUBY: Recipe = Recipe {
    program: "ruby",
    debian_package: "ruby",
    script: "report.rb",
    event: "evt-ruby-1",
    error_type: "ArgumentError",
};
const PHP: Recipe = Recipe {
    program: "php",
    debian_package: "php-cli",
    script: "report.php",
    event: "evt-php-1",
    error_type: "DomainException",
};

fn example(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", name].iter().collect()
}

fn start(program: &str, debian_package: &str, command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap_or_else(
        |error| {
            panic!(
                "cannot start {program}: {error}\nhint: `cargo xtask test` installs what is missing on Debian, \
                 or run as root: apt-get install -y --no-install-recommends {debian_package}"
            )
        },
    )
}

impl Recipe {
    fn run(self, url: &str, token: Option<&str>) -> Ran {
        let mut command = Command::new(self.program);
        command.arg(example("report").join(self.script)).env("LAZARET_URL", url).env_remove("LAZARET_TOKEN");
        if let Some(token) = token {
            command.env("LAZARET_TOKEN", token);
        }
        let output = start(self.program, self.debian_package, &mut command).wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// What the server answered to the one entry.
    #[track_caller]
    fn reports(self, url: &str, token: Option<&str>) -> Value {
        let answer: Value = serde_json::from_str(&self.run(url, token).ok()).unwrap();
        answer["items"][0].clone()
    }
}

fn check_report(recipe: Recipe) {
    let server = Server::start();
    let created = recipe.reports(&server.url, None);
    assert_eq!(created["result"], "created", "{created}");
    let listed = server.json(&["ls", &format!("event:{}", recipe.event), "type:invoice.created"]);
    assert_eq!(listed["total"], 1, "{listed}");
    let letter = server.json(&["show", created["id"].as_str().unwrap()]);
    assert_eq!(letter["error"]["type"], recipe.error_type, "{letter}");
    assert_eq!(letter["error"]["message"], "invoice 4711 has no currency");
    assert!(letter["error"]["stackTrace"].as_str().unwrap().contains(recipe.script), "{letter}");
    assert_eq!(letter["originalEvent"]["payload"]["invoice"], 4711, "{letter}");

    let admin = server.run(&["token", "new", "--name", "me", "--role", "admin"]).ok();
    let producer =
        server.run(&["--token", admin.trim(), "token", "new", "--name", "app", "--role", "producer"]);
    let again = recipe.reports(&server.url, Some(producer.ok().trim()));
    assert_eq!((&again["result"], &again["id"]), (&"duplicate".into(), &created["id"]), "{again}");
    let refused = recipe.run(&server.url, None).fails(1);
    assert!(refused.contains("report refused: 401"), "{refused}");
}

/// A busy server is asked again with the same report; a refusal is final.
fn check_retry(recipe: Recipe) {
    let receiver = Receiver::start();
    let url = receiver.url.strip_suffix("/events").unwrap().to_owned();
    let answered = AtomicUsize::new(0);
    receiver.answers(move |_| if answered.fetch_add(1, Ordering::SeqCst) == 0 { 503 } else { 200 });
    recipe.run(&url, None).ok();
    let received = receiver.received();
    assert_eq!(received.len(), 2, "{received:?}");
    assert_eq!(received[0].body, received[1].body);

    receiver.answers(|_| 422);
    let refused = recipe.run(&url, None).fails(1);
    assert!(refused.contains("report refused: 422"), "{refused}");
    assert_eq!(receiver.received().len(), 3);
}

#[test]
fn the_python_recipe_reports_a_letter_and_retries() {
    check_report(PYTHON);
    check_retry(PYTHON);
}

#[test]
fn the_node_recipe_reports_a_letter_and_retries() {
    check_report(NODE);
    check_retry(NODE);
}

#[test]
fn the_java_recipe_reports_a_letter_and_retries() {
    check_report(JAVA);
    check_retry(JAVA);
}

#[test]
fn the_ruby_recipe_reports_a_letter_and_retries() {
    check_report(RUBY);
    check_retry(RUBY);
}

#[test]
fn the_php_recipe_reports_a_letter_and_retries() {
    check_report(PHP);
    check_retry(PHP);
}

/// The example receiver; it is killed when the test ends.
struct ExampleReceiver {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl ExampleReceiver {
    fn start(secret: &str) -> ExampleReceiver {
        let mut command = Command::new("python3");
        command.arg(example("receiver.py")).arg("0").env("SECRET", secret);
        let mut child = start("python3", "python3", &mut command);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        ExampleReceiver { child, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the receiver goes on").unwrap()
    }
}

impl Drop for ExampleReceiver {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The example receiver, and a server with the example configuration that redrives to it, signed.
fn receiver_and_server() -> (ExampleReceiver, Server) {
    let secret = "0123456789abcdef0123456789abcdef";
    let mut receiver = ExampleReceiver::start(secret);
    let url = receiver.line().strip_prefix("receiving on ").unwrap().to_owned();
    let config = std::fs::read_to_string(example("redrive.toml")).unwrap();
    let default = "http://127.0.0.1:8090/events";
    assert!(config.contains(default), "{config}");
    let desk = Desk::new();
    desk.file("lazaret.toml", &format!("{}\nsecret = \"{secret}\"\n", config.replace(default, &url)));
    (receiver, Server::start_on(desk))
}

/// The commands of the README from a dead letter to a redrive, but for the first block, which starts the two.
#[test]
fn the_readme_leads_from_a_dead_letter_to_a_redriven_one() {
    let readme = include_str!("../../../../README.md");
    let (_, section) = readme.split_once("## From a dead letter to a redrive\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut blocks = section.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let starts = blocks.next().unwrap();
    assert!(starts.contains("examples/receiver.py") && starts.contains("examples/redrive.toml"), "{starts}");
    let commands: String = blocks.collect();
    assert!(commands.contains("localhost:7070"), "{commands}");

    let (mut receiver, server) = receiver_and_server();
    let address = server.url.strip_prefix("http://").unwrap();
    let script = server.desk.file("readme.sh", &commands.replace("localhost:7070", address));
    let lazaret = "lazaret() { \"$LAZARET_PROGRAM\" \"$@\"; }; . \"$0\"";
    let output = Command::new("bash")
        .args(["-c", lazaret, arg(&script)])
        .env("LAZARET_PROGRAM", env!("CARGO_BIN_EXE_lazaret"))
        .env("LAZARET_URL", &server.url)
        .env_remove("LAZARET_TOKEN")
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}");
    for said in ["resolved", "unaccounted: 0"] {
        assert!(stdout.contains(said), "{said} is missing in\n{stdout}");
    }
    let processed = receiver.line();
    assert!(processed.starts_with("processed {\"eventId\": \"evt-1001\""), "{processed}");
}
