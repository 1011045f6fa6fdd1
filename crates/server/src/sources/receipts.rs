//! Receipts that workers send over the broker: their letters are resolved.

use lazaret_core::broker::Receipt;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::key::CaptureKey;
use lazaret_core::lifecycle::Place;
use lazaret_sources::WorkerReceipt;
use lazaret_sources::jetstream::captured_id;
use lazaret_store::StoreError;
use lazaret_store::source_store::SettledElsewhere;

use super::{NotLooked, Running};
use crate::app::App;
use crate::redrive::{self, NotRedriven, ReceiptGiven, ReceiptOutcome, Received};

/// How long a receipt waits for its letter: a late success may be told before the message was captured.
const WAIT_MS: i64 = 3_600_000;

/// Takes the next receipts of a source into account.
pub async fn take_receipts(app: &App, name: &str, running: &Running) -> Result<(), NotLooked> {
    for told in running.source.next_receipts().await? {
        let known = match &told.receipt {
            Receipt::Redriven { letter_id, life, redrive_id } => {
                take_redriven(app, name, &told, letter_id, *life, redrive_id.as_deref()).await?
            }
            Receipt::Late(origin) => {
                let key = CaptureKey::of(name, "", &origin.consumer, &captured_id(origin));
                settle_late(app, name, key).await?
            }
        };
        let age_ms = told.at.map_or(i64::MAX, |at| app.clock.now().since(at));
        match known || age_ms > WAIT_MS {
            true => running.source.ack(std::slice::from_ref(&told.ack)).await?,
            false => running.source.release(std::slice::from_ref(&told.ack)).await?,
        }
    }
    Ok(())
}

/// Returns false if the letter is not known.
async fn take_redriven(
    app: &App,
    name: &str,
    told: &WorkerReceipt,
    letter: &str,
    life: u32,
    redrive: Option<&str>,
) -> Result<bool, StoreError> {
    let Ok(letter) = LetterId::parse(letter) else {
        tracing::warn!(source = name, "a receipt names no letter and is dropped");
        return Ok(true);
    };
    let given = ReceiptGiven {
        letter,
        life,
        redrive: redrive.and_then(|id| RedriveId::parse(id).ok()),
        outcome: ReceiptOutcome::Succeeded,
        at: told.at,
        by: format!("source:{name}"),
    };
    match redrive::receive(app, given).await {
        Ok(received) => Ok(received != Received::Unknown),
        Err(NotRedriven::Store(error)) => Err(error),
        Err(error) => {
            tracing::warn!(letter.id = %letter, source = name, "a receipt of letter {letter} is dropped: {error}");
            Ok(true)
        }
    }
}

/// Resolves the letter of a message whose worker succeeded after its last delivery had timed out. Returns false if the
/// message was not captured.
async fn settle_late(app: &App, name: &str, key: CaptureKey) -> Result<bool, StoreError> {
    let Some(known) = app.store.known_letters(vec![key]).await?.pop().flatten() else { return Ok(false) };
    if known.place != Place::Live {
        return Ok(true);
    }
    let Some(history) = app.store.history(known.letter).await? else { return Ok(true) };
    let settled = SettledElsewhere {
        letter: known.letter,
        life: history.letter.life,
        by: format!("source:{name}"),
        notes: "its worker succeeded after the last delivery had timed out".to_owned(),
        at: app.clock.now(),
    };
    app.store.settle_elsewhere(settled).await?;
    Ok(true)
}
