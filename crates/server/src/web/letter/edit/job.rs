//! A job changed before it runs again: its arguments, its queue, and how often it is tried.

use std::sync::Arc;

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::job::Job;
use lazaret_core::job::reenqueue::read_override;
use lazaret_store::redrive::Edit;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::super::actions::Doors;
use super::super::room::{Fitted, Room};
use super::super::{Found, filters};
use super::body::Field;
use super::{EditRow, preview_of};
use crate::api::fields::bad;
use crate::api::guard::actor;
use crate::api::problem::Problem;
use crate::api::wire::hex;
use crate::app::App;
use crate::jobs::{NotDone, dead};
use crate::ojs;
use crate::web::form::Form;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "letter_edit_job.html")]
struct JobEditPage {
    shell: Shell,
    id: String,
    job_type: String,
    /// Why the arguments are not to be changed here.
    fixed: Option<String>,
    args: String,
    /// Whether hidden values have stand-ins in the arguments.
    drafted: bool,
    fields: Vec<Plain>,
    doors: Doors,
    preview: Option<EditRow>,
    /// The mark of what is previewed: nothing else is sent.
    seen: String,
}

/// A field of one line.
struct Plain {
    name: &'static str,
    label: &'static str,
    kind: &'static str,
    value: String,
}

pub(super) async fn show(app: &Arc<App>, viewer: &Viewer, found: Found) -> Result<Response, Problem> {
    let edited = Edited::of(app, found).await?;
    edited.page(app, viewer, None, None, None).await
}

/// Shows what is different; puts the job back once that has been seen.
pub(super) async fn submit(
    app: &Arc<App>,
    viewer: &Viewer,
    found: Found,
    form: &Form,
) -> Result<Response, Problem> {
    let edited = Edited::of(app, found).await?;
    let wish = match edited.wish(form) {
        Ok(wish) => wish,
        Err(problem) => return edited.page(app, viewer, Some(form), Some(problem), None).await,
    };
    if !form.is_checked("send") || form.get("seen") != wish.mark {
        return edited.page(app, viewer, Some(form), None, Some(wish)).await;
    }
    let with = match read_override(&wish.request) {
        Ok(with) => with,
        Err(why) => {
            let problem = ojs::problem::Problem::from(why).into();
            return edited.page(app, viewer, Some(form), Some(problem), Some(wish)).await;
        }
    };
    match dead::retry(app, &edited.job.id.to_string(), &with, &actor(&viewer.caller, &viewer.request)).await {
        Ok(job) => Ok(done(&format!("/jobs/{}", job.id), &format!("Edited job enqueued in {}.", job.queue))),
        Err(why) => edited.page(app, viewer, Some(form), Some(problem(why)), Some(wish)).await,
    }
}

fn problem(why: NotDone) -> Problem {
    ojs::problem::Problem::from(why).into()
}

/// A job that is about to be changed.
struct Edited {
    found: Found,
    field: Field,
    job: Job,
}

/// What is to be changed.
struct Wish {
    /// As the specification writes it.
    request: String,
    args: Vec<u8>,
    /// Label, what it was, what it is.
    plain: Vec<(&'static str, String, String)>,
    mark: String,
}

impl Edited {
    async fn of(app: &Arc<App>, found: Found) -> Result<Edited, Problem> {
        let job = dead::show(app, &found.entry.summary.event_id).await.map_err(problem)?;
        let field = Field::of(app, &found).await?;
        Ok(Edited { found, field, job })
    }

    /// What can be changed besides the arguments: name, label, kind of field, what it is.
    fn plain(&self) -> [(&'static str, &'static str, &'static str, String); 3] {
        let job = &self.job;
        [
            ("queue", "Queue", "text", job.queue.clone()),
            ("priority", "Priority", "number", job.priority.to_string()),
            ("maxAttempts", "Maximum attempts", "number", job.retry.max_attempts.to_string()),
        ]
    }

    /// Compares what was typed with what was shown; only what differs is changed.
    fn wish(&self, form: &Form) -> Result<Wish, Problem> {
        let (mut request, mut seen, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        let mut args = self.found.shown.body.to_vec();
        if form.is_checked("args")
            && let Some((typed, filled)) = self.field.changed(form.get("args"))?
        {
            let is_list =
                serde_json::from_str::<&RawValue>(&filled).is_ok_and(|raw| raw.get().starts_with('['));
            if !is_list {
                return Err(bad("args", "is not a JSON array")
                    .hint("arguments are a JSON array: [1, \"two\", {\"three\": 3}]"));
            }
            request.push(format!("\"args\":{filled}"));
            seen.push(typed);
            args = filled.into_bytes();
        }
        for (name, label, kind, was) in self.plain() {
            let Some(typed) = form.text(name).filter(|typed| *typed != was) else { continue };
            let value = match kind {
                "number" => {
                    let number: i64 = typed.parse().map_err(|_| bad(name, "is not an integer"))?;
                    Value::from(number)
                }
                _ => Value::from(typed.clone()),
            };
            request.push(match name {
                "maxAttempts" => format!("\"retry\":{{\"max_attempts\":{value}}}"),
                _ => format!("\"{name}\":{value}"),
            });
            seen.push(format!("{name} {value}"));
            plain.push((label, was, typed));
        }
        if request.is_empty() {
            return Err(bad("edit", "changes nothing").hint("to enqueue the job unchanged, use Retry letter"));
        }
        // Of what was typed: a digest of hidden values would let them be guessed. They are those of this life.
        let life = self.found.entry.summary.life;
        let mark = hex(&Sha256::digest(format!("{life} {}", Value::from(seen))));
        Ok(Wish { request: format!("{{\"override\":{{{}}}}}", request.join(",")), args, plain, mark })
    }

    async fn page(
        self,
        app: &Arc<App>,
        viewer: &Viewer,
        form: Option<&Form>,
        problem: Option<Problem>,
        wish: Option<Wish>,
    ) -> Result<Response, Problem> {
        let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
        let typed = |name: &str, was: String| form.map_or(was, |form| form.get(name).to_owned());
        let fields =
            self.plain().map(|(name, label, kind, was)| Plain { name, label, kind, value: typed(name, was) });
        let page = JobEditPage {
            shell: Shell::new(app, viewer, "Edit a job", "/letters").await?.with(problem.as_ref()),
            doors: Doors::of(app, viewer, &self.found).await?,
            id: self.found.id.to_string(),
            job_type: self.job.job_type.clone(),
            fixed: self.field.why_fixed(),
            args: self.field.text().map(|text| typed("args", text.to_owned())).unwrap_or_default(),
            drafted: self.field.has_stand_ins(),
            fields: fields.into(),
            seen: wish.as_ref().map(|wish| wish.mark.clone()).unwrap_or_default(),
            preview: wish.map(|wish| self.row(wish, viewer, app)),
        };
        Ok((status, Page(page)).into_response())
    }

    /// What will be different.
    fn row(&self, wish: Wish, viewer: &Viewer, app: &App) -> EditRow {
        let shown = &self.found.shown;
        let edit = Edit {
            number: 0,
            life: self.found.entry.summary.life,
            body: wish.args,
            content_type: shown.content_type.clone(),
            headers: shown.headers.clone(),
            destination: None,
            author: viewer.caller.name.clone(),
            reason: None,
            at: app.clock.now(),
        };
        let mut row = preview_of(edit, &self.found, app);
        let fitted = |text: &str| Room::new(1_000).fit(text, 1_000);
        let changed = wish.plain.iter();
        let changed = changed.map(|(label, was, is)| (fitted(label), Some(fitted(was)), Some(fitted(is))));
        row.headers = changed.collect::<Vec<(Fitted, Option<Fitted>, Option<Fitted>)>>();
        row
    }
}
