//! The server is killed at every named point of pruning, archiving and restoring: each letter is in exactly one place, whole, and
//! the next server ends what was begun.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_server::app::App;
use lazaret_server::archive::{self, ArchiveError};
use lazaret_server::clock::Clock;
use lazaret_server::config::{ArchiveUrl, Config, StoreUrl};
use lazaret_server::stores;
use lazaret_store::archive::{ArchiveQuery, Archived};
use lazaret_store::audit::Actor;
use lazaret_store::decision::{Decided, Decision, Verb};
use lazaret_store::sqlite::Mode;
use lazaret_store::stats::LedgerBy;
use lazaret_store::testing::TestDatabase;
use lazaret_store::transfer::Exported;
use serde_json::json;

use crate::running::{Desk, Server};

/// Enough for several commits in which letters leave the store, and for more than one file.
const LETTERS: usize = 260;
const FILE_LETTERS: u64 = 150;

const ARCHIVE_POINTS: [&str; 6] = [
    "archive_opened",
    "archive_put",
    "archive_verified",
    "archive_written",
    "archive_shelved",
    "archive_kept",
];

const PRUNE_POINTS: [&str; 2] = ["prune_found", "prune_gone"];

/// How many stay when limits have pushed out the others, and how many of them go in one commit.
const STAY: usize = 60;
const GO_AT_ONCE: usize = 100;

const RESTORE_POINTS: [&str; 2] = ["restore_read", "restore_done"];

const DIE_AT: &str = "LAZARET_TORTURE_DIE_AT";

const PATIENCE: Duration = Duration::from_secs(120);

/// Letters wait, whatever their number and age.
const PATIENT: &str = "[archive]\nurl = 'kept'\nfile_letters = 100000\nfile_age = '365d'\n";

#[test]
fn no_letter_is_lost_or_in_two_places_on_the_embedded_store() {
    let desk = Desk::new();
    let config = Config { data: desk.folder.path().join("lazaret-data"), ..Config::default() };
    at_every_point(desk, config, &["--test-mode"]);
}

#[test]
fn no_letter_is_lost_or_in_two_places_on_postgresql() {
    let database = TestDatabase::bare();
    let store = StoreUrl::parse(&database.url()).unwrap();
    at_every_point(
        Desk::new(),
        Config { store, ..Config::default() },
        &["--test-mode", "--store", &database.url()],
    );
}

fn at_every_point(desk: Desk, mut config: Config, args: &[&str]) {
    config.archive.url = Some(ArchiveUrl::Folder(desk.folder.path().join("kept")));
    config.archive.file_letters = FILE_LETTERS;
    config.archive.file_age_ms = 1;
    let eager = format!("[archive]\nurl = 'kept'\nfile_letters = {FILE_LETTERS}\nfile_age = '1ms'\n");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    desk.file("lazaret.toml", PATIENT);
    let mut server = Server::start_with(desk, args);
    report(&server);
    let mut letters: BTreeMap<LetterId, Vec<u8>> = BTreeMap::new();
    for point in ARCHIVE_POINTS {
        let count = LETTERS.to_string();
        server.run(&["delete", "--filter", "type:order", "--expect", &count, "--reason", "test"]).ok();
        let desk = server.stop();
        if letters.is_empty() {
            letters = runtime.block_on(contents(&config));
        }
        desk.file("lazaret.toml", &eager);
        die(&desk, args, point);
        runtime.block_on(async {
            let places = look(&config, &letters).await;
            assert_eq!(places.values().sum::<usize>(), LETTERS, "killed at {point}: {places:?}");
            assert_eq!(recover(&config).await, letters, "killed at {point}");
            bring_back(&config, point).await;
        });
        desk.file("lazaret.toml", PATIENT);
        server = Server::start_with(desk, args);
    }
    let mut desk = server.stop();
    desk.file("lazaret.toml", &format!("{PATIENT}[retention]\nmax_count = {STAY}\n"));
    for point in PRUNE_POINTS {
        desk = die_when_asked(desk, args, point, &["prune"]);
        let places = runtime.block_on(look(&config, &letters));
        let waiting = places.get("waiting").copied().unwrap_or_default();
        assert!(waiting <= GO_AT_ONCE && (waiting > 0) == (point == "prune_gone"), "{point}: {places:?}");
    }
    let server = Server::start_with(desk, args);
    server.run(&["prune"]).ok();
    let stay = STAY.to_string();
    server.run(&["delete", "--filter", "type:order", "--expect", &stay, "--reason", "test"]).ok();
    let mut desk = server.stop();
    assert_eq!(runtime.block_on(recover(&config)), letters);
    for (point, letter) in RESTORE_POINTS.into_iter().zip(letters.keys()) {
        desk = die_when_asked(desk, args, point, &["restore", &letter.to_string()]);
        let places = runtime.block_on(look(&config, &letters));
        let live = places.get("live").copied().unwrap_or_default();
        assert_eq!(live, usize::from(point == "restore_done"), "{point}: {places:?}");
    }
}

/// Starts a server that ends at the point, and asks it for what leads there.
fn die_when_asked(desk: Desk, args: &[&str], point: &str, ask: &[&str]) -> Desk {
    let server = Server::start_with(desk.with_env(DIE_AT, point), args);
    server.run(ask).fails(1);
    let (status, desk) = server.ended();
    assert_eq!(status.signal(), Some(6), "{point}");
    desk.without_env(DIE_AT)
}

fn report(server: &Server) {
    let entry = |n: usize| {
        let event = json!({"pattern": "order", "n": n, "text": "x".repeat(n * 10)});
        let error = json!({"type": "TimeoutError", "message": format!("no answer to {n}")});
        json!({"eventId": format!("e{n}"), "originalEvent": event, "error": error}).to_string()
    };
    let lines: Vec<String> = (0..LETTERS).map(entry).collect();
    server.run_with_input(&["report", "--ndjson"], lines.join("\n").as_bytes()).ok();
}

/// Runs a server until it ends at the point; its start is all that it takes.
fn die(desk: &Desk, args: &[&str], point: &str) {
    let mut command: Command = desk.command(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
    let child = command
        .env(DIE_AT, point)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = wait(child, point);
    assert_eq!(status.signal(), Some(6), "the server did not come to {point}");
}

fn wait(mut child: Child, point: &str) -> ExitStatus {
    let pid = child.id().to_string();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || ended.send(child.wait().unwrap()));
    end.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        panic!("the server never came to {point}");
    })
}

async fn open(config: &Config) -> Arc<App> {
    let opened = stores::open(config, Mode::Test).await.unwrap();
    App::new(opened.store, config.clone(), Clock::System, true).await.unwrap()
}

/// Where letters are, before anybody clears up: each in one place, and the ledger right.
async fn look(config: &Config, letters: &BTreeMap<LetterId, Vec<u8>>) -> BTreeMap<&'static str, usize> {
    let app = open(config).await;
    let ledger = app.store.ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.difference(), ledger.wrong_counters), (0, 0), "{ledger:?}");
    let mut places = BTreeMap::new();
    for letter in letters.keys() {
        let live = app.store.history(*letter).await.unwrap().is_some();
        let archived = app.store.archived_letter(*letter).await.unwrap();
        let waiting = app.store.waiting_letter(*letter).await.unwrap().is_some();
        let place = match (live, archived.map(|archived| archived.file.is_some()), waiting) {
            (true, None, false) => "live",
            (false, Some(false), true) => "waiting",
            (false, Some(true), false) => "file",
            found => panic!("letter {letter}: live, in a file, waiting: {found:?}"),
        };
        *places.entry(place).or_default() += 1;
    }
    app.store.close().await.unwrap();
    places
}

/// Ends what was begun; then every letter is in a file, and whole.
async fn recover(config: &Config) -> BTreeMap<LetterId, Vec<u8>> {
    let app = open(config).await;
    let until = Instant::now() + PATIENCE;
    loop {
        archive::tick(&app).await.unwrap();
        let waiting = app.store.archive_waiting().await.unwrap().letters;
        if waiting == 0 && app.store.unfinished_files().await.unwrap().is_empty() {
            break;
        }
        assert!(Instant::now() < until, "{waiting} letters wait: {:?}", archive::state(&app));
    }
    for file in app.store.files(None, 1_000).await.unwrap() {
        assert_eq!(archive::verify_file(&app, &file).await.unwrap(), None);
        assert!(Path::new(&config.archive_url().unwrap().to_string()).join(&file.path).is_file());
    }
    app.store.close().await.unwrap();
    drop(app);
    let letters = contents(config).await;
    assert_eq!(look(config, &letters).await, BTreeMap::from([("file", LETTERS)]));
    letters
}

/// The originals of all letters of the archive.
async fn contents(config: &Config) -> BTreeMap<LetterId, Vec<u8>> {
    let app = open(config).await;
    let archived = all(&app).await;
    assert_eq!(archived.len(), LETTERS);
    let read = archive::read_many(&app, &archived).await.unwrap();
    let body = |(letter, exported): (LetterId, Result<Exported, ArchiveError>)| {
        (letter, exported.unwrap().lives[0].1.body().to_vec())
    };
    let letters = read.into_iter().map(body).collect();
    app.store.close().await.unwrap();
    letters
}

/// Restores everything, for the next point.
async fn bring_back(config: &Config, point: &str) {
    let app = open(config).await;
    let decision = Decision {
        verb: Verb::Restore,
        actor: Actor { name: "tester".into(), role: "admin".into(), request: None },
        reason: None,
        at: app.clock.now(),
        from: None,
        floor_ms: None,
    };
    let archived = all(&app).await;
    for (letter, answer) in archive::restore_many(&app, archived, decision).await.unwrap() {
        assert_eq!(answer.unwrap(), Decided::Done, "{letter} after {point}");
    }
    let ledger = app.store.ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.difference(), ledger.wrong_counters), (0, 0), "{ledger:?}");
    app.store.close().await.unwrap();
}

async fn all(app: &App) -> Vec<Archived> {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let query =
            ArchiveQuery { filter: Filter::default(), place: None, now: app.clock.now(), before, limit: 100 };
        let page = app.store.archived(query).await.unwrap();
        found.extend(page.letters);
        before = page.next;
        if before.is_none() {
            return found;
        }
    }
}
