//! The entry points of alerts.

use async_trait::async_trait;
use lazaret_core::alert::Alert;
use lazaret_core::id::{AlertId, NotificationId, SilenceId};
use lazaret_core::time::Time;

use super::{notifications, silences};
use crate::StoreError;
use crate::alert_store::{
    AlertBatch, AlertInputs, AlertStore, EventCount, NewLetters, NewNotification, NotificationOutcome,
    SilenceRecord, StoredNotification,
};
use crate::audit::Actor;
use crate::seam::{Backend, Lane, View};

#[async_trait]
impl<S: Backend> AlertStore for S {
    async fn alert_inputs(&self, resolved_after: Time, now: Time) -> Result<AlertInputs, StoreError> {
        self.read(View::Snapshot, (resolved_after, now), |conn, (after, now)| {
            Box::pin(super::inputs(conn, *after, *now))
        })
        .await
    }

    async fn count_events(
        &self,
        after: u64,
        until: u64,
        kinds: Vec<&'static str>,
    ) -> Result<Vec<EventCount>, StoreError> {
        self.read(View::Newest, (after, until, kinds), |conn, (after, until, kinds)| {
            Box::pin(super::count_events(conn, *after, *until, kinds))
        })
        .await
    }

    async fn new_letters(
        &self,
        after: u64,
        until: u64,
        kinds: Vec<&'static str>,
        since: Time,
    ) -> Result<Vec<NewLetters>, StoreError> {
        self.read(View::Newest, (after, until, kinds, since), |conn, (after, until, kinds, since)| {
            Box::pin(super::new_letters(conn, *after, *until, kinds, *since))
        })
        .await
    }

    async fn apply_alerts(&self, batch: AlertBatch) -> Result<bool, StoreError> {
        self.write(Lane::Long(1), batch, |tx, batch| Box::pin(super::apply(tx, batch))).await
    }

    async fn alerts(&self, limit: usize) -> Result<Vec<Alert>, StoreError> {
        self.read(View::Snapshot, limit, |conn, limit| Box::pin(super::list(conn, *limit))).await
    }

    async fn acknowledge_alert(
        &self,
        id: AlertId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<Option<Alert>, StoreError> {
        self.write(Lane::Quick(1), (id, reason, by, at), |tx, (id, reason, by, at)| {
            Box::pin(super::acknowledge(tx, *id, reason.as_deref(), by, *at))
        })
        .await
    }

    async fn add_silence(&self, silence: SilenceRecord, by: Actor) -> Result<bool, StoreError> {
        self.write(Lane::Quick(1), (silence, by), |tx, (silence, by)| {
            Box::pin(silences::add(tx, silence, by))
        })
        .await
    }

    async fn end_silence(&self, id: SilenceId, by: Actor, at: Time) -> Result<bool, StoreError> {
        self.write(Lane::Quick(1), (id, by, at), |tx, (id, by, at)| Box::pin(silences::end(tx, *id, by, *at)))
            .await
    }

    async fn silences(&self, now: Time) -> Result<Vec<SilenceRecord>, StoreError> {
        self.read(View::Newest, now, |conn, now| Box::pin(silences::list(conn, *now))).await
    }

    async fn add_notification(&self, new: NewNotification, at: Time) -> Result<(), StoreError> {
        self.write(Lane::Quick(1), (new, at), |tx, (new, at)| Box::pin(notifications::add(tx, new, *at)))
            .await
    }

    async fn claim_notifications(
        &self,
        now: Time,
        lease_until: Time,
        limit: usize,
    ) -> Result<Vec<StoredNotification>, StoreError> {
        if !self.read(View::Newest, now, |conn, now| Box::pin(notifications::are_due(conn, *now))).await? {
            return Ok(Vec::new());
        }
        self.write(Lane::Quick(1), (now, lease_until, limit), |tx, (now, lease_until, limit)| {
            Box::pin(notifications::claim(tx, *now, *lease_until, *limit))
        })
        .await
    }

    async fn settle_notification(
        &self,
        id: NotificationId,
        attempt: u32,
        outcome: NotificationOutcome,
        at: Time,
    ) -> Result<bool, StoreError> {
        self.write(Lane::Quick(1), (id, attempt, outcome, at), |tx, (id, attempt, outcome, at)| {
            Box::pin(notifications::settle(tx, *id, *attempt, outcome, *at))
        })
        .await
    }

    async fn notification(&self, id: NotificationId) -> Result<Option<StoredNotification>, StoreError> {
        self.read(View::Point, id, |conn, id| Box::pin(notifications::one(conn, *id))).await
    }

    async fn notifications(&self, limit: usize) -> Result<Vec<StoredNotification>, StoreError> {
        self.read(View::Newest, limit, |conn, limit| Box::pin(notifications::newest(conn, *limit))).await
    }

    async fn prune_alerts(&self, before: Time) -> Result<u64, StoreError> {
        self.write(Lane::Long(1), before, |tx, before| Box::pin(super::prune(tx, *before))).await
    }
}
