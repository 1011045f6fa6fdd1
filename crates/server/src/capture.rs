//! The way in, the same for every source: captured, admitted by pure rules, inserted, answered with receipts.
//!
//! A source acknowledges a message only once it holds the receipt: that is after the commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Admitted, Captured, Outcome, Receipt, admit};
use lazaret_store::StoreError;

use crate::app::App;

/// Stores captured messages; the receipts come back in order.
pub async fn capture(app: &App, captured: Vec<Captured>) -> Result<Vec<Receipt>, StoreError> {
    let Some(source) = captured.first().map(|one| one.source.clone()) else { return Ok(Vec::new()) };
    let admitted = admit_all(app, captured).await?;
    let causes = causes(&admitted);
    let receipts = app.store.insert(admitted).await?;
    log(&source, &receipts, &causes);
    Ok(receipts)
}

/// Stores what is told of a letter that is known, under its own key: the names that its key was made of may have been cut.
pub async fn capture_of(app: &App, captured: Captured, key: CaptureKey) -> Result<Vec<Receipt>, StoreError> {
    let source = captured.source.clone();
    let mut admitted = admit_all(app, vec![captured]).await?;
    for one in &mut admitted {
        one.key = key;
    }
    let causes = causes(&admitted);
    let receipts = app.store.insert(admitted).await?;
    log(&source, &receipts, &causes);
    Ok(receipts)
}

/// Messages that are admitted on the thread that serves them: grouping one takes some 20 µs.
const ADMIT_INLINE_MAX: usize = 8;

async fn admit_all(app: &App, captured: Vec<Captured>) -> Result<Vec<Admitted>, StoreError> {
    let (now, few) = (app.clock.now(), captured.len() <= ADMIT_INLINE_MAX);
    let ids = captured.iter().map(|_| Ok([app.entropy.take()?, app.entropy.take()?]));
    let ids = ids.collect::<Result<Vec<[[u8; 10]; 2]>, StoreError>>()?;
    let (classes, groups) = (Arc::clone(&app.rules), app.groups());
    let admit_each = move || {
        let each = captured.into_iter().zip(ids);
        each.map(|(one, random)| admit(one, now, random, &classes, &groups)).collect::<Vec<_>>()
    };
    if few {
        return Ok(admit_each());
    }
    tokio::task::spawn_blocking(admit_each).await.map_err(|error| StoreError::Unavailable {
        doing: "admitting letters",
        source: Some(Box::new(error)),
    })
}

/// What the log says of one letter: whose cause it is and where it died. Ids and bodies are not in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Cause {
    letter_type: String,
    queue: String,
    error_type: String,
    fingerprint: String,
}

fn causes(admitted: &[Admitted]) -> Vec<Cause> {
    let cause = |one: &Admitted| Cause {
        letter_type: one.captured.letter_type.clone(),
        queue: one.captured.queue.clone(),
        error_type: one.captured.error.error_type.clone(),
        fingerprint: one.grouping.fingerprint.to_string(),
    };
    admitted.iter().map(cause).collect()
}

/// Causes of one batch that are logged one by one.
const CAUSES_LOGGED_MAX: usize = 20;

/// Logs new deaths by their cause, one line for each cause of a batch.
fn log_causes(source: &str, receipts: &[Receipt], causes: &[Cause]) {
    let mut counts: BTreeMap<&Cause, u64> = BTreeMap::new();
    for (_, cause) in receipts.iter().zip(causes).filter(|(it, _)| it.outcome != Outcome::Duplicate) {
        *counts.entry(cause).or_default() += 1;
    }
    for (cause, letters) in counts.iter().take(CAUSES_LOGGED_MAX) {
        let Cause { letter_type, queue, error_type, fingerprint } = cause;
        tracing::info!(
            source,
            queue,
            letter_type,
            error_type,
            fingerprint,
            letters,
            "dead letters: {letters} of {letter_type} in {queue}: {error_type}"
        );
    }
    if counts.len() > CAUSES_LOGGED_MAX {
        tracing::info!(source, "and {} more causes in this batch", counts.len() - CAUSES_LOGGED_MAX);
    }
}

/// No death is silent (RULE-040-060): each capture is a line, a batch is one with its numbers and one for each cause.
fn log(source: &str, receipts: &[Receipt], causes: &[Cause]) {
    log_causes(source, receipts, causes);
    let count = |outcome| receipts.iter().filter(|receipt| receipt.outcome == outcome).count();
    let (created, recurred, relapsed) =
        (count(Outcome::Created), count(Outcome::Recurred), count(Outcome::Relapse));
    match receipts {
        [Receipt { letter, outcome }] if *outcome != Outcome::Duplicate => {
            tracing::info!(letter.id = %letter, source, "letter {letter} from {source}: {}", outcome.name());
        }
        _ if created + recurred + relapsed > 0 => {
            tracing::info!(
                source,
                created,
                recurred,
                relapsed,
                "{created} letters from {source}, {recurred} recurred, {relapsed} relapsed"
            );
        }
        _ => tracing::debug!(
            source,
            duplicates = receipts.len(),
            "{} duplicates from {source}",
            receipts.len()
        ),
    }
}
