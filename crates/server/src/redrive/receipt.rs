//! Receipts: what a subscriber says of a letter that it got.

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, Letter, Outcome, RedriveMark, SourceWord};
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use lazaret_store::redrive::{Proof, Proved};

use super::{NotRedriven, Received};
use crate::app::App;
use crate::capture::capture_of;
use crate::jobs::SOURCE;

#[derive(Clone, PartialEq, Debug)]
pub struct ReceiptGiven {
    pub letter: LetterId,
    pub life: u32,
    /// The redrive that the subscriber got it from, if it says so.
    pub redrive: Option<RedriveId>,
    pub outcome: ReceiptOutcome,
    /// When it happened, as the subscriber states it; now if it does not.
    pub at: Option<Time>,
    /// Who says so.
    pub by: String,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ReceiptOutcome {
    Succeeded,
    Failed { error: LetterError },
}

/// Takes a receipt. One for an earlier life changes nothing, nor does one that comes twice.
pub async fn receive(app: &App, receipt: ReceiptGiven) -> Result<Received, NotRedriven> {
    let Some(history) = app.store.history(receipt.letter).await? else { return Ok(Received::Unknown) };
    let letter = history.letter;
    if letter.source == SOURCE {
        return Err(NotRedriven::NotByReceipt(letter.id));
    }
    match receipt.outcome.clone() {
        ReceiptOutcome::Succeeded => {
            let ReceiptGiven { letter, life, by, .. } = receipt;
            let proof = Proof { letter, life, evidence: "receipt", by, at: app.clock.now() };
            Ok(match app.store.prove(proof).await? {
                Proved::Done => Received::Resolved,
                Proved::Late => Received::Late,
                Proved::Unknown => Received::Unknown,
            })
        }
        ReceiptOutcome::Failed { error } => relapse(app, letter, &receipt, error).await,
    }
}

/// The letter died again: captured as if its source had said so, with the redrive that it comes back from.
async fn relapse(
    app: &App,
    letter: Letter,
    receipt: &ReceiptGiven,
    error: LetterError,
) -> Result<Received, NotRedriven> {
    let sent = match letter.status {
        Status::Reprocessing | Status::Resolved => letter.life == receipt.life,
        // What was not put back cannot have failed by it.
        Status::Pending | Status::Discarded => false,
    };
    let Some(redrive) = redrive_of(app, receipt).await?.filter(|_| sent) else { return Ok(Received::Late) };
    let Some(whole) = app.store.export(vec![letter.id]).await?.pop() else { return Ok(Received::Late) };
    let original = whole.lives.into_iter().find(|(life, _)| life.life == receipt.life);
    let Some((life, envelope)) = original else { return Ok(Received::Late) };
    let at = receipt.at.unwrap_or_else(|| app.clock.now());
    let attempt = Attempt { at: Some(at), duration_ms: None, error: error.clone(), extra: None };
    let captured = Captured {
        source: letter.source,
        message_id: letter.event_id,
        letter_type: letter.letter_type,
        queue: letter.queue,
        subscriber: letter.subscriber,
        tenant: letter.tenant,
        aggregate: letter.aggregate,
        schema_version: letter.schema_version,
        envelope,
        error,
        attempts: vec![attempt],
        retry_count: letter.retry_count,
        max_retries: letter.max_retries,
        died_at: Some(at),
        mark: Some(RedriveMark { letter: letter.id, life: receipt.life, redrive }),
        word: SourceWord::Silent,
        // The message is the same one, so what was kept of it beside its bytes is as well.
        reported: life.reported,
    };
    let receipts = capture_of(app, captured, whole.key).await?;
    Ok(match receipts.first().map(|receipt| receipt.outcome) {
        Some(Outcome::Created | Outcome::Recurred | Outcome::Relapse) => Received::Relapsed,
        Some(Outcome::Duplicate) | None => Received::Late,
    })
}

/// The redrive that a receipt is about: the one it names if it had the letter, else the last that had it in this life.
async fn redrive_of(app: &App, receipt: &ReceiptGiven) -> Result<Option<RedriveId>, NotRedriven> {
    let had = app.store.redrives_of(receipt.letter).await?;
    let mut of_life =
        had.into_iter().filter(|(_, row)| row.life == receipt.life).map(|(redrive, _)| redrive.id);
    Ok(match receipt.redrive {
        Some(named) => of_life.find(|id| *id == named),
        None => of_life.next(),
    })
}
