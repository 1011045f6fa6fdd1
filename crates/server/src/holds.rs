//! Holds: placed and ended here, and the work behind them: letters to mark or free, and holds whose time is over.
//!
//! A hold is in force from the commit that places it; which letters it is on already is worked off in chunks.

use lazaret_core::id::HoldId;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldRecord, HoldState, NewHold};
use lazaret_store::page::Total;

use crate::app::App;
use crate::operations::Progress;

/// Places a hold and marks its letters, within the call if they are few enough.
///
/// A caller that goes away leaves the rest to `tick`.
pub async fn place(app: &App, hold: NewHold) -> Result<HoldPlaced, StoreError> {
    let (id, letters) = (hold.id, letters_of(app, &hold).await?);
    let placed = app.store.place_hold(hold).await?;
    if placed == HoldPlaced::Placed && letters.is_some_and(|letters| letters <= INLINE_MAX) {
        work_off(app, id).await?;
    }
    Ok(placed)
}

const INLINE_MAX: u64 = limits::DECISION_ROWS_INLINE_MAX;

/// How many letters are to be marked at once, if that is known.
async fn letters_of(app: &App, hold: &NewHold) -> Result<Option<u64>, StoreError> {
    match &hold.on {
        HoldOn::Letter(_) => Ok(Some(1)),
        HoldOn::Filter { expected, .. } => Ok(Some(*expected)),
        HoldOn::Standing(filter) => match app.store.count(filter.clone(), hold.at).await {
            Ok(Total::Exact(letters)) => Ok(Some(letters)),
            // Too many to count, or too slow: it goes on behind the call.
            Ok(Total::AtLeast(_)) | Err(StoreError::TooSlow) => Ok(None),
            Err(error) => Err(error),
        },
    }
}

/// Ends a hold and frees its letters, within the call if they are few enough. False if there is none, or it ended
/// before.
pub async fn release(
    app: &App,
    hold: &HoldRecord,
    reason: Option<String>,
    by: Actor,
) -> Result<bool, StoreError> {
    if !app.store.release_hold(hold.id, reason, by, app.clock.now()).await? {
        return Ok(false);
    }
    if hold.letters <= INLINE_MAX {
        work_off(app, hold.id).await?;
    }
    Ok(true)
}

async fn work_off(app: &App, id: HoldId) -> Result<(), StoreError> {
    while app.store.work_hold(id, app.clock.now()).await? {}
    Ok(())
}

/// Ends each hold whose time is over, and works one chunk of each that has letters left to mark or free.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let now = app.clock.now();
    let mut progress = Progress::Idle;
    for hold in app.store.due_holds(now).await? {
        let is_over = hold.until.is_some_and(|until| until <= now);
        let went_on = match hold.state {
            HoldState::Placing | HoldState::Standing if is_over => expire(app, &hold).await?,
            HoldState::Placing | HoldState::Releasing => app.store.work_hold(hold.id, now).await?,
            HoldState::Standing | HoldState::Released => false,
        };
        if went_on {
            progress = Progress::More;
        }
    }
    Ok(progress)
}

async fn expire(app: &App, hold: &HoldRecord) -> Result<bool, StoreError> {
    let by = Actor { name: "lazaret".into(), role: "system".into(), request: None };
    let ended = app.store.release_hold(hold.id, None, by, app.clock.now()).await?;
    if ended {
        tracing::info!(hold.id = %hold.id, letters = hold.letters, "the time of hold {} is over", hold.id);
    }
    Ok(ended)
}
