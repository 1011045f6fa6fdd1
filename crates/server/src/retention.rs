//! What keeps letters from growing without end: which policy holds for which queue, and the pruner that follows it.
//!
//! The store is the progress: a pass that is broken off loses nothing, and the next one begins anew. Only the leader prunes,
//! one pass at a time: two that count at once would take away twice what is too much. Whether a letter may go is asked again
//! by the statement that removes it.

mod dry_run;
mod policy;
mod prune;
mod standing;
mod step;

use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::decision::Verb;

use crate::app::App;
use crate::operations::Progress;

pub use dry_run::{DryRun, WouldGo, dry_run};
pub use policy::{Policies, Scope};
pub use prune::{Gone, NotPruned, Pruner, Report, prune_now, rest_after, tick, until_due};
pub use standing::{Counted, QueueRetention, Retained, standings};

/// When letters are looked for next that a limit pushes out: at every full five minutes, so that all who share a store say
/// the same, and so does a server that was started anew.
pub fn next_prune_at(now: Time) -> Time {
    Time::from_ms((turn_of(now) + 1) * limits::PRUNE_EVERY_MS)
}

/// Which of the moments to prune at was the last one.
fn turn_of(now: Time) -> i64 {
    now.ms().div_euclid(limits::PRUNE_EVERY_MS)
}

/// Gives some of the room that nothing stands in back to the machine.
pub async fn give_room_back(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    Ok(if app.store.give_room_back().await? { Progress::More } else { Progress::Idle })
}

/// How long the content of a letter is kept that a person deletes: the floor of its queue. Other verbs remove nothing.
pub async fn floor_ms(app: &App, verb: Verb, letter: LetterId) -> Result<Option<i64>, StoreError> {
    match verb {
        Verb::Delete => {}
        Verb::Resolve
        | Verb::Discard
        | Verb::Reopen
        | Verb::Hold
        | Verb::Release
        | Verb::Retry
        | Verb::Restore => return Ok(None),
    }
    let policies = Policies::of(&app.config);
    let letter = match app.store.history(letter).await? {
        Some(history) => Some(history.letter),
        None => app.store.archived_letter(letter).await?.map(|archived| archived.letter),
    };
    Ok(letter.map(|letter| policies.effective(&letter.source, &letter.queue).min_age.0.ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_are_at_every_full_five_minutes() {
        for (now, next) in [
            ("2026-11-15T03:00:00.000Z", "2026-11-15T03:05:00.000Z"),
            ("2026-11-15T03:04:59.999Z", "2026-11-15T03:05:00.000Z"),
            ("2026-11-15T23:57:00.000Z", "2026-11-16T00:00:00.000Z"),
        ] {
            assert_eq!(next_prune_at(Time::parse(now).unwrap()).to_string(), next, "{now}");
        }
    }
}
