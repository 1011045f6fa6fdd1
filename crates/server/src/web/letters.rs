//! The letters that a filter finds, page by page, and what can be done with all of them or with some.

pub(crate) mod bulk;
mod confirm;
mod filter;
mod operation;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use lazaret_core::filter::{Filter, Held};
use lazaret_core::lifecycle::{Action, Place, Standing, Status};
use lazaret_store::decision::Verb;

use self::bulk::label;
use self::filter::{Asked, Chip, SortChoice, Suggestion};
use super::format as filters;
use super::format::{encoded, grouped};
use super::frame::Page;
use super::letter::actions::past;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::{self, Pairs};
use crate::api::problem::Problem;
use crate::api::wire::{BodyIndexBody, LetterList, LetterSummary, OperationBody, TotalBody};
use crate::app::App;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/letters", get(show))
        .route("/letters/confirm", get(confirm::all).post(confirm::chosen))
        .route("/letters/bulk", post(bulk::act))
        .route("/operations/{id}", get(operation::show))
}

#[derive(Template)]
#[template(path = "letters.html")]
struct LettersPage {
    shell: Shell,
    q: String,
    chips: Vec<Chip>,
    sorts: Vec<SortChoice>,
    suggestions: Vec<Suggestion>,
    /// Nothing if the filter could not be read.
    list: Option<LetterList>,
    total: String,
    /// Whether the letters are more than could be counted.
    uncounted: bool,
    first: Option<String>,
    next: Option<String>,
    actions: Vec<ActionButton>,
    /// Why none of them can be redriven.
    unplanned: Option<String>,
    operation: Option<OperationBody>,
}

/// A decision that can be taken on many letters.
struct ActionButton {
    name: &'static str,
    label: &'static str,
    kind: &'static str,
    /// Why it cannot be taken on any of them.
    hindrance: Option<String>,
}

/// Whether a decision can be taken on any letter that a filter may find.
fn applies(filter: &Filter, action: Action) -> bool {
    let asked = &filter.status;
    let wanted = |status: &Status| {
        (asked.include.is_empty() || asked.include.contains(status)) && !asked.exclude.contains(status)
    };
    let of = |status: Status, held: bool| Standing { status, place: Place::Live, held, content_kept: true };
    Status::ALL.into_iter().filter(wanted).any(|status| {
        let holds = [false, true]
            .into_iter()
            .filter(|held| filter.held.is_none_or(|asked| (asked == Held::Yes) == *held));
        holds.into_iter().any(|held| of(status, held).after(action).is_ok())
    })
}

/// Every decision on many letters, in the order of their use.
const ACTIONS: [(Verb, &str); 6] = [
    (Verb::Resolve, ""),
    (Verb::Discard, "danger"),
    (Verb::Hold, ""),
    (Verb::Release, ""),
    (Verb::Reopen, ""),
    (Verb::Delete, "danger"),
];

/// `12,431 letters`, `at least 10,000 letters`, `1 letter`.
pub(crate) fn counted(total: &TotalBody) -> String {
    let at_least = if total.total_is_at_least.is_some() { "at least " } else { "" };
    format!("{at_least}{}", letters_of(total.total))
}

/// A number of letters.
pub(crate) fn letters_of(count: u64) -> String {
    if count == 1 { "1 letter".into() } else { format!("{} letters", grouped(count)) }
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    let listed = letters::list(State(Arc::clone(&app)), Ok(Query(asked.pairs()))).await;
    let (list, problem) = match listed {
        Ok(list) => (Some(list.0), None),
        Err(problem) => (None, Some(problem)),
    };
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    let operation = operation::find(&app, asked.operation.as_deref()).await;
    let shell = Shell::new(&app, &viewer, "Letters", "/letters").await?.with(problem.as_ref());
    let next = list.as_ref().and_then(|list| list.next_cursor.as_deref());
    // A filter that cannot be read bars nothing: the page says so above all.
    let filter = Filter::from_text(&asked.q).unwrap_or_default();
    let by_role = viewer.hindrance(Permission::Decide);
    let barred = |action: Action, done: &str| {
        let none = || format!("letters in this state cannot be {done}");
        by_role.clone().or_else(|| (!applies(&filter, action)).then(none))
    };
    let page = LettersPage {
        shell,
        chips: asked.chips(),
        sorts: asked.sorts(),
        suggestions: filter::suggestions(&app, &asked).await?,
        total: list.as_ref().map(|list| counted(&list.total)).unwrap_or_default(),
        uncounted: list.as_ref().is_some_and(|list| list.total.total_is_at_least.is_some()),
        first: asked.cursor.as_ref().map(|_| asked.address(None)),
        next: next.map(|cursor| asked.address(Some(cursor))),
        actions: ACTIONS
            .into_iter()
            .map(|(verb, kind)| {
                let hindrance = barred(verb.action(), past(verb));
                ActionButton { name: verb.name(), label: label(verb), kind, hindrance }
            })
            .collect(),
        unplanned: barred(Action::Redrive, "redriven"),
        operation,
        q: asked.q,
        list,
    };
    Ok((status, Page(page)).into_response())
}

impl LettersPage {
    /// Why some of the buttons cannot be pressed, in one sentence.
    fn why(&self) -> Option<String> {
        let barred: Vec<&ActionButton> =
            self.actions.iter().filter(|action| action.hindrance.is_some()).collect();
        match (barred.as_slice(), &self.unplanned) {
            ([], None) => None,
            (all, Some(why)) if all.len() == self.actions.len() => Some(why.clone()),
            (some, unplanned) => {
                let redrive = unplanned.iter().map(|_| "Plan redrive");
                let names: Vec<&str> = redrive.chain(some.iter().map(|action| action.label)).collect();
                Some(format!("Not available for letters in this state: {}.", names.join(", ")))
            }
        }
    }

    fn items(&self) -> &[LetterSummary] {
        self.list.as_ref().map_or(&[], |list| &list.items)
    }

    /// What had to be opened to answer, and what that means.
    fn scan(&self) -> Option<String> {
        let scan = self.list.as_ref()?.scan.as_ref()?;
        let opened = letters_of(scan.letters);
        Some(match scan.cut_short {
            true => format!("Full scan: {opened} read, then timed out. Continue on the next page."),
            false => format!("Full scan: {opened} read."),
        })
    }

    fn body_index(&self) -> Option<&BodyIndexBody> {
        self.list.as_ref()?.body_index.as_ref().filter(|index| index.behind > 0)
    }

    fn is_default(&self) -> bool {
        self.q == filter::DEFAULT
    }

    fn plan_address(&self) -> String {
        format!("/redrives/new?q={}", encoded(&self.q))
    }

    fn archive_address(&self) -> String {
        format!("/archive?q={}", encoded(&self.q))
    }
}
