//! Looking for dead rows: those that a trigger told of at once, and all of them by a sweep now and then.
//!
//! A sweep reads keys and versions only, page by page; what was acknowledged in that version is passed over. Nothing is
//! remembered over a restart, so a row that was captured and not acknowledged comes again, and one that was stored
//! already comes as the same death.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::limits;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use super::db::{Session, cell};
use super::notes::{CHANNEL, Dead, Note};
use super::row::RowVersion;
use super::table::Table;
use super::{Outbox, locked, now, row};
use crate::{Arrival, SourceError};

/// Where a look for dead rows stands.
#[derive(Default)]
pub(super) struct Look {
    connection: Option<Connection>,
    /// Rows to fetch, with the bytes of their payloads.
    noted: VecDeque<(String, u64)>,
    /// Whether there are more than were noted.
    overflowed: bool,
    /// The sweep that is under way: the key that it stands behind.
    sweep: Option<Option<String>>,
    /// When the next one begins.
    sweep_at: Option<Instant>,
}

struct Connection {
    session: Session,
    told: mpsc::Receiver<String>,
    table: Arc<Table>,
    sweep_every: Duration,
}

/// Rows that were acknowledged, by a hash of their key, with the version and the sweep that saw them last.
#[derive(Default)]
pub(super) struct Remembered {
    rows: HashMap<[u8; 16], (u64, u32)>,
    sweep: u32,
}

pub(super) const HAS_TRIGGER: &str = "
    select count(*)
      from pg_catalog.pg_trigger t
      join pg_catalog.pg_proc p on p.oid = t.tgfoid
     where t.tgrelid = $1 and not t.tgisinternal and t.tgenabled <> 'D' and p.prosrc like '%lazaret_outbox%'";

impl Look {
    /// Waits for dead rows and fetches some. After an error the look is thrown away.
    pub async fn next(&mut self, outbox: &Outbox) -> Result<Vec<Arrival>, SourceError> {
        let until = Instant::now() + Duration::from_millis(limits::SOURCE_NEXT_MS_MAX);
        loop {
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.connect(outbox).await?,
            };
            let connection = self.connection.insert(connection);
            while let Ok(payload) = connection.told.try_recv() {
                take_note(&payload, connection, &mut self.noted, &mut self.overflowed, outbox);
            }
            for key in locked(&outbox.released).take_due(Instant::now()) {
                let size = limits::OUTBOX_PAYLOAD_BYTES_GUESSED;
                note_one(&mut self.noted, &mut self.overflowed, key, size);
            }
            if !self.noted.is_empty() {
                let arrivals = self.fetch(outbox).await?;
                if !arrivals.is_empty() {
                    return Ok(arrivals);
                }
                continue;
            }
            let is_time = self.sweep_at.is_none_or(|at| Instant::now() >= at);
            if self.sweep.is_none() && (is_time || std::mem::take(&mut self.overflowed)) {
                self.sweep = Some(None);
                self.sweep_at = Some(Instant::now() + connection.sweep_every);
                locked(&outbox.remembered).begin_sweep();
                // Whatever was handed over and not acknowledged is handed over again.
                locked(&outbox.state).handed.clear();
            }
            if self.sweep.is_some() {
                self.sweep_on(outbox).await?;
                continue;
            }
            let pause = locked(&outbox.released).next_due();
            let wake_at = [self.sweep_at, pause].into_iter().flatten().fold(until, Instant::min);
            match tokio::time::timeout_at(wake_at.into(), connection.told.recv()).await {
                Ok(Some(payload)) => {
                    take_note(&payload, connection, &mut self.noted, &mut self.overflowed, outbox);
                }
                Ok(None) => {
                    let why = "the connection was lost".to_owned();
                    return Err(SourceError::Unavailable { doing: "listening", why });
                }
                Err(_) if Instant::now() >= until => {
                    // Hearing nothing is no proof that the connection is alive.
                    connection.session.run("listening", "").await?;
                    return Ok(Vec::new());
                }
                Err(_) => {}
            }
        }
    }

    /// Listens first and looks then, or what dies in between is found only by the next sweep.
    async fn connect(&mut self, outbox: &Outbox) -> Result<Connection, SourceError> {
        let table = outbox.bind_again().await?;
        let (session, told) = outbox.db.listen().await?;
        session.run("listening", &format!("listen {CHANNEL}")).await?;
        let rows = session.query("looking for a trigger", HAS_TRIGGER, &[&table.catalogue.oid]).await?;
        let triggers: i64 = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
        let every_ms = if triggers > 0 { outbox.config.sweep_ms } else { outbox.config.poll_ms };
        (self.sweep, self.sweep_at) = (None, None);
        Ok(Connection { session, told, table, sweep_every: Duration::from_millis(every_ms) })
    }

    /// Fetches some of the rows that were noted: as many as one batch takes.
    async fn fetch(&mut self, outbox: &Outbox) -> Result<Vec<Arrival>, SourceError> {
        let Some(connection) = &self.connection else { return Ok(Vec::new()) };
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while let Some((key, size)) = self.noted.pop_front() {
            bytes += size;
            if !keys.is_empty() && (keys.len() >= limits::OUTBOX_ROWS_MAX || bytes > limits::OUTBOX_BYTES_MAX)
            {
                self.noted.push_front((key, size));
                break;
            }
            // A row that was given back is noted again when its pause is over.
            if connection.table.key.fits(&key) && !locked(&outbox.released).waits(&key) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let fetched = connection
            .session
            .query("fetching dead rows", &connection.table.statements.fetch, &[&keys])
            .await?;
        let arrivals = fetched.iter().map(|row| row::arrival(row, &connection.table, &outbox.config));
        let arrivals: Vec<Arrival> = arrivals.collect::<Result<_, _>>()?;
        // The trigger and the sweep may both have told of a row.
        let mut remembered = locked(&outbox.remembered);
        let is_new = |arrival: &Arrival| {
            RowVersion::read(&arrival.receipt).is_none_or(|row| !remembered.has_seen(&row))
        };
        Ok(arrivals.into_iter().filter(is_new).collect())
    }

    /// Looks at one page of keys and notes those that are not remembered.
    async fn sweep_on(&mut self, outbox: &Outbox) -> Result<(), SourceError> {
        const DOING: &str = "looking for dead rows";
        let (Some(connection), Some(behind)) = (&self.connection, &self.sweep) else { return Ok(()) };
        let statements = &connection.table.statements;
        let rows = match behind {
            None => {
                let binds: [super::db::Bind<'_>; 1] = [&limits::OUTBOX_SWEEP_ROWS];
                connection.session.query(DOING, &statements.sweep_first, &binds).await?
            }
            Some(key) => {
                let binds: [super::db::Bind<'_>; 2] = [&limits::OUTBOX_SWEEP_ROWS, key];
                connection.session.query(DOING, &statements.sweep_after, &binds).await?
            }
        };
        let mut last = None;
        let mut remembered = locked(&outbox.remembered);
        for row in &rows {
            let dead = RowVersion { key: cell(row, 0)?, version: cell(row, 1)? };
            let size: Option<i64> = cell(row, 2)?;
            if !remembered.has_seen(&dead) {
                let size = u64::try_from(size.unwrap_or(0)).unwrap_or(0);
                self.noted.push_back((dead.key.clone(), size));
            }
            last = Some(dead.key);
        }
        let is_last_page = (rows.len() as i64) < limits::OUTBOX_SWEEP_ROWS;
        if is_last_page {
            remembered.end_sweep();
            locked(&outbox.state).state.looked_at = Some(now());
        }
        drop(remembered);
        self.sweep = if is_last_page { None } else { Some(last) };
        Ok(())
    }
}

fn take_note(
    payload: &str,
    connection: &Connection,
    noted: &mut VecDeque<(String, u64)>,
    overflowed: &mut bool,
    outbox: &Outbox,
) {
    let Some(note) = Note::parse(payload, &connection.table.noted_name()) else { return };
    if note.due {
        outbox.due.send_modify(|count| *count += 1);
    }
    match note.dead {
        Dead::Rows(keys) => {
            for key in keys {
                match connection.table.key.fits(&key) {
                    true => note_one(noted, overflowed, key, limits::OUTBOX_PAYLOAD_BYTES_GUESSED),
                    // A trigger from before the table's key was known in full: a sweep finds the row.
                    false => *overflowed = true,
                }
            }
        }
        Dead::Many => *overflowed = true,
    }
}

fn note_one(noted: &mut VecDeque<(String, u64)>, overflowed: &mut bool, key: String, size: u64) {
    if noted.len() < limits::OUTBOX_NOTED_MAX {
        noted.push_back((key, size));
    } else {
        *overflowed = true;
    }
}

impl Remembered {
    pub fn acknowledge(&mut self, row: &RowVersion) {
        let key = hash(&row.key);
        if self.rows.len() < limits::OUTBOX_ROWS_REMEMBERED_MAX || self.rows.contains_key(&key) {
            self.rows.insert(key, (version(row), self.sweep));
        }
    }

    fn begin_sweep(&mut self) {
        self.sweep = self.sweep.wrapping_add(1);
    }

    /// Whether a row was acknowledged in this version.
    fn has_seen(&mut self, row: &RowVersion) -> bool {
        match self.rows.get_mut(&hash(&row.key)) {
            Some((known, sweep)) => {
                *sweep = self.sweep;
                *known == version(row)
            }
            None => false,
        }
    }

    /// Forgets the rows that were not met: they are not dead any more.
    fn end_sweep(&mut self) {
        let sweep = self.sweep;
        self.rows.retain(|_, (_, seen)| *seen == sweep);
    }
}

/// Two keys with one hash would hide a death, so it is as long as those that nobody ever found two of.
fn hash(key: &str) -> [u8; 16] {
    let full: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    let mut cut = [0; 16];
    cut.copy_from_slice(&full[..16]);
    cut
}

/// A version is a number of PostgreSQL's; anything else is never the same.
fn version(row: &RowVersion) -> u64 {
    row.version.parse().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead(key: &str, version: &str) -> RowVersion {
        RowVersion { key: key.to_owned(), version: version.to_owned() }
    }

    #[test]
    fn a_row_is_passed_over_only_in_the_version_that_was_acknowledged() {
        let mut remembered = Remembered::default();
        remembered.begin_sweep();
        assert!(!remembered.has_seen(&dead("a", "7")));
        remembered.acknowledge(&dead("a", "7"));
        assert!(remembered.has_seen(&dead("a", "7")));
        assert!(!remembered.has_seen(&dead("a", "8")));
        assert!(!remembered.has_seen(&dead("b", "7")));
    }

    #[test]
    fn a_receipt_names_the_row_and_its_version() {
        for key in ["7", "a b", " ", "", "größe\n"] {
            assert_eq!(RowVersion::read(&dead(key, "7").receipt()), Some(dead(key, "7")));
        }
    }

    #[test]
    fn rows_that_a_sweep_does_not_meet_are_forgotten() {
        let mut remembered = Remembered::default();
        remembered.begin_sweep();
        remembered.acknowledge(&dead("a", "7"));
        remembered.acknowledge(&dead("b", "7"));
        remembered.end_sweep();
        remembered.begin_sweep();
        assert!(remembered.has_seen(&dead("a", "7")));
        remembered.end_sweep();
        assert_eq!(remembered.rows.len(), 1);
    }
}
