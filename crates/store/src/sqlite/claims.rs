//! Claims: taken, advanced and settled together with the letter they fence.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use rusqlite::OptionalExtension;

use super::events::{self, NewEvent};
use super::redrives::outcomes;
use super::verdicts::{Mark, apply};
use super::writer::Write;
use crate::StoreError;
use crate::claim::{Claim, ClaimRefused, ClaimRequest, ClaimStep, Settlement};
use crate::decision::Decided;

const LIFE_OF: &str = "select life from dead_letter_queue where id = ?1";

const ADD_CLAIM: &str = "
insert into claims (letter, life, run, step, lease_until, idempotency_key, claimed_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

pub(super) fn claim(
    write: &mut Write<'_>,
    request: ClaimRequest,
    at: Time,
) -> Result<Result<Claim, ClaimRefused>, StoreError> {
    let letter = request.letter;
    let life: Option<u32> =
        write.conn.prepare_cached(LIFE_OF)?.query_row([letter.bytes()], |row| row.get(0)).optional()?;
    match life {
        None => return Ok(Err(ClaimRefused::Unknown(letter))),
        Some(life) if life != request.life => return Ok(Err(ClaimRefused::OtherLife(letter))),
        Some(_) => {}
    }
    match apply(write, letter, Action::Redrive, Mark::Claims, at)? {
        Decided::Done => {}
        Decided::Refused(refused) => return Ok(Err(refused.into())),
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {
            return Ok(Err(ClaimRefused::Unknown(letter)));
        }
    }
    let claim = Claim {
        letter,
        life: request.life,
        run: request.run,
        step: ClaimStep::Claimed,
        lease_until: Some(request.lease_until),
        idempotency_key: format!("{letter}:{}:1", request.life),
    };
    write.conn.prepare_cached(ADD_CLAIM)?.execute((
        letter.bytes(),
        claim.life,
        claim.run.bytes(),
        claim.step.name(),
        request.lease_until.ms(),
        &claim.idempotency_key,
        at.ms(),
    ))?;
    Ok(Ok(claim))
}

const ADVANCE: &str = "
update claims
   set step = ?4, lease_until = case when ?5 then null else lease_until end
 where letter = ?1
   and run = ?2
   and step = ?3";

pub(super) const MARK_SENT: &str = "
update dead_letter_queue
   set sent_at = ?2, ever_sent = ever_sent or ?3, updated_at = ?2
 where id = ?1";

pub(super) fn advance(
    write: &Write<'_>,
    letter: LetterId,
    run: RedriveId,
    step: ClaimStep,
    at: Time,
) -> Result<Result<(), ClaimRefused>, StoreError> {
    let from = match step {
        ClaimStep::Claimed => return Ok(Err(ClaimRefused::NotClaimed(letter))),
        ClaimStep::Sending => ClaimStep::Claimed,
        ClaimStep::Sent => ClaimStep::Sending,
    };
    let sent = step == ClaimStep::Sent;
    let moved = write.conn.prepare_cached(ADVANCE)?.execute((
        letter.bytes(),
        run.bytes(),
        from.name(),
        step.name(),
        sent,
    ))?;
    if moved == 0 {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    // From `sending` on the message may be out: a death that comes now may be that of our copy.
    write.conn.prepare_cached(MARK_SENT)?.execute((letter.bytes(), at.ms(), sent))?;
    Ok(Ok(()))
}

const END_CLAIM: &str = "
delete from claims
 where letter = ?1
   and run = ?2
   and step in (select value from json_each(?3))";

pub(super) fn settle(
    write: &mut Write<'_>,
    letter: LetterId,
    run: RedriveId,
    settlement: &Settlement,
    at: Time,
) -> Result<Result<(), ClaimRefused>, StoreError> {
    // A letter is only taken back before the publish or after a definite refusal, never once it is out.
    let (steps, action, mark, kind) = match settlement {
        Settlement::Confirmed { evidence, by } => (
            r#"["sending","sent"]"#,
            Action::Confirm,
            Mark::Ends { strategy: Strategy::ManualRetry, by, notes: Some(evidence) },
            Some("dead_letter.resolved"),
        ),
        Settlement::Unclaimed => (r#"["claimed","sending"]"#, Action::Unclaim, Mark::Nothing, None),
        Settlement::Ended { evidence, by } => (
            r#"["sending","sent"]"#,
            Action::EndWithoutDeadLetter,
            Mark::Ends { strategy: Strategy::Discard, by, notes: Some(evidence) },
            Some("dead_letter.discarded"),
        ),
    };
    let ended = write.conn.prepare_cached(END_CLAIM)?.execute((letter.bytes(), run.bytes(), steps))?;
    if ended == 0 {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    match apply(write, letter, action, mark, at)? {
        Decided::Done => {}
        Decided::Refused(refused) => {
            return Err(StoreError::Corrupt(format!(
                "a claimed letter does not stand as claimed: {refused}"
            )));
        }
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {
            return Err(StoreError::Corrupt(format!("claimed letter {letter} is gone")));
        }
    }
    if let Some(kind) = kind {
        // What was done or ended elsewhere was sent, even if its `sent` was never written down.
        write
            .conn
            .prepare_cached("update dead_letter_queue set ever_sent = 1 where id = ?1")?
            .execute([letter.bytes()])?;
        events::add(write, &NewEvent { at, kind, letter: Some(letter), ..NewEvent::default() })?;
    }
    let (outcome, evidence) = match settlement {
        Settlement::Confirmed { evidence, .. } => (Outcome::Succeeded, evidence.as_str()),
        Settlement::Ended { evidence, .. } => (Outcome::Ended, evidence.as_str()),
        Settlement::Unclaimed => (Outcome::Failed, "it was taken back"),
    };
    outcomes::left(write, letter, outcome, evidence, at)?;
    Ok(Ok(()))
}
