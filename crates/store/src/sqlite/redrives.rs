//! Redrives: plans, runs and what becomes of their letters.
//!
//! Here is only how requests reach the writer and the readers; lists that are long are gone through a part at a time.

pub(super) mod counts;
pub(super) mod doors;
mod freeze;
mod line;
mod open;
pub(super) mod outcomes;
mod rows;
mod send;
mod take;
mod unsettled;

use async_trait::async_trait;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::{RECOUNT_MAX, SqliteStore, audit, incidents};
use crate::StoreError;
use crate::audit::{Act, Actor, AuditEntry};
use crate::claim::ClaimFence;
use crate::engine::redrives::plan::drop_list;
use crate::redrive::{
    ByPerson, Expired, LetterCause, NewRedrive, Next, PlanCounts, Proof, Proved, SendOutcome, Taken,
};
use crate::redrive_store::RedriveStore;
use crate::seam::{Tx, ready};
use freeze::Froze;

impl SqliteStore {
    /// Ends the leases of all claims, and says how many those were. For a process that has just opened the store and has
    /// sent nothing yet: it holds the folder, so whoever claimed them is gone.
    pub async fn end_leases(&self, at: Time) -> Result<usize, StoreError> {
        self.writer.write(1, move |write| unsettled::end_leases(write, at)).await
    }
}

pub(super) use rows::{end_waiting, refuse_chunk};

#[async_trait]
impl RedriveStore for SqliteStore {
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
                while self.writer.write(weight, move |write| ready(drop_list(write, id))).await? {}
            }
        }
        Ok(true)
    }

    async fn letter_cause(&self, letter: LetterId) -> Result<Option<LetterCause>, StoreError> {
        self.readers.read(move |conn| incidents::letter_cause(conn, letter)).await
    }

    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError> {
        self.catch_up().await?;
        self.readers.read_within(RECOUNT_MAX, move |conn| counts::counts(conn, id)).await
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

    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError> {
        self.writer.write(1, move |write| unsettled::prove(write, &proof)).await
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
