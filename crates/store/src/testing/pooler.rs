//! PgBouncer in front of the PostgreSQL of this process, for one test. Ends with the test, however that ends.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use super::{TestDatabase, as_server, block_on, folder, give_to_server, host, server};

/// A pooler; its folder is the host of its addresses.
#[derive(Debug)]
pub struct Pooler {
    folder: PathBuf,
    shell: Child,
}

/// Stops the pooler when the pipe on its input closes, and removes its folder.
const SHELL: &str = r#"
pgbouncer="$(command -v pgbouncer || echo /usr/sbin/pgbouncer)"
"$pgbouncer" -q "$1/pgbouncer.ini" >"$1/log" 2>&1 </dev/null &
pooler=$!
read -r _
kill -INT "$pooler"
wait "$pooler"
rm -rf "$1"
"#;

const START_MAX: Duration = Duration::from_secs(30);

impl Pooler {
    /// Starts one with these settings, for example `pool_mode = transaction`, in front of a database of this process.
    pub fn start(database: &TestDatabase, settings: &str) -> Pooler {
        let folder = folder();
        let (behind, here) = (server(database.care).folder.display(), folder.display());
        let config = format!(
            "[databases]\n* = host={behind} user=postgres\n[pgbouncer]\nunix_socket_dir = {here}\nlisten_port = 5432\n\
             auth_type = any\n{settings}\n"
        );
        let file = folder.join("pgbouncer.ini");
        std::fs::write(&file, config).expect("ours to write");
        give_to_server(&file);
        let shell = as_server(Path::new("sh"))
            .args(["-c", SHELL, "sh"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("a shell runs");
        let pooler = Pooler { folder, shell };
        let (url, until) = (pooler.url(database), Instant::now() + START_MAX);
        while block_on(async { tokio_postgres::connect(&url, NoTls).await.is_err() }) {
            let log = std::fs::read_to_string(pooler.folder.join("log")).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "PgBouncer does not start; Debian: apt-get install pgbouncer\n{log}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        pooler
    }

    /// The database as it is reached through the pooler.
    pub fn url(&self, database: &TestDatabase) -> String {
        format!("postgres://postgres@{}/{}", host(&self.folder), database.name)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            pipe.write_all(b"\n").ok();
        }
        // Its sessions have to be gone before the database is.
        self.shell.wait().ok();
    }
}
