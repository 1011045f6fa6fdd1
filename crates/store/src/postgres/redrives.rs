//! Redrives: plans, runs and what becomes of their letters.
//!
//! Here is only how requests reach the writer and the readers; lists that are long are gone through a part at a time.
//! What locks a run or incidents has a transaction to itself; what moves one letter goes with others.

pub(super) mod doors;
mod freeze;
mod line;
mod open;
pub(super) mod outcomes;
mod refuse;
mod send;
mod shifts;
mod take;

use async_trait::async_trait;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::PostgresStore;
use crate::StoreError;
use crate::claim::ClaimFence;
use crate::engine::redrives::plan::drop_list;
use crate::redrive::{NewRedrive, Next, SendOutcome};
use crate::redrive_store::RedriveStore;
use freeze::Froze;

pub(super) use outcomes::Outcomes;
pub(super) use refuse::refuse_chunk;
pub(super) use send::{confirm_one, unclaim_one};
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
}
