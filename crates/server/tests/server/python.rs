//! Programs in Python that the tests ask: an S3 that stands on this machine, and a reader of Parquet that is not ours.
//!
//! `cargo xtask test` installs them (`xtask/src/python.rs`); without them a test fails and says so.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a program may take to start on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program of the tests' own Python.
fn program(name: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let path = cache.unwrap_or_default().join("lazaret-python/bin").join(name);
    assert!(path.is_file(), "{} is missing; `cargo xtask test` installs it", path.display());
    path
}

/// Every row of a file, as pyarrow reads it: binary values as hex, times as text.
pub fn rows(file: &Path) -> Value {
    const SCRIPT: &str = r#"
import datetime, json, sys
import pyarrow.parquet as pq

def plain(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime):
        assert value.utcoffset() == datetime.timedelta(0), value
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (value.microsecond // 1000)
    raise TypeError(repr(value))

file = pq.ParquetFile(sys.argv[1])
meta = {k.decode(): v.decode() for k, v in file.metadata.metadata.items() if k.startswith(b"lazaret")}
codecs = sorted({
    file.metadata.row_group(g).column(c).compression
    for g in range(file.metadata.num_row_groups)
    for c in range(file.metadata.num_columns)
})
print(json.dumps({"metadata": meta, "codecs": codecs, "rows": file.read().to_pylist()}, default=plain))
"#;
    let mut python = Command::new(program("python"));
    let output = python.args(["-c", SCRIPT]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An S3 on this machine, gone with the test.
pub struct S3 {
    child: Child,
    pub url: String,
}

impl S3 {
    /// Starts it with one bucket, which is called `letters`.
    pub fn start() -> S3 {
        // Taken by nobody a moment ago; another program that takes it meanwhile fails the test, and not silently.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new(program("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let (mut log, until) = (String::new(), Instant::now() + PATIENCE);
        while !log.contains("Running on") {
            assert!(said.read_line(&mut log).unwrap() > 0, "it did not start: {log}");
            assert!(Instant::now() < until, "it does not start: {log}");
        }
        // What it says afterwards has to go somewhere.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let s3 = S3 { child, url: format!("http://127.0.0.1:{port}") };
        let answer = s3.request("PUT", "/letters");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        s3
    }

    /// What is under a key.
    pub fn object(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.bytes("GET", &format!("/letters/{key}"));
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        answer.starts_with(b"HTTP/1.1 200").then(|| answer[head + 4..].to_vec())
    }

    pub fn remove(&self, key: &str) {
        let answer = self.request("DELETE", &format!("/letters/{key}"));
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    fn request(&self, method: &str, path: &str) -> String {
        String::from_utf8_lossy(&self.bytes(method, path)).into_owned()
    }

    fn bytes(&self, method: &str, path: &str) -> Vec<u8> {
        use std::io::Write;
        let host = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: AWS testing:x\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
