//! RabbitMQ nodes: started, stopped, killed and started again on the same ports and folder.
//!
//! A node takes about ten seconds to start, so tests that do not stop it share one (`Server::shared`) and take a virtual host
//! each (`Server::vhost`).

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::port::free_port;

/// A node that recovers its queues on a machine that is busy with other tests.
const START_MAX: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Debian's package; the program on the `PATH` is a wrapper that changes the user.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Runs the port mapper and the node, and waits on a pipe for the signal to send. If the pipe closes without one, the test
/// was killed: the node is killed and its folder is removed.
const SHELL: &str = r#"
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" >/dev/null 2>&1 </dev/null &
epmd=$!
"$1" >>"$2/log" 2>&1 </dev/null &
node=$!
if read -r signal; then
    kill "-$signal" "$node"
    wait "$node"
    kill -KILL "$epmd"
else
    kill -KILL "$node" "$epmd"
    wait "$node"
    rm -rf "$2"
fi
"#;

/// How a node is started.
#[derive(Debug, Default)]
pub struct Options {
    /// Adds a listener that speaks TLS.
    pub tls: Option<Certificates>,
    /// More lines for `rabbitmq.conf`.
    pub settings: String,
}

/// A running node with the management plugin; it is killed when it is dropped, and its folder goes with it.
#[derive(Debug)]
pub struct Server {
    folder: TempDir,
    ports: Ports,
    tls: Option<Certificates>,
    /// None while the node is down.
    shell: Option<Child>,
}

#[derive(Clone, Copy, Debug)]
struct Ports {
    amqp: u16,
    amqps: u16,
    management: u16,
    distribution: u16,
    mapper: u16,
}

/// A virtual host of a node, for one test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vhost {
    /// Its name.
    pub name: String,
    /// The AMQP address with the credentials of `guest`.
    pub url: String,
    /// The address of the management API, without credentials.
    pub management_url: String,
}

impl Server {
    /// The node that all tests of a process share. It ends with the process.
    pub fn shared() -> &'static Server {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(Server::start)
    }

    pub fn start() -> Server {
        Server::start_with(Options::default())
    }

    pub fn start_with(options: Options) -> Server {
        assert!(
            Path::new(PROGRAM).is_file(),
            "rabbitmq-server is missing; `cargo xtask test` installs it (Debian: apt-get install rabbitmq-server)"
        );
        let folder = tempfile::Builder::new().prefix("lazaret-rabbitmq-").tempdir();
        let folder = folder.expect("the temporary folder is writable");
        let ports = Ports {
            amqp: free_port(),
            amqps: free_port(),
            management: free_port(),
            distribution: free_port(),
            mapper: free_port(),
        };
        let mut server = Server { folder, ports, tls: options.tls, shell: None };
        server.configure(&options.settings);
        server.start_again();
        server
    }

    fn configure(&self, more: &str) {
        let Ports { amqp, amqps, management, .. } = self.ports;
        let mut text = format!(
            "listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {management}\n\
             log.console.level = warning\n"
        );
        if let Some(certificates) = &self.tls {
            let [certificate, key, ca] =
                ["server.pem", "server.key", "ca.pem"].map(|name| certificates.file(name));
            writeln!(
                text,
                "listeners.ssl.1 = 127.0.0.1:{amqps}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
                 ssl_options.cacertfile = {}",
                certificate.display(),
                key.display(),
                ca.display()
            )
            .expect("a string takes any text");
        }
        text.push_str(more);
        let file = |name: &str| self.folder.path().join(name);
        std::fs::write(file("rabbitmq.conf"), text).expect("the folder is ours");
        std::fs::write(file("enabled_plugins"), "[rabbitmq_management].\n").expect("the folder is ours");
    }

    /// Starts the node after `kill` or `stop`, on the same ports with the same data. Does nothing while it runs.
    pub fn start_again(&mut self) {
        if self.shell.is_some() {
            return;
        }
        self.shell = Some(self.command().spawn().expect("a shell runs"));
        let until = Instant::now() + START_MAX;
        while !self.is_ready() {
            let ended = self.shell.as_mut().is_some_and(|shell| matches!(shell.try_wait(), Ok(Some(_))));
            assert!(!ended && Instant::now() < until, "rabbitmq-server does not start:\n{}", self.log());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn command(&self) -> Command {
        let folder = self.folder.path();
        let mut command = Command::new("sh");
        command
            .args(["-c", SHELL, "sh", PROGRAM])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir(folder)
            // The node's cookie is kept there.
            .env("HOME", folder)
            .env("RABBITMQ_NODENAME", self.node())
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("logs"))
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_DIST_PORT", self.ports.distribution.to_string())
            .env("ERL_EPMD_PORT", self.ports.mapper.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            // The script becomes the node instead of waiting for it, so that signals reach the node.
            .env("RUNNING_UNDER_SYSTEMD", "true")
            // An idle node does not spin. What a restarted node could not dead-letter at once, because the other queue was not
            // there yet, is tried again after some seconds and not after three minutes.
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none \
                 -rabbit dead_letter_worker_publisher_confirm_timeout 5000",
            );
        command
    }

    fn node(&self) -> String {
        format!("t{}@localhost", self.ports.amqp)
    }

    /// The management API names the node, so a stranger on our port is not taken for ours. It starts after the AMQP listener.
    fn is_ready(&self) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports.amqp));
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            && self.api("GET", "/api/overview", "").is_some_and(|body| body.contains(&self.node()))
    }

    /// Calls the management API as `guest` and returns the body of a successful answer.
    pub fn api(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let address = SocketAddr::from(([127, 0, 0, 1], self.ports.management));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
        let credentials = STANDARD.encode("guest:guest");
        // HTTP/1.0, so that the answer is not chunked and ends with the connection.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Basic {credentials}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let is_success = head.split(' ').nth(1).is_some_and(|status| status.starts_with('2'));
        is_success.then(|| body.to_owned())
    }

    /// Creates a virtual host that `guest` may use.
    pub fn vhost(&self) -> Vhost {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let all = r#"{"configure": ".*", "write": ".*", "read": ".*"}"#;
        for (path, body) in
            [(format!("/api/vhosts/{name}"), ""), (format!("/api/permissions/{name}/guest"), all)]
        {
            assert!(self.api("PUT", &path, body).is_some(), "{path} is refused:\n{}", self.log());
        }
        let url = format!("amqp://guest:guest@127.0.0.1:{}/{name}", self.ports.amqp);
        Vhost { url, management_url: self.management_url(), name }
    }

    /// Ends the node as a power failure would; what it did not write is lost.
    pub fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends the node as an operator would.
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
        // The shell ends after the node has.
        shell.wait().ok();
    }

    pub fn is_running(&self) -> bool {
        self.shell.is_some()
    }

    /// The AMQP address of the default virtual host, with the credentials of `guest`.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.ports.amqp)
    }

    /// The AMQP address over TLS, where `Options::tls` was given.
    pub fn tls_url(&self) -> String {
        format!("amqps://guest:guest@localhost:{}/%2f", self.ports.amqps)
    }

    pub fn management_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.management)
    }

    pub fn port(&self) -> u16 {
        self.ports.amqp
    }

    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref()
    }

    /// The folder with the node's configuration, log and data.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// What the node logged since its first start.
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
