//! A PostgreSQL of its own for tests: one server for each test process, one database for each test. Benches get another
//! one, which syncs.
//!
//! The server is a child of a shell that waits on a pipe from this process. However this process ends, the pipe closes,
//! and the shell stops the server and removes its folder.

#![allow(clippy::panic, clippy::expect_used, reason = "a test that cannot have its database has failed")]

pub mod messages;
pub mod own;
pub mod plans;
pub mod pooler;
pub mod proxy;
pub mod upgrade;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use crate::postgres::PostgresStore;
use crate::sqlite::Mode;

/// The server of this process; kept for as long as it runs.
struct Server {
    folder: PathBuf,
    /// Holds the pipe that the shell waits on.
    _shell: Mutex<Child>,
}

/// An empty store's database, gone when it is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    care: Care,
}

/// What a server does for what it has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Care {
    /// Nothing: tests are over before the machine can fail.
    Quick,
    /// Every commit is synced, as in life.
    Durable,
}

impl Care {
    const fn settings(self) -> &'static str {
        match self {
            Care::Quick => {
                "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB \
                 -c max_wal_size=256MB"
            }
            Care::Durable => {
                "-c fsync=on -c synchronous_commit=on -c full_page_writes=on -c shared_buffers=256MB \
                 -c max_wal_size=4GB -c shared_preload_libraries=pg_stat_statements"
            }
        }
    }
}

const TEMPLATE: &str = "lazaret_template";

/// How long a server may take to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);

impl TestDatabase {
    /// Makes a database that holds an empty store in test mode, on the server of this process.
    pub fn new() -> TestDatabase {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        TestDatabase::made(name, Care::Quick)
    }

    /// Makes one for a bench: on a server that syncs every commit, with a store for real use.
    pub fn durable() -> TestDatabase {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("durable_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        TestDatabase::made(name, Care::Durable).made_real()
    }

    fn made(name: String, care: Care) -> TestDatabase {
        sql(server(care), &format!("create database {name} template {TEMPLATE}"));
        TestDatabase { name, care }
    }

    fn made_real(self) -> TestDatabase {
        run_sql(&self.url(), "update lazaret.meta set value = 'real' where key = 'mode'");
        self
    }

    /// A database of its own with a store in this mode.
    pub fn of(mode: Mode) -> TestDatabase {
        match mode {
            Mode::Test => TestDatabase::new(),
            Mode::Real => TestDatabase::new().made_real(),
        }
    }

    /// A database without anything in it.
    pub fn bare() -> TestDatabase {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bare_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        sql(server(Care::Quick), &format!("create database {name}"));
        TestDatabase { name, care: Care::Quick }
    }

    pub fn url(&self) -> String {
        url(server(self.care), &self.name)
    }
}

impl Default for TestDatabase {
    fn default() -> TestDatabase {
        TestDatabase::new()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        sql(server(self.care), &format!("drop database {} with (force)", self.name));
    }
}

fn url(server: &Server, database: &str) -> String {
    format!("postgres://postgres@{}/{database}", host(&server.folder))
}

/// The socket's folder is the host, written as a URL wants it.
fn host(folder: &Path) -> String {
    folder.display().to_string().replace('/', "%2F")
}

fn server(care: Care) -> &'static Server {
    static QUICK: OnceLock<Server> = OnceLock::new();
    static DURABLE: OnceLock<Server> = OnceLock::new();
    let server = match care {
        Care::Quick => &QUICK,
        Care::Durable => &DURABLE,
    };
    server.get_or_init(|| {
        let server = start(care);
        sql(&server, &format!("create database {TEMPLATE}"));
        let url = url(&server, TEMPLATE);
        block_on(async move {
            let store = PostgresStore::open(&url, Mode::Test).await.expect("a new database becomes a store");
            crate::Store::close(&store).await.expect("a store closes");
        });
        server
    })
}

/// Runs something async wherever the caller is, a runtime's thread included.
fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime starts").block_on(work)
        });
        thread.join().expect("the work does not panic")
    })
}

fn sql(server: &Server, statement: &str) {
    run_sql(&url(server, "postgres"), statement);
}

fn run_sql(url: &str, statement: &str) {
    block_on(async move {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
        let driver = tokio::spawn(connection);
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        drop(client);
        driver.await.expect("the connection ends").expect("without failure");
    });
}

/// Where PostgreSQL's programs are.
fn programs() -> PathBuf {
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|folder| folder.join("initdb")).collect::<Vec<_>>()
    });
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = on_path
        .chain(debian.map(|version| version.path().join("bin/initdb")))
        // On the path there may be links into the folder that holds all of them.
        .find_map(|path| path.canonicalize().ok());
    let Some(found) = found else {
        panic!("this test needs PostgreSQL's programs; on Debian: apt-get install postgresql");
    };
    found.parent().map(Path::to_owned).unwrap_or_default()
}

/// Whom the server runs as: itself refuses to run as root.
fn server_user() -> Option<(u32, u32)> {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    if !is_root {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields: Vec<&str> = users
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .expect("the user postgres comes with PostgreSQL")
        .split(':')
        .collect();
    Some((fields[2].parse().expect("a number"), fields[3].parse().expect("a number")))
}

fn as_server(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = server_user() {
        command.uid(user).gid(group);
    }
    command.current_dir("/");
    command
}

/// Stops the server when the pipe on its input closes, at once and without a trace.
const SHELL: &str = r#"
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= $3 -c max_connections=400 -c autovacuum_naptime=5s \
  -c log_min_messages=error >"$2/log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT "$server"
wait "$server"
rm -rf "$2"
"#;

/// A folder for a server, which is its owner.
fn folder() -> PathBuf {
    let folder = tempfile::Builder::new().prefix("lazaret-pg-").tempdir().expect("a folder").keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("ours to change");
    give_to_server(&folder);
    folder
}

fn give_to_server(path: &Path) {
    if let Some((user, group)) = server_user() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may");
    }
}

fn make_cluster(programs: &Path, folder: &Path) {
    let made = as_server(&programs.join("initdb"))
        .args(["-A", "trust", "-N", "-E", "UTF8", "--no-locale", "-U", "postgres", "-D"])
        .arg(folder.join("data"))
        .output()
        .expect("initdb runs");
    assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
}

fn start(care: Care) -> Server {
    let (programs, folder) = (programs(), folder());
    make_cluster(&programs, &folder);
    let shell = as_server(Path::new("sh"))
        .args(["-c", SHELL, "sh"])
        .args([&programs, &folder])
        .arg(care.settings())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell runs");
    let server = Server { folder, _shell: Mutex::new(shell) };
    let until = Instant::now() + START_MAX;
    while !answers(&server) {
        if Instant::now() > until {
            let log = std::fs::read_to_string(server.folder.join("log")).unwrap_or_default();
            std::io::stderr().write_all(log.as_bytes()).ok();
            panic!("PostgreSQL does not start");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    server
}

fn answers(server: &Server) -> bool {
    let url = url(server, "postgres");
    block_on(async move { tokio_postgres::connect(&url, NoTls).await.is_ok() })
}

/// The tables whose columns the shared operations state, each with those columns.
pub fn stated_tables() -> Vec<(&'static str, &'static [&'static str])> {
    crate::engine::TABLES.iter().map(|table| (table.name, table.columns)).collect()
}
