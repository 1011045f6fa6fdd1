//! Claims: taken, advanced and settled together with the letter they fence.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::Action;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use super::cell::{At, Cells, Uid};
use super::events::{self, NewEvent};
use super::redrives::outcomes;
use super::verdicts::{Mark, apply};
use super::writer::Write;
use crate::StoreError;
use crate::claim::{Claim, ClaimRefused, ClaimRequest, ClaimStep, Settlement};
use crate::decision::Decided;

/// The letter first, as everywhere, and then its claim.
const LIFE_OF: &str = "
select life
  from dead_letter_queue
 where id = $1
   and created_at = $2
   for no key update";

/// The present life of a letter, which is held still until the commit.
async fn life_of(write: &Write, letter: LetterId) -> Result<Option<u32>, StoreError> {
    let row = write.conn.query_opt(LIFE_OF, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
    row.map(|row| row.small(0)).transpose()
}

const ADD_CLAIM: &str = "
insert into claims (letter, life, run, step, lease_until, idempotency_key, claimed_at)
values ($1, $2, $3, $4, $5, $6, $7)";

pub(super) async fn claim(
    write: &mut Write,
    request: ClaimRequest,
    at: Time,
) -> Result<Result<Claim, ClaimRefused>, StoreError> {
    let letter = request.letter;
    match life_of(write, letter).await? {
        None => return Ok(Err(ClaimRefused::Unknown(letter))),
        Some(life) if life != request.life => return Ok(Err(ClaimRefused::OtherLife(letter))),
        Some(_) => {}
    }
    match apply(write, letter, Action::Redrive, Mark::Claims, at).await? {
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
    write
        .conn
        .execute(
            ADD_CLAIM,
            &[
                &Uid(*letter.bytes()),
                &(claim.life as i32),
                &Uid(*claim.run.bytes()),
                &claim.step.name(),
                &At(request.lease_until),
                &claim.idempotency_key,
                &At(at),
            ],
        )
        .await?;
    Ok(Ok(claim))
}

const ADVANCE: &str = "
update claims
   set step = $4, lease_until = case when $5 then null else lease_until end
 where letter = $1
   and run = $2
   and step = $3";

const MARK_SENT: &str = "
update dead_letter_queue
   set sent_at = $3, ever_sent = ever_sent or $4, updated_at = $3
 where id = $1
   and created_at = $2";

pub(super) async fn advance(
    write: &mut Write,
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
    if life_of(write, letter).await?.is_none() {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    let binds = (Uid(*letter.bytes()), Uid(*run.bytes()));
    let moved = write.conn.execute(ADVANCE, &[&binds.0, &binds.1, &from.name(), &step.name(), &sent]).await?;
    if moved == 0 {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    // From `sending` on the message may be out: a death that comes now may be that of our copy.
    write.conn.execute(MARK_SENT, &[&binds.0, &At(letter.at()), &At(at), &sent]).await?;
    Ok(Ok(()))
}

const WAS_SENT: &str = "
update dead_letter_queue
   set ever_sent = true
 where id = $1
   and created_at = $2";

const END_CLAIM: &str = "
delete from claims
 where letter = $1
   and run = $2
   and step = any($3)";

pub(super) async fn settle(
    write: &mut Write,
    letter: LetterId,
    run: RedriveId,
    settlement: &Settlement,
    at: Time,
) -> Result<Result<(), ClaimRefused>, StoreError> {
    // A letter is only taken back before the publish or after a definite refusal, never once it is out.
    let (steps, action, mark, kind) = match settlement {
        Settlement::Confirmed { evidence, by } => (
            [ClaimStep::Sending, ClaimStep::Sent],
            Action::Confirm,
            Mark::Ends { strategy: Strategy::ManualRetry, by, notes: Some(evidence) },
            Some("dead_letter.resolved"),
        ),
        Settlement::Unclaimed => {
            ([ClaimStep::Claimed, ClaimStep::Sending], Action::Unclaim, Mark::Nothing, None)
        }
        Settlement::Ended { evidence, by } => (
            [ClaimStep::Sending, ClaimStep::Sent],
            Action::EndWithoutDeadLetter,
            Mark::Ends { strategy: Strategy::Discard, by, notes: Some(evidence) },
            Some("dead_letter.discarded"),
        ),
    };
    if life_of(write, letter).await?.is_none() {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    let steps = steps.map(ClaimStep::name);
    let ended = write
        .conn
        .execute(END_CLAIM, &[&Uid(*letter.bytes()), &Uid(*run.bytes()), &steps.as_slice()])
        .await?;
    if ended == 0 {
        return Ok(Err(ClaimRefused::NotClaimed(letter)));
    }
    match apply(write, letter, action, mark, at).await? {
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
        write.conn.execute(WAS_SENT, &[&Uid(*letter.bytes()), &At(letter.at())]).await?;
        events::add(write, &NewEvent { at, kind, letter: Some(letter), ..NewEvent::default() })?;
    }
    let (outcome, evidence) = match settlement {
        Settlement::Confirmed { evidence, .. } => (Outcome::Succeeded, evidence.as_str()),
        Settlement::Ended { evidence, .. } => (Outcome::Ended, evidence.as_str()),
        Settlement::Unclaimed => (Outcome::Failed, "it was taken back"),
    };
    outcomes::left(write, letter, outcome, evidence, at).await?;
    Ok(Ok(()))
}
