//! The account looked at from outside, for health and doctor: each finding with what to do. Changes nothing.

use lazaret_core::limits;
use serde_json::Value;

use super::JetStream;
use super::api::{ConsumerInfo, Retention, StreamInfo, text};
use super::config::WatchedConsumer;
use super::topology::{self, duration};
use crate::standing::locked;
use crate::{ChangeKind, Declare, Finding, SourceError};

/// Everything that could be wrong, the connection alone if nothing else can be looked at.
pub(super) async fn findings(jetstream: &JetStream) -> Vec<Finding> {
    let server = match jetstream.link.client().await {
        Ok(client) => client.server_info(),
        Err(error) => return vec![Finding::error(error.to_string(), CONNECTION_HINT)],
    };
    let mut findings =
        vec![Finding::ok(format!("connected to {}, version {}", jetstream.link.address(), server.version))];
    findings.extend(version(&server.version));
    match account(jetstream).await {
        Ok(found) => findings.push(found),
        Err(error) => {
            findings
                .push(Finding::error(error.to_string(), "enable JetStream for the account of the source"));
            findings.extend(denied(jetstream));
            return findings;
        }
    }
    for looked in [topology(jetstream).await, consumers(jetstream).await, capacity(jetstream).await] {
        match looked {
            Ok(found) => findings.extend(found),
            Err(error) => findings.push(Finding::error(
                error.to_string(),
                "permit the source's user $JS.API.> and $JS.ACK.>, or see the server's log",
            )),
        }
    }
    findings.extend(jetstream.suspected().iter().map(super::Suspected::finding));
    let forgotten = locked(&jetstream.waiting).forgotten;
    if forgotten > 0 {
        findings.push(Finding::warning(
            format!("{forgotten} exhausted messages were not deleted because other consumers lag"),
            "let those consumers catch up, then purge what is left by sequence",
        ));
    }
    findings.extend(denied(jetstream));
    findings
}

const CONNECTION_HINT: &str = "start the server, or repair servers, auth and tls of the source";

fn version(version: &str) -> Vec<Finding> {
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) < (2, 9) => vec![Finding::error(
            format!("server version {version} is older than 2.9"),
            "upgrade the server: 2.9 is the oldest that is tested",
        )],
        (Some(2), Some(9)) => vec![
            Finding::warning(
                format!(
                    "server version {version} takes `+TERM <reason>` for no acknowledgement at all and delivers again"
                ),
                "terminate without a reason (plain +TERM), or upgrade to 2.11 or later",
            ),
            Finding::warning(
                format!("server version {version} moves a consumer's ack floor over exhausted messages"),
                "keep the advisory stream: verification looks there before it trusts the floor",
            ),
        ],
        _ => Vec::new(),
    }
}

async fn account(jetstream: &JetStream) -> Result<Finding, SourceError> {
    let info = jetstream.link.request("asking for JetStream", "INFO", &Value::Null).await?;
    let streams = info.get("streams").and_then(Value::as_u64).unwrap_or(0);
    Ok(Finding::ok(format!("JetStream is enabled, {streams} streams")))
}

/// Our own streams and consumers, and what differs from the configuration.
async fn topology(jetstream: &JetStream) -> Result<Vec<Finding>, SourceError> {
    const APPLY: &str = "run lazaret jetstream apply, with --dry-run first to see what it changes";
    let changes = topology::declare(jetstream, Declare::DryRun).await?;
    let mut findings: Vec<Finding> = changes
        .iter()
        .map(|change| match &change.kind {
            ChangeKind::Create => Finding::error(format!("{} is missing", change.subject), APPLY),
            ChangeKind::Update => {
                Finding::warning(format!("{} differs: {}", change.subject, change.details.join("; ")), APPLY)
            }
            ChangeKind::Blocked(why) => Finding::error(
                format!("{} cannot be declared: {why}", change.subject),
                "resolve the conflict by hand",
            ),
        })
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok("streams and consumers are as configured"));
    }
    Ok(findings)
}

/// The watched consumers and their streams, and consumers of those streams that nobody watches.
async fn consumers(jetstream: &JetStream) -> Result<Vec<Finding>, SourceError> {
    let config = &jetstream.config;
    if config.consumers.is_empty() {
        return Ok(vec![Finding::warning(
            "no consumer is configured: retry policies are not looked at",
            "name the critical consumers under consumers",
        )]);
    }
    let mut findings = Vec::new();
    let mut streams: Vec<&String> = config.consumers.iter().map(|it| &it.stream).collect();
    streams.sort();
    streams.dedup();
    for name in streams {
        let Some(stream) = jetstream.link.stream(name).await? else {
            findings.push(Finding::error(
                format!("stream {name} does not exist"),
                "create it, or repair the name under consumers",
            ));
            continue;
        };
        findings.extend(retention(jetstream, name, &stream));
        for consumer in jetstream.link.consumers(name).await? {
            let watched = config.watched(name, consumer.name());
            findings.extend(retry_policy(name, &consumer, watched));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok("every watched consumer gives up after some deliveries, with backoff"));
    }
    Ok(findings)
}

fn retry_policy(stream: &str, consumer: &ConsumerInfo, watched: Option<&WatchedConsumer>) -> Vec<Finding> {
    let name = format!("{stream}.{}", consumer.name());
    let is_explicit = text(consumer.config(), "ack_policy") != "none";
    let mut findings = Vec::new();
    if is_explicit && consumer.max_deliver().is_none() {
        findings.push(Finding::warning(
            format!("consumer {name} has no max_deliver: a poison message is delivered for ever"),
            "add it under consumers and run lazaret jetstream apply",
        ));
    } else if is_explicit && consumer.backoff_ms().is_empty() && watched.is_some() {
        findings.push(Finding::warning(
            format!("consumer {name} has no backoff: it retries at a constant pace"),
            "run lazaret jetstream apply",
        ));
    }
    findings
}

/// Limits by which a stream drops messages that are exhausted and not captured yet.
fn retention(jetstream: &JetStream, name: &str, stream: &StreamInfo) -> Vec<Finding> {
    let config = stream.config();
    let limit = |key: &str| config.get(key).and_then(Value::as_i64).filter(|limit| *limit > 0);
    let mut findings = Vec::new();
    let max_age_ms = limit("max_age").map(|ns| ns.unsigned_abs() / 1_000_000);
    let total_ms = jetstream.config.consumers.iter().filter(|it| it.stream == name);
    let total_ms = total_ms.map(|it| it.backoff_ms.iter().sum::<u64>()).max().unwrap_or(0);
    // A day for the bridge to be down.
    let needed_ms = total_ms.saturating_add(86_400_000);
    if let Some(age) = max_age_ms.filter(|age| *age < needed_ms) {
        findings.push(Finding::warning(
            format!(
                "stream {name} drops messages after {}: exhausted ones may be gone before they are copied",
                duration(age)
            ),
            format!("raise its max_age to at least {}", duration(needed_ms)),
        ));
    }
    for key in ["max_msgs", "max_bytes", "max_msgs_per_subject"] {
        if limit(key).is_some() && text(config, "discard") != "new" {
            findings.push(Finding::warning(
                format!("stream {name} drops its oldest messages at {key}: exhausted ones may be gone before they are copied"),
                "raise the limit, or let the stream refuse new messages (discard new)",
            ));
        }
    }
    if stream.retention() != Retention::Limits && !jetstream.config.delete_exhausted {
        findings.push(Finding::warning(
            format!("stream {name} keeps exhausted messages for ever and delete_exhausted is off"),
            "switch delete_exhausted on, or delete them by sequence",
        ));
    }
    if stream.duplicate_window_ms() < limits::CLAIM_LEASE_MS {
        findings.push(Finding::warning(
            format!("stream {name} recognises duplicates for {} only", duration(stream.duplicate_window_ms())),
            "raise its duplicate_window to 2m: a redrive whose outcome is unknown can then be repeated safely",
        ));
    }
    findings
}

/// How full the dead-letter stream is.
async fn capacity(jetstream: &JetStream) -> Result<Vec<Finding>, SourceError> {
    let config = &jetstream.config;
    let Some(dlq) = jetstream.link.stream(&config.dlq_stream).await? else { return Ok(Vec::new()) };
    let mut findings =
        vec![Finding::ok(format!("{} messages in {}", dlq.state("messages"), config.dlq_stream))];
    if let Some(bridge) = jetstream.link.consumer(&config.advisory_stream, &config.bridge_durable()).await? {
        let behind = bridge.number("num_pending");
        findings.push(match behind > 1_000 {
            false => Finding::ok(format!("{behind} advisories wait for the bridge")),
            true => Finding::warning(
                format!("{behind} advisories wait for the bridge"),
                "see that an instance runs the bridge, and what it logs",
            ),
        });
    }
    Ok(findings)
}

fn denied(jetstream: &JetStream) -> Vec<Finding> {
    let denied = jetstream.link.standing().denied;
    let hint = "permit it to the source's user at the server";
    denied.into_iter().map(|why| Finding::error(why, hint)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_of() {
        use crate::Level;
        let levels = |text: &str| version(text).iter().map(|it| it.level).collect::<Vec<_>>();
        assert_eq!(levels("2.8.4"), [Level::Error]);
        assert_eq!(levels("2.9.10"), [Level::Warning, Level::Warning]);
        assert_eq!(levels("2.15.1-beta.1"), []);
        assert_eq!(levels("unknown"), []);
    }
}
