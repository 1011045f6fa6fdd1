//! Regrouping: lives get the fingerprints of new rules, batch by batch, and incidents keep their ids.
//!
//! Letters move by their present life; earlier lives stay as they were judged. A fingerprint has two parts to play
//! under new rules: as an old one it hands its incident to the first fingerprint that comes out of it, its heir, which
//! may be itself; as a new one it needs an incident of its own. No two new ones come to share an incident unless their
//! old ones did. An incident that is empty in the end says where its letters went.

mod merge;

use std::collections::HashSet;

use lazaret_core::class::ErrorClass;
use lazaret_core::fingerprint::{Fingerprint, Grouping};
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::counters::{Counted, Dimension};
use super::events::{self, NewEvent};
use super::incidents::{self, Opening};
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::packing::open_error;
use crate::regroup::{NewGrouping, OldGrouping, Progress, RegroupBatch, Regrouping, Stage};
use merge::{merge, merge_emptied};

const PROGRESS: &str = "select value from meta where key = 'regrouping'";

fn progress(conn: &Connection) -> Result<Progress, StoreError> {
    let text: Option<String> = conn.prepare_cached(PROGRESS)?.query_row([], |row| row.get(0)).optional()?;
    let Some(text) = text else { return Ok(Progress::default()) };
    serde_json::from_str(&text)
        .map_err(|error| StoreError::Corrupt(format!("the state of regrouping cannot be read: {error}")))
}

fn keep(write: &mut Write, progress: &Progress) -> Result<(), StoreError> {
    let text = serde_json::to_string(progress)
        .map_err(|error| StoreError::Unavailable { doing: "writing JSON", source: Some(Box::new(error)) })?;
    write
        .conn
        .prepare_cached("insert or replace into meta (key, value) values ('regrouping', ?1)")?
        .execute([text])?;
    Ok(())
}

fn last_life(conn: &Connection) -> Result<i64, StoreError> {
    let last: Option<i64> =
        conn.prepare_cached("select max(rowid) from lives")?.query_row([], |row| row.get(0))?;
    Ok(last.unwrap_or(0))
}

fn report(conn: &Connection, progress: Progress) -> Result<Regrouping, StoreError> {
    let total = last_life(conn)?.max(0) as u64;
    Ok(Regrouping { reached: progress.reached, towards: progress.towards, done: progress.done, total })
}

/// Says how far it has come, and sets out for a revision that is neither reached nor on its way.
pub(super) fn begin(write: &mut Write, revision: &str, at: Time) -> Result<Regrouping, StoreError> {
    let mut progress = progress(&write.conn)?;
    let aim = progress.towards.as_ref().unwrap_or(&progress.reached);
    if aim != revision {
        progress = progress.set_out(revision, last_life(&write.conn)?, at);
        keep(write, &progress)?;
    }
    report(&write.conn, progress)
}

/// How far it has come, without setting out.
pub(super) fn seen(conn: &Connection) -> Result<Regrouping, StoreError> {
    report(conn, progress(conn)?)
}

/// The revision that all lives are grouped by; nothing while some are not.
pub(super) fn settled_revision(conn: &Connection) -> Result<Option<String>, StoreError> {
    let progress = progress(conn)?;
    Ok(if progress.towards.is_none() { Some(progress.reached) } else { None })
}

/// Sees to it that lives are regrouped that come back from the trash, from the number `first` on: the rules may have
/// changed while they were away, and a regrouping that is on its way may have passed them by.
pub(super) fn catch_up(
    write: &mut Write,
    grouped_by: Option<&str>,
    first: i64,
    at: Time,
) -> Result<(), StoreError> {
    let mut progress = progress(&write.conn)?;
    match (&progress.towards, progress.stage) {
        (None, _) if grouped_by == Some(progress.reached.as_str()) => return Ok(()),
        (None, _) => {
            progress.towards = Some(progress.reached.clone());
            progress.begun_at = at.ms();
            progress.position = first - 1;
            progress.stage = Stage::Stragglers;
        }
        // All that is there at its end is looked at.
        (Some(_), Stage::Lives) => return Ok(()),
        (Some(_), Stage::Stragglers) => {}
        (Some(_), Stage::Emptied) => {
            progress.position = first - 1;
            progress.stage = Stage::Stragglers;
        }
    }
    progress.bound = last_life(&write.conn)?;
    keep(write, &progress)
}

const NEXT_LIVES: &str = "
select v.rowid, l.source, l.queue, l.type, l.tenant, v.fingerprint, a.error_type, a.error_code, a.message, a.detail
  from lives v
  join dead_letter_queue l on l.letter = v.letter and l.life = v.life
  join attempts a on a.letter = v.letter and a.ordinal = v.fatal
 where v.rowid > ?1
   and v.rowid <= ?2
 order by v.rowid
 limit ?3";

pub(super) fn old(conn: &Connection, lives: usize) -> Result<Vec<OldGrouping>, StoreError> {
    let progress = progress(conn)?;
    if progress.towards.is_none() {
        return Ok(Vec::new());
    }
    let mut statement = conn.prepare_cached(NEXT_LIVES)?;
    let mut found = statement.query((progress.position, progress.bound, lives as i64))?;
    let mut old = Vec::new();
    while let Some(row) = found.next()? {
        let detail: Option<Vec<u8>> = row.get(9)?;
        let (error, _) = open_error(row.get(6)?, row.get(7)?, row.get(8)?, detail.as_deref())?;
        old.push(OldGrouping {
            position: row.get(0)?,
            source: row.get(1)?,
            queue: row.get(2)?,
            letter_type: row.get(3)?,
            tenant: row.get(4)?,
            fingerprint: Fingerprint::stored(row.get(5)?),
            error,
        });
    }
    Ok(old)
}

pub(super) fn regroup(write: &mut Write, batch: &RegroupBatch) -> Result<Regrouping, StoreError> {
    let mut progress = progress(&write.conn)?;
    // The rules may have changed again while this batch was worked out.
    if progress.towards.as_deref() != Some(batch.revision.as_str()) {
        return report(&write.conn, progress);
    }
    let (begun_at, marks) = (Time::from_ms(progress.begun_at), progress.marks(&batch.revision));
    let mut settled: HashSet<(&str, &str)> = HashSet::new();
    for life in &batch.lives {
        let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
        let Some(moved) = find_life(write, life)? else { continue };
        if settled.insert((old, new)) {
            settle(write, &moved, life, Turn { marks: &marks, begun_at, at: batch.at })?;
        }
        if old != new {
            move_life(write, life, moved, batch.at)?;
        }
    }
    progress.done += batch.looked_at;
    match (batch.up_to, progress.stage) {
        (Some(position), _) => progress.position = position,
        (None, Stage::Lives) => {
            progress.stage = Stage::Stragglers;
            progress.bound = last_life(&write.conn)?;
        }
        (None, Stage::Stragglers) => progress.stage = Stage::Emptied,
        (None, Stage::Emptied) => {
            if merge_emptied(write, &marks, batch.at)? == 0 {
                progress = progress.arrive(&batch.revision);
            }
        }
    }
    keep(write, &progress)?;
    report(&write.conn, progress)
}

/// In which run of regrouping and when a life is settled.
#[derive(Clone, Copy)]
struct Turn<'a> {
    marks: &'a str,
    begun_at: Time,
    at: Time,
}

/// A life that may move.
struct Moved {
    letter: i64,
    captured_at: Time,
    class: ErrorClass,
    counted: Counted,
}

/// The life if it is still its letter's present one and still has the fingerprint that it was read with.
fn find_life(write: &mut Write, life: &NewGrouping) -> Result<Option<Moved>, StoreError> {
    let columns: Vec<String> =
        rows::COUNTED_COLUMNS.split(", ").map(|column| format!("l.{column}")).collect();
    let mut statement = write.conn.prepare_cached(&format!(
        "select v.letter, v.captured_at, v.class, {}
           from lives v
           join dead_letter_queue l on l.letter = v.letter and l.life = v.life
          where v.rowid = ?1
            and v.fingerprint = ?2",
        columns.join(", ")
    ))?;
    let mut found = statement.query((life.position, life.old.as_str()))?;
    let Some(row) = found.next()? else { return Ok(None) };
    Ok(Some(Moved {
        letter: row.get(0)?,
        captured_at: Time::from_ms(row.get(1)?),
        class: rows::class(&row.get::<_, String>(2)?)?,
        counted: rows::counted(row, 3)?,
    }))
}

fn move_life(write: &mut Write, life: &NewGrouping, moved: Moved, at: Time) -> Result<(), StoreError> {
    let new = life.grouping.fingerprint.as_str();
    write
        .conn
        .prepare_cached("update lives set fingerprint = ?2 where rowid = ?1")?
        .execute((life.position, new))?;
    write
        .conn
        .prepare_cached("update dead_letter_queue set fingerprint = ?2 where letter = ?1")?
        .execute((moved.letter, new))?;
    let tally = &mut write.tally;
    tally.reflow(moved.captured_at.minute(), life.old.as_str(), new);
    tally.vanish(&moved.counted);
    tally.appear(&Counted { fingerprint: new.to_owned(), ..moved.counted });
    tally.see(new, moved.captured_at);
    tally.at(at);
    Ok(())
}

/// What is known of a fingerprint under the rules that are on their way.
struct Pointed {
    incident: IncidentId,
    /// The first fingerprint that came out of this one.
    heir: Option<String>,
    /// Whether some life has this one by the new rules.
    used: bool,
}

const POINTED: &str = "
select incident, iif(heir_for = ?2, heir, null), used_for = ?2
  from fingerprints
 where fingerprint = ?1";

fn pointed(conn: &Connection, fingerprint: &str, marks: &str) -> Result<Option<Pointed>, StoreError> {
    let found = conn
        .prepare_cached(POINTED)?
        .query_row((fingerprint, marks), |row| {
            Ok(Pointed {
                incident: IncidentId::from_bytes(row.get(0)?),
                heir: row.get(1)?,
                used: row.get::<_, Option<bool>>(2)?.unwrap_or(false),
            })
        })
        .optional()?;
    Ok(found)
}

/// Sees to it that the new fingerprint of a life has an incident of its own, the old one's where nobody else took it.
fn settle(write: &mut Write, moved: &Moved, life: &NewGrouping, turn: Turn<'_>) -> Result<(), StoreError> {
    let (old, new) = (life.old.as_str(), life.grouping.fingerprint.as_str());
    let Some(past) = pointed(&write.conn, old, turn.marks)? else {
        return Err(StoreError::Corrupt(format!("the fingerprint {old} has no incident")));
    };
    let first = past.heir.is_none();
    if first {
        write
            .conn
            .prepare_cached("update fingerprints set heir = ?2, heir_for = ?3 where fingerprint = ?1")?
            .execute((old, new, turn.marks))?;
    }
    // What an old fingerprint hands on is free unless it goes on under the new rules itself.
    let free = (first && old != new && !past.used).then_some(past.incident);
    match pointed(&write.conn, new, turn.marks)? {
        Some(Pointed { used: true, .. }) => return Ok(()),
        Some(present) => settle_known(write, moved, life, (present, free), turn)?,
        None => match free {
            Some(incident) => {
                incidents::point(write, &life.grouping, incident, turn.at)?;
                describe(write, incident, &life.grouping)?;
            }
            None => split(write, moved, life, past.incident, turn)?,
        },
    }
    write
        .conn
        .prepare_cached("update fingerprints set used_for = ?2 where fingerprint = ?1")?
        .execute((new, turn.marks))?;
    Ok(())
}

/// A fingerprint that was there before comes up by the new rules for the first time.
fn settle_known(
    write: &mut Write,
    moved: &Moved,
    life: &NewGrouping,
    (present, free): (Pointed, Option<IncidentId>),
    turn: Turn<'_>,
) -> Result<(), StoreError> {
    let new = life.grouping.fingerprint.as_str();
    let taken = match &present.heir {
        Some(heir) if heir != new => {
            pointed(&write.conn, heir, turn.marks)?.is_some_and(|heir| heir.incident == present.incident)
        }
        Some(_) | None => false,
    };
    // Capture opened it since the rules changed, and now it turns out that people know the cause already.
    let is_news = opened_at(&write.conn, present.incident)? >= turn.begun_at;
    match free.filter(|free| *free != present.incident) {
        Some(free) if taken || is_news => {
            repoint(write, new, present.incident, free)?;
            describe(write, free, &life.grouping)?;
            let left: bool = write
                .conn
                .prepare_cached("select exists (select 1 from fingerprints where incident = ?1)")?
                .query_row([present.incident.bytes()], |row| row.get(0))?;
            if left { Ok(()) } else { merge(write, present.incident, free, turn.at).map(drop) }
        }
        Some(_) | None if taken => {
            let known = present.incident;
            incidents::open_unpointed(write, &opening(moved, life))?;
            repoint(write, new, known, life.incident)?;
            tell_split(write, life.incident, known, turn.at)
        }
        // Should it have been left without letters and merged, it is listed again with the letters that come.
        Some(_) | None => Ok(()),
    }
}

fn opening<'a>(moved: &'a Moved, life: &'a NewGrouping) -> Opening<'a> {
    Opening {
        id: life.incident,
        at: moved.captured_at,
        grouping: &life.grouping,
        error_type: &moved.counted.error_type,
        class: moved.class,
    }
}

/// Lives that were one group are two: this part gets an incident of its own.
fn split(
    write: &mut Write,
    moved: &Moved,
    life: &NewGrouping,
    from: IncidentId,
    turn: Turn<'_>,
) -> Result<(), StoreError> {
    incidents::open(write, &opening(moved, life))?;
    tell_split(write, life.incident, from, turn.at)
}

fn tell_split(write: &mut Write, id: IncidentId, from: IncidentId, at: Time) -> Result<(), StoreError> {
    let detail = Some(format!("{{\"from\":\"{from}\"}}"));
    let split = NewEvent { at, kind: "incident.split", incident: Some(id), detail, ..NewEvent::default() };
    events::add(write, &split)
}

fn opened_at(conn: &Connection, id: IncidentId) -> Result<Time, StoreError> {
    let ms = conn
        .prepare_cached("select opened_at from incidents where id = ?1")?
        .query_row([id.bytes()], |row| row.get(0))?;
    Ok(Time::from_ms(ms))
}

const SUMS_OF: &str = "
select coalesce(sum(letters), 0), coalesce(sum(letters) filter (where term in (?3, ?4)), 0)
  from counters
 where dimension = ?1
   and value = ?2";

const ADD_SUMS: &str = "
update incidents
   set letters = letters + ?2, unsettled = unsettled + ?3, last_seen_at = max(last_seen_at, ?4)
 where id = ?1";

/// Hands a fingerprint, and with it the letters that have it, from one incident to another. What this commit has
/// tallied so far is added where the fingerprint points at its end.
fn repoint(write: &mut Write, fingerprint: &str, from: IncidentId, to: IncidentId) -> Result<(), StoreError> {
    let conn = &write.conn;
    let waiting = (Status::Pending.name(), Status::Reprocessing.name());
    let (letters, unsettled): (i64, i64) = conn
        .prepare_cached(SUMS_OF)?
        .query_row((Dimension::Fingerprint.name(), fingerprint, waiting.0, waiting.1), |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let seen_at: i64 = conn
        .prepare_cached("select last_seen_at from incidents where id = ?1")?
        .query_row([from.bytes()], |row| row.get(0))?;
    conn.prepare_cached("update fingerprints set incident = ?2 where fingerprint = ?1")?
        .execute((fingerprint, to.bytes()))?;
    let mut add = conn.prepare_cached(ADD_SUMS)?;
    add.execute((from.bytes(), -letters, -unsettled, 0))?;
    add.execute((to.bytes(), letters, unsettled, seen_at))?;
    Ok(())
}

const DESCRIBE: &str = "
update incidents
   set title = ?2, template = ?3, frame = ?4
 where id = ?1";

fn describe(write: &mut Write, id: IncidentId, grouping: &Grouping) -> Result<(), StoreError> {
    let parts = &grouping.parts;
    write.conn.prepare_cached(DESCRIBE)?.execute((
        id.bytes(),
        parts.title(),
        &parts.template,
        parts.frames.first(),
    ))?;
    Ok(())
}
