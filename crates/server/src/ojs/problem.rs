//! Errors in the envelope of the specification. The HTTP status of every one of them is chosen here and nowhere else.

use axum::body::Body;
use axum::extract::rejection::{BytesRejection, PathRejection, QueryRejection};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt;
use lazaret_core::cursor::BadCursor;
use lazaret_core::gate::Shut;
use lazaret_core::id::IncidentId;
use lazaret_core::job::problem::{JobProblem, ProblemKind};
use lazaret_store::StoreError;
use serde_json::{Map, Value, json};

use crate::api::problem::{self as api, KEPT_NOTHING, KEPT_UNKNOWN, chain};
use crate::jobs::NotDone;
use crate::redrive::ShutIncident;

/// What kind of error it is: stable, for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    InvalidRequest,
    InvalidPayload,
    SchemaValidation,
    ValidationError,
    FilterRequired,
    ConfirmRequired,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    Timeout,
    Conflict,
    Duplicate,
    CountMismatch,
    Held,
    RcaRequired,
    FixRequired,
    DecisionRequired,
    Poison,
    TooLarge,
    Misdirected,
    Unsupported,
    TooMany,
    TooBroad,
    Internal,
    BackendBusy,
    BackendError,
    BackendUnknown,
}

/// What follows from a code.
struct Facts {
    name: &'static str,
    status: StatusCode,
    retryable: bool,
    /// What to do, unless the error itself knows better.
    hint: &'static str,
}

impl Code {
    const fn facts(self) -> Facts {
        let (name, status, retryable, hint) = match self {
            Code::InvalidRequest => {
                ("invalid_request", StatusCode::BAD_REQUEST, false, "correct the request; see details")
            }
            Code::InvalidPayload => {
                ("invalid_payload", StatusCode::BAD_REQUEST, false, "send one JSON object as the body")
            }
            Code::SchemaValidation => {
                ("schema_validation", StatusCode::BAD_REQUEST, false, "correct the field; see details")
            }
            Code::ValidationError => (
                "validation_error",
                StatusCode::UNPROCESSABLE_ENTITY,
                false,
                "correct the retry policy; see details",
            ),
            Code::FilterRequired => (
                "filter_required",
                StatusCode::BAD_REQUEST,
                false,
                "filter by queue, type, error_type, since, until, older_than or args; for all jobs send \
                 {\"all\": true, \"expected_count\": N}, in a query all=true&expected_count=N",
            ),
            Code::ConfirmRequired => {
                ("confirm_required", StatusCode::BAD_REQUEST, false, "send confirm: true")
            }
            Code::Unauthorized => (
                "unauthorized",
                StatusCode::UNAUTHORIZED,
                false,
                "send Authorization: Bearer with a valid token",
            ),
            Code::Forbidden => {
                ("forbidden", StatusCode::FORBIDDEN, false, "use a token with a sufficient role")
            }
            Code::NotFound => ("not_found", StatusCode::NOT_FOUND, false, "check the address and the id"),
            Code::MethodNotAllowed => (
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                false,
                "see the routes in /ojs/manifest",
            ),
            Code::Timeout => {
                ("timeout", StatusCode::REQUEST_TIMEOUT, true, "retry, or send less per request")
            }
            Code::Conflict => {
                ("conflict", StatusCode::CONFLICT, false, "check the state of the job before retrying")
            }
            Code::Duplicate => {
                ("duplicate", StatusCode::CONFLICT, false, "omit id to let the server generate one")
            }
            Code::CountMismatch => {
                ("count_mismatch", StatusCode::CONFLICT, false, "check the current count, then send it")
            }
            Code::Held => ("held", StatusCode::CONFLICT, false, "release the hold first"),
            Code::RcaRequired => (
                "rca_required",
                StatusCode::CONFLICT,
                false,
                "save the RCA of the incident and link the fix; jobs.governance = \"optional\" turns this requirement off",
            ),
            Code::FixRequired => {
                ("fix_required", StatusCode::CONFLICT, false, "deploy the fix and link it to the incident")
            }
            Code::DecisionRequired => (
                "decision_required",
                StatusCode::CONFLICT,
                false,
                "an approver records the decision on the incident",
            ),
            Code::Poison => (
                "poison",
                StatusCode::CONFLICT,
                false,
                "delete them; if they are not poison pills, change the RCA category of the incident",
            ),
            Code::TooLarge => (
                "envelope_too_large",
                StatusCode::PAYLOAD_TOO_LARGE,
                false,
                "store the payload elsewhere and pass a reference",
            ),
            Code::Misdirected => (
                "misdirected",
                StatusCode::MISDIRECTED_REQUEST,
                false,
                "add the host to allowed_hosts to serve it",
            ),
            Code::Unsupported => {
                ("unsupported", StatusCode::UNPROCESSABLE_ENTITY, false, "see /ojs/manifest")
            }
            Code::TooMany => (
                "too_many",
                StatusCode::UNPROCESSABLE_ENTITY,
                false,
                "use a narrower filter, for example by queue",
            ),
            Code::TooBroad => (
                "too_broad",
                StatusCode::UNPROCESSABLE_ENTITY,
                false,
                "use a narrower filter, for example by since",
            ),
            Code::Internal => {
                ("internal_error", StatusCode::INTERNAL_SERVER_ERROR, true, "see the server's log")
            }
            Code::BackendBusy => {
                ("backend_error", StatusCode::SERVICE_UNAVAILABLE, true, "nothing was stored: retry")
            }
            Code::BackendError => ("backend_error", StatusCode::SERVICE_UNAVAILABLE, true, KEPT_NOTHING),
            Code::BackendUnknown => ("backend_error", StatusCode::SERVICE_UNAVAILABLE, true, KEPT_UNKNOWN),
        };
        Facts { name, status, retryable, hint }
    }

    /// What the gate asks for first.
    fn of_shut(shut: Shut) -> Code {
        match shut {
            Shut::RcaRequired | Shut::Regressed | Shut::DiedAfterFix => Code::RcaRequired,
            Shut::FixRequired => Code::FixRequired,
            Shut::DecisionRequired => Code::DecisionRequired,
            Shut::Poison => Code::Poison,
        }
    }

    /// What the guards of the API call it.
    fn of_api(code: &str, status: StatusCode) -> Code {
        match (code, status) {
            ("unauthorized", _) => Code::Unauthorized,
            ("forbidden" | "foreign_origin", _) => Code::Forbidden,
            ("not_found", _) => Code::NotFound,
            ("method_not_allowed", _) => Code::MethodNotAllowed,
            ("timeout", _) => Code::Timeout,
            ("too_large", _) => Code::TooLarge,
            ("misdirected", _) => Code::Misdirected,
            ("store_busy", _) => Code::BackendBusy,
            (_, status) if status.is_client_error() => Code::InvalidRequest,
            (_, StatusCode::SERVICE_UNAVAILABLE) => Code::BackendError,
            _ => Code::Internal,
        }
    }

    /// The nearest code of the API, with the same status.
    const fn in_api(self) -> api::Code {
        match self {
            Code::InvalidRequest | Code::InvalidPayload | Code::SchemaValidation | Code::ConfirmRequired => {
                api::Code::BadRequest
            }
            Code::ValidationError => api::Code::Unprocessable,
            Code::FilterRequired => api::Code::FilterRequired,
            Code::Unauthorized => api::Code::Unauthorized,
            Code::Forbidden => api::Code::Forbidden,
            Code::NotFound => api::Code::NotFound,
            Code::MethodNotAllowed => api::Code::MethodNotAllowed,
            Code::Timeout => api::Code::Timeout,
            Code::Conflict | Code::Duplicate | Code::Held => api::Code::NotAllowed,
            Code::CountMismatch => api::Code::CountMismatch,
            Code::RcaRequired => api::Code::RcaRequired,
            Code::FixRequired => api::Code::FixRequired,
            Code::DecisionRequired => api::Code::DecisionRequired,
            Code::Poison => api::Code::Poison,
            Code::TooLarge => api::Code::TooLarge,
            Code::Misdirected => api::Code::Misdirected,
            Code::Unsupported => api::Code::Unprocessable,
            Code::TooMany | Code::TooBroad => api::Code::TooBroad,
            Code::Internal => api::Code::Internal,
            Code::BackendBusy => api::Code::StoreBusy,
            Code::BackendError | Code::BackendUnknown => api::Code::StoreUnavailable,
        }
    }
}

/// An error on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: Code,
    message: String,
    hint: Option<String>,
    details: Map<String, Value>,
    retry_after_s: Option<u32>,
}

impl Problem {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Problem {
        Problem { code, message: message.into(), hint: None, details: Map::new(), retry_after_s: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    pub(super) fn detail(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.details.insert(name.into(), value.into());
        self
    }

    /// Says which of several it is about.
    pub(super) fn at(mut self, index: usize) -> Problem {
        self.message = format!("jobs[{index}]: {}", self.message);
        self.detail("index", index)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.code.facts().status
    }

    /// The error object; the id of the request is known only on the way out.
    pub(super) fn error(self, request_id: &str) -> Value {
        let Facts { name, retryable, hint, .. } = self.code.facts();
        let mut error = json!({
            "code": name,
            "type": name,
            "message": self.message,
            "retryable": retryable,
            "hint": self.hint.as_deref().unwrap_or(hint),
            "docs_url": format!("urn:lazaret:{name}"),
            "request_id": request_id,
        });
        if !self.details.is_empty() {
            error["details"] = Value::Object(self.details);
        }
        error
    }

    /// The whole answer.
    pub(super) fn shape(self, request_id: &str) -> Response {
        let (status, retry_after_s) = (self.status(), self.retry_after_s);
        let mut response =
            super::json_response(status, json!({ "error": self.error(request_id) }).to_string());
        if let Some(seconds) = retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Only a note for the outermost layer, which gives it its shape.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.code.facts().status;
        response.extensions_mut().insert(self);
        response
    }
}

/// Bytes of what a guard answers at most: it is a few sentences.
const GUARD_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The error that an answer carries: one of ours, or one of the guards of the API in their shape.
pub(super) async fn take(response: &mut Response) -> Option<Problem> {
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return Some(problem);
    }
    let kind = response.headers().get(header::CONTENT_TYPE)?;
    if kind != "application/problem+json" {
        return None;
    }
    let body = std::mem::take(response.body_mut());
    let limited = http_body_util::Limited::new(body, GUARD_ANSWER_BYTES_MAX);
    let bytes = limited.collect().await.map(|read| read.to_bytes()).unwrap_or_default();
    let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    let problem = Problem::new(Code::of_api(&text("code"), response.status()), text("detail"));
    Some(match told["hint"].as_str() {
        // Its addresses are not those that clients of the specification know.
        Some(hint) if !hint.contains("/api/") => problem.hint(hint),
        Some(_) | None => problem,
    })
}

/// The same as the API tells it: pages show problems of one shape, wherever they come from.
impl From<Problem> for api::Problem {
    fn from(problem: Problem) -> api::Problem {
        let mut shown = api::Problem::new(problem.code.in_api(), problem.message);
        // What a code says by itself is for programs.
        if let Some(hint) = problem.hint {
            shown = shown.hint(hint);
        }
        match problem.details.get("field") {
            Some(field) => shown.with("field", field.clone()),
            None => shown,
        }
    }
}

impl From<JobProblem> for Problem {
    fn from(problem: JobProblem) -> Problem {
        let code = match problem.kind {
            ProblemKind::InvalidRequest => Code::InvalidRequest,
            ProblemKind::InvalidPayload => Code::InvalidPayload,
            ProblemKind::SchemaValidation => Code::SchemaValidation,
            ProblemKind::ValidationError => Code::ValidationError,
            ProblemKind::TooLarge => Code::TooLarge,
        };
        let mut shown = Problem::new(code, problem.message);
        shown.hint = problem.hint.map(str::to_owned);
        match problem.field {
            Some(field) => shown.detail("field", field),
            None => shown,
        }
    }
}

impl From<NotDone> for Problem {
    fn from(error: NotDone) -> Problem {
        let text = error.to_string();
        match error {
            NotDone::Unknown(id) => {
                Problem::new(Code::NotFound, text).detail("resource_type", "job").detail("resource_id", id)
            }
            NotDone::Archived { job, letter } => Problem::new(Code::NotFound, text)
                .hint(format!(
                    "restore it with POST /api/v1/archive/{letter}/restore or `lazaret restore {letter}`"
                ))
                .detail("resource_type", "job")
                .detail("resource_id", job.to_string())
                .detail("letter_id", letter.to_string()),
            NotDone::NotDead(id) => Problem::new(Code::NotFound, text)
                .detail("resource_type", "dead_letter_job")
                .detail("resource_id", id),
            NotDone::Held(id) => Problem::new(Code::Held, text).detail("job_id", id.to_string()),
            NotDone::Shut(incidents) => shut(text, &incidents),
            NotDone::State { job, refused } => {
                let expected: Vec<&str> = refused.expected.iter().map(|state| state.name()).collect();
                Problem::new(Code::Conflict, text)
                    .detail("job_id", job.to_string())
                    .detail("current_state", refused.state.name())
                    .detail("expected_state", expected)
            }
            NotDone::NotHolder { job, .. } => Problem::new(Code::Conflict, text)
                .hint("the reservation ended and another worker has the job: drop its result")
                .detail("job_id", job.to_string()),
            NotDone::Duplicate(id) => {
                Problem::new(Code::Duplicate, text).detail("existing_job_id", id.to_string())
            }
            NotDone::Problem(problem) => problem.into(),
            NotDone::Letter(refused) => Problem::new(Code::Conflict, text)
                .hint("the dead letter of the job was already decided")
                .detail("letter_status", refused.standing.status.name()),
            NotDone::Contended(id) => Problem {
                retry_after_s: Some(1),
                ..Problem::new(Code::BackendBusy, text).detail("job_id", id.to_string())
            },
            NotDone::Store(error) => error.into(),
        }
    }
}

/// Names the incidents; the first one also by itself, where a client that retried one job looks.
fn shut(text: String, incidents: &[ShutIncident]) -> Problem {
    let named = |it: &ShutIncident| {
        let (id, url) = (it.incident.to_string(), incident_url(it.incident));
        json!({"incident": id, "incident_url": url, "code": it.shut.code(), "reason": it.shut.to_string()})
    };
    let Some(first) = incidents.first() else { return Problem::new(Code::RcaRequired, text) };
    let problem = Problem::new(Code::of_shut(first.shut), text)
        .detail("incident", first.incident.to_string())
        .detail("incident_url", incident_url(first.incident));
    match incidents {
        [] | [_] => problem,
        several => problem.detail("incidents", several.iter().map(named).collect::<Vec<Value>>()),
    }
}

fn incident_url(id: IncidentId) -> String {
    format!("/api/v1/incidents/{id}")
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let text = error.to_string();
        match error {
            StoreError::Busy => Problem { retry_after_s: Some(1), ..Problem::new(Code::BackendBusy, text) },
            StoreError::Full => Problem { retry_after_s: Some(30), ..Problem::new(Code::BackendError, text) },
            StoreError::TooSlow => Problem::new(Code::TooBroad, text),
            StoreError::Corrupt(what) => {
                tracing::error!(what, "store is inconsistent");
                Problem::new(Code::Internal, "store contains invalid data")
            }
            StoreError::ReadOnly
            | StoreError::TooNew { .. }
            | StoreError::Damaged { .. }
            | StoreError::Held { .. }
            | StoreError::Foreign(_)
            | StoreError::Unfit(_)
            | StoreError::WrongMode(_)
            | StoreError::Path { .. } => store_failed(&error, Code::BackendError),
            StoreError::Unavailable { .. } => store_failed(&error, Code::BackendUnknown),
        }
    }
}

fn store_failed(error: &StoreError, code: Code) -> Problem {
    tracing::error!(error = %chain(error), "the store failed");
    Problem { retry_after_s: Some(5), ..Problem::new(code, error.to_string()) }
}

impl From<BadCursor> for Problem {
    fn from(_: BadCursor) -> Problem {
        Problem::new(Code::InvalidRequest, "cursor does not match this list")
            .hint("pass next_cursor of the previous page, with the same filter")
            .detail("field", "cursor")
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Problem {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Code::TooLarge, "body exceeds the maximum size"),
            _ => Problem::new(Code::InvalidPayload, "body could not be read completely"),
        }
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::new(Code::InvalidRequest, rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(_: PathRejection) -> Problem {
        Problem::new(Code::InvalidRequest, "the URL contains bytes that are not UTF-8")
    }
}
