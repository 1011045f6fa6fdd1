//! Alerts, their notifications and silences: what is kept of them. One method is one commit.

use async_trait::async_trait;
use lazaret_core::alert::{Alert, Group, Matchers, Silence};
use lazaret_core::id::{AlertId, IncidentId, LetterId, NotificationId, SilenceId};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// How far the evaluation has come. Whoever applies a batch has to have read the newest revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AlertProgress {
    pub revision: u64,
    /// The last event that was counted.
    pub events: u64,
    /// The last event whose letter was looked at.
    pub letters: u64,
}

/// What an evaluation begins with.
#[derive(Clone, Debug, Default)]
pub struct AlertInputs {
    /// Nothing before the first evaluation of this store.
    pub progress: Option<AlertProgress>,
    pub alerts: Vec<Alert>,
    pub groups: Vec<Group>,
    pub silences: Vec<Silence>,
}

/// Events of one kind and incident, counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventCount {
    pub kind: String,
    pub incident: Option<IncidentId>,
    pub times: u64,
    /// The letter of the newest of them.
    pub newest: Option<SampleLetter>,
}

/// What is shown of a letter in an alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleLetter {
    pub id: LetterId,
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    pub error_type: String,
    pub error_message: String,
    pub tenant: Option<String>,
}

/// New letters of one order key or tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewLetters {
    pub aggregate: Option<String>,
    pub tenant: Option<String>,
    pub source: String,
    pub times: u64,
    /// Letters of the order key since the time asked for, as far as they are counted.
    pub repeated: u64,
}

/// What one evaluation changes; applied whole or not at all.
#[derive(Clone, Debug)]
pub struct AlertBatch {
    /// As it is after this batch; applied only if the stored revision is one less.
    pub progress: AlertProgress,
    pub alerts: Vec<Alert>,
    pub groups: Vec<Group>,
    pub ended_groups: Vec<String>,
    pub notifications: Vec<NewNotification>,
    /// Alerts that began to fire or were resolved, for the events.
    pub moved: Vec<(&'static str, AlertId)>,
    pub at: Time,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNotification {
    pub id: NotificationId,
    pub receiver: String,
    /// The JSON that the receivers' messages are made of.
    pub payload: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NotificationState {
    Waiting,
    Delivered,
    /// Dead-lettered after its last attempt.
    Failed,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredNotification {
    pub id: NotificationId,
    pub receiver: String,
    pub payload: String,
    pub state: NotificationState,
    /// Begun so far.
    pub attempts: u32,
    pub created_at: Time,
    pub next_at: Time,
    pub ended_at: Option<Time>,
    /// Why the last attempt failed.
    pub error: Option<String>,
}

/// What became of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotificationOutcome {
    Delivered,
    Again { at: Time, error: String },
    Failed { error: String },
}

/// A silence with who made it and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilenceRecord {
    pub id: SilenceId,
    pub matchers: Matchers,
    pub reason: String,
    pub created_by: String,
    pub created_at: Time,
    pub starts_at: Time,
    pub ends_at: Time,
}

/// What a store does for alerts. Every `Store` is one.
#[async_trait]
pub trait AlertStore: Send + Sync {
    /// Loads what an evaluation needs: alerts that are not resolved since before `resolved_after`, groups and silences.
    async fn alert_inputs(&self, resolved_after: Time, now: Time) -> Result<AlertInputs, StoreError>;

    /// Counts events of these kinds between two positions, the first excluded, by kind and incident.
    async fn count_events(
        &self,
        after: u64,
        until: u64,
        kinds: Vec<&'static str>,
    ) -> Result<Vec<EventCount>, StoreError>;

    /// Counts letters that events of these kinds tell of between two positions, by order key and tenant.
    async fn new_letters(
        &self,
        after: u64,
        until: u64,
        kinds: Vec<&'static str>,
        since: Time,
    ) -> Result<Vec<NewLetters>, StoreError>;

    /// Applies an evaluation; false if another one was applied since its inputs were loaded.
    async fn apply_alerts(&self, batch: AlertBatch) -> Result<bool, StoreError>;

    /// Alerts, those that fire first, then the newest. At most `limit`.
    async fn alerts(&self, limit: usize) -> Result<Vec<Alert>, StoreError>;

    /// Acknowledges a firing alert; none if there is no such alert that fires.
    async fn acknowledge_alert(
        &self,
        id: AlertId,
        reason: Option<String>,
        by: Actor,
        at: Time,
    ) -> Result<Option<Alert>, StoreError>;

    /// Adds a silence; false if there are too many.
    async fn add_silence(&self, silence: SilenceRecord, by: Actor) -> Result<bool, StoreError>;

    /// Ends a silence now; false if none of that id is in force or to come.
    async fn end_silence(&self, id: SilenceId, by: Actor, at: Time) -> Result<bool, StoreError>;

    /// Silences in force and to come, the one that ends first first.
    async fn silences(&self, now: Time) -> Result<Vec<SilenceRecord>, StoreError>;

    /// Queues a notification by hand.
    async fn add_notification(&self, new: NewNotification, at: Time) -> Result<(), StoreError>;

    /// Claims notifications that are due, until their lease ends.
    async fn claim_notifications(
        &self,
        now: Time,
        lease_until: Time,
        limit: usize,
    ) -> Result<Vec<StoredNotification>, StoreError>;

    /// Writes down what became of an attempt; false if the claim was lost meanwhile.
    async fn settle_notification(
        &self,
        id: NotificationId,
        attempt: u32,
        outcome: NotificationOutcome,
        at: Time,
    ) -> Result<bool, StoreError>;

    async fn notification(&self, id: NotificationId) -> Result<Option<StoredNotification>, StoreError>;

    /// The newest notifications.
    async fn notifications(&self, limit: usize) -> Result<Vec<StoredNotification>, StoreError>;

    /// Forgets resolved alerts, ended notifications and silences of before a time; says how many.
    async fn prune_alerts(&self, before: Time) -> Result<u64, StoreError>;
}

impl NotificationState {
    pub const ALL: [NotificationState; 3] =
        [NotificationState::Waiting, NotificationState::Delivered, NotificationState::Failed];

    pub const fn name(self) -> &'static str {
        match self {
            NotificationState::Waiting => "waiting",
            NotificationState::Delivered => "delivered",
            NotificationState::Failed => "failed",
        }
    }

    pub fn parse(text: &str) -> Option<NotificationState> {
        NotificationState::ALL.into_iter().find(|state| state.name() == text)
    }
}
