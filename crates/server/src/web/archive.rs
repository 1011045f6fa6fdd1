//! The archive: what was pushed out or deleted, found by the same filter, brought back; and the files that it stands in.

mod files;

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;

use super::asked::{Asked, pairs};
use super::form::{self, Form};
use super::format as filters;
use super::format::grouped;
use super::frame::{Page, done};
use super::shell::Shell;
use super::tabs::{Tab, tabs};
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::archive;
use crate::api::archive::restore;
use crate::api::letters::{Pairs, parse_id};
use crate::api::problem::{Code, Problem};
use crate::api::reveal::may_ask;
use crate::api::wire::ScanBody;
use crate::api::wire::archive::ArchivedBody;
use crate::app::App;
use crate::raw_json::shown;

const ADDRESS: &str = "/archive";

const VIEWS: [(&str, &str); 2] = [("letters", "Letters"), ("files", "Files")];

/// The parameters that a page of the list keeps.
const KEYS: [&str; 2] = ["q", "place"];

#[derive(Template)]
#[template(path = "archive.html")]
struct Archive {
    shell: Shell,
    tabs: Vec<Tab>,
    letters: Vec<ArchivedBody>,
    /// What it cost to find them.
    scan: Option<ScanBody>,
    q: String,
    place: String,
    further: bool,
    first: String,
    next: Option<String>,
    /// The address of the same page with its letters counted.
    count_at: String,
    count: Count,
    typed: Typed,
    hindrance: Option<String>,
}

/// How many letters match: a list does not tell.
enum Count {
    /// All of them stand on the page.
    Exactly(u64),
    /// More than one call brings back.
    TooMany,
    NotAsked,
}

/// What stands in the fields of the restore.
#[derive(Default)]
struct Typed {
    count: String,
    reason: String,
}

impl Archive {
    fn wrong(&self, field: &str) -> bool {
        self.shell.trouble.as_ref().is_some_and(|trouble| trouble.field.as_deref() == Some(field))
    }

    /// Letters that one call brings back at most.
    fn most(&self) -> String {
        grouped(limits::RESTORED_PER_CALL as u64)
    }
}

/// A letter has one page, wherever it is.
async fn one(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Redirect, Problem> {
    let id = parse_id(id)?;
    if app.store.history(id).await?.is_none() {
        drop(archive::show(State(app), Ok(Path(id.to_string()))).await?);
    }
    Ok(Redirect::to(&format!("/letters/{id}")))
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/archive", get(show))
        .route("/archive/verify", post(files::verify))
        .route("/archive/restore", post(restore_many))
        .route("/archive/{id}", get(one))
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    match asked.get("view") {
        None | Some("letters") => page(&app, &viewer, &asked, None).await,
        Some("files") => files::page(&app, &viewer, &asked, None).await,
        Some(name) => Err(Problem::new(Code::NotFound, format!("unknown archive view `{}`", shown(name)))
            .hint("views: letters, files")),
    }
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    refused: Option<(Problem, &Form)>,
) -> Result<Response, Problem> {
    let typed = match &refused {
        Some((_, form)) => {
            Typed { count: form.get("count").to_owned(), reason: form.get("reason").to_owned() }
        }
        None => Typed::default(),
    };
    let found = match may_look(app, viewer, asked) {
        Ok(()) => archive::list(State(Arc::clone(app)), asked.pairs(&["q", "place", "cursor"])).await,
        Err(problem) => Err(problem),
    };
    let (list, unread) = match found {
        Ok(list) => (Some(list.0), None),
        Err(problem) => (None, Some(problem)),
    };
    let problem = refused.map(|(problem, _)| problem).or(unread);
    let (letters, next, scan) = match list {
        Some(list) => (list.items, list.next_cursor, list.scan),
        None => (Vec::new(), None, None),
    };
    let count = match (&next, asked.get("cursor"), asked.get("count")) {
        (None, None, _) => Count::Exactly(letters.len() as u64),
        (_, _, Some(_)) => count(app, asked).await?,
        (_, _, None) => Count::NotAsked,
    };
    let page = Archive {
        shell: Shell::new(app, viewer, "Archive", ADDRESS).await?.with(problem.as_ref()),
        tabs: tabs(ADDRESS, &VIEWS, "letters"),
        letters,
        scan,
        q: asked.text("q"),
        place: asked.text("place"),
        further: asked.get("cursor").is_some(),
        first: asked.with(ADDRESS, &KEYS, "view", "letters"),
        next: next.map(|cursor| asked.with(ADDRESS, &KEYS, "cursor", &cursor)),
        count_at: asked.with(ADDRESS, &KEYS, "count", "true"),
        count,
        typed,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

/// What was typed into a form passed no door that looks at filters.
fn may_look(app: &App, viewer: &Viewer, asked: &Asked) -> Result<(), Problem> {
    may_ask(app, &viewer.caller, &Filter::from_text(&asked.text("q"))?)
}

/// Goes through the whole list, as far as one call would bring letters back.
async fn count(app: &Arc<App>, asked: &Asked) -> Result<Count, Problem> {
    let (rows, mut letters, mut cursor) = (limits::PAGE_ROWS_MAX.to_string(), 0, String::new());
    loop {
        let (q, place) = (asked.text("q"), asked.text("place"));
        let mut wish = vec![("limit", rows.as_str()), ("cursor", &cursor)];
        wish.extend(Some(("q", q.as_str())).filter(|(_, text)| !text.is_empty()));
        wish.extend(Some(("place", place.as_str())).filter(|(_, text)| !text.is_empty()));
        let list = archive::list(State(Arc::clone(app)), pairs(&wish)).await?.0;
        letters += list.items.len() as u64;
        match list.next_cursor {
            _ if letters > limits::RESTORED_PER_CALL as u64 => return Ok(Count::TooMany),
            Some(next) => cursor = next,
            None => return Ok(Count::Exactly(letters)),
        }
    }
}

async fn restore_many(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    match restored(&app, &viewer, &form).await {
        Ok(told) => Ok(done("/archive", &told)),
        Err(problem) => {
            // The same list again, under what was typed.
            let asked = Asked::of(&[("q", form.get("q")), ("place", form.get("place")), ("count", "true")]);
            page(&app, &viewer, &asked, Some((problem, &form))).await
        }
    }
}

/// Brings back what the form asks for, and says in a sentence what became of it.
async fn restored(app: &Arc<App>, viewer: &Viewer, form: &Form) -> Result<String, Problem> {
    let mut wish = form.texts(&["place", "reason"]);
    let q = form.get("q").trim();
    // An empty field above a list of everything means everything; the count keeps it from being a slip.
    if Filter::from_text(q)?.spares_nothing(Action::Restore, app.clock.now()) {
        wish.insert("all".into(), true.into());
    }
    if !q.is_empty() {
        wish.insert("filter".into(), serde_json::json!({"q": q}));
    }
    if let Some(count) = form.count("count")? {
        wish.insert("count".into(), count.into());
    }
    let body = Ok(form::body(wish));
    let end = restore::begin(Arc::clone(app), &viewer.caller, &viewer.request, body).await?.whole().await?;
    let mut told = format!("{} letters restored.", grouped(end.restored));
    if let Some(first) = end.skipped_letters.first() {
        let skipped = grouped(end.skipped);
        told.push_str(&format!(" {skipped} skipped, the first {}: {}.", first.id, first.reason));
    }
    Ok(told)
}
