//! Facts in, alerts out: windows, hysteresis, `for`, and damping of what flaps.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{AlertRule, RuleKind, Rules, Scope, Severity};
use super::state::{Alert, AlertKey, AlertState};
use crate::id::{IncidentId, LetterId};
use crate::limits;
use crate::time::Time;

/// The subject of alerts for which there is no room.
const OTHER: &str = "other";

/// One measurement of one subject.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    pub kind: RuleKind,
    pub scope: Scope,
    pub subject: String,
    pub measure: Measure,
    pub summary: String,
    pub labels: Vec<(String, String)>,
    pub sample: Option<LetterId>,
    pub incident: Option<IncidentId>,
    /// Beats the severity of the rule.
    pub severity: Option<Severity>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Measure {
    /// How it is now.
    Level(f64),
    /// How often it happened since the last evaluation.
    Occurred(u64),
    /// How often it happened within the window, counted elsewhere.
    Counted(u64),
}

/// What is known at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Facts {
    pub readings: Vec<Reading>,
    /// Kinds and scopes of which every level above zero is among the readings: those missing are zero.
    pub complete: BTreeSet<(RuleKind, Scope)>,
    /// Alerts that are over, whatever their window says.
    pub ended: Vec<(RuleKind, String)>,
}

/// What an evaluation changed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Evaluation {
    /// Alerts as they are now, if they are not as they were.
    pub changed: Vec<Alert>,
    /// Keys of alerts that began to fire.
    pub fired: Vec<AlertKey>,
    pub resolved: Vec<AlertKey>,
}

/// Evaluates all rules. `known` are the alerts that fire, are pending or resolved not long ago.
pub fn evaluate(rules: &Rules, known: &[Alert], facts: &Facts, now: Time) -> Evaluation {
    let before: BTreeMap<&AlertKey, &Alert> = known.iter().map(|alert| (&alert.key, alert)).collect();
    let mut alerts: BTreeMap<AlertKey, Alert> =
        known.iter().map(|alert| (alert.key.clone(), alert.clone())).collect();
    let mut levels: BTreeMap<AlertKey, f64> = BTreeMap::new();
    for reading in &facts.readings {
        take(rules, &mut alerts, &mut levels, reading, now);
    }
    for (kind, subject) in &facts.ended {
        for alert in alerts.values_mut().filter(|it| it.key.kind == *kind && it.key.subject == *subject) {
            alert.recent.clear();
        }
    }
    let mut evaluation = Evaluation::default();
    for (key, mut alert) in alerts {
        let rule = rules.find(key.kind, key.scope, &alert.labels());
        match levels.get(&key) {
            Some(level) => alert.value = *level,
            None if facts.complete.contains(&(key.kind, key.scope)) => alert.value = 0.0,
            None => {}
        }
        if counts_occurrences(key.kind) {
            let window_ms = rule.map_or(0, |rule| rule.window_ms);
            alert.recent.retain(|(minute, _)| now.since(Time::from_minute(*minute)) < window_ms + 60_000);
            alert.value = alert.recent.iter().map(|(_, count)| *count as f64).sum();
        }
        step(rule, &mut alert, now);
        let was = before.get(&key).copied();
        let is_idle = alert.state == AlertState::Resolved && alert.recent.is_empty();
        if was == Some(&alert) || (was.is_none() && is_idle) {
            continue;
        }
        let state = |alert: Option<&Alert>| alert.map(|alert| alert.state);
        let fires = alert.state == AlertState::Firing;
        if fires && state(was) != Some(AlertState::Firing) {
            evaluation.fired.push(key.clone());
        }
        if alert.state == AlertState::Resolved && state(was) == Some(AlertState::Firing) {
            evaluation.resolved.push(key);
        }
        alert.updated_at = now;
        evaluation.changed.push(alert);
    }
    evaluation
}

fn counts_occurrences(kind: RuleKind) -> bool {
    matches!(
        kind,
        RuleKind::NewLetter
            | RuleKind::Inflow
            | RuleKind::AggregateRepeat
            | RuleKind::Relapse
            | RuleKind::NewIncident
            | RuleKind::RegressedIncident
    )
}

/// Takes a reading into the alert of its subject.
fn take(
    rules: &Rules,
    alerts: &mut BTreeMap<AlertKey, Alert>,
    levels: &mut BTreeMap<AlertKey, f64>,
    reading: &Reading,
    now: Time,
) {
    let mut key = AlertKey { kind: reading.kind, scope: reading.scope, subject: reading.subject.clone() };
    let mut found = new_alert(key.clone(), now);
    found.labels.clone_from(&reading.labels);
    let Some(rule) = rules.find(reading.kind, reading.scope, &found.labels()) else { return };
    let is_level = matches!(reading.measure, Measure::Level(_));
    let is_low = match reading.measure {
        Measure::Level(level) => level <= rule.above,
        Measure::Counted(times) => times as f64 <= rule.above,
        Measure::Occurred(_) => false,
    };
    // What neither fires nor fired needs no alert.
    if is_low && !alerts.contains_key(&key) {
        return;
    }
    if !alerts.contains_key(&key) && alerts.len() >= limits::ALERTS_MAX {
        key.subject = OTHER.to_owned();
        found = new_alert(key.clone(), now);
    }
    let alert = alerts.entry(key.clone()).or_insert(found);
    alert.rule.clone_from(&rule.name);
    alert.severity = reading.severity.unwrap_or(rule.severity);
    alert.summary.clone_from(&reading.summary);
    if key.subject == reading.subject {
        alert.labels.clone_from(&reading.labels);
        alert.incident = reading.incident;
    }
    alert.sample = reading.sample.or(alert.sample);
    let minute = now.minute();
    match reading.measure {
        Measure::Level(level) => {
            let sum = levels.entry(key).or_insert(0.0);
            *sum = sum.max(level);
            alert.count = level.max(0.0) as u64;
        }
        Measure::Occurred(times) => {
            match alert.recent.last_mut().filter(|(last, _)| *last == minute) {
                Some((_, count)) => *count += times,
                None => alert.recent.push((minute, times)),
            }
            alert.count += times;
        }
        Measure::Counted(times) => {
            alert.recent = vec![(minute, times)];
            alert.count = times;
        }
    }
    debug_assert!(is_level != counts_occurrences(reading.kind));
}

fn new_alert(key: AlertKey, now: Time) -> Alert {
    Alert {
        rule: key.kind.name().to_owned(),
        severity: Severity::Info,
        state: AlertState::Resolved,
        since: now,
        fired_at: None,
        clear_since: None,
        resolved_at: None,
        value: 0.0,
        count: 0,
        recent: Vec::new(),
        summary: String::new(),
        labels: Vec::new(),
        sample: None,
        incident: None,
        flaps: 0,
        ack: None,
        updated_at: now,
        key,
    }
}

/// Moves one alert by its value. A rule that is gone or disabled ends what it fired.
fn step(rule: Option<&AlertRule>, alert: &mut Alert, now: Time) {
    let Some(rule) = rule else {
        if alert.state != AlertState::Resolved {
            resolve(alert, now);
        }
        return;
    };
    let firing = alert.state == AlertState::Firing;
    let breached = alert.value > if firing { rule.clear() } else { rule.above };
    match (alert.state, breached) {
        (AlertState::Resolved, false) => {}
        (AlertState::Resolved, true) => {
            alert.since = now;
            alert.state = AlertState::Pending;
            if rule.for_ms == 0 {
                fire(alert, now);
            }
        }
        (AlertState::Pending, true) if now.since(alert.since) >= rule.for_ms => fire(alert, now),
        (AlertState::Pending, true) => {}
        (AlertState::Pending, false) => {
            alert.state = AlertState::Resolved;
            alert.count = 0;
        }
        (AlertState::Firing, true) => alert.clear_since = None,
        (AlertState::Firing, false) => {
            let since = *alert.clear_since.get_or_insert(now);
            if now.since(since) >= damped(rule.resolve_after_ms, alert.flaps) {
                resolve(alert, now);
            }
        }
    }
}

fn fire(alert: &mut Alert, now: Time) {
    let again = alert.resolved_at.is_some_and(|at| now.since(at) < limits::ALERT_FLAP_MS);
    alert.flaps = if again { alert.flaps.saturating_add(1) } else { 0 };
    alert.state = AlertState::Firing;
    alert.fired_at = Some(now);
    alert.clear_since = None;
    alert.resolved_at = None;
    alert.ack = None;
}

fn resolve(alert: &mut Alert, now: Time) {
    alert.state = AlertState::Resolved;
    alert.resolved_at = alert.fired_at.map(|_| now);
    alert.clear_since = None;
    alert.recent.clear();
    alert.value = 0.0;
    alert.count = 0;
}

/// How long an alert has to be clear: each flap doubles it, from a minute on.
fn damped(resolve_after_ms: i64, flaps: u32) -> i64 {
    if flaps == 0 {
        return resolve_after_ms;
    }
    let base = resolve_after_ms.max(60_000);
    base.saturating_mul(1 << flaps.min(10)).min(limits::ALERT_DAMPED_MS_MAX.max(resolve_after_ms))
}
