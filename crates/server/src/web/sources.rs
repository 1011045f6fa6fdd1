//! Sources: where letters come from, how each stands, and what a look from outside finds.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::asked::{Asked, pairs};
use super::form::Form;
use super::format as filters;
use super::format::{grouped, length};
use super::frame::{Page, done};
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::letters::Pairs;
use crate::api::problem::Problem;
use crate::api::retention::{self, QueueRetentionBody};
use crate::api::source_queues::{self, SourceQueues};
use crate::api::sources::{self, CheckBody, ConnectionBody, DutyBody, OutboxBody, SourceBody};
use crate::api::stats;
use crate::app::App;
use crate::config::REPORT_SOURCE;

/// Queues whose retention stands with a source; the page of rules has all.
const QUEUES_SHOWN: usize = 5;

#[derive(Template)]
#[template(path = "sources.html")]
struct Sources {
    shell: Shell,
    sources: Vec<Source>,
    /// What a look at one of them found, and which that was.
    checked: Option<Checked>,
    hindrance: Option<String>,
    /// Whether nothing is configured beside what is always there.
    bare: bool,
}

/// What a check of one source found.
struct Checked {
    body: CheckBody,
    /// Dead-letter queues at its broker; nothing where the broker cannot be asked.
    queues: Option<SourceQueues>,
}

/// A source with what is told of it elsewhere.
struct Source {
    body: SourceBody,
    /// Letters of it that are kept, whatever became of them.
    letters: u64,
    /// Where letters of single subscribers go, without credentials.
    subscribers: Vec<(String, String)>,
    queues: Vec<QueueRetentionBody>,
    more_queues: usize,
    health: Health,
}

/// How a source stands: a word, its colour, and why.
pub(crate) struct Health {
    pub level: &'static str,
    pub word: &'static str,
    pub why: Option<String>,
}

impl Health {
    pub fn of(source: &SourceBody) -> Health {
        match (&source.outbox, &source.connection) {
            (Some(outbox), _) => Health::of_outbox(outbox),
            (None, Some(connection)) => Health::of_connection(connection, &source.duties),
            (None, None) => Health { level: "good", word: "ready", why: None },
        }
    }

    /// The worst thing that is known of a broker.
    fn of_connection(connection: &ConnectionBody, duties: &[DutyBody]) -> Health {
        if !connection.connected {
            let (level, word) = match connection.last_error {
                Some(_) => ("bad", "not connected"),
                None => ("unknown", "connecting"),
            };
            return Health { level, word, why: connection.last_error.clone() };
        }
        let failing = duties.iter().find_map(|duty| Some((duty.name, duty.problem.clone()?)));
        match failing {
            Some((name, problem)) => {
                Health { level: "warning", word: "degraded", why: Some(format!("{name}: {problem}")) }
            }
            None => Health { level: "good", word: "connected", why: None },
        }
    }

    /// The worst thing that is known of a table.
    pub fn of_outbox(outbox: &OutboxBody) -> Health {
        let relay = outbox.relay.as_ref().and_then(|relay| relay.problem.clone());
        if !outbox.connected && outbox.last_error.is_some() {
            return Health { level: "bad", word: "not connected", why: outbox.last_error.clone() };
        }
        if !outbox.connected && !outbox.leads {
            // The one that does knows how it stands.
            let why = "captured by another instance".to_owned();
            return Health { level: "info", word: "standby", why: Some(why) };
        }
        if !outbox.connected {
            return Health { level: "unknown", word: "connecting", why: None };
        }
        match (relay, outbox.vanished) {
            (Some(problem), _) => Health { level: "warning", word: "relay failing", why: Some(problem) },
            (None, vanished @ 1..) => {
                let why = format!("{} pending letters without outbox row", grouped(vanished));
                Health { level: "warning", word: "missing rows", why: Some(why) }
            }
            (None, 0) => Health { level: "good", word: "connected", why: None },
        }
    }
}

impl Sources {
    fn lag(&self, ms: &u64) -> String {
        length(i64::try_from(*ms).unwrap_or(i64::MAX))
    }
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/sources", get(show)).route("/sources/put-back", post(put_back))
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer, pairs: Pairs) -> Result<Response, Problem> {
    let asked = Asked::read(pairs)?;
    let Some(name) = asked.get("check") else { return page(&app, &viewer, None, None).await };
    let path = || Ok(Path(name.to_owned()));
    match sources::check(State(Arc::clone(&app)), path()).await {
        Ok(checked) => {
            // What cannot be reached is among the findings already.
            let queues = source_queues::list(State(Arc::clone(&app)), path()).await.ok();
            let queues = queues.map(|queues| queues.0).filter(|queues| queues.known);
            page(&app, &viewer, Some(Checked { body: checked.0, queues }), None).await
        }
        Err(problem) => page(&app, &viewer, None, Some(&problem)).await,
    }
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    checked: Option<Checked>,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let listed = sources::list(State(Arc::clone(app)), pairs(&[])).await?.0;
    let letters = stats::stats(State(Arc::clone(app)), pairs(&[])).await?.0.by_source;
    let mut queues = retention::show(State(Arc::clone(app)), pairs(&[])).await?.0.queues;
    let mut sources = Vec::with_capacity(listed.items.len());
    for body in listed.items {
        let mut own: Vec<QueueRetentionBody> =
            queues.extract_if(.., |queue| queue.source == body.name).collect();
        let more_queues = own.len().saturating_sub(QUEUES_SHOWN);
        own.truncate(QUEUES_SHOWN);
        sources.push(Source {
            letters: letters.get(&body.name),
            subscribers: subscribers(app, &body.name),
            queues: own,
            more_queues,
            health: Health::of(&body),
            body,
        });
    }
    let page = Sources {
        shell: Shell::new(app, viewer, "Sources", "/sources").await?.with(problem),
        bare: app.config.sources.keys().all(|name| name == REPORT_SOURCE),
        sources,
        checked,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

/// The API names the source's own address alone: those of subscribers stand in the configuration, which masks them.
fn subscribers(app: &App, name: &str) -> Vec<(String, String)> {
    let configured = app.config.sources.get(name).into_iter().flat_map(|source| &source.subscribers);
    configured.map(|(id, destination)| (id.clone(), destination.url.to_string())).collect()
}

async fn put_back(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let letter = Ok(Path(form.get("letter").to_owned()));
    match sources::put_back(State(Arc::clone(&app)), caller, request, letter).await {
        Ok(body) if body.row == "made" => Ok(done("/sources", "Row restored.")),
        Ok(_) => Ok(done("/sources", "Row already exists. Nothing was changed.")),
        Err(problem) => page(&app, &viewer, None, Some(&problem)).await,
    }
}
