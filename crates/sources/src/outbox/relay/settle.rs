//! What became of claimed rows, written down: processed, due again later, or dead (RULE-040-001, 002, 010 to 013).

use std::time::Duration;

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ClassRules;
use lazaret_core::letter::listed;
use lazaret_core::limits;
use lazaret_core::retry::{RetryPolicies, Verdict};
use lazaret_core::time::Time;

use super::claim::Claimed;
use super::{Relay, Worked};
use crate::SourceError;
use crate::backoff::unit;
use crate::outbox::row::written;
use crate::outbox::statements::RelayStatements;
use crate::sink::Sunk;

/// A claimed row and what became of it.
pub(super) struct Settled {
    pub row: Claimed,
    pub sunk: Sunk,
    /// When the delivery began.
    pub at: Time,
    pub took: Duration,
}

impl Settled {
    /// What is kept of a delivery that failed.
    fn attempt(&self, error: &LetterError) -> Attempt {
        Attempt {
            at: Some(self.at),
            duration_ms: u64::try_from(self.took.as_millis()).ok(),
            error: error.clone(),
            extra: Some(format!("{{\"attempt\":{}}}", self.row.delivery.attempt)),
        }
    }
}

/// Rows of one kind, column by column as the statements take them.
#[derive(Default)]
struct Rows {
    keys: Vec<String>,
    claims: Vec<String>,
    counts: Vec<i64>,
    errors: Vec<String>,
    delays: Vec<i64>,
}

impl Rows {
    fn push(&mut self, row: &Claimed) {
        self.keys.push(row.delivery.idempotency_key.clone());
        self.claims.push(row.claim.clone());
    }
}

/// Writes down what became of some rows. Each kind is one statement; those that fail leave their rows claimed.
pub(super) async fn settle(
    relay: &Relay,
    statements: &RelayStatements,
    settled: Vec<Settled>,
) -> Result<Worked, SourceError> {
    const DOING: &str = "writing down what became of rows";
    let chars_max = relay.outbox.table().await?.error_chars_max;
    let [mut delivered, mut retried, mut died, mut released] = [(); 4].map(|()| Rows::default());
    let all = settled.len() as u64;
    let (mut tries, mut tried_before) = (Vec::new(), Vec::new());
    for settled in &settled {
        let Settled { row, sunk, .. } = settled;
        match sunk {
            Sunk::Delivered => {
                delivered.push(row);
                if row.failed_before > 0 {
                    tried_before.push(row.delivery.idempotency_key.clone());
                }
            }
            Sunk::Unsent => {
                released.push(row);
                released.delays.push(limits::RETRY_DELAY_MS_MIN.cast_signed());
            }
            Sunk::Failed(error) => {
                tries.push((row.delivery.idempotency_key.clone(), settled.attempt(error)));
                let (policies, source) = (&relay.config.retry, &relay.outbox.config.name);
                let verdict = decide(policies, &relay.classes, source, row, error);
                let rows = match verdict {
                    Verdict::RetryAfter { delay_ms } => {
                        retried.delays.push(i64::try_from(delay_ms).unwrap_or(i64::MAX));
                        &mut retried
                    }
                    Verdict::DeadLetter => &mut died,
                };
                rows.push(row);
                rows.counts.push(i64::from(row.failed_before) + 1);
                rows.errors.push(fitting(written(error), chars_max));
            }
        }
    }
    // Before the rows: one that dies is captured at once, with the tries that are kept by then.
    keep_tries(relay, tries).await;
    let db = &relay.outbox.db;
    let mut worked = Worked::default();
    if !delivered.keys.is_empty() {
        let rows = db.query(DOING, &statements.delivered, &[&delivered.keys, &delivered.claims]).await?;
        worked.delivered = rows.len() as u64;
    }
    if !retried.keys.is_empty() {
        let Rows { keys, claims, counts, errors, delays } = &retried;
        let rows = db.query(DOING, &statements.retried, &[keys, claims, counts, errors, delays]).await?;
        worked.retried = rows.len() as u64;
    }
    if !died.keys.is_empty() {
        let Rows { keys, claims, counts, errors, .. } = &died;
        let rows = db.query(DOING, &statements.died, &[keys, claims, counts, errors]).await?;
        worked.died = rows.len() as u64;
    }
    if !released.keys.is_empty() {
        let Rows { keys, claims, delays, .. } = &released;
        let rows = db.query(DOING, &statements.released, &[keys, claims, delays]).await?;
        worked.released = rows.len() as u64;
    }
    forget_tries(relay, tried_before).await;
    let written_down = worked.delivered + worked.retried + worked.died + worked.released;
    worked.lost = all.saturating_sub(written_down);
    Ok(worked)
}

/// Keeps the errors of failed deliveries. Rows go on without: the count and the last error are in the row.
async fn keep_tries(relay: &Relay, tries: Vec<(String, Attempt)>) {
    let (Some(log), false) = (&relay.tries, tries.is_empty()) else { return };
    let (source, count) = (&relay.outbox.config.name, tries.len());
    if let Err(error) = log.keep(tries).await {
        tracing::warn!(source, %error, "the errors of {count} failed deliveries of {source} were not kept");
    }
}

/// Forgets the failed deliveries of rows that were delivered; those that stay become too old one day.
async fn forget_tries(relay: &Relay, rows: Vec<String>) {
    let (Some(log), false) = (&relay.tries, rows.is_empty()) else { return };
    let source = &relay.outbox.config.name;
    if let Err(error) = log.forget(rows).await {
        tracing::debug!(source, %error, "failed deliveries of {source} were not forgotten");
    }
}

/// What to do with a row that failed (RULE-040-002).
fn decide(
    policies: &RetryPolicies,
    classes: &ClassRules,
    source: &str,
    row: &Claimed,
    error: &LetterError,
) -> Verdict {
    let class = classes.classify(source, error);
    policies.decide(class, row.max_retries, row.failed_before.saturating_add(1), unit())
}

/// An error as its column can hold it.
fn fitting(error: String, chars_max: Option<usize>) -> String {
    let mut error = listed(&error, limits::RELAY_ERROR_BYTES_MAX);
    if let Some((end, _)) = chars_max.and_then(|max| error.char_indices().nth(max)) {
        error.truncate(end);
    }
    error
}

#[cfg(test)]
mod tests {
    use lazaret_core::retry::Preset;

    use super::*;
    use crate::sink::Delivery;

    fn row(failed_before: u32, max_retries: Option<u32>) -> Claimed {
        let delivery = Delivery {
            idempotency_key: "7".to_owned(),
            event_type: "OrderCreated".to_owned(),
            aggregate_type: None,
            aggregate_id: None,
            schema_version: None,
            tenant: None,
            attempt: failed_before + 1,
            created_at: None,
            content_type: "application/json",
            body: bytes::Bytes::new(),
        };
        Claimed { delivery, failed_before, max_retries, claim: String::new() }
    }

    /// The delays between the tries of a row that always fails with this HTTP status.
    fn delays(preset: Preset, max_retries: Option<u32>, code: &str) -> Vec<u64> {
        let error = LetterError {
            error_type: "HttpAnswer".to_owned(),
            code: Some(code.to_owned()),
            message: format!("x answered {code}"),
            ..LetterError::default()
        };
        let mut delays = Vec::new();
        for failed_before in 0.. {
            let row = row(failed_before, max_retries);
            match decide(&preset.policies(), &ClassRules::default(), "orders", &row, &error) {
                Verdict::RetryAfter { delay_ms } => delays.push(delay_ms),
                Verdict::DeadLetter => break,
            }
        }
        delays
    }

    #[test]
    fn rule_040_002_the_kind_of_failure_and_the_rows_own_limit_say_how_often() {
        let tries = |max_retries, code| delays(Preset::Outbox, max_retries, code).len() + 1;
        assert_eq!(tries(None, "503"), 5);
        assert_eq!(tries(Some(3), "503"), 3);
        assert_eq!(tries(Some(9), "503"), 9);
        assert_eq!(tries(Some(0), "503"), 1);
        // Validation and business failures.
        assert_eq!(tries(None, "422"), 3);
        assert_eq!(tries(Some(9), "422"), 3);
        assert_eq!(tries(Some(2), "422"), 2);
    }

    #[test]
    fn rule_040_012_a_row_with_many_tries_waits_for_the_cap_and_no_longer() {
        for (preset, cap_ms) in [(Preset::Outbox, 30_000), (Preset::ExternalApi, 300_000)] {
            let delays = delays(preset, Some(15), "503");
            assert_eq!(delays.len(), 14);
            assert!(delays.iter().all(|delay_ms| *delay_ms <= cap_ms), "{preset} {delays:?}");
            let at_cap = delays.iter().filter(|delay_ms| **delay_ms >= cap_ms * 9 / 10).count();
            assert!(at_cap >= 4, "{preset} {delays:?}");
        }
    }

    #[test]
    fn an_error_is_cut_to_its_column() {
        assert_eq!(fitting("Grüße\0!".to_owned(), Some(4)), "Grüß");
        assert_eq!(fitting("a\0b".to_owned(), None), "a\u{fffd}b");
        assert_eq!(fitting("x".repeat(10_000), None).len(), limits::RELAY_ERROR_BYTES_MAX);
    }
}
