//! The way in, the same for every source: captured, admitted by pure rules, inserted, answered with receipts.
//!
//! A source acknowledges a message only once it holds the receipt: that is after the commit.

use lazaret_core::letter::{Admitted, Captured, Outcome, Receipt, admit};
use lazaret_store::StoreError;

use crate::app::App;

/// Stores captured messages; the receipts come back in order.
pub async fn capture(app: &App, captured: Vec<Captured>) -> Result<Vec<Receipt>, StoreError> {
    let Some(source) = captured.first().map(|one| one.source.clone()) else { return Ok(Vec::new()) };
    let admitted = captured.into_iter().map(|one| admit_one(app, one)).collect::<Result<Vec<_>, _>>()?;
    let receipts = app.store.insert(admitted).await?;
    log(&source, &receipts);
    Ok(receipts)
}

fn admit_one(app: &App, captured: Captured) -> Result<Admitted, StoreError> {
    let random = [app.entropy.take()?, app.entropy.take()?];
    Ok(admit(captured, app.clock.now(), random, &app.rules, &app.groups))
}

/// No death is silent (RULE-040-060): each capture is a line, a batch is one with its numbers.
fn log(source: &str, receipts: &[Receipt]) {
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
