//! Letters that leave the live ones and come back: all their rows are copied into the trash, or gone for good.
//!
//! A letter keeps its number while it is there. Its lives come back under new numbers, because what goes by those has
//! passed the old ones by. What is in the trash waits for a file of the archive; its index says so.

pub(super) mod back;

use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::lifecycle::{Action, HoldRule, Place, Standing, Status};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::counters::{Counted, Flow};
use super::incidents;
use super::jobs::follow::{job_of, withdraw};
use super::retention::index;
use super::rows::{self, COUNTED_COLUMNS};
use super::verdicts::{guard, standing};
use super::writer::Write;
use super::{numbers, regroup};
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::failure::FailurePoint;
use crate::source_store::left_source;

/// What became of a letter, and what is to be told of it beside.
pub(super) struct Carried {
    pub decided: Decided,
    pub job: Option<JobId>,
    pub incident: Option<IncidentId>,
}

impl Carried {
    pub(super) const fn only(decided: Decided) -> Carried {
        Carried { decided, job: None, incident: None }
    }
}

/// Where a letter goes, by whom and why.
pub(super) struct Removal<'a> {
    pub action: Action,
    pub outlet: Outlet,
    pub by: &'a str,
    /// A limit, or `deleted` by hand.
    pub reason: &'a str,
    pub at: Time,
}

/// What becomes of a letter that leaves the live ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outlet {
    /// Into the archive, where it can be found by everybody.
    Archive,
    /// Out of every list, with its content in the archive.
    Bin,
    /// Nothing stays but its key.
    Nowhere,
}

impl Outlet {
    const fn place(self) -> Place {
        match self {
            Outlet::Archive => Place::Archived,
            Outlet::Bin | Outlet::Nowhere => Place::Deleted,
        }
    }
}

/// Why a letter is not there any more, as its key says it.
const BY_HAND: &str = "deleted";

/// Takes a letter out of all lists, with its job. Inside the floor its content goes to the archive.
pub(super) fn delete(
    write: &mut Write,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let standing = match standing(&write.conn, letter)? {
        None => return Ok(Carried::only(Decided::Unknown)),
        Some(standing) => standing,
    };
    if let Err(refused) = standing.after(Action::Delete) {
        return Ok(Carried::only(Decided::Refused(refused)));
    }
    match standing.place {
        Place::Live => delete_live(write, letter, decision),
        Place::Archived | Place::Deleted => delete_archived(write, letter, decision, standing.status),
    }
}

fn delete_live(write: &mut Write, letter: LetterId, decision: &Decision) -> Result<Carried, StoreError> {
    let Some(leaving) = leaving(&write.conn, letter)? else {
        return Err(StoreError::Corrupt(format!("letter {letter} moved while it was held still")));
    };
    let inside = leaving.since.plus_ms(decision.floor_ms()) > decision.at;
    let removal = Removal {
        action: Action::Delete,
        outlet: if inside { Outlet::Bin } else { Outlet::Nowhere },
        by: &decision.actor.name,
        reason: BY_HAND,
        at: decision.at,
    };
    let (counted, job) = take_away(write, letter, &leaving, &removal)?;
    numbers::keep(write)?;
    let incident = incidents::of_fingerprint(&write.conn, &counted.fingerprint)?;
    Ok(Carried { decided: Decided::Done, job, incident })
}

const OF_ARCHIVE: &str = "select since, fingerprint from archive where id = ?1";

const BIN: &str = "
update archive
   set place = ?2, removed_at = ?3, removed_by = ?4, reason = ?5
 where id = ?1
   and place = ?6
   and held_at is null";

const FORGET: &str = "
delete from archive
 where id = ?1
   and place = ?2
   and held_at is null";

/// Deletes a letter that is in the archive already. A file that it stands in is not changed: nothing leads there.
fn delete_archived(
    write: &Write,
    letter: LetterId,
    decision: &Decision,
    status: Status,
) -> Result<Carried, StoreError> {
    let conn = &write.conn;
    let (since, fingerprint): (i64, String) =
        conn.prepare_cached(OF_ARCHIVE)?.query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (id, archived, by) = (letter.bytes(), Place::Archived.name(), &decision.actor.name);
    let inside = Time::from_ms(since).plus_ms(decision.floor_ms()) > decision.at;
    let moved = if inside {
        let deleted = Place::Deleted.name();
        conn.prepare_cached("update trash set place = ?2 where id = ?1")?.execute((id, deleted))?;
        conn.prepare_cached(BIN)?.execute((id, deleted, decision.at.ms(), by, BY_HAND, archived))?
    } else {
        conn.prepare_cached(FORGET)?.execute((id, archived))?
    };
    if moved != 1 {
        return Err(StoreError::Corrupt(format!("letter {letter} moved while it was held still")));
    }
    if !inside {
        let waiting: Option<i64> = conn
            .prepare_cached("select letter from trash where id = ?1")?
            .query_row([letter.bytes()], |row| row.get(0))
            .optional()?;
        if let Some(row) = waiting {
            drop_content(conn, row)?;
        }
        forget_past(write, letter)?;
        numbers::keep(write)?;
    }
    let removal =
        Removal { action: Action::Delete, outlet: Outlet::Bin, by, reason: BY_HAND, at: decision.at };
    bury(write, letter, &removal, status)?;
    let incident = incidents::of_fingerprint(conn, &fingerprint)?;
    Ok(Carried { decided: Decided::Done, job: None, incident })
}

/// A live letter that is about to leave.
pub(super) struct Leaving {
    row: i64,
    pub status: Status,
    pub held: bool,
    pub retention_at: Time,
    /// The later of its last capture and its last death: the floor is counted from here.
    pub since: Time,
}

const LEAVING: &str = "
select l.letter, l.status, l.held_at is not null, l.retention_at, max(l.created_at, l.died_at, v.captured_at)
  from dead_letter_queue l
  join lives v on v.letter = l.letter and v.life = l.life
 where l.id = ?1";

pub(super) fn leaving(conn: &Connection, letter: LetterId) -> Result<Option<Leaving>, StoreError> {
    let mut statement = conn.prepare_cached(LEAVING)?;
    let mut found = statement.query([letter.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(Leaving {
        row: row.get(0)?,
        status: rows::status(&row.get::<_, String>(1)?)?,
        held: row.get(2)?,
        retention_at: Time::from_ms(row.get(3)?),
        since: Time::from_ms(row.get(4)?),
    }))
}

/// Takes a live letter away, with its job, its counters and its key. Whoever does so keeps the numbers.
pub(super) fn take_away(
    write: &mut Write,
    letter: LetterId,
    leaving: &Leaving,
    removal: &Removal<'_>,
) -> Result<(Counted, Option<JobId>), StoreError> {
    let job = job_of(write, letter)?;
    if let Some(job) = job {
        withdraw(write, job)?;
    }
    match removal.outlet {
        Outlet::Archive | Outlet::Bin => {
            let place = removal.outlet.place();
            keep(write, leaving.row, place)?;
            index::add(write, leaving.row, place, leaving.since, removal)?;
            write.failures.at(FailurePoint::Archive)?;
        }
        Outlet::Nowhere => forget_past(write, letter)?,
    }
    if leaving.status == Status::Resolved {
        write.conn.prepare_cached(&forget_death())?.execute([letter.bytes()])?;
    }
    let counted = remove(write, letter, leaving, removal.action)?;
    bury(write, letter, removal, counted.status)?;
    write.tally.at(removal.at);
    write.tally.vanish(&counted);
    if waits(counted.status) {
        write.tally.flow(removal.at.minute(), Flow::Departed, &counted);
    }
    Ok((counted, job))
}

/// How much the content of a live letter weighs in the store.
pub(super) fn weight(conn: &Connection, leaving: &Leaving) -> Result<u64, StoreError> {
    let bytes: i64 = conn.prepare_cached(WEIGHT)?.query_row([leaving.row], |row| row.get(0))?;
    Ok(bytes as u64)
}

const WEIGHT: &str = "
select (select coalesce(sum(octet_length(body)), 0) from lives where letter = ?1)
     + (select coalesce(sum(octet_length(detail)), 0) from attempts where letter = ?1)";

/// Whether a letter of this status goes out when it is deleted; the others went when they were settled.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

/// The columns of a letter that are the same in the trash; `place`, `updated_at` and `retention_at` are not. Who holds a
/// letter is for the archive to say: it may be held there.
const SAME: &str = "letter, id, source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, life, sent_at, ever_sent,
resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, previous,
created_at, died_at";

const LIFE_COLUMNS: &str =
    "letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body,
body_bytes, sha256, fatal, retry_count, max_retries, redrive, reported, origin, body_missing";

const ATTEMPT_COLUMNS: &str =
    "letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail";

/// Copies a letter into the trash.
fn keep(write: &Write, row: i64, place: Place) -> Result<(), StoreError> {
    let conn = &write.conn;
    conn.prepare_cached(&format!(
        "insert into trash ({SAME}, place, updated_at, retention_at, grouped_by)
         select {SAME}, ?2, updated_at, retention_at, ?3
           from dead_letter_queue
          where letter = ?1"
    ))?
    .execute((row, place.name(), regroup::settled_revision(conn)?))?;
    for (into, from, columns) in
        [("trash_lives", "lives", LIFE_COLUMNS), ("trash_attempts", "attempts", ATTEMPT_COLUMNS)]
    {
        conn.prepare_cached(&format!(
            "insert into {into} ({columns}) select {columns} from {from} where letter = ?1"
        ))?
        .execute([row])?;
    }
    Ok(())
}

/// Removes a live letter with what hangs on it. Its hold is asked for once more by the statement that removes it, and so
/// is whether it stands as it did.
fn remove(write: &Write, letter: LetterId, leaving: &Leaving, action: Action) -> Result<Counted, StoreError> {
    let (conn, row) = (&write.conn, leaving.row);
    conn.prepare_cached("delete from attempts where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from lives where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from letter_words where rowid = ?1")?.execute([row])?;
    conn.prepare_cached("delete from claims where letter = ?1")?.execute([letter.bytes()])?;
    let rule = action.rows().iter().find(|rule| rule.place == Place::Live);
    let guard = guard(rule.map_or(HoldRule::Free, |rule| rule.hold));
    let mut statement = conn.prepare_cached(&format!(
        "delete from dead_letter_queue
          where letter = ?1
            and status = ?2
            and retention_at = ?3 {guard}
        returning {COUNTED_COLUMNS}"
    ))?;
    let mut removed = statement.query((row, leaving.status.name(), leaving.retention_at.ms()))?;
    let counted = match removed.next()? {
        Some(row) => rows::counted(row, 0)?,
        None => return Err(StoreError::Corrupt(format!("letter {letter} moved while it was held still"))),
    };
    // The row is only gone when the statement has run to its end.
    while removed.next()?.is_some() {}
    Ok(counted)
}

/// The death that the source told last stands only while its message stays dead there.
fn forget_death() -> String {
    let left_source = left_source();
    format!(
        "update letter_keys
            set death = null
          where id = ?1
            and death is not null
            and exists (select 1 from dead_letter_queue l where l.id = ?1 and {left_source})"
    )
}

const BURY: &str = "
update letter_keys
   set place = ?2, removed_at = ?3, removed_by = ?4, removal = ?5, removed_status = ?6
 where id = ?1";

/// Writes down on the letter's key who removed it, and when.
fn bury(write: &Write, letter: LetterId, removal: &Removal<'_>, status: Status) -> Result<(), StoreError> {
    let how = match (removal.outlet, removal.action) {
        (Outlet::Archive, _) => None,
        (Outlet::Bin | Outlet::Nowhere, Action::Prune) => Some("pruned"),
        (Outlet::Bin | Outlet::Nowhere, _) => Some(BY_HAND),
    };
    write.conn.prepare_cached(BURY)?.execute((
        letter.bytes(),
        removal.outlet.place().name(),
        removal.at.ms(),
        removal.by,
        how,
        status.name(),
    ))?;
    Ok(())
}

/// Forgets what hangs on a letter beside its content: nothing is left that it could belong to. Files of the archive that
/// hold older lives of it are not changed, but nothing leads there any more.
fn forget_past(write: &Write, letter: LetterId) -> Result<(), StoreError> {
    write.conn.prepare_cached("delete from archive_rows where letter = ?1")?.execute([letter.bytes()])?;
    write.conn.prepare_cached("delete from past_decisions where letter = ?1")?.execute([letter.bytes()])?;
    write.conn.prepare_cached("delete from replays where letter = ?1")?.execute([letter.bytes()])?;
    // What redrives made of it stays: it is their history too. A changed copy of what is gone does not.
    write.conn.prepare_cached("delete from edits where letter = ?1")?.execute([letter.bytes()])?;
    write.conn.prepare_cached("delete from send_numbers where letter = ?1")?.execute([letter.bytes()])?;
    Ok(())
}

pub(super) fn drop_content(conn: &Connection, row: i64) -> Result<(), StoreError> {
    conn.prepare_cached("delete from trash_attempts where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from trash_lives where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from trash where letter = ?1")?.execute([row])?;
    Ok(())
}

const TOMBSTONE: &str = "
select k.removed_status, k.place, a.entry is not null, a.held_at is not null
  from letter_keys k
  left join archive a on a.id = k.id
 where k.id = ?1
   and k.place <> ?2";

/// How a letter stands that is not among the live ones.
pub(super) fn tombstone(conn: &Connection, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    type Found = (Option<String>, String, bool, bool);
    let found: Option<Found> = conn
        .prepare_cached(TOMBSTONE)?
        .query_row((letter.bytes(), Place::Live.name()), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((Some(status), place, content_kept, held)) = found else { return Ok(None) };
    Ok(Some(Standing { status: rows::status(&status)?, place: rows::place(&place)?, held, content_kept }))
}
