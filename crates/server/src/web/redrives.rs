//! The list of redrives: what was put back, by whom, why, and how it went.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Query, State};
use lazaret_core::redrive::{RedriveKind, RunState};

use super::format as filters;
use super::frame::Page;
use super::redrive::address;
use super::redrive::outcomes::{self, Part, letters};
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::redrives;
use crate::api::wire::redrive::RedriveBody;
use crate::app::App;

#[derive(Template)]
#[template(path = "redrives.html")]
pub(crate) struct Redrives {
    shell: Shell,
    rows: Vec<Row>,
    states: Vec<Choice>,
    kinds: Vec<Choice>,
    incident: Option<String>,
    /// Whether anything narrows the list.
    is_narrowed: bool,
    /// Where the first and the next page are, if this is not the first or not the last.
    first: Option<String>,
    next: Option<String>,
    hindrance: Option<String>,
}

/// A value of a field that is chosen from.
struct Choice {
    value: String,
    label: String,
    is_chosen: bool,
}

struct Row {
    redrive: RedriveBody,
    bar: String,
    parts: Vec<Part>,
    which: String,
    count: String,
}

/// What was asked for, without the fields that were left empty.
struct Asked(Vec<(String, String)>);

impl Asked {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The same list from another place on.
    fn at(&self, cursor: Option<&str>) -> String {
        let kept = self.0.iter().filter(|(key, _)| key != "cursor");
        let mut pairs: Vec<(&str, &str)> = kept.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        pairs.extend(cursor.map(|cursor| ("cursor", cursor)));
        address("/redrives", &pairs)
    }

    fn choices(&self, name: &str, all: impl Iterator<Item = (String, String)>) -> Vec<Choice> {
        let asked = self.get(name).unwrap_or("");
        all.map(|(value, label)| Choice { is_chosen: value == asked, value, label }).collect()
    }
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    pairs: Pairs,
) -> Result<Page<Redrives>, Problem> {
    let asked = Asked(pairs?.0.into_iter().filter(|(_, value)| !value.is_empty()).collect());
    let list = redrives::list(State(Arc::clone(&app)), Ok(Query(asked.0.clone()))).await?.0;
    let shell = Shell::new(&app, &viewer, "Redrives", "/redrives").await?;
    Ok(Page(Redrives {
        rows: list.items.into_iter().map(Row::new).collect(),
        states: asked.choices("state", states()),
        kinds: asked.choices("kind", kinds()),
        incident: asked.get("incident").map(str::to_owned),
        is_narrowed: asked.0.iter().any(|(key, _)| key != "cursor" && key != "limit"),
        first: asked.get("cursor").map(|_| asked.at(None)),
        next: list.next_cursor.map(|cursor| asked.at(Some(&cursor))),
        hindrance: viewer.hindrance(Permission::Decide),
        shell,
    }))
}

fn states() -> impl Iterator<Item = (String, String)> {
    let unfinished = RunState::ALL.into_iter().filter(|state| state.is_unfinished());
    let unfinished: Vec<&str> = unfinished.map(RunState::name).collect();
    let own = [(String::new(), "All states".to_owned()), (unfinished.join(","), "Unfinished".to_owned())];
    let each = RunState::ALL.into_iter().map(|state| (state.name().to_owned(), state.name().to_owned()));
    own.into_iter().chain(each)
}

fn kinds() -> impl Iterator<Item = (String, String)> {
    let each = RedriveKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), kind_told(kind).to_owned()));
    std::iter::once((String::new(), "All kinds".to_owned())).chain(each)
}

const fn kind_told(kind: RedriveKind) -> &'static str {
    match kind {
        RedriveKind::Single => "Single letter",
        RedriveKind::Bulk => "Bulk retry by an OJS client",
        RedriveKind::Rule => "Replay rule",
        RedriveKind::Plan => "Planned",
    }
}

impl Row {
    fn new(redrive: RedriveBody) -> Row {
        Row {
            bar: outcomes::bar(&redrive.letters, "Outcomes"),
            parts: outcomes::parts(&redrive.letters),
            which: which(&redrive),
            count: letters(redrive.count),
            redrive,
        }
    }
}

/// What it is about: a rule, a filter, or letters that were named.
fn which(redrive: &RedriveBody) -> String {
    match (&redrive.rule, redrive.filter.as_str()) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, "") => format!("{} by id", letters(redrive.total)),
        (None, filter) => filter.to_owned(),
    }
}
