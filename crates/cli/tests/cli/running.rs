//! Runs the binary: a server that ends with its test, and commands that talk to it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Stdout of a command that had to succeed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Stderr of a command that had to end with this code.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }
}

/// A folder to run in, with nothing of this machine's settings.
pub struct Desk {
    pub folder: TempDir,
    env: Vec<(String, String)>,
}

impl Desk {
    pub fn new() -> Desk {
        Desk { folder: tempfile::tempdir().unwrap(), env: Vec::new() }
    }

    pub fn with_env(mut self, name: &str, value: &str) -> Desk {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn without_env(mut self, name: &str) -> Desk {
        self.env.retain(|(set, _)| set != name);
        self
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lazaret"));
        command.args(args).current_dir(self.folder.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LAZARET_") || name == "NO_COLOR" {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with_input(args, b"")
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that does not read its input closes it, which is none of this test's business.
        let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running server; it is killed when the test ends.
pub struct Server {
    child: Child,
    pub url: String,
    pub desk: Desk,
    /// Kept open, so that the server can write to it.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    pub fn start() -> Server {
        Server::start_on(Desk::new())
    }

    pub fn start_on(desk: Desk) -> Server {
        Server::start_with(desk, &[])
    }

    /// Starts the server with more arguments.
    pub fn start_with(desk: Desk, args: &[&str]) -> Server {
        Server::start_as(desk, &[&["serve", "--listen", "127.0.0.1:0"], args].concat())
    }

    /// Starts the server and keeps what it logs in a file.
    pub fn start_logging(desk: Desk, log: &Path) -> Server {
        let log = std::fs::File::create(log).unwrap();
        Server::start_telling(desk, &["serve", "--listen", "127.0.0.1:0"], log.into())
    }

    /// Starts a command that serves and waits for the line that says where it listens.
    pub fn start_as(desk: Desk, args: &[&str]) -> Server {
        Server::start_telling(desk, args, Stdio::null())
    }

    fn start_telling(desk: Desk, args: &[&str], log: Stdio) -> Server {
        let mut child =
            desk.command(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let url = line
            .strip_prefix("listening on ")
            .expect("the first line says where it listens")
            .trim()
            .to_owned();
        Server { child, url, desk, _stdout: stdout }
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.desk.run(&[&["--url", &self.url], args].concat())
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        self.desk.run_with_input(&[&["--url", &self.url], args].concat(), input)
    }

    /// The answer of a command with `--json`.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.run(&[args, &["--json"]].concat()).ok()).unwrap()
    }

    /// Reports one letter and gives its id.
    pub fn letter(&self, event: &str, letter_type: &str) -> String {
        let entry = entry(event, letter_type);
        let answer = self.run_with_input(&["report", "--json"], entry.as_bytes()).ok();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        answer["items"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Ends the server as an operator would, and gives back its desk.
    pub fn stop(mut self) -> Desk {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.child.wait().unwrap().success(), "the server did not end well");
        std::mem::replace(&mut self.desk, Desk::new())
    }

    /// Ends the server as a crash would: no handler runs, nothing is flushed. Gives back its desk.
    pub fn kill(mut self) -> Desk {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::replace(&mut self.desk, Desk::new())
    }

    /// Waits for a server that ends by itself; says how it ended and gives back its desk.
    pub fn ended(mut self) -> (std::process::ExitStatus, Desk) {
        let status = self.child.wait().unwrap();
        (status, std::mem::replace(&mut self.desk, Desk::new()))
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn data(&self) -> PathBuf {
        self.desk.folder.path().join("lazaret-data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// An entry as a program reports it, on one line.
pub fn entry(event: &str, letter_type: &str) -> String {
    format!(
        r#"{{"eventId":"{event}","originalEvent":{{"pattern":"{letter_type}","amount":12345678901234567890.10}},"error":{{"type":"TimeoutError","message":"no answer from {event}"}}}}"#
    )
}

/// The path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
