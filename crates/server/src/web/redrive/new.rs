//! The first step: which letters, how fast, with how much care. It ends in a plan, which sends nothing.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::filter::Filter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use serde_json::{Map, Value};

use super::outcomes::letters;
use crate::access::Permission;
use crate::api::letters as live;
use crate::api::letters::{Pairs, once, unknown_parameter};
use crate::api::problem::{Code, Problem};
use crate::api::redrives;
use crate::api::reveal;
use crate::api::wire::{LetterSummary, TotalBody};
use crate::app::App;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::format::length;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

/// Letters that are shown before the plan.
const SAMPLES: &str = "5";

#[derive(Template)]
#[template(path = "redrive/new.html")]
struct New {
    shell: Shell,
    /// The filter as it was typed.
    q: String,
    found: Option<Found>,
    form: Form,
    fields: Vec<Field>,
    hindrance: Option<String>,
}

/// What the filter finds among the letters that wait.
struct Found {
    total: TotalBody,
    count: String,
    /// The filter with what a redrive adds to it.
    q: String,
    samples: Vec<LetterSummary>,
}

/// An option that is a number or a length of time.
pub(super) struct Field {
    pub name: &'static str,
    pub label: &'static str,
    /// What holds if nothing is typed.
    pub default: String,
    pub hint: &'static str,
}

impl New {
    /// Whether the problem at the top is about this field.
    fn is_wrong(&self, name: &str) -> bool {
        let field = self.shell.trouble.as_ref().and_then(|trouble| trouble.field.as_deref());
        field.is_some_and(|field| field.rsplit('.').next() == Some(name))
    }

    /// Whether the options are unfolded: somebody has typed in them.
    fn is_unfolded(&self) -> bool {
        let typed = |name: &str| self.form.text(name).is_some();
        self.fields.iter().any(|field| typed(field.name)) || typed("orderBy") || typed("direction")
    }
}

pub(super) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let mut q = None;
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "q" => once(&mut q, "q", value)?,
            _ => return Err(unknown_parameter(&key, &["q"])),
        }
    }
    select(&app, &viewer, q.unwrap_or_default(), Form::default(), None).await
}

/// Makes the plan and goes to it.
pub(super) async fn plan(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    match make(&app, &viewer, &form).await {
        Ok(id) => Ok(done(&format!("/redrives/{id}"), "Plan created. Nothing was sent yet.")),
        Err(problem) => {
            let q = form.get("q").to_owned();
            select(&app, &viewer, q, form, Some(problem)).await
        }
    }
}

async fn make(app: &Arc<App>, viewer: &Viewer, form: &Form) -> Result<String, Problem> {
    let body = form::body(wish(form)?);
    let caller = Extension(viewer.caller.clone());
    let request = Extension(viewer.request.clone());
    let (_, _, Json(redrive)) = redrives::plan(State(Arc::clone(app)), caller, request, Ok(body)).await?;
    Ok(redrive.id)
}

/// The form as the API takes it; what was left empty is left to it.
fn wish(form: &Form) -> Result<Map<String, Value>, Problem> {
    let Some(q) = form.text("q") else {
        return Err(Problem::new(Code::FilterRequired, "filter required")
            .with("field", "q")
            .hint("enter a filter such as queue:billing since:24h, or start from an incident"));
    };
    let mut wish = options(form)?;
    wish.extend(form.texts(&["reason"]));
    wish.insert("filter".into(), Map::from_iter([("q".to_owned(), q.into())]).into());
    let order = form.texts(&["orderBy", "direction"]);
    if !order.is_empty() {
        let options = wish.entry("reprocessingOptions").or_insert_with(|| Map::new().into());
        options["prioritization"] = order.into();
    }
    Ok(wish)
}

/// How letters are to go, as the API takes it: what can also be said at the launch.
pub(super) fn options(form: &Form) -> Result<Map<String, Value>, Problem> {
    let mut wish = form.texts(&["canaryTimeout", "quiet"]);
    for name in ["canary", "stopPercent", "stopOf"] {
        if let Some(count) = form.count(name)? {
            wish.insert(name.into(), count.into());
        }
    }
    if form.is_checked("canaryAssumed") {
        wish.insert("canaryAssumed".into(), true.into());
    }
    if let Some(pace) = pace(form)? {
        wish.insert("pace".into(), pace);
    }
    let mut options = Map::new();
    for name in ["batchSize", "concurrency"] {
        if let Some(count) = form.count(name)? {
            options.insert(name.into(), count.into());
        }
    }
    if !options.is_empty() {
        wish.insert("reprocessingOptions".into(), options.into());
    }
    Ok(wish)
}

/// The pace that was chosen; a number that was typed beside the usual one is meant.
pub(super) fn pace(form: &Form) -> Result<Option<Value>, Problem> {
    let typed = form.count("perMinute").map_err(|problem| problem.with("field", "pace"))?;
    match (form.get("pace"), typed) {
        ("" | "other", Some(rate)) => Ok(Some(rate.into())),
        ("", None) => Ok(None),
        ("other", None) => {
            Err(Problem::new(Code::BadRequest, "rate required: letters per minute").with("field", "pace"))
        }
        (word, _) => Ok(Some(word.into())),
    }
}

/// The step itself, with what was refused at its top and what was typed still in it.
async fn select(
    app: &Arc<App>,
    viewer: &Viewer,
    q: String,
    form: Form,
    refused: Option<Problem>,
) -> Result<Response, Problem> {
    // What is wrong with the filter is told once, also when a plan was refused for it.
    let (found, unread) = match find(app, viewer, &q).await {
        Ok(found) => (found, None),
        Err(problem) => (None, Some(problem.with("field", "q"))),
    };
    let refused = refused.or(unread);
    let shell =
        Shell::new(app, viewer, "Select letters to redrive", "/redrives").await?.with(refused.as_ref());
    let status = refused.map_or(StatusCode::OK, |problem| problem.status());
    let hindrance = viewer.hindrance(Permission::Decide);
    Ok((status, Page(New { shell, q, found, form, fields: fields(), hindrance })).into_response())
}

/// Counts what waits and matches; nothing if there is no filter.
async fn find(app: &Arc<App>, viewer: &Viewer, q: &str) -> Result<Option<Found>, Problem> {
    let mut filter = Filter::from_text(q)?;
    reveal::may_ask(app, &viewer.caller, &filter)?;
    if filter.is_empty() {
        return Ok(None);
    }
    // Only what is pending can be put back, whatever the filter says of it.
    let asked = std::mem::take(&mut filter.status);
    let none = asked.exclude.contains(&Status::Pending)
        || !(asked.include.is_empty() || asked.include.contains(&Status::Pending));
    filter.status.include.insert(Status::Pending);
    let text = filter.to_string();
    if none {
        let total = TotalBody { total: 0, total_is_at_least: None };
        return Ok(Some(Found { total, count: letters(0), q: text, samples: Vec::new() }));
    }
    let total = live::count(State(Arc::clone(app)), Ok(Json(filter.to_json()))).await?.0;
    let pairs = vec![("q".to_owned(), text.clone()), ("limit".to_owned(), SAMPLES.to_owned())];
    let samples = live::list(State(Arc::clone(app)), Ok(Query(pairs))).await?.0.items;
    Ok(Some(Found { count: letters(total.total), total, q: text, samples }))
}

pub(super) fn fields() -> Vec<Field> {
    let field = |name, label, default: u32, hint| Field { name, label, default: default.to_string(), hint };
    let time = |name, label, hint| Field { name, label, default: length(limits::CANARY_MS_MIN), hint };
    vec![
        field(
            "canary",
            "Canaries",
            limits::CANARY_LETTERS,
            "letters sent first; the rest start once they succeed; 0 for none",
        ),
        time("canaryTimeout", "Canary timeout", "such as 15m; then the redrive pauses"),
        field(
            "stopPercent",
            "Failure threshold",
            limits::STOP_PERCENT,
            "percent failed or relapsed; then the redrive stops",
        ),
        field("stopOf", "Threshold window", limits::STOP_OUTCOMES, "number of last letters"),
        time("quiet", "Quiet window", "a letter without a relapse for this long is assumed successful"),
        field("batchSize", "Batch size", limits::REDRIVE_BATCH, "letters claimed per batch"),
        field("concurrency", "Concurrency", limits::REDRIVE_CONCURRENCY, "letters in flight"),
    ]
}
