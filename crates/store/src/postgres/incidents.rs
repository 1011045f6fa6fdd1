//! Incidents: opened with their first letter, and added up as letters move.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::try_join;
use lazaret_core::id::{IncidentId, RedriveId};
use lazaret_core::incident::{FixStanding, Happening, IncidentState, LetterMoves};
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::cell::{At, Bind, Cells, Uid, clean, clean_opt};
use super::conn::Conn;
use super::events::{self, NewEvent};
use super::filter::IS_IN_USE;
use super::writer::Write;
use crate::StoreError;
use crate::engine::incidents::{Change, TimelineNote, add_note, change_state, fix_standing};

pub(super) use crate::engine::incidents::Opening;

const INCIDENTS_OF: &str = "
select fingerprint, incident
  from fingerprints
 where fingerprint = any($1)";

/// The incidents that fingerprints belong to; those that have none are left out.
pub(super) async fn of_fingerprints(
    conn: &Conn,
    fingerprints: &[&str],
) -> Result<HashMap<String, IncidentId>, StoreError> {
    if fingerprints.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = conn.query(INCIDENTS_OF, &[&fingerprints]).await?;
    rows.iter().map(|row| Ok((row.cell(0)?, IncidentId::from_bytes(row.id(1)?)))).collect()
}

const TAKE_FINGERPRINTS: &str = "
insert into fingerprints (fingerprint, incident, first_seen_at, parts)
select f.fingerprint, f.incident, f.at, f.parts
  from unnest($1::text[], $2::uuid[], $3::timestamptz[], $4::text[]) as f (fingerprint, incident, at, parts)
on conflict (fingerprint) do nothing
returning fingerprint";

/// Opens an incident for each fingerprint that has none, of openings in the order of their fingerprints; returns those
/// fingerprints. Another instance may open the same one now: then this waits for it, and its incident is the one.
pub(super) async fn open_missing(write: &Write, openings: &[Opening<'_>]) -> Result<Vec<String>, StoreError> {
    let fingerprints: Vec<&str> = openings.iter().map(|one| one.grouping.fingerprint.as_str()).collect();
    let ids: Vec<Uid> = openings.iter().map(|one| Uid(*one.id.bytes())).collect();
    let at: Vec<At> = openings.iter().map(|one| At(one.at)).collect();
    let parts: Vec<String> =
        openings.iter().map(|one| clean(&one.grouping.parts.to_json()).into_owned()).collect();
    let rows = write.conn.query(TAKE_FINGERPRINTS, &[&fingerprints, &ids, &at, &parts]).await?;
    let taken: Vec<String> = rows.iter().map(|row| row.cell(0)).collect::<Result<_, _>>()?;
    let ours: Vec<Opening<'_>> = openings
        .iter()
        .filter(|one| taken.iter().any(|fingerprint| fingerprint == one.grouping.fingerprint.as_str()))
        .copied()
        .collect();
    add_incidents(write, &ours).await?;
    Ok(taken)
}

const ADD_INCIDENTS: &str = "
insert into incidents (id, state, opened_at, type, error_type, title, template, class, frame, last_seen_at)
select i.id, $2, i.at, i.type, i.error_type, i.title, i.template, i.class, i.frame, i.at
  from unnest($1::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
    as i (id, at, type, error_type, title, template, class, frame)";

async fn add_incidents(write: &Write, openings: &[Opening<'_>]) -> Result<(), StoreError> {
    if openings.is_empty() {
        return Ok(());
    }
    let error_type = |one: &Opening<'_>| match one.error_type {
        "" => clean(&one.grouping.parts.error_type).into_owned(),
        named => clean(named).into_owned(),
    };
    let parts = openings.iter().map(|one| &one.grouping.parts);
    write
        .conn
        .execute(
            ADD_INCIDENTS,
            &[
                &openings.iter().map(|one| Uid(*one.id.bytes())).collect::<Vec<_>>(),
                &IncidentState::Open.name(),
                &openings.iter().map(|one| At(one.at)).collect::<Vec<_>>(),
                &parts.clone().map(|parts| clean(&parts.letter_type)).collect::<Vec<_>>(),
                &openings.iter().map(error_type).collect::<Vec<_>>(),
                &parts.clone().map(|parts| clean(&parts.title()).into_owned()).collect::<Vec<_>>(),
                &parts.clone().map(|parts| clean(&parts.template)).collect::<Vec<_>>(),
                &openings.iter().map(|one| one.class.name()).collect::<Vec<_>>(),
                &parts
                    .clone()
                    .map(|parts| clean_opt(parts.frames.first().map(String::as_str)))
                    .collect::<Vec<_>>(),
            ],
        )
        .await?;
    let opened: Vec<(IncidentId, Time)> = openings.iter().map(|one| (one.id, one.at)).collect();
    note_opened(write, &opened).await
}

const NOTE_OPENED: &str = "
insert into incident_timeline (incident, ordinal, at, kind)
select o.incident, 1, o.at, $3
  from unnest($1::uuid[], $2::timestamptz[]) as o (incident, at)";

/// Begins the timelines of incidents that are opened now.
async fn note_opened(write: &Write, opened: &[(IncidentId, Time)]) -> Result<(), StoreError> {
    let ids: Vec<Uid> = opened.iter().map(|(id, _)| Uid(*id.bytes())).collect();
    let at: Vec<At> = opened.iter().map(|(_, at)| At(*at)).collect();
    write.conn.execute(NOTE_OPENED, &[&ids, &at, &IncidentState::Open.name()]).await?;
    Ok(())
}

/// Tells of an incident that was opened.
pub(super) fn tell_opened(write: &mut Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    let detail = Some(serde_json::json!({"title": opening.grouping.parts.title()}).to_string());
    let event = NewEvent {
        at: opening.at,
        kind: "incident.opened",
        incident: Some(opening.id),
        detail,
        ..NewEvent::default()
    };
    events::add(write, &event)
}

/// Opens an incident for a fingerprint that is there already and is pointed to it by the caller, and tells of it.
pub(super) async fn open_unpointed(write: &mut Write, opening: &Opening<'_>) -> Result<(), StoreError> {
    add_incidents(write, &[*opening]).await?;
    tell_opened(write, opening)
}

/// What a commit changes in the sums of an incident.
#[derive(Default)]
pub(super) struct Sums {
    letters: i64,
    unsettled: i64,
    pub seen_at: Option<Time>,
    /// The last death outside of any run.
    pub died_at: Option<Time>,
    /// Whether a letter died of what a run that is over was to have mended.
    pub relapsed: bool,
    /// Letters that were sent by themselves under the RCA.
    pub sent: Vec<SentSingly>,
}

/// A letter that a person sent by itself under the RCA of its incident.
#[derive(Clone, Debug)]
pub(super) struct SentSingly {
    pub redrive: RedriveId,
    pub by: String,
    pub at: Time,
}

impl Sums {
    pub fn add(&mut self, status: &str, by: i64) {
        self.letters += by;
        if Status::parse(status).is_some_and(waits) {
            self.unsettled += by;
        }
    }

    fn join(&mut self, other: &Sums) {
        self.letters += other.letters;
        self.unsettled += other.unsettled;
        self.seen_at = self.seen_at.max(other.seen_at);
        self.died_at = self.died_at.max(other.died_at);
        self.relapsed |= other.relapsed;
        self.sent.extend(other.sent.iter().cloned());
    }
}

/// Whether something is still to happen to letters of this status.
const fn waits(status: Status) -> bool {
    match status {
        Status::Pending | Status::Reprocessing => true,
        Status::Resolved | Status::Discarded => false,
    }
}

/// In the order of their ids, so that two instances never wait for each other in a circle.
const LOCK: &str = "
select id
  from incidents
 where id = any($1)
 order by id
   for no key update";

/// An incident that has letters is listed, whatever took its letters over before.
const ADD_SUMS: &str = "
update incidents i
   set letters = i.letters + s.letters, unsettled = i.unsettled + s.unsettled,
       last_seen_at = greatest(i.last_seen_at, s.seen_at),
       merged_into = case when i.letters + s.letters > 0 then null else i.merged_into end
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::timestamptz[]) as s (id, letters, unsettled, seen_at)
 where i.id = s.id
returning i.id, i.state, i.unsettled, i.title, i.fix_at, i.fix_disproved";

/// An incident after its letters moved.
struct Summed {
    id: IncidentId,
    state: IncidentState,
    unsettled: i64,
    title: String,
    fix: FixStanding,
}

fn read_summed(row: &crate::seam::Row<'_>) -> Result<Summed, StoreError> {
    let (id, state, unsettled) = (row.get("id")?, row.get("state")?, row.get("unsettled")?);
    Ok(Summed { id, state, unsettled, title: row.get("title")?, fix: fix_standing(row)? })
}

/// Adds what the letters of a commit did to their incidents, and moves those that this opens or closes. Fingerprints
/// move between incidents only while nobody else writes.
pub(super) async fn add_sums(
    write: &mut Write,
    sums: &BTreeMap<String, Sums>,
    incidents: &HashMap<String, IncidentId>,
    at: Time,
) -> Result<(), StoreError> {
    if sums.is_empty() {
        return Ok(());
    }
    let mut by_incident: BTreeMap<IncidentId, Sums> = BTreeMap::new();
    for (fingerprint, sums) in sums {
        let Some(incident) = incidents.get(fingerprint) else {
            return Err(StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")));
        };
        by_incident.entry(*incident).or_default().join(sums);
    }
    let ids: Vec<Uid> = by_incident.keys().map(|id| Uid(*id.bytes())).collect();
    let letters: Vec<i64> = by_incident.values().map(|sums| sums.letters).collect();
    let unsettled: Vec<i64> = by_incident.values().map(|sums| sums.unsettled).collect();
    let seen_at: Vec<At> = by_incident.values().map(|sums| At(sums.seen_at.unwrap_or_default())).collect();
    let conn = &write.conn;
    conn.prepare_all(&[LOCK, ADD_SUMS]).await?;
    let asked: [Bind<'_>; 4] = [&ids, &letters, &unsettled, &seen_at];
    let (_, mut rows) = try_join(conn.execute(LOCK, &[&ids]), conn.query(ADD_SUMS, &asked)).await?;
    rows.sort_by_key(|row| row.id(0).unwrap_or_default());
    for row in &rows {
        let Summed { id, state, unsettled, title, fix } = read_summed(&crate::seam::Row::of_postgres(row))?;
        let Some(sums) = by_incident.get(&id) else { continue };
        let moves = LetterMoves { relapsed: sums.relapsed, last_death: sums.died_at, unsettled };
        let sent = match sums.sent.is_empty() {
            true => state,
            false => state.after(Happening::SentSingly),
        };
        note_sent(write, id, &sums.sent).await?;
        let [died, settled] = sent.after_letters(fix, moves);
        let mut from = state;
        for (to, by) in [(sent, sums.sent.last()), (died, None), (settled, None)] {
            if to != from {
                let by = by.map(|sent| sent.by.as_str());
                let change = Change { from, to, title: &title, by, text: None };
                change_state(write, id, &change, at).await?;
                from = to;
            }
        }
    }
    Ok(())
}

const REDRIVEN: &str = "
update incidents
   set redriven_at = $2
 where id = $1";

/// Puts letters that were sent by themselves on the record of their incident, whose row is locked.
async fn note_sent(write: &mut Write, id: IncidentId, sent: &[SentSingly]) -> Result<(), StoreError> {
    for SentSingly { redrive, by, at } in sent {
        write.conn.execute(REDRIVEN, &[&Uid(*id.bytes()), &At(*at)]).await?;
        let text = redrive.to_string();
        let note = TimelineNote { at: *at, kind: "redrive_started", by: Some(by), text: Some(&text) };
        add_note(write, id, &note).await?;
    }
    Ok(())
}

/// The newest of each fingerprint first, so that the index gives them and the rest is never read.
fn newest_letters() -> String {
    format!(
        "select l.queue, l.type, l.subscriber_id, l.aggregate, l.tenant, l.class
           from fingerprints f
          cross join lateral (select queue, type, subscriber_id, aggregate, tenant, class, died_at, id
                                from dead_letter_queue
                               where fingerprint = f.fingerprint
                               order by died_at desc, id desc
                               limit $2) l
          where f.incident = $1
            and {IS_IN_USE}
          order by l.died_at desc, l.id desc
          limit $2"
    )
}

/// The newest letters of an incident.
pub(super) async fn newest(
    conn: &Conn,
    id: IncidentId,
    limit: usize,
) -> Result<Vec<[Option<String>; 6]>, StoreError> {
    let rows = conn.query(&newest_letters(), &[&Uid(*id.bytes()), &(limit as i64)]).await?;
    let read =
        |row: &Row| Ok([row.cell(0)?, row.cell(1)?, row.cell(2)?, row.cell(3)?, row.cell(4)?, row.cell(5)?]);
    rows.iter().map(read).collect()
}
