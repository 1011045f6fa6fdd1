//! Delivery: notifications are claimed under a lease, sent, and retried with backoff. One that cannot be delivered becomes a
//! letter of the source `lazaret`.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use lazaret_core::alert::{LOG_RECEIVER, OWN_SOURCE};
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::id::NotificationId;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::alert_store::{NewNotification, NotificationOutcome, StoredNotification};
use reqwest::Url;

use super::payload::Payload;
use super::{receivers, smtp};
use crate::app::App;
use crate::capture;
use crate::config::{Credential, DestinationConfig, DestinationUrl, ReceiverConfig, ReceiverKind, Secret};
use crate::destination::{HttpDestination, Sent, Tls};
use crate::kill;

/// The type of letters that notifications become.
pub(super) const OWN_TYPE: &str = "lazaret.notification";

/// A file with a secret is a line.
const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// The machine's authorities are read once.
static TLS: OnceLock<Tls> = OnceLock::new();

pub(super) fn tls() -> &'static Tls {
    TLS.get_or_init(Tls::of_the_machine)
}

/// Delivers what is due; returns true if there may be more.
pub async fn deliver(app: &Arc<App>) -> Result<bool, StoreError> {
    let now = app.clock.now();
    let lease_until = now.plus_ms(limits::NOTIFICATION_LEASE_MS);
    let claimed = app.store.claim_notifications(now, lease_until, limits::NOTIFICATIONS_PER_CLAIM).await?;
    let full = claimed.len() == limits::NOTIFICATIONS_PER_CLAIM;
    let sending = claimed.into_iter().map(|one| {
        let app = Arc::clone(app);
        tokio::spawn(async move { deliver_one(&app, one).await })
    });
    for task in sending.collect::<Vec<_>>() {
        match task.await {
            Ok(result) => result?,
            Err(error) => tracing::error!(%error, "a delivery ended unexpectedly"),
        }
    }
    Ok(full)
}

async fn deliver_one(app: &App, one: StoredNotification) -> Result<(), StoreError> {
    let (id, attempt, receiver) = (one.id, one.attempts, one.receiver.clone());
    kill::reach(app, "notification_claimed");
    let sent = send(app, &one).await;
    kill::reach(app, "notification_sent");
    let now = app.clock.now();
    let outcome = match sent {
        Ok(()) => NotificationOutcome::Delivered,
        Err(error) if attempt >= limits::NOTIFICATION_ATTEMPTS_MAX => {
            tracing::error!(receiver, %error, "notification {id} to {receiver} failed for the last time: {error}");
            dead_letter(app, &one, &error, now).await?;
            NotificationOutcome::Failed { error }
        }
        Err(error) => {
            tracing::warn!(receiver, attempt, %error, "notification {id} to {receiver} failed: {error}");
            NotificationOutcome::Again { at: now.plus_ms(backoff_ms(attempt)), error }
        }
    };
    let word = match &outcome {
        NotificationOutcome::Delivered => "delivered",
        NotificationOutcome::Again { .. } => "retried",
        NotificationOutcome::Failed { .. } => "failed",
    };
    app.metrics.notification(&receiver, word);
    app.store.settle_notification(id, attempt, outcome, now).await?;
    Ok(())
}

/// How long the next attempt waits: doubled each time, up to a bound.
fn backoff_ms(attempt: u32) -> i64 {
    let doubled = limits::NOTIFICATION_BACKOFF_MS.saturating_mul(1 << attempt.saturating_sub(1).min(20));
    doubled.min(limits::NOTIFICATION_BACKOFF_MS_MAX)
}

/// Sends one notification once. Says why it could not, without secrets.
async fn send(app: &App, one: &StoredNotification) -> Result<(), String> {
    let payload: Payload = serde_json::from_str(&one.payload)
        .map_err(|error| format!("the notification is damaged: {error}"))?;
    let config = match app.config.alerts.receivers.get(&one.receiver) {
        Some(config) => config,
        None if one.receiver == LOG_RECEIVER => {
            log(&payload);
            return Ok(());
        }
        None => return Err("there is no receiver of this name any more".to_owned()),
    };
    match config.kind {
        ReceiverKind::Log => {
            log(&payload);
            Ok(())
        }
        ReceiverKind::Smtp => {
            let password = config.key.as_ref().map(Credential::read).transpose()?;
            let sent = smtp::send(config, password.as_deref(), &payload).await;
            sent.map_err(|error| scrubbed(&error, password.as_deref()))
        }
        ReceiverKind::Webhook
        | ReceiverKind::Alertmanager
        | ReceiverKind::Slack
        | ReceiverKind::Teams
        | ReceiverKind::PagerDuty
        | ReceiverKind::Opsgenie => post(app, config, &payload, &one.payload).await,
    }
}

async fn post(app: &App, config: &ReceiverConfig, payload: &Payload, stored: &str) -> Result<(), String> {
    let url = config.url.as_ref().ok_or("url is missing")?.read()?;
    let url = DestinationUrl::parse(url.trim())?;
    let key = config.key.as_ref().map(Credential::read).transpose()?;
    let secret = config.secret.as_ref().map(Credential::read).transpose()?;
    let destination = DestinationConfig {
        secret: secret.map(Secret::unchecked),
        timeout_ms: limits::NOTIFICATION_MS_MAX,
        allow_private: config.allow_private,
        ..DestinationConfig::new(url.clone())
    };
    let http = HttpDestination::new(destination, tls(), app.clock.clone())?;
    let request = receivers::request(config, url.secret().clone(), key.as_deref(), payload, stored)?;
    match http.post_to(request.url, request.headers, &request.body).await {
        Sent::Delivered { .. } | Sent::Taken { .. } => Ok(()),
        Sent::Refused(refusal) => {
            Err(scrubbed(&hide_path(&refusal.error.message, url.secret()), key.as_deref()))
        }
        Sent::Unknown(why) | Sent::Unsent(why) | Sent::Unfit(why) => {
            Err(scrubbed(&hide_path(&why, url.secret()), key.as_deref()))
        }
    }
}

/// The path of a webhook is often all that keeps strangers from using it.
fn hide_path(text: &str, url: &Url) -> String {
    match url.path() {
        "" | "/" => text.to_owned(),
        path => text.replace(path, "/***"),
    }
}

fn scrubbed(text: &str, secret: Option<&str>) -> String {
    match secret.filter(|secret| secret.len() >= 4) {
        Some(secret) => text.replace(secret, "***"),
        None => text.to_owned(),
    }
}

impl Credential {
    /// The value, from its file if it is kept in one.
    pub(crate) fn read(&self) -> Result<String, String> {
        match self {
            Credential::Value(secret) => Ok(secret.reveal().to_owned()),
            Credential::File(path) => read_file(path),
        }
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// One line for each alert, as it is in the notification.
fn log(payload: &Payload) {
    for alert in &payload.alerts {
        let (rule, status, count) = (alert.rule.as_str(), alert.status.as_str(), alert.count);
        let (severity, summary) = (alert.severity.as_str(), alert.summary.as_str());
        match severity {
            "info" => tracing::info!(rule, status, severity, count, "alert {status}: {summary}"),
            _ => tracing::warn!(rule, status, severity, count, "alert {status}: {summary}"),
        }
    }
    if payload.more > 0 {
        tracing::warn!(group = payload.group, "and {} more alerts", payload.more);
    }
    if payload.status == "test" {
        tracing::info!("{}", payload.title);
    }
}

/// Keeps a notification that could not be delivered as a letter. Its id makes it one letter, however often this is done.
async fn dead_letter(app: &App, one: &StoredNotification, error: &str, now: Time) -> Result<(), StoreError> {
    let failure = LetterError {
        error_type: "NotificationFailed".to_owned(),
        message: error.to_owned(),
        ..LetterError::default()
    };
    let captured = Captured {
        source: OWN_SOURCE.to_owned(),
        message_id: one.id.to_string(),
        letter_type: OWN_TYPE.to_owned(),
        queue: OWN_SOURCE.to_owned(),
        subscriber: Some(one.receiver.clone()),
        tenant: None,
        aggregate: None,
        schema_version: None,
        envelope: Envelope::seal(Bytes::from(one.payload.clone()), "application/json", Vec::new()),
        attempts: vec![Attempt { at: Some(now), duration_ms: None, error: failure.clone(), extra: None }],
        error: failure,
        retry_count: one.attempts,
        max_retries: Some(limits::NOTIFICATION_ATTEMPTS_MAX),
        died_at: Some(now),
        mark: None,
        word: SourceWord::Silent,
        reported: None,
    };
    capture::capture(app, vec![captured]).await?;
    Ok(())
}

/// Queues a test notification to one receiver, or to all of them. Returns their ids.
pub(crate) async fn queue_tests(
    app: &App,
    receivers: &[String],
    by: &str,
) -> Result<Vec<NotificationId>, StoreError> {
    let now = app.clock.now();
    let mut ids = Vec::new();
    for receiver in receivers {
        let id = NotificationId::mint(now, app.entropy.take()?);
        let payload = Payload::test(id, receiver, by, &app.config.alerts, now).to_json();
        app.store.add_notification(NewNotification { id, receiver: receiver.clone(), payload }, now).await?;
        ids.push(id);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_spread_over_hours() {
        let waits: Vec<i64> = (1..limits::NOTIFICATION_ATTEMPTS_MAX).map(backoff_ms).collect();
        assert_eq!(waits[..4], [5_000, 10_000, 20_000, 40_000]);
        assert_eq!(waits.last(), Some(&1_800_000));
        assert!((3_600_000..2 * 3_600_000).contains(&waits.iter().sum::<i64>()), "{waits:?}");
    }

    #[test]
    fn a_webhook_s_path_is_not_repeated() {
        let url: Url = "https://hooks.example.org/services/T0/B1/secret".parse().unwrap();
        let told = hide_path("https://hooks.example.org/services/T0/B1/secret answered 404", &url);
        assert_eq!(told, "https://hooks.example.org/*** answered 404");
    }
}
