//! Facts from kept counters: how things are now.

use std::sync::Arc;

use lazaret_core::alert::{Facts, Measure, Reading, RuleKind, Scope, Severity};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::series::{Line, Point, SeriesBy, SeriesOf, SeriesQuery, Step};
use lazaret_store::stats::StatsOf;

use super::checks::{self, Level};
use super::facts::reading;
use crate::app::App;
use crate::archive;
use crate::books;
use crate::config::StoreUrl;
use crate::web::format::{grouped, length};

/// What a spike is compared with: the average of a day, so that a quiet night makes no morning a spike.
const BASELINE_HOURS: i64 = 24;

/// Measures every level; `slow` ones too if they are due.
pub(super) async fn measure(
    app: &Arc<App>,
    slow: bool,
    now: Time,
    facts: &mut Facts,
) -> Result<(), StoreError> {
    counts(app, facts).await?;
    flows(app, now, facts).await?;
    sources(app, now, facts);
    if let Some(since) = archive::state(app).failing_since {
        let what = archive::state(app).problem.unwrap_or_default();
        add_all(
            facts,
            RuleKind::ArchiveFailing,
            seconds(now, since),
            format!("The archive cannot be written: {what}"),
        );
    }
    facts.complete.insert((RuleKind::ArchiveFailing, Scope::All));
    if slow {
        backlog_age(app, now, facts).await?;
        ledger(app, facts).await?;
        disk(app, facts);
        health_checks(app, facts).await;
    }
    Ok(())
}

fn add_all(facts: &mut Facts, kind: RuleKind, value: f64, summary: String) {
    facts.readings.push(reading(kind, Scope::All, "", Measure::Level(value), summary, Vec::new()));
}

fn seconds(now: Time, since: Time) -> f64 {
    now.since(since).max(0) as f64 / 1_000.0
}

/// Pending letters by type, queue and source.
async fn counts(app: &App, facts: &mut Facts) -> Result<(), StoreError> {
    let stats = app.store.stats(StatsOf::Only(Status::Pending)).await?;
    for scope in app.config.alerts.rules.scopes(RuleKind::LetterCount) {
        let all = [(String::new(), stats.total)];
        let values: &[(String, u64)] = match scope {
            Scope::Type => &stats.by_type,
            Scope::Queue => &stats.by_queue,
            Scope::Source => &stats.by_source,
            _ => &all,
        };
        for (subject, letters) in values {
            let of =
                if subject.is_empty() { String::new() } else { format!(" of {} {subject}", scope.name()) };
            let summary = format!("{} pending letters{of}", grouped(*letters));
            let measure = Measure::Level(*letters as f64);
            facts.readings.push(reading(RuleKind::LetterCount, scope, subject, measure, summary, Vec::new()));
        }
        facts.complete.insert((RuleKind::LetterCount, scope));
    }
    Ok(())
}

fn by(scope: Scope) -> Option<SeriesBy> {
    match scope {
        Scope::Type => Some(SeriesBy::Type),
        Scope::Queue => Some(SeriesBy::Queue),
        Scope::Source => Some(SeriesBy::Source),
        _ => None,
    }
}

/// Spikes and growth, from lines of minutes.
async fn flows(app: &App, now: Time, facts: &mut Facts) -> Result<(), StoreError> {
    let rules = &app.config.alerts.rules;
    let mut scopes = rules.scopes(RuleKind::Spike);
    scopes.extend(rules.scopes(RuleKind::Growth));
    scopes.sort_unstable();
    scopes.dedup();
    for scope in scopes {
        let window_ms = rules.window_ms(RuleKind::Spike, scope).max(rules.window_ms(RuleKind::Growth, scope));
        let of = by(scope).map_or(SeriesOf::All, |by| SeriesOf::Largest(by, limits::ALERT_SUBJECTS_MAX));
        let lines = lines(app, of, Step::Minute, floor(now.plus_ms(-window_ms)), now).await?;
        let spikes = spikes(app, scope, &lines, now).await?;
        facts.readings.extend(spikes);
        facts.readings.extend(lines.iter().filter_map(|line| growth(app, scope, line, now)));
        facts.complete.extend([(RuleKind::Spike, scope), (RuleKind::Growth, scope)]);
    }
    Ok(())
}

async fn lines(app: &App, of: SeriesOf, step: Step, from: Time, now: Time) -> Result<Vec<Line>, StoreError> {
    // The minute that has just begun is in.
    let until = now.plus_ms(step.ms());
    app.store.series(SeriesQuery { of, step, from, until }).await
}

fn floor(at: Time) -> Time {
    Time::from_minute(at.minute())
}

fn within(line: &Line, window_ms: i64, now: Time) -> impl Iterator<Item = &Point> {
    let from = floor(now.plus_ms(-window_ms));
    line.points.iter().filter(move |point| point.at >= from)
}

async fn spikes(app: &App, scope: Scope, lines: &[Line], now: Time) -> Result<Vec<Reading>, StoreError> {
    let mut found = Vec::new();
    for line in lines {
        let Some(rule) =
            app.config.alerts.rules.find(RuleKind::Spike, scope, &[(scope.name(), line.value.as_str())])
        else {
            continue;
        };
        let letters: u64 = within(line, rule.window_ms, now).map(|point| point.arrived).sum();
        if letters >= rule.min_count {
            found.push((line.value.clone(), letters, rule.window_ms));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // Only what grew is compared: few subjects, and most of the time none.
    let of = match by(scope) {
        Some(by) => SeriesOf::Values(by, found.iter().map(|(value, _, _)| value.clone()).collect()),
        None => SeriesOf::All,
    };
    let from = now.plus_ms(-BASELINE_HOURS * Step::Hour.ms());
    let days = self::lines(app, of, Step::Hour, from, now).await?;
    let mut readings = Vec::new();
    for ((subject, letters, window_ms), day) in found.into_iter().zip(&days) {
        let arrived: u64 = day.points.iter().map(|point| point.arrived).sum();
        let usual = baseline(arrived.saturating_sub(letters), window_ms);
        let times = letters as f64 / usual;
        let of = if subject.is_empty() { String::new() } else { format!(" of {} {subject}", scope.name()) };
        let summary = format!(
            "{} letters{of} in {}, {} times the baseline",
            grouped(letters),
            length(window_ms),
            grouped(times as u64)
        );
        let measure = Measure::Level(times);
        readings.push(reading(RuleKind::Spike, scope, &subject, measure, summary, Vec::new()));
    }
    Ok(readings)
}

/// Letters that a window usually has: the average of the day before. With no history, or next to none, it is one letter.
fn baseline(arrived_before: u64, window_ms: i64) -> f64 {
    let windows = (BASELINE_HOURS * Step::Hour.ms()) as f64 / window_ms.max(1) as f64;
    (arrived_before as f64 / windows).max(1.0)
}

fn growth(app: &App, scope: Scope, line: &Line, now: Time) -> Option<Reading> {
    let rules = &app.config.alerts.rules;
    let rule = rules.find(RuleKind::Growth, scope, &[(scope.name(), line.value.as_str())])?;
    let points = || within(line, rule.window_ms, now);
    let arrived: u64 = points().map(|point| point.arrived).sum();
    let departed: u64 = points().map(|point| point.departed).sum();
    let grown = arrived as f64 - departed as f64;
    let summary = format!(
        "{} {} grows: {} letters in, {} out in {}",
        scope.name(),
        line.value,
        grouped(arrived),
        grouped(departed),
        length(rule.window_ms)
    );
    (grown > 0.0)
        .then(|| reading(RuleKind::Growth, scope, &line.value, Measure::Level(grown), summary, Vec::new()))
}

/// Sources that live elsewhere, as this instance sees them.
fn sources(app: &App, now: Time, facts: &mut Facts) {
    for (name, running) in app.sources.iter() {
        let health = running.source.state();
        if !health.connected {
            // One that was never connected is so since this instance started.
            let since = health.since.unwrap_or(app.metrics.started_at());
            let why = health.last_error.unwrap_or_default();
            let why = app.redactor.text(&why).into_owned();
            let summary = format!("Source {name} is disconnected: {why}");
            let measure = Measure::Level(seconds(now, since));
            let kind = RuleKind::SourceDisconnected;
            facts.readings.push(reading(kind, Scope::Source, name, measure, summary, Vec::new()));
        }
        if let Some(rate) = health.growth_per_min.filter(|rate| *rate > 0.0) {
            let summary = format!("The dead-letter queue of {name} grows by {rate:.1} messages per minute");
            let measure = Measure::Level(rate);
            facts.readings.push(reading(
                RuleKind::QueueGrowth,
                Scope::Source,
                name,
                measure,
                summary,
                Vec::new(),
            ));
        }
    }
    facts
        .complete
        .extend([RuleKind::SourceDisconnected, RuleKind::QueueGrowth].map(|kind| (kind, Scope::Source)));
}

/// How long the oldest pending letters wait.
async fn backlog_age(app: &App, now: Time, facts: &mut Facts) -> Result<(), StoreError> {
    let scopes = app.config.alerts.rules.scopes(RuleKind::BacklogAge);
    if scopes.is_empty() {
        return Ok(());
    }
    for standing in app.store.queue_standings().await? {
        let Some(oldest) = standing.oldest_at.filter(|_| standing.status == Status::Pending) else {
            continue;
        };
        let (age, told) = (seconds(now, oldest), length(now.since(oldest)));
        for scope in &scopes {
            let (subject, labels) = match scope {
                Scope::Queue => {
                    (standing.queue.as_str(), vec![("source".to_owned(), standing.source.clone())])
                }
                Scope::Source => (standing.source.as_str(), Vec::new()),
                _ => ("", Vec::new()),
            };
            let summary = format!("The oldest pending letter of queue {} waits for {told}", standing.queue);
            let measure = Measure::Level(age);
            facts.readings.push(reading(RuleKind::BacklogAge, *scope, subject, measure, summary, labels));
        }
    }
    facts.complete.extend(scopes.into_iter().map(|scope| (RuleKind::BacklogAge, scope)));
    Ok(())
}

async fn ledger(app: &Arc<App>, facts: &mut Facts) -> Result<(), StoreError> {
    let difference = books::seen(app).await?.ledger.difference();
    let summary = format!("{difference} letters are unaccounted for");
    add_all(facts, RuleKind::LedgerDifference, difference.unsigned_abs() as f64, summary);
    facts.complete.insert((RuleKind::LedgerDifference, Scope::All));
    Ok(())
}

/// How full the disk of the data folder is; the disk of a shared database is not ours to see.
fn disk(app: &App, facts: &mut Facts) {
    if app.config.store != StoreUrl::Embedded {
        return;
    }
    match rustix::fs::statvfs(&app.config.data) {
        Ok(disk) if disk.f_blocks > 0 => {
            let used = disk.f_blocks.saturating_sub(disk.f_bfree);
            let percent = used as f64 * 100.0 / (used + disk.f_bavail).max(1) as f64;
            let summary = format!("The disk of the data folder is {percent:.1} % full");
            add_all(facts, RuleKind::DiskUsage, percent, summary);
            facts.complete.insert((RuleKind::DiskUsage, Scope::All));
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "the disk of the data folder cannot be measured"),
    }
}

/// Everything that is wrong and has no rule of its own.
async fn health_checks(app: &Arc<App>, facts: &mut Facts) {
    let findings = match checks::findings(app).await {
        Ok(findings) => findings,
        Err(problem) => {
            tracing::warn!(problem = problem.text(), "health checks could not be run");
            return;
        }
    };
    for finding in findings {
        let severity = match finding.level {
            Level::Critical => Severity::Critical,
            Level::Warning => Severity::Warning,
        };
        let labels = vec![("page".to_owned(), finding.link.clone())];
        let subject = format!("{} {}", finding.about, finding.link);
        let summary = format!("{}: {}", finding.about, finding.what);
        let found =
            reading(RuleKind::HealthCheck, Scope::Check, &subject, Measure::Level(1.0), summary, labels);
        facts.readings.push(Reading { severity: Some(severity), ..found });
    }
    facts.complete.insert((RuleKind::HealthCheck, Scope::Check));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_040_020_the_baseline_is_a_day_and_never_less_than_a_letter() {
        let five_minutes = 5 * 60_000;
        assert_eq!(baseline(0, five_minutes), 1.0, "no history");
        assert_eq!(baseline(100, five_minutes), 1.0, "a quiet day");
        assert_eq!(baseline(2_880, five_minutes), 10.0, "288 windows a day");
    }
}
