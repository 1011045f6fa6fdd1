//! Looking after the rows of pending letters: one that the application processed itself settles its letter, and one that
//! is gone is reported.

use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::{Choice, Filter, Patterns};
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_sources::SourceError;
use lazaret_sources::outbox::{Lost, Outbox, PutBack, RowStatus};
use lazaret_store::StoreError;
use lazaret_store::decision::Decided;
use lazaret_store::page::PageQuery;
use lazaret_store::source_store::SettledElsewhere;

use super::{Running, VANISHED_NAMED};
use crate::app::App;
use crate::redrive::full_message_id;

/// How far a look over all pending letters of a source has come.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    after: Option<LastKey>,
    vanished: u64,
    vanished_first: Vec<LetterId>,
}

/// Why a look could not go on, or a row could not be put back.
#[derive(Debug, thiserror::Error)]
pub enum NotLooked {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Made again, the row of a letter that is not pending could be processed a second time.
    #[error("the letter is {0}: its event may have been processed")]
    MayBeProcessed(Status),
}

/// Looks at the rows of the next letters; true once all were looked at, and then the next look begins anew.
pub async fn look_after(
    app: &App,
    name: &str,
    running: &Running,
    looked: &mut Looked,
) -> Result<bool, NotLooked> {
    let filter = Filter {
        source: Patterns::only(name),
        status: Choice { include: [Status::Pending].into(), ..Choice::default() },
        ..Filter::default()
    };
    let page = app
        .store
        .list(PageQuery {
            filter,
            now: app.clock.now(),
            sort: Sort::DiedAtAsc,
            limit: limits::PAGE_ROWS_MAX,
            after: looked.after,
            scan_max: PageQuery::SCAN_MAX,
        })
        .await?;
    let mut ids = Vec::with_capacity(page.letters.len());
    for letter in &page.letters {
        ids.push(full_message_id(app, letter.id, &letter.event_id).await?);
    }
    let statuses = outbox(running)?.statuses(&ids).await?;
    for (letter, id) in page.letters.iter().zip(&ids) {
        match statuses.get(id) {
            Some(RowStatus::Processed { .. }) => settle(app, name, running, letter).await?,
            Some(RowStatus::Gone) => {
                looked.vanished += 1;
                if looked.vanished_first.len() < VANISHED_NAMED {
                    looked.vanished_first.push(letter.id);
                }
            }
            // A row that waits for the application is not our affair: nobody knows yet.
            Some(
                RowStatus::Pending | RowStatus::Processing | RowStatus::DeadLetter | RowStatus::Other(_),
            )
            | None => {}
        }
    }
    looked.after = page.next;
    if page.next.is_some() {
        return Ok(false);
    }
    let Looked { vanished, vanished_first, .. } = std::mem::take(looked);
    let before = running.so_far().vanished;
    if vanished > before {
        tracing::warn!(
            source = name,
            vanished,
            "{vanished} letters of {name} have no outbox row: restore them with `lazaret sources restore-row`"
        );
    }
    running.note(|so_far| {
        so_far.vanished = vanished;
        so_far.vanished_first = vanished_first;
        so_far.looked_at = Some(app.clock.now());
    });
    Ok(true)
}

async fn settle(app: &App, name: &str, running: &Running, letter: &Letter) -> Result<(), StoreError> {
    let settled = SettledElsewhere {
        letter: letter.id,
        life: letter.life,
        by: format!("source:{name}"),
        notes: "its row was processed".to_owned(),
        at: app.clock.now(),
    };
    if app.store.settle_elsewhere(settled).await? == Decided::Done {
        running.note(|so_far| so_far.settled_elsewhere += 1);
        tracing::info!(letter.id = %letter.id, source = name, "letter {} was resolved by {name}", letter.id);
    }
    Ok(())
}

/// Makes the row of a letter again, dead as it was. Nothing if there is no such letter.
pub async fn put_back(app: &App, running: &Running, letter: LetterId) -> Result<Option<PutBack>, NotLooked> {
    let Some(whole) = app.store.export(vec![letter]).await?.pop() else { return Ok(None) };
    let Some((life, envelope)) = whole.lives.into_iter().next_back() else { return Ok(None) };
    match whole.letter.status {
        Status::Pending => {}
        status @ (Status::Reprocessing | Status::Resolved | Status::Discarded) => {
            return Err(NotLooked::MayBeProcessed(status));
        }
    }
    let lost = Lost {
        message_id: full_message_id(app, letter, &whole.letter.event_id).await?,
        body: envelope.body().clone(),
        reported: life.reported.unwrap_or_default(),
    };
    Ok(Some(outbox(running)?.put_back(&lost).await?))
}

fn outbox(running: &Running) -> Result<&Outbox, SourceError> {
    let outbox = running.outbox.as_ref().map(|running| running.outbox.as_ref());
    outbox
        .ok_or_else(|| SourceError::Refused { code: None, why: "its letters have no outbox rows".to_owned() })
}
