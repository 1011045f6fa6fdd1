//! One look at everything: what this instance counted, what its store counted, and how things stand in the store.
//!
//! All of it comes from kept counters: a look costs the same with a million letters as with none.

use std::fmt;

use lazaret_core::alert::AlertState;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::job::SOURCE;
use lazaret_store::moves::Move;
use lazaret_store::stats::StatsOf;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

use super::family::{Family, Level, Total};
use crate::app::App;
use crate::retention::next_prune_at;

/// All metrics as text.
pub async fn text(app: &App) -> Result<String, StoreError> {
    let mut registry = Registry::default();
    standing(app, &mut registry).await?;
    done_by_store(app, &mut registry).await?;
    let mut text = String::new();
    let written = encode_registry(&mut text, &registry)
        .and_then(|()| encode_registry(&mut text, &app.metrics.registry));
    written.map_err(|fmt::Error| StoreError::Corrupt("a metric cannot be written".to_owned()))?;
    Ok(text)
}

/// How things stand now.
async fn standing(app: &App, registry: &mut Registry) -> Result<(), StoreError> {
    let build = Family::register(
        registry,
        "lazaret_build_info",
        "Always 1; says which version runs",
        ["version"],
        Level::default,
    );
    build.of([env!("CARGO_PKG_VERSION")]).add(1);
    let started = Family::register(
        registry,
        "lazaret_start_time_seconds",
        "When this instance was started, in seconds since 1970",
        [],
        Level::default,
    );
    started.of([]).add(u64::try_from(app.metrics.started_at.ms() / 1_000).unwrap_or(0));
    let readers = Family::register(
        registry,
        "lazaret_event_readers",
        "Readers that follow events over an open connection",
        [],
        Level::default,
    );
    readers.of([]).add(app.readers.count() as u64);
    retention(app, registry);
    sources(app, registry);
    alerts(app, registry).await?;
    letters(app, registry).await?;
    queues(app, registry).await
}

/// Alerts that fire or are pending, by rule.
async fn alerts(app: &App, registry: &mut Registry) -> Result<(), StoreError> {
    let labels = ["rule", "severity", "state"];
    let alerts =
        Family::register(registry, "lazaret_alerts", "Alerts that are not resolved", labels, Level::default);
    for alert in app.store.alerts(limits::ALERTS_MAX).await? {
        if alert.state != AlertState::Resolved {
            alerts.of([&alert.rule, alert.severity.name(), alert.state.name()]).add(1);
        }
    }
    Ok(())
}

/// When letters are pruned, and whether limits hold; by what this instance knows, for no letter is counted here.
fn retention(app: &App, registry: &mut Registry) {
    let mut level = |name, help| Family::register(registry, name, help, [], Level::default);
    let next =
        level("lazaret_prune_next_time_seconds", "When letters are pruned next, in seconds since 1970");
    let last =
        level("lazaret_prune_last_time_seconds", "When this instance pruned last, in seconds since 1970");
    let unmet = level(
        "lazaret_prune_unmet_letters",
        "Letters over a limit of count that stay because they are held, at the last prune of this instance",
    );
    let seconds = |at: Time| u64::try_from(at.ms() / 1_000).unwrap_or(0);
    next.of([]).add(seconds(next_prune_at(app.clock.now())));
    if let Some(report) = app.pruner.last() {
        last.of([]).add(seconds(report.at));
        unmet.of([]).add(report.unmet.iter().map(|(_, letters)| letters).sum());
    }
}

/// How the sources that live elsewhere stand, as this instance sees them.
fn sources(app: &App, registry: &mut Registry) {
    let mut level = |name, help| Family::register(registry, name, help, ["source"], Level::default);
    let connected = level("lazaret_source_connected", "Whether a source is connected");
    let lag = level("lazaret_source_lag_ms", "How long the longest waiting dead message waits to be stored");
    let depth = level("lazaret_source_depth", "Dead messages that wait at a source to be captured");
    let growth = level("lazaret_source_growth_per_minute", "By how many messages a dead-letter queue grows");
    let duties = Family::register(
        registry,
        "lazaret_source_duty",
        "What a duty of a source has done since the start, or sees now, by name",
        ["source", "duty", "count"],
        Level::default,
    );
    for (name, running) in app.sources.iter() {
        let health = running.source.state();
        connected.of([name]).add(u64::from(health.connected));
        lag.of([name]).add(health.lag_ms);
        if let Some(waiting) = health.depth {
            depth.of([name]).add(waiting);
            // A queue that shrinks, or was not watched long enough, does not grow.
            let rate = health.growth_per_min.unwrap_or(0.0).max(0.0);
            growth.of([name]).add(rate.round() as u64);
        }
        for duty in &running.duties {
            for (count, times) in duty.counts() {
                duties.of([name, duty.name(), count]).add(times);
            }
        }
    }
}

async fn letters(app: &App, registry: &mut Registry) -> Result<(), StoreError> {
    let letters =
        Family::register(registry, "lazaret_letters", "Live letters", ["source", "status"], Level::default);
    for status in Status::ALL {
        let stats = app.store.stats(StatsOf::Only(status)).await?;
        for (source, count) in stats.by_source {
            letters.of([&source, status.name()]).add(count);
        }
    }
    Ok(())
}

async fn queues(app: &App, registry: &mut Registry) -> Result<(), StoreError> {
    let dead = Family::register(
        registry,
        "ojs_dead_letter_total",
        "Jobs in the dead letter",
        ["queue"],
        Level::default,
    );
    let depth = Family::register(
        registry,
        "ojs_queue_depth",
        "Jobs of a queue by their state",
        ["queue", "state"],
        Level::default,
    );
    let stats = app.store.stats(StatsOf::Jobs(Status::Pending)).await?;
    let mut rest = stats.total;
    for (queue, count) in stats.by_queue {
        rest = rest.saturating_sub(count);
        dead.of([&queue]).add(count);
    }
    for queue in app.store.queues().await? {
        // A queue without dead letters has none, which is not the same as being unknown.
        dead.of([&queue.name]).add(0);
        for (state, jobs) in queue.counts {
            depth.of([&queue.name, state.name()]).add(jobs);
        }
    }
    // Statistics list the largest queues only.
    if rest > 0 {
        dead.of(["other"]).add(rest);
    }
    Ok(())
}

/// What was committed here, by the store's own count.
async fn done_by_store(app: &App, registry: &mut Registry) -> Result<(), StoreError> {
    let mut of_queue = |name, help| Family::register(registry, name, help, ["queue"], Total::default);
    let retried = of_queue("ojs_dead_letter_retried_total", "Jobs that people put back from the dead letter");
    let pruned = of_queue("ojs_dead_letter_pruned_total", "Jobs that retention took out of the dead letter");
    let mut of_type = |name, help| Family::register(registry, name, help, ["queue", "type"], Total::default);
    let added = of_type("ojs_dead_letter_added_total", "Deaths of jobs into the dead letter");
    let expired = of_type("ojs_job_expired_total", "Jobs that nobody fetched before they expired");
    let replayed = Family::register(
        registry,
        "ojs_dead_letter_replayed_total",
        "Jobs that replay rules put back from the dead letter",
        ["queue", "rule"],
        Total::default,
    );
    let mut of_source = |name, help| Family::register(registry, name, help, ["source"], Total::default);
    let captured = of_source("lazaret_captured_total", "Letters that were captured for the first time");
    let lives = of_source("lazaret_lives_total", "Further deaths of letters that were captured before");
    let duplicates = of_source("lazaret_duplicates_total", "Deaths that were told again");
    let taken = of_source("lazaret_pruned_total", "Letters that limits pushed out");
    for queue in app.store.queues().await? {
        for counter in [&retried, &pruned] {
            counter.of([&queue.name]).add(0);
        }
    }
    for source in app.config.sources.keys().map(String::as_str).chain([SOURCE]) {
        taken.of([source]).add(0);
    }
    for (Move { kind, source, queue, letter_type, rule }, times) in app.store.moves() {
        let of_job = source == SOURCE;
        match kind {
            "dead_letter.added" => captured.of([&source]).add(times),
            "dead_letter.recurred" | "dead_letter.relapsed" => lives.of([&source]).add(times),
            "duplicate" => duplicates.of([&source]).add(times),
            "dead_letter.pruned" => taken.of([&source]).add(times),
            _ => {}
        }
        match kind {
            "dead_letter.added" | "dead_letter.recurred" | "dead_letter.relapsed" if of_job => {
                added.of([&queue, &letter_type]).add(times);
            }
            "dead_letter.retried" if of_job => retried.of([&queue]).add(times),
            "dead_letter.replayed" if of_job => replayed.of([&queue, &rule]).add(times),
            "dead_letter.pruned" if of_job => pruned.of([&queue]).add(times),
            "job.expired" => expired.of([&queue, &letter_type]).add(times),
            _ => {}
        }
    }
    Ok(())
}
