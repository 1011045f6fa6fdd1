//! One job: what it is made of, every failed run of it, and the way to its letter.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use lazaret_core::job::Job as OneJob;
use lazaret_core::job::state::JobAction;

use super::asked::pairs;
use super::form::Form;
use super::format as filters;
use super::format::length;
use super::frame::{Page, done};
use super::shell::Shell;
use super::viewer::{Theme, Viewer};
use crate::access::Permission;
use crate::api::guard::actor;
use crate::api::letters;
use crate::api::problem::Problem;
use crate::app::App;
use crate::jobs::{self, NotDone};
use crate::ojs;

/// Characters of arguments, results and the like that a page shows; the whole is at its own address.
const SHOWN_CHARS: usize = 20_000;

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: OneJob,
    /// The letter of its death, if it has one that is live.
    letter: Option<(String, &'static str)>,
    /// Why it cannot be cancelled.
    hindrance: Option<String>,
}

impl JobPage {
    /// Its moments in the order in which they come about, without those that never did.
    fn moments(&self) -> Vec<(&'static str, String)> {
        let job = &self.job;
        let moments = [
            ("Created", Some(job.created_at)),
            ("Scheduled for", job.scheduled_at),
            ("Enqueued", Some(job.enqueued_at)),
            ("Activated", job.activated_at),
            ("Started", job.started_at),
            ("Next attempt", job.next_attempt_at),
            ("Completed", job.completed_at),
            ("Cancelled", job.cancelled_at),
            ("Discarded", job.discarded_at),
            ("Re-enqueued", job.re_enqueued_at),
            ("Expires", job.expires_at),
        ];
        moments.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))).collect()
    }

    /// Texts that belong to the application, verbatim.
    fn texts(&self) -> Vec<(&'static str, &str)> {
        let job = &self.job;
        let mut texts = vec![("Arguments", job.args.as_str())];
        if job.meta != "{}" {
            texts.push(("Meta", &job.meta));
        }
        texts.extend(job.result.as_deref().map(|result| ("Result", result)));
        texts
    }

    fn is_cut(&self, text: &str) -> bool {
        text.chars().nth(SHOWN_CHARS).is_some()
    }

    fn timeout(&self) -> String {
        length(i64::try_from(self.job.timeout_ms).unwrap_or(i64::MAX))
    }
}

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes.route("/jobs/{id}", get(show)).route("/jobs/{id}/cancel", post(cancel))
}

type Id = Result<Path<String>, PathRejection>;

async fn show(State(app): State<Arc<App>>, viewer: Viewer, id: Id) -> Result<Response, Problem> {
    let Path(id) = id?;
    page(&app, &viewer, &id, None).await
}

async fn cancel(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    _form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let read = jobs::read_id(&id).map_err(problem)?;
    match jobs::cancel(&app, read, &actor(&viewer.caller, &viewer.request)).await {
        Ok(_) => Ok(done(&format!("/jobs/{read}"), "Job cancelled.")),
        Err(not_done) => page(&app, &viewer, &id, Some(&problem(not_done))).await,
    }
}

fn problem(not_done: NotDone) -> Problem {
    ojs::problem::Problem::from(not_done).into()
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    refused: Option<&Problem>,
) -> Result<Response, Problem> {
    let job = match jobs::find(app, jobs::read_id(id).map_err(problem)?).await {
        Ok(job) => ojs::shown_job(app, job),
        Err(NotDone::Archived { letter, .. }) => {
            return Ok(Redirect::to(&format!("/archive/{letter}")).into_response());
        }
        Err(not_done) => return Err(problem(not_done)),
    };
    let id = job.id.to_string();
    let asked = pairs(&[("source", jobs::SOURCE), ("eventId", &id), ("limit", "1")]);
    let found = letters::list(State(Arc::clone(app)), asked).await?.0;
    let allowed = job.state.after(JobAction::Cancel);
    let page = JobPage {
        shell: Shell::new(app, viewer, format!("Job {}", job.job_type), "/jobs").await?.with(refused),
        letter: found.items.into_iter().next().map(|letter| (letter.id, letter.status)),
        hindrance: viewer
            .hindrance(Permission::Decide)
            .or_else(|| allowed.err().map(|refused| refused.to_string())),
        job,
    };
    Ok(match refused {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}
