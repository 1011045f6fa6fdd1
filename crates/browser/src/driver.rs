//! One `chromedriver` with one Chromium in a profile folder of its own, and the wire to it. Both end with it.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::look::Look;
use crate::seats::Seat;

/// The longest that one command may take on a machine that is busy with other tests.
const ANSWER_MAX: Duration = Duration::from_secs(90);

const MISSING: &str = "chromium and chromedriver are needed; `cargo xtask test` installs them \
                       (Debian: apt-get install chromium chromium-driver)";

/// Why a command was not done, in the words of WebDriver.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: String,
    message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The rest are addresses inside of Chromium.
        write!(f, "{}: {}", self.error, self.message.lines().next().unwrap_or_default())
    }
}

impl Refusal {
    /// Whether the same command may succeed a moment later: the page was about to change.
    pub(crate) fn may_pass(&self) -> bool {
        const LASTING: [&str; 6] = [
            "invalid session id",
            "no such window",
            "unexpected alert open",
            "invalid argument",
            "invalid selector",
            "unknown command",
        ];
        !LASTING.contains(&self.error.as_str())
    }
}

/// A session: one window of one Chromium.
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    port: u16,
    session: String,
    chromium: Option<u64>,
    // In this order: the folder goes when nobody writes to it any more, and only then may the next one start.
    folder: TempDir,
    _seat: Seat,
}

/// How often a Chromium or its driver is started that does not come up.
const STARTS_MAX: usize = 3;

impl Driver {
    pub(crate) fn start(look: Look) -> Driver {
        let seat = Seat::take();
        let folder = tempfile::Builder::new().prefix("lazaret-browser-").tempdir().unwrap();
        let (child, port) = start_chromedriver(folder.path());
        let mut driver = Driver { child, port, session: String::new(), chromium: None, folder, _seat: seat };
        let profile = driver.folder.path().join("profile");
        let asked = look.capabilities(profile.to_str().unwrap());
        let mut started = driver.send("POST", "/session", &asked);
        // On a machine that is short of time Chromium gives up now and then before it is there.
        for _ in 1..STARTS_MAX {
            if started.is_ok() {
                break;
            }
            started = driver.send("POST", "/session", &asked);
        }
        let started = started.unwrap_or_else(|refusal| panic!("{refusal}; {MISSING}"));
        driver.session = started["sessionId"].as_str().expect("a session has an id").to_owned();
        driver.chromium = started["capabilities"]["goog:processID"].as_u64();
        driver
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// One command of the session: `url`, `element/…/click`.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.send(method, &format!("/session/{}/{path}", self.session), body)
    }

    /// One command of the protocol that Chromium's own tools speak.
    pub(crate) fn tool(&self, command: &str, parameters: &Value) -> Result<Value, Refusal> {
        self.ask("POST", "goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Refusal> {
        let (status, answer) = self.exchange(method, path, body).unwrap_or_else(|error| {
            panic!("chromedriver does not answer {method} {path}: {error}");
        });
        let mut answer: Value = serde_json::from_slice(&answer).expect("chromedriver answers JSON");
        let value = answer["value"].take();
        if status == 200 {
            return Ok(value);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Err(Refusal { error: text("error"), message: text("message") })
    }

    /// A connection for each command: there is nothing to gain on loopback, and nothing to go stale.
    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Vec<u8>)> {
        let body = if method == "POST" { body.to_string() } else { String::new() };
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.port,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        Ok((status, answer))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // What is left in spite of it is killed below; a test that failed must not fail twice.
            self.exchange("DELETE", &format!("/session/{}", self.session), &Value::Null).ok();
        }
        if let Some(pid) = self.chromium.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status().ok();
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts it on a port that it chooses itself. It takes one that is free for one kind of address and ends if somebody has it
/// for the other, which many servers beside it make likely: then it is started again.
fn start_chromedriver(folder: &Path) -> (Child, u16) {
    let mut said = String::new();
    for _ in 0..STARTS_MAX {
        match try_chromedriver(folder) {
            Ok(started) => return started,
            Err(log) => said.push_str(&log),
        }
    }
    panic!("chromedriver did not start: {said}");
}

/// Starts it with nothing of the user's own settings; if it ends at once, gives what it said.
fn try_chromedriver(folder: &Path) -> Result<(Child, u16), String> {
    let mut child = Command::new("chromedriver")
        .arg("--port=0")
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("XDG_CONFIG_HOME", folder)
        .env("XDG_CACHE_HOME", folder)
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start chromedriver: {error}; {MISSING}"));
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut log = String::new();
    let port = loop {
        let begin = log.len();
        if said.read_line(&mut log).unwrap() == 0 {
            child.wait().ok();
            return Err(log);
        }
        let words = log[begin..].split_once("started successfully on port ");
        if let Some(port) = words.and_then(|(_, port)| port.trim().trim_end_matches('.').parse().ok()) {
            break port;
        }
    };
    // What it says afterwards has to go somewhere.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    Ok((child, port))
}
