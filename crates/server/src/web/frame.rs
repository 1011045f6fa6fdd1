//! What every page passes on its way out: headers that keep a browser safe, cookies, and problems as pages.

use askama::Template;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::assets;
use super::format as filters;
use super::viewer::{NOTICE, NewVisitor, Theme, VISITOR, cookie, notice};
use crate::access;
use crate::api::problem::Problem;
use crate::app::App;

/// Scripts, styles, pictures and answers come from this server and nowhere else, and none of them stands in a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Addresses that programs ask; everything else is a page.
const PROGRAMS: [&str; 7] = ["/api", "/ojs", "/health", "/metrics", "/test", "/assets", "/favicon.ico"];

/// Whether a person asks for it.
pub(crate) fn is_page(path: &str) -> bool {
    !PROGRAMS
        .iter()
        .any(|prefix| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The page that a form stands on, by the pattern of its route and its address: a form that was refused has an address
/// that takes no other method, and people load it again.
pub(crate) fn page_behind(pattern: &str, path: &str) -> Option<String> {
    if !is_page(path) {
        return None;
    }
    let first = |text: &str, count: usize| text.split('/').take(count).collect::<Vec<&str>>().join("/");
    let is_shown = |count: &usize| access::permission("GET", &first(pattern, *count)).is_some();
    let count = (2..pattern.split('/').count()).rev().find(is_shown);
    Some(count.map_or("/".to_owned(), |count| first(path, count)))
}

/// A program that lost its way, and could not read a page.
fn wants_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accepted: Vec<&str> = accepted.collect();
    let names = |name: &str| accepted.iter().any(|value| value.contains(name));
    names("json") && !names("text/html")
}

/// What stands around every page.
pub(crate) async fn frame<Inner: Future<Output = Response>>(
    app: &App,
    mut request: Request,
    next: impl FnOnce(Request) -> Inner,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let new = match cookie(&parts, VISITOR) {
        Some(_) => None,
        None => app.entropy.take::<32>().ok().map(|secret| NewVisitor(URL_SAFE_NO_PAD.encode(secret))),
    };
    if let Some(new) = &new {
        parts.extensions.insert(new.clone());
    }
    let theme = cookie(&parts, super::viewer::THEME).and_then(|text| Theme::parse(&text)).unwrap_or_default();
    let noticed = notice(&parts).is_some();
    let by_program = wants_json(&parts.headers);
    request = Request::from_parts(parts, body);
    let mut response = next(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| !by_program) {
        response = ProblemPage::new(&problem, theme).respond(response.headers());
    }
    let told = response.status() == StatusCode::OK;
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(NewVisitor(secret)) = new {
        set_cookie(headers, &format!("{VISITOR}={secret}; Path=/; HttpOnly; SameSite=Strict"));
    }
    if noticed && told {
        set_cookie(headers, &format!("{NOTICE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    }
    response
}

pub(crate) fn set_cookie(headers: &mut HeaderMap, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.append(header::SET_COOKIE, value);
    }
}

/// Goes to another page and tells there what was done.
pub(crate) fn done(to: &str, notice: &str) -> Response {
    let mut response = Redirect::to(to).into_response();
    let value = URL_SAFE_NO_PAD.encode(notice);
    set_cookie(
        response.headers_mut(),
        &format!("{NOTICE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"),
    );
    response
}

pub(crate) fn read_notice(value: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(value).ok()?;
    String::from_utf8(bytes).ok()
}

/// A problem that has no page of its own.
#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    theme: Theme,
    status: u16,
    title: &'a str,
    problem: &'a Problem,
    /// Seconds until another try makes sense.
    wait: Option<String>,
}

impl<'a> ProblemPage<'a> {
    fn new(problem: &'a Problem, theme: Theme) -> ProblemPage<'a> {
        let status = problem.status();
        ProblemPage {
            theme,
            status: status.as_u16(),
            title: status.canonical_reason().unwrap_or("Error"),
            problem,
            wait: None,
        }
    }

    fn respond(mut self, before: &HeaderMap) -> Response {
        self.wait = before.get(header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()).map(str::to_owned);
        let mut response = (self.problem.status(), Page(&self)).into_response();
        for name in [header::RETRY_AFTER, header::ALLOW, HeaderName::from_static("x-request-id")] {
            if let Some(value) = before.get(&name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        response
    }
}

/// A template on its way to the browser.
pub(crate) struct Page<T>(pub T);

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        match self.0.render() {
            Ok(text) => {
                ([(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"))], text)
                    .into_response()
            }
            Err(error) => {
                tracing::error!(%error, "page could not be rendered");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_loads_a_form_again_comes_to_its_page() {
        for (pattern, path, page) in [
            ("/incidents/{id}/rca", "/incidents/7/rca", "/incidents/7"),
            ("/redrives/{id}/letters/{letter}/settle", "/redrives/a%2Fb/letters/2/settle", "/redrives/a%2Fb"),
            ("/rules/holds/{id}/release", "/rules/holds/3/release", "/rules/holds/3"),
            ("/jobs/queues/pause", "/jobs/queues/pause", "/jobs"),
            ("/sign-out", "/sign-out", "/"),
        ] {
            assert_eq!(page_behind(pattern, path).as_deref(), Some(page), "{pattern}");
        }
        assert_eq!(page_behind("/api/v1/redrives/plan", "/api/v1/redrives/plan"), None);
    }

    #[test]
    fn programs_get_no_pages() {
        for path in ["/api/v1/dead-letters", "/ojs/v1/jobs", "/metrics", "/health/live", "/assets/app.css"] {
            assert!(!is_page(path), "{path}");
        }
        for path in ["/", "/letters", "/apiary", "/incidents/1"] {
            assert!(is_page(path), "{path}");
        }
    }
}
