//! The server that is measured, as a process of its own, and what the operating system says about it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::failure::Failure;

/// A server of this program's own that ends with it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub url: String,
}

impl Server {
    /// Starts a server of the embedded store in `folder`, or of a PostgreSQL.
    pub fn start(folder: &Path, store: Option<&str>) -> anyhow::Result<Server> {
        let log = folder.join("server.log");
        let mut command = Server::command()?;
        command.args(["serve", "--listen", "127.0.0.1:0", "--test-mode", "--data"]).arg(folder.join("data"));
        command.stdin(Stdio::null()).stderr(std::fs::File::create(&log)?);
        if let Some(url) = store {
            // Command lines can be seen by others, and there may be a password in it.
            command.env("LAZARET_STORE", url);
        }
        let server = Server::announced(command);
        server.map_err(|error| match std::fs::read_to_string(&log) {
            Ok(log) if !log.trim().is_empty() => Failure::failed(format!("{error:#}: {}", log.trim())).into(),
            Ok(_) | Err(_) => error,
        })
    }

    /// Starts the server that only answers.
    pub fn start_null() -> anyhow::Result<Server> {
        let mut command = Server::command()?;
        command.args(["bench", "--null-server"]).stdin(Stdio::piped()).stderr(Stdio::null());
        Server::announced(command)
    }

    /// This program, without the settings of whoever runs it.
    fn command() -> anyhow::Result<Command> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LAZARET_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    fn announced(mut command: Command) -> anyhow::Result<Server> {
        let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start a server")?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line).context("the server says nothing")?;
        }
        match line.trim().strip_prefix("listening on ") {
            Some(url) => Ok(Server { url: url.to_owned(), child }),
            None => {
                child.kill().ok();
                child.wait().ok();
                Err(Failure::failed("the server did not start").into())
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What it stores is thrown away, so it need not be asked.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// What a process has used so far. Only Linux tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    pub cpu: Duration,
    /// Bytes that went to storage, or will.
    pub written: u64,
    pub resident: u64,
}

/// Milliseconds of the unit in which Linux counts processor time for programs.
const TICK_MS: u64 = 10;

impl Usage {
    pub fn of(pid: u32) -> Option<Usage> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
        let (stat, io, status) = (read("stat")?, read("io")?, read("status")?);
        // The name of the program stands in brackets and may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Usage {
            cpu: Duration::from_millis((ticks(11)? + ticks(12)?) * TICK_MS),
            written: field(&io, "write_bytes:")?,
            resident: field(&status, "VmRSS:")? * 1024,
        })
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_what_a_process_uses() {
        let Some(usage) = Usage::of(std::process::id()) else { return };
        assert!(usage.resident > 100_000, "{usage:?}");
        assert_eq!(Usage::of(u32::MAX), None);
    }
}
