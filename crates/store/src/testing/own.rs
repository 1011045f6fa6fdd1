//! A PostgreSQL of one test's own, to be stopped, started again, followed by a standby and promoted.
//!
//! Unlike the server that tests share it commits durably: it is there to be killed. Only the disk is not waited for, since
//! the machine stays up.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use super::{START_MAX, as_server, block_on, folder, give_to_server, host, make_cluster, programs, run_sql};

/// A server with a database `lazaret`; ends with the test, however that ends.
#[derive(Debug)]
pub struct OwnServer {
    folder: PathBuf,
    /// What it is started with beyond the usual.
    settings: String,
    /// Where it listens besides its socket.
    port: Option<u16>,
    /// Waits on a pipe, and stops the server and removes its folder when that closes.
    shell: Child,
}

/// How a server is stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Ends every session, then itself.
    Fast,
    /// Ends as in a crash, and recovers when it is started again.
    Immediate,
}

const SHELL: &str = r#"
read -r _
"$1/pg_ctl" -D "$2/data" -m immediate stop >/dev/null 2>&1
rm -rf "$2"
"#;

impl OwnServer {
    /// Makes a server and starts it.
    pub fn start() -> OwnServer {
        let server = OwnServer::prepare();
        make_cluster(&programs(), &server.folder);
        server.start_again();
        run_sql(&server.url_of("postgres"), "create database lazaret");
        server
    }

    /// Makes a server that also listens on loopback, with TLS and for those who know a password only.
    pub fn start_secret(certificate: &Path, key: &Path) -> OwnServer {
        const DOOR: &str = "local all all trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n";
        let mut server = OwnServer::start();
        server.stop(Stop::Fast);
        for (from, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let to = server.folder.join(name);
            std::fs::copy(from, &to).expect("the file is there");
            std::fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
            give_to_server(&to);
        }
        std::fs::write(server.folder.join("data/pg_hba.conf"), DOOR).expect("ours to write");
        let files = server.folder.display();
        server.settings =
            format!("-c ssl=on -c ssl_cert_file={files}/server.crt -c ssl_key_file={files}/server.key");
        let until = Instant::now() + START_MAX;
        loop {
            // Somebody else may take the port before the server does.
            server.port = Some(free_port());
            if server.try_start() {
                return server;
            }
            assert!(Instant::now() < until, "PostgreSQL does not start: {}", server.log());
        }
    }

    /// Makes a standby of a server, without whose word nothing is committed there from now on.
    pub fn standby_of(primary: &OwnServer) -> OwnServer {
        let standby = OwnServer::prepare();
        let from = format!("host={} user=postgres application_name=standby", primary.folder.display());
        let copied = as_server(&programs().join("pg_basebackup"))
            .args(["-d", &from, "-R", "-X", "stream", "-c", "fast", "-D"])
            .arg(standby.folder.join("data"))
            .output()
            .expect("pg_basebackup runs");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        standby.start_again();
        run_sql(&primary.url(), "alter system set synchronous_standby_names = 'standby'");
        run_sql(&primary.url(), "select pg_reload_conf()");
        let until = Instant::now() + START_MAX;
        while primary.number("select count(*) from pg_stat_replication where sync_state = 'sync'") != 1 {
            assert!(Instant::now() < until, "the standby does not follow: {}", standby.log());
        }
        standby
    }

    fn prepare() -> OwnServer {
        let folder = folder();
        let shell = as_server(Path::new("sh"))
            .args(["-c", SHELL, "sh"])
            .args([&programs(), &folder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell runs");
        OwnServer { folder, settings: String::new(), port: None, shell }
    }

    pub fn start_again(&self) {
        assert!(self.try_start(), "PostgreSQL does not start: {}", self.log());
    }

    fn try_start(&self) -> bool {
        let listen = if self.port.is_some() { "127.0.0.1" } else { "" };
        let options = format!(
            "-k {} -p {} -c listen_addresses={listen} -c fsync=off -c shared_buffers=64MB -c max_connections=100 {}",
            self.folder.display(),
            self.port.unwrap_or(5432),
            self.settings
        );
        let log = self.folder.join("log");
        let mut start = self.control();
        start.arg("-l").arg(log).args(["-t", &START_MAX.as_secs().to_string(), "-o", &options, "start"]);
        start.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("pg_ctl runs").success()
    }

    pub fn stop(&self, how: Stop) {
        let word = match how {
            Stop::Fast => "fast",
            Stop::Immediate => "immediate",
        };
        self.carry_out(&["-m", word, "stop"]);
    }

    /// Makes a standby the one that is written to.
    pub fn promote(&self) {
        self.carry_out(&["promote"]);
    }

    fn carry_out(&self, words: &[&str]) {
        let ran = self.control().args(words).output().expect("pg_ctl runs");
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }

    fn control(&self) -> Command {
        let mut command = as_server(&programs().join("pg_ctl"));
        command.stdin(Stdio::null()).arg("-D").arg(self.folder.join("data")).arg("-w");
        command
    }

    /// The database by the socket.
    pub fn url(&self) -> String {
        self.url_of("lazaret")
    }

    fn url_of(&self, database: &str) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("postgres://postgres@{}{port}/{database}", host(&self.folder))
    }

    /// Its host as an address names it among others.
    pub fn host(&self) -> String {
        host(&self.folder)
    }

    /// Where it listens on loopback.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Runs statements of the test's own.
    pub fn run(&self, statement: &str) {
        run_sql(&self.url(), statement);
    }

    /// Asks for one number.
    pub fn number(&self, question: &str) -> i64 {
        let url = self.url();
        block_on(async move {
            let (client, connection) =
                tokio_postgres::connect(&url, NoTls).await.expect("the server answers");
            let driver = tokio::spawn(connection);
            let row =
                client.query_one(question, &[]).await.unwrap_or_else(|error| panic!("{question}: {error:?}"));
            let number = row.get(0);
            drop(client);
            driver.await.expect("the connection ends").expect("without failure");
            number
        })
    }

    /// What the server wrote down.
    pub fn log(&self) -> String {
        let mut log = String::new();
        if let Ok(mut file) = std::fs::File::open(self.folder.join("log")) {
            file.read_to_string(&mut log).ok();
        }
        log
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            pipe.write_all(b"\n").ok();
        }
        // The next test has the machine to itself.
        self.shell.wait().ok();
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

/// Waits until something is so, for a bounded time. Asking has to take a moment itself: nothing sleeps here.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const WAIT_MAX: Duration = Duration::from_secs(60);
    let until = Instant::now() + WAIT_MAX;
    while !is_so() {
        assert!(Instant::now() < until, "{what}: not within {WAIT_MAX:?}");
    }
}
