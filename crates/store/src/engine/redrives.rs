//! Redrives: plans, runs and what people see of them. Batches of letters are taken and settled by the stores themselves.
//!
//! Lists that are long are gone through a part at a time. What locks a run or incidents has a transaction to itself.

mod counts;
mod edits;
mod launch;
mod line;
mod lists;
pub(crate) mod plan;
pub(crate) mod row;
mod tend;
mod unsettled;

use async_trait::async_trait;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;
use crate::engine::incidents::letter_cause;
use crate::engine::numbers::RECOUNT_MAX;
use crate::packing::pack;
use crate::redrive::{
    ByPerson, Edit, Expired, Group, GroupVerdict, Launch, Launched, LetterCause, Overdue, PlanCounts, Proof,
    Proved, Redrive, RedriveLetter, RedriveQuery, RunLine, RunPoint, RunStep, SentLetter, Stepped, Taken,
};
use crate::redrive_store::Redrives;
use crate::seam::{Backend, Lane, Tx, View};
use plan::Judged;

#[cfg(feature = "testing")]
pub(super) use edits::EDITS;

#[async_trait]
impl<S: Backend> Redrives for S {
    async fn letter_cause(&self, letter: LetterId) -> Result<Option<LetterCause>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(letter_cause(conn, *letter))).await
    }

    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError> {
        self.read(View::Within(RECOUNT_MAX), id, |conn, id| Box::pin(counts::counts(conn, *id))).await
    }

    async fn expired_claims(&self, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError> {
        self.read(View::Newest, (at, limit), |conn, (at, limit)| {
            Box::pin(unsettled::expired(conn, *at, *limit))
        })
        .await
    }

    async fn renew_claim(
        &self,
        expired: Expired,
        lease_until: Time,
        at: Time,
    ) -> Result<Option<Taken>, StoreError> {
        let lane = Lane::Letter(expired.taken.letter);
        self.write(lane, (expired, lease_until, at), |tx, (expired, until, at)| {
            Box::pin(unsettled::renew(tx, expired, *until, *at))
        })
        .await
    }

    async fn settle_unknown(
        &self,
        id: RedriveId,
        letter: LetterId,
        word: ByPerson,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.write(Lane::Letter(letter), (id, letter, word, by, at), |tx, (id, letter, word, by, at)| {
            Box::pin(unsettled::settle_unknown(tx, *id, *letter, *word, by, *at))
        })
        .await
    }

    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError> {
        self.write(Lane::Letter(proof.letter), proof, |tx, proof| Box::pin(unsettled::prove(tx, proof))).await
    }

    async fn redrive_groups(&self, id: RedriveId) -> Result<Vec<Group>, StoreError> {
        self.read(View::Newest, id, |conn, id| Box::pin(plan::groups(conn, *id))).await
    }

    async fn run_line(&self, asked: RunLine) -> Result<Vec<RunPoint>, StoreError> {
        self.read(View::Newest, asked, |conn, asked| Box::pin(line::points(conn, asked))).await
    }

    async fn plan_redrive(
        &self,
        id: RedriveId,
        verdicts: Vec<(u32, GroupVerdict)>,
        plan: String,
        at: Time,
    ) -> Result<Option<Redrive>, StoreError> {
        let judged = self.write(Lane::Long(1), (id, verdicts, at), |tx, (id, verdicts, at)| {
            Box::pin(plan::judge(tx, *id, verdicts, *at))
        });
        match judged.await? {
            Judged::NoPlan => return Ok(None),
            Judged::AllGo => {}
            Judged::Some => {
                let (lane, mut after) = (Lane::Long(limits::FREEZE_ROWS_PER_WRITE), Some(0));
                while let Some(ordinal) = after {
                    let refused = self.write(lane, (id, ordinal), |tx, (id, ordinal)| {
                        Box::pin(tx.refuse_chunk(*id, *ordinal))
                    });
                    after = refused.await?;
                }
            }
        }
        self.write(Lane::Run(1), (id, plan, at), |tx, (id, plan, at)| {
            Box::pin(plan::keep(tx, *id, plan, *at))
        })
        .await
    }

    async fn launch_redrive(&self, id: RedriveId, launch: Launch) -> Result<Launched, StoreError> {
        self.write(Lane::Run(1), (id, launch), |tx, (id, launch)| Box::pin(launch::launch(tx, *id, launch)))
            .await
    }

    async fn step_redrive(
        &self,
        id: RedriveId,
        step: RunStep,
        by: Actor,
        at: Time,
    ) -> Result<Stepped, StoreError> {
        let stepped = self
            .write(Lane::Run(1), (id, step, by, at), |tx, (id, step, by, at)| {
                Box::pin(launch::step(tx, *id, step, by, *at))
            })
            .await?;
        match &stepped {
            Stepped::Done(redrive) if redrive.state == RunState::Cancelled => {}
            Stepped::Done(_) | Stepped::Refused(_) | Stepped::Shut(..) | Stepped::Unknown => {
                return Ok(stepped);
            }
        }
        // What waits of a cancelled run ends a part at a time: other writes come in between.
        let (lane, mut after) = (Lane::Run(limits::FREEZE_ROWS_PER_WRITE), 0);
        loop {
            let tended = self.write(lane, (id, after, at), |tx, (id, after, at)| {
                Box::pin(tend::tend(tx, *id, *after, *at))
            });
            match tended.await? {
                None => return Ok(stepped),
                Some(tended) => match tended.more {
                    Some(ordinal) => after = ordinal,
                    None => return Ok(Stepped::Done(Box::new(tended.redrive))),
                },
            }
        }
    }

    async fn tend_redrive(&self, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError> {
        let seen = self
            .read(View::Snapshot, (id, at), |conn, (id, at)| Box::pin(tend::look(conn, *id, *at)))
            .await?;
        match seen {
            None => return Ok(None),
            Some((redrive, false)) => return Ok(Some(redrive)),
            Some((_, true)) => {}
        }
        let tended =
            self.write(Lane::Run(1), (id, at), |tx, (id, at)| Box::pin(tend::tend(tx, *id, 0, *at))).await?;
        Ok(tended.map(|tended| tended.redrive))
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
        self.read(View::Snapshot, id, |conn, id| Box::pin(lists::one(conn, *id))).await
    }

    async fn redrives(&self, query: RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
        self.read(View::Snapshot, query, |conn, query| Box::pin(lists::page(conn, query))).await
    }

    async fn unfinished_redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError> {
        self.read(View::Snapshot, limit, |conn, limit| Box::pin(lists::unfinished(conn, *limit))).await
    }

    async fn redrive_letters(
        &self,
        id: RedriveId,
        outcome: Option<Outcome>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RedriveLetter>, StoreError> {
        self.read(View::Snapshot, (id, outcome, after, limit), |conn, (id, outcome, after, limit)| {
            Box::pin(lists::letters(conn, *id, *outcome, *after, *limit))
        })
        .await
    }

    async fn sent_letters(
        &self,
        id: RedriveId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SentLetter>, StoreError> {
        self.read(View::Newest, (id, after, limit), |conn, (id, after, limit)| {
            Box::pin(lists::sent(conn, *id, *after, *limit))
        })
        .await
    }

    async fn redrives_of(&self, letter: LetterId) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
        self.read(View::Snapshot, letter, |conn, letter| Box::pin(lists::of_letter(conn, *letter))).await
    }

    async fn drop_plans(&self, opened_before: Time) -> Result<u64, StoreError> {
        plan::drop_overdue(self, Overdue::Unlaunched(opened_before)).await
    }

    async fn add_edit(&self, letter: LetterId, edit: Edit) -> Result<Option<u32>, StoreError> {
        let packed = pack(&edit.body);
        self.write(Lane::Letter(letter), (letter, edit, packed), |tx, (letter, edit, packed)| {
            Box::pin(edits::add(tx, *letter, edit, packed))
        })
        .await
    }

    async fn edits(&self, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
        self.read(View::Newest, letter, |conn, letter| Box::pin(edits::all(conn, *letter))).await
    }
}
