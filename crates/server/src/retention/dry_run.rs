//! What a pass would take away if it ran now, and why it may. Removes nothing.

use std::collections::BTreeMap;

use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::retention::{Effective, Limit, PruningPolicy};
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::retention::{Prunable, QueueStanding};

use super::policy::{Policies, Scope};
use super::step::{self, Behind, Step, Sum};
use crate::app::App;

/// What would go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DryRun {
    pub at: Time,
    pub rows: Vec<WouldGo>,
    /// Counts that would stay over their limits, because what is too much is held; by how many.
    pub unmet: Vec<(Scope, u64)>,
    /// False if there is more than a dry run looks at: it is at least this.
    pub complete: bool,
}

/// Letters of one status in one queue that one limit would push out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WouldGo {
    pub source: String,
    pub queue: String,
    pub status: Status,
    pub limit: Limit,
    pub effective: Effective,
    pub archived: u64,
    pub deleted: u64,
    /// Of the archived ones, those that no policy could delete.
    pub inside_floor: u64,
    /// Of all, those in an unfinished plan; only a count asks.
    pub planned: u64,
    /// Letters of this status in the queue that stay because they are held.
    pub held: u64,
    /// When the retention of the oldest and the newest that would go began.
    pub oldest_at: Time,
    pub newest_at: Time,
}

type Rows = BTreeMap<(String, String, Status, Limit), WouldGo>;

/// Goes the steps of a pass in thought.
pub async fn dry_run(app: &App) -> Result<DryRun, StoreError> {
    let now = app.clock.now();
    let mut walk = Walk {
        app,
        policies: Policies::of(&app.config),
        standings: app.store.queue_standings().await?,
        now,
        rows: Rows::new(),
        looked_at: 0,
        complete: true,
    };
    for step in step::by_age(&walk.policies, &walk.standings, now) {
        walk.go(step).await?;
    }
    let sums = walk.sums();
    let unmet = sums.iter().filter(|sum| sum.unmet() > 0);
    let unmet = unmet.map(|sum| (sum.scope.clone(), sum.unmet())).collect();
    for step in step::by_count(sums, now) {
        walk.go(step).await?;
    }
    Ok(DryRun { at: now, rows: walk.rows.into_values().collect(), unmet, complete: walk.complete })
}

struct Walk<'a> {
    app: &'a App,
    policies: Policies,
    standings: Vec<QueueStanding>,
    now: Time,
    rows: Rows,
    looked_at: u64,
    complete: bool,
}

impl Walk<'_> {
    async fn go(&mut self, mut step: Step) -> Result<(), StoreError> {
        loop {
            if self.looked_at >= limits::DRY_RUN_LETTERS_MAX {
                self.complete = false;
                return Ok(());
            }
            let query = step.wide_query(limits::DRY_RUN_LETTERS_PER_READ);
            let asked = query.limit;
            let found = self.app.store.prunable(query).await?;
            self.looked_at += found.len() as u64;
            let left = step.left().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
            let going: Vec<&Prunable> =
                found.iter().filter(|letter| !self.is_gone(&step, letter)).take(left).collect();
            for letter in &going {
                self.add(&step, letter);
            }
            let behind = if found.len() < asked { Behind::Nothing } else { Behind::More };
            if !step.advance(&found, going.len() as u64, behind) {
                return Ok(());
            }
        }
    }

    /// Whether a letter would have gone for its age before it is counted.
    fn is_gone(&self, step: &Step, letter: &Prunable) -> bool {
        let Prunable { source, queue, key, .. } = letter;
        match step.limit {
            Limit::MaxAge => false,
            Limit::MaxCount => step::too_old(&self.policies, source, queue, step.status, self.now)
                .is_some_and(|until| key.retention_at <= until),
        }
    }

    fn add(&mut self, step: &Step, letter: &Prunable) {
        let Prunable { source, queue, key, since, .. } = letter;
        let effective = self.policies.effective(source, queue);
        let row = (source.clone(), queue.clone(), step.status, step.limit);
        let held = || {
            let of_row =
                |it: &&QueueStanding| it.source == *source && it.queue == *queue && it.status == step.status;
            self.standings.iter().find(of_row).map_or(0, |it| it.held)
        };
        let row = self.rows.entry(row).or_insert_with(|| WouldGo {
            source: source.clone(),
            queue: queue.clone(),
            status: step.status,
            limit: step.limit,
            effective,
            archived: 0,
            deleted: 0,
            inside_floor: 0,
            planned: 0,
            held: held(),
            oldest_at: key.retention_at,
            newest_at: key.retention_at,
        });
        match effective.outlet(*since, self.now) {
            PruningPolicy::Archive => row.archived += 1,
            PruningPolicy::Delete => row.deleted += 1,
        }
        row.inside_floor += u64::from(since.plus_ms(effective.min_age.0.ms()) > self.now);
        row.planned += u64::from(step.takes_planned());
        row.oldest_at = row.oldest_at.min(key.retention_at);
        row.newest_at = row.newest_at.max(key.retention_at);
    }

    /// The counts without what would have gone for its age.
    fn sums(&self) -> Vec<Sum> {
        let mut standings = self.standings.clone();
        for standing in &mut standings {
            let key = (standing.source.clone(), standing.queue.clone(), standing.status, Limit::MaxAge);
            let gone = self.rows.get(&key).map_or(0, |row| row.archived + row.deleted);
            standing.letters = standing.letters.saturating_sub(gone);
        }
        step::sums(&self.policies, &standings)
    }
}
