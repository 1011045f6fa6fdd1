//! What people write down about an incident: why it happened, what fixed it, who looks after it.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, header};
use lazaret_core::class::Category;
use lazaret_core::gate::Shut;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::Unmoved;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, BadRca, Document, Fix, FixKind};
use lazaret_core::redaction::{Redactor, masks};
use lazaret_store::incident::{IncidentDetail, IncidentStep, IncidentStepped};
use serde_json::Value;

use super::fields::{Fields, bad, without_nul, word, wrong};
use super::guard::{RequestId, actor, may};
use super::incidents::{find, parse_incident, shown_whole};
use super::problem::{Code, Problem};
use super::redrive_problem::shut;
use super::wire::incident::IncidentEntry;
use crate::access::{Caller, Permission};
use crate::app::App;

type Entered = Result<Json<IncidentEntry>, Problem>;

/// Who asks, in what, about which incident.
pub(crate) struct Asking {
    app: Arc<App>,
    caller: Caller,
    request: RequestId,
    id: IncidentId,
}

impl FromRequestParts<Arc<App>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Asking, Problem> {
        let lost = || Problem::new(Code::Internal, "request without authentication");
        let caller = parts.extensions.get::<Caller>().cloned().ok_or_else(lost)?;
        let request = parts.extensions.get::<RequestId>().cloned().ok_or_else(lost)?;
        Asking::new(app, caller, request, Path::from_request_parts(parts, app).await)
    }
}

impl Asking {
    pub fn new(
        app: &Arc<App>,
        caller: Caller,
        request: RequestId,
        id: Result<Path<String>, PathRejection>,
    ) -> Result<Asking, Problem> {
        Ok(Asking { app: Arc::clone(app), caller, request, id: parse_incident(id)? })
    }

    /// Takes the step and shows the incident as it stands then.
    async fn take(self, step: IncidentStep) -> Entered {
        let now = self.app.clock.now();
        let by = actor(&self.caller, &self.request);
        match self.app.store.step_incident(self.id, step, by, now).await? {
            IncidentStepped::Done(_) => shown_whole(&self.app, self.id).await.map(Json),
            IncidentStepped::Refused(unmoved) => Err(self.refused(unmoved).await?),
            IncidentStepped::TooMany => {
                let max = limits::RCA_REVISIONS_MAX;
                Err(Problem::new(
                    Code::NotAllowed,
                    format!("the RCA of incident {} has reached the maximum of {max} revisions", self.id),
                ))
            }
            IncidentStepped::Unknown => Err(Problem::no_incident(self.id)),
        }
    }

    async fn refused(&self, unmoved: Unmoved) -> Result<Problem, Problem> {
        match unmoved {
            Unmoved::NotDiagnosed => Ok(shut(Shut::RcaRequired, self.id, unmoved.to_string())),
            Unmoved::Regressed => Ok(shut(Shut::Regressed, self.id, unmoved.to_string())),
            Unmoved::LettersLeft => {
                let incident = find(&self.app, self.id).await?.incident;
                let count = |status: Status| incident.by_status.get(status.name()).copied().unwrap_or(0);
                Ok(Problem::new(
                    Code::NotAllowed,
                    format!("incident {} cannot be closed: {unmoved}", self.id),
                )
                .with("pending", count(Status::Pending))
                .with("reprocessing", count(Status::Reprocessing))
                .hint("it closes automatically when its last letter is resolved or discarded"))
            }
        }
    }
}

/// Writes down why it happened, or revises that.
#[utoipa::path(
    post,
    path = "/api/v1/incidents/{id}/rca",
    tag = "incidents",
    params(("id" = String, Path)),
    request_body(content = Object, description = "`{\"category\": \"infrastructure|contract|business|poison_pill\", \"rootCause\": \"…\", \"remediation\": \"…\"}`"),
    responses(
        (status = 200, body = IncidentEntry),
        (status = 400, description = "bad_request: `field` says which"),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_allowed: too many revisions")
    )
)]
pub(crate) async fn diagnose(asking: Asking, body: Result<Bytes, BytesRejection>) -> Entered {
    let mut fields = Fields::read(&body?)?;
    let known = Category::ALL.map(Category::name);
    let category = word("category", &fields.needed_text("category")?, Category::parse, &known)?;
    let (cause, remedy) = (fields.kept_text("rootCause")?, fields.kept_text("remediation")?);
    fields.end()?;
    refuse_masks(&asking, &cause, &remedy).await?;
    asking.take(IncidentStep::Diagnose(Analysis::new(category, &cause, &remedy)?)).await
}

/// Refuses a revision that was made from what is shown of the one before: it would keep the masks for good.
async fn refuse_masks(asking: &Asking, cause: &str, remedy: &str) -> Result<(), Problem> {
    if asking.app.redactor.is_off() || masks(cause.as_bytes()) + masks(remedy.as_bytes()) == 0 {
        return Ok(());
    }
    let before = find(&asking.app, asking.id).await?.record.rcas.pop().map(|rca| rca.analysis);
    let held = |of: fn(&Analysis) -> &str| before.as_ref().map_or(0, |it| masks(of(it).as_bytes()));
    for (field, text, held) in
        [("rootCause", cause, held(|it| &it.root_cause)), ("remediation", remedy, held(|it| &it.remediation))]
    {
        if masks(text.as_bytes()) > held {
            return Err(bad(field, "contains a mask of a hidden value")
                .hint("rephrase it: an RCA must not contain secrets"));
        }
    }
    Ok(())
}

/// Names the fix: a change that is deployed, or the decision of an approver.
#[utoipa::path(
    post,
    path = "/api/v1/incidents/{id}/fix",
    tag = "incidents",
    params(("id" = String, Path)),
    request_body(content = Object, description = "`{\"reference\": \"…\", \"fixedAt\": \"2026-11-15T03:00:00Z\", \"kind\": \"deployed|decision\"}`; `fixedAt` defaults to now, `kind` to deployed"),
    responses(
        (status = 200, body = IncidentEntry),
        (status = 400, description = "bad_request: `field` says which"),
        (status = 403, description = "forbidden: a decision needs the permission `approve`; `may` names the roles"),
        (status = 404, description = "not_found"),
        (status = 409, description = "rca_required, or decision_required for a business error")
    )
)]
pub(crate) async fn fix(asking: Asking, body: Result<Bytes, BytesRejection>) -> Entered {
    let now = asking.app.clock.now();
    let mut fields = Fields::read(&body?)?;
    let reference = fields.kept_text("reference")?;
    let fixed_at = fields.time("fixedAt")?.unwrap_or(now);
    let kind = match fields.text("kind")? {
        Some(text) => word("kind", &text, FixKind::parse, &FixKind::ALL.map(FixKind::name))?,
        None => FixKind::Deployed,
    };
    fields.end()?;
    let reference = Fix::check(&reference, fixed_at, now)?;
    match kind {
        FixKind::Decision => may(&asking.caller, Permission::Approve)?,
        FixKind::Deployed => {
            let detail = find(&asking.app, asking.id).await?;
            if analysed(&detail) == Some(Category::Business) {
                return Err(shut(Shut::DecisionRequired, asking.id, Shut::DecisionRequired.to_string()));
            }
        }
    }
    asking.take(IncidentStep::Fix { kind, reference, fixed_at }).await
}

/// Closes an incident of which nothing waits.
#[utoipa::path(
    post,
    path = "/api/v1/incidents/{id}/close",
    tag = "incidents",
    params(("id" = String, Path)),
    request_body(content = Option<Object>, description = "`{\"reason\": \"…\"}`; optional"),
    responses(
        (status = 200, body = IncidentEntry),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_allowed: letters are pending or in flight")
    )
)]
pub(crate) async fn close(asking: Asking, body: Result<Bytes, BytesRejection>) -> Entered {
    let mut fields = Fields::read(&body?)?;
    let reason = fields.reason("reason")?;
    fields.end()?;
    asking.take(IncidentStep::Close(reason)).await
}

/// Says who looks after it; null for nobody.
#[utoipa::path(
    post,
    path = "/api/v1/incidents/{id}/assign",
    tag = "incidents",
    params(("id" = String, Path)),
    request_body(content = Object, description = "`{\"assignee\": \"anna\"}`, or null to unassign"),
    responses((status = 200, body = IncidentEntry), (status = 400, description = "bad_request"), (status = 404, description = "not_found"))
)]
pub(crate) async fn assign(asking: Asking, body: Result<Bytes, BytesRejection>) -> Entered {
    let mut fields = Fields::read(&body?)?;
    let assignee = match fields.take_or_null("assignee") {
        Some(Value::Null) => None,
        Some(Value::String(name)) => {
            let name = without_nul("assignee", name)?;
            Some(bounded("assignee", &name, limits::ASSIGNEE_CHARS_MAX)?)
        }
        Some(other) => return Err(wrong("assignee", "a text or null", &other)),
        None => return Err(fields.missing("assignee").hint("null unassigns")),
    };
    fields.end()?;
    asking.take(IncidentStep::Assign(assignee)).await
}

/// Adds a note to the timeline.
#[utoipa::path(
    post,
    path = "/api/v1/incidents/{id}/notes",
    tag = "incidents",
    params(("id" = String, Path)),
    request_body(content = Object, description = "`{\"text\": \"…\"}`"),
    responses((status = 200, body = IncidentEntry), (status = 400, description = "bad_request"), (status = 404, description = "not_found"))
)]
pub(crate) async fn note(asking: Asking, body: Result<Bytes, BytesRejection>) -> Entered {
    let mut fields = Fields::read(&body?)?;
    let text = bounded("text", &fields.kept_text("text")?, limits::NOTE_CHARS_MAX)?;
    fields.end()?;
    asking.take(IncidentStep::Note(text)).await
}

/// Gives the analysis as a document.
#[utoipa::path(
    get,
    path = "/api/v1/incidents/{id}/rca.md",
    tag = "incidents",
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "What is not known yet says so", content_type = "text/markdown"),
        (status = 404, description = "not_found")
    )
)]
pub(crate) async fn document(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let text = document_of(find(&app, parse_incident(id)?).await?, &app.redactor);
    let markdown = HeaderValue::from_static("text/markdown; charset=utf-8");
    let headers = [
        (header::CONTENT_TYPE, markdown),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    Ok((headers, text).into_response())
}

/// The same as a text. What is hidden is masked before it is written, while it still looks as it is known.
pub(crate) fn document_of(detail: IncidentDetail, redactor: &Redactor) -> String {
    let (incident, mut record) = (detail.incident, detail.record);
    let hide = |text: &mut String| *text = redactor.text(text).into_owned();
    for rca in &mut record.rcas {
        hide(&mut rca.analysis.root_cause);
        hide(&mut rca.analysis.remediation);
    }
    record.fixes.iter_mut().for_each(|fix| hide(&mut fix.reference));
    let mut error = match incident.template.as_str() {
        "" => incident.error_type.clone(),
        template => format!("{}: {template}", incident.error_type),
    };
    hide(&mut error);
    Document {
        letter_type: &incident.letter_type,
        opened_at: incident.first_seen_at,
        letters: incident.letters,
        error: &error,
        rca: record.rcas.last(),
        // One that does not hold any more is history, not the fix.
        fix: record.fix_in_force(),
        redriven_at: record.redriven_at,
    }
    .render()
}

/// What the analysis says, if there is one.
fn analysed(detail: &IncidentDetail) -> Option<Category> {
    detail.record.rcas.last().map(|rca| rca.analysis.category)
}

/// A text without the blanks around it, of one character at least.
fn bounded(name: &'static str, text: &str, max: usize) -> Result<String, Problem> {
    let text = text.trim();
    let length = text.chars().count();
    match length {
        0 => Err(bad(name, "must not be empty")),
        length if length > max => Err(bad(name, format!("has {length} characters; the maximum is {max}"))),
        _ => Ok(text.to_owned()),
    }
}

impl From<BadRca> for Problem {
    fn from(error: BadRca) -> Problem {
        let field = match error {
            BadRca::Empty(field) | BadRca::TooLong(field, ..) => field,
            BadRca::NotYet => "fixedAt",
        };
        Problem::new(Code::BadRequest, error.to_string()).with("field", field)
    }
}
