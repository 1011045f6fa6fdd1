//! Signing in with a token, and out again. The page stands alone: whoever sees it knows nothing of the store yet.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::extract::{ConnectInfo, FromRequestParts, Query, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri, header};
use lazaret_core::limits;

use super::form::Form;
use super::format as filters;
use super::frame::{Page, done, read_notice, set_cookie};
use super::viewer::{NOTICE, THEME, Theme, Viewer, cookie, csrf};
use super::{assets, format};
use crate::access::{self, Holder, Permission, Reach};
use crate::api::guard::{RequestId, actor, token_hint};
use crate::api::problem::{Code, Problem};
use crate::app::App;
use crate::guesses::Judged;
use crate::net::{host_of, is_loopback};
use crate::sessions;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/sign-in", get(show).post(enter))
        .route("/sign-out", post(leave))
        .route("/sign-out-everywhere", post(leave_everywhere))
}

/// Whoever asks to be let in, and with what.
pub(crate) struct Guest {
    request: RequestId,
    peer: IpAddr,
    csrf: String,
    theme: Theme,
    notice: Option<String>,
    /// The cookie of a session that may be over.
    cookie: Option<String>,
    /// Whether the address that was asked for means this machine, by whatever way.
    loopback: bool,
    /// Whether the browser says that it came over an open line.
    in_clear: bool,
    reach: Reach,
}

impl<S: Sync> FromRequestParts<S> for Guest {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Guest, Infallible> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let request = parts.extensions.get::<RequestId>().cloned();
        let origin = parts.headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
        Ok(Guest {
            request: request.unwrap_or_else(RequestId::none),
            // Whoever calls without a network shares one address.
            peer: peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip()),
            csrf: csrf(parts),
            theme: cookie(parts, THEME).and_then(|text| Theme::parse(&text)).unwrap_or_default(),
            notice: cookie(parts, NOTICE).and_then(|text| read_notice(&text)),
            cookie: cookie(parts, sessions::COOKIE),
            loopback: is_loopback(host_of(host(&parts.headers, &parts.uri))),
            in_clear: origin.is_some_and(|origin| origin.starts_with("http://")),
            reach: parts.extensions.get().copied().unwrap_or(Reach::Abroad),
        })
    }
}

/// The host that was asked for, as the browser wrote it.
fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> &'a str {
    let authority = uri.authority().map(|authority| authority.as_str());
    authority.or_else(|| headers.get(header::HOST)?.to_str().ok()).unwrap_or("")
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    guest: &'a Guest,
    next: &'a str,
    /// What a form sent was not done because nobody was signed in any more.
    lost: bool,
    problem: Option<&'a Problem>,
    /// How the first token is made, while none is in force.
    first_token: Option<String>,
}

/// A page that asks again, from here.
#[derive(Template)]
#[template(path = "again.html")]
struct Again<'a> {
    here: &'a str,
}

/// What whoever is not signed in gets instead of a page.
pub(crate) fn ask(request: &Request) -> Response {
    let headers = request.headers();
    let here = request.uri().path_and_query().map_or("/", |here| here.as_str());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let from = headers.get(header::REFERER).and_then(|from| from.to_str().ok());
        let page = from.and_then(|from| page_of(from, host(headers, request.uri()))).unwrap_or("/");
        return Redirect::to(&format!("/sign-in?next={}&lost=1", format::encoded(page))).into_response();
    }
    // A browser that follows a link from elsewhere keeps our cookie back, and sends it when our own page asks. Whoever is
    // signed in goes from the sign-in to where they wanted.
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return Page(Again { here: place(here) }).into_response();
    }
    Redirect::to(&format!("/sign-in?next={}", format::encoded(here))).into_response()
}

/// The path of an address, if it is one of ours.
fn page_of<'a>(address: &'a str, host: &str) -> Option<&'a str> {
    let (_, rest) = address.split_once("://")?;
    rest.strip_prefix(host).filter(|path| path.starts_with('/'))
}

/// Where to go once somebody is let in: a place of ours and nothing that a browser takes for another host, or the
/// beginning.
pub(crate) fn place(next: &str) -> &str {
    let mut signs = next.chars();
    let ours = signs.next() == Some('/') && !matches!(signs.next(), Some('/' | '\\'));
    // Browsers drop these, and then the next sign is the second one.
    let plain = !next.chars().any(char::is_control);
    if ours && plain && !next.starts_with("/sign-") { next } else { "/" }
}

type Pairs = Query<Vec<(String, String)>>;

async fn show(State(app): State<Arc<App>>, guest: Guest, Query(pairs): Pairs) -> Result<Response, Problem> {
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let next = place(value("next").unwrap_or("/"));
    if app.access.is_open(guest.reach) {
        return Ok(Redirect::to(next).into_response());
    }
    if let Some(cookie) = &guest.cookie
        && sessions::find(&app, cookie).await?.is_some()
    {
        return Ok(Redirect::to(next).into_response());
    }
    let first_token = first_token(&app);
    let page = SignIn { guest: &guest, next, lost: value("lost").is_some(), problem: None, first_token };
    Ok(Page(page).into_response())
}

async fn enter(State(app): State<Arc<App>>, guest: Guest, form: Form) -> Result<Response, Problem> {
    let next = place(form.get("next"));
    if app.access.is_open(guest.reach) {
        return Ok(Redirect::to(next).into_response());
    }
    let token = access::hash(form.get("token").trim());
    let holder = match let_in(&app, &guest, &token) {
        Ok(holder) => holder,
        Err(problem) => return Ok(refused(&app, &guest, next, &problem)),
    };
    // The session that was there ends: nobody goes on under a cookie that somebody else may know.
    if let Some(cookie) = &guest.cookie
        && let Some((old, before)) = sessions::find(&app, cookie).await?
    {
        let by = actor(&before.caller, &guest.request);
        app.store.end_session(old.hash, by, app.clock.now()).await?;
    }
    let secret = sessions::begin(&app, token, actor(&holder.caller, &guest.request)).await?;
    let (name, role) = (holder.caller.name, holder.caller.role.name());
    let mut response = done(next, &format!("Signed in as {name}, {role}."));
    let secure = if guest.loopback { "" } else { "; Secure" };
    let (cookie, age_s) = (sessions::COOKIE, limits::SESSION_MS / 1_000);
    set_cookie(
        response.headers_mut(),
        &format!("{cookie}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}"),
    );
    Ok(response)
}

/// Judges what a guest brings.
fn let_in(app: &App, guest: &Guest, token: &[u8; 32]) -> Result<Holder, Problem> {
    if guest.in_clear && !guest.loopback {
        return Err(Problem::new(Code::BadRequest, "signing in from another machine requires HTTPS").hint(
            "the session cookie is only sent over TLS: use a TLS proxy, or an SSH tunnel to 127.0.0.1",
        ));
    }
    let peer = guest.peer;
    let judged = app.guesses.judge(peer, app.clock.now(), || app.access.holder(token));
    let wait = |wait_ms: i64| {
        let seconds = u32::try_from(wait_ms.unsigned_abs().div_ceil(1_000)).unwrap_or(u32::MAX);
        Problem::new(Code::TooManyGuesses, "too many invalid tokens")
            .hint(format!("retry in {seconds} seconds; existing sessions are not affected"))
            .retry_after(seconds)
    };
    let holder = match judged {
        Ok(holder) => holder,
        Err(Judged::Wrong) => {
            tracing::warn!(%peer, "sign-in with an invalid token");
            return Err(Problem::new(Code::Unauthorized, "unknown or revoked token")
                .hint("check that the token is complete: it starts with lzr_ and has 47 characters"));
        }
        Err(Judged::WrongOnceTooOften { wait_ms }) => {
            tracing::warn!(%peer, "too many invalid tokens at sign-in: {peer} is rate limited");
            return Err(wait(wait_ms));
        }
        Err(Judged::Locked { wait_ms }) => return Err(wait(wait_ms)),
    };
    if !holder.caller.role.may(Permission::Read) {
        let role = holder.caller.role.name();
        return Err(Problem::new(Code::Forbidden, format!("the role {role} has no dashboard access"))
            .hint("use a token with the role viewer, operator, approver or admin"));
    }
    Ok(holder)
}

fn first_token(app: &App) -> Option<String> {
    (!app.access.has_tokens()).then(|| token_hint(app))
}

fn refused(app: &App, guest: &Guest, next: &str, problem: &Problem) -> Response {
    let page = SignIn { guest, next, lost: false, problem: Some(problem), first_token: first_token(app) };
    let mut response = (problem.status(), Page(page)).into_response();
    if let Some(seconds) = problem.wait_s() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

async fn leave(State(app): State<Arc<App>>, viewer: Viewer, _: Form) -> Result<Response, Problem> {
    let Some(session) = &viewer.session else { return Ok(Redirect::to("/").into_response()) };
    app.store.end_session(session.hash, actor(&viewer.caller, &viewer.request), app.clock.now()).await?;
    Ok(left("Signed out."))
}

async fn leave_everywhere(State(app): State<Arc<App>>, viewer: Viewer, _: Form) -> Result<Response, Problem> {
    let Some(session) = &viewer.session else { return Ok(Redirect::to("/").into_response()) };
    let by = actor(&viewer.caller, &viewer.request);
    let ended = app.store.end_sessions_of(session.token, by, app.clock.now()).await?;
    Ok(left(&match ended {
        0 | 1 => "Signed out.".to_owned(),
        more => format!("Signed out everywhere: {more} sessions ended."),
    }))
}

fn left(notice: &str) -> Response {
    let mut response = done("/sign-in", notice);
    let cookie = sessions::COOKIE;
    set_cookie(response.headers_mut(), &format!("{cookie}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_ours_are_gone_to() {
        for ours in ["/", "/letters?q=queue%3Aa", "/incidents/1#x", "/signs"] {
            assert_eq!(place(ours), ours);
        }
        let foreign =
            ["", "//evil.example", "/\\evil.example", "/\t/evil.example", "https://evil.example", "letters"];
        for foreign in foreign.into_iter().chain(["/sign-in?next=/", "/sign-out"]) {
            assert_eq!(place(foreign), "/", "{foreign}");
        }
    }

    #[test]
    fn a_form_goes_back_to_the_page_that_it_stood_on() {
        let host = "letters.example:7070";
        assert_eq!(page_of("https://letters.example:7070/letters?q=a", host), Some("/letters?q=a"));
        for foreign in [
            "https://letters.example:70701/x",
            "https://evil.example/x",
            "/x",
            "https://letters.example:7070",
        ] {
            assert_eq!(page_of(foreign, host), None, "{foreign}");
        }
    }
}
