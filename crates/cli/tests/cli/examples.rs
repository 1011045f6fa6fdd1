//! The workers in `examples/` as a person runs them: the real interpreters against a real server.

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::running::{Desk, Server};
use crate::tail::Tail;
use crate::torture::call;

/// A language that there is a worker in.
#[derive(Clone, Copy)]
struct Language {
    program: &'static str,
    debian_package: &'static str,
    script: &'static str,
    /// The error that its `demo.fail` throws.
    error: &'static str,
}

const PYTHON: Language =
    Language { program: "python3", debian_package: "python3", script: "worker.py", error: "ValueError" };
const JAVASCRIPT: Language =
    Language { program: "node", debian_package: "nodejs", script: "worker.mjs", error: "RangeError" };

/// A worker process; it is killed when the test ends.
struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(language: Language, server: &Server) -> Worker {
        let Language { program, debian_package, script, .. } = language;
        let examples: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples"].iter().collect();
        let mut child = Command::new(program)
            .arg(examples.join(script))
            .args([server.url.as_str(), "default"])
            .env("BEAT_S", "0.1")
            .env_remove("LAZARET_TOKEN")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "cannot start {program}: {error}\nhint: `cargo xtask test` installs what is missing on Debian, \
                     or run as root: apt-get install -y --no-install-recommends {debian_package}"
                )
            });
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Worker { child, lines }
    }

    /// Waits for the line that begins so, and gives it with those before it.
    #[track_caller]
    fn says(&mut self, beginning: &str) -> Vec<String> {
        let mut said = Vec::new();
        for line in self.lines.by_ref() {
            said.push(line.unwrap());
            if said.last().unwrap().starts_with(beginning) {
                return said;
            }
        }
        panic!("the worker ended without saying {beginning:?}, but: {said:?}");
    }

    /// Waits for its end, and gives how it ended and what it said before.
    fn ends(mut self) -> (Option<i32>, Vec<String>) {
        let said = self.lines.by_ref().map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), said)
    }

    fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[track_caller]
fn ask(server: &Server, method: &str, path: &str, body: &str) -> Value {
    let address = server.url.strip_prefix("http://").unwrap();
    let (status, answer) = call(address, method, path, "application/json", body).unwrap();
    assert!((200..300).contains(&status), "{path}: {status} {answer}");
    answer
}

/// Pushes a job and gives its id.
#[track_caller]
fn push(server: &Server, job_type: &str, args: Value, options: Value) -> String {
    let job = json!({"type": job_type, "args": args, "options": options});
    let answer = ask(server, "POST", "/ojs/v1/jobs", &job.to_string());
    answer["job"]["id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn job(server: &Server, id: &str) -> Value {
    ask(server, "GET", &format!("/ojs/v1/jobs/{id}"), "")["job"].take()
}

/// What becomes a dead letter after so many attempts.
fn dead_after(attempts: u32) -> Value {
    json!({
        "visibility_timeout_ms": 500,
        "retry": {"max_attempts": attempts, "initial_interval": "PT0.01S", "on_exhaustion": "dead_letter"},
    })
}

fn check_success_and_failure(language: Language) {
    let server = Server::start();
    let good = push(&server, "demo.greet", json!(["Ada"]), json!({}));
    let bad = push(&server, "demo.fail", json!(["screws"]), dead_after(2));
    let mut worker = Worker::start(language, &server);
    worker.says(&format!("done {good} completed"));
    worker.says(&format!("failed {bad} retryable"));
    worker.says(&format!("failed {bad} discarded"));
    let good = job(&server, &good);
    assert_eq!((&good["state"], &good["result"]), (&json!("completed"), &json!({"greeting": "hello Ada"})));
    let dead = ask(&server, "GET", &format!("/ojs/v1/dead-letter/{bad}"), "");
    let errors = dead["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 2, "{dead}");
    for error in errors {
        assert_eq!(error["type"], language.error);
        assert_eq!(error["message"], "no screws in stock");
        let backtrace = error["backtrace"].as_array().unwrap();
        assert!(backtrace.iter().any(|line| line.as_str().unwrap().contains(language.script)), "{error}");
    }
}

#[test]
fn a_python_worker_succeeds_and_fails() {
    check_success_and_failure(PYTHON);
}

#[test]
fn a_javascript_worker_succeeds_and_fails() {
    check_success_and_failure(JAVASCRIPT);
}

/// A worker whose handlers were changed, as they are meant to be.
fn changed(language: Language, server: &Server, changes: &[(&str, &str)]) -> Worker {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "examples", language.script].iter().collect();
    let mut text = std::fs::read_to_string(path).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    server.desk.file(language.script, &text);
    let script = server.desk.folder.path().join(language.script).to_str().unwrap().to_owned();
    Worker::start(Language { script: script.leak(), ..language }, server)
}

/// One bad handler must not take the workers down one after the other: its job fails, and they go on.
fn check_bad_handlers(language: Language, changes: &[(&str, &str)]) {
    let server = Server::start();
    let once = json!({"retry": {"max_attempts": 1}});
    let odd = push(&server, "demo.greet", json!(["Ada"]), once.clone());
    let thrown = push(&server, "demo.fail", json!(["screws"]), once);
    let mut worker = changed(language, &server, changes);
    worker.says(&format!("failed {odd} discarded"));
    worker.says(&format!("failed {thrown} discarded"));
    assert!(job(&server, &thrown)["error"]["message"].as_str().unwrap().contains("no screws"));
}

#[test]
fn a_python_worker_outlives_bad_handlers() {
    check_bad_handlers(PYTHON, &[("return {\"greeting\"", "return {0j}, {\"greeting\"")]);
}

#[test]
fn a_javascript_worker_outlives_bad_handlers() {
    check_bad_handlers(JAVASCRIPT, &[("greeting: ", "odd: 1n, greeting: "), ("new RangeError(", "String(")]);
}

fn check_death(language: Language, rescuer: Language) {
    let server = Server::start();
    let id = push(&server, "demo.die", json!([]), dead_after(2));
    let (code, said) = Worker::start(language, &server).ends();
    assert_eq!((code, said), (Some(1), vec![format!("began {id}")]));
    let mut next = Worker::start(rescuer, &server);
    next.says(&format!("done {id} completed"));
    let job = job(&server, &id);
    assert_eq!((&job["attempt"], &job["result"]), (&json!(2), &json!({"survived": true})));
    assert_eq!(job["errors"][0]["type"], "visibility_timeout", "{job}");

    let lost = push(&server, "demo.die", json!([]), dead_after(1));
    let mut tail =
        Tail::start(&server.desk, &server.url, &["--from-start", "--kind", "dead_letter.added", "--json"]);
    assert_eq!(next.ends(), (Some(1), vec![format!("began {lost}")]));
    tail.json();
    let dead = ask(&server, "GET", &format!("/ojs/v1/dead-letter/{lost}"), "");
    assert_eq!(dead["errors"][0]["type"], "visibility_timeout", "{dead}");
}

#[test]
fn what_a_dead_python_worker_held_is_done_by_another_or_dead_when_no_attempt_is_left() {
    check_death(PYTHON, JAVASCRIPT);
}

#[test]
fn what_a_dead_javascript_worker_held_is_done_by_another_or_dead_when_no_attempt_is_left() {
    check_death(JAVASCRIPT, PYTHON);
}

fn check_graceful_end(language: Language) {
    let server = Server::start();
    let begun = push(&server, "demo.wait", json!([4]), json!({"visibility_timeout_ms": 3000}));
    let waiting = push(&server, "demo.greet", json!(["Ada"]), json!({}));
    let mut worker = Worker::start(language, &server);
    worker.says(&format!("began {begun}"));
    worker.terminate();
    assert_eq!(worker.ends(), (Some(0), vec![format!("done {begun} completed")]));
    assert_eq!(job(&server, &waiting)["state"], "available");
}

#[test]
fn a_python_worker_that_is_asked_to_end_finishes_its_job_and_fetches_no_other() {
    check_graceful_end(PYTHON);
}

#[test]
fn a_javascript_worker_that_is_asked_to_end_finishes_its_job_and_fetches_no_other() {
    check_graceful_end(JAVASCRIPT);
}

/// The server wishes for a state by the answer to a heartbeat; in test mode a job says which.
fn check_wishes(language: Language) {
    let server = Server::start_with(Desk::new(), &["--test-mode"]);
    let wishing = |state: &str| json!({"metadata": {"test_directive": state}});
    let quiet = push(&server, "demo.wait", json!([1]), wishing("quiet"));
    let last = push(&server, "demo.wait", json!([1]), wishing("terminate"));
    let waiting = push(&server, "demo.greet", json!(["Ada"]), json!({}));
    let mut worker = Worker::start(language, &server);
    worker.says(&format!("began {quiet}"));
    worker.says("state quiet");
    // It begins nothing before the next answer lets it go on.
    let said = worker.says("state running");
    assert!(!said.iter().any(|line| line.starts_with("began ")), "{said:?}");
    worker.says(&format!("began {last}"));
    let (code, said) = worker.ends();
    assert_eq!((code, said[0].as_str()), (Some(0), "state terminate"), "{said:?}");
    assert!(said.contains(&format!("done {last} completed")), "{said:?}");
    assert_eq!(job(&server, &waiting)["state"], "available");
}

#[test]
fn a_python_worker_does_as_the_server_wishes() {
    check_wishes(PYTHON);
}

#[test]
fn a_javascript_worker_does_as_the_server_wishes() {
    check_wishes(JAVASCRIPT);
}
