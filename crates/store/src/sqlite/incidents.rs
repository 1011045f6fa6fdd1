//! Incidents: opened with their first letter, and added up as letters move.

use std::collections::HashMap;

use lazaret_core::fingerprint::Grouping;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, IncidentState, LetterMoves};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row};

use super::events::{self, NewEvent};
use super::writer::Write;
use crate::StoreError;
use crate::engine::incidents::{Change, TimelineNote, add_note, change_state, fix_standing};
use crate::seam::ready;

pub(super) use crate::engine::incidents::Opening;

const OPEN: &str = "
insert into incidents (id, state, opened_at, type, error_type, title, template, class, frame, last_seen_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?3)";

/// Opens an incident together with its fingerprint, and tells of it.
pub(super) fn open(write: &mut Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    open_unpointed(write, opening)?;
    point(write, opening.grouping, opening.id, opening.at)
}

/// Opens an incident whose fingerprint is there already and is pointed to it by the caller.
pub(super) fn open_unpointed(write: &mut Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    let Opening { id, at, grouping, error_type, class } = opening;
    let parts = &grouping.parts;
    let error_type = if error_type.is_empty() { &parts.error_type } else { *error_type };
    write.conn.prepare_cached(OPEN)?.execute((
        id.bytes(),
        IncidentState::Open.name(),
        at.ms(),
        &parts.letter_type,
        error_type,
        parts.title(),
        &parts.template,
        class.name(),
        parts.frames.first(),
    ))?;
    let opened = TimelineNote { at: *at, kind: IncidentState::Open.name(), by: None, text: None };
    ready(add_note(write, *id, &opened))?;
    let detail = Some(serde_json::json!({"title": parts.title()}).to_string());
    events::add(
        write,
        &NewEvent { at: *at, kind: "incident.opened", incident: Some(*id), detail, ..NewEvent::default() },
    )
}

const POINT: &str = "
insert into fingerprints (fingerprint, incident, first_seen_at, parts)
values (?1, ?2, ?3, ?4)";

/// Writes down that a fingerprint belongs to an incident.
pub(super) fn point(
    write: &Write,
    grouping: &Grouping,
    incident: IncidentId,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.prepare_cached(POINT)?.execute((
        grouping.fingerprint.as_str(),
        incident.bytes(),
        at.ms(),
        grouping.parts.to_json(),
    ))?;
    Ok(())
}

/// The incident that a fingerprint belongs to.
pub(super) fn of_fingerprint(conn: &Connection, fingerprint: &str) -> Result<Option<IncidentId>, StoreError> {
    let known = conn
        .prepare_cached("select incident from fingerprints where fingerprint = ?1")?
        .query_row([fingerprint], |row| row.get(0).map(IncidentId::from_bytes))
        .optional()?;
    Ok(known)
}

/// What a commit changes in the sums of an incident.
#[derive(Default)]
pub(super) struct Sums {
    letters: i64,
    unsettled: i64,
    pub seen_at: Option<Time>,
    /// The last death of a letter that no run had put back.
    pub died_at: Option<Time>,
}

impl Sums {
    pub fn add(&mut self, status: &str, by: i64) {
        self.letters += by;
        if Status::parse(status).is_some_and(waits) {
            self.unsettled += by;
        }
    }
}

/// Whether something is still to happen to letters of this status.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

const ADD_SUMS: &str = "
update incidents
   set letters = letters + ?2, unsettled = unsettled + ?3, last_seen_at = max(last_seen_at, ?4)
 where id = (select incident from fingerprints where fingerprint = ?1)
returning id, state, unsettled, fix_at, fix_disproved, title, letters > 0 and merged_into is not null as hidden";

/// An incident that has letters is listed, whatever took its letters over before. By itself: to set this column writes every
/// index of the table.
const UNHIDE: &str = "update incidents set merged_into = null where id = ?1";

/// An incident after its letters moved.
struct Summed {
    state: IncidentState,
    unsettled: i64,
    fix: FixStanding,
    title: String,
    died_at: Option<Time>,
}

/// Adds what the letters of a commit did to their incidents, and moves those that this opens, closes or brings back.
pub(super) fn add_sums(write: &mut Write, sums: HashMap<&str, Sums>, at: Time) -> Result<(), StoreError> {
    let mut moved: HashMap<IncidentId, Summed> = HashMap::new();
    for (fingerprint, Sums { letters, unsettled, seen_at, died_at }) in sums {
        let seen_at = seen_at.unwrap_or_default();
        let found = write
            .conn
            .prepare_cached(ADD_SUMS)?
            .query_row((fingerprint, letters, unsettled, seen_at.ms()), |row| {
                let row = crate::seam::Row::of_sqlite(row);
                Ok((|| {
                    let id: IncidentId = row.get("id")?;
                    let (state, unsettled) = (row.get("state")?, row.get("unsettled")?);
                    let (fix, title) = (fix_standing(&row)?, row.get("title")?);
                    let hidden: bool = row.get("hidden")?;
                    Ok::<_, StoreError>((id, hidden, Summed { state, unsettled, fix, title, died_at }))
                })())
            })
            .optional()?
            .transpose()?;
        let Some((id, hidden, mut summed)) = found else {
            return Err(StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")));
        };
        if hidden {
            write.conn.prepare_cached(UNHIDE)?.execute([id.bytes()])?;
        }
        // Two fingerprints of one incident may move in one commit: the last sum is the true one, the latest death too.
        summed.died_at = summed.died_at.max(moved.get(&id).and_then(|before| before.died_at));
        moved.insert(id, summed);
    }
    for (id, summed) in moved {
        let state = summed.state;
        let moves = LetterMoves { relapsed: false, last_death: summed.died_at, unsettled: summed.unsettled };
        let mut from = state;
        for to in state.after_letters(summed.fix, moves) {
            if to != from {
                let change = Change { from, to, title: &summed.title, by: None, text: None };
                ready(change_state(write, id, &change, at))?;
                from = to;
            }
        }
    }
    Ok(())
}

const IN_USE: &str = "
select f.fingerprint
  from fingerprints f
 where f.incident = ?1
   and exists (select 1 from dead_letter_queue l where l.fingerprint = f.fingerprint and l.listed = 1)
 order by f.first_seen_at desc, f.fingerprint
 limit ?2";

const NEWEST: &str = "
select died_at, id
  from dead_letter_queue indexed by letters_by_fingerprint
 where fingerprint = ?1
   and listed = 1
 order by died_at desc, id desc
 limit ?2";

/// The newest letters of an incident. Each fingerprint is asked by itself: together they would all be read and sorted.
pub(super) fn newest(
    conn: &Connection,
    id: IncidentId,
    limit: usize,
) -> Result<Vec<[Option<String>; 6]>, StoreError> {
    let mut newest: Vec<(i64, [u8; 16])> = Vec::new();
    let mut of_one = conn.prepare_cached(NEWEST)?;
    let mut statement = conn.prepare_cached(IN_USE)?;
    let mut fingerprints = statement.query((id.bytes(), limits::AFFECTED_FINGERPRINTS_MAX as i64))?;
    while let Some(row) = fingerprints.next()? {
        let fingerprint = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        for found in of_one.query_map((fingerprint, limit as i64), |row| Ok((row.get(0)?, row.get(1)?)))? {
            newest.push(found?);
        }
        newest.sort_unstable_by(|one, other| other.cmp(one));
        newest.truncate(limit);
    }
    let mut statement = conn.prepare_cached(VALUES)?;
    let mut values = Vec::with_capacity(newest.len());
    for (_, letter) in newest {
        let read = |row: &Row<'_>| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
        };
        values.extend(statement.query_row([letter], read).optional()?);
    }
    Ok(values)
}

const VALUES: &str = "
select queue, type, subscriber_id, aggregate, tenant, class
  from dead_letter_queue
 where id = ?1";
