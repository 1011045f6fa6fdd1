//! What each kind of receiver is sent: an address, headers and a body, made from the payload.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use serde_json::{Value, json};

use super::payload::{AlertPayload, Payload};
use crate::config::{ReceiverConfig, ReceiverKind, WebhookFormat};

/// A request to a receiver.
#[derive(Debug)]
pub(super) struct Request {
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Makes the request for a payload. `url` and `key` are the receiver's, read where they are kept.
pub(super) fn request(
    config: &ReceiverConfig,
    url: Url,
    key: Option<&str>,
    payload: &Payload,
    stored: &str,
) -> Result<Request, String> {
    let mut headers = HeaderMap::new();
    let mut json_type = "application/json";
    let (url, body) = match config.kind {
        ReceiverKind::Webhook => match config.format {
            WebhookFormat::Json => (url, stored.to_owned()),
            WebhookFormat::CloudEvents => {
                json_type = "application/cloudevents+json";
                (url, cloud_event(payload).to_string())
            }
        },
        ReceiverKind::Alertmanager => (joined(&url, "api/v2/alerts")?, alertmanager(payload).to_string()),
        ReceiverKind::Slack => (url, slack(payload).to_string()),
        ReceiverKind::Teams => (url, teams(payload).to_string()),
        ReceiverKind::PagerDuty => (url, pagerduty(payload, key.unwrap_or_default()).to_string()),
        ReceiverKind::Opsgenie => {
            let value = HeaderValue::from_str(&format!("GenieKey {}", key.unwrap_or_default()));
            let mut value = value.map_err(|_| "the key cannot be sent in a header".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
            opsgenie(&url, payload)?
        }
        ReceiverKind::Log | ReceiverKind::Smtp => return Err("is not reached over HTTP".to_owned()),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(json_type));
    // A receiver that knows the key takes a notification once, however often it is sent.
    for (name, value) in [("idempotency-key", &payload.id), ("lazaret-notification-id", &payload.id)] {
        let value = HeaderValue::from_str(value).map_err(|_| "the id is not plain".to_owned())?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(Request { url, headers, body: Bytes::from(body) })
}

fn joined(url: &Url, path: &str) -> Result<Url, String> {
    let mut base = url.clone();
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.join(path).map_err(|_| "the address cannot be extended".to_owned())
}

/// CloudEvents 1.0, structured JSON.
fn cloud_event(payload: &Payload) -> Value {
    json!({
        "specversion": "1.0",
        "id": payload.id,
        "source": "/lazaret/alerts",
        "type": format!("dev.lazaret.alert.{}", payload.status),
        "subject": payload.group,
        "time": payload.at,
        "datacontenttype": "application/json",
        "data": payload,
    })
}

/// Alertmanager ends an alert by itself when it is not told again, so it is told until when it holds.
fn alertmanager(payload: &Payload) -> Value {
    let alert = |alert: &AlertPayload| {
        let mut labels = serde_json::Map::new();
        for (name, value) in &alert.labels {
            labels.insert(name.clone(), value.as_str().into());
        }
        labels.insert("alertname".to_owned(), format!("Lazaret_{}", alert.rule).into());
        labels.insert("lazaret_alert".to_owned(), alert.id.as_str().into());
        let mut entry = json!({
            "labels": labels,
            "annotations": {
                "summary": alert.summary,
                "next_step": alert.next_step,
                "count": alert.count.to_string(),
            },
        });
        if let Some(at) = &alert.started_at {
            entry["startsAt"] = at.as_str().into();
        }
        // What is not told again within a day is over: groups that fire are told again every few hours.
        entry["endsAt"] = match (&alert.resolved_at, lazaret_core::time::Time::parse(&payload.at)) {
            (Some(at), _) => at.as_str().into(),
            (None, Ok(now)) => now.plus_ms(86_400_000).to_string().into(),
            (None, Err(_)) => Value::Null,
        };
        if let Some(url) = &alert.url {
            entry["generatorURL"] = url.as_str().into();
        }
        entry
    };
    let alerts: Vec<Value> = payload.alerts.iter().map(alert).collect();
    if alerts.is_empty() {
        return json!([{
            "labels": {"alertname": "Lazaret_test", "severity": payload.severity},
            "annotations": {"summary": payload.title},
        }]);
    }
    Value::Array(alerts)
}

fn slack(payload: &Payload) -> Value {
    let color = match (payload.status.as_str(), payload.severity.as_str()) {
        ("resolved", _) => "good",
        (_, "critical") => "danger",
        (_, "warning") => "warning",
        _ => "#439FE0",
    };
    // `<`, `>` and `&` are control characters there.
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    json!({
        "text": escaped(&payload.title),
        "attachments": [{"color": color, "text": escaped(&payload.text()), "fallback": escaped(&payload.title)}],
    })
}

/// An Adaptive Card, as workflows of Teams take it.
fn teams(payload: &Payload) -> Value {
    let color = match (payload.status.as_str(), payload.severity.as_str()) {
        ("resolved", _) => "Good",
        (_, "critical") => "Attention",
        (_, "warning") => "Warning",
        _ => "Accent",
    };
    let mut body = vec![json!({
        "type": "TextBlock", "text": payload.title, "weight": "Bolder", "size": "Medium", "wrap": true, "color": color,
    })];
    for line in payload.text().lines() {
        body.push(json!({"type": "TextBlock", "text": line, "wrap": true, "spacing": "Small"}));
    }
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}

/// Events API v2: one incident there for each group here.
fn pagerduty(payload: &Payload, routing_key: &str) -> Value {
    let resolves = payload.status == "resolved";
    let mut event = json!({
        "routing_key": routing_key,
        "event_action": if resolves { "resolve" } else { "trigger" },
        "dedup_key": format!("lazaret:{}", payload.group),
    });
    if !resolves {
        event["payload"] = json!({
            "summary": cut(&payload.title, 1_024),
            "source": "lazaret",
            "severity": payload.severity,
            "timestamp": payload.at,
            "custom_details": {"text": payload.text(), "firing": payload.firing, "letters": payload.letters},
        });
        if let Some(url) = &payload.url {
            event["links"] = json!([{"href": url, "text": "Alerts in Lazaret"}]);
        }
    }
    event
}

fn opsgenie(url: &Url, payload: &Payload) -> Result<(Url, String), String> {
    let alias = format!("lazaret:{}", payload.group);
    if payload.status == "resolved" {
        let mut close = joined(url, "v2/alerts/")?;
        close
            .path_segments_mut()
            .map_err(|()| "the address cannot be extended".to_owned())?
            .pop_if_empty()
            .push(&alias)
            .push("close");
        close.query_pairs_mut().append_pair("identifierType", "alias");
        return Ok((close, json!({"source": "lazaret", "note": payload.title}).to_string()));
    }
    let priority = match payload.severity.as_str() {
        "critical" => "P1",
        "warning" => "P3",
        _ => "P5",
    };
    let body = json!({
        "message": cut(&payload.title, 130),
        "alias": cut(&alias, 512),
        "description": cut(&payload.text(), 15_000),
        "priority": priority,
        "source": "lazaret",
        "details": payload.labels,
    });
    Ok((joined(url, "v2/alerts")?, body.to_string()))
}

fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
