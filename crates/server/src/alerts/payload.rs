//! What a notification says: made once when it is queued, sent as it is to webhooks, and rendered for other receivers.

use std::collections::BTreeMap;

use lazaret_core::alert::{Alert, AlertKey, AlertState, Notification, Severity};
use lazaret_core::id::NotificationId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::config::AlertsConfig;
use crate::web::format::grouped;

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    pub version: u32,
    pub id: String,
    pub receiver: String,
    /// Later notifications of the same group have the same key.
    pub group: String,
    pub labels: BTreeMap<String, String>,
    /// `firing`, `resolved` or `test`.
    pub status: String,
    /// The highest among its alerts.
    pub severity: String,
    pub title: String,
    pub at: String,
    pub firing: usize,
    pub resolved: usize,
    /// Letters that its firing alerts count.
    pub letters: u64,
    pub alerts: Vec<AlertPayload>,
    /// Alerts that are not listed.
    pub more: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AlertPayload {
    pub id: String,
    pub status: String,
    pub rule: String,
    pub severity: String,
    pub labels: BTreeMap<String, String>,
    pub summary: String,
    pub value: f64,
    pub count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledged_by: Option<String>,
    pub next_step: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The newest letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_url: Option<String>,
}

impl Payload {
    pub fn new(
        id: NotificationId,
        notification: &Notification,
        alerts: &[Alert],
        config: &AlertsConfig,
        now: Time,
    ) -> Payload {
        let of = |keys: &[AlertKey]| -> Vec<&Alert> {
            keys.iter().filter_map(|key| alerts.iter().find(|alert| alert.key == *key)).collect()
        };
        let (firing, resolved) = (of(&notification.firing), of(&notification.resolved));
        let severity =
            firing.iter().chain(&resolved).map(|alert| alert.severity).max().unwrap_or(Severity::Info);
        let status = if firing.is_empty() { "resolved" } else { "firing" };
        let letters: u64 = firing.iter().map(|alert| alert.count).sum();
        let listed: Vec<&Alert> =
            firing.iter().chain(&resolved).copied().take(limits::NOTIFICATION_ALERTS_MAX).collect();
        let all = notification.firing.len() + notification.resolved.len();
        let title = title(notification, &listed, severity, letters);
        Payload {
            version: 1,
            id: id.to_string(),
            receiver: notification.receiver.clone(),
            group: notification.group.clone(),
            labels: notification.labels.iter().cloned().collect(),
            status: status.to_owned(),
            severity: severity.name().to_owned(),
            title,
            at: now.to_string(),
            firing: notification.firing.len(),
            resolved: notification.resolved.len(),
            letters,
            more: all.saturating_sub(listed.len()),
            alerts: listed.into_iter().map(|alert| AlertPayload::new(alert, config)).collect(),
            url: config.link("/alerts"),
        }
    }

    /// A notification that somebody asks for to see whether a receiver works.
    pub fn test(id: NotificationId, receiver: &str, by: &str, config: &AlertsConfig, now: Time) -> Payload {
        Payload {
            version: 1,
            id: id.to_string(),
            receiver: receiver.to_owned(),
            group: format!("{receiver}:test"),
            labels: BTreeMap::from([("rule".to_owned(), "test".to_owned())]),
            status: "test".to_owned(),
            severity: "info".to_owned(),
            title: format!("Test notification from Lazaret, sent by {by}"),
            at: now.to_string(),
            firing: 0,
            resolved: 0,
            letters: 0,
            alerts: Vec::new(),
            more: 0,
            url: config.link("/alerts"),
        }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can always be written")
    }

    /// The notification as a few lines of text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for alert in &self.alerts {
            text.push_str(&format!("[{} {}] {}", alert.severity, alert.status, alert.summary));
            if alert.count > 1 {
                text.push_str(&format!(" ({})", grouped(alert.count)));
            }
            text.push('\n');
            if alert.status == "firing" {
                text.push_str(&format!("  Next step: {}\n", alert.next_step));
            }
            for link in [&alert.url, &alert.sample_url].into_iter().flatten() {
                text.push_str(&format!("  {link}\n"));
            }
        }
        if self.more > 0 {
            text.push_str(&format!("and {} more\n", self.more));
        }
        if let Some(url) = &self.url {
            text.push_str(&format!("{url}\n"));
        }
        text
    }
}

fn title(notification: &Notification, listed: &[&Alert], severity: Severity, letters: u64) -> String {
    let (firing, resolved) = (notification.firing.len(), notification.resolved.len());
    match listed {
        [only] if firing == 1 => format!("[{}] {}", severity.name(), only.summary),
        [only] => format!("[resolved] {}", only.summary),
        _ => {
            let shared: Vec<&str> = notification.labels.iter().map(|(_, value)| value.as_str()).collect();
            let state = match (firing, resolved) {
                (0, resolved) => format!("{resolved} alerts resolved"),
                (firing, 0) => format!("{firing} alerts firing, {} letters", grouped(letters)),
                (firing, resolved) => format!("{firing} alerts firing, {resolved} resolved"),
            };
            format!("[{}] {}: {state}", severity.name(), shared.join(" "))
        }
    }
}

impl AlertPayload {
    fn new(alert: &Alert, config: &AlertsConfig) -> AlertPayload {
        let fires = alert.state == AlertState::Firing;
        let page = match (alert.label("page"), alert.incident) {
            (Some(page), _) => page.to_owned(),
            (None, Some(incident)) => format!("/incidents/{incident}"),
            (None, None) => "/alerts".to_owned(),
        };
        let labels = alert.labels().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        AlertPayload {
            id: alert.id().to_string(),
            status: if fires { "firing" } else { "resolved" }.to_owned(),
            rule: alert.rule.clone(),
            severity: alert.severity.name().to_owned(),
            labels: labels.filter(|(name, _)| name != "page").collect(),
            summary: alert.summary.clone(),
            value: alert.value,
            count: alert.count,
            started_at: alert.fired_at.map(|at| at.to_string()),
            resolved_at: alert.resolved_at.map(|at| at.to_string()),
            acknowledged_by: alert.ack.as_ref().map(|ack| ack.by.clone()),
            next_step: alert.key.kind.next_step().to_owned(),
            url: config.link(&page),
            sample: alert.sample.map(|letter| letter.to_string()),
            sample_url: alert.sample.and_then(|letter| config.link(&format!("/letters/{letter}"))),
        }
    }
}
