//! Numbers over everything: jobs by state, workers, the dead letter, and how much is done in a minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::state::JobState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::stats::StatsOf;
use serde_json::{Value, json};

use super::counts_value;
use super::workers::is_dead;
use crate::app::App;
use crate::ojs::problem::Problem;
use crate::ojs::{Answer, about, events};

const MINUTE_MS: i64 = 60_000;

pub(in crate::ojs) async fn stats(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let now = app.clock.now();
    let (queues, workers) = (app.store.queues().await?, app.store.workers().await?);
    let mut jobs: BTreeMap<JobState, u64> = BTreeMap::new();
    for (state, count) in queues.iter().flat_map(|queue| &queue.counts) {
        *jobs.entry(*state).or_default() += count;
    }
    let dead = app.store.stats(StatsOf::Jobs(Status::Pending)).await?;
    let body = json!({
        "queues": queues.len(),
        "paused_queues": queues.iter().filter(|queue| queue.paused).count(),
        "workers": workers.iter().filter(|worker| !is_dead(worker, now)).count(),
        "jobs": counts_value(&jobs),
        "dead_letter": {"total": dead.total},
        "throughput": throughput(&app).await?,
        "uptime_seconds": about::uptime().as_secs(),
        "computed_at": now.to_string(),
    });
    Ok(Answer(StatusCode::OK, body).into_response())
}

/// Runs that ended well and badly within the last minute. Of a minute that is too full to be counted the end is, and
/// stands for the whole.
async fn throughput(app: &App) -> Result<Value, StoreError> {
    let now = app.clock.now();
    let kept = app.store.events_kept().await?;
    let minute = events::place_at(app, now.plus_ms(-MINUTE_MS)).await?;
    let mut place = minute.max(kept.newest.saturating_sub(limits::OJS_THROUGHPUT_EVENTS_MAX as u64));
    let shortened = place > minute;
    let (mut processed, mut failed, mut from) = (0_u64, 0_u64, None);
    while place < kept.newest {
        let read = app.store.events(place, limits::EVENTS_PER_READ).await?;
        let Some(last) = read.last() else { break };
        place = last.position;
        from = from.or(read.first().map(|event| event.at));
        for event in &read {
            match event.kind.as_str() {
                "job.completed" => processed += 1,
                "job.failed" => failed += 1,
                _ => {}
            }
        }
    }
    let span_ms = match from {
        Some(from) if shortened => now.since(from).clamp(1, MINUTE_MS),
        Some(_) | None => MINUTE_MS,
    };
    let per_minute = |count: u64| count * MINUTE_MS.unsigned_abs() / span_ms.unsigned_abs();
    Ok(json!({
        "processed_per_minute": per_minute(processed),
        "failed_per_minute": per_minute(failed),
    }))
}
