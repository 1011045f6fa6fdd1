//! Holds: which stand, and placing one.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::{ADDRESS, View};
use crate::access::Permission;
use crate::api::problem::Problem;
use crate::api::wire::TotalBody;
use crate::api::wire::hold::HoldRecordBody;
use crate::api::{holds, reveal};
use crate::app::App;
use crate::web::asked::Asked;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::Tab;
use crate::web::viewer::{Theme, Viewer};

/// The parameters that a page of the list keeps.
const KEYS: [&str; 2] = ["view", "ended"];

#[derive(Template)]
#[template(path = "rules_holds.html")]
struct Holds {
    shell: Shell,
    tabs: Vec<Tab>,
    holds: Vec<HoldRecordBody>,
    next: Option<String>,
    /// Whether those that ended are shown too.
    ended: bool,
    typed: Typed,
    /// How many letters the typed filter matches now.
    matching: Option<TotalBody>,
    hindrance: Option<String>,
}

/// What stands in the fields.
#[derive(Default)]
struct Typed {
    filter: String,
    letter: String,
    reason: String,
    until: String,
    standing: bool,
}

impl Holds {
    fn wrong(&self, field: &str) -> bool {
        self.shell.trouble.as_ref().is_some_and(|trouble| trouble.field.as_deref() == Some(field))
    }
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    refused: Option<(Problem, &Form)>,
) -> Result<Response, Problem> {
    let list = holds::list(State(Arc::clone(app)), asked.pairs(&["ended", "cursor"])).await?.0;
    let typed = match &refused {
        Some((_, form)) => Typed {
            filter: form.get("q").trim().to_owned(),
            letter: form.get("letterId").trim().to_owned(),
            reason: form.get("reason").to_owned(),
            until: form.get("until").to_owned(),
            standing: form.get("kind") == "standing",
        },
        None => Typed { filter: asked.text("q"), letter: asked.text("letter"), ..Typed::default() },
    };
    let (matching, unread) = match count(app, viewer, &typed.filter).await {
        Ok(matching) => (matching, None),
        Err(problem) => (None, Some(problem)),
    };
    let problem = refused.map(|(problem, _)| problem).or(unread);
    let page = Holds {
        shell: Shell::new(app, viewer, "Holds", ADDRESS).await?.with(problem.as_ref()),
        tabs: View::Holds.tabs(),
        holds: list.items,
        next: list.next_cursor.map(|cursor| asked.with(ADDRESS, &KEYS, "cursor", &cursor)),
        ended: asked.get("ended") == Some("true"),
        typed,
        matching,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

/// How many letters match; nothing if nothing is asked for.
async fn count(app: &Arc<App>, viewer: &Viewer, filter: &str) -> Result<Option<TotalBody>, Problem> {
    if filter.is_empty() {
        return Ok(None);
    }
    let (caller, body) = (Extension(viewer.caller.clone()), Ok(Json(json!({"q": filter}))));
    Ok(Some(reveal::count(State(Arc::clone(app)), caller, body).await?.0))
}

pub(super) async fn place(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let placed = match wish(&form) {
        Ok(wish) => holds::place(State(Arc::clone(&app)), caller, request, Ok(form::body(wish))).await,
        Err(problem) => Err(problem),
    };
    match placed {
        Ok((_, _, Json(hold))) => Ok(done(&format!("/rules/holds/{}", hold.id), "Hold placed.")),
        Err(problem) => page(&app, &viewer, &Asked::default(), Some((problem, &form))).await,
    }
}

/// The form as the API wants it.
fn wish(form: &Form) -> Result<Map<String, Value>, Problem> {
    let mut wish = form.texts(&["letterId", "reason", "until"]);
    if let Some(filter) = form.text("q") {
        wish.insert("filter".into(), json!({"q": filter}));
    }
    match (form.get("kind"), form.count("count")?) {
        ("standing", _) => {
            wish.insert("standing".into(), true.into());
        }
        (_, Some(count)) => {
            wish.insert("count".into(), count.into());
        }
        (_, None) => {}
    }
    Ok(wish)
}
