//! The shared store from the outside: real servers on PostgreSQL, and a database that goes away.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lazaret_store::testing::TestDatabase;
use serde_json::{Value, json};

use crate::running::{Desk, Server, entry};

/// Sends one request; gives the status, the head and the body.
fn request(server: &Server, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

pub fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (status, _, answer) = request(server, "POST", path, &body.to_string());
    assert!((200..300).contains(&status), "{status} {answer}");
    serde_json::from_str(&answer).unwrap()
}

pub fn start(desk: Desk, store: &str) -> Server {
    Server::start_with(desk, &["--store", store])
}

/// Pushes a job that dies with its first failure, and lets it die.
pub fn die(server: &Server, queue: &str) -> String {
    let pushed = server.json(&[
        "jobs",
        "push",
        "invoice.make",
        "[1.00]",
        "--queue",
        queue,
        "--max-attempts",
        "1",
        "--dead-letter",
    ]);
    let id = pushed["job"]["id"].as_str().unwrap().to_owned();
    let wish = json!({"queues": [queue], "count": 1, "worker_id": "w"});
    assert_eq!(post(server, "/ojs/v1/workers/fetch", &wish)["jobs"][0]["id"], id.as_str());
    let nack = json!({"job_id": id, "error": {"code": "x", "type": "Boom", "message": "no way", "retryable": false}});
    post(server, "/ojs/v1/workers/nack", &nack);
    id
}

/// Fails if the books of the server's store do not agree.
#[track_caller]
pub fn recount(server: &Server) {
    let ledger = server.json(&["ledger", "verify"]);
    assert_eq!((&ledger["difference"], &ledger["wrongCounters"]), (&json!(0), &json!(0)), "{ledger}");
}

#[test]
fn a_server_keeps_everything_in_postgresql_and_comes_back_to_it() {
    let database = TestDatabase::bare();
    let server = start(Desk::new(), &database.url());
    let letter = server.letter("e-1", "order.created");
    let dead = die(&server, "billing");
    let waiting = server.json(&["jobs", "push", "mail.send", "--queue", "mails"]);
    let waiting = waiting["job"]["id"].as_str().unwrap().to_owned();
    assert_eq!(server.json(&["ls"])["total"], 2);
    assert!(!server.data().exists(), "nothing is kept in the data folder");
    recount(&server);

    let server = start(server.stop(), &database.url());
    assert_eq!(server.json(&["show", &letter])["eventId"], "e-1");
    let (status, _, listed) = request(&server, "GET", "/ojs/v1/dead-letter", "");
    assert!(status == 200 && listed.contains(&dead), "{status} {listed}");
    let last = server.letter("e-2", "order.created");
    assert!(Command::new("kill").args(["-KILL", &server.pid().to_string()]).status().unwrap().success());

    let server = start(Desk::new(), &database.url());
    assert_eq!(server.json(&["show", &last])["eventId"], "e-2");
    let wish = json!({"queues": ["mails"], "count": 1, "worker_id": "w"});
    assert_eq!(post(&server, "/ojs/v1/workers/fetch", &wish)["jobs"][0]["id"], waiting.as_str());
    recount(&server);
}

#[test]
fn two_servers_share_one_store() {
    let database = TestDatabase::bare();
    let (one, two) = (start(Desk::new(), &database.url()), start(Desk::new(), &database.url()));
    let letter = one.letter("e-1", "order.created");
    two.run(&["discard", &letter, "--reason", "test"]).ok();
    assert_eq!(one.json(&["show", &letter])["status"], "discarded");
    recount(&one);
}

#[test]
fn a_store_that_cannot_be_used_is_said_with_what_to_do_and_without_its_password() {
    let desk = Desk::new()
        .with_env("LAZARET_STORE", "postgres://lazaret:hunter2@127.0.0.1:1/letters?sslmode=disable");
    let told = desk.run(&["serve", "--listen", "127.0.0.1:0"]).fails(1);
    assert!(told.contains("cannot use postgres://lazaret:***@127.0.0.1:1/letters"), "{told}");
    assert!(
        told.contains("connecting to PostgreSQL") && told.contains("hint: is PostgreSQL there"),
        "{told}"
    );
    let shown = desk.run(&["config", "show"]).ok();
    assert!(shown.contains("store = \"postgres://lazaret:***@127.0.0.1:1/letters"), "{shown}");
    assert!(!format!("{told}{shown}").contains("hunter2"));

    let database = TestDatabase::bare();
    let missing = database.url().rsplit_once('/').map(|(server, _)| format!("{server}/no_such")).unwrap();
    let told = desk.run(&["store", "migrate", "--store", &missing]).fails(1);
    assert!(told.contains("hint: make the database first"), "{told}");
    let stranger = database.url().replace("postgres://postgres@", "postgres://nobody:hunter2@");
    let told = desk.run(&["store", "migrate", "--store", &stranger]).fails(1);
    assert!(told.contains("hint: look at user and password") && !told.contains("hunter2"), "{told}");
}

#[test]
fn a_store_is_migrated_by_hand() {
    let database = TestDatabase::bare();
    let desk = Desk::new();
    let migrate = ["store", "migrate", "--store", &database.url()];
    let made = desk.run(&migrate).ok();
    assert!(made.contains("created with schema "), "{made}");
    let again = desk.run(&migrate).ok();
    assert!(again.contains("up to date"), "{again}");
    let told = desk.run(&["store", "migrate"]).fails(2);
    assert!(told.contains("embedded"), "{told}");
}

/// Stands between a server and its database, and can be cut.
struct Bridge {
    address: SocketAddr,
    down: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Bridge {
    fn to(database: &TestDatabase) -> Bridge {
        let url = database.url();
        let folder = url.rsplit_once('@').unwrap().1.split_once('/').unwrap().0.replace("%2F", "/");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bridge =
            Bridge { address: listener.local_addr().unwrap(), down: Arc::default(), open: Arc::default() };
        let (down, open) = (Arc::clone(&bridge.down), Arc::clone(&bridge.open));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (near, far) = (stream.unwrap(), UnixStream::connect(format!("{folder}/.s.PGSQL.5432")));
                let mut open = open.lock().unwrap();
                // Whoever comes now finds nobody.
                let Ok(far) = far else { continue };
                if down.load(Ordering::SeqCst) {
                    continue;
                }
                open.push(near.try_clone().unwrap());
                let (mut near_in, mut far_out) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let (mut far_in, mut near_out) = (far, near);
                std::thread::spawn(move || {
                    std::io::copy(&mut near_in, &mut far_out).ok();
                    far_out.shutdown(Shutdown::Both).ok();
                });
                std::thread::spawn(move || {
                    std::io::copy(&mut far_in, &mut near_out).ok();
                    near_out.shutdown(Shutdown::Both).ok();
                });
            }
        });
        bridge
    }

    fn url(&self, database: &TestDatabase) -> String {
        let url = database.url();
        let name = url.rsplit_once('/').unwrap().1;
        format!("postgres://postgres@{}/{name}?sslmode=disable", self.address)
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap();
        self.down.store(true, Ordering::SeqCst);
        for stream in open.drain(..) {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    fn mend(&self) {
        self.down.store(false, Ordering::SeqCst);
    }
}

/// How often a server may be asked until it is ready again; each question is a try to connect.
const TRIES_MAX: usize = 1_000;

#[test]
fn a_server_waits_for_a_database_that_is_away_and_loses_nothing() {
    let database = TestDatabase::bare();
    let bridge = Bridge::to(&database);
    let server = start(Desk::new(), &bridge.url(&database));
    let mut kept = Vec::new();
    for round in 0..3 {
        let (status, _, told) = request(&server, "GET", "/health/ready", "");
        assert_eq!(status, 200, "{told}");
        kept.push(server.letter(&format!("kept-{round}"), "order.created"));
        bridge.cut();
        let (status, _, told) = request(&server, "GET", "/health/ready", "");
        assert_eq!(status, 503, "{told}");
        let lost = entry(&format!("lost-{round}"), "order.created");
        let (status, head, told) = request(&server, "POST", "/api/v1/dead-letters", &lost);
        assert_eq!(status, 503, "{told}");
        assert!(head.contains("\r\nretry-after: "), "{head}");
        let job = r#"{"type":"mail.send","args":[]}"#;
        let (status, head, told) = request(&server, "POST", "/ojs/v1/jobs", job);
        assert!(status == 503 && head.contains("\r\nretry-after: "), "{head} {told}");
        // It lives, though it can do nothing: whoever restarts what is not alive would gain nothing.
        assert_eq!(request(&server, "GET", "/health/live", "").0, 200);
        bridge.mend();
        let ready = (0..TRIES_MAX).any(|_| request(&server, "GET", "/health/ready", "").0 == 200);
        assert!(ready, "the server does not come back by itself");
    }
    for letter in &kept {
        server.run(&["show", letter]).ok();
    }
    assert_eq!(server.json(&["ls"])["total"], kept.len());
    recount(&server);
}
