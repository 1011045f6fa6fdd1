//! Workers and operators race for the same jobs while the server is killed and started again: acknowledgements,
//! failures of every kind, retries by one and by many, deletes and cancels, also of the same job at once. In the end
//! each job is in exactly one place, no job was held by two workers at a time, and everything is accounted for.
//!
//! Bounded by counts and not by time. `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it;
//! `cargo xtask torture` sets them.

mod account;
pub mod verify;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::doors::{Database, Doors, Lost};
use crate::torture::{Random, Server, setting};
use account::Accounts;

const WORKERS: u64 = 16;

/// What the workers do together between two kills.
const STEPS_PER_KILL: u64 = 900;

/// Jobs that a worker holds at most; some are always held when the server is killed.
const HELD_MAX: usize = 6;

const QUEUES: [&str; 4] = ["race-a", "race-b", "race-c", "race-d"];

/// So long that no reservation ends by the clock: whoever holds a job holds it until it says otherwise.
const RESERVED_MS: u64 = 3_600_000;

#[test]
fn each_job_ends_in_one_place_whoever_races_for_it_and_whenever_the_server_is_killed() {
    // Three kills for every twenty of the other torture, which are shorter.
    let kills = (setting("LAZARET_TORTURE_ROUNDS", 0) * 3 / 20).max(3);
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut server = Server::start(folder.path());
    let doors = Doors::new(&[&server.address], Database::Sure);
    let killed: Vec<u64> =
        (1..=kills).map(|kill| STEPS_PER_KILL * kill - random.below(STEPS_PER_KILL / 2)).collect();
    let race = Race::new(&doors, STEPS_PER_KILL * (kills + 1));
    race.run(WORKERS, &mut random, |done| {
        if killed.contains(&done) {
            server.kill();
            server = Server::start(folder.path());
            doors.open(0, &server.address);
        }
    });
    verify::drain(&server.address, &race.accounts);
    server.kill();
    server = Server::start(folder.path());
    let told = verify::verify(&server.address, &race.accounts);
    println!("{kills} kills, seed {seed}: {told}");
}

/// What the workers share.
pub struct Race<'a> {
    pub accounts: Accounts,
    doors: &'a Doors,
    steps: AtomicU64,
    steps_max: u64,
}

impl<'a> Race<'a> {
    pub fn new(doors: &'a Doors, steps_max: u64) -> Race<'a> {
        Race { accounts: Accounts::default(), doors, steps: AtomicU64::new(0), steps_max }
    }

    /// Lets workers race to the end; `meanwhile` is called after each step with how many there were.
    pub fn run(&self, workers: u64, random: &mut Random, mut meanwhile: impl FnMut(u64)) {
        std::thread::scope(|scope| {
            let (stepped, steps) = mpsc::channel();
            for number in 0..workers {
                let (stepped, random) = (stepped.clone(), Random(random.next()));
                let worker = Worker { number, random, held: Vec::new(), race: self };
                scope.spawn(move || worker.run(&stepped));
            }
            drop(stepped);
            // Ends when the last worker has ended, well or badly.
            for (done, ()) in (1_u64..).zip(steps) {
                meanwhile(done);
            }
        });
    }
}

/// One of those who race.
struct Worker<'a> {
    number: u64,
    random: Random,
    held: Vec<String>,
    race: &'a Race<'a>,
}

impl Worker<'_> {
    fn run(mut self, stepped: &mpsc::Sender<()>) {
        while self.race.steps.fetch_add(1, Ordering::SeqCst) < self.race.steps_max {
            self.step();
            stepped.send(()).unwrap();
        }
        while !self.held.is_empty() {
            self.finish();
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..15 => self.push(),
            15..45 if self.held.len() < HELD_MAX => self.fetch(),
            15..80 if !self.held.is_empty() => self.finish(),
            15..80 => self.fetch(),
            80..86 => {
                if let Some(id) = self.pick_ended() {
                    self.retry(&id);
                }
            }
            86..88 => self.retry_all_of_a_queue(),
            88..91 => {
                if let Some(id) = self.pick_ended() {
                    self.delete(&id);
                }
            }
            91..94 => self.cancel(),
            _ => self.retry_twice_and_delete_at_once(),
        }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value), Lost> {
        self.race.doors.ask(method, &format!("/ojs/v1{path}"), body)
    }

    fn worker_id(&self) -> String {
        format!("racer-{}", self.number)
    }

    /// A job of our own id, so that a push without an answer can be looked for in the end. It is not sent again: it may
    /// have been run, have died and have been deleted by then, and an id is free again after that.
    fn push(&mut self) {
        let id = self.mint();
        let queue = QUEUES[self.random.below(4) as usize];
        let exhausted = if self.random.below(3) == 0 { "discard" } else { "dead_letter" };
        let retry = json!({
            "max_attempts": 1 + self.random.below(3),
            "initial_interval": "PT0.002S",
            "max_interval": "PT0.01S",
            "on_exhaustion": exhausted,
        });
        let options = json!({"queue": queue, "visibility_timeout_ms": RESERVED_MS, "retry": retry});
        let job = json!({"id": id, "type": "race.run", "args": [self.number], "options": options});
        self.race.accounts.with(&id, |account| account.pushes_tried = true);
        let pushed = self.ask("POST", "/jobs", &job);
        if let Ok((status, answer)) = pushed {
            assert_eq!(status, 201, "{answer}");
            self.race.accounts.with(&id, |account| account.pushed = true);
        }
    }

    fn mint(&mut self) -> String {
        let (a, b) = (self.random.next(), self.random.next());
        format!(
            "01a1d000-{:04x}-7{:03x}-8{:03x}-{:012x}",
            a >> 48,
            (a >> 36) & 0xfff,
            (a >> 24) & 0xfff,
            b >> 16
        )
    }

    fn fetch(&mut self) {
        let count = 1 + self.random.below(3);
        let mut queues = QUEUES.to_vec();
        queues.rotate_left(self.random.below(4) as usize);
        let asked = json!({"queues": queues, "count": count, "worker_id": self.worker_id()});
        match self.ask("POST", "/workers/fetch", &asked) {
            // What it was given is held in its name until the end, and nobody may get it meanwhile.
            Err(Lost) => self.race.accounts.lose_fetch(self.worker_id(), count),
            Ok((status, answer)) => {
                assert_eq!(status, 200, "{answer}");
                for job in answer["jobs"].as_array().unwrap() {
                    let id = job["id"].as_str().unwrap();
                    self.race.accounts.with(id, |account| account.take(id, self.number));
                    self.held.push(id.to_owned());
                }
            }
        }
    }

    /// Ends one of the runs that it holds, in one way or another, and says so until it is heard.
    fn finish(&mut self) {
        let at = self.random.below(self.held.len() as u64) as usize;
        let id = self.held.swap_remove(at);
        let mut said = json!({"job_id": id, "worker_id": self.worker_id()});
        let mut error = json!({"type": "RaceError", "message": format!("worker {} failed", self.number)});
        let path = match self.random.below(10) {
            0..3 => "/workers/ack",
            3 => {
                said["requeue"] = true.into();
                "/workers/nack"
            }
            4 => {
                error["retryable"] = false.into();
                "/workers/nack"
            }
            5 | 6 => {
                error["code"] = "DEAD_LETTER".into();
                "/workers/nack"
            }
            7 => {
                error["code"] = "DISCARD".into();
                "/workers/nack"
            }
            _ => "/workers/nack",
        };
        if path == "/workers/nack" {
            said["error"] = error;
        }
        let (acks, requeues) = (path == "/workers/ack", !said["requeue"].is_null());
        // From here on the job may be another's: it is given back before anybody can know that it is.
        self.race.accounts.with(&id, |account| {
            account.holder = None;
            account.acks_tried |= acks;
            account.requeues_tried += u64::from(requeues);
        });
        let mut unheard = 0;
        let (status, answer) = loop {
            match self.ask("POST", path, &said) {
                Ok(answer) => break answer,
                Err(Lost) => unheard += 1,
            }
        };
        self.race.accounts.with(&id, |account| match status {
            200 if acks => account.end(&id, "completed"),
            200 => {
                let state = answer["state"].as_str().unwrap();
                account.requeues_sure += u64::from(state == "available");
                account.discarded |= state == "discarded";
            }
            // Somebody cancelled it meanwhile, or it was heard the first time.
            409 => assert!(account.cancels_tried || unheard > 0, "{id} was ours: {answer}"),
            404 => assert!(account.deletes_tried > 0 && unheard > 0, "{id} was ours: {answer}"),
            _ => panic!("{id}: {status} {answer}"),
        });
    }

    fn pick_ended(&mut self) -> Option<String> {
        self.race.accounts.pick(self.random.next(), |account| account.discarded)
    }

    fn retry(&self, id: &str) {
        match self.ask("POST", &format!("/dead-letter/{id}/retry"), &Value::Null) {
            Err(Lost) => self.race.accounts.with(id, |account| account.retries_unsure += 1),
            Ok((200, _)) => self.race.accounts.with(id, |account| account.retries_sure += 1),
            Ok((status, answer)) => assert_eq!(status, 404, "{id}: {answer}"),
        }
    }

    fn retry_all_of_a_queue(&mut self) {
        let queue = QUEUES[self.random.below(4) as usize];
        let asked = json!({"filter": {"queue": queue}, "confirm": true});
        match self.ask("POST", "/dead-letter/retry", &asked) {
            Err(Lost) => self.race.accounts.lose_bulk(),
            Ok((status, answer)) => {
                assert_eq!(status, 200, "{answer}");
                let of = |name: &str| answer[name].as_u64().unwrap();
                assert_eq!(of("matched"), of("succeeded") + of("failed"), "{answer}");
                self.race.accounts.bulk_retried(of("succeeded"));
                // Of those that failed because the database went, nobody knows.
                if of("failed") > 0 {
                    self.race.accounts.lose_bulk();
                }
            }
        }
    }

    fn delete(&self, id: &str) {
        self.race.accounts.with(id, |account| account.deletes_tried += 1);
        match self.ask("DELETE", &format!("/dead-letter/{id}"), &Value::Null) {
            Err(Lost) => {}
            Ok((200, answer)) => {
                assert_eq!((&answer["deleted"], &answer["job_id"]), (&json!(true), &json!(id)));
                self.race.accounts.with(id, |account| account.end(id, "deleted"));
            }
            Ok((status, answer)) => assert_eq!(status, 404, "{id}: {answer}"),
        }
    }

    fn cancel(&mut self) {
        let Some(id) = self.race.accounts.pick(self.random.next(), |account| account.pushed) else { return };
        self.race.accounts.with(&id, |account| account.cancels_tried = true);
        match self.ask("DELETE", &format!("/jobs/{id}"), &Value::Null) {
            Err(Lost) => {}
            Ok((200, _)) => self.race.accounts.with(&id, |account| account.end(&id, "cancelled")),
            Ok((404, answer)) => self.race.accounts.with(&id, |account| {
                assert!(account.deletes_tried > 0, "{id} was pushed: {answer}");
            }),
            Ok((status, answer)) => assert_eq!(status, 409, "{id}: {answer}"),
        }
    }

    fn retry_twice_and_delete_at_once(&mut self) {
        let Some(id) = self.pick_ended() else { return };
        let worker = &*self;
        std::thread::scope(|scope| {
            scope.spawn(|| worker.retry(&id));
            scope.spawn(|| worker.retry(&id));
            scope.spawn(|| worker.delete(&id));
        });
    }
}
