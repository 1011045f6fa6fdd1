//! Deleted letters: out of every table of live letters at once, and back as they were while their content is kept.
//!
//! A letter keeps its number while it is away. Its lives come back under new numbers, because what goes by those has
//! passed the old ones by.

use lazaret_core::filter::words::indexed_text;
use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Action, HoldRule, Place, Standing, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::counters::{Counted, Flow};
use super::incidents;
use super::insert::latest_of_key;
use super::jobs::follow::{follow, job_of, names_a_job, withdraw};
use super::rows::{self, COUNTED_COLUMNS, LETTER_COLUMNS};
use super::verdicts::{guard, standing};
use super::writer::Write;
use super::{numbers, regroup};
use crate::StoreError;
use crate::decision::{Decided, Decision};
use crate::trash::Trashed;

/// What became of a letter, and what is to be told of it beside.
pub(super) struct Carried {
    pub decided: Decided,
    pub job: Option<JobId>,
    pub incident: Option<IncidentId>,
}

impl Carried {
    fn not(decided: Decided) -> Result<Carried, StoreError> {
        Ok(Carried { decided, job: None, incident: None })
    }
}

/// The later of the last capture and the last death: from then on the content is kept for a while.
const FIND: &str = "
select l.letter, max(l.created_at, l.died_at, v.captured_at)
  from dead_letter_queue l
  join lives v on v.letter = l.letter and v.life = l.life
 where l.id = ?1";

/// Takes a letter out of all lists, with its job. Inside the floor its content goes to the trash.
pub(super) fn delete(
    write: &mut Write<'_>,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let standing = match standing(write.conn, letter)? {
        None => return Carried::not(Decided::Unknown),
        Some(standing) => standing,
    };
    if let Err(refused) = standing.after(Action::Delete) {
        return Carried::not(Decided::Refused(refused));
    }
    let (row, since): (i64, i64) =
        write.conn.prepare_cached(FIND)?.query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let job = job_of(write, letter)?;
    if let Some(job) = job {
        withdraw(write, job)?;
    }
    let kept_until = Time::from_ms(since).plus_ms(limits::RETENTION_FLOOR_MS);
    if kept_until > decision.at {
        keep(write, row, decision, kept_until)?;
    } else {
        forget_past(write, letter)?;
    }
    let counted = remove(write, letter, row, standing)?;
    bury(write, letter, decision, standing.status)?;
    numbers::keep(write)?;
    write.tally.at(decision.at);
    write.tally.vanish(&counted);
    if waits(counted.status) {
        write.tally.flow(decision.at.minute(), Flow::Departed, &counted);
    }
    let incident = incidents::of_fingerprint(write.conn, &counted.fingerprint)?;
    Ok(Carried { decided: Decided::Done, job, incident })
}

/// Whether a letter of this status goes out when it is deleted; the others went when they were settled.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

/// The columns of a letter that are the same in the trash; `place`, `updated_at` and `retention_at` are not.
const SAME: &str = "letter, id, source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, life, sent_at, ever_sent,
held_at, held_by, hold_reason, resolution_timestamp, resolution_strategy, resolved_by, resolution_notes, previous,
created_at, died_at";

const LIFE_COLUMNS: &str =
    "letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body,
body_bytes, sha256, fatal, retry_count, max_retries, redrive, reported";

const ATTEMPT_COLUMNS: &str =
    "letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail";

/// Copies a letter into the trash.
fn keep(write: &Write<'_>, row: i64, decision: &Decision, kept_until: Time) -> Result<(), StoreError> {
    let conn = write.conn;
    conn.prepare_cached(&format!(
        "insert into trash ({SAME}, place, updated_at, retention_at, deleted_at, deleted_by, kept_until, grouped_by)
         select {SAME}, ?2, ?3, retention_at, ?3, ?4, ?5, ?6
           from dead_letter_queue
          where letter = ?1"
    ))?
    .execute((
        row,
        Place::Deleted.name(),
        decision.at.ms(),
        &decision.actor.name,
        kept_until.ms(),
        regroup::settled_revision(conn)?,
    ))?;
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

/// Removes a live letter with what hangs on it. Its hold is asked for once more by the statement that removes it.
fn remove(write: &Write<'_>, letter: LetterId, row: i64, standing: Standing) -> Result<Counted, StoreError> {
    let conn = write.conn;
    conn.prepare_cached("delete from attempts where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from lives where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from letter_words where rowid = ?1")?.execute([row])?;
    conn.prepare_cached("delete from claims where letter = ?1")?.execute([letter.bytes()])?;
    let rule = Action::Delete.rows().iter().find(|rule| rule.place == Place::Live);
    let guard = guard(rule.map_or(HoldRule::Free, |rule| rule.hold));
    let mut statement = conn.prepare_cached(&format!(
        "delete from dead_letter_queue
          where letter = ?1
            and status = ?2 {guard}
        returning {COUNTED_COLUMNS}"
    ))?;
    let mut removed = statement.query((row, standing.status.name()))?;
    let counted = match removed.next()? {
        Some(row) => rows::counted(row, 0)?,
        None => return Err(StoreError::Corrupt(format!("letter {letter} moved while it was held still"))),
    };
    // The row is only gone when the statement has run to its end.
    while removed.next()?.is_some() {}
    Ok(counted)
}

const BURY: &str = "
update letter_keys
   set place = ?2, removed_at = ?3, removed_by = ?4, removal = 'deleted', removed_status = ?5
 where id = ?1";

/// Writes down on the letter's key who removed it, and when.
fn bury(write: &Write<'_>, letter: LetterId, decision: &Decision, status: Status) -> Result<(), StoreError> {
    write.conn.prepare_cached(BURY)?.execute((
        letter.bytes(),
        Place::Deleted.name(),
        decision.at.ms(),
        &decision.actor.name,
        status.name(),
    ))?;
    Ok(())
}

/// Forgets what hangs on a letter beside its content: nothing is left that it could belong to.
fn forget_past(write: &Write<'_>, letter: LetterId) -> Result<(), StoreError> {
    write.conn.prepare_cached("delete from past_decisions where letter = ?1")?.execute([letter.bytes()])?;
    write.conn.prepare_cached("delete from replays where letter = ?1")?.execute([letter.bytes()])?;
    // What redrives made of it stays: it is their history too. A changed copy of what is gone does not.
    write.conn.prepare_cached("delete from edits where letter = ?1")?.execute([letter.bytes()])?;
    write.conn.prepare_cached("delete from send_numbers where letter = ?1")?.execute([letter.bytes()])?;
    Ok(())
}

/// A letter in the trash that may come back.
struct Kept {
    row: i64,
    event_id: String,
    words: String,
    grouped_by: Option<String>,
    counted: Counted,
}

fn kept(conn: &Connection, letter: LetterId) -> Result<Option<Kept>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select letter, event_id, type, error_type, error_message, grouped_by, {COUNTED_COLUMNS}
           from trash
          where id = ?1"
    ))?;
    let mut found = statement.query([letter.bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (letter_type, error_type, message): (String, String, String) =
        (row.get(2)?, row.get(3)?, row.get(4)?);
    Ok(Some(Kept {
        row: row.get(0)?,
        event_id: row.get(1)?,
        words: indexed_text(&letter_type, &error_type, &message),
        grouped_by: row.get(5)?,
        counted: rows::counted(row, 6)?,
    }))
}

/// Brings a deleted letter back as it was, with its job if it waits. Its time of retention begins again.
pub(super) fn restore(
    write: &mut Write<'_>,
    letter: LetterId,
    decision: &Decision,
) -> Result<Carried, StoreError> {
    let standing = match standing(write.conn, letter)? {
        None => return Carried::not(Decided::Unknown),
        Some(standing) => standing,
    };
    if let Err(refused) = standing.after(Action::Restore) {
        return Carried::not(Decided::Refused(refused));
    }
    let Some(kept) = kept(write.conn, letter)? else {
        return Err(StoreError::Corrupt(format!("letter {letter} is not where it should be kept")));
    };
    if is_replaced(write, letter, &kept)? {
        return Carried::not(Decided::Replaced);
    }
    put_back(write, &kept, decision.at)?;
    write
        .conn
        .prepare_cached(
            "update letter_keys
                set place = ?2, removed_at = null, removed_by = null, removal = null, removed_status = null
              where id = ?1",
        )?
        .execute((letter.bytes(), Place::Live.name()))?;
    write.tally.at(decision.at);
    write.tally.appear(&kept.counted);
    if waits(kept.counted.status) {
        follow(write, letter, decision.at)?;
    }
    let incident = incidents::of_fingerprint(write.conn, &kept.counted.fingerprint)?;
    Ok(Carried { decided: Decided::Done, job: job_of(write, letter)?, incident })
}

/// Whether another letter has taken the key since, or a job the id.
fn is_replaced(write: &Write<'_>, letter: LetterId, kept: &Kept) -> Result<bool, StoreError> {
    let key = write
        .conn
        .prepare_cached("select key from letter_keys where id = ?1")?
        .query_row([letter.bytes()], |row| row.get(0).map(CaptureKey))?;
    let taken = match latest_of_key(write.conn, &key)? {
        Some((_, _, Place::Live | Place::Archived)) => true,
        Some((_, _, Place::Deleted)) | None => false,
    };
    Ok(taken || names_a_job(write.conn, &kept.counted.source, &kept.event_id, &key)?)
}

/// Copies a letter out of the trash.
fn put_back(write: &Write<'_>, kept: &Kept, at: Time) -> Result<(), StoreError> {
    let conn = write.conn;
    conn.prepare_cached(&format!(
        "insert into dead_letter_queue ({SAME}, place, updated_at, retention_at)
         select {SAME}, ?2, ?3, ?3
           from trash
          where letter = ?1"
    ))?
    .execute((kept.row, Place::Live.name(), at.ms()))?;
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

fn drop_content(conn: &Connection, row: i64) -> Result<(), StoreError> {
    conn.prepare_cached("delete from trash_attempts where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from trash_lives where letter = ?1")?.execute([row])?;
    conn.prepare_cached("delete from trash where letter = ?1")?.execute([row])?;
    Ok(())
}

const PAGE: &str = "
select id, source, queue, type, event_id, error_type, error_message, status, died_at, deleted_at, deleted_by, kept_until
  from trash indexed by trash_by_deletion
 where (deleted_at, id) < (?1, ?2)
 order by deleted_at desc, id desc
 limit ?3";

/// The last deleted first.
pub(super) fn page(
    conn: &Connection,
    before: Option<(Time, LetterId)>,
    limit: usize,
) -> Result<Vec<Trashed>, StoreError> {
    let (at, id) = before.map_or((i64::MAX, [u8::MAX; 16]), |(at, id)| (at.ms(), *id.bytes()));
    let mut statement = conn.prepare_cached(PAGE)?;
    let mut found = statement.query((at, id, limit as i64))?;
    let mut page = Vec::new();
    while let Some(row) = found.next()? {
        page.push(Trashed {
            letter: LetterId::from_bytes(row.get(0)?),
            source: row.get(1)?,
            queue: row.get(2)?,
            letter_type: row.get(3)?,
            event_id: row.get(4)?,
            error_type: row.get(5)?,
            error_message: row.get(6)?,
            status: rows::status(&row.get::<_, String>(7)?)?,
            died_at: Time::from_ms(row.get(8)?),
            deleted_at: Time::from_ms(row.get(9)?),
            deleted_by: row.get(10)?,
            kept_until: Time::from_ms(row.get(11)?),
        });
    }
    Ok(page)
}

/// A letter in the trash, as it was; for events that tell of it.
pub(super) fn letter(conn: &Connection, id: LetterId) -> Result<Option<Letter>, StoreError> {
    let mut statement = conn.prepare_cached(&format!(
        "select {LETTER_COLUMNS}
           from trash l
           join fingerprints f on f.fingerprint = l.fingerprint
          where l.id = ?1"
    ))?;
    let mut found = statement.query([id.bytes()])?;
    found.next()?.map(rows::letter).transpose()
}

const OVERDUE: &str = "
select letter, id
  from trash indexed by trash_by_end
 where kept_until <= ?1
 order by kept_until, letter
 limit ?2";

/// Whether there is any. Asked first by a reader: mostly there is none.
pub(super) fn is_overdue(conn: &Connection, now: Time) -> Result<bool, StoreError> {
    Ok(conn.prepare_cached(OVERDUE)?.exists((now.ms(), 1))?)
}

const WEIGHT: &str = "
select (select coalesce(sum(octet_length(body)), 0) from trash_lives where letter = ?1)
     + (select coalesce(sum(octet_length(detail)), 0) from trash_attempts where letter = ?1)";

/// Drops the content of letters that need not be kept any longer; of large ones only a few.
pub(super) fn empty(write: &Write<'_>, now: Time, limit: usize) -> Result<u64, StoreError> {
    let overdue: Vec<(i64, [u8; 16])> = write
        .conn
        .prepare_cached(OVERDUE)?
        .query_map((now.ms(), limit as i64), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let (mut dropped, mut bytes) = (0, 0);
    for (row, id) in overdue {
        if bytes >= limits::CONTENT_BYTES_DROPPED_PER_WRITE as i64 {
            break;
        }
        bytes += write.conn.prepare_cached(WEIGHT)?.query_row([row], |row| row.get::<_, i64>(0))?;
        drop_content(write.conn, row)?;
        forget_past(write, LetterId::from_bytes(id))?;
        dropped += 1;
    }
    numbers::keep(write)?;
    Ok(dropped)
}

const TOMBSTONE: &str = "
select k.removed_status, t.letter is not null
  from letter_keys k
  left join trash t on t.id = k.id
 where k.id = ?1
   and k.place = ?2";

/// How a deleted letter stands.
pub(super) fn tombstone(conn: &Connection, letter: LetterId) -> Result<Option<Standing>, StoreError> {
    let found: Option<(Option<String>, bool)> = conn
        .prepare_cached(TOMBSTONE)?
        .query_row((letter.bytes(), Place::Deleted.name()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((Some(status), content_kept)) = found else { return Ok(None) };
    let status = rows::status(&status)?;
    Ok(Some(Standing { status, place: Place::Deleted, held: false, content_kept }))
}
