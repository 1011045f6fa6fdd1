//! Dead messages on their way into the store: judged against what is known of them, stored, then acknowledged.

use lazaret_core::key::CaptureKey;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_sources::outbox::{Death, add_tries, judge_death};
use lazaret_sources::{Arrival, Receipt};
use lazaret_store::StoreError;
use lazaret_store::source_store::KnownLetter;

use super::tries::key_of_row;
use super::{NotLooked, Running};
use crate::app::App;
use crate::capture::capture;

/// Stores what arrived and returns what to store next. A source that instances share offers nothing twice before it has waited for
/// an acknowledgement, so the next messages are pulled while these are stored. From any other source messages are pulled and
/// stored at once.
pub async fn capture_and_pull(
    app: &App,
    running: &Running,
    arrivals: Vec<Arrival>,
) -> Result<Vec<Arrival>, NotLooked> {
    if !running.source.is_shared() {
        let arrivals = running.source.next().await?;
        capture_arrivals(app, running, arrivals).await?;
        return Ok(Vec::new());
    }
    match tokio::join!(capture_arrivals(app, running, arrivals), running.source.next()) {
        (Ok(_), pulled) => Ok(pulled?),
        (Err(error), pulled) => {
            let receipts: Vec<Receipt> =
                pulled.unwrap_or_default().into_iter().map(|it| it.receipt).collect();
            release(running, &receipts).await;
            Err(error.into())
        }
    }
}

/// Stores what arrived and acknowledges it. What cannot be stored is given back and comes again.
pub async fn capture_arrivals(
    app: &App,
    running: &Running,
    arrivals: Vec<Arrival>,
) -> Result<usize, StoreError> {
    let (captured, receipts): (Vec<Captured>, Vec<Receipt>) =
        arrivals.into_iter().map(|it| (it.captured, it.receipt)).unzip();
    if captured.is_empty() {
        return Ok(0);
    }
    match stored(app, running, captured).await {
        Ok(count) => {
            acknowledge(running, &receipts).await;
            running.note(|so_far| so_far.captured += count as u64);
            Ok(count)
        }
        Err(error) => {
            release(running, &receipts).await;
            Err(error)
        }
    }
}

async fn stored(app: &App, running: &Running, mut captured: Vec<Captured>) -> Result<usize, StoreError> {
    let count = captured.len();
    let deaths = match &running.outbox {
        Some(_) => judge_rows(app, &mut captured).await?,
        None => Vec::new(),
    };
    capture(app, captured).await?;
    if !deaths.is_empty() {
        app.store.remember_deaths(deaths).await?;
    }
    Ok(count)
}

/// Says of each row whether it died anew, and adds the tries that a relay kept of it; returns the deaths to remember.
async fn judge_rows(app: &App, captured: &mut [Captured]) -> Result<Vec<(CaptureKey, String)>, StoreError> {
    let keys: Vec<CaptureKey> = captured.iter().map(key_of).collect();
    let known = app.store.known_letters(keys.clone()).await?;
    let rows = captured.iter().map(|one| key_of_row(&one.source, &one.message_id)).collect();
    let tries = app.store.tries_of(rows).await?;
    let mut deaths = Vec::new();
    for (((one, known), tries), key) in captured.iter_mut().zip(&known).zip(tries).zip(keys) {
        if let Some(death) = one.reported.as_deref().and_then(Death::of_reported) {
            one.word = word(known.as_ref(), &death);
            deaths.push((key, death.to_string()));
        }
        add_tries(one, tries);
    }
    Ok(deaths)
}

/// The key as capture makes it.
fn key_of(captured: &Captured) -> CaptureKey {
    let tenant = captured.tenant.as_deref().unwrap_or("");
    let subscriber = captured.subscriber.as_deref().unwrap_or("");
    CaptureKey::of(&captured.source, tenant, subscriber, &captured.message_id)
}

/// What the row says about whether it died anew.
fn word(known: Option<&KnownLetter>, death: &Death) -> SourceWord {
    let Some(known) = known else { return SourceWord::Silent };
    let told = known.death.as_deref().and_then(Death::parse);
    // Letters that were captured before deaths were remembered have it in what was reported.
    let told = told.or_else(|| known.reported.as_deref().and_then(Death::of_reported));
    judge_death(told.as_ref(), known.left_source, death)
}

async fn release(running: &Running, receipts: &[Receipt]) {
    if let Err(error) = running.source.release(receipts).await {
        tracing::warn!(%error, "messages could not be released; the source offers them again later");
    }
}

async fn acknowledge(running: &Running, receipts: &[Receipt]) {
    if let Err(error) = running.source.ack(receipts).await {
        // They come again, and are known then.
        tracing::warn!(%error, "messages could not be acknowledged");
    }
}
