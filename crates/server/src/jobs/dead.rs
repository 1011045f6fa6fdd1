//! Jobs in the dead letter: finding them, putting them back, deleting them.
//!
//! The letter leads: a job is in the dead letter when its letter is pending, and nothing else says so.

mod bulk;
mod list;

use std::collections::BTreeMap;

use lazaret_core::filter::{Choice, Filter, Patterns};
use lazaret_core::id::JobId;
use lazaret_core::job::enqueue::job_id;
use lazaret_core::job::reenqueue::Override;
use lazaret_core::job::{Job, NotRetried};
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::decision::{Decided, Decision, Verb};
use lazaret_store::job::{LetterEffect, StoredJob};
use lazaret_store::stats::StatsOf;

use super::{NotDone, SOURCE, Step, by_hand, write};
use crate::app::App;
use crate::redrive::{governance_of, shut_for};
use crate::retention::Policies;

pub use bulk::{All, Bulk, BulkRefused, all};
pub use list::{DeadPage, Place, list};

/// The letters of jobs in the dead letter that are as wanted. What is wanted says nothing of source and status.
pub fn letters(wanted: &Filter) -> Filter {
    let source = Patterns { include: [Pattern::new(SOURCE)].into_iter().collect(), ..Patterns::default() };
    let status = Choice { include: [Status::Pending].into_iter().collect(), ..Choice::default() };
    Filter { source, status, ..wanted.clone() }
}

async fn dead_job(app: &App, letter: &Letter) -> Result<Option<Job>, NotDone> {
    let Some(id) = job_id(&letter.event_id) else { return Ok(None) };
    match app.store.job(id).await? {
        Some(StoredJob { job, .. }) => Ok(Some(job).filter(|job| job.in_dead_letter)),
        None => from_letter(app, id).await,
    }
}

/// One job in the dead letter.
pub async fn show(app: &App, text: &str) -> Result<Job, NotDone> {
    let (_, letter) = find(app, text).await?;
    dead_job(app, &letter).await?.ok_or_else(|| not_dead(text))
}

/// A job in the dead letter and its letter.
async fn find(app: &App, text: &str) -> Result<(JobId, Letter), NotDone> {
    let id = job_id(text).ok_or_else(|| not_dead(text))?;
    let Some(history) = app.store.letter_of_job(id).await? else {
        return Err(match super::no_job(app, id).await? {
            archived @ NotDone::Archived { .. } => archived,
            _ => not_dead(text),
        });
    };
    let letter = Some(history.letter).filter(|letter| letter.status == Status::Pending);
    Ok((id, letter.ok_or_else(|| not_dead(text))?))
}

fn not_dead(text: &str) -> NotDone {
    NotDone::NotDead(crate::raw_json::shown(text))
}

/// The job as it died, made again from its live letter.
pub(super) async fn from_letter(app: &App, id: JobId) -> Result<Option<Job>, NotDone> {
    let Some(history) = app.store.letter_of_job(id).await? else { return Ok(None) };
    let Some(original) = app.store.original(history.letter.id, None).await? else { return Ok(None) };
    let record = history.lives.last().and_then(|life| life.reported.as_deref()).unwrap_or("");
    let attempts = history.attempts.iter().map(|one| &one.attempt);
    let job = Job::from_letter(&original.envelope, record, attempts)
        .map_err(|bad| StoreError::Corrupt(format!("letter {} of job {id}: {bad}", history.letter.id)))?;
    Ok(Some(job))
}

/// Takes a job out of the dead letter and puts it back into its queue.
pub async fn retry(app: &App, text: &str, with: &Override, by: &Actor) -> Result<Job, NotDone> {
    for _ in 0..limits::JOB_CHANGE_TRIES_MAX {
        let (id, letter) = find(app, text).await?;
        if let Some(shut) = shut_for(app, &letter).await? {
            return Err(NotDone::Shut(vec![shut]));
        }
        let (job, version) = match app.store.job(id).await? {
            Some(StoredJob { job, version }) => (job, version),
            // The letter outlives the row, which the change then makes anew.
            None => (from_letter(app, id).await?.ok_or_else(|| not_dead(text))?, 0),
        };
        let now = app.clock.now();
        let after = match job.retried_from_dead_letter(with, now) {
            Ok(after) => after,
            Err(NotRetried::State(_) | NotRetried::NotDead) => return Err(not_dead(text)),
            Err(NotRetried::Override(problem)) => return Err(problem.into()),
        };
        let governance = governance_of(app, &letter.source);
        let (letter, by) = (LetterEffect::Redrive(letter.id, governance), by_hand(by, Verb::Retry.name()));
        let step = Step { after, letter, events: Vec::new(), by: Some(by), began_at: None };
        if let Some(job) = write(app, (id, version), step, now).await? {
            return Ok(job);
        }
    }
    Err(NotDone::Contended(job_id(text).ok_or_else(|| not_dead(text))?))
}

/// Takes a job out of the dead letter for good. Its letter can be restored for as long as its content is kept.
pub async fn delete(app: &App, text: &str, by: Actor) -> Result<JobId, NotDone> {
    let (id, letter) = find(app, text).await?;
    // Put back, run and completed by somebody else meanwhile, it is not the one that was to be deleted.
    let (at, from) = (app.clock.now(), Some(letter.status));
    let floor = Policies::of(&app.config).effective(&letter.source, &letter.queue).min_age.0;
    let floor_ms = Some(floor.ms());
    let decision = Decision { verb: Verb::Delete, actor: by, reason: None, at, from, floor_ms };
    match app.store.decide(letter.id, decision).await? {
        Decided::Done => Ok(id),
        Decided::Refused(refused) if refused.is_for_hold() => Err(NotDone::Held(id)),
        // It left the dead letter since it was found.
        Decided::Refused(_) | Decided::Unknown | Decided::NoWayBack | Decided::Replaced => {
            Err(not_dead(text))
        }
    }
}

/// How many jobs are in the dead letter, by what tells them apart.
#[derive(Debug, Default)]
pub struct DeadStats {
    pub total: u64,
    pub by_queue: BTreeMap<String, u64>,
    pub by_type: BTreeMap<String, u64>,
    pub by_error_type: BTreeMap<String, u64>,
    pub oldest_at: Option<Time>,
    pub newest_at: Option<Time>,
}

pub async fn stats(app: &App) -> Result<DeadStats, NotDone> {
    let stats = app.store.stats(StatsOf::Jobs(Status::Pending)).await?;
    let mut by_error_type = BTreeMap::new();
    for (name, letters) in stats.by_error_type {
        let name = if name.is_empty() { "Unknown".to_owned() } else { name };
        *by_error_type.entry(name).or_insert(0) += letters;
    }
    Ok(DeadStats {
        total: stats.total,
        by_queue: stats.by_queue.into_iter().collect(),
        by_type: stats.by_type.into_iter().collect(),
        by_error_type,
        oldest_at: stats.oldest_at,
        newest_at: stats.newest_at,
    })
}
