//! Pages of other origins: which of them may call these routes from a browser, and what the browser is told.
//!
//! Only origins that the operator has named. They are never told that credentials may be sent along: tokens go into a
//! header that the page sets itself.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::app::App;

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE");
const HEADERS: HeaderValue =
    HeaderValue::from_static("Authorization, Content-Type, OJS-Version, X-Request-Id");
const EXPOSED: HeaderValue = HeaderValue::from_static("X-Request-Id, OJS-Version, Retry-After, Location");
/// Seconds that a browser may keep the answer: browsers themselves allow no more than two hours.
const MAX_AGE: HeaderValue = HeaderValue::from_static("7200");

/// Whether a page of this origin may call these routes.
pub(crate) fn is_allowed(app: &App, path: &str, origin: &HeaderValue) -> bool {
    let allowed = &app.config.jobs.allowed_origins;
    path.starts_with("/ojs/")
        && origin.to_str().is_ok_and(|origin| allowed.iter().any(|known| known.eq_ignore_ascii_case(origin)))
}

/// The origin of a request, if a page of it may call these routes.
pub(super) fn allowed(app: &App, path: &str, headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(header::ORIGIN).filter(|origin| is_allowed(app, path, origin)).cloned()
}

/// Whether a browser only asks what it may do.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a browser may do.
pub(super) fn preflight() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let told: [(HeaderName, HeaderValue); 3] = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ];
    response.headers_mut().extend(told);
    response
}

/// Tells the browser that the page may read the answer.
pub(super) fn tell(response: &mut Response, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    // Also to those who are told nothing: a cache must not give them the answer of another origin.
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}
