//! Capture: a batch of prepared letters becomes rows, each a new letter, a new life or a duplicate.

use std::collections::HashMap;

use lazaret_core::death::{Evidence, Known, Verdict, judge, last_death};
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::{Outcome, Receipt, SourceWord};
use lazaret_core::lifecycle::{Action, Life, Next, Place, Standing, Status};
use lazaret_core::time::Time;

use super::counters::{Counted, Flow};
use super::events::{self, NewEvent};
use super::holds::standing;
use super::incidents::{self, Opening};
use super::keys;
use super::redrives::outcomes;
use super::retention::meet::meet_archived;
use super::rows;
use super::writer::Write;
use crate::StoreError;
use crate::engine::archive::late;
use crate::failure::FailurePoint;
use crate::moves::Move;
use crate::packing::{Prepared, PreparedAttempt, origin_text};
use crate::seam::ready;

/// Stores a batch; one that fails fails all, because the caller gets one answer.
pub(super) fn insert(write: &mut Write, batch: &[Prepared]) -> Result<Vec<Receipt>, StoreError> {
    batch.iter().map(|prepared| insert_one(write, prepared)).collect()
}

/// Stores one message. A letter that is new, or begins another life, is put under the holds that stand for it.
pub(super) fn insert_one(write: &mut Write, prepared: &Prepared) -> Result<Receipt, StoreError> {
    let receipt = take_in(write, prepared)?;
    match receipt.outcome {
        Outcome::Created | Outcome::Recurred | Outcome::Relapse => {
            standing::catch(write, receipt.letter, prepared.admitted.captured_at)?;
        }
        Outcome::Duplicate => {}
    }
    Ok(receipt)
}

/// Takes one message in; what it does depends on the letter that is known under its key.
fn take_in(write: &mut Write, prepared: &Prepared) -> Result<Receipt, StoreError> {
    let Some(known) = write.keys.latest(&write.conn, &prepared.admitted.key)? else {
        return create(write, prepared, 1, None);
    };
    let id = known.letter;
    match known.place {
        Place::Live => meet(write, prepared, id, Place::Live),
        // A message that is still dead is no new death because its letter was deleted.
        Place::Deleted if prepared.admitted.captured.word == SourceWord::SameDeath => {
            note(write, prepared, "duplicate");
            Ok(Receipt { letter: id, outcome: Outcome::Duplicate })
        }
        Place::Deleted => create(write, prepared, known.generation + 1, Some(id)),
        Place::Archived => meet_archived(write, prepared, id),
    }
}

const ADD_LETTER: &str = "
insert into dead_letter_queue (id, source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
       error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, place, life,
       previous, created_at, updated_at, died_at, retention_at, letter, listed)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, 1, ?19, ?20, ?20, ?21, ?20,
        ?22, 0)";

fn create(
    write: &mut Write,
    prepared: &Prepared,
    generation: u32,
    previous: Option<LetterId>,
) -> Result<Receipt, StoreError> {
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    let incident = find_incident(write, prepared)?;
    let row = write.numbers.next_letter();
    keys::add(write, row, &admitted.key, generation, admitted.id)?;
    write.failures.at(FailurePoint::InsertLetter)?;
    let fatal = prepared.fatal();
    write.conn.prepare_cached(ADD_LETTER)?.execute(rusqlite::params![
        admitted.id.bytes(),
        captured.source,
        captured.message_id,
        captured.subscriber,
        captured.tenant,
        captured.letter_type,
        captured.queue,
        captured.aggregate,
        captured.schema_version,
        fatal.error_type,
        fatal.error_code,
        fatal.message,
        admitted.class.name(),
        admitted.grouping.fingerprint.as_str(),
        captured.retry_count,
        captured.max_retries,
        Status::Pending.name(),
        Place::Live.name(),
        previous.as_ref().map(LetterId::bytes),
        admitted.captured_at.ms(),
        admitted.died_at.ms(),
        row,
    ])?;
    for (ordinal, attempt) in (1_u32..).zip(&prepared.attempts) {
        add_attempt(write, row, ordinal, 1, attempt)?;
    }
    add_life(write, prepared, row, 1, prepared.attempts.len() as u32)?;
    let counted = counted(prepared, Status::Pending);
    write.tally.arrive(&counted);
    write.tally.flow(admitted.captured_at.minute(), Flow::Arrived, &counted);
    write.tally.see(&counted.fingerprint, admitted.captured_at);
    write.tally.die(&counted.fingerprint, admitted.died_at);
    tell(write, prepared, "dead_letter.added", admitted.id, incident, 1)?;
    Ok(Receipt { letter: admitted.id, outcome: Outcome::Created })
}

pub(super) fn incident_of(
    write: &Write,
    fingerprint: &Fingerprint,
) -> Result<Option<IncidentId>, StoreError> {
    incidents::of_fingerprint(&write.conn, fingerprint.as_str())
}

/// The incident of the letter's fingerprint, opened now if this is the first letter of it.
fn find_incident(write: &mut Write, prepared: &Prepared) -> Result<IncidentId, StoreError> {
    let admitted = &prepared.admitted;
    if let Some(known) = incident_of(write, &admitted.grouping.fingerprint)? {
        return Ok(known);
    }
    let opening = Opening {
        id: admitted.incident,
        at: admitted.captured_at,
        grouping: &admitted.grouping,
        error_type: &prepared.fatal().error_type,
        class: admitted.class,
    };
    incidents::open(write, &opening)?;
    Ok(admitted.incident)
}

/// What is needed of a letter that a message arrives for again.
struct Met {
    row: i64,
    counted: Counted,
    known: Known,
    held: bool,
    /// The ordinals of its attempts, by what tells them apart.
    attempts: HashMap<[u8; 16], u32>,
    attempts_last: u32,
    /// The last one that stands in a file of the archive.
    attempts_away: u32,
}

fn find_met(write: &mut Write, id: LetterId) -> Result<Met, StoreError> {
    let away = ready(late::away(write, id))?;
    let columns = rows::COUNTED_COLUMNS;
    let mut statement = write.conn.prepare_cached(&format!(
        "select letter, life, died_at, sent_at, ever_sent, held_at is not null, {columns}
           from dead_letter_queue
          where id = ?1"
    ))?;
    let mut found = statement.query([id.bytes()])?;
    let Some(row) = found.next()? else {
        return Err(StoreError::Corrupt(format!(
            "the key of letter {id} says that it is live, but it is gone"
        )));
    };
    let counted = rows::counted(row, 6)?;
    let sent_at = row.get::<_, Option<i64>>(3)?.map(Time::from_ms);
    // A send that is under way may have got through: what dies meanwhile may be our copy.
    let sending = counted.status == Status::Reprocessing && sent_at.is_some();
    let known = Known {
        letter: id,
        status: counted.status,
        life: row.get(1)?,
        died_at: Time::from_ms(row.get(2)?),
        sent_at,
        ever_sent: row.get::<_, bool>(4)? || sending,
    };
    let (letter, held) = (row.get::<_, i64>(0)?, row.get(5)?);
    let mut statement = write
        .conn
        .prepare_cached("select ordinal, identity from attempts where letter = ?1 order by ordinal")?;
    let mut attempts = HashMap::new();
    let mut attempts_last = 0;
    for identity in away {
        attempts_last += 1;
        attempts.entry(identity).or_insert(attempts_last);
    }
    let attempts_away = attempts_last;
    let mut found = statement.query([letter])?;
    while let Some(row) = found.next()? {
        attempts_last = row.get(0)?;
        // Among equals the first one counts: a later life may have repeated it.
        attempts.entry(row.get(1)?).or_insert(attempts_last);
    }
    Ok(Met { row: letter, counted, known, held, attempts, attempts_last, attempts_away })
}

/// A message arrives under the key of a live letter: the same death told again, or a new one? The place is where the
/// letter was when it arrived.
pub(super) fn meet(
    write: &mut Write,
    prepared: &Prepared,
    id: LetterId,
    place: Place,
) -> Result<Receipt, StoreError> {
    let admitted = &prepared.admitted;
    let met = find_met(write, id)?;
    let ordinal_of = |attempt: &PreparedAttempt| met.attempts.get(&attempt.identity.0).copied();
    let fatal_known = ordinal_of(prepared.fatal());
    let mark_sent = outcomes::mark_sent(&write.conn, &met.known, admitted.captured.mark)?;
    let evidence = Evidence { mark_sent, ..admitted.evidence(fatal_known.is_some()) };
    let verdict = judge(met.known, evidence);
    let standing = Standing { status: met.known.status, place, held: met.held, content_kept: true };
    let next = match verdict {
        Verdict::Duplicate => None,
        Verdict::NewDeath | Verdict::Relapse => Some(standing.after(Action::DieAgain)),
    };
    let life = match (next.as_ref(), admitted.captured.mark) {
        (Some(Ok(Next::Moves { life: Life::Next, .. })), _) => met.known.life + 1,
        // What an earlier life of ours left behind is history of that life.
        (None, Some(mark)) if mark.letter == id && mark.life < met.known.life => mark.life.max(1),
        _ => met.known.life,
    };
    let begins = matches!(next, Some(Ok(Next::Moves { life: Life::Next, .. })));
    let mut ordinal = met.attempts_last;
    let mut added = 0;
    for (at, attempt) in prepared.attempts.iter().enumerate() {
        // A life ends with a run of its own, even if nothing is told of it.
        let ends_life = begins && at + 1 == prepared.attempts.len();
        // And it holds that run itself, even if a file tells of the same.
        let known = ordinal_of(attempt).filter(|ordinal| !ends_life || *ordinal > met.attempts_away);
        if known.is_none() && (ends_life || !attempt.tells_nothing()) {
            ordinal += 1;
            added += 1;
            add_attempt(write, met.row, ordinal, life, attempt)?;
        }
    }
    match next {
        None => {
            if added > 0 {
                touch(write, met.row, met.known.died_at, admitted.captured_at)?;
            }
            note(write, prepared, "duplicate");
            return Ok(Receipt { letter: id, outcome: Outcome::Duplicate });
        }
        Some(Ok(Next::Moves { status, place: _, life: Life::Next })) => {
            let fatal = fatal_known.filter(|known| *known > met.attempts_away).unwrap_or(ordinal);
            add_life(write, prepared, met.row, life, fatal)?;
            begin_life(write, prepared, &met, life, status, verdict)?;
        }
        Some(Ok(Next::Moves { life: Life::Same, .. })) => {
            // A discarded letter stays so; that it came again is history, an event, and a line in the log.
            let died_at = last_death(met.known, admitted.died_at, admitted.captured_at);
            touch(write, met.row, died_at, admitted.captured_at)?;
            tracing::warn!(letter.id = %id, "letter {id} was discarded and died again");
        }
        Some(Ok(Next::NewLetter)) | Some(Err(_)) => {
            return Err(StoreError::Corrupt(format!("letter {id} is {standing} and cannot die again")));
        }
    }
    let (kind, outcome) = match verdict {
        Verdict::Relapse => ("dead_letter.relapsed", Outcome::Relapse),
        Verdict::NewDeath | Verdict::Duplicate => ("dead_letter.recurred", Outcome::Recurred),
    };
    // A discarded letter stays in the incident that it was discarded in, whatever it died of this time.
    let incident = match begins {
        true => find_incident(write, prepared)?,
        false => known_incident(write, &met.counted.fingerprint)?,
    };
    tell(write, prepared, kind, id, incident, life)?;
    Ok(Receipt { letter: id, outcome })
}

fn known_incident(write: &Write, fingerprint: &str) -> Result<IncidentId, StoreError> {
    let fingerprint = Fingerprint::stored(fingerprint.to_owned());
    incident_of(write, &fingerprint)?
        .ok_or_else(|| StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")))
}

fn touch(write: &Write, row: i64, died_at: Time, at: Time) -> Result<(), StoreError> {
    write
        .conn
        .prepare_cached("update dead_letter_queue set died_at = ?2, updated_at = ?3 where letter = ?1")?
        .execute((row, died_at.ms(), at.ms()))?;
    Ok(())
}

const BEGIN_LIFE: &str = "
update dead_letter_queue
   set type = ?3, queue = ?4, aggregate = ?5, schema_version = ?6, error_type = ?7, error_code = ?8,
       error_message = ?9, class = ?10, fingerprint = ?11, retry_count = ?12, max_retries = ?13, status = ?14,
       life = ?15, sent_at = null, ever_sent = ever_sent or ?18, resolution_timestamp = null, resolution_strategy = null, resolved_by = null,
       resolution_notes = null, updated_at = ?16, died_at = ?17, retention_at = ?16
 where letter = ?1
   and status = ?2";

/// Moves a letter into its next life: what lists show is taken from the new arrival, the old lives stay as they were.
fn begin_life(
    write: &mut Write,
    prepared: &Prepared,
    met: &Met,
    life: u32,
    status: Status,
    verdict: Verdict,
) -> Result<(), StoreError> {
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    let fatal = prepared.fatal();
    // Whatever proved the relapse also proved that a copy of ours was out.
    let relapse = verdict == Verdict::Relapse;
    let incident = find_incident(write, prepared)?;
    let died_at = last_death(met.known, admitted.died_at, admitted.captured_at);
    let moved = write.conn.prepare_cached(BEGIN_LIFE)?.execute(rusqlite::params![
        met.row,
        met.known.status.name(),
        captured.letter_type,
        captured.queue,
        captured.aggregate,
        captured.schema_version,
        fatal.error_type,
        fatal.error_code,
        fatal.message,
        admitted.class.name(),
        admitted.grouping.fingerprint.as_str(),
        captured.retry_count,
        captured.max_retries,
        status.name(),
        life,
        admitted.captured_at.ms(),
        died_at.ms(),
        relapse,
    ])?;
    if moved != 1 {
        return Err(StoreError::Corrupt(format!(
            "letter {} moved while it was held still",
            met.known.letter
        )));
    }
    // Whatever claim was out is answered by this death.
    write.conn.prepare_cached("delete from claims where letter = ?1")?.execute([met.known.letter.bytes()])?;
    write
        .conn
        .prepare_cached("insert or replace into letter_words (rowid, words) values (?1, ?2)")?
        .execute((met.row, &prepared.words))?;
    let now = Counted { source: met.counted.source.clone(), ..counted(prepared, status) };
    write.tally.vanish(&met.counted);
    write.tally.appear(&now);
    write.tally.flow(admitted.captured_at.minute(), Flow::Arrived, &now);
    write.tally.see(&now.fingerprint, admitted.captured_at);
    let letter = met.known.letter;
    let relapsed = outcomes::relapse(write, letter, met.known.life, incident, died_at, admitted.captured_at)?;
    // What a run put back and what dies of the same again is the run's to judge; anything else speaks against the fix.
    if !relapsed || known_incident(write, &met.counted.fingerprint)? != incident {
        write.tally.die(&now.fingerprint, died_at);
    }
    Ok(())
}

const ADD_ATTEMPT: &str = "
insert into attempts (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

pub(super) fn add_attempt(
    write: &Write,
    row: i64,
    ordinal: u32,
    life: u32,
    attempt: &PreparedAttempt,
) -> Result<(), StoreError> {
    write.conn.prepare_cached(ADD_ATTEMPT)?.execute((
        row,
        ordinal,
        life,
        attempt.identity.0,
        attempt.at,
        attempt.duration_ms,
        &attempt.error_type,
        &attempt.error_code,
        &attempt.message,
        &attempt.detail,
    ))?;
    Ok(())
}

pub(super) const ADD_LIFE: &str = "
insert into lives (letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body, body_bytes,
       sha256, fatal, retry_count, max_retries, redrive, reported, rowid, origin, body_missing)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";

fn add_life(write: &Write, prepared: &Prepared, row: i64, life: u32, fatal: u32) -> Result<(), StoreError> {
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    write.conn.prepare_cached(ADD_LIFE)?.execute(rusqlite::params![
        row,
        life,
        admitted.captured_at.ms(),
        admitted.died_at.ms(),
        admitted.class.name(),
        admitted.grouping.fingerprint.as_str(),
        captured.envelope.content_type(),
        &prepared.headers,
        &prepared.body,
        captured.envelope.body().len() as i64,
        captured.envelope.sha256(),
        fatal,
        captured.retry_count,
        captured.max_retries,
        captured.mark.as_ref().map(|mark| mark.redrive.bytes()),
        &prepared.reported,
        write.numbers.next_life(),
        origin_text(&captured.envelope),
        captured.envelope.body_missing(),
    ])?;
    Ok(())
}

fn counted(prepared: &Prepared, status: Status) -> Counted {
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    Counted {
        source: captured.source.clone(),
        queue: captured.queue.clone(),
        letter_type: captured.letter_type.clone(),
        error_type: prepared.fatal().error_type.clone(),
        class: admitted.class.name(),
        fingerprint: admitted.grouping.fingerprint.as_str().to_owned(),
        aggregate: captured.aggregate.clone(),
        status,
    }
}

/// Counts it for whoever watches this instance.
pub(super) fn note(write: &mut Write, prepared: &Prepared, kind: &'static str) {
    let captured = &prepared.admitted.captured;
    write.tally.note(Move {
        kind,
        source: captured.source.clone(),
        queue: captured.queue.clone(),
        letter_type: captured.letter_type.clone(),
        rule: String::new(),
    });
}

fn tell(
    write: &mut Write,
    prepared: &Prepared,
    kind: &'static str,
    letter: LetterId,
    incident: IncidentId,
    life: u32,
) -> Result<(), StoreError> {
    note(write, prepared, kind);
    let detail = (life > 1).then(|| format!("{{\"life\":{life}}}"));
    events::add(
        write,
        &NewEvent {
            at: prepared.admitted.captured_at,
            kind,
            letter: Some(letter),
            incident: Some(incident),
            detail,
            ..NewEvent::default()
        },
    )
}
