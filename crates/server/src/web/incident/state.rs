//! How an incident stands for the one who looks: what comes next, and what cannot be done and why.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Query, State};
use lazaret_core::class::Category;
use lazaret_core::filter::Filter;
use lazaret_core::gate::{Governance, Shut};
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, IncidentState};
use lazaret_core::lifecycle::Status;
use lazaret_core::pattern::Pattern;
use lazaret_store::page::Total;

use super::super::format::grouped;
use super::super::viewer::Viewer;
use crate::access::Permission;
use crate::api::letters;
use crate::api::problem::Problem;
use crate::api::wire::incident::IncidentEntry;
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;
use crate::jobs::SOURCE;

/// Why the letters of an incident do not go back, if it is the gate that keeps them.
pub(super) async fn gate(app: &Arc<App>, entry: &IncidentEntry) -> Result<Option<String>, Problem> {
    let Some(next) = &entry.record.next else { return Ok(None) };
    let Ok(id) = IncidentId::parse(&entry.incident.id) else { return Ok(None) };
    let reason = || Some(next.reason.clone());
    // The gate asks by source: one letter of a source that asks for nothing is enough to have something to plan. Counters
    // know whether a source has any; among those of a large incident they would be looked for in vain for long.
    let mut filter = Filter::default();
    filter.status.include.insert(Status::Pending);
    let mut free = BTreeSet::new();
    for source in ungoverned(app) {
        filter.source.include = BTreeSet::from([source.clone()]);
        if app.store.count(filter.clone(), app.clock.now()).await? != Total::Exact(0) {
            free.insert(source);
        }
    }
    if free.is_empty() {
        return Ok(reason());
    }
    filter.source.include = free;
    filter.incident.include.insert(id);
    let query = vec![("q".to_owned(), filter.to_string()), ("limit".to_owned(), "1".to_owned())];
    let free = letters::list(State(Arc::clone(app)), Ok(Query(query))).await?.0.items;
    Ok(if free.is_empty() { reason() } else { None })
}

/// The sources whose letters go back without an analysis.
fn ungoverned(app: &App) -> BTreeSet<Pattern> {
    let configured = app.config.sources.iter().map(|(name, source)| (name.as_str(), source.governance));
    let all = configured.chain([(SOURCE, app.config.jobs.governance)]);
    all.filter(|(_, governance)| *governance == Governance::Optional)
        .map(|(name, _)| Pattern::new(name))
        .collect()
}

/// What is to be done now.
pub(super) struct Next {
    /// How urgent it looks.
    pub class: &'static str,
    pub title: &'static str,
    pub text: String,
    /// Where it is done: address and words.
    pub link: Option<(String, &'static str)>,
}

impl Next {
    pub fn of(entry: &IncidentEntry, gate: Option<&String>) -> Next {
        let counts = &entry.incident.by_status;
        let running =
            entry.record.redrives.iter().find(|run| run.launched_at.is_some() && run.finished_at.is_none());
        let stands_still = |run: &RedriveBody| run.state == "paused" || run.state == "stopped";
        let came_back = entry.incident.state == IncidentState::Regressed.name();
        // That it came back is the news where the redrive has come to a halt over it.
        if let Some(run) = running.filter(|run| !(came_back && stands_still(run))) {
            let address = format!("/redrives/{}", run.id);
            if stands_still(run) {
                let why = run.why.as_deref().unwrap_or("paused manually");
                let text =
                    format!("Redrive {}: {why}. Resume it, or cancel it and create a new plan.", run.state);
                let link = Some((address, "Open redrive"));
                return Next { class: "warn", title: "Redrive halted", text, link };
            }
            let text = format!("{} letters in this redrive.", grouped(run.count));
            let link = Some((address, "Open redrive"));
            return Next { class: "work", title: "Redrive running", text, link };
        }
        if counts.pending + counts.reprocessing == 0 {
            let text = "The incident reopens when another letter of the same cause arrives.".into();
            return Next { class: "good", title: "No pending letters", text, link: None };
        }
        match (&entry.record.next, gate) {
            (Some(next), Some(reason)) => Next::before_the_gate(entry, next.code, reason),
            (Some(_), None) => Next {
                class: "info",
                title: "Ready to redrive",
                text: "RCA is optional for this source, but recommended.".into(),
                link: None,
            },
            (None, _) if counts.pending == 0 => Next {
                class: "work",
                title: "Letters in flight",
                text: format!("{} letters reprocessing.", grouped(counts.reprocessing)),
                link: None,
            },
            (None, _) => Next {
                class: "info",
                title: "Ready to redrive",
                text: "RCA and fix are complete: letters that died before the fix can be redriven.".into(),
                link: None,
            },
        }
    }

    fn before_the_gate(entry: &IncidentEntry, code: &str, reason: &str) -> Next {
        let told = |text: &str| format!("Redrive blocked: {reason}. {text}");
        let is = |shut: Shut| shut.code() == code;
        if is(Shut::Poison) {
            let address = format!("/letters?q=incident:{}+status:pending", entry.incident.id);
            return Next {
                class: "bad",
                title: "Discard letters",
                text: told("If they are not poison pills, change the RCA category."),
                link: Some((address, "Show letters")),
            };
        }
        let (class, title, text, place, word) = if is(Shut::FixRequired) {
            ("warn", "Link a fix", "Deploy the fix, then link the change.", "#fix", "Link fix")
        } else if is(Shut::DecisionRequired) {
            let text = "An approver records the decision instead of a fix.";
            ("warn", "Approver decision required", text, "#fix", "Record decision")
        } else if entry.incident.state == IncidentState::Regressed.name() {
            let text = "Save a new RCA revision, then link the new fix.";
            ("bad", "Regressed: revise the RCA", text, "#rca", "Revise RCA")
        } else {
            ("warn", "RCA required", "Save the root cause, then link the fix.", "#rca", "Save root cause")
        };
        Next { class, title, text: told(text), link: Some((place.into(), word)) }
    }
}

/// Why each thing cannot be done now; nothing where it can.
pub(super) struct Hindrances {
    pub redrive: Option<String>,
    pub rca: Option<String>,
    pub fix: Option<String>,
    /// A fix of this kind, by itself.
    pub deployed: Option<String>,
    pub decision: Option<String>,
    pub assign: Option<String>,
    pub note: Option<String>,
    pub close: Option<String>,
}

impl Hindrances {
    pub fn of(viewer: &Viewer, entry: &IncidentEntry, gate: Option<&String>) -> Hindrances {
        let counts = &entry.incident.by_status;
        let left = counts.pending + counts.reprocessing;
        let decide = viewer.hindrance(Permission::Decide);
        let state = IncidentState::parse(entry.incident.state);
        let business = entry.record.rca.as_ref().is_some_and(|rca| rca.category == Category::Business.name());
        let deployed = business.then(|| "a business error requires an approver decision".to_owned());
        let decision = viewer.hindrance(Permission::Approve);
        let neither = deployed.clone().filter(|_| decision.is_some());
        let no_letter = || (counts.pending == 0).then(|| "no pending letters".to_owned());
        // When the fix in force was named does not matter here.
        let fix = if entry.record.fix_disproved { FixStanding::Disproved } else { FixStanding::None };
        let unmoved =
            || state.and_then(|state| state.takes_fix(fix).err()).map(|unmoved| unmoved.to_string());
        let open = || match (left, state) {
            (1, _) => Some("1 letter is still pending or in flight".to_owned()),
            (2.., _) => Some(format!("{} letters are still pending or in flight", grouped(left))),
            (0, Some(IncidentState::Closed)) => Some("already closed".to_owned()),
            (0, _) => None,
        };
        Hindrances {
            redrive: decide.clone().or_else(no_letter).or_else(|| gate.cloned()),
            rca: decide.clone(),
            fix: decide.clone().or_else(unmoved).or(neither),
            deployed,
            decision,
            assign: decide.clone(),
            note: decide.clone(),
            close: decide.or_else(open),
        }
    }
}
