//! Sending letters that a run has taken: claims go forward step by step, and whatever sending comes to is written down
//! together with the letters, their outcomes and their lanes. Letters are locked first, then their claims are looked at.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::{Action, Status};
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;
use serde_json::json;

use super::super::cell::{At, Cells, Uid, clean};
use super::super::events::{self, NewEvent};
use super::super::insert::{NewAttempt, add_attempts, column};
use super::super::rows::unknown;
use super::super::verdicts::{self, Mark, move_all};
use super::super::writer::Write;
use super::outcomes::{Turn, strategy_of};
use super::take::{RETRIED, leads_to};
use crate::StoreError;
use crate::claim::{ClaimFence, ClaimStep};
use crate::engine::redrives::row::{self, Run};
use crate::packing::{PreparedAttempt, pack_attempt};
use crate::redrive::{QUIET_WINDOW, SendOutcome};

const BEGIN: &str = "
update claims c
   set step = $4
  from unnest($1::uuid[], $6::text[], $7::integer[]) as n (letter, idempotency_key, renewals)
 where c.letter = n.letter
   and c.idempotency_key = n.idempotency_key
   and c.renewals = n.renewals
   and c.run = $2
   and c.step = $3
   and c.lease_until >= $5
returning c.letter";

const MARK_SENT: &str = "
update dead_letter_queue l
   set sent_at = $3, ever_sent = l.ever_sent or $4, updated_at = $3
  from unnest($1::uuid[], $2::timestamptz[]) as n (letter, begun_at)
 where l.id = n.letter
   and l.created_at = n.begun_at";

async fn mark_sent(write: &Write, letters: &[LetterId], ever: bool, at: Time) -> Result<(), StoreError> {
    let ids: Vec<Uid> = column(letters, |letter| Uid(*letter.bytes()));
    let begun_at: Vec<At> = column(letters, |letter| At(letter.at()));
    write.conn.execute(MARK_SENT, &[&ids, &begun_at, &At(at), &ever]).await?;
    Ok(())
}

/// Moves claims on to `sending`, those that are still the caller's and whose lease is not over; says which.
pub(super) async fn begin(
    write: &mut Write,
    id: RedriveId,
    claims: &[ClaimFence],
    at: Time,
) -> Result<Vec<LetterId>, StoreError> {
    let Some(run) = row::find(write, id).await? else { return Ok(Vec::new()) };
    let letters: Vec<LetterId> = column(claims, |claim| claim.letter);
    verdicts::lock_letters(write, &letters).await?;
    let ids: Vec<Uid> = column(claims, |claim| Uid(*claim.letter.bytes()));
    let keys: Vec<&str> = claims.iter().map(|claim| claim.idempotency_key.as_str()).collect();
    let renewals: Vec<i32> = column(claims, |claim| claim.renewals as i32);
    let (from, to) = (ClaimStep::Claimed.name(), ClaimStep::Sending.name());
    let binds = (Uid(*id.bytes()), At(at));
    let moved = write.conn.query(BEGIN, &[&ids, &binds.0, &from, &to, &binds.1, &keys, &renewals]).await?;
    let mut moved: Vec<LetterId> =
        moved.iter().map(|row| Ok(LetterId::from_bytes(row.id(0)?))).collect::<Result<_, StoreError>>()?;
    let places: HashMap<&LetterId, usize> =
        letters.iter().enumerate().map(|(n, letter)| (letter, n)).collect();
    moved.sort_by_key(|letter| places.get(letter).copied());
    // From here on the message may be out: a death that comes now may be that of our copy.
    mark_sent(write, &moved, false, at).await?;
    let detail = json!({ "redrive": id.to_string() }).to_string();
    for letter in &moved {
        let event = NewEvent {
            at,
            kind: RETRIED,
            letter: Some(*letter),
            actor: Some(&run.redrive.by.name),
            detail: Some(detail.clone()),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
    }
    events::note_all(write, RETRIED, &moved).await?;
    Ok(moved)
}

/// Settles letters by what sending them came to; says of each whether its claim still was the caller's.
pub(super) async fn settle(
    write: &mut Write,
    id: RedriveId,
    outcomes: &[(ClaimFence, SendOutcome)],
    at: Time,
) -> Result<Vec<bool>, StoreError> {
    let Some(run) = row::find(write, id).await? else { return Ok(vec![false; outcomes.len()]) };
    let letters: Vec<LetterId> = column(outcomes, |(fence, _)| fence.letter);
    verdicts::lock_letters(write, &letters).await?;
    let mut claims = claimed(write, id, &letters).await?;
    let settling = Settling { run: &run, by: &run.redrive.by.name, at };
    let mut settled = Vec::with_capacity(outcomes.len());
    let mut sorted = Sorted::default();
    let mut handles: Vec<(&ClaimFence, &str)> = Vec::new();
    for (fence, outcome) in outcomes {
        let allowed = claims.get(&fence.letter).is_some_and(|claimed| {
            claimed.fence == *fence && outcome.can_settle(claimed.step, claimed.outcome)
        });
        settled.push(allowed);
        // A letter that is named twice is settled once.
        if allowed && let Some(claimed) = claims.remove(&fence.letter) {
            handles.extend(outcome.handle().map(|handle| (fence, handle)));
            sorted.sort(claimed, outcome);
        }
    }
    keep_handles(write, id, &handles).await?;
    for (evidence, claims) in sorted.delivered {
        settling.confirm(write, &claims, Outcome::Succeeded, evidence).await?;
    }
    if !sorted.assumed.is_empty() {
        settling.confirm(write, &sorted.assumed, Outcome::Assumed, QUIET_WINDOW).await?;
    }
    settling.sent(write, &sorted.sent).await?;
    settling.fail(write, &sorted.failed).await?;
    settling.lose(write, &sorted.unknown).await?;
    settling.wait(write, &sorted.unsent).await?;
    Ok(settled)
}

const KEEP_HANDLES: &str = "
update redrive_letters t
   set handle = n.handle
  from unnest($2::uuid[], $3::text[], $4::text[]) as n (letter, key, handle)
 where t.redrive = $1
   and t.letter = n.letter
   and t.idempotency_key = n.key";

/// Keeps what destinations handed out.
async fn keep_handles(
    write: &Write,
    run: RedriveId,
    handles: &[(&ClaimFence, &str)],
) -> Result<(), StoreError> {
    if handles.is_empty() {
        return Ok(());
    }
    let letters: Vec<Uid> = column(handles, |(fence, _)| Uid(*fence.letter.bytes()));
    let keys: Vec<&str> = column(handles, |(fence, _)| fence.idempotency_key.as_str());
    let handles: Vec<_> = column(handles, |(_, handle)| clean(handle));
    write.conn.execute(KEEP_HANDLES, &[&Uid(*run.bytes()), &letters, &keys, &handles]).await?;
    Ok(())
}

/// Letters by what sending them came to.
#[derive(Default)]
struct Sorted<'a> {
    delivered: BTreeMap<&'static str, Vec<Claimed>>,
    sent: Vec<Claimed>,
    assumed: Vec<Claimed>,
    failed: Vec<(Claimed, &'a Attempt, &'a str)>,
    unknown: Vec<(Claimed, &'a str)>,
    unsent: Vec<Claimed>,
}

impl<'a> Sorted<'a> {
    fn sort(&mut self, claimed: Claimed, outcome: &'a SendOutcome) {
        match outcome {
            SendOutcome::Delivered { evidence, .. } => {
                self.delivered.entry(evidence).or_default().push(claimed)
            }
            SendOutcome::Sent { .. } => self.sent.push(claimed),
            SendOutcome::Assumed => self.assumed.push(claimed),
            SendOutcome::Failed { attempt, why } => self.failed.push((claimed, attempt, why)),
            SendOutcome::Unknown { why } | SendOutcome::Lost { why } => self.unknown.push((claimed, why)),
            SendOutcome::Unsent => self.unsent.push(claimed),
        }
    }
}

/// A letter that is out, and how far its claim has come.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    fence: ClaimFence,
    pub letter: LetterId,
    pub life: u32,
    pub step: ClaimStep,
    pub outcome: Outcome,
}

const CLAIMED: &str = "
select c.letter, c.life, c.step, t.outcome, c.idempotency_key, c.renewals
  from claims c
  join redrive_letters t on t.letter = c.letter and t.redrive = c.run and t.life = c.life
 where c.letter = any($1)
   and c.run = $2";

/// Those of the locked letters that a run has out.
pub(super) async fn claimed(
    write: &Write,
    run: RedriveId,
    letters: &[LetterId],
) -> Result<HashMap<LetterId, Claimed>, StoreError> {
    let ids: Vec<Uid> = column(letters, |letter| Uid(*letter.bytes()));
    let mut claims = HashMap::with_capacity(letters.len());
    for row in write.conn.query(CLAIMED, &[&ids, &Uid(*run.bytes())]).await? {
        let letter = LetterId::from_bytes(row.id(0)?);
        let step: &str = row.cell(2)?;
        let step = ClaimStep::parse(step).ok_or_else(|| unknown("step of a claim", step))?;
        let outcome = row::outcome(row.cell(3)?)?;
        let fence = ClaimFence { letter, idempotency_key: row.cell(4)?, renewals: row.small(5)? };
        claims.insert(letter, Claimed { fence, letter, life: row.small(1)?, step, outcome });
    }
    Ok(claims)
}

/// Letters of one run that are settled together.
pub(super) struct Settling<'a> {
    pub run: &'a Run,
    /// Who decided: whoever launched the run, unless a person settles them by hand.
    pub by: &'a str,
    pub at: Time,
}

const END_CLAIMS: &str = "delete from claims where letter = any($1)";

const NO_LEASE: &str = "
update claims
   set lease_until = null
 where letter = any($1)";

const SENT: &str = "
update claims
   set step = $2, lease_until = null
 where letter = any($1)";

impl Settling<'_> {
    fn turn(&self, claimed: &Claimed, to: Outcome, evidence: Option<&str>, sent_at: Option<Time>) -> Turn {
        Turn {
            letter: claimed.letter,
            life: Some(claimed.life),
            run: Some(self.run.redrive.id),
            to,
            evidence: evidence.map(str::to_owned),
            sent_at,
            at: self.at,
            death: None,
        }
    }

    /// The work is done, or taken for done: the letters are resolved.
    pub async fn confirm(
        &self,
        write: &mut Write,
        claims: &[Claimed],
        to: Outcome,
        evidence: &str,
    ) -> Result<(), StoreError> {
        let letters: Vec<LetterId> = column(claims, |claimed| claimed.letter);
        write.conn.execute(END_CLAIMS, &[&uids(claims)]).await?;
        let strategy = strategy_of(self.run.redrive.kind);
        let mark = Mark::Delivered { strategy, by: self.by, notes: Some(evidence) };
        let status = leads_to(Status::Reprocessing, Action::Confirm)?;
        move_all(write, &letters, Status::Reprocessing, status, mark, self.at).await?;
        for claimed in claims {
            let (at, kind) = (self.at, "dead_letter.resolved");
            let letter = Some(claimed.letter);
            events::add(write, &NewEvent { at, kind, letter, ..NewEvent::default() })?;
            let sent_at = (claimed.step == ClaimStep::Sending).then_some(self.at);
            write.outcomes.turn(self.turn(claimed, to, Some(evidence), sent_at));
        }
        Ok(())
    }

    /// The destination has them: there is no lease any more, and nothing to take back.
    pub async fn sent(&self, write: &mut Write, claims: &[Claimed]) -> Result<(), StoreError> {
        if claims.is_empty() {
            return Ok(());
        }
        write.conn.execute(SENT, &[&uids(claims), &ClaimStep::Sent.name()]).await?;
        let letters: Vec<LetterId> = column(claims, |claimed| claimed.letter);
        mark_sent(write, &letters, true, self.at).await?;
        for claimed in claims {
            write.outcomes.turn(self.turn(claimed, Outcome::Sent, None, Some(self.at)));
        }
        Ok(())
    }

    /// The letters were definitely not taken: they are pending again.
    async fn unclaim(&self, write: &mut Write, claims: &[Claimed]) -> Result<(), StoreError> {
        let letters: Vec<LetterId> = column(claims, |claimed| claimed.letter);
        write.conn.execute(END_CLAIMS, &[&uids(claims)]).await?;
        let status = leads_to(Status::Reprocessing, Action::Unclaim)?;
        move_all(write, &letters, Status::Reprocessing, status, Mark::Claims, self.at).await
    }

    async fn fail(&self, write: &mut Write, failed: &[(Claimed, &Attempt, &str)]) -> Result<(), StoreError> {
        if failed.is_empty() {
            return Ok(());
        }
        let claims: Vec<Claimed> = column(failed, |(claimed, _, _)| claimed.clone());
        self.unclaim(write, &claims).await?;
        add_failures(write, failed).await?;
        for (claimed, _, why) in failed {
            write.outcomes.turn(self.turn(claimed, Outcome::Failed, Some(why), None));
        }
        Ok(())
    }

    /// Takes a letter back of which a person says that it was not sent: it is pending again.
    pub async fn take_back(
        &self,
        write: &mut Write,
        claimed: Claimed,
        evidence: &str,
    ) -> Result<(), StoreError> {
        let turn = self.turn(&claimed, Outcome::Failed, Some(evidence), None);
        self.unclaim(write, &[claimed]).await?;
        write.outcomes.turn(turn);
        Ok(())
    }

    /// Nobody knows whether they were sent: their claims stay without a lease, until evidence or a person decides.
    async fn lose(&self, write: &mut Write, lost: &[(Claimed, &str)]) -> Result<(), StoreError> {
        if lost.is_empty() {
            return Ok(());
        }
        let claims: Vec<Claimed> = column(lost, |(claimed, _)| claimed.clone());
        write.conn.execute(NO_LEASE, &[&uids(&claims)]).await?;
        for (claimed, why) in lost {
            let sent_at = (claimed.step == ClaimStep::Sending).then_some(self.at);
            write.outcomes.turn(self.turn(claimed, Outcome::Unknown, Some(why), sent_at));
        }
        Ok(())
    }

    /// They were never sent: each waits for its turn again, unless the run has no more turns to give.
    async fn wait(&self, write: &mut Write, claims: &[Claimed]) -> Result<(), StoreError> {
        if claims.is_empty() {
            return Ok(());
        }
        self.unclaim(write, claims).await?;
        let cancelled = self.run.state() == RunState::Cancelled;
        let to = if cancelled { Outcome::Cancelled } else { Outcome::Waiting };
        for claimed in claims {
            write.outcomes.turn(self.turn(claimed, to, None, None));
        }
        Ok(())
    }
}

fn uids(claims: &[Claimed]) -> Vec<Uid> {
    column(claims, |claimed| Uid(*claimed.letter.bytes()))
}

const LAST_ATTEMPTS: &str = "
select letter, max(ordinal)
  from attempts
 where letter = any($1)
 group by letter";

/// A refusal is an attempt of the same life.
async fn add_failures(write: &Write, failed: &[(Claimed, &Attempt, &str)]) -> Result<(), StoreError> {
    let ids: Vec<Uid> = column(failed, |(claimed, _, _)| Uid(*claimed.letter.bytes()));
    let mut last: HashMap<LetterId, u32> = HashMap::new();
    for row in write.conn.query(LAST_ATTEMPTS, &[&ids]).await? {
        last.insert(LetterId::from_bytes(row.id(0)?), row.small(1)?);
    }
    let mut packed: Vec<(&Claimed, PreparedAttempt)> = Vec::with_capacity(failed.len());
    for (claimed, attempt, _) in failed {
        for identity in identities(std::slice::from_ref(*attempt)) {
            packed.push((claimed, pack_attempt(attempt, identity)?));
        }
    }
    let attempts: Vec<NewAttempt<'_>> = packed
        .iter()
        .map(|(claimed, attempt)| NewAttempt {
            letter: claimed.letter,
            ordinal: last.get(&claimed.letter).copied().unwrap_or(0) + 1,
            life: claimed.life,
            attempt,
        })
        .collect();
    add_attempts(&write.conn, &attempts).await?;
    Ok(())
}

/// Resolves a locked letter that a run has out, by evidence or a person's word.
pub(in crate::postgres) async fn confirm_one(
    write: &mut Write,
    (run, letter): (&Run, LetterId),
    to: Outcome,
    evidence: &str,
    (by, at): (&str, Time),
) -> Result<(), StoreError> {
    let claimed = expect_claimed(write, run, letter).await?;
    Settling { run, by, at }.confirm(write, &[claimed], to, evidence).await
}

/// Takes a locked letter back of which a person says that it was not sent: it is pending again.
pub(in crate::postgres) async fn unclaim_one(
    write: &mut Write,
    (run, letter): (&Run, LetterId),
    evidence: &str,
    (by, at): (&str, Time),
) -> Result<(), StoreError> {
    let claimed = expect_claimed(write, run, letter).await?;
    Settling { run, by, at }.take_back(write, claimed, evidence).await
}

async fn expect_claimed(write: &Write, run: &Run, letter: LetterId) -> Result<Claimed, StoreError> {
    let gone = || StoreError::Corrupt(format!("letter {letter} has lost its claim"));
    claimed(write, run.redrive.id, &[letter]).await?.remove(&letter).ok_or_else(gone)
}
