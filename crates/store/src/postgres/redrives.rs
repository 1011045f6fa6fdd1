//! Redrives: plans, runs and what becomes of their letters.
//!
//! Here is only how requests reach the writer and the readers; lists that are long are gone through a part at a time.
//! What locks a run or incidents has a transaction to itself; what moves one letter goes with others.

mod counts;
pub(super) mod doors;
mod freeze;
mod line;
mod open;
pub(super) mod outcomes;
mod refuse;
mod send;
mod shifts;
mod take;
mod unsettled;

use async_trait::async_trait;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{PostgresStore, RECOUNT_MAX, audit, incidents};
use crate::StoreError;
use crate::audit::{Act, Actor, AuditEntry};
use crate::claim::ClaimFence;
use crate::engine::redrives::plan::drop_list;
use crate::redrive::{
    ByPerson, Expired, LetterCause, NewRedrive, Next, PlanCounts, Proof, Proved, SendOutcome, Taken,
};
use crate::redrive_store::RedriveStore;
use crate::seam::Tx;
use freeze::Froze;

pub(super) use outcomes::Outcomes;
pub(super) use refuse::refuse_chunk;
pub(super) use shifts::end_waiting;

#[async_trait]
impl RedriveStore for PostgresStore {
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
                let drop =
                    || self.writer.write_long(weight, id, |write, asked| Box::pin(drop_list(write, *asked)));
                while drop().await? {}
            }
        }
        Ok(true)
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

    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError> {
        self.readers
            .snapshot_within(RECOUNT_MAX, id, |conn, asked| Box::pin(counts::counts(conn, *asked)))
            .await
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

    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError> {
        self.writer
            .write_of(proof.letter, proof, |write, asked| Box::pin(unsettled::prove(write, asked)))
            .await
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
