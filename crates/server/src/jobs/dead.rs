//! Jobs in the dead letter: finding them, and putting them back.
//!
//! The letter leads: a job is in the dead letter when its letter is pending, and nothing else says so.

use std::collections::BTreeMap;

use futures_util::{StreamExt, stream};
use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::{Choice, Filter, Patterns, When};
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
use lazaret_store::job::{LetterEffect, StoredJob};
use lazaret_store::page::{LetterPage, PageQuery, Total};
use lazaret_store::stats::StatsOf;

use super::{NotDone, SOURCE, Step, write};
use crate::app::App;

/// Which jobs in the dead letter are meant; what is not given is not asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeadFilter {
    pub queue: Option<String>,
    /// A `*` matches any run of characters.
    pub job_type: Option<String>,
    /// Of the latest failure.
    pub error_type: Option<String>,
    pub since: Option<When>,
    pub until: Option<When>,
}

impl DeadFilter {
    pub fn is_empty(&self) -> bool {
        *self == DeadFilter::default()
    }

    /// The same for letters.
    pub fn letters(&self) -> Filter {
        Filter {
            source: only(Some(SOURCE)),
            status: Choice { include: [Status::Pending].into_iter().collect(), ..Choice::default() },
            queue: only(self.queue.as_deref()),
            letter_type: only(self.job_type.as_deref()),
            error_type: only(self.error_type.as_deref()),
            since: self.since,
            until: self.until,
            ..Filter::default()
        }
    }
}

fn only(text: Option<&str>) -> Patterns {
    Patterns { include: text.map(Pattern::new).into_iter().collect(), ..Patterns::default() }
}

/// Where a page begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    After(LastKey),
    /// So many rows from the beginning.
    Offset(usize),
}

/// One page, newest death first.
#[derive(Clone, Debug)]
pub struct DeadPage {
    pub jobs: Vec<Job>,
    pub total: u64,
    pub next: Option<LastKey>,
}

pub async fn list(app: &App, filter: &DeadFilter, place: Place, limit: usize) -> Result<DeadPage, NotDone> {
    let after = match place {
        Place::After(last) => Some(last),
        Place::Offset(0) => None,
        Place::Offset(rows) => match skip(app, filter, rows).await? {
            Skipped::To(last) => Some(last),
            Skipped::PastTheEnd { total } => return Ok(DeadPage { jobs: Vec::new(), total, next: None }),
        },
    };
    let page = letters(app, filter, Sort::default(), after, limit).await?;
    let mut jobs = Vec::with_capacity(page.letters.len());
    for letter in &page.letters {
        // One that left the dead letter since the page was read is not shown; the next page begins where this one ends.
        if let Some(job) = dead_job(app, letter).await? {
            jobs.push(job);
        }
    }
    Ok(DeadPage { jobs, total: number(page.total), next: page.next })
}

enum Skipped {
    To(LastKey),
    PastTheEnd { total: u64 },
}

/// The last of so many rows. They have to be read: an offset is a number of rows and no place.
async fn skip(app: &App, filter: &DeadFilter, rows: usize) -> Result<Skipped, StoreError> {
    let (mut after, mut left) = (None, rows);
    loop {
        let page = letters(app, filter, Sort::default(), after, left.min(limits::OJS_PAGE_ROWS_MAX)).await?;
        left = left.saturating_sub(page.letters.len());
        match page.next {
            Some(last) if left == 0 => return Ok(Skipped::To(last)),
            Some(last) => after = Some(last),
            None => return Ok(Skipped::PastTheEnd { total: number(page.total) }),
        }
    }
}

async fn letters(
    app: &App,
    filter: &DeadFilter,
    sort: Sort,
    after: Option<LastKey>,
    limit: usize,
) -> Result<LetterPage, StoreError> {
    let (filter, now) = (filter.letters(), app.clock.now());
    app.store.list(PageQuery { filter, now, sort, limit, after, scan_max: PageQuery::SCAN_MAX }).await
}

const fn number(total: Total) -> u64 {
    match total {
        Total::Exact(n) | Total::AtLeast(n) => n,
    }
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
    let not_dead = || NotDone::NotDead(crate::raw_json::shown(text));
    let id = job_id(text).ok_or_else(not_dead)?;
    let Some(history) = app.store.letter_of_job(id).await? else { return Err(not_dead()) };
    if history.letter.status != Status::Pending {
        return Err(not_dead());
    }
    dead_job(app, &history.letter).await?.ok_or_else(not_dead)
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
pub async fn retry(app: &App, text: &str, with: &Override) -> Result<Job, NotDone> {
    let not_dead = || NotDone::NotDead(crate::raw_json::shown(text));
    let id = job_id(text).ok_or_else(not_dead)?;
    for _ in 0..limits::JOB_CHANGE_TRIES_MAX {
        let letter = app.store.letter_of_job(id).await?.map(|history| history.letter);
        let Some(letter) = letter.filter(|letter| letter.status == Status::Pending) else {
            return Err(not_dead());
        };
        let (job, version) = match app.store.job(id).await? {
            Some(StoredJob { job, version }) => (job, version),
            // The letter outlives the row, which the change then makes anew.
            None => (from_letter(app, id).await?.ok_or_else(not_dead)?, 0),
        };
        let now = app.clock.now();
        let after = match job.retried_from_dead_letter(with, now) {
            Ok(after) => after,
            Err(NotRetried::State(_) | NotRetried::NotDead) => return Err(not_dead()),
            Err(NotRetried::Override(problem)) => return Err(problem.into()),
        };
        let step = Step { after, letter: LetterEffect::Redrive(letter.id), events: Vec::new() };
        if let Some(job) = write(app, (id, version), step, now).await? {
            return Ok(job);
        }
    }
    Err(NotDone::Contended(id))
}

/// What a bulk retry got done.
#[derive(Debug, Default)]
pub struct Retried {
    pub matched: usize,
    pub succeeded: usize,
    pub failed: usize,
    /// The first failures: job, and why.
    pub errors: Vec<(String, String)>,
}

/// The ids of the jobs that are meant, as they are now; one more than `max` if there are more.
pub async fn select(app: &App, filter: &DeadFilter, max: usize) -> Result<Vec<String>, NotDone> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let limit = (max + 1 - ids.len()).min(limits::OJS_PAGE_ROWS_MAX);
        let page = letters(app, filter, Sort::default(), after, limit).await?;
        ids.extend(page.letters.into_iter().map(|letter| letter.event_id));
        match page.next {
            Some(last) if ids.len() <= max => after = Some(last),
            Some(_) | None => return Ok(ids),
        }
    }
}

/// Puts back each of these, one commit each; what cannot be put back is told and stops no other.
pub async fn retry_all(app: &App, ids: Vec<String>) -> Retried {
    let mut done = Retried { matched: ids.len(), ..Retried::default() };
    let each = ids.into_iter().map(|id| async move {
        let retried = retry(app, &id, &Override::default()).await;
        (id, retried)
    });
    let mut each = stream::iter(each).buffer_unordered(limits::JOB_CHANGES_AT_ONCE);
    while let Some((id, retried)) = each.next().await {
        match retried {
            Ok(_) => done.succeeded += 1,
            Err(error) => {
                done.failed += 1;
                if done.errors.len() < limits::OJS_BULK_ERRORS_SHOWN {
                    done.errors.push((id, error.to_string()));
                }
            }
        }
    }
    done
}

/// How many jobs are in the dead letter, by what tells them apart.
#[derive(Debug, Default)]
pub struct DeadStats {
    pub total: u64,
    /// How many of them the numbers below are about.
    pub counted: u64,
    pub by_queue: BTreeMap<String, u64>,
    pub by_type: BTreeMap<String, u64>,
    pub by_error_type: BTreeMap<String, u64>,
    pub oldest_at: Option<Time>,
    pub newest_at: Option<Time>,
}

pub async fn stats(app: &App) -> Result<DeadStats, NotDone> {
    let all = DeadFilter::default();
    let pending = app.store.stats(StatsOf::Only(Status::Pending)).await?;
    let jobs = number(app.store.count(all.letters(), app.clock.now()).await?);
    if jobs == pending.total {
        // Every pending letter is a job's, so the counters speak of jobs alone.
        return Ok(DeadStats {
            total: jobs,
            counted: jobs,
            by_queue: pending.by_queue.into_iter().collect(),
            by_type: pending.by_type.into_iter().collect(),
            by_error_type: named(pending.by_error_type),
            oldest_at: pending.oldest_at,
            newest_at: pending.newest_at,
        });
    }
    count_each(app, &all, jobs).await
}

fn named(counts: Vec<(String, u64)>) -> BTreeMap<String, u64> {
    let mut named = BTreeMap::new();
    for (name, letters) in counts {
        *named.entry(error_name(&name)).or_insert(0) += letters;
    }
    named
}

fn error_name(name: &str) -> String {
    if name.is_empty() { "Unknown".to_owned() } else { name.to_owned() }
}

/// Counts letter by letter, the newest as far as the bound.
async fn count_each(app: &App, all: &DeadFilter, total: u64) -> Result<DeadStats, NotDone> {
    let mut stats = DeadStats { total, ..DeadStats::default() };
    let mut after = None;
    loop {
        let page = letters(app, all, Sort::default(), after, limits::OJS_PAGE_ROWS_MAX).await?;
        for letter in &page.letters {
            stats.counted += 1;
            *stats.by_queue.entry(letter.queue.clone()).or_insert(0) += 1;
            *stats.by_type.entry(letter.letter_type.clone()).or_insert(0) += 1;
            *stats.by_error_type.entry(error_name(&letter.error_type)).or_insert(0) += 1;
            stats.newest_at = stats.newest_at.or(Some(letter.died_at));
        }
        match page.next {
            Some(last) if stats.counted < limits::OJS_STATS_LETTERS_MAX as u64 => after = Some(last),
            Some(_) | None => break,
        }
    }
    let oldest = letters(app, all, Sort::DiedAtAsc, None, 1).await?;
    stats.oldest_at = oldest.letters.first().map(|letter| letter.died_at);
    Ok(stats)
}
