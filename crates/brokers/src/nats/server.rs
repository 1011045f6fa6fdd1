//! One server: started, stopped, killed and started again on the same port and folder.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nkeys::KeyPair;
use tempfile::TempDir;

use super::accounts::Accounts;
use crate::certificates::Certificates;
use crate::port::free_port;
use crate::programs::Version;

/// A server that recovers its streams on a machine that is busy with other tests.
const START_MAX: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits on a pipe for the signal to send. If the pipe closes without one, the test was killed: the server is killed and its
/// folder is removed.
const SHELL: &str = r#"
"$1" -c "$2/server.conf" >>"$2/log" 2>&1 </dev/null &
server=$!
if read -r signal; then
    kill "-$signal" "$server"
    wait "$server"
else
    kill -KILL "$server"
    wait "$server"
    rm -rf "$2"
fi
"#;

/// Who may connect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Access {
    #[default]
    Anyone,
    Token(String),
    User {
        user: String,
        password: String,
    },
    /// The holder of a generated key; `Server::nkey_seed` has it.
    Nkey,
    /// The holder of a generated credentials file; `Server::credentials` has its path.
    Credentials,
}

/// How a server is started.
#[derive(Debug, Default)]
pub struct Options {
    pub version: Version,
    pub access: Access,
    /// Refuses connections without TLS.
    pub tls: Option<Certificates>,
    /// Refuses clients without a certificate of the same authority; needs `tls`.
    pub verifies_clients: bool,
    /// More lines for the server's configuration file.
    pub settings: String,
}

/// A running server with JetStream on a loopback port; it is killed when it is dropped, and its folder goes with it.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    name: String,
    tls: Option<Certificates>,
    nkey_seed: Option<String>,
    /// None while the server is down.
    shell: Option<Child>,
}

impl Server {
    /// Starts a server that anyone may use.
    pub fn start(version: Version) -> Server {
        Server::start_with(Options { version, ..Options::default() })
    }

    pub fn start_with(options: Options) -> Server {
        let mut server = Server::prepare(options, "");
        server.start_again();
        server
    }

    /// A server that is not running yet. `cluster` is part of its configuration.
    pub(crate) fn prepare(options: Options, cluster: &str) -> Server {
        let folder = tempfile::Builder::new().prefix("lazaret-nats-").tempdir();
        let folder = folder.expect("the temporary folder is writable");
        let port = free_port();
        let mut server = Server {
            program: options.version.program(),
            name: format!("{}-{port}", std::process::id()),
            folder,
            port,
            tls: options.tls,
            nkey_seed: None,
            shell: None,
        };
        let access = server.access(&options.access);
        let verify = options.verifies_clients;
        server.configure(verify, &format!("{access}{}\n{cluster}", options.settings));
        server
    }

    /// The part of the configuration that says who may connect; makes the keys that it names.
    fn access(&mut self, access: &Access) -> String {
        match access {
            Access::Anyone => String::new(),
            Access::Token(token) => format!("authorization {{ token: {token:?} }}\n"),
            Access::User { user, password } => {
                format!("authorization {{ user: {user:?}, password: {password:?} }}\n")
            }
            Access::Nkey => {
                let pair = KeyPair::new_user();
                self.nkey_seed = Some(pair.seed().expect("a generated pair has a seed"));
                format!("authorization {{ users: [ {{ nkey: {} }} ] }}\n", pair.public_key())
            }
            Access::Credentials => {
                let accounts = Accounts::generate();
                std::fs::write(self.credentials(), &accounts.credentials).expect("the folder is ours");
                accounts.settings()
            }
        }
    }

    fn configure(&self, verify: bool, more: &str) {
        let folder = self.folder.path().display();
        let mut text = format!(
            "listen: \"127.0.0.1:{}\"\nserver_name: \"{}\"\njetstream {{ store_dir: \"{folder}/data\" }}\n",
            self.port, self.name
        );
        if let Some(certificates) = &self.tls {
            let [certificate, key, ca] =
                ["server.pem", "server.key", "ca.pem"].map(|name| certificates.file(name));
            writeln!(
                text,
                "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: {verify} }}",
                certificate.display(),
                key.display(),
                ca.display()
            )
            .expect("a string takes any text");
        }
        text.push_str(more);
        std::fs::write(self.folder.path().join("server.conf"), text).expect("the folder is ours");
    }

    /// Starts the server after `kill` or `stop`, on the same port with the same data. Does nothing while it runs.
    pub fn start_again(&mut self) {
        self.launch();
        self.wait_until_ready();
    }

    pub(crate) fn launch(&mut self) {
        if self.shell.is_some() {
            return;
        }
        let shell = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .args([&self.program, self.folder.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.shell = Some(shell.expect("a shell runs"));
    }

    pub(crate) fn wait_until_ready(&self) {
        let until = Instant::now() + START_MAX;
        while !self.is_ready() {
            let log = self.log();
            let ended = log.contains("[FTL]") || log.lines().any(|line| line.starts_with("nats-server: "));
            assert!(!ended && Instant::now() < until, "nats-server does not start:\n{log}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Clients are let in after the streams are recovered. The first line that a client gets names the server, so a stranger on
    /// our port is not taken for ours.
    fn is_ready(&self) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else {
            return false;
        };
        let mut line = String::new();
        stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
            && BufReader::new(stream).read_line(&mut line).is_ok()
            && line.contains(&format!("\"server_name\":\"{}\"", self.name))
    }

    /// Ends the server as a power failure would; what it did not write is lost.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends the server as an operator would; it says goodbye to its clients first.
    pub fn stop(&mut self) {
        self.end("TERM");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut shell) = self.shell.take() else {
            return;
        };
        if let Some(mut pipe) = shell.stdin.take() {
            writeln!(pipe, "{signal}").ok();
        }
        // The shell ends after the server has.
        shell.wait().ok();
    }

    pub fn is_running(&self) -> bool {
        self.shell.is_some()
    }

    /// The address without any credentials: `nats://127.0.0.1:PORT`, or `tls://` where TLS is required.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "tls" } else { "nats" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref()
    }

    /// The key of the one who may connect, where `Access::Nkey` was asked for.
    pub fn nkey_seed(&self) -> Option<&str> {
        self.nkey_seed.as_deref()
    }

    /// The credentials file, which exists where `Access::Credentials` was asked for.
    pub fn credentials(&self) -> PathBuf {
        self.folder.path().join("user.creds")
    }

    /// The folder with the server's configuration, log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the server logged since its first start.
    pub fn log(&self) -> String {
        std::fs::read(self.folder.path().join("log"))
            .map(|log| String::from_utf8_lossy(&log).into_owned())
            .unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
