//! The broker looked at from outside, for health and doctor: each finding with what to do. Changes nothing.

use super::RabbitMq;
use super::config::DeadLetterQueue;
use super::topology::look_at;
use crate::destination::Destination as _;
use crate::{Finding, SourceError};

const APPLY: &str = "run lazaret rabbitmq apply, with --dry-run first to see what it changes";
const CONNECTION_HINT: &str = "start the broker, or repair servers, vhost, auth and tls of the source";

/// Everything that could be wrong, the connection alone if nothing else can be looked at.
pub(super) async fn findings(rabbitmq: &RabbitMq) -> Vec<Finding> {
    for link in [&rabbitmq.consume_link, &rabbitmq.publish_link] {
        if let Err(error) = link.connection().await {
            return vec![Finding::error(error.to_string(), CONNECTION_HINT)];
        }
    }
    let mut findings = vec![Finding::ok(format!("connected to {}", rabbitmq.address()))];
    findings.extend(capture(rabbitmq));
    for queue in &rabbitmq.config.queues {
        findings.extend(told(dead_letter_queue(rabbitmq, queue).await));
    }
    if rabbitmq.config.queues.is_empty() {
        let what = "no dead-letter queue is captured";
        findings
            .push(Finding::warning(what, "add dead_letter_queues; lazaret rabbitmq discover suggests some"));
    }
    findings.extend(told(receipts_queue(rabbitmq).await));
    findings.extend(rabbitmq.topology_findings().await);
    findings
}

fn told(found: Result<Vec<Finding>, SourceError>) -> Vec<Finding> {
    found.unwrap_or_else(|error| {
        vec![Finding::error(
            error.to_string(),
            "permit the source's user to read it, or see the broker's log",
        )]
    })
}

/// What the capture last failed on, while it does.
fn capture(rabbitmq: &RabbitMq) -> Option<Finding> {
    let standing = rabbitmq.consume_link.state();
    let error = standing.last_error.filter(|_| !standing.connected)?;
    Some(Finding::error(
        format!("nothing is captured: {error}"),
        "repair what the error names; a message that cannot be read is taken out with the management UI (Get messages)",
    ))
}

async fn dead_letter_queue(
    rabbitmq: &RabbitMq,
    queue: &DeadLetterQueue,
) -> Result<Vec<Finding>, SourceError> {
    let DeadLetterQueue { queue, original_queue, .. } = queue;
    let Some(there) = look_at(&rabbitmq.consume_link, queue).await? else {
        return Ok(vec![Finding::error(format!("dead-letter queue {queue} is missing"), APPLY)]);
    };
    let mut findings = vec![Finding::ok(format!("{} messages wait in {queue}", there.message_count()))];
    if let Some(original) = original_queue {
        findings.push(match look_at(&rabbitmq.consume_link, original).await? {
            None => Finding::error(
                format!("queue {original}, the original queue of {queue}, does not exist"),
                "create it, or repair original_queue",
            ),
            Some(there) if there.consumer_count() == 0 => Finding::warning(
                format!("queue {original} has no consumers: redriven letters wait there"),
                "start its service",
            ),
            Some(there) => Finding::ok(format!("{} consumers of queue {original}", there.consumer_count())),
        });
    }
    Ok(findings)
}

async fn receipts_queue(rabbitmq: &RabbitMq) -> Result<Vec<Finding>, SourceError> {
    let queue = &rabbitmq.config.receipts_queue;
    Ok(vec![match look_at(&rabbitmq.consume_link, queue).await? {
        Some(there) => Finding::ok(format!("{} receipts wait in {queue}", there.message_count())),
        None => Finding::error(
            format!("queue {queue} is missing: receipts of workers are dropped, and success is only assumed"),
            APPLY,
        ),
    }])
}
