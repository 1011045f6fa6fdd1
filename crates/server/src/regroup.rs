//! Gives letters their new groups when the rules change, batch by batch, while capture goes on with the new ones.
//!
//! The store knows how far it has come: a server that ends in between goes on where it was.

use lazaret_core::fingerprint::{Fingerprint, FingerprintRules, Grouping, Subject, group};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::regroup::{NewGrouping, OldGrouping, RegroupBatch, Regrouping};

use crate::app::App;
use crate::operations::Progress;

/// Looks at the next lives and moves those that belong elsewhere by the rules in force.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        return Ok(Progress::Idle);
    }
    let rules = app.groups();
    let revision = rules.revision();
    let before = app.store.regrouping(revision.clone(), app.clock.now()).await?;
    if before.towards.is_none() {
        return Ok(Progress::Idle);
    }
    if before.done == 0 {
        let lives = before.total;
        tracing::info!(
            revision,
            lives,
            "the grouping rules are others now: {lives} lives are looked at anew"
        );
    }
    let old = app.store.old_groupings(limits::REGROUP_LIVES_PER_BATCH).await?;
    let (looked_at, up_to) = (old.len() as u64, old.last().map(|life| life.position));
    // Backtraces are long: this takes milliseconds, which the threads that serve requests do not have.
    let grouped = tokio::task::spawn_blocking(move || group_all(&old, &rules)).await.map_err(|error| {
        StoreError::Unavailable { doing: "grouping letters anew", source: Some(Box::new(error)) }
    })?;
    let at = app.clock.now();
    let lives = grouped.into_iter().map(|(position, old, grouping)| {
        let incident = IncidentId::mint(at, app.entropy.take()?);
        Ok(NewGrouping { position, old, grouping, incident })
    });
    let lives = lives.collect::<Result<Vec<_>, StoreError>>()?;
    let after = app.store.regroup(RegroupBatch { revision, lives, looked_at, up_to, at }).await?;
    log(&before, &after);
    Ok(Progress::More)
}

/// The groups of lives by these rules, also where they are the same as before.
fn group_all(old: &[OldGrouping], rules: &FingerprintRules) -> Vec<(i64, Fingerprint, Grouping)> {
    let group_one = |life: &OldGrouping| {
        let subject = Subject {
            source: &life.source,
            queue: &life.queue,
            letter_type: &life.letter_type,
            tenant: life.tenant.as_deref(),
            error: &life.error,
        };
        (life.position, life.fingerprint.clone(), group(subject, rules))
    };
    old.iter().map(group_one).collect()
}

fn log(before: &Regrouping, after: &Regrouping) {
    let (done, total) = (after.done, after.total);
    if after.towards.is_none() {
        tracing::info!(revision = after.reached, lives = done, "all letters are grouped by the new rules");
    } else if before.done / limits::REGROUP_LIVES_PER_LINE != done / limits::REGROUP_LIVES_PER_LINE {
        tracing::info!(done, total, "{done} of {total} lives are grouped by the new rules");
    }
}
