//! A message arrives under the key of an archived letter: the same death told again, or a new one?
//!
//! A death that is told again moves nothing; attempts that the letter does not have yet are kept beside it (`late`). A new one makes the letter live at once: out of the trash while it waits
//! there; else a row is made of what the archive knows, and its older lives stay in their files.

use lazaret_core::death::{Evidence, Known, Verdict, judge};
use lazaret_core::id::LetterId;
use lazaret_core::letter::{Outcome, Receipt};
use lazaret_core::lifecycle::Place;

use super::super::insert::{Incoming, meet, note};
use super::super::redrives::outcomes;
use super::super::trash::put_back;
use super::super::writer::Write;
use super::restore::{OnRecord, Revived, leave_archive, look, revive};
use crate::StoreError;
use crate::engine::archive::late;
use crate::engine::holds::show;
use crate::failure::FailurePoint;

/// The key of the letter is held. Nothing if it is not archived any more.
pub(in crate::postgres) async fn meet_archived(
    write: &mut Write,
    incoming: &Incoming,
    letter: LetterId,
) -> Result<Option<Receipt>, StoreError> {
    let Some(on_record) = look(&write.conn, letter).await? else { return Ok(None) };
    let prepared = &incoming.prepared;
    let admitted = &prepared.admitted;
    let told = late::known(write, letter).await?;
    let known = Known {
        letter,
        status: on_record.counted.status,
        life: on_record.life,
        died_at: on_record.died_at,
        sent_at: None,
        ever_sent: on_record.ever_sent,
    };
    let mark_sent = outcomes::mark_sent(&write.conn, &known, admitted.captured.mark).await?;
    let attempt_known = told.contains(&prepared.fatal().identity.0);
    match judge(known, Evidence { mark_sent, ..admitted.evidence(attempt_known) }) {
        Verdict::Duplicate => {
            let life = known.life_of(admitted.captured.mark);
            for attempt in &prepared.attempts {
                if !told.contains(&attempt.identity.0) && !attempt.tells_nothing() {
                    late::add(write, letter, life, attempt).await?;
                }
            }
            note(write, prepared, "duplicate");
            return Ok(Some(Receipt { letter, outcome: Outcome::Duplicate }));
        }
        Verdict::NewDeath | Verdict::Relapse => {}
    }
    bring_back(write, letter, &on_record, incoming).await?;
    meet(write, incoming, letter, Place::Archived).await
}

/// Makes an archived letter live, as it was: what it died of now is told next.
async fn bring_back(
    write: &mut Write,
    letter: LetterId,
    on_record: &OnRecord,
    incoming: &Incoming,
) -> Result<(), StoreError> {
    let at = incoming.prepared.admitted.captured_at;
    if on_record.waiting {
        put_back(write, letter, at).await?;
    } else {
        revive(&write.conn, letter, &Revived::default(), at).await?;
    }
    write.failures.at(FailurePoint::Meet)?;
    leave_archive(write, letter).await?;
    // Nobody changes its holds any more where it was; the standing ones are asked when it has its next life.
    show(write, &[letter], None).await?;
    write.tally.at(at);
    write.tally.appear(&on_record.counted);
    Ok(())
}
