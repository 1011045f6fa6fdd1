//! Redrives: plans, runs and what becomes of their letters.
//!
//! Here is only how requests reach the writer and the readers; lists that are long are gone through a part at a time.

pub(super) mod counts;
pub(super) mod doors;
mod edits;
mod freeze;
mod launch;
mod line;
mod lists;
mod open;
pub(super) mod outcomes;
mod plan;
mod row;
mod send;
mod take;
mod tend;
mod unsettled;

use async_trait::async_trait;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;

use super::writer::Writer;
use super::{RECOUNT_MAX, SqliteStore, audit, incidents};
use crate::StoreError;
use crate::audit::{Act, Actor, AuditEntry};
use crate::claim::ClaimFence;
use crate::incident::{IncidentStep, IncidentStepped};
use crate::packing::pack;
use crate::redrive::{
    ByPerson, Edit, Expired, Group, GroupVerdict, Launch, Launched, LetterCause, NewRedrive, Next, Overdue,
    PlanCounts, Proof, Proved, Redrive, RedriveLetter, RedriveQuery, RunLine, RunPoint, RunStep, SendOutcome,
    SentLetter, Stepped, Taken,
};
use crate::redrive_store::RedriveStore;
use crate::seam::Tx;
use freeze::Froze;
use plan::Judged;

impl SqliteStore {
    /// Ends the leases of all claims, and says how many those were. For a process that has just opened the store and has
    /// sent nothing yet: it holds the folder, so whoever claimed them is gone.
    pub async fn end_leases(&self, at: Time) -> Result<usize, StoreError> {
        self.writer.write(1, move |write| unsettled::end_leases(write, at)).await
    }
}

/// Drops plans that are overdue, part by part: other writes come in between.
pub(super) async fn drop_overdue(writer: &Writer, overdue: Overdue) -> Result<u64, StoreError> {
    let (weight, mut dropped) = (limits::FREEZE_ROWS_PER_WRITE, 0);
    while let Some(ended) = writer.write(weight, move |write| plan::drop_chunk(write, overdue)).await? {
        dropped += ended;
    }
    Ok(dropped)
}

#[async_trait]
impl RedriveStore for SqliteStore {
    async fn step_incident(
        &self,
        id: IncidentId,
        step: IncidentStep,
        by: Actor,
        at: Time,
    ) -> Result<IncidentStepped, StoreError> {
        self.writer.write(1, move |write| incidents::step(write, id, &step, &by, at)).await
    }

    async fn open_redrive(&self, redrive: NewRedrive) -> Result<(), StoreError> {
        let weight = 1 + redrive_weight(&redrive);
        self.writer.write(weight, move |write| open::open(write, &redrive)).await
    }

    async fn freeze_redrive(&self, id: RedriveId) -> Result<bool, StoreError> {
        let weight = limits::FREEZE_ROWS_PER_WRITE;
        match self.writer.write(weight, move |write| freeze::freeze(write, id)).await? {
            Froze::More => return Ok(false),
            Froze::Complete => {}
            Froze::TooLarge => {
                while self.writer.write(weight, move |write| plan::drop_list(write, id)).await? {}
            }
        }
        Ok(true)
    }

    async fn redrive_groups(&self, id: RedriveId) -> Result<Vec<Group>, StoreError> {
        self.readers.read(move |conn| plan::groups(conn, id)).await
    }

    async fn letter_cause(&self, letter: LetterId) -> Result<Option<LetterCause>, StoreError> {
        self.readers.read(move |conn| incidents::letter_cause(conn, letter)).await
    }

    async fn run_line(&self, asked: RunLine) -> Result<Vec<RunPoint>, StoreError> {
        self.readers.read(move |conn| line::points(conn, &asked)).await
    }

    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError> {
        self.readers.read_within(RECOUNT_MAX, move |conn| counts::counts(conn, id)).await
    }

    async fn plan_redrive(
        &self,
        id: RedriveId,
        verdicts: Vec<(u32, GroupVerdict)>,
        plan: String,
        at: Time,
    ) -> Result<Option<Redrive>, StoreError> {
        let weight = limits::FREEZE_ROWS_PER_WRITE;
        match self.writer.write(1, move |write| plan::judge(write, id, &verdicts, at)).await? {
            Judged::NoPlan => return Ok(None),
            Judged::AllGo => {}
            Judged::Some => {
                let mut after = Some(0);
                while let Some(ordinal) = after {
                    after = self
                        .writer
                        .write(weight, move |write| plan::refuse_chunk(write, id, ordinal))
                        .await?;
                }
            }
        }
        self.writer.write(1, move |write| plan::keep(write, id, &plan, at)).await
    }

    async fn launch_redrive(&self, id: RedriveId, launch: Launch) -> Result<Launched, StoreError> {
        self.writer.write(1, move |write| launch::launch(write, id, &launch)).await
    }

    async fn step_redrive(
        &self,
        id: RedriveId,
        step: RunStep,
        by: Actor,
        at: Time,
    ) -> Result<Stepped, StoreError> {
        let stepped = self.writer.write(1, move |write| launch::step(write, id, &step, &by, at)).await?;
        match &stepped {
            Stepped::Done(redrive) if redrive.state == RunState::Cancelled => {}
            Stepped::Done(_) | Stepped::Refused(_) | Stepped::Shut(..) | Stepped::Unknown => {
                return Ok(stepped);
            }
        }
        let (weight, mut after) = (limits::FREEZE_ROWS_PER_WRITE, Some(0));
        while let Some(ordinal) = after {
            after = self.writer.write(weight, move |write| tend::wind_up(write, id, ordinal, at)).await?;
        }
        let ended = self.readers.read(move |conn| lists::one(conn, id)).await?;
        Ok(ended.map_or(stepped, |redrive| Stepped::Done(Box::new(redrive))))
    }

    async fn take_letters(
        &self,
        id: RedriveId,
        limit: u32,
        lease_until: Time,
        at: Time,
    ) -> Result<Next, StoreError> {
        let weight = (limit as usize).min(limits::COMMIT_LETTERS_MAX);
        self.writer.write(weight, move |write| take::take(write, id, limit, lease_until, at)).await
    }

    async fn begin_sending(
        &self,
        id: RedriveId,
        claims: Vec<ClaimFence>,
        at: Time,
    ) -> Result<Vec<LetterId>, StoreError> {
        self.writer.write(claims.len(), move |write| send::begin(write, id, &claims, at)).await
    }

    async fn settle_letters(
        &self,
        id: RedriveId,
        outcomes: Vec<(ClaimFence, SendOutcome)>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        self.writer.write(outcomes.len(), move |write| send::settle(write, id, &outcomes, at)).await
    }

    async fn expired_claims(&self, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError> {
        self.readers.read(move |conn| unsettled::expired(conn, at, limit)).await
    }

    async fn renew_claim(
        &self,
        expired: Expired,
        lease_until: Time,
        at: Time,
    ) -> Result<Option<Taken>, StoreError> {
        self.writer.write(1, move |write| unsettled::renew(write, &expired, lease_until, at)).await
    }

    async fn settle_unknown(
        &self,
        id: RedriveId,
        letter: LetterId,
        word: ByPerson,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.writer.write(1, move |write| unsettled::settle_unknown(write, id, letter, word, &by, at)).await
    }

    async fn tend_redrive(&self, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError> {
        self.writer.write(1, move |write| tend::tend(write, id, at)).await
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
        self.readers.read(move |conn| lists::one(conn, id)).await
    }

    async fn redrives(&self, query: RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
        self.readers.read(move |conn| lists::page(conn, &query)).await
    }

    async fn unfinished_redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError> {
        self.readers.read(move |conn| lists::unfinished(conn, limit)).await
    }

    async fn redrive_letters(
        &self,
        id: RedriveId,
        outcome: Option<Outcome>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RedriveLetter>, StoreError> {
        self.readers.read(move |conn| lists::letters(conn, id, outcome, after, limit)).await
    }

    async fn sent_letters(
        &self,
        id: RedriveId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SentLetter>, StoreError> {
        self.readers.read(move |conn| lists::sent(conn, id, after, limit)).await
    }

    async fn redrives_of(&self, letter: LetterId) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
        self.readers.read(move |conn| lists::of_letter(conn, letter)).await
    }

    async fn drop_plans(&self, opened_before: Time) -> Result<u64, StoreError> {
        drop_overdue(&self.writer, Overdue::Unlaunched(opened_before)).await
    }

    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError> {
        self.writer.write(1, move |write| unsettled::prove(write, &proof)).await
    }

    async fn add_edit(&self, letter: LetterId, edit: Edit) -> Result<Option<u32>, StoreError> {
        let packed = pack(&edit.body);
        self.writer.write(1, move |write| edits::add(write, letter, &edit, &packed)).await
    }

    async fn edits(&self, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
        self.readers.read(move |conn| edits::all(conn, letter)).await
    }

    async fn note_act(&self, act: Act, by: Actor, at: Time) -> Result<(), StoreError> {
        self.writer.write(1, move |write| write.add_act(&act, &by, at)).await
    }

    async fn unlinked_audit(&self, limit: usize) -> Result<(Option<[u8; 32]>, Vec<AuditEntry>), StoreError> {
        self.readers.read(move |conn| audit::unlinked(conn, limit)).await
    }

    async fn link_audit(&self, links: Vec<(u64, [u8; 32])>) -> Result<bool, StoreError> {
        self.writer.write(1, move |write| audit::link(write, &links)).await
    }

    async fn audit_links(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(AuditEntry, Option<[u8; 32]>)>, StoreError> {
        self.readers.read(move |conn| audit::links(conn, after, limit)).await
    }
}

/// How many letters opening a redrive touches.
fn redrive_weight(redrive: &NewRedrive) -> usize {
    match &redrive.selection {
        crate::redrive::Selection::Letters(letters) => letters.len(),
        crate::redrive::Selection::Filter(_) => 0,
    }
}
