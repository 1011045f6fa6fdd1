//! The pruner: one pass after the other, batch by batch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lazaret_core::limits;
use lazaret_core::retention::Limit;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::retention::{Prunable, PruneBatch, PruneLetter};

use super::policy::{Policies, Scope};
use super::step::{self, Behind, Step};
use super::{next_prune_at, turn_of};
use crate::app::App;
use crate::kill;
use crate::operations::Progress;

/// The passes of one instance. What is kept here is no progress: without it the next pass begins anew.
#[derive(Debug)]
pub struct Pruner(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The last moment to prune at that was dealt with, or that there was before this instance.
    turn: i64,
    stage: Stage,
    last: Option<Report>,
}

#[derive(Debug)]
enum Stage {
    Idle,
    /// Between two batches.
    Resting(Box<Pass>),
    /// Somebody is at it.
    Working,
}

/// What a pass took away.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// When it began.
    pub at: Time,
    /// By source, queue and limit.
    pub gone: BTreeMap<(String, String, Limit), Gone>,
    /// Counts that stay over their limits, because what is too much is held; by how many.
    pub unmet: Vec<(Scope, u64)>,
    /// Whether the pass is over; else the rest goes behind it.
    pub complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gone {
    pub archived: u64,
    pub deleted: u64,
}

impl Report {
    pub fn sum(&self) -> Gone {
        self.gone.values().fold(Gone::default(), |sum, it| Gone {
            archived: sum.archived + it.archived,
            deleted: sum.deleted + it.deleted,
        })
    }

    fn letters(&self) -> u64 {
        let Gone { archived, deleted } = self.sum();
        archived + deleted
    }
}

/// Why nothing was pruned.
#[derive(Debug, thiserror::Error)]
pub enum NotPruned {
    #[error("not the leader: another instance prunes")]
    NotLeading,
    #[error("pruning is already running")]
    UnderWay,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Pruner {
    pub fn new(now: Time) -> Pruner {
        Pruner(Mutex::new(State { turn: turn_of(now), stage: Stage::Idle, last: None }))
    }

    /// What the last pass of this instance took away.
    pub fn last(&self) -> Option<Report> {
        self.state().last.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the pass that rests, or a new one if it is time for it.
    fn take_due(&self, now: Time) -> Option<Turn<'_>> {
        let mut state = self.state();
        let due = turn_of(now) != state.turn;
        match std::mem::replace(&mut state.stage, Stage::Working) {
            Stage::Resting(pass) => Some(Turn { pruner: self, pass: Some(pass) }),
            Stage::Idle if due => Some(Turn { pruner: self, pass: None }),
            stage @ (Stage::Idle | Stage::Working) => {
                state.stage = stage;
                None
            }
        }
    }

    /// Takes the pass that rests, or a new one.
    fn take(&self) -> Option<Turn<'_>> {
        let mut state = self.state();
        match std::mem::replace(&mut state.stage, Stage::Working) {
            Stage::Resting(pass) => Some(Turn { pruner: self, pass: Some(pass) }),
            Stage::Idle => Some(Turn { pruner: self, pass: None }),
            Stage::Working => None,
        }
    }

    /// Drops a pass that rests: another instance leads, and goes over everything itself.
    fn forget(&self) {
        let mut state = self.state();
        if let Stage::Resting(_) = state.stage {
            state.stage = Stage::Idle;
        }
    }
}

/// The right to go on with the pass. Whoever drops it gives it back; what had failed begins anew.
struct Turn<'a> {
    pruner: &'a Pruner,
    pass: Option<Box<Pass>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pruner.state().stage = self.pass.take().map_or(Stage::Idle, Stage::Resting);
    }
}

impl Turn<'_> {
    /// Goes on by one batch; gives what the pass has done so far, or all of it.
    async fn go_on(&mut self, app: &App) -> Result<Report, StoreError> {
        let policies = Policies::of(&app.config);
        // Under other policies what was found before may stay.
        let resting = self.pass.take().filter(|pass| pass.policies == policies);
        let mut pass = match resting {
            Some(pass) => pass,
            None => Box::new(Pass::begin(app, policies).await?),
        };
        match pass.step(app).await? {
            Progress::More => {
                let report = pass.report.clone();
                self.pass = Some(pass);
                Ok(report)
            }
            Progress::Idle => {
                let report = Report { complete: true, ..pass.report };
                log(&report);
                let mut state = self.pruner.state();
                state.turn = turn_of(report.at);
                state.last = Some(report.clone());
                Ok(report)
            }
        }
    }
}

/// One walk over everything that a limit could push out.
#[derive(Debug)]
struct Pass {
    policies: Policies,
    steps: VecDeque<Step>,
    phase: Phase,
    report: Report,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Ages,
    Counts,
}

impl Pass {
    async fn begin(app: &App, policies: Policies) -> Result<Pass, StoreError> {
        let now = app.clock.now();
        let steps = step::by_age(&policies, &app.store.queue_standings().await?, now).into();
        let report = Report { at: now, ..Report::default() };
        Ok(Pass { policies, steps, phase: Phase::Ages, report })
    }

    /// One bounded batch.
    async fn step(&mut self, app: &App) -> Result<Progress, StoreError> {
        let Some(step) = self.steps.front_mut() else {
            return match self.phase {
                Phase::Ages => self.count(app).await,
                Phase::Counts => Ok(Progress::Idle),
            };
        };
        let query = step.query(limits::PRUNED_PER_WRITE);
        let asked = query.limit;
        let found = app.store.prunable(query).await?;
        let (mut looked_at, mut removed) = (found.len(), 0);
        if !found.is_empty() {
            let letters = found.iter().map(|letter| to_go(&self.policies, letter)).collect();
            let (status, limit) = (step.status, step.limit);
            let batch = PruneBatch { letters, status, limit, at: app.clock.now() };
            kill::reach(app, "prune_found");
            let pruned = app.store.prune(batch).await?;
            kill::reach(app, "prune_gone");
            // At least one is looked at, or this would never end.
            looked_at = pruned.looked_at.clamp(1, found.len());
            for queue in pruned.queues {
                removed += queue.archived + queue.deleted;
                let gone = self.report.gone.entry((queue.source, queue.queue, limit)).or_default();
                gone.archived += queue.archived;
                gone.deleted += queue.deleted;
            }
        }
        let all_looked_at = looked_at == found.len() && found.len() < asked;
        let behind = if all_looked_at { Behind::Nothing } else { Behind::More };
        if !step.advance(&found[..looked_at], removed, behind) {
            self.steps.pop_front();
        }
        Ok(Progress::More)
    }

    /// Goes over to the counts, as they are after what was too old went.
    async fn count(&mut self, app: &App) -> Result<Progress, StoreError> {
        let sums = step::sums(&self.policies, &app.store.queue_standings().await?);
        let unmet = sums.iter().filter(|sum| sum.unmet() > 0);
        self.report.unmet = unmet.map(|sum| (sum.scope.clone(), sum.unmet())).collect();
        self.steps = step::by_count(sums, app.clock.now()).into();
        self.phase = Phase::Counts;
        Ok(if self.steps.is_empty() { Progress::Idle } else { Progress::More })
    }
}

fn to_go(policies: &Policies, letter: &Prunable) -> PruneLetter {
    let effective = policies.effective(&letter.source, &letter.queue);
    PruneLetter {
        letter: letter.key.letter,
        retention_at: letter.key.retention_at,
        policy: effective.pruning_policy.0,
        min_age: effective.min_age.0,
    }
}

fn log(report: &Report) {
    let Gone { archived, deleted } = report.sum();
    if report.letters() > 0 {
        tracing::info!(archived, deleted, "pruned: {archived} letters archived, {deleted} deleted");
    }
    for (scope, letters) in &report.unmet {
        tracing::warn!(letters, "{scope}: {letters} letters over max_count kept: held");
    }
}

/// Goes on with the pass by one batch, if it is time for one and this instance leads.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    if !app.store.lead().await? {
        app.pruner.forget();
        return Ok(Progress::Idle);
    }
    let Some(mut turn) = app.pruner.take_due(app.clock.now()) else { return Ok(Progress::Idle) };
    let report = turn.go_on(app).await?;
    Ok(if report.complete { Progress::Idle } else { Progress::More })
}

/// How long until the next pass, for whoever waits for it.
pub fn until_due(app: &App) -> Duration {
    let now = app.clock.now();
    Duration::from_millis(u64::try_from(next_prune_at(now).since(now)).unwrap_or(0))
}

/// How long to rest after a step that took so long.
pub fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(limits::PRUNE_REST_TIMES).max(Duration::from_millis(limits::PRUNE_REST_MS))
}

/// Prunes at once, within the call as far as it goes; the rest is left to `tick`.
pub async fn prune_now(app: &App) -> Result<Report, NotPruned> {
    if !app.store.lead().await? {
        return Err(NotPruned::NotLeading);
    }
    let mut turn = app.pruner.take().ok_or(NotPruned::UnderWay)?;
    let until = Instant::now() + Duration::from_millis(limits::PRUNE_CALL_MS_MAX);
    loop {
        let started = Instant::now();
        let report = turn.go_on(app).await?;
        if report.complete || report.letters() >= limits::PRUNED_PER_CALL || started > until {
            return Ok(report);
        }
        tokio::time::sleep(rest_after(started.elapsed())).await;
    }
}
