//! What became of claimed rows, written down: processed, due again later, or dead (RULE-040-001, 002, 010 to 013).

use lazaret_core::attempt::LetterError;
use lazaret_core::class::ClassRules;
use lazaret_core::letter::listed;
use lazaret_core::limits;
use lazaret_core::retry::{RetryPolicy, Verdict};

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
    for Settled { row, sunk } in settled {
        match sunk {
            Sunk::Delivered => delivered.push(&row),
            Sunk::Unsent => {
                released.push(&row);
                released.delays.push(limits::RETRY_DELAY_MS_MIN.cast_signed());
            }
            Sunk::Failed(error) => {
                let verdict = decide(&relay.policy, &relay.classes, &relay.outbox.config.name, &row, &error);
                let rows = match verdict {
                    Verdict::RetryAfter { delay_ms } => {
                        retried.delays.push(i64::try_from(delay_ms).unwrap_or(i64::MAX));
                        &mut retried
                    }
                    Verdict::DeadLetter(_) => &mut died,
                };
                rows.push(&row);
                rows.counts.push(i64::from(row.failed_before) + 1);
                rows.errors.push(fitting(written(&error), chars_max));
            }
        }
    }
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
    let written_down = worked.delivered + worked.retried + worked.died + worked.released;
    worked.lost = all.saturating_sub(written_down);
    Ok(worked)
}

/// What to do with a row that failed. Its own limit counts where it is the smaller one.
fn decide(
    policy: &RetryPolicy,
    classes: &ClassRules,
    source: &str,
    row: &Claimed,
    error: &LetterError,
) -> Verdict {
    let own = row.max_retries.map_or(u32::MAX, |own| own.max(1));
    let policy = RetryPolicy {
        attempts: policy.attempts.min(own),
        business_attempts: policy.business_attempts.map(|attempts| attempts.min(own)),
        ..*policy
    };
    let class = classes.classify(source, error);
    policy.decide(class, row.failed_before.saturating_add(1), unit())
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
    use lazaret_core::retry::{GivenUp, Preset};

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

    fn verdicts(preset: Preset, max_retries: Option<u32>, code: &str) -> (Vec<u64>, GivenUp) {
        let error = LetterError {
            error_type: "HttpAnswer".to_owned(),
            code: Some(code.to_owned()),
            message: format!("x answered {code}"),
            ..LetterError::default()
        };
        let mut delays = Vec::new();
        for failed_before in 0.. {
            let row = row(failed_before, max_retries);
            match decide(&preset.policy(), &ClassRules::default(), "orders", &row, &error) {
                Verdict::RetryAfter { delay_ms } => delays.push(delay_ms),
                Verdict::DeadLetter(why) => return (delays, why),
            }
        }
        unreachable!("every policy gives up")
    }

    #[test]
    fn rule_040_002_the_kind_of_failure_and_the_rows_own_limit_say_how_often() {
        let tries = |max_retries, code| verdicts(Preset::Outbox, max_retries, code).0.len() + 1;
        assert_eq!(tries(None, "503"), 5);
        assert_eq!(tries(Some(3), "503"), 3);
        assert_eq!(tries(Some(9), "503"), 5);
        assert_eq!(tries(Some(0), "503"), 1);
        // Trying again cannot help against these.
        assert_eq!(tries(None, "422"), 1);
        let (_, why) = verdicts(Preset::Outbox, None, "503");
        assert_eq!(why, GivenUp::Exhausted { attempts: 5 });
    }

    #[test]
    fn an_error_is_cut_to_its_column() {
        assert_eq!(fitting("Grüße\0!".to_owned(), Some(4)), "Grüß");
        assert_eq!(fitting("a\0b".to_owned(), None), "a\u{fffd}b");
        assert_eq!(fitting("x".repeat(10_000), None).len(), limits::RELAY_ERROR_BYTES_MAX);
    }
}
