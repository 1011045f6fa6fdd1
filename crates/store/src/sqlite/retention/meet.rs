//! A message arrives under the key of an archived letter: told again it moves nothing, a new death brings the letter back.
//!
//! Attempts that a letter in the archive does not have yet are kept beside it (`late`). One that comes back begins its next
//! life, and its older lives stay where they are.

use lazaret_core::death::{Evidence, Known, Verdict, judge};
use lazaret_core::filter::words::indexed_text;
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Outcome, Receipt};
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::counters::Counted;
use super::super::insert::{meet, note};
use super::super::redrives::outcomes;
use super::super::rows::{self, COUNTED_COLUMNS};
use super::super::trash::back::{bring_back, come_alive, kept};
use super::super::writer::Write;
use super::index::SAME;
use crate::StoreError;
use crate::engine::archive::late;
use crate::failure::FailurePoint;
use crate::packing::Prepared;
use crate::seam::ready;

pub(in crate::sqlite) fn meet_archived(
    write: &mut Write,
    prepared: &Prepared,
    id: LetterId,
) -> Result<Receipt, StoreError> {
    let known = known(&write.conn, id)?;
    let told = ready(late::known(write, id))?;
    let is_new = |identity: &[u8; 16]| !told.contains(identity);
    let mark_sent = outcomes::mark_sent(&write.conn, &known, prepared.admitted.captured.mark)?;
    let attempt_known = !is_new(&prepared.fatal().identity.0);
    let evidence = Evidence { mark_sent, ..prepared.admitted.evidence(attempt_known) };
    match judge(known, evidence) {
        Verdict::Duplicate => {
            let life = known.life_of(prepared.admitted.captured.mark);
            for attempt in &prepared.attempts {
                if is_new(&attempt.identity.0) && !attempt.tells_nothing() {
                    ready(late::add(write, id, life, attempt))?;
                }
            }
            note(write, prepared, "duplicate");
            Ok(Receipt { letter: id, outcome: Outcome::Duplicate })
        }
        Verdict::NewDeath | Verdict::Relapse => {
            revive(write, id, prepared.admitted.captured_at)?;
            meet(write, prepared, id, Place::Archived)
        }
    }
}

const KNOWN: &str = "
select status, life, died_at, ever_sent
  from archive
 where id = ?1";

fn known(conn: &Connection, id: LetterId) -> Result<Known, StoreError> {
    let found: Option<(String, u32, i64, bool)> = conn
        .prepare_cached(KNOWN)?
        .query_row([id.bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((status, life, died_at, ever_sent)) = found else {
        return Err(StoreError::Corrupt(format!(
            "the key of letter {id} says that it is archived, but the archive does not know it"
        )));
    };
    Ok(Known {
        letter: id,
        status: rows::status(&status)?,
        life,
        died_at: Time::from_ms(died_at),
        // Nothing is archived that is out there.
        sent_at: None,
        ever_sent,
    })
}

/// Puts a letter among the live ones again: with its content if that waits, else without its older lives.
fn revive(write: &mut Write, id: LetterId, at: Time) -> Result<(), StoreError> {
    let counted = match kept(&write.conn, id)? {
        Some(kept) => {
            bring_back(write, id, &kept, at)?;
            kept.counted
        }
        None => put_back(write, id, at)?.1,
    };
    write.failures.at(FailurePoint::Meet)?;
    come_alive(write, id, &counted, at)
}

/// Makes a live letter from what the index knows of it, without lives and attempts; returns its number and what it counts
/// under.
pub(super) fn put_back(write: &Write, id: LetterId, at: Time) -> Result<(i64, Counted), StoreError> {
    let row = write.numbers.next_letter();
    write
        .conn
        .prepare_cached(&format!(
            "insert into dead_letter_queue (letter, {SAME}, place)
             select ?2, {SAME}, ?3
               from archive
              where id = ?1"
        ))?
        .execute((id.bytes(), row, Place::Live.name()))?;
    write
        .conn
        .prepare_cached("update dead_letter_queue set updated_at = ?2, retention_at = ?2 where letter = ?1")?
        .execute((row, at.ms()))?;
    let mut statement = write.conn.prepare_cached(&format!(
        "select type, error_type, error_message, {COUNTED_COLUMNS} from dead_letter_queue where letter = ?1"
    ))?;
    let mut found = statement.query([row])?;
    let Some(found) = found.next()? else {
        return Err(StoreError::Corrupt(format!("the archive does not know letter {id}")));
    };
    let (letter_type, error_type, message): (String, String, String) =
        (found.get(0)?, found.get(1)?, found.get(2)?);
    let counted = rows::counted(found, 3)?;
    write
        .conn
        .prepare_cached("insert into letter_words (rowid, words) values (?1, ?2)")?
        .execute((row, indexed_text(&letter_type, &error_type, &message)))?;
    Ok((row, counted))
}
