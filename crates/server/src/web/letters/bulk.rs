//! Something done to many letters: to all that match a filter, or to those that were chosen, one by one.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_store::decision::Verb;
use serde_json::{Map, Value, json};

use super::{confirm, filter, letters_of};
use crate::api::problem::{Code, Problem};
use crate::api::{decisions, redrives};
use crate::app::App;
use crate::raw_json::shown;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::format::{encoded, grouped};
use crate::web::frame::{Page, done};
use crate::web::letter::actions::past;
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

/// Which letters are meant.
#[derive(Clone, Debug)]
pub(crate) enum Many {
    /// Those of these ids, out of a list.
    Chosen(Vec<String>, String),
    /// All that match.
    Matching(String),
}

impl Many {
    /// The chosen letters of a form, or all that match its filter if it says so.
    pub fn read(form: &Form) -> Result<Many, Problem> {
        let q = if form.is_checked("q") { form.get("q").trim() } else { filter::DEFAULT }.to_owned();
        if form.is_checked("all") {
            return Ok(Many::Matching(q));
        }
        let mut letters: Vec<String> = Vec::new();
        for id in form.all("letter") {
            if !letters.iter().any(|known| known == id) {
                letters.push(id.to_owned());
            }
        }
        match letters.len() {
            0 => Err(Problem::new(Code::BadRequest, "no letters selected")
                .hint("select letters in the list, or act on all matching letters")),
            1..=limits::PAGE_ROWS_MAX => Ok(Many::Chosen(letters, q)),
            _ => Err(Problem::new(
                Code::BadRequest,
                format!("more than {} letters selected", limits::PAGE_ROWS_MAX),
            )
            .hint("use a filter and act on all matching letters")),
        }
    }
}

/// A decision on many letters by its name.
pub(super) fn read_verb(name: &str) -> Result<Verb, Problem> {
    Verb::BY_FILTER.into_iter().find(|verb| verb.name() == name).ok_or_else(|| {
        let known: Vec<&str> = Verb::BY_FILTER.into_iter().map(Verb::name).collect();
        Problem::new(Code::BadRequest, format!("unknown action `{}`", shown(name)))
            .hint(format!("known: {}, redrive", known.join(", ")))
    })
}

pub(super) const fn label(verb: Verb) -> &'static str {
    match verb {
        Verb::Resolve => "Resolve",
        Verb::Discard => "Discard",
        Verb::Reopen => "Reopen",
        Verb::Hold => "Hold",
        Verb::Release => "Release",
        Verb::Retry => "Retry",
        Verb::Delete => "Delete",
        Verb::Restore => "Restore",
    }
}

/// Does what was asked and confirmed.
pub(crate) async fn act(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    let many = Many::read(&form)?;
    if form.get("action") == "redrive" {
        return plan(&app, &viewer, &many).await;
    }
    let verb = read_verb(form.get("action"))?;
    match &many {
        Many::Matching(q) => match by_filter(&app, &viewer, verb, q, &form).await {
            Ok(response) => Ok(response),
            Err(problem) => confirm::render(&app, &viewer, verb, &many, &form, Some(&problem)).await,
        },
        Many::Chosen(letters, q) => {
            if verb == Verb::Hold && form.text("reason").is_none() {
                let problem = Problem::new(Code::ReasonRequired, "reason required").with("field", "reason");
                return confirm::render(&app, &viewer, verb, &many, &form, Some(&problem)).await;
            }
            one_by_one(&app, &viewer, verb, letters, q, &form).await
        }
    }
}

/// Plans a redrive, which sends nothing yet, and goes to its page.
async fn plan(app: &Arc<App>, viewer: &Viewer, many: &Many) -> Result<Response, Problem> {
    let wish = match many {
        Many::Chosen(letters, _) => json!({ "letters": letters }),
        Many::Matching(q) => json!({ "filter": { "q": q } }),
    };
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = Ok(wish.to_string().into());
    let (_, _, redrive) = redrives::plan(State(Arc::clone(app)), caller, request, body).await?;
    Ok(done(&format!("/redrives/{}", redrive.id), "Plan created. Nothing is sent until you launch it."))
}

/// Decides on all letters that match, if they are as many as was typed.
async fn by_filter(
    app: &Arc<App>,
    viewer: &Viewer,
    verb: Verb,
    q: &str,
    form: &Form,
) -> Result<Response, Problem> {
    let Some(count) = form.count("count")? else {
        return Err(
            Problem::new(Code::BadRequest, "type the number of letters to confirm").with("field", "count")
        );
    };
    let mut wish: Map<String, Value> = form.texts(&["reason"]);
    wish.insert("expectedCount".into(), count.into());
    // The number that was typed keeps it from being a slip.
    if Filter::from_text(q)?.spares_nothing(verb.action(), app.clock.now()) {
        wish.insert("all".into(), true.into());
    }
    if !q.is_empty() {
        wish.insert("filter".into(), json!({ "q": q }));
    }
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = Ok(form::body(wish));
    let decided = decisions::by_filter(verb, State(Arc::clone(app)), caller, request, body).await;
    let (status, _, operation) = decided.map_err(|problem| match problem.code() {
        Code::CountMismatch => problem.with("field", "count"),
        Code::ReasonRequired => problem.with("field", "reason"),
        _ => problem,
    })?;
    let list = format!("/letters?q={}", encoded(q));
    // What goes on behind the page, or left letters out, is told there.
    let with_operation = format!("{list}&operation={}", operation.id);
    if status == StatusCode::ACCEPTED {
        let notice = format!("{} {} is running in the background.", label(verb), letters_of(operation.total));
        return Ok(done(&with_operation, &notice));
    }
    let notice = format!("{} {}.", letters_of(operation.done), past(verb));
    Ok(match operation.skipped {
        0 => done(&list, &notice),
        skipped => done(&with_operation, &format!("{notice} {} skipped.", letters_of(skipped))),
    })
}

#[derive(Template)]
#[template(path = "letters_done.html")]
struct DonePage {
    shell: Shell,
    heading: String,
    rows: Vec<DoneRow>,
    back: String,
}

/// What became of one letter.
struct DoneRow {
    id: String,
    /// Why nothing was done.
    refused: Option<String>,
}

/// Decides on letters one by one: the API has no decision on a list of names, and each may stand otherwise.
async fn one_by_one(
    app: &Arc<App>,
    viewer: &Viewer,
    verb: Verb,
    letters: &[String],
    q: &str,
    form: &Form,
) -> Result<Response, Problem> {
    let mut rows = Vec::with_capacity(letters.len());
    for id in letters {
        let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
        let body = Ok(form::body(form.texts(&["reason"])));
        let path = Ok(Path(id.clone()));
        let decided = decisions::by_id(verb, State(Arc::clone(app)), caller, request, path, body).await;
        let refused = decided.err().map(|problem| problem.text().to_owned());
        rows.push(DoneRow { id: id.clone(), refused });
    }
    let back = format!("/letters?q={}", encoded(q));
    let refused = rows.iter().filter(|row| row.refused.is_some()).count();
    let done_count = (rows.len() - refused) as u64;
    let heading = format!("{} {}", letters_of(done_count), past(verb));
    if refused == 0 {
        return Ok(done(&back, &format!("{heading}.")));
    }
    let heading = format!("{heading}, {} not", grouped(refused as u64));
    let shell = Shell::new(app, viewer, heading.clone(), "/letters").await?;
    // Those that need a look come first.
    rows.sort_by_key(|row| row.refused.is_none());
    Ok((StatusCode::OK, Page(DonePage { shell, heading, rows, back })).into_response())
}
