//! What became of claimed rows, written down: processed, due again later, or dead (RULE-040-001, 002, 010 to 013).

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::class::ClassRules;
use lazaret_core::letter::listed;
use lazaret_core::limits;
use lazaret_core::retry::{RetryPolicies, Verdict};
use lazaret_core::time::Time;

use super::claim::Claimed;
use super::statements::RelayStatements;
use super::{Relay, Worked};
use crate::SourceError;
use crate::backoff::unit;
use crate::outbox::row::written;
use crate::outbox::{locked, now};

/// A claimed row and what became of it.
pub(super) struct Settled {
    pub row: Claimed,
    pub outcome: Outcome,
    /// Whether the failed try was kept, so that it is kept once.
    pub is_kept: bool,
}

/// What became of a claimed row.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Outcome {
    Delivered,
    Retried {
        attempt: Box<Attempt>,
        delay_ms: u64,
    },
    Died {
        attempt: Box<Attempt>,
    },
    /// Nothing was tried: it does not count.
    Released {
        delay_ms: u64,
    },
}

const DOING: &str = "recording what became of rows";

/// Records what became of some rows. Each kind is one statement; where the database refuses it because of one row, the
/// others are recorded without that one.
pub(super) async fn settle(
    relay: &Relay,
    statements: &RelayStatements,
    settled: &mut [Settled],
) -> Result<Worked, SourceError> {
    // Before the rows: one that dies is captured at once, with the tries that are kept by then.
    keep_tries(relay, settled).await;
    let mut worked = Worked::default();
    let mut refused = Vec::new();
    for kind in Kind::ALL {
        let rows: Vec<&Settled> =
            settled.iter().filter(|settled| Kind::of(&settled.outcome) == kind).collect();
        let (count, mut not) = record(relay, statements, kind, &rows).await?;
        *kind.count(&mut worked) += count;
        refused.append(&mut not);
    }
    for (settled, why) in refused {
        worked.add(&settle_refused(relay, statements, settled, why).await?);
    }
    let delivered = settled.iter().filter(|it| it.outcome == Outcome::Delivered);
    let keys = delivered.map(|it| it.row.delivery.idempotency_key.as_str());
    locked(&relay.outbox.awaited).processed(keys, now());
    forget_tries(relay, settled).await;
    let recorded = worked.delivered + worked.retried + worked.died + worked.released + worked.refused;
    worked.lost = (settled.len() as u64).saturating_sub(recorded);
    Ok(worked)
}

/// Records a row as failed whose outcome the database refuses to record: the try counts, and the row says why. If that is
/// refused as well the row stays as it is, and people are told.
async fn settle_refused(
    relay: &Relay,
    statements: &RelayStatements,
    settled: &Settled,
    why: String,
) -> Result<Worked, SourceError> {
    let row = &settled.row;
    let error = LetterError {
        error_type: "SettleRefused".to_owned(),
        message: format!("the outcome of the delivery could not be recorded: {why}"),
        ..LetterError::default()
    };
    let mut instead = row.emptied().settled(relay.failed(row, error, now(), None));
    keep_tries(relay, std::slice::from_mut(&mut instead)).await;
    let kind = Kind::of(&instead.outcome);
    let mut worked = Worked::default();
    let (count, refused) = record(relay, statements, kind, &[&instead]).await?;
    *kind.count(&mut worked) = count;
    if let Some((_, why)) = refused.into_iter().next() {
        relay.refuse(&row.delivery.idempotency_key, &why);
        worked.refused = 1;
    }
    Ok(worked)
}

/// Takes back rows whose claim expired: whoever claimed them died, or could not record what became of them. Each counts as
/// a failed try, or a row that kills its relay would do so for ever.
pub(super) async fn take_back(relay: &Relay, statements: &RelayStatements) -> Result<u64, SourceError> {
    let (batch, refused) = (relay.config.batch as i64, relay.refused_keys());
    let rows =
        relay.outbox.db.query("looking for expired claims", &statements.expired, &[&batch, &refused]).await?;
    let error = LetterError {
        error_type: "ClaimExpired".to_owned(),
        message: "the relay stopped before it recorded an outcome; the event may have been delivered"
            .to_owned(),
        ..LetterError::default()
    };
    let mut expired = Vec::new();
    for row in &rows {
        let claimed = Claimed::expired(row)?;
        let outcome = relay.failed(&claimed, error.clone(), now(), None);
        expired.push(claimed.settled(outcome));
    }
    let worked = settle(relay, statements, &mut expired).await?;
    Ok(worked.retried + worked.died)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Delivered,
    Retried,
    Died,
    Released,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Delivered, Kind::Retried, Kind::Died, Kind::Released];

    fn of(outcome: &Outcome) -> Kind {
        match outcome {
            Outcome::Delivered => Kind::Delivered,
            Outcome::Retried { .. } => Kind::Retried,
            Outcome::Died { .. } => Kind::Died,
            Outcome::Released { .. } => Kind::Released,
        }
    }

    fn count(self, worked: &mut Worked) -> &mut u64 {
        match self {
            Kind::Delivered => &mut worked.delivered,
            Kind::Retried => &mut worked.retried,
            Kind::Died => &mut worked.died,
            Kind::Released => &mut worked.released,
        }
    }
}

/// Records rows of one kind: how many, and which were refused with the reason.
async fn record<'a>(
    relay: &Relay,
    statements: &RelayStatements,
    kind: Kind,
    rows: &[&'a Settled],
) -> Result<(u64, Vec<(&'a Settled, String)>), SourceError> {
    if rows.is_empty() {
        return Ok((0, Vec::new()));
    }
    match write(relay, statements, kind, rows).await {
        Ok(count) => return Ok((count, Vec::new())),
        Err(SourceError::Refused { why, .. }) if rows.len() == 1 => return Ok((0, vec![(rows[0], why)])),
        Err(SourceError::Refused { .. }) => {}
        Err(error) => return Err(error),
    }
    let (mut recorded, mut refused) = (0, Vec::new());
    for row in rows {
        match write(relay, statements, kind, &[row]).await {
            Ok(count) => recorded += count,
            Err(SourceError::Refused { why, .. }) => refused.push((*row, why)),
            Err(error) => return Err(error),
        }
    }
    Ok((recorded, refused))
}

async fn write(
    relay: &Relay,
    statements: &RelayStatements,
    kind: Kind,
    rows: &[&Settled],
) -> Result<u64, SourceError> {
    let chars_max = relay.outbox.table().await?.error_chars_max;
    let keys: Vec<&str> = rows.iter().map(|it| it.row.delivery.idempotency_key.as_str()).collect();
    let claims: Vec<&str> = rows.iter().map(|it| it.row.claim.as_str()).collect();
    let counts: Vec<i64> = rows.iter().map(|it| i64::from(it.row.failed_before) + 1).collect();
    let (mut errors, mut delays) = (Vec::new(), Vec::new());
    for settled in rows {
        let (error, delay_ms) = match &settled.outcome {
            Outcome::Delivered => (String::new(), 0),
            Outcome::Retried { attempt, delay_ms } => (written(&attempt.error), *delay_ms),
            Outcome::Died { attempt } => (written(&attempt.error), 0),
            Outcome::Released { delay_ms } => (String::new(), *delay_ms),
        };
        errors.push(fitting(&error, chars_max));
        delays.push(i64::try_from(delay_ms).unwrap_or(i64::MAX));
    }
    let db = &relay.outbox.db;
    let written = match kind {
        Kind::Delivered => db.query(DOING, &statements.delivered, &[&keys, &claims]).await,
        Kind::Retried => {
            db.query(DOING, &statements.retried, &[&keys, &claims, &counts, &errors, &delays]).await
        }
        Kind::Died => db.query(DOING, &statements.died, &[&keys, &claims, &counts, &errors]).await,
        Kind::Released => db.query(DOING, &statements.released, &[&keys, &claims, &delays]).await,
    };
    Ok(written?.len() as u64)
}

impl Relay {
    /// What becomes of a row that failed.
    pub(super) fn failed(
        &self,
        row: &Claimed,
        error: LetterError,
        at: Time,
        duration_ms: Option<u64>,
    ) -> Outcome {
        let verdict = decide(&self.config.retry, &self.classes, &self.outbox.config.name, row, &error);
        let extra = Some(format!("{{\"attempt\":{}}}", row.delivery.attempt));
        let attempt = Box::new(Attempt { at: Some(at), duration_ms, error, extra });
        match verdict {
            Verdict::RetryAfter { delay_ms } => Outcome::Retried { attempt, delay_ms },
            Verdict::DeadLetter => Outcome::Died { attempt },
        }
    }
}

/// Keeps the errors of failed deliveries. Rows go on without: the count and the last error are in the row.
async fn keep_tries(relay: &Relay, settled: &mut [Settled]) {
    let Some(log) = &relay.tries else { return };
    let mut tries = Vec::new();
    for settled in settled.iter_mut().filter(|settled| !settled.is_kept) {
        settled.is_kept = true;
        match &settled.outcome {
            Outcome::Retried { attempt, .. } | Outcome::Died { attempt } => {
                tries.push((settled.row.delivery.idempotency_key.clone(), Attempt::clone(attempt)));
            }
            Outcome::Delivered | Outcome::Released { .. } => {}
        }
    }
    let (source, count) = (&relay.outbox.config.name, tries.len());
    if count > 0
        && let Err(error) = log.keep(tries).await
    {
        tracing::warn!(source, %error, "the errors of {count} failed deliveries of {source} were not kept");
    }
}

/// Forgets the failed deliveries of rows that were delivered; those that stay become too old one day.
async fn forget_tries(relay: &Relay, settled: &[Settled]) {
    let Some(log) = &relay.tries else { return };
    let delivered = settled.iter().filter(|it| it.outcome == Outcome::Delivered && it.row.failed_before > 0);
    let rows: Vec<String> = delivered.map(|it| it.row.delivery.idempotency_key.clone()).collect();
    let source = &relay.outbox.config.name;
    if !rows.is_empty()
        && let Err(error) = log.forget(rows).await
    {
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
fn fitting(error: &str, chars_max: Option<usize>) -> String {
    let mut error = listed(error, limits::RELAY_ERROR_BYTES_MAX);
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
        Claimed { delivery, body_left_out: None, failed_before, max_retries, claim: String::new() }
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
        assert_eq!(fitting("Grüße\0!", Some(4)), "Grüß");
        assert_eq!(fitting("a\0b", None), "a\u{fffd}b");
        assert_eq!(fitting(&"x".repeat(10_000), None).len(), limits::RELAY_ERROR_BYTES_MAX);
    }
}
