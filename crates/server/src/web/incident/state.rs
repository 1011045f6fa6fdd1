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
                let why = run.why.as_deref().unwrap_or("somebody paused it");
                let text = format!("It is {}: {why}. Resume it, or cancel it and plan anew.", run.state);
                let link = Some((address, "Look at it"));
                return Next { class: "warn", title: "A redrive of it stands still", text, link };
            }
            let text = format!("{} letters are on their way or wait their turn.", grouped(run.count));
            let link = Some((address, "Watch it"));
            return Next { class: "work", title: "A redrive of it is under way", text, link };
        }
        if counts.pending + counts.reprocessing == 0 {
            let text = "It opens again by itself when another letter dies of the same cause.".into();
            return Next { class: "good", title: "Nothing of it waits any more", text, link: None };
        }
        match (&entry.record.next, gate) {
            (Some(next), Some(reason)) => Next::before_the_gate(entry, next.code, reason),
            (Some(_), None) => Next {
                class: "info",
                title: "Its letters may go back",
                text: "Their source asks for no analysis. Write one down all the same if this shall not come back.".into(),
                link: None,
            },
            (None, _) if counts.pending == 0 => Next {
                class: "work",
                title: "Its letters are under way",
                text: format!("{} are being tried again.", grouped(counts.reprocessing)),
                link: None,
            },
            (None, _) => Next {
                class: "info",
                title: "Put its letters back",
                text: "Cause and fix are written down: letters that died before the fix may go.".into(),
                link: None,
            },
        }
    }

    fn before_the_gate(entry: &IncidentEntry, code: &str, reason: &str) -> Next {
        let told = |text: &str| format!("Its letters wait: {reason}. {text}");
        let is = |shut: Shut| shut.code() == code;
        if is(Shut::Poison) {
            let address = format!("/letters?q=incident:{}+status:pending", entry.incident.id);
            return Next {
                class: "bad",
                title: "Discard its letters",
                text: told("If they are none, say so in the analysis by another category."),
                link: Some((address, "See them")),
            };
        }
        let (class, title, text, place, word) = if is(Shut::FixRequired) {
            ("warn", "Name the fix", "Deploy it first, then say which change it was.", "#fix", "To the fix")
        } else if is(Shut::DecisionRequired) {
            let text = "Whoever may approve writes the decision down in place of a fix.";
            ("warn", "Ask for the decision of an approver", text, "#fix", "To the decision")
        } else if entry.incident.state == IncidentState::Regressed.name() {
            let text = "Find out what else is wrong, then name the new fix.";
            ("bad", "It came back: revise the analysis", text, "#rca", "To the analysis")
        } else {
            ("warn", "Write down the cause", "Then name the fix.", "#rca", "To the analysis")
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
        let deployed = business.then(|| "a business error needs the decision of an approver".to_owned());
        let decision = viewer.hindrance(Permission::Approve);
        let neither = deployed.clone().filter(|_| decision.is_some());
        let no_letter = || (counts.pending == 0).then(|| "no letter of it waits".to_owned());
        // When the fix in force was named does not matter here.
        let fix = if entry.record.fix_disproved { FixStanding::Disproved } else { FixStanding::None };
        let unmoved =
            || state.and_then(|state| state.takes_fix(fix).err()).map(|unmoved| unmoved.to_string());
        let open = || match (left, state) {
            (1, _) => Some("a letter of it still waits or is under way".to_owned()),
            (2.., _) => Some(format!("{} letters of it still wait or are under way", grouped(left))),
            (0, Some(IncidentState::Closed)) => Some("it is closed".to_owned()),
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
