//! One letter: why it died, what it is, what happened to it, and what can be done with it now.

pub(crate) mod actions;
mod attempts;
mod edit;
mod facts;
mod json;
pub(super) mod payload;
pub(super) mod room;

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::decision::Verb;

use self::actions::{Doors, Typed};
use self::attempts::{Attempts, Failure};
use self::edit::EditRow;
use self::facts::Fact;
use self::payload::{Extent, Hidden, Shown, View, Viewed, Wanted};
use self::room::{Fitted, Room};
use super::chart::{self, Mark};
use super::format as filters;
use super::frame::Page;
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::{self, Pairs};
use crate::api::problem::{Code, Problem};
use crate::api::wire::archive::RemovalBody;
use crate::api::wire::entry::LetterEntry;
use crate::api::{archive, wire};
use crate::app::App;

/// Rows of one part of the history that are shown, the newest.
const ROWS: usize = 20;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    let mut routes = routes
        .route("/letters/{id}", get(show))
        .route("/letters/{id}/retry", post(actions::retry))
        .route("/letters/{id}/hold", post(actions::hold))
        .route("/letters/{id}/edit", get(edit::show).post(edit::submit));
    for verb in actions::PLAIN {
        routes = routes.route(
            &format!("/letters/{{id}}/{}", verb.name()),
            post(move |state, viewer, id, form| actions::decide(verb, state, viewer, id, form)),
        );
    }
    routes
}

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterPage {
    shell: Shell,
    id: String,
    entry: LetterEntry,
    removal: Option<RemovalBody>,
    facts: Vec<Fact>,
    failure: Failure,
    body: Viewed,
    body_bytes: u64,
    /// Why there is no body, if there is none.
    body_missing: Option<String>,
    /// Whether nothing of the body may be seen.
    withheld: bool,
    /// Whether something on this page is masked.
    masked: bool,
    /// Why the viewer may not see it.
    reveal: Option<String>,
    content_type: Fitted,
    download: String,
    headers: Vec<(Fitted, Fitted)>,
    headers_left_out: usize,
    attempts: Attempts,
    /// A picture of all that happened to it.
    story: Option<String>,
    /// By whose clock the picture is.
    zone: String,
    edits: Vec<EditRow>,
    doors: Doors,
    typed: Typed,
    /// Whether older lives have been read from the archive.
    older: bool,
}

/// What is asked of the page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    wanted: Wanted,
    older: bool,
}

impl Asked {
    fn read(pairs: Pairs) -> Result<Asked, Problem> {
        let mut asked = Asked::default();
        for (key, value) in pairs?.0 {
            match key.as_str() {
                "view" => asked.wanted.view = View::parse(&value),
                "body" if value == "whole" => asked.wanted.extent = Extent::Whole,
                "from" => asked.wanted.from = value.parse().unwrap_or(0),
                "older" => asked.older = value == "1",
                // An address that somebody made longer still shows the letter.
                _ => {}
            }
        }
        Ok(asked)
    }
}

/// A letter as the API tells of it, wherever it is.
struct Found {
    id: LetterId,
    entry: LetterEntry,
    /// How it came into the archive, if it is there.
    removal: Option<RemovalBody>,
    shown: Shown,
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    render(&app, &viewer, &id, Asked::read(pairs)?, None).await
}

/// Looks for a letter among the live ones, then in the archive.
async fn find(app: &Arc<App>, id: &str, asked: Asked) -> Result<Found, Problem> {
    let letter = LetterId::parse(id)?;
    let pairs = vec![("older".to_owned(), asked.older.to_string())];
    let shown = letters::show(State(Arc::clone(app)), Ok(Path(id.to_owned())), Ok(Query(pairs))).await;
    match shown {
        Ok(Json(entry)) => {
            let life = entry.summary.life;
            let original = archive::whole_original(app, letter, Some(life)).await?;
            let original = original.ok_or_else(|| missing(id))?;
            let shown = Shown::of(original.envelope, &app.redactor).await?;
            Ok(Found { id: letter, entry, removal: None, shown })
        }
        Err(problem) if problem.code() == Code::NotFound => {
            let shown = archive::show(State(Arc::clone(app)), Ok(Path(id.to_owned()))).await;
            let Json(archived) = shown.map_err(|problem| match problem.code() {
                Code::NotFound => missing(id),
                _ => problem,
            })?;
            let original = archive::found_original(app, letter, None).await?;
            let (entry, removal) = (archived.letter, Some(archived.archive));
            let shown = Shown::of(original.envelope, &app.redactor).await?;
            Ok(Found { id: letter, entry, removal, shown })
        }
        Err(problem) => Err(problem),
    }
}

fn missing(id: &str) -> Problem {
    Problem::new(Code::NotFound, format!("letter {id} not found")).hint(
        "deleted permanently, or the id is incomplete: search all letters (/letters?q=) or the archive (/archive)",
    )
}

/// The page; with what was refused and what was typed, if somebody tried something.
async fn render(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    asked: Asked,
    refused: Option<(Problem, Typed)>,
) -> Result<Response, Problem> {
    let found = find(app, id, asked).await?;
    let doors = Doors::of(app, viewer, &found).await?;
    let (problem, typed) = refused.unzip();
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    let title = format!("Letter {}", found.entry.summary.letter_type);
    let shell = Shell::new(app, viewer, title, "/letters").await?.with(problem.as_ref());
    let Found { entry, removal, shown, .. } = found;
    let rules = app.groups();
    let facts = facts::of(&entry, &shown);
    let (headers, headers_left_out) = shown.header_rows();
    let page = LetterPage {
        shell,
        id: id.to_owned(),
        facts,
        failure: Failure::new(
            &entry.summary.error,
            &rules,
            &mut Room::new(limits::WEB_BACKTRACE_MARKUP_BYTES),
        ),
        body: shown.view(asked.wanted),
        body_bytes: shown.bytes,
        body_missing: shown.body_missing.clone(),
        withheld: shown.hidden == Hidden::All,
        masked: shown.hidden != Hidden::Nothing || entry.redacted,
        reveal: viewer.hindrance(Permission::Reveal),
        content_type: Room::new(limits::NAME_BYTES_MAX).fit(&shown.content_type, limits::NAME_BYTES_MAX),
        download: match removal {
            None => format!("/api/v1/dead-letters/{id}/body"),
            Some(_) => format!("/api/v1/archive/{id}/body"),
        },
        headers,
        headers_left_out,
        attempts: Attempts::new(&entry.retry_history, &rules),
        story: chart::story(&happenings(&entry), "Attempts, deaths and redrives over time", viewer.zone),
        zone: viewer.zone.name(),
        edits: edit::rows(&entry.edits),
        doors,
        typed: typed.unwrap_or_default(),
        older: asked.older,
        entry,
        removal,
    };
    Ok((status, Page(page)).into_response())
}

/// What happened to a letter and when, as far as that is known.
fn happenings(entry: &LetterEntry) -> Vec<(Time, Mark)> {
    let attempts =
        entry.retry_history.iter().filter_map(|attempt| Some((attempt.timestamp.as_ref()?, Mark::Attempt)));
    let deaths = entry.lives.iter().map(|life| (&life.died_at, Mark::Death(life.life)));
    let sent = entry.redrives.iter().filter_map(|one| Some((one.sent_at.as_ref()?, Mark::Sent)));
    let all = attempts.chain(deaths).chain(sent);
    all.filter_map(|(at, mark)| Some((Time::parse(at).ok()?, mark))).collect()
}

impl LetterPage {
    /// The address of the body in another view.
    fn view_address(&self, view: &View) -> String {
        format!("/letters/{}?view={}#body", self.id, view.name())
    }

    fn hex_address(&self, from: &usize) -> String {
        format!("/letters/{}?view=hex&from={from}#body", self.id)
    }

    /// The views that the body has.
    fn views(&self) -> impl Iterator<Item = View> {
        let is_json = self.body.is_json;
        View::ALL.into_iter().filter(move |view| *view != View::Json || is_json)
    }

    fn is_view(&self, view: &View) -> bool {
        self.body.view == *view
    }

    fn is_json(&self) -> bool {
        self.body.view == View::Json
    }

    fn rows(&self) -> usize {
        ROWS
    }

    /// What retryable means to a reader.
    fn retryable(&self) -> &'static str {
        match self.entry.summary.retryable {
            "yes" => "retryable",
            "no" => "not retryable",
            _ => "maybe retryable",
        }
    }

    /// The decisions that only need a reason, in the order of their use.
    fn plain(&self) -> impl Iterator<Item = &actions::Door> {
        let is_archived = self.removal.is_some();
        self.doors.plain.iter().filter(move |door| (door.name == Verb::Restore.name()) == is_archived)
    }

    /// Whether what was just decided can be taken back.
    fn may_undo(&self) -> bool {
        let is_reopened =
            |door: &&actions::Door| door.name == Verb::Reopen.name() && door.hindrance.is_none();
        self.shell.notice.is_some()
            && self.removal.is_none()
            && self.doors.plain.iter().any(|door| is_reopened(&door))
    }

    /// Whether older lives stand in the archive and are not shown yet.
    fn has_older(&self) -> bool {
        !self.entry.older_lives.is_empty() && !self.older
    }

    fn context(&self) -> Option<&wire::entry::GroupingBody> {
        self.entry.grouping.as_ref()
    }
}
