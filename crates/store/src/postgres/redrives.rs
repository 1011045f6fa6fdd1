//! Redrives: plans, runs and what becomes of their letters.
//!
//! Here is only how requests reach the writer and the readers; lists that are long are gone through a part at a time.
//! What locks a run or incidents has a transaction to itself; what moves one letter goes with others.

mod counts;
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
mod shifts;
mod take;
mod tend;
mod unsettled;

use async_trait::async_trait;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;

use super::{PostgresStore, RECOUNT_MAX, audit, incidents};
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

pub(super) use outcomes::Outcomes;
pub(super) use plan::drop_overdue;

#[async_trait]
impl RedriveStore for PostgresStore {
    async fn step_incident(
        &self,
        id: IncidentId,
        step: IncidentStep,
        by: Actor,
        at: Time,
    ) -> Result<IncidentStepped, StoreError> {
        self.writer
            .write_run(1, (id, step, by, at), |write, asked| {
                Box::pin(incidents::step(write, asked.0, &asked.1, &asked.2, asked.3))
            })
            .await
    }

    async fn open_redrive(&self, redrive: NewRedrive) -> Result<(), StoreError> {
        self.writer.write_run(1, redrive, |write, asked| Box::pin(open::open(write, asked))).await
    }

    async fn freeze_redrive(&self, id: RedriveId) -> Result<bool, StoreError> {
        let weight = limits::FREEZE_ROWS_PER_WRITE;
        let froze = self
            .writer
            .write_long(weight, id, |write, asked| Box::pin(freeze::freeze(write, *asked)))
            .await?;
        match froze {
            Froze::More => return Ok(false),
            Froze::Complete => {}
            Froze::TooLarge => {
                let drop = || {
                    self.writer
                        .write_long(weight, id, |write, asked| Box::pin(plan::drop_list(write, *asked)))
                };
                while drop().await? {}
            }
        }
        Ok(true)
    }

    async fn redrive_groups(&self, id: RedriveId) -> Result<Vec<Group>, StoreError> {
        self.readers.read(id, |conn, asked| Box::pin(plan::groups(conn, *asked))).await
    }

    async fn letter_cause(&self, letter: LetterId) -> Result<Option<LetterCause>, StoreError> {
        let mut causes = self
            .readers
            .read(letter, |conn, asked| {
                Box::pin(async move { incidents::letter_causes(conn, &[*asked]).await })
            })
            .await?;
        Ok(causes.remove(&letter))
    }

    async fn run_line(&self, asked: RunLine) -> Result<Vec<RunPoint>, StoreError> {
        self.readers.read(asked, |conn, asked| Box::pin(line::points(conn, asked))).await
    }

    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError> {
        self.readers
            .snapshot_within(RECOUNT_MAX, id, |conn, asked| Box::pin(counts::counts(conn, *asked)))
            .await
    }

    async fn plan_redrive(
        &self,
        id: RedriveId,
        verdicts: Vec<(u32, GroupVerdict)>,
        plan: String,
        at: Time,
    ) -> Result<Option<Redrive>, StoreError> {
        let judged = self.writer.write_long(1, (id, verdicts, at), |write, asked| {
            Box::pin(plan::judge(write, asked.0, &asked.1, asked.2))
        });
        match judged.await? {
            Judged::NoPlan => return Ok(None),
            Judged::AllGo => {}
            Judged::Some => {
                let (weight, mut after) = (limits::FREEZE_ROWS_PER_WRITE, Some(0));
                while let Some(ordinal) = after {
                    let refused = self.writer.write_long(weight, (id, ordinal), |write, asked| {
                        Box::pin(plan::refuse_chunk(write, asked.0, asked.1))
                    });
                    after = refused.await?;
                }
            }
        }
        self.writer
            .write_run(1, (id, plan, at), |write, asked| {
                Box::pin(plan::keep(write, asked.0, &asked.1, asked.2))
            })
            .await
    }

    async fn launch_redrive(&self, id: RedriveId, launch: Launch) -> Result<Launched, StoreError> {
        self.writer
            .write_run(1, (id, launch), |write, asked| Box::pin(launch::launch(write, asked.0, &asked.1)))
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
            .writer
            .write_run(1, (id, step, by, at), |write, asked| {
                Box::pin(launch::step(write, asked.0, &asked.1, &asked.2, asked.3))
            })
            .await?;
        match &stepped {
            Stepped::Done(redrive) if redrive.state == RunState::Cancelled => {}
            Stepped::Done(_) | Stepped::Refused(_) | Stepped::Shut(..) | Stepped::Unknown => {
                return Ok(stepped);
            }
        }
        let (weight, mut after) = (limits::FREEZE_ROWS_PER_WRITE, Some(0));
        while let Some(ordinal) = after {
            let wound = self.writer.write_run(weight, (id, ordinal, at), |write, asked| {
                Box::pin(tend::wind_up(write, asked.0, asked.1, asked.2))
            });
            after = wound.await?;
        }
        let ended = self.redrive(id).await?;
        Ok(ended.map_or(stepped, |redrive| Stepped::Done(Box::new(redrive))))
    }

    async fn take_letters(
        &self,
        id: RedriveId,
        limit: u32,
        lease_until: Time,
        at: Time,
    ) -> Result<Next, StoreError> {
        take::take_all(&self.writer, id, limit, lease_until, at).await
    }

    async fn begin_sending(
        &self,
        id: RedriveId,
        claims: Vec<ClaimFence>,
        at: Time,
    ) -> Result<Vec<LetterId>, StoreError> {
        match claims.as_slice() {
            [] => Ok(Vec::new()),
            [one] => {
                self.writer
                    .write_of(one.letter, (id, claims, at), |write, asked| {
                        Box::pin(send::begin(write, asked.0, &asked.1, asked.2))
                    })
                    .await
            }
            [_, ..] => {
                self.writer
                    .write_run(claims.len(), (id, claims, at), |write, asked| {
                        Box::pin(send::begin(write, asked.0, &asked.1, asked.2))
                    })
                    .await
            }
        }
    }

    async fn settle_letters(
        &self,
        id: RedriveId,
        outcomes: Vec<(ClaimFence, SendOutcome)>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError> {
        match outcomes.as_slice() {
            [] => Ok(Vec::new()),
            [(one, _)] => {
                self.writer
                    .write_of(one.letter, (id, outcomes, at), |write, asked| {
                        Box::pin(send::settle(write, asked.0, &asked.1, asked.2))
                    })
                    .await
            }
            [_, ..] => {
                self.writer
                    .write_run(outcomes.len(), (id, outcomes, at), |write, asked| {
                        Box::pin(send::settle(write, asked.0, &asked.1, asked.2))
                    })
                    .await
            }
        }
    }

    async fn expired_claims(&self, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError> {
        self.readers
            .read((at, limit), |conn, asked| Box::pin(unsettled::expired(conn, asked.0, asked.1)))
            .await
    }

    async fn renew_claim(
        &self,
        expired: Expired,
        lease_until: Time,
        at: Time,
    ) -> Result<Option<Taken>, StoreError> {
        self.writer
            .write_of(expired.taken.letter, (expired, lease_until, at), |write, asked| {
                Box::pin(unsettled::renew(write, &asked.0, asked.1, asked.2))
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
        self.writer
            .write_of(letter, (id, letter, word, by, at), |write, asked| {
                Box::pin(unsettled::settle_unknown(write, asked.0, asked.1, asked.2, &asked.3, asked.4))
            })
            .await
    }

    async fn tend_redrive(&self, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError> {
        let seen = self
            .readers
            .snapshot((id, at), |conn, asked| Box::pin(tend::look(conn, asked.0, asked.1)))
            .await?;
        match seen {
            None => return Ok(None),
            Some((redrive, false)) => return Ok(Some(redrive)),
            Some((_, true)) => {}
        }
        self.writer.write_run(1, (id, at), |write, asked| Box::pin(tend::tend(write, asked.0, asked.1))).await
    }

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>, StoreError> {
        self.readers.snapshot(id, |conn, asked| Box::pin(lists::one(conn, *asked))).await
    }

    async fn redrives(&self, query: RedriveQuery) -> Result<Vec<Redrive>, StoreError> {
        self.readers.snapshot(query, |conn, asked| Box::pin(lists::page(conn, asked))).await
    }

    async fn unfinished_redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError> {
        self.readers.snapshot(limit, |conn, asked| Box::pin(lists::unfinished(conn, *asked))).await
    }

    async fn redrive_letters(
        &self,
        id: RedriveId,
        outcome: Option<Outcome>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RedriveLetter>, StoreError> {
        self.readers
            .snapshot((id, outcome, after, limit), |conn, asked| {
                Box::pin(lists::letters(conn, asked.0, asked.1, asked.2, asked.3))
            })
            .await
    }

    async fn sent_letters(
        &self,
        id: RedriveId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SentLetter>, StoreError> {
        self.readers
            .read((id, after, limit), |conn, asked| Box::pin(lists::sent(conn, asked.0, asked.1, asked.2)))
            .await
    }

    async fn redrives_of(&self, letter: LetterId) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError> {
        self.readers.snapshot(letter, |conn, asked| Box::pin(lists::of_letter(conn, *asked))).await
    }

    async fn drop_plans(&self, opened_before: Time) -> Result<u64, StoreError> {
        plan::drop_overdue(&self.writer, Overdue::Unlaunched(opened_before)).await
    }

    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError> {
        self.writer
            .write_of(proof.letter, proof, |write, asked| Box::pin(unsettled::prove(write, asked)))
            .await
    }

    async fn add_edit(&self, letter: LetterId, edit: Edit) -> Result<Option<u32>, StoreError> {
        let packed = pack(&edit.body);
        self.writer
            .write_of(letter, (letter, edit, packed), |write, asked| {
                Box::pin(edits::add(write, asked.0, &asked.1, &asked.2))
            })
            .await
    }

    async fn edits(&self, letter: LetterId) -> Result<Vec<Edit>, StoreError> {
        self.readers.read(letter, |conn, asked| Box::pin(edits::all(conn, *asked))).await
    }

    async fn note_act(&self, act: Act, by: Actor, at: Time) -> Result<(), StoreError> {
        self.writer
            .write(1, (act, by, at), |write, asked| {
                Box::pin(async move { write.add_act(&asked.0, &asked.1, asked.2) })
            })
            .await
    }

    async fn unlinked_audit(&self, limit: usize) -> Result<(Option<[u8; 32]>, Vec<AuditEntry>), StoreError> {
        self.readers.snapshot(limit, |conn, asked| Box::pin(audit::unlinked(conn, *asked))).await
    }

    async fn link_audit(&self, links: Vec<(u64, [u8; 32])>) -> Result<bool, StoreError> {
        self.writer.write_run(1, links, |write, asked| Box::pin(audit::link(write, asked))).await
    }

    async fn audit_links(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(AuditEntry, Option<[u8; 32]>)>, StoreError> {
        self.readers.read((after, limit), |conn, asked| Box::pin(audit::links(conn, asked.0, asked.1))).await
    }
}
