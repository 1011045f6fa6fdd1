//! The server is killed in the middle of a stream of reports, at random moments, again and again. What it had answered
//! for must be there, nothing may be there twice, and everything must be accounted for.
//!
//! `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it; `cargo xtask torture` sets them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

const REPORTERS: u64 = 4;

#[test]
fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let rounds = setting("LAZARET_TORTURE_ROUNDS", 10);
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let (mut acknowledged, mut sent) = (0, 0);
    for round in 0..rounds {
        let told = killed_round(folder.path(), round, &mut random);
        sent += told.sent.len();
        acknowledged += told.acknowledged.len();
        verify(folder.path(), round, &told);
    }
    println!("{rounds} kills, seed {seed}: {sent} letters sent, {acknowledged} acknowledged, none lost");
    assert!(acknowledged > 0, "no reporter got an answer in any round: the test proved nothing");
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text}"));
    std::env::var(name).map_or(default, read)
}

/// What the reporters of one round did.
#[derive(Default)]
struct Told {
    /// Event ids whose request was begun.
    sent: Vec<String>,
    /// Event id → letter id, for each item that was answered.
    acknowledged: BTreeMap<String, String>,
}

fn killed_round(data: &Path, round: u64, random: &mut Random) -> Told {
    let server = Server::start(data);
    let stop = AtomicBool::new(false);
    let pause = Duration::from_millis(20 + random.below(300));
    let seeds: Vec<u64> = (0..REPORTERS).map(|_| random.next()).collect();
    let mut told = Told::default();
    std::thread::scope(|scope| {
        let reporters: Vec<_> = (0..REPORTERS)
            .zip(seeds)
            .map(|(reporter, seed)| {
                let (address, stop) = (&server.address, &stop);
                scope.spawn(move || report_until(address, stop, round, reporter, Random(seed)))
            })
            .collect();
        // The kill has to come at a random moment: this waits for no condition, it is the fault itself.
        std::thread::sleep(pause);
        server.kill();
        stop.store(true, Ordering::SeqCst);
        for reporter in reporters {
            let one = reporter.join().unwrap();
            told.sent.extend(one.sent);
            told.acknowledged.extend(one.acknowledged);
        }
    });
    told
}

/// Sends singles, batches and streams until the server is gone.
fn report_until(address: &str, stop: &AtomicBool, round: u64, reporter: u64, mut random: Random) -> Told {
    let mut told = Told::default();
    for request in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let (count, shape) = match random.below(3) {
            0 => (1, Shape::Single),
            1 => (1 + random.below(50), Shape::Batch),
            _ => (1 + random.below(200), Shape::Stream),
        };
        let ids: Vec<String> =
            (0..count).map(|item| format!("r{round}-{reporter}-{request}-{item}")).collect();
        told.sent.extend(ids.iter().cloned());
        let Some(answer) = report(address, round, &ids, shape) else { break };
        let items = answer["items"].as_array().unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(items.len(), ids.len());
        for (id, item) in ids.iter().zip(items) {
            assert_eq!(item["eventId"], id.as_str());
            told.acknowledged
                .insert(id.clone(), item["id"].as_str().unwrap_or_else(|| panic!("{item}")).to_owned());
        }
    }
    told
}

#[derive(Clone, Copy)]
enum Shape {
    Single,
    Batch,
    Stream,
}

fn report(address: &str, round: u64, ids: &[String], shape: Shape) -> Option<Value> {
    let entries: Vec<Value> = ids
        .iter()
        .map(|id| {
            json!({
                "eventId": id,
                "originalEvent": {"eventId": id, "pattern": format!("torture.r{round}"), "payload": {"pad": "x".repeat(400)}},
                "error": {"type": "TortureError", "message": format!("killed while at {id}")},
            })
        })
        .collect();
    let (content_type, body) = match shape {
        Shape::Single => ("application/json", entries[0].to_string()),
        Shape::Batch => ("application/json", json!({"items": entries}).to_string()),
        Shape::Stream => {
            ("application/x-ndjson", entries.iter().map(|entry| format!("{entry}\n")).collect::<String>())
        }
    };
    let (status, answer) = call(address, "POST", "/api/v1/dead-letters", content_type, &body)?;
    assert_eq!(status, 200, "{answer}");
    Some(answer)
}

/// Starts the server again on what the kill left, and compares.
fn verify(data: &Path, round: u64, told: &Told) {
    let server = Server::start(data);
    let get = |path: &str| {
        let (status, answer) =
            call(&server.address, "GET", path, "", "").expect("the server was just started");
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let page = get(&format!("/api/v1/dead-letters?type=torture.r{round}&limit=500&cursor={cursor}"));
        for letter in page["items"].as_array().unwrap() {
            let (event, id) = (letter["eventId"].as_str().unwrap(), letter["id"].as_str().unwrap());
            assert!(found.insert(event.into(), id.into()).is_none(), "{event} is there twice");
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    for (event, id) in &told.acknowledged {
        assert_eq!(found.get(event), Some(id), "{event} was acknowledged in round {round} and is not there");
    }
    let known: std::collections::BTreeSet<&String> = told.sent.iter().collect();
    assert!(found.keys().all(|event| known.contains(event)), "a letter that nobody sent");
    // Sent again, as a client that got no answer would: what is known is recognised.
    for chunk in told.sent.chunks(500) {
        let answer = report(&server.address, round, chunk, Shape::Batch).expect("the server is up");
        for item in answer["items"].as_array().unwrap() {
            let known = found.contains_key(item["eventId"].as_str().unwrap());
            assert_eq!(item["result"], if known { "duplicate" } else { "created" });
        }
    }
    let ledger = get("/api/v1/ledger?recount=true");
    assert_eq!(ledger["difference"], 0, "{ledger}");
    assert_eq!(ledger["wrongCounters"], 0, "{ledger}");
    server.kill();
}

/// A server of our own, killed when it is dropped.
pub struct Server {
    child: std::sync::Mutex<Child>,
    pub address: String,
}

impl Server {
    pub fn start(data: &Path) -> Server {
        Server::start_with("--data", data.as_os_str())
    }

    /// Starts one of those that share a database.
    pub fn start_on(store: &str) -> Server {
        Server::start_with("--store", store.as_ref())
    }

    fn start_with(flag: &str, place: &OsStr) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lazaret"))
            .args(["serve", "--listen", "127.0.0.1:0", flag])
            .arg(place)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().rsplit_once("http://").unwrap_or_else(|| panic!("unexpected: {line:?}")).1.to_owned();
        Server { child: child.into(), address }
    }

    /// SIGKILL: no handler runs, nothing is flushed.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(child) = self.child.get_mut() {
            // It is gone already unless a test failed in between.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// One request on a connection of its own; nothing if the connection broke before the whole answer was there.
pub fn call(address: &str, method: &str, path: &str, content_type: &str, body: &str) -> Option<(u16, Value)> {
    let (head, body) = call_whole(address, method, path, content_type, body)?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(&body).ok()?))
}

/// The same with the head of the answer, in small letters, and its body as it is.
pub fn call_whole(
    address: &str,
    method: &str,
    path: &str,
    content_type: &str,
    body: &str,
) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let head = head.to_ascii_lowercase();
    let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    // A kill in the middle of the answer leaves half of it: that is no answer.
    (body.len() >= length).then(|| (head, body.to_owned()))
}

/// SplitMix64: enough randomness for a fault, and the same for the same seed.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
