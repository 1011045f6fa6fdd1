//! Object storage on this machine: emulators of S3 (moto), Azure (Azurite) and Google (gcp-storage-emulator), each with one
//! bucket `letters`, a folder of its own and a port that was free. Gone with the test.
//!
//! `cargo xtask test` installs them (`xtask/src/python.rs`, `xtask/src/azurite.rs`); without them a test fails and says so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use lazaret_server::config::{ArchiveConfig, ArchiveUrl, Cloud};
use sha2::Sha256;
use tempfile::TempDir;

use super::python::{cache, program};

/// What must never be told. Azure's keys are Base64, and so is this one.
pub const SECRET: &str = "YSBzZWNyZXQgdGhhdCBub2JvZHkgc2hhbGwgcmVhZA==";

const ACCOUNT: &str = "lazaret";

pub struct Storage {
    cloud: Cloud,
    child: Child,
    /// The one for Google ends when this closes.
    _stdin: Option<ChildStdin>,
    host: String,
    _folder: TempDir,
}

impl Storage {
    /// Starts the emulator of a cloud and makes its bucket.
    pub fn start(cloud: Cloud) -> Storage {
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(cloud, folder.path());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let said: Box<dyn Read + Send> = match (child.stderr.take(), child.stdout.take()) {
            (Some(stderr), _) => Box::new(stderr),
            (None, Some(stdout)) => Box::new(stdout),
            (None, None) => unreachable!("one of them is piped"),
        };
        let mut said = BufReader::new(said);
        let (mut log, mut port) = (String::new(), None);
        while port.is_none() {
            assert!(said.read_line(&mut log).unwrap() > 0, "it did not start: {log}");
            port = announced(cloud, &log);
        }
        // What it says afterwards has to go somewhere.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let host = format!("127.0.0.1:{}", port.unwrap());
        let storage = Storage { cloud, _stdin: child.stdin.take(), child, host, _folder: folder };
        match cloud {
            Cloud::S3 => assert_eq!(storage.request("PUT", "/letters", "").0, 200),
            Cloud::Azure => {
                assert_eq!(storage.request("PUT", "/lazaret/letters", "restype=container").0, 201)
            }
            // It was told to.
            Cloud::Google => {}
        }
        storage
    }

    /// Sets the archive to this storage; returns what the environment has to hold.
    pub fn configure(&self, config: &mut ArchiveConfig) -> Vec<(&'static str, String)> {
        let url = format!("{}://letters/some/where", self.cloud.scheme());
        config.url = Some(ArchiveUrl::parse(&url).unwrap());
        config.allow_http = true;
        let endpoint = match self.cloud {
            Cloud::S3 | Cloud::Google => format!("http://{}", self.host),
            Cloud::Azure => format!("http://{}/{ACCOUNT}", self.host),
        };
        config.endpoint = Some(endpoint);
        match self.cloud {
            Cloud::S3 => vec![
                ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ],
            Cloud::Azure => vec![
                ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
                ("AZURE_STORAGE_ACCOUNT_KEY", SECRET.to_owned()),
            ],
            // The emulator asks for no proof.
            Cloud::Google => vec![(
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                format!(
                    r#"{{"private_key":"{SECRET}","private_key_id":"1","client_email":"l@example.org","disable_oauth":true}}"#
                ),
            )],
        }
    }

    /// What is under a key.
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        let (status, body) = self.request("GET", &self.path(key), "");
        (status == 200).then_some(body)
    }

    pub fn remove(&self, key: &str) {
        let (status, _) = self.request("DELETE", &self.path(key), "");
        assert!(matches!(status, 202 | 204), "{status}");
    }

    fn path(&self, key: &str) -> String {
        match self.cloud {
            Cloud::S3 | Cloud::Google => format!("/letters/{key}"),
            Cloud::Azure => format!("/{ACCOUNT}/letters/{key}"),
        }
    }

    /// Sends a request without a body, as somebody who may do it.
    fn request(&self, method: &str, path: &str, query: &str) -> (u16, Vec<u8>) {
        let proof = match self.cloud {
            Cloud::S3 => "Authorization: AWS testing:x\r\n".to_owned(),
            Cloud::Azure => self.signed(method, path, query),
            Cloud::Google => String::new(),
        };
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let (head, body) = self.send(method, &target, &proof);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{head}")), body)
    }

    /// The headers by which Azure knows who asks.
    fn signed(&self, method: &str, path: &str, query: &str) -> String {
        let (head, _) = self.send("GET", "/", "");
        let date = head.lines().find_map(|line| line.strip_prefix("Date: ")).expect("it has a clock").trim();
        let query = query.replace('=', ":");
        let resource =
            if query.is_empty() { format!("/{ACCOUNT}{path}") } else { format!("/{ACCOUNT}{path}\n{query}") };
        let headers = format!("x-ms-date:{date}\nx-ms-version:2021-08-06");
        let mut mac = Hmac::<Sha256>::new_from_slice(&STANDARD.decode(SECRET).unwrap()).unwrap();
        mac.update(format!("{method}{}{headers}\n{resource}", "\n".repeat(12)).as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        format!(
            "x-ms-date: {date}\r\nx-ms-version: 2021-08-06\r\nAuthorization: SharedKey {ACCOUNT}:{signature}\r\n"
        )
    }

    fn send(&self, method: &str, target: &str, headers: &str) -> (String, Vec<u8>) {
        let host = &self.host;
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} {target} HTTP/1.0\r\nHost: {host}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        (String::from_utf8_lossy(&answer[..head]).into_owned(), answer[head + 4..].to_vec())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The program of a cloud, with one of its outputs piped: the one on which it says where it listens.
fn command(cloud: Cloud, folder: &std::path::Path) -> Command {
    let mut command;
    match cloud {
        Cloud::S3 => {
            command = Command::new(program("moto_server"));
            command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        }
        Cloud::Azure => {
            let azurite = cache().join("lazaret-azurite/3.37.0/node_modules/azurite/dist/src/blob/main.js");
            assert!(azurite.is_file(), "{} is missing; `cargo xtask test` installs it", azurite.display());
            command = Command::new("node");
            command
                .arg(azurite)
                .args(["--blobHost", "127.0.0.1", "--blobPort", "0", "--location"])
                .arg(folder);
            command.args(["--disableTelemetry", "--skipApiVersionCheck"]);
            command.env("AZURITE_ACCOUNTS", format!("{ACCOUNT}:{SECRET}"));
            command.stdout(Stdio::piped()).stderr(Stdio::null());
        }
        Cloud::Google => {
            command = Command::new(program("python"));
            command.args(["-c", include_str!("emulators/google.py")]).arg(folder);
            command.stdout(Stdio::piped()).stderr(Stdio::null());
        }
    }
    command.current_dir(folder);
    command
}

/// The port that it listens on, once it has said so.
fn announced(cloud: Cloud, log: &str) -> Option<u16> {
    match cloud {
        Cloud::S3 => {}
        Cloud::Azure if log.contains("successfully listens on") => {}
        Cloud::Google => return log.trim().parse().ok(),
        Cloud::Azure => return None,
    }
    let (_, rest) = log.rsplit_once("http://127.0.0.1:")?;
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok().filter(|port| *port > 0)
}
