//! Where the servers of a fault test are. Servers are killed and started again elsewhere, and their database goes away:
//! whoever asks finds one that is up, and waits while there is none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use crate::torture::call;

/// Nobody knows what came of a request: no answer was heard, or one that leaves it open.
pub struct Lost;

/// How long the whole may be away; then something is broken that the test did not break.
const AWAY_MAX: Duration = Duration::from_secs(60);

pub struct Doors {
    /// The count says which start of a server is meant; without an address it is down.
    places: Mutex<Vec<(u64, Option<String>)>>,
    opened: Condvar,
    asked: AtomicU64,
    database: Mutex<Database>,
    mended: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// Never goes away: a server that says so is wrong.
    Sure,
    Here,
    Away,
}

impl Doors {
    pub fn new(addresses: &[&str], database: Database) -> Doors {
        Doors {
            places: Mutex::new(addresses.iter().map(|address| (1, Some((*address).to_owned()))).collect()),
            opened: Condvar::new(),
            asked: AtomicU64::new(0),
            database: Mutex::new(database),
            mended: Condvar::new(),
        }
    }

    /// A server was started again, here.
    pub fn open(&self, number: usize, address: &str) {
        let place = &mut open(&self.places)[number];
        *place = (place.0 + 1, Some(address.to_owned()));
        self.opened.notify_all();
    }

    /// Says before the database goes that it goes, and after it is back that it is.
    pub fn tell_of_database(&self, database: Database) {
        *open(&self.database) = database;
        self.mended.notify_all();
    }

    /// One that is up, each in turn: its number, which start of it, and its address.
    fn find(&self) -> (usize, u64, String) {
        let up = |places: &[(u64, Option<String>)]| {
            let first = self.asked.fetch_add(1, Ordering::SeqCst) as usize;
            (0..places.len()).map(|n| (first + n) % places.len()).find_map(|n| {
                let (count, address) = &places[n];
                Some((n, *count, address.clone()?))
            })
        };
        let all_down =
            |places: &mut Vec<(u64, Option<String>)>| places.iter().all(|(_, address)| address.is_none());
        let (places, waited) = self
            .opened
            .wait_timeout_while(open(&self.places), AWAY_MAX, all_down)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.timed_out(), "no server was started again");
        up(&places).expect("one is up")
    }

    /// One request to one that is up.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value), Lost> {
        let (number, count, address) = self.find();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        match call(&address, method, path, "application/json", &body) {
            Some((503, told)) => {
                let database = open(&self.database);
                assert!(*database != Database::Sure, "{method} {path}: {told}");
                let away = |database: &mut Database| *database == Database::Away;
                let (database, waited) = self
                    .mended
                    .wait_timeout_while(database, AWAY_MAX, away)
                    .unwrap_or_else(PoisonError::into_inner);
                drop(database);
                assert!(!waited.timed_out(), "the database did not come back");
                Err(Lost)
            }
            Some(answer) => Ok(answer),
            None => {
                let place = &mut open(&self.places)[number];
                if place.0 == count {
                    place.1 = None;
                }
                Err(Lost)
            }
        }
    }
}

/// The first thread that finds something wrong says what; the others go on.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
