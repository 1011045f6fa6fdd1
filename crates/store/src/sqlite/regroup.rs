//! Regrouping: lives get the fingerprints of new rules, batch by batch, and incidents keep their ids.
//!
//! A fingerprint's incident goes to the first new one that comes out of it, its heir. Lives of the same old
//! fingerprint that now differ open incidents of their own; where two old ones turn out to be one cause, the letters
//! of the one join the other, and the emptied incident says where they are.

use lazaret_core::fingerprint::{Fingerprint, Grouping};
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::counters::Counted;
use super::events::{self, NewEvent};
use super::incidents::{self, Opening};
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::packing::open_error;
use crate::regroup::{NewGrouping, OldGrouping, RegroupBatch, Regrouping};

/// Where the work stands, kept as one value beside the letters.
#[derive(Serialize, Deserialize, Default)]
struct Progress {
    reached: String,
    towards: Option<String>,
    /// The last life that was looked at.
    position: i64,
    /// The last life to look at.
    bound: i64,
    /// Whether the bound was moved once already. What was captured by the old rules while the new ones came into
    /// force may lie behind the first bound; by the time that one is reached, such captures are over.
    moved: bool,
    done: u64,
}

const PROGRESS: &str = "select value from meta where key = 'regrouping'";

fn progress(conn: &Connection) -> Result<Progress, StoreError> {
    let text: Option<String> = conn.prepare_cached(PROGRESS)?.query_row([], |row| row.get(0)).optional()?;
    let Some(text) = text else { return Ok(Progress::default()) };
    serde_json::from_str(&text)
        .map_err(|error| StoreError::Corrupt(format!("the state of regrouping cannot be read: {error}")))
}

fn keep(write: &Write<'_>, progress: &Progress) -> Result<(), StoreError> {
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
pub(super) fn begin(write: &Write<'_>, revision: &str) -> Result<Regrouping, StoreError> {
    let mut progress = progress(write.conn)?;
    let aim = progress.towards.as_ref().unwrap_or(&progress.reached);
    if aim != revision {
        let bound = last_life(write.conn)?;
        progress = Progress { reached: progress.reached, bound, ..Progress::default() };
        if bound == 0 {
            progress.reached = revision.to_owned();
        } else {
            progress.towards = Some(revision.to_owned());
        }
        // What comes out of an old fingerprint by these rules is decided anew.
        write.conn.execute("update fingerprints set heir = null where heir is not null", [])?;
        keep(write, &progress)?;
    }
    report(write.conn, progress)
}

/// How far it has come, without setting out.
pub(super) fn seen(conn: &Connection) -> Result<Regrouping, StoreError> {
    report(conn, progress(conn)?)
}

const NEXT_LIVES: &str = "
select v.rowid, l.source, l.queue, l.type, l.tenant, v.fingerprint, a.error_type, a.error_code, a.message, a.detail
  from lives v
  join dead_letter_queue l on l.letter = v.letter
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

pub(super) fn regroup(write: &mut Write<'_>, batch: &RegroupBatch) -> Result<Regrouping, StoreError> {
    let mut progress = progress(write.conn)?;
    // The rules may have changed again while this batch was worked out.
    if progress.towards.as_deref() != Some(batch.revision.as_str()) {
        return report(write.conn, progress);
    }
    for life in &batch.lives {
        move_life(write, life, batch.at)?;
    }
    progress.done += batch.looked_at;
    match batch.up_to {
        Some(position) => progress.position = position,
        None if !progress.moved => {
            progress.moved = true;
            progress.bound = last_life(write.conn)?;
        }
        None => {
            progress =
                Progress { reached: batch.revision.clone(), done: progress.done, ..Progress::default() }
        }
    }
    keep(write, &progress)?;
    report(write.conn, progress)
}

/// Moves one life, and its letter with it if that is its present life.
fn move_life(write: &mut Write<'_>, life: &NewGrouping, at: Time) -> Result<(), StoreError> {
    let columns = rows::COUNTED_COLUMNS;
    let mut statement = write.conn.prepare_cached(&format!(
        "select v.letter, v.captured_at, v.class, v.life = l.life, {}
           from lives v
           join dead_letter_queue l on l.letter = v.letter
          where v.rowid = ?1
            and v.fingerprint = ?2",
        columns.split(", ").map(|column| format!("l.{column}")).collect::<Vec<_>>().join(", ")
    ))?;
    let mut found = statement.query((life.position, life.old.as_str()))?;
    // A life that is gone or has moved on needs nothing.
    let Some(row) = found.next()? else { return Ok(()) };
    let (letter, captured_at): (i64, i64) = (row.get(0)?, row.get(1)?);
    let (class, present) = (rows::class(&row.get::<_, String>(2)?)?, row.get::<_, bool>(3)?);
    let counted = rows::counted(row, 4)?;
    drop(found);
    drop(statement);
    let captured_at = Time::from_ms(captured_at);
    let new = &life.grouping.fingerprint;
    let opening = Opening {
        id: life.incident,
        at: captured_at,
        grouping: &life.grouping,
        error_type: &counted.error_type,
        class,
    };
    settle_incident(write, &life.old, &opening, at)?;
    write
        .conn
        .prepare_cached("update lives set fingerprint = ?2 where rowid = ?1")?
        .execute((life.position, new.as_str()))?;
    write.tally.reflow(captured_at.minute(), life.old.as_str(), new.as_str());
    if present {
        write
            .conn
            .prepare_cached("update dead_letter_queue set fingerprint = ?2 where letter = ?1")?
            .execute((letter, new.as_str()))?;
        write.tally.vanish(&counted);
        write.tally.appear(&Counted { fingerprint: new.as_str().to_owned(), ..counted });
        write.tally.see(new.as_str(), captured_at);
        write.tally.at(at);
    }
    Ok(())
}

/// Sees to it that the new fingerprint has an incident: the old one's if nobody took that over yet.
fn settle_incident(
    write: &mut Write<'_>,
    old: &Fingerprint,
    opening: &Opening<'_>,
    at: Time,
) -> Result<(), StoreError> {
    let grouping = opening.grouping;
    let Some((past, heir)) = pointed(write.conn, old)? else {
        return Err(StoreError::Corrupt(format!("the fingerprint {old} has no incident")));
    };
    let present = pointed(write.conn, &grouping.fingerprint)?.map(|(incident, _)| incident);
    match (present, heir) {
        (Some(_), Some(_)) => Ok(()),
        (Some(present), None) => {
            inherit(write, old, &grouping.fingerprint)?;
            if present == past {
                return Ok(());
            }
            join(write, past, present, grouping, at)
        }
        (None, None) => {
            inherit(write, old, &grouping.fingerprint)?;
            incidents::point(write, grouping, past, at)?;
            describe(write, past, grouping)
        }
        (None, Some(_)) => {
            incidents::open(write, opening)?;
            let detail = Some(format!("{{\"from\":\"{past}\"}}"));
            let split = NewEvent {
                at,
                kind: "incident.split",
                incident: Some(opening.id),
                detail,
                ..NewEvent::default()
            };
            events::add(write, &split)
        }
    }
}

fn pointed(
    conn: &Connection,
    fingerprint: &Fingerprint,
) -> Result<Option<(IncidentId, Option<String>)>, StoreError> {
    let found = conn
        .prepare_cached("select incident, heir from fingerprints where fingerprint = ?1")?
        .query_row([fingerprint.as_str()], |row| Ok((IncidentId::from_bytes(row.get(0)?), row.get(1)?)))
        .optional()?;
    Ok(found)
}

fn inherit(write: &Write<'_>, old: &Fingerprint, heir: &Fingerprint) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update fingerprints set heir = ?2 where fingerprint = ?1")?
        .execute((old.as_str(), heir.as_str()))?;
    Ok(())
}

const DESCRIBE: &str = "
update incidents
   set title = ?2, template = ?3, frame = ?4
 where id = ?1";

fn describe(write: &Write<'_>, id: IncidentId, grouping: &Grouping) -> Result<(), StoreError> {
    let parts = &grouping.parts;
    write.conn.prepare_cached(DESCRIBE)?.execute((
        id.bytes(),
        parts.title(),
        &parts.template,
        parts.frames.first(),
    ))?;
    Ok(())
}

const IS_HEIR: &str = "select exists (select 1 from fingerprints where heir = ?1 and incident <> ?2)";

/// Two incidents turn out to be one. The older one stays when the younger was only opened by capture since the rules
/// changed; otherwise the one that the new fingerprint belongs to does.
fn join(
    write: &mut Write<'_>,
    past: IncidentId,
    present: IncidentId,
    grouping: &Grouping,
    at: Time,
) -> Result<(), StoreError> {
    let fingerprint = grouping.fingerprint.as_str();
    let inherited: bool =
        write.conn.prepare_cached(IS_HEIR)?.query_row((fingerprint, past.bytes()), |row| row.get(0))?;
    if past < present && !inherited {
        write
            .conn
            .prepare_cached("update fingerprints set incident = ?2 where fingerprint = ?1")?
            .execute((fingerprint, past.bytes()))?;
        describe(write, past, grouping)?;
        return merge(write, present, past, at);
    }
    let others: bool = write
        .conn
        .prepare_cached("select exists (select 1 from fingerprints where incident = ?1 and heir is null)")?
        .query_row([past.bytes()], |row| row.get(0))?;
    // Its letters follow one by one; while another of its fingerprints has no heir it goes on by itself.
    if others { Ok(()) } else { merge(write, past, present, at) }
}

const MOVE_SUMS: &str = "
update incidents
   set letters = letters + (select sum(c.letters) from incidents c where c.id = ?2),
       unsettled = unsettled + (select sum(c.unsettled) from incidents c where c.id = ?2),
       last_seen_at = max(last_seen_at, (select c.last_seen_at from incidents c where c.id = ?2))
 where id = ?1";

const EMPTY: &str = "
update incidents
   set letters = 0, unsettled = 0, state = ?3, merged_into = ?2
 where id = ?1";

/// Hands one incident over to another: its fingerprints, its letters with them, and its sums.
fn merge(write: &Write<'_>, from: IncidentId, into: IncidentId, at: Time) -> Result<(), StoreError> {
    let conn = write.conn;
    conn.prepare_cached("update fingerprints set incident = ?2 where incident = ?1")?
        .execute((from.bytes(), into.bytes()))?;
    conn.prepare_cached(MOVE_SUMS)?.execute((into.bytes(), from.bytes()))?;
    conn.prepare_cached(EMPTY)?.execute((from.bytes(), into.bytes(), IncidentState::Closed.name()))?;
    // Whoever was merged into the one that goes is found with the other.
    conn.prepare_cached("update incidents set merged_into = ?2 where merged_into = ?1")?
        .execute((from.bytes(), into.bytes()))?;
    let detail = Some(format!("{{\"into\":\"{into}\"}}"));
    events::add(
        write,
        &NewEvent { at, kind: "incident.merged", incident: Some(from), detail, ..NewEvent::default() },
    )
}
