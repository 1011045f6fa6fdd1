//! Sending letters that a run has taken: claims go forward step by step, and whatever sending comes to is written down
//! together with the letter, its outcome and its lane.

use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Action;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;
use serde_json::json;

use super::super::events::{self, NewEvent};
use super::super::insert::add_attempt;
use super::super::verdicts::{Mark, apply};
use super::super::writer::Write;
use super::outcomes::{Listed, Shifts, Turn, strategy_of};
use crate::StoreError;
use crate::claim::{ClaimFence, ClaimStep};
use crate::decision::Decided;
use crate::engine::redrives::row::{self, Run};
use crate::packing::pack_attempt;
use crate::redrive::{QUIET_WINDOW, SendOutcome};
use crate::seam::ready;

const BEGIN: &str = "
update claims
   set step = ?4
 where letter = ?1
   and run = ?2
   and step = ?3
   and lease_until >= ?5
   and idempotency_key = ?6
   and renewals = ?7";

const MARK_SENT: &str = "
update dead_letter_queue
   set sent_at = ?2, ever_sent = ever_sent or ?3, updated_at = ?2
 where id = ?1";

/// Moves claims on to `sending`, those that are still the caller's and whose lease is not over; says which.
pub(super) fn begin(
    write: &mut Write,
    id: RedriveId,
    claims: &[ClaimFence],
    at: Time,
) -> Result<Vec<LetterId>, StoreError> {
    let Some(run) = ready(row::find(write, id))? else { return Ok(Vec::new()) };
    let detail = json!({ "redrive": id.to_string() }).to_string();
    let mut begun = Vec::with_capacity(claims.len());
    for ClaimFence { letter, idempotency_key, renewals } in claims {
        let moved = write.conn.prepare_cached(BEGIN)?.execute((
            letter.bytes(),
            id.bytes(),
            ClaimStep::Claimed.name(),
            ClaimStep::Sending.name(),
            at.ms(),
            idempotency_key,
            renewals,
        ))?;
        if moved == 0 {
            continue;
        }
        // From here on the message may be out: a death that comes now may be that of our copy.
        write.conn.prepare_cached(MARK_SENT)?.execute((letter.bytes(), at.ms(), false))?;
        let event = NewEvent {
            at,
            kind: "dead_letter.retried",
            letter: Some(*letter),
            actor: Some(&run.redrive.by.name),
            detail: Some(detail.clone()),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
        events::note(write, "dead_letter.retried", *letter, "")?;
        begun.push(*letter);
    }
    Ok(begun)
}

const END_LEASES: &str = "update claims set lease_until = ?1 where lease_until > ?1";

/// Ends every lease that is not over; says how many.
pub(super) fn end_leases(write: &Write, at: Time) -> Result<usize, StoreError> {
    Ok(write.conn.prepare_cached(END_LEASES)?.execute([at.plus_ms(-1).ms()])?)
}

/// Settles letters by what sending them came to; says of each whether its claim still was the caller's.
pub(super) fn settle(
    write: &mut Write,
    id: RedriveId,
    outcomes: &[(ClaimFence, SendOutcome)],
    at: Time,
) -> Result<Vec<bool>, StoreError> {
    let Some(run) = ready(row::find(write, id))? else { return Ok(vec![false; outcomes.len()]) };
    let mut settling = Settling { run: &run, by: &run.redrive.by.name, at, shifts: Shifts::default() };
    let mut settled = Vec::with_capacity(outcomes.len());
    for (fence, outcome) in outcomes {
        settled.push(settling.one(write, fence, outcome)?);
    }
    settling.shifts.flush(write, at)?;
    Ok(settled)
}

/// Letters of one run that are settled together.
pub(super) struct Settling<'a> {
    pub run: &'a Run,
    /// Who decided: whoever launched the run, unless a person settles them by hand.
    pub by: &'a str,
    pub at: Time,
    pub shifts: Shifts,
}

const CLAIMED: &str = "
select c.step, t.ordinal, t.outcome, t.lane, c.life, c.idempotency_key, c.renewals
  from claims c
  join redrive_letters t indexed by redrive_letters_by_letter
    on t.letter = c.letter and t.redrive = c.run and t.life = c.life
 where c.letter = ?1
   and c.run = ?2
 order by t.ordinal desc
 limit 1";

/// A letter that is out, and how far its claim has come.
pub(super) struct Claimed {
    fence: ClaimFence,
    pub step: ClaimStep,
    pub life: u32,
    pub listed: Listed,
}

pub(super) fn claimed(
    write: &Write,
    run: RedriveId,
    letter: LetterId,
) -> Result<Option<Claimed>, StoreError> {
    let mut statement = write.conn.prepare_cached(CLAIMED)?;
    let mut found = statement.query((letter.bytes(), run.bytes()))?;
    let Some(row) = found.next()? else { return Ok(None) };
    let (step, outcome): (String, String) = (row.get(0)?, row.get(2)?);
    let step = ClaimStep::parse(&step)
        .ok_or_else(|| StoreError::Corrupt(format!("the step `{step}` of a claim is unknown")))?;
    let outcome = row::outcome(&outcome)?;
    let listed = Listed { redrive: run, ordinal: row.get(1)?, outcome, lane: row.get(3)? };
    let fence = ClaimFence { letter, idempotency_key: row.get(5)?, renewals: row.get(6)? };
    Ok(Some(Claimed { fence, step, life: row.get(4)?, listed }))
}

impl Settling<'_> {
    /// Settles one letter; false if the claim is not the caller's, or not in a step that allows this.
    fn one(
        &mut self,
        write: &mut Write,
        fence: &ClaimFence,
        outcome: &SendOutcome,
    ) -> Result<bool, StoreError> {
        let letter = fence.letter;
        let claimed = claimed(write, self.run.redrive.id, letter)?.filter(|claimed| claimed.fence == *fence);
        let Some(claimed) =
            claimed.filter(|claimed| outcome.can_settle(claimed.step, claimed.listed.outcome))
        else {
            return Ok(false);
        };
        if let Some(handle) = outcome.handle() {
            let Listed { redrive, ordinal, .. } = &claimed.listed;
            write.conn.prepare_cached(KEEP_HANDLE)?.execute((redrive.bytes(), ordinal, handle))?;
        }
        match outcome {
            SendOutcome::Delivered { evidence, .. } => {
                self.confirm(write, letter, &claimed, Outcome::Succeeded, evidence)?;
            }
            SendOutcome::Sent { .. } => self.sent(write, letter, &claimed)?,
            SendOutcome::Assumed => {
                self.confirm(write, letter, &claimed, Outcome::Assumed, QUIET_WINDOW)?;
            }
            SendOutcome::Failed { attempt, why } => {
                self.unclaim(write, letter)?;
                add_failure(write, letter, claimed.life, attempt)?;
                let turn = Turn::new(Outcome::Failed, Some(why), self.at);
                self.shifts.shift(write, &claimed.listed, &turn)?;
            }
            SendOutcome::Unknown { why } | SendOutcome::Lost { why } => {
                write.conn.prepare_cached(NO_LEASE)?.execute([letter.bytes()])?;
                let sent_at = (claimed.step == ClaimStep::Sending).then_some(self.at);
                let turn = Turn { sent_at, ..Turn::new(Outcome::Unknown, Some(why), self.at) };
                self.shifts.shift(write, &claimed.listed, &turn)?;
            }
            SendOutcome::Unsent => {
                self.unclaim(write, letter)?;
                // A run that was cancelled has no more turns to give.
                let cancelled = self.run.state() == RunState::Cancelled;
                let to = if cancelled { Outcome::Cancelled } else { Outcome::Waiting };
                self.shifts.shift(write, &claimed.listed, &Turn::new(to, None, self.at))?;
            }
        }
        Ok(true)
    }

    /// The work is done, or taken for done: the letter is resolved.
    pub fn confirm(
        &mut self,
        write: &mut Write,
        letter: LetterId,
        claimed: &Claimed,
        to: Outcome,
        evidence: &str,
    ) -> Result<(), StoreError> {
        write.conn.prepare_cached(END_CLAIM)?.execute([letter.bytes()])?;
        let strategy = strategy_of(self.run.redrive.kind);
        let mark = Mark::Delivered { strategy, by: self.by, notes: Some(evidence) };
        moved(apply(write, letter, Action::Confirm, mark, self.at)?, letter)?;
        let event = NewEvent {
            at: self.at,
            kind: "dead_letter.resolved",
            letter: Some(letter),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
        let sent_at = (claimed.step == ClaimStep::Sending).then_some(self.at);
        let turn = Turn { sent_at, ..Turn::new(to, Some(evidence), self.at) };
        self.shifts.shift(write, &claimed.listed, &turn)?;
        Ok(())
    }

    /// The destination has it: there is no lease any more, and nothing to take back.
    pub fn sent(&mut self, write: &Write, letter: LetterId, claimed: &Claimed) -> Result<(), StoreError> {
        write.conn.prepare_cached(SENT)?.execute((letter.bytes(), ClaimStep::Sent.name()))?;
        write.conn.prepare_cached(MARK_SENT)?.execute((letter.bytes(), self.at.ms(), true))?;
        let turn = Turn { sent_at: Some(self.at), ..Turn::new(Outcome::Sent, None, self.at) };
        self.shifts.shift(write, &claimed.listed, &turn)?;
        Ok(())
    }

    /// The letter was definitely not taken: it waits again.
    pub fn unclaim(&self, write: &mut Write, letter: LetterId) -> Result<(), StoreError> {
        write.conn.prepare_cached(END_CLAIM)?.execute([letter.bytes()])?;
        moved(apply(write, letter, Action::Unclaim, Mark::Claims, self.at)?, letter)
    }
}

const KEEP_HANDLE: &str = "update redrive_letters set handle = ?3 where redrive = ?1 and ordinal = ?2";

const END_CLAIM: &str = "delete from claims where letter = ?1";

const NO_LEASE: &str = "update claims set lease_until = null where letter = ?1";

const SENT: &str = "update claims set step = ?2, lease_until = null where letter = ?1";

/// A letter that is claimed is out; anything else cannot be.
fn moved(decided: Decided, letter: LetterId) -> Result<(), StoreError> {
    match decided {
        Decided::Done => Ok(()),
        Decided::Refused(refused) => {
            Err(StoreError::Corrupt(format!("claimed letter {letter} does not stand as claimed: {refused}")))
        }
        Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {
            Err(StoreError::Corrupt(format!("claimed letter {letter} is gone")))
        }
    }
}

const LAST_ATTEMPT: &str = "
select l.letter, coalesce((select max(a.ordinal) from attempts a where a.letter = l.letter), 0)
  from dead_letter_queue l
 where l.id = ?1";

/// A refusal is an attempt of the same life.
fn add_failure(write: &Write, letter: LetterId, life: u32, attempt: &Attempt) -> Result<(), StoreError> {
    let (row, last): (i64, u32) = write
        .conn
        .prepare_cached(LAST_ATTEMPT)?
        .query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for identity in identities(std::slice::from_ref(attempt)) {
        add_attempt(write, row, last + 1, life, &pack_attempt(attempt, identity)?)?;
    }
    Ok(())
}

/// Resolves a letter that a run has out, by evidence or a person's word.
pub(in crate::sqlite) fn confirm_one(
    write: &mut Write,
    (run, letter): (&Run, LetterId),
    to: Outcome,
    evidence: &str,
    (by, at): (&str, Time),
) -> Result<(), StoreError> {
    let claimed = expect_claimed(write, run, letter)?;
    let mut settling = Settling { run, by, at, shifts: Shifts::default() };
    settling.confirm(write, letter, &claimed, to, evidence)?;
    settling.shifts.flush(write, at)
}

/// Takes a letter back of which a person says that it was not sent: it is pending again.
pub(in crate::sqlite) fn unclaim_one(
    write: &mut Write,
    (run, letter): (&Run, LetterId),
    evidence: &str,
    (by, at): (&str, Time),
) -> Result<(), StoreError> {
    let claimed = expect_claimed(write, run, letter)?;
    let mut settling = Settling { run, by, at, shifts: Shifts::default() };
    settling.unclaim(write, letter)?;
    settling.shifts.shift(write, &claimed.listed, &Turn::new(Outcome::Failed, Some(evidence), at))?;
    settling.shifts.flush(write, at)
}

fn expect_claimed(write: &Write, run: &Run, letter: LetterId) -> Result<Claimed, StoreError> {
    let gone = || StoreError::Corrupt(format!("letter {letter} has lost its claim"));
    claimed(write, run.redrive.id, letter)?.ok_or_else(gone)
}
