//! Facts from events: what happened since the last evaluation, counted by the store.

use std::collections::BTreeMap;

use lazaret_core::alert::{Facts, Measure, OWN_SOURCE, Reading, RuleKind, Scope};
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::alert_store::{AlertProgress, EventCount, SampleLetter};

use super::deliver::OWN_TYPE;
use crate::app::App;
use crate::web::format::grouped;

/// Deaths: every one of them is a new letter to somebody (RULE-040-060).
const DEATHS: [&str; 3] = ["dead_letter.added", "dead_letter.recurred", RELAPSED];
const RELAPSED: &str = "dead_letter.relapsed";
const OPENED: &str = "incident.opened";
const REGRESSED: &str = "incident.regressed";
/// Somebody took care of the incident.
const ATTENDED: [&str; 3] = ["incident.diagnosed", "incident.fixed", "incident.closed"];

/// Counts what happened since the last evaluation; returns how far it came.
pub(super) async fn from_events(
    app: &App,
    progress: &AlertProgress,
    newest: u64,
    now: Time,
    facts: &mut Facts,
) -> Result<AlertProgress, StoreError> {
    // A store that was emptied begins anew.
    let (events, letters) = (progress.events.min(newest), progress.letters.min(newest));
    let until = newest.min(events + limits::ALERT_EVENTS_PER_TICK);
    let letters_until = newest.min(letters + limits::ALERT_LETTERS_PER_TICK);
    if until > events {
        let kinds = DEATHS.iter().chain([&OPENED, &REGRESSED]).chain(&ATTENDED).copied().collect();
        let counts = app.store.count_events(events, until, kinds).await?;
        count(app, &counts, facts);
    }
    let rules = &app.config.alerts.rules;
    let by_tenant = rules.scopes(RuleKind::Inflow);
    let by_aggregate = !rules.scopes(RuleKind::AggregateRepeat).is_empty();
    if letters_until > letters && (by_aggregate || !by_tenant.is_empty()) {
        let window_ms = rules.window_ms(RuleKind::AggregateRepeat, Scope::Aggregate);
        let since = now.plus_ms(-window_ms);
        for new in app.store.new_letters(letters, letters_until, DEATHS.to_vec(), since).await? {
            let labels = vec![("source".to_owned(), new.source.clone())];
            if let Some(aggregate) = &new.aggregate {
                let summary = format!("{} letters of order key {aggregate}", grouped(new.repeated));
                let measure = Measure::Counted(new.repeated);
                let kind = RuleKind::AggregateRepeat;
                facts.readings.push(reading(
                    kind,
                    Scope::Aggregate,
                    aggregate,
                    measure,
                    summary,
                    labels.clone(),
                ));
            }
            if let Some(tenant) = new.tenant.as_ref().filter(|_| by_tenant.contains(&Scope::Tenant)) {
                let summary = format!("New letters of tenant {tenant}");
                let measure = Measure::Occurred(new.times);
                facts.readings.push(reading(
                    RuleKind::Inflow,
                    Scope::Tenant,
                    tenant,
                    measure,
                    summary,
                    labels,
                ));
            }
        }
    }
    Ok(AlertProgress { revision: progress.revision, events: until, letters: letters_until })
}

fn count(app: &App, counts: &[EventCount], facts: &mut Facts) {
    let samples: BTreeMap<IncidentId, &SampleLetter> =
        counts.iter().filter_map(|count| Some((count.incident?, count.newest.as_ref()?))).collect();
    for count in counts {
        let Some(incident) = count.incident else { continue };
        let subject = incident.to_string();
        if ATTENDED.contains(&count.kind.as_str()) {
            for kind in [RuleKind::NewIncident, RuleKind::RegressedIncident] {
                facts.ended.push((kind, subject.clone()));
            }
            continue;
        }
        let sample = count.newest.as_ref().or(samples.get(&incident).copied());
        let mut add = |kind: RuleKind, what: &str| {
            let measure = Measure::Occurred(count.times);
            let (error, labels) = described(app, sample);
            let summary = format!("{what}{error}");
            let found = reading(kind, Scope::Incident, &subject, measure, summary, labels);
            let sample = sample.map(|sample| sample.id);
            facts.readings.push(Reading { incident: Some(incident), sample, ..found });
        };
        match count.kind.as_str() {
            OPENED => add(RuleKind::NewIncident, "New incident"),
            REGRESSED => add(RuleKind::RegressedIncident, "Incident regressed after its fix"),
            kind => {
                if kind == RELAPSED {
                    add(RuleKind::Relapse, "Letters died again after a redrive");
                }
                add(RuleKind::NewLetter, "New dead letters");
                if app.config.alerts.rules.scopes(RuleKind::Inflow).contains(&Scope::Incident) {
                    add(RuleKind::Inflow, "New letters of one incident");
                }
            }
        }
    }
}

/// The error of a letter as it may be shown, and its labels.
fn described(app: &App, sample: Option<&SampleLetter>) -> (String, Vec<(String, String)>) {
    let Some(sample) = sample else { return (String::new(), Vec::new()) };
    let message = app.redactor.text_cut(&sample.error_message);
    let shown = &message[..message.floor_char_boundary(limits::ALERT_MESSAGE_BYTES_MAX)];
    let error = format!(": {} {}: {shown}", sample.letter_type, sample.error_type);
    let pairs = [
        ("source", &sample.source),
        ("queue", &sample.queue),
        ("type", &sample.letter_type),
        ("error_type", &sample.error_type),
    ];
    let mut labels: Vec<(String, String)> =
        pairs.map(|(name, value)| (name.to_owned(), value.clone())).into();
    labels.extend(sample.tenant.as_ref().map(|tenant| ("tenant".to_owned(), tenant.clone())));
    (error, labels)
}

pub(super) fn reading(
    kind: RuleKind,
    scope: Scope,
    subject: &str,
    measure: Measure,
    summary: String,
    mut labels: Vec<(String, String)>,
) -> Reading {
    // One of the stores cannot hold a NUL.
    let subject = subject.replace('\0', "");
    let is_own = match scope {
        Scope::Type => subject == OWN_TYPE,
        Scope::Queue => subject == OWN_SOURCE,
        _ => false,
    };
    if is_own {
        labels.push(("source".to_owned(), OWN_SOURCE.to_owned()));
    }
    Reading { kind, scope, subject, measure, summary, labels, sample: None, incident: None, severity: None }
}
