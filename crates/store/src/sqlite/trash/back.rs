//! Letters that come back: out of the trash to where they were, with new numbers for their lives.

use lazaret_core::filter::words::indexed_text;
use lazaret_core::id::LetterId;
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::{Action, Place, Refused};
use lazaret_core::time::Time;
use rusqlite::Connection;

use super::super::counters::Counted;
use super::super::jobs::follow::{follow, job_of, names_a_job};
use super::super::rows::{self, COUNTED_COLUMNS};
use super::super::verdicts::standing;
use super::super::writer::Write;
use super::super::{holds, incidents, regroup};
use super::{ATTEMPT_COLUMNS, Carried, LIFE_COLUMNS, SAME, drop_content, waits};
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::engine::archive::late;
use crate::failure::FailurePoint;
use crate::seam::ready;

/// Brings a letter back as it was, with its job if it waits. Its time of retention begins again. One whose lives stand in
/// a file cannot be brought back from here.
pub(in crate::sqlite) fn restore(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let standing = match standing(&write.conn, letter)? {
        None => return Ok(Carried::only(Decided::Unknown)),
        Some(standing) => standing,
    };
    if let Err(refused) = standing.after(Action::Restore) {
        return Ok(Carried::only(Decided::Refused(refused)));
    }
    let Some(kept) = kept(&write.conn, letter)? else {
        return Ok(Carried::only(Decided::Refused(Refused { action: Action::Restore, standing })));
    };
    if is_replaced(write, letter)? {
        return Ok(Carried::only(Decided::Replaced));
    }
    bring_back(write, letter, &kept, decision.at)?;
    write.failures.at(FailurePoint::Restore)?;
    come_alive(write, letter, &kept.counted, decision.at)?;
    holds::came_back(write, letter, decision.at)?;
    carried_back(write, letter, &kept.counted, decision.at)
}

/// A letter in the trash that may come back.
pub(in crate::sqlite) struct Kept {
    row: i64,
    words: String,
    grouped_by: Option<String>,
    pub counted: Counted,
}

pub(in crate::sqlite) fn kept(conn: &Connection, letter: LetterId) -> Result<Option<Kept>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select letter, type, error_type, error_message, grouped_by, {COUNTED_COLUMNS}
           from trash
          where id = ?1"
    ))?;
    let mut found = statement.query([letter.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (letter_type, error_type, message): (String, String, String) =
        (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(Some(Kept {
        row: row.get(0)?,
        words: indexed_text(&letter_type, &error_type, &message),
        grouped_by: row.get(4)?,
        counted: rows::counted(row, 5)?,
    }))
}

/// Says on the letter's key that it is live, takes it out of the archive's index and counts it.
pub(in crate::sqlite) fn come_alive(
    write: &mut Write,
    letter: LetterId,
    counted: &Counted,
    at: Time,
) -> Result<(), StoreError> {
    ready(late::bring(write, letter))?;
    let conn = &write.conn;
    conn.prepare_cached("delete from archive where id = ?1")?.execute([letter.bytes()])?;
    conn.prepare_cached(
        "update letter_keys
            set place = ?2, removed_at = null, removed_by = null, removal = null, removed_status = null
          where id = ?1",
    )?
    .execute((letter.bytes(), Place::Live.name()))?;
    write.tally.at(at);
    write.tally.appear(counted);
    Ok(())
}

/// The job of a letter that waits again follows it; says what is to be told.
pub(in crate::sqlite) fn carried_back(
    write: &Write,
    letter: LetterId,
    counted: &Counted,
    at: Time,
) -> Result<Carried, StoreError> {
    if waits(counted.status) {
        follow(write, letter, at)?;
    }
    let incident = incidents::of_fingerprint(&write.conn, &counted.fingerprint)?;
    Ok(Carried { decided: Decided::Done, job: job_of(write, letter)?, incident })
}

const NAMED: &str = "select key, source, event_id from archive where id = ?1";

/// Whether another letter has taken the key since, or a job the id.
pub(in crate::sqlite) fn is_replaced(write: &Write, letter: LetterId) -> Result<bool, StoreError> {
    let conn = &write.conn;
    let (key, source, event_id): (CaptureKey, String, String) = conn
        .prepare_cached(NAMED)?
        .query_row([letter.bytes()], |row| Ok((row.get(0).map(CaptureKey)?, row.get(1)?, row.get(2)?)))?;
    let taken = match write.keys.latest(conn, &key)? {
        Some(known) => known.place != Place::Deleted && known.letter != letter,
        None => false,
    };
    Ok(taken || names_a_job(conn, &source, &event_id, &key)?)
}

/// Copies a letter out of the trash. Who holds it is taken from the archive.
pub(in crate::sqlite) fn bring_back(
    write: &mut Write,
    letter: LetterId,
    kept: &Kept,
    at: Time,
) -> Result<(), StoreError> {
    let conn = &write.conn;
    conn.prepare_cached(&format!(
        "insert into dead_letter_queue ({SAME}, held_at, held_by, hold_reason, place, updated_at, retention_at)
         select {SAME}, a.held_at, a.held_by, a.hold_reason, ?3, ?4, ?4
           from trash
           cross join (select held_at, held_by, hold_reason from archive where id = ?2) a
          where letter = ?1"
    ))?
    .execute((kept.row, letter.bytes(), Place::Live.name(), at.ms()))?;
    let lives: i64 = conn
        .prepare_cached("select count(*) from trash_lives where letter = ?1")?
        .query_row([kept.row], |row| row.get(0))?;
    let first = write.numbers.next_lives(lives);
    conn.prepare_cached(&format!(
        "insert into lives (rowid, {LIFE_COLUMNS})
         select ?2 - 1 + row_number() over (order by life), {LIFE_COLUMNS}
           from trash_lives
          where letter = ?1"
    ))?
    .execute((kept.row, first))?;
    conn.prepare_cached(&format!(
        "insert into attempts ({ATTEMPT_COLUMNS}) select {ATTEMPT_COLUMNS} from trash_attempts where letter = ?1"
    ))?
    .execute([kept.row])?;
    conn.prepare_cached("insert into letter_words (rowid, words) values (?1, ?2)")?
        .execute((kept.row, &kept.words))?;
    drop_content(conn, kept.row)?;
    regroup::catch_up(write, kept.grouped_by.as_deref(), first, at)
}
