//! Errors as `application/problem+json`. The HTTP status of every error is chosen here and nowhere else.

use axum::Json;
use axum::extract::rejection::{BytesRejection, JsonRejection, PathRejection, QueryRejection};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use lazaret_core::cursor::BadCursor;
use lazaret_core::filter::{Filter, FilterError};
use lazaret_core::id::BadId;
use lazaret_core::lifecycle::{Refused, Standing};
use lazaret_store::StoreError;
use serde_json::{Map, Value, json};

use crate::tokens::TokenRefused;

/// What kind of problem it is: stable, for programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    BadRequest,
    BadJson,
    BadFilter,
    BadCursor,
    BadId,
    UnknownSource,
    FilterRequired,
    ReasonRequired,
    Unauthorized,
    Forbidden,
    Withheld,
    ForeignOrigin,
    NotFound,
    BodyMissing,
    MethodNotAllowed,
    Timeout,
    NotAllowed,
    NoWayBack,
    Replaced,
    NotArchived,
    HoldEnded,
    TooManyHolds,
    CountMismatch,
    RcaRequired,
    FixRequired,
    DecisionRequired,
    Poison,
    RedriveState,
    PlanExpired,
    GlassReason,
    GlassForbidden,
    NoAuditKey,
    NotLeading,
    UnderWay,
    TooLarge,
    UnsupportedMediaType,
    Misdirected,
    Unprocessable,
    TooBroad,
    Internal,
    StoreUnavailable,
    StoreBusy,
    StoreFull,
    TooManyReaders,
    TooManyGuesses,
    FileMissing,
    FileCorrupt,
    ArchiveUnavailable,
    SourceUnavailable,
}

impl Code {
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    const fn facts(self) -> (&'static str, StatusCode) {
        match self {
            Code::BadRequest => ("bad_request", StatusCode::BAD_REQUEST),
            Code::BadJson => ("bad_json", StatusCode::BAD_REQUEST),
            Code::BadFilter => ("bad_filter", StatusCode::BAD_REQUEST),
            Code::BadCursor => ("bad_cursor", StatusCode::BAD_REQUEST),
            Code::BadId => ("bad_id", StatusCode::BAD_REQUEST),
            Code::UnknownSource => ("unknown_source", StatusCode::BAD_REQUEST),
            Code::FilterRequired => ("filter_required", StatusCode::BAD_REQUEST),
            Code::ReasonRequired => ("reason_required", StatusCode::BAD_REQUEST),
            Code::Unauthorized => ("unauthorized", StatusCode::UNAUTHORIZED),
            Code::Forbidden => ("forbidden", StatusCode::FORBIDDEN),
            Code::Withheld => ("withheld", StatusCode::FORBIDDEN),
            Code::ForeignOrigin => ("foreign_origin", StatusCode::FORBIDDEN),
            Code::NotFound => ("not_found", StatusCode::NOT_FOUND),
            Code::BodyMissing => ("body_missing", StatusCode::GONE),
            Code::MethodNotAllowed => ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED),
            Code::Timeout => ("timeout", StatusCode::REQUEST_TIMEOUT),
            Code::NotAllowed => ("not_allowed", StatusCode::CONFLICT),
            Code::NoWayBack => ("no_way_back", StatusCode::CONFLICT),
            Code::Replaced => ("replaced", StatusCode::CONFLICT),
            Code::NotArchived => ("not_archived", StatusCode::CONFLICT),
            Code::HoldEnded => ("hold_ended", StatusCode::CONFLICT),
            Code::TooManyHolds => ("too_many_holds", StatusCode::CONFLICT),
            Code::CountMismatch => ("count_mismatch", StatusCode::CONFLICT),
            Code::RcaRequired => ("rca_required", StatusCode::CONFLICT),
            Code::FixRequired => ("fix_required", StatusCode::CONFLICT),
            Code::DecisionRequired => ("decision_required", StatusCode::CONFLICT),
            Code::Poison => ("poison", StatusCode::CONFLICT),
            Code::RedriveState => ("redrive_state", StatusCode::CONFLICT),
            Code::PlanExpired => ("plan_expired", StatusCode::CONFLICT),
            // One word for the caller: what is wrong is how the gate was to be passed.
            Code::GlassReason => ("break_glass", StatusCode::BAD_REQUEST),
            Code::GlassForbidden => ("break_glass", StatusCode::FORBIDDEN),
            Code::NoAuditKey => ("no_audit_key", StatusCode::CONFLICT),
            Code::NotLeading => ("not_leading", StatusCode::CONFLICT),
            Code::UnderWay => ("under_way", StatusCode::CONFLICT),
            Code::TooLarge => ("too_large", StatusCode::PAYLOAD_TOO_LARGE),
            Code::UnsupportedMediaType => ("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Code::Misdirected => ("misdirected", StatusCode::MISDIRECTED_REQUEST),
            Code::Unprocessable => ("unprocessable", StatusCode::UNPROCESSABLE_ENTITY),
            Code::TooBroad => ("too_broad", StatusCode::UNPROCESSABLE_ENTITY),
            Code::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
            Code::StoreUnavailable => ("store_unavailable", StatusCode::SERVICE_UNAVAILABLE),
            Code::StoreBusy => ("store_busy", StatusCode::SERVICE_UNAVAILABLE),
            Code::StoreFull => ("store_full", StatusCode::SERVICE_UNAVAILABLE),
            Code::TooManyReaders => ("too_many_readers", StatusCode::SERVICE_UNAVAILABLE),
            Code::TooManyGuesses => ("too_many_guesses", StatusCode::TOO_MANY_REQUESTS),
            // The storage behind us gave a bad answer, or none that would get better by itself.
            Code::FileMissing => ("file_missing", StatusCode::BAD_GATEWAY),
            Code::FileCorrupt => ("file_corrupt", StatusCode::BAD_GATEWAY),
            Code::ArchiveUnavailable => ("archive_unavailable", StatusCode::SERVICE_UNAVAILABLE),
            Code::SourceUnavailable => ("source_unavailable", StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

/// An answer of its own status, with the address of what it shows.
pub(crate) type Located<T> = (StatusCode, [(http::HeaderName, HeaderValue); 1], Json<T>);

/// A problem on its way to the caller.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    hint: Option<String>,
    extra: Map<String, Value>,
    retry_after_s: Option<u32>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), hint: None, extra: Map::new(), retry_after_s: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.extra.insert(name.into(), value.into());
        self
    }

    pub fn retry_after(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// When it is worth trying again, in seconds.
    pub fn wait_s(&self) -> Option<u32> {
        self.retry_after_s
    }

    pub fn code(&self) -> Code {
        self.code
    }

    pub fn status(&self) -> StatusCode {
        self.code.facts().1
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The field that is wrong, where it is known.
    pub fn field(&self) -> Option<&str> {
        self.extra.get("field").and_then(Value::as_str)
    }

    /// How many letters there are, where another number was expected.
    pub fn count(&self) -> Option<u64> {
        self.extra.get("count").and_then(Value::as_u64)
    }

    /// What is told where no problem document can be sent any more.
    pub fn text(&self) -> &str {
        &self.detail
    }

    /// Refuses to change every letter there is because a filter was forgotten or says nothing.
    pub fn filter_required(filter: &Filter) -> Problem {
        let why = if filter.is_empty() { "filter required" } else { "the filter matches every letter" };
        Problem::new(Code::FilterRequired, why)
    }

    pub fn no_letter(id: impl std::fmt::Display) -> Problem {
        Problem::new(Code::NotFound, format!("letter {id} not found"))
            .hint("find letters with GET /api/v1/dead-letters or `lazaret ls --all`")
    }

    pub fn no_incident(id: impl std::fmt::Display) -> Problem {
        Problem::new(Code::NotFound, format!("incident {id} not found"))
            .hint("find incidents with GET /api/v1/incidents")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (name, status) = self.code.facts();
        // A page shows the same in its own way.
        let kept = self.clone();
        let mut body = self.extra;
        body.insert("type".into(), format!("urn:lazaret:{name}").into());
        body.insert("title".into(), status.canonical_reason().unwrap_or("Error").into());
        body.insert("status".into(), status.as_u16().into());
        body.insert("code".into(), name.into());
        body.insert("detail".into(), self.detail.into());
        if let Some(hint) = self.hint {
            body.insert("hint".into(), hint.into());
        }
        let mut response = (status, Json(Value::Object(body))).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(kept);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let text = error.to_string();
        match error {
            StoreError::Busy => Problem {
                retry_after_s: Some(1),
                ..Problem::new(Code::StoreBusy, text).hint("nothing was stored: retry")
            },
            StoreError::Full => Problem {
                retry_after_s: Some(30),
                ..Problem::new(Code::StoreFull, text).hint("nothing was stored: free disk space")
            },
            StoreError::TooSlow => {
                Problem::new(Code::TooBroad, text).hint("use a narrower filter, for example with since:24h")
            }
            StoreError::Corrupt(what) => {
                tracing::error!(what, "store is inconsistent");
                Problem::new(Code::Internal, "store contains invalid data").hint("see the server's log")
            }
            StoreError::ReadOnly
            | StoreError::TooNew { .. }
            | StoreError::Damaged { .. }
            | StoreError::Held { .. }
            | StoreError::Foreign(_)
            | StoreError::Unfit(_)
            | StoreError::WrongMode(_)
            | StoreError::Path { .. } => store_unavailable(&error, KEPT_NOTHING),
            StoreError::Unavailable { .. } => store_unavailable(&error, KEPT_UNKNOWN),
        }
    }
}

/// What a store that cannot be used says of the request.
pub(crate) const KEPT_NOTHING: &str = "nothing was stored: retry later";

/// What a store says that failed at an unknown moment, possibly after its commit.
pub(crate) const KEPT_UNKNOWN: &str = "it is unknown whether the request took effect: check, or retry later; known dead \
letters and ids are recognised";

fn store_unavailable(error: &StoreError, hint: &str) -> Problem {
    tracing::error!(error = %chain(error), "the store failed");
    Problem::new(Code::StoreUnavailable, error.to_string()).hint(hint).retry_after(5)
}

impl From<TokenRefused> for Problem {
    fn from(refused: TokenRefused) -> Problem {
        let (text, hint) = (refused.to_string(), refused.hint());
        let problem = match refused {
            TokenRefused::Store(error) => return error.into(),
            TokenRefused::BadName | TokenRefused::FirstNotAdmin | TokenRefused::TooMany => {
                Problem::new(Code::BadRequest, text)
            }
        };
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

/// An error with its causes, for the log.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

impl From<FilterError> for Problem {
    fn from(error: FilterError) -> Problem {
        Problem::new(Code::BadFilter, error.to_string())
    }
}

impl From<BadCursor> for Problem {
    fn from(error: BadCursor) -> Problem {
        Problem::new(Code::BadCursor, error.to_string())
    }
}

impl From<BadId> for Problem {
    fn from(error: BadId) -> Problem {
        Problem::new(Code::BadId, error.to_string())
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        let Standing { status, place, held, .. } = refused.standing;
        let allowed: Vec<&str> = super::wire::offered(refused.standing).collect();
        let problem = Problem::new(Code::NotAllowed, refused.to_string())
            .with("letterStatus", status.name())
            .with("place", place.name())
            .with("held", held)
            .with("allowedActions", json!(allowed));
        match (refused.is_for_hold(), allowed.as_slice()) {
            (true, _) => problem.hint("release the hold first"),
            (false, []) => problem,
            (false, allowed) => problem.hint(format!("allowed now: {}", allowed.join(", "))),
        }
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Problem {
        match rejection {
            JsonRejection::MissingJsonContentType(_) => {
                Problem::new(Code::UnsupportedMediaType, "the body must be JSON")
                    .hint("send it with Content-Type: application/json")
            }
            JsonRejection::BytesRejection(rejection) => rejection.into(),
            other => Problem::new(Code::BadJson, other.body_text()),
        }
    }
}

impl From<BytesRejection> for Problem {
    fn from(rejection: BytesRejection) -> Problem {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::new(Code::BadRequest, "body could not be read completely")
                .hint("nothing was stored: send it again"),
        }
    }
}

pub(crate) fn too_large() -> Problem {
    Problem::new(Code::TooLarge, "body exceeds the maximum size")
        .hint("send less per request, or raise limits.body_bytes_max")
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::new(Code::BadRequest, rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(_: PathRejection) -> Problem {
        Problem::new(Code::BadRequest, "the URL contains bytes that are not UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    const PAGE: &str = include_str!("../../../../docs/troubleshooting.md");

    /// The codes that `facts` gives: each is a string right before its status.
    fn codes(source: &'static str) -> BTreeSet<&'static str> {
        let (_, facts) = source.split_once("fn facts(self)").expect("the file has the function");
        let (facts, _) = facts.split_once("\n    }\n").expect("the function ends");
        let pieces: Vec<&str> = facts.split('"').collect();
        let is_before_status =
            |text: &str| text.trim_start_matches([',', ' ', '\n']).starts_with("StatusCode::");
        pieces.windows(2).filter(|pair| is_before_status(pair[1])).map(|pair| pair[0]).collect()
    }

    #[test]
    fn every_code_is_in_the_troubleshooting_page_and_no_other() {
        let api = codes(include_str!("problem.rs"));
        let ojs = codes(include_str!("../ojs/problem.rs"));
        assert!(api.contains("bad_request") && api.contains("source_unavailable"), "{api:?}");
        assert!(ojs.contains("invalid_request") && ojs.contains("backend_error"), "{ojs:?}");
        let documented: BTreeSet<&str> = PAGE
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .filter(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
            .map(|(code, _)| code)
            .collect();
        assert_eq!(documented, api.union(&ojs).copied().collect());
    }
}
