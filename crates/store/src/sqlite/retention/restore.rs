//! Bringing a letter back from a file: what the letter was is in the index, what it held comes out of the file.

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Action, Refused};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::counters::Counted;
use super::super::holds;
use super::super::insert::add_attempt;
use super::super::transfer::{Packed, add_incidents, add_lives};
use super::super::trash::Carried;
use super::super::trash::back::{carried_back, come_alive, is_replaced};
use super::super::verdicts::{record, standing, tell};
use super::super::writer::Write;
use super::meet::put_back;
use crate::StoreError;
use crate::archive::Entry;
use crate::decision::{Decided, Decision};
use crate::failure::FailurePoint;
use crate::transfer::Import;

/// Brings a letter back as a decision asks for it, with all that is told of it.
pub(in crate::sqlite) fn restore_from_file(
    write: &mut Write,
    packed: &Packed,
    entry: Entry,
    decision: &Decision,
) -> Result<Decided, StoreError> {
    let letter = packed.import().exported.letter.id;
    let carried = bring_back(write, letter, packed, entry, decision)?;
    if carried.decided == Decided::Done {
        tell(write, letter, decision, None, &carried)?;
        record(write, letter, decision, None)?;
    }
    Ok(carried.decided)
}

const OF_ENTRY: &str = "
select exists (select 1
                 from archive
                where id = ?1
                  and entry = ?2
                  and waiting = 0)";

fn bring_back(
    write: &mut Write,
    letter: LetterId,
    packed: &Packed,
    entry: Entry,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let Some(standing) = standing(&write.conn, letter)? else { return Ok(Carried::only(Decided::Unknown)) };
    if let Err(refused) = standing.after(Action::Restore) {
        return Ok(Carried::only(Decided::Refused(refused)));
    }
    let is_it: bool =
        write.conn.prepare_cached(OF_ENTRY)?.query_row((letter.bytes(), entry), |row| row.get(0))?;
    // It came back and went again meanwhile: what was read out of the file is not what it is now.
    if !is_it || decision.from.is_some_and(|from| from != standing.status) {
        return Ok(Carried::only(Decided::Refused(Refused { action: Action::Restore, standing })));
    }
    if is_replaced(write, letter)? {
        return Ok(Carried::only(Decided::Replaced));
    }
    let counted = put_whole(write, letter, packed, decision.at)?;
    take_off_record(&write.conn, letter, packed.import())?;
    write.failures.at(FailurePoint::Restore)?;
    come_alive(write, letter, &counted, decision.at)?;
    holds::came_back(write, letter, decision.at)?;
    carried_back(write, letter, &counted, decision.at)
}

/// Puts a letter among the live ones with its lives and attempts, grouped by the rules of today.
fn put_whole(write: &mut Write, letter: LetterId, packed: &Packed, at: Time) -> Result<Counted, StoreError> {
    let import = packed.import();
    add_incidents(write, import)?;
    let (row, counted) = put_back(write, letter, at)?;
    let grouping = import.groupings.last().map(|(grouping, _)| grouping.fingerprint.as_str());
    let fingerprint = grouping.unwrap_or(&counted.fingerprint).to_owned();
    write
        .conn
        .prepare_cached("update dead_letter_queue set fingerprint = ?2 where letter = ?1")?
        .execute((row, &fingerprint))?;
    let told = import.exported.attempts.iter().zip(packed.attempts());
    for (told, attempt) in told {
        add_attempt(write, row, told.ordinal, told.life, attempt)?;
    }
    add_lives(write, packed, row)?;
    Ok(Counted { fingerprint, ..counted })
}

const LIFE: &str = "select life from archive where id = ?1";

const TAKE_OFF: &str = "
delete from archive_rows
 where letter = ?1
   and first_life >= ?2
   and last_life <= ?3";

/// Says of the lives that came back that they are in no file any more. All that are left there have to be older ones.
fn take_off_record(conn: &Connection, letter: LetterId, import: &Import) -> Result<(), StoreError> {
    let lives: Vec<u32> = import.exported.lives.iter().map(|(life, _)| life.life).collect();
    let last: u32 = conn.prepare_cached(LIFE)?.query_row([letter.bytes()], |row| row.get(0))?;
    let first = lives.first().copied().unwrap_or(0);
    let whole = first >= 1 && lives.iter().copied().eq(first..=last);
    conn.prepare_cached(TAKE_OFF)?.execute((letter.bytes(), first, last))?;
    let left: Option<u32> = conn
        .prepare_cached("select max(last_life) from archive_rows where letter = ?1")?
        .query_row([letter.bytes()], |row| row.get(0))
        .optional()?
        .flatten();
    if !whole || left.unwrap_or(0) + 1 != first {
        return Err(StoreError::Corrupt(format!(
            "letter {letter} has lives up to {last}, but a file gave lives {lives:?}"
        )));
    }
    Ok(())
}
