//! Alerts at work: facts are gathered from kept counters, rules evaluated in core, notifications delivered.
//!
//! What is known of alerts is in the store. An evaluation and the notifications it causes are one commit, fenced against
//! other instances, so a crash between firing and delivery loses nothing and two instances notify once.

pub(crate) mod checks;
pub(crate) mod deliver;
mod facts;
mod levels;
pub mod payload;
mod receivers;
mod smtp;

use std::sync::{Arc, Mutex, PoisonError};

use lazaret_core::alert::{Alert, Facts, evaluate, plan};
use lazaret_core::id::NotificationId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::alert_store::{AlertBatch, AlertInputs, AlertProgress, NewNotification};

use crate::app::App;
use payload::Payload;

pub use deliver::deliver;

/// When this instance measured last; what it measured is in the store.
#[derive(Debug, Default)]
pub struct Measured(Mutex<Times>);

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    levels: Option<Time>,
    slow: Option<Time>,
    pruned: Option<Time>,
}

/// What is measured in an evaluation, besides events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Due {
    levels: bool,
    slow: bool,
    prune: bool,
}

/// How often the ledger, the age of backlogs and health checks are measured, and old alerts forgotten.
const SLOW_MS: i64 = 60_000;
const PRUNE_MS: i64 = 3_600_000;

impl Measured {
    fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Times::default();
    }

    fn due(&self, now: Time) -> Due {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_due = |last: fn(&mut Times) -> &mut Option<Time>, every_ms: i64| {
            let last = last(&mut times);
            let is_due = last.is_none_or(|last| now.since(last) >= every_ms || now < last);
            if is_due {
                *last = Some(now);
            }
            is_due
        };
        Due {
            levels: is_due(|times| &mut times.levels, limits::ALERT_LEVELS_MS),
            slow: is_due(|times| &mut times.slow, SLOW_MS),
            prune: is_due(|times| &mut times.pruned, PRUNE_MS),
        }
    }
}

/// Evaluates all rules once, if this instance leads. Returns true if more events wait.
pub async fn tick(app: &Arc<App>) -> Result<bool, StoreError> {
    if !app.config.alerts.enabled || !app.store.lead().await? {
        return Ok(false);
    }
    let now = app.clock.now();
    let due = app.measured.due(now);
    let inputs = app.store.alert_inputs(now.plus_ms(-limits::ALERT_RESOLVED_SEEN_MS), now).await?;
    let newest = app.store.events_kept().await?.newest;
    let Some(progress) = inputs.progress else {
        return begin(app, newest, now).await;
    };
    let mut facts = Facts::default();
    let next = facts::from_events(app, &progress, newest, now, &mut facts).await?;
    if due.levels {
        levels::measure(app, due.slow, now, &mut facts).await?;
    }
    apply(app, &inputs, facts, next, now).await?;
    if due.prune {
        app.store.prune_alerts(now.plus_ms(-limits::ALERT_RESOLVED_KEPT_MS)).await?;
    }
    Ok(next.events < newest)
}

/// The first evaluation of a store: what happened before is no news.
async fn begin(app: &App, newest: u64, now: Time) -> Result<bool, StoreError> {
    let progress = AlertProgress { revision: 1, events: newest, letters: newest };
    app.store.apply_alerts(empty_batch(progress, now)).await?;
    Ok(false)
}

fn empty_batch(progress: AlertProgress, at: Time) -> AlertBatch {
    AlertBatch {
        progress,
        alerts: Vec::new(),
        groups: Vec::new(),
        ended_groups: Vec::new(),
        notifications: Vec::new(),
        moved: Vec::new(),
        at,
    }
}

/// Evaluates facts and stores what they change, if nobody else did so meanwhile.
async fn apply(
    app: &App,
    inputs: &AlertInputs,
    facts: Facts,
    next: AlertProgress,
    now: Time,
) -> Result<(), StoreError> {
    let evaluation = evaluate(&app.config.alerts.rules, &inputs.alerts, &facts, now);
    let alerts = merged(&inputs.alerts, &evaluation.changed);
    let planned = plan(&app.config.alerts.routes, &alerts, &inputs.silences, &inputs.groups, now);
    let mut notifications = Vec::new();
    for notification in &planned.notifications {
        let id = NotificationId::mint(now, app.entropy.take()?);
        let payload = Payload::new(id, notification, &alerts, &app.config.alerts, now);
        notifications.push(NewNotification {
            id,
            receiver: notification.receiver.clone(),
            payload: payload.to_json(),
        });
    }
    let was = inputs.progress.unwrap_or_default();
    let idle = evaluation.changed.is_empty() && planned.groups.is_empty() && planned.ended.is_empty();
    if idle && (next.events, next.letters) == (was.events, was.letters) {
        return Ok(());
    }
    let fired = evaluation.fired.iter().map(|key| ("alert.fired", key.id()));
    let resolved = evaluation.resolved.iter().map(|key| ("alert.resolved", key.id()));
    let batch = AlertBatch {
        progress: AlertProgress { revision: was.revision + 1, ..next },
        moved: fired.chain(resolved).collect(),
        alerts: evaluation.changed,
        groups: planned.groups,
        ended_groups: planned.ended,
        notifications,
        at: now,
    };
    let (firing, resolved) = (evaluation.fired.len(), evaluation.resolved.len());
    if app.store.apply_alerts(batch).await? {
        app.metrics.alerts_moved(firing as u64, resolved as u64);
    } else {
        // What was measured is measured again at the next tick.
        app.measured.forget();
        tracing::debug!("alerts were changed by somebody else meanwhile; evaluating again");
    }
    Ok(())
}

fn merged(known: &[Alert], changed: &[Alert]) -> Vec<Alert> {
    let mut alerts: Vec<Alert> =
        known.iter().filter(|alert| !changed.iter().any(|new| new.key == alert.key)).cloned().collect();
    alerts.extend(changed.iter().cloned());
    alerts
}
