//! A message arrives under the key of a live letter, or of one that was archived a moment ago: the same death told again,
//! or a new one?

use std::collections::HashMap;

use lazaret_core::death::{Evidence, Known, Verdict, judge, last_death};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::letter::{Outcome, Receipt};
use lazaret_core::lifecycle::{Action, Life, Next, Place, Standing, Status};
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::counters::{Counted, Flow};
use super::super::extract::Extract;
use super::super::holds::standing;
use super::super::incidents;
use super::super::redrives::outcomes;
use super::super::rows;
use super::super::writer::Write;
use super::{Incoming, NewAttempt, NewLife, add_attempts, add_lives, counted, find_incidents, note, tell};
use crate::StoreError;
use crate::engine::archive::late;
use crate::packing::PreparedAttempt;

/// What is needed of a letter that a message arrives for again.
struct Met {
    id: LetterId,
    counted: Counted,
    known: Known,
    held: bool,
    /// The ordinals of its attempts, by what tells them apart.
    attempts: HashMap<[u8; 16], u32>,
    attempts_last: u32,
    /// The first ones of them stand in files of the archive, with the lives that they are of.
    attempts_away: u32,
}

const ATTEMPTS: &str = "
select ordinal, identity
  from attempts
 where letter = $1
 order by ordinal";

/// Looks at a letter and holds it still until the commit; nothing if it is gone.
async fn find_met(write: &mut Write, id: LetterId) -> Result<Option<Met>, StoreError> {
    let columns = rows::COUNTED_COLUMNS;
    let sql = format!(
        "select life, died_at, sent_at, ever_sent, held_at is not null, {columns}
           from dead_letter_queue
          where id = $1
            and created_at = $2
            for no key update"
    );
    let Some(row) = write.conn.query_opt(&sql, &[&Uid(*id.bytes()), &At(id.at())]).await? else {
        return Ok(None);
    };
    let counted = rows::counted(&row, 5)?;
    let sent_at = row.time_opt(2)?;
    // A send that is under way may have got through: what dies meanwhile may be our copy.
    let sending = counted.status == Status::Reprocessing && sent_at.is_some();
    let known = Known {
        letter: id,
        status: counted.status,
        life: row.small(0)?,
        died_at: row.time(1)?,
        sent_at,
        ever_sent: row.cell::<bool>(3)? || sending,
    };
    let here = write.conn.query(ATTEMPTS, &[&Uid(*id.bytes())]).await?;
    let away = match here.first().map(|row| row.small(0)).transpose()? {
        Some(1) => Vec::new(),
        Some(_) | None => late::away(&mut write.conn, id).await?,
    };
    let mut attempts = HashMap::new();
    let mut attempts_last = 0;
    // Among equals the first one counts: a later life may have repeated it.
    for identity in &away {
        attempts_last += 1;
        attempts.entry(*identity).or_insert(attempts_last);
    }
    for row in here {
        attempts_last = row.small(0)?;
        attempts.entry(row.bytes(1)?).or_insert(attempts_last);
    }
    let attempts_away = away.len() as u32;
    Ok(Some(Met { id, counted, known, held: row.cell(4)?, attempts, attempts_last, attempts_away }))
}

/// Nothing if the letter went away since its key was looked up. `place` is where it was until now.
pub(in super::super) async fn meet(
    write: &mut Write,
    incoming: &Incoming,
    id: LetterId,
    place: Place,
) -> Result<Option<Receipt>, StoreError> {
    let prepared = &incoming.prepared;
    let admitted = &prepared.admitted;
    let Some(met) = find_met(write, id).await? else { return Ok(None) };
    let ordinal_of = |attempt: &PreparedAttempt| met.attempts.get(&attempt.identity.0).copied();
    let fatal_known = ordinal_of(prepared.fatal());
    let mark_sent = outcomes::mark_sent(&write.conn, &met.known, admitted.captured.mark).await?;
    let evidence = Evidence { mark_sent, ..admitted.evidence(fatal_known.is_some()) };
    let verdict = judge(met.known, evidence);
    let standing = Standing { status: met.known.status, place, held: met.held, content_kept: true };
    let next = match verdict {
        Verdict::Duplicate => None,
        Verdict::NewDeath | Verdict::Relapse => Some(standing.after(Action::DieAgain)),
    };
    let begins = matches!(next, Some(Ok(Next::Moves { life: Life::Next, .. })));
    let life = match admitted.captured.mark {
        _ if begins => met.known.life + 1,
        // What an earlier life of ours left behind is history of that life.
        Some(mark) if next.is_none() && mark.letter == id && mark.life < met.known.life => mark.life.max(1),
        _ => met.known.life,
    };
    let added: Vec<NewAttempt<'_>> = prepared
        .attempts
        .iter()
        .enumerate()
        // A life ends with a run of its own, even if nothing is told of it, or the same run stands in a file.
        .filter(|(at, attempt)| {
            let ends_life = begins && at + 1 == prepared.attempts.len();
            match ordinal_of(attempt) {
                None => ends_life || !attempt.tells_nothing(),
                Some(ordinal) => ends_life && ordinal <= met.attempts_away,
            }
        })
        .zip(met.attempts_last + 1..)
        .map(|((_, attempt), ordinal)| NewAttempt { letter: id, ordinal, life, attempt })
        .collect();
    let last = met.attempts_last + added.len() as u32;
    add_attempts(&write.conn, &added).await?;
    match next {
        None => {
            if !added.is_empty() {
                touch(write, id, met.known.died_at, admitted.captured_at).await?;
            }
            note(write, prepared, "duplicate");
            return Ok(Some(Receipt { letter: id, outcome: Outcome::Duplicate }));
        }
        Some(Ok(Next::Moves { status, place: _, life: Life::Next })) => {
            let fatal = fatal_known.filter(|ordinal| *ordinal > met.attempts_away).unwrap_or(last);
            add_lives(write, &[NewLife { letter: id, life, fatal, prepared }]).await?;
            let incident = begin_life(write, incoming, &met, life, status, verdict).await?;
            return told(write, incoming, &met, incident, life, verdict).await.map(Some);
        }
        Some(Ok(Next::Moves { life: Life::Same, .. })) => {
            // A discarded letter stays so; that it came again is history, an event, and a line in the log.
            let died_at = last_death(met.known, admitted.died_at, admitted.captured_at);
            touch(write, id, died_at, admitted.captured_at).await?;
            tracing::warn!(letter.id = %id, "letter {id} was discarded and died again");
        }
        Some(Ok(Next::NewLetter)) | Some(Err(_)) => {
            return Err(StoreError::Corrupt(format!("letter {id} is {standing} and cannot die again")));
        }
    }
    // It stays in the incident that it was discarded in, whatever it died of this time.
    let incident = known_incident(write, &met.counted.fingerprint).await?;
    told(write, incoming, &met, incident, life, verdict).await.map(Some)
}

/// Tells of a death, and asks the standing holds for the letter as it stands now.
async fn told(
    write: &mut Write,
    incoming: &Incoming,
    met: &Met,
    incident: IncidentId,
    life: u32,
    verdict: Verdict,
) -> Result<Receipt, StoreError> {
    let (kind, outcome) = match verdict {
        Verdict::Relapse => ("dead_letter.relapsed", Outcome::Relapse),
        Verdict::NewDeath | Verdict::Duplicate => ("dead_letter.recurred", Outcome::Recurred),
    };
    tell(write, &incoming.prepared, kind, met.id, incident, life)?;
    standing::catch_stored(write, met.id, incoming.prepared.admitted.captured_at).await?;
    Ok(Receipt { letter: met.id, outcome })
}

async fn known_incident(write: &Write, fingerprint: &str) -> Result<IncidentId, StoreError> {
    let known = incidents::of_fingerprints(&write.conn, &[fingerprint]).await?;
    known
        .get(fingerprint)
        .copied()
        .ok_or_else(|| StoreError::Corrupt(format!("the fingerprint {fingerprint} has no incident")))
}

const TOUCH: &str = "
update dead_letter_queue
   set died_at = $3, updated_at = $4
 where id = $1
   and created_at = $2";

async fn touch(write: &Write, id: LetterId, died_at: Time, at: Time) -> Result<(), StoreError> {
    write.conn.execute(TOUCH, &[&Uid(*id.bytes()), &At(id.at()), &At(died_at), &At(at)]).await?;
    Ok(())
}

const BEGIN_LIFE: &str = "
update dead_letter_queue
   set type = $4, queue = $5, aggregate = $6, schema_version = $7, error_type = $8, error_code = $9,
       error_message = $10, class = $11, fingerprint = $12, retry_count = $13, max_retries = $14, status = $15,
       life = $16, sent_at = null, ever_sent = ever_sent or $19, resolution_timestamp = null,
       resolution_strategy = null, resolved_by = null, resolution_notes = null, updated_at = $17, died_at = $18,
       retention_at = $17, words = array_to_tsvector(string_to_array($20, ' ')), original_event = $21::text::jsonb,
       error_stack_trace = $22, error_context = $23::text::jsonb, retry_history = $24::text::jsonb
 where id = $1
   and created_at = $2
   and status = $3";

/// Moves a letter into its next life: what lists show is taken from the new arrival, the old lives stay as they were.
async fn begin_life(
    write: &mut Write,
    incoming: &Incoming,
    met: &Met,
    life: u32,
    status: Status,
    verdict: Verdict,
) -> Result<IncidentId, StoreError> {
    let prepared = &incoming.prepared;
    let admitted = &prepared.admitted;
    let captured = &admitted.captured;
    let fatal = prepared.fatal();
    let nothing = Extract::default();
    let extract = incoming.extract().unwrap_or(&nothing);
    // Whatever proved the relapse also proved that a copy of ours was out.
    let relapse = verdict == Verdict::Relapse;
    let mut incidents = find_incidents(write, &[prepared]).await?;
    let incident = incidents.tell(write, prepared)?;
    let died_at = last_death(met.known, admitted.died_at, admitted.captured_at);
    let moved = write
        .conn
        .execute(
            BEGIN_LIFE,
            &[
                &Uid(*met.id.bytes()),
                &At(met.id.at()),
                &met.known.status.name(),
                &captured.letter_type,
                &captured.queue,
                &captured.aggregate,
                &captured.schema_version,
                &fatal.error_type,
                &fatal.error_code,
                &fatal.message,
                &admitted.class.name(),
                &admitted.grouping.fingerprint.as_str(),
                &i64::from(captured.retry_count),
                &captured.max_retries.map(i64::from),
                &status.name(),
                &(life as i32),
                &At(admitted.captured_at),
                &At(died_at),
                &relapse,
                &prepared.words,
                &extract.original_event,
                &extract.error_stack_trace,
                &extract.error_context,
                &extract.retry_history,
            ],
        )
        .await?;
    if moved != 1 {
        return Err(StoreError::Corrupt(format!("letter {} moved while it was held still", met.id)));
    }
    // Whatever claim was out is answered by this death.
    write.conn.execute("delete from claims where letter = $1", &[&Uid(*met.id.bytes())]).await?;
    let now = Counted { source: met.counted.source.clone(), ..counted(prepared, status) };
    write.tally.vanish(&met.counted);
    write.tally.appear(&now);
    write.tally.flow(admitted.captured_at.minute(), Flow::Arrived, &now);
    write.tally.see(&now.fingerprint, admitted.captured_at);
    let fingerprints = [met.counted.fingerprint.as_str(), now.fingerprint.as_str()];
    outcomes::relapse(write, (met.id, met.known.life), fingerprints, incident, died_at, admitted.captured_at);
    Ok(incident)
}
