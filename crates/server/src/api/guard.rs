//! What every request passes: a request id and a time limit, the host, the origin, the token or the session, the
//! permission table.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use lazaret_core::limits;
use lazaret_store::access::StoredSession;
use lazaret_store::audit::Actor;

use super::patience::PatientBody;
use super::problem::{Code, Problem};
use crate::access::{self, Caller, Denied, Permission, Reach, Role};
use crate::app::App;
use crate::net::{host_of, is_loopback};
use crate::{ojs, sessions, web};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The id under which a request is logged and audited, as the header that carries it.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(HeaderValue);

impl RequestId {
    /// No id, for what nobody asked for over HTTP.
    pub(crate) fn none() -> RequestId {
        RequestId(HeaderValue::from_static(""))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The route that a request was for, known once it is found.
#[derive(Clone, Debug, Default)]
struct Route(Arc<OnceLock<MatchedPath>>);

/// Passes a request through everything that stands around the routes: first what its kind of address asks for, then what
/// is asked of all of them.
pub(crate) async fn pass(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let inner = |request: Request| frame(&app, request, next);
    if web::is_page(path) {
        web::frame(&app, request, inner).await
    } else if ojs::is_ours(path) {
        ojs::frame(&app, request, inner).await
    } else {
        inner(request).await
    }
}

/// Gives the request its id, bounds its time, and logs how it ended.
async fn frame(app: &Arc<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(app, request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    request.extensions_mut().insert(id.clone());
    let route = Route::default();
    request.extensions_mut().insert(route.clone());
    let limit = Duration::from_millis(app.config.limits.request_ms_max);
    let started = std::time::Instant::now();
    let answered = AssertUnwindSafe(screen(app, request, next)).catch_unwind();
    let mut response = match tokio::time::timeout(limit, answered).await {
        Ok(Ok(answered)) => answered.into_response(),
        Ok(Err(_)) => caught(),
        Err(_) => Problem::new(Code::Timeout, "request timed out").into_response(),
    };
    let status = response.status();
    let took = started.elapsed();
    app.metrics.request(&method, route.0.get().map(MatchedPath::as_str), status, took);
    let (ms, path) = (took.as_millis() as u64, uri.path());
    let status = status.as_u16();
    tracing::debug!(request.id = %id, %method, path, status, ms, "{method} {path} → {status}");
    response.headers_mut().insert(REQUEST_ID, id.0);
    response
}

fn request_id(app: &App, headers: &HeaderMap) -> RequestId {
    let given = headers.get(REQUEST_ID).filter(|value| {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(byte);
        let id = value.as_bytes();
        !id.is_empty() && id.len() <= limits::REQUEST_ID_BYTES_MAX && id.iter().all(plain)
    });
    RequestId(match given {
        Some(id) => id.clone(),
        None => {
            let random: [u8; 8] = app.entropy.take().unwrap_or_default();
            let text = format!("{:016x}", u64::from_be_bytes(random));
            HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
        }
    })
}

/// A panic is a bug of ours: the caller learns that much, the log the rest.
fn caught() -> Response {
    tracing::error!("a request handler panicked");
    Problem::new(Code::Internal, "internal error").hint("see the server's log").into_response()
}

/// Refuses requests that were meant for another host, and changes that a foreign page asks a browser for.
async fn screen(app: &Arc<App>, mut request: Request, next: Next) -> Result<Response, Problem> {
    let headers = request.headers();
    // A proxy may have looked at the one and we at the other.
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Problem::new(Code::BadRequest, "the request has more than one Host header"));
    }
    let authority = request.uri().authority().map(|authority| authority.as_str());
    let host = authority.or_else(|| headers.get(header::HOST)?.to_str().ok()).unwrap_or("");
    if !serves(app, host) {
        let shown = crate::raw_json::shown(host);
        return Err(Problem::new(Code::Misdirected, format!("unknown host `{shown}`"))
            .hint("add it to allowed_hosts to serve it"));
    }
    let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if changes && let Some(origin) = headers.get(header::ORIGIN) {
        let same =
            origin.to_str().ok().and_then(|origin| origin.split_once("://")).is_some_and(|(_, o)| o == host);
        if !same && !ojs::origin::is_allowed(app, request.uri().path(), origin) {
            let problem = Problem::new(Code::ForeignOrigin, "cross-origin request refused");
            return Err(match request.uri().path().starts_with("/ojs/") {
                true => problem.hint("add the origin to jobs.allowed_origins to allow it"),
                false => problem,
            });
        }
    }
    let reach = Reach::of_request(&app.config, host, headers);
    request.extensions_mut().insert(reach);
    let bounds = &app.config.limits;
    DefaultBodyLimit::max(bounds.body_bytes_max).apply(&mut request);
    let pause = Duration::from_millis(bounds.body_pause_ms_max);
    Ok(next.run(request.map(|body| Body::new(PatientBody::new(body, pause)))).await)
}

fn serves(app: &App, authority: &str) -> bool {
    let host = host_of(authority);
    let own = host_of(&app.config.listen);
    is_loopback(host)
        || (!host.is_empty() && host.eq_ignore_ascii_case(own))
        || app.config.allowed_hosts.iter().any(|allowed| {
            // With a port it has to be that port.
            allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(authority)
        })
}

/// Lets a request through if its caller may use the route.
pub(crate) async fn permit(
    State(app): State<Arc<App>>,
    path: MatchedPath,
    mut request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if let Some(Route(route)) = request.extensions().get() {
        route.get_or_init(|| path.clone());
    }
    let Some(permission) = access::permission(request.method().as_str(), path.as_str()) else {
        if request.method() == Method::GET
            && let Some(page) = web::page_behind(path.as_str(), request.uri().path())
        {
            return Ok(Redirect::to(&page).into_response());
        }
        // Not in the table: the method is wrong, or the route was forgotten. Either way nobody gets in.
        return Ok(super::wrong_method().await.into_response());
    };
    if permission == Permission::Open {
        return Ok(next.run(request).await);
    }
    let reach = request.extensions().get().copied().unwrap_or(Reach::Abroad);
    let makes_token = request.method() == Method::POST && path.as_str() == TOKENS;
    let token = bearer(request.headers());
    let by_folder_key = token.filter(|_| makes_token).and_then(|key| app.access.admit_by_folder_key(key));
    let caller = match by_folder_key.map_or_else(|| app.access.admit(token, reach), Ok) {
        Ok(caller) => caller,
        Err(Denied::UnknownToken) => {
            return Err(Problem::new(Code::Unauthorized, "unknown or revoked token"));
        }
        Err(Denied::NoToken) => match signed_in(&app, session_cookie(&request)).await? {
            Some((session, caller)) => {
                request.extensions_mut().insert(session);
                caller
            }
            None if web::is_page(request.uri().path()) => return Ok(web::sign_in::ask(&request)),
            None => {
                return Err(Problem::new(Code::Unauthorized, "token required").hint(token_hint(&app)));
            }
        },
    };
    if !caller.role.may(permission) {
        let (role, needs) = (caller.role.name(), permission.name());
        return Err(Problem::new(
            Code::Forbidden,
            format!("not allowed for role {role}: requires `{needs}`"),
        ));
    }
    super::reveal::may_ask_by(&app, &caller, request.uri().query())?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

const TOKENS: &str = "/api/v1/tokens";

/// Says how to get a token. Without one in force nobody can ask the server for it.
pub(crate) fn token_hint(app: &App) -> String {
    if app.access.has_tokens() {
        return "send Authorization: Bearer lzr_…, or set LAZARET_TOKEN; create a token with `lazaret token new`"
            .into();
    }
    let (none, flag) = (access::NO_TOKEN_IN_FORCE, app.config.store_flag());
    format!("{none}; create one on the server's machine: lazaret token new --name me --role admin {flag}")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The cookie of a session, where one counts: for pages, and for what pages read from the API. A program that changes
/// something shows its token, so that no foreign page can make a browser do it.
fn session_cookie(request: &Request) -> Option<String> {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD) && path.starts_with("/api/");
    if !reads && !web::is_page(path) {
        return None;
    }
    web::viewer::cookie_in(request.headers(), sessions::COOKIE)
}

async fn signed_in(app: &App, cookie: Option<String>) -> Result<Option<(StoredSession, Caller)>, Problem> {
    let Some(cookie) = cookie else { return Ok(None) };
    Ok(sessions::find(app, &cookie).await?.map(|(session, holder)| (session, holder.caller)))
}

/// Refuses who lacks a permission that a part of the request asks for, and says who has it.
pub(crate) fn may(caller: &Caller, permission: Permission) -> Result<(), Problem> {
    if caller.role.may(permission) {
        return Ok(());
    }
    let (role, needs) = (caller.role.name(), permission.name());
    let roles: Vec<&str> =
        Role::ALL.into_iter().filter(|role| role.may(permission)).map(Role::name).collect();
    Err(Problem::new(Code::Forbidden, format!("not allowed for role {role}: requires `{needs}`"))
        .hint(format!("allowed roles: {}", roles.join(", ")))
        .with("may", roles))
}

/// The caller as the audit log names them.
pub(crate) fn actor(caller: &Caller, request: &RequestId) -> Actor {
    Actor {
        name: caller.name.clone(),
        role: caller.role.name().to_owned(),
        request: Some(request.as_str().to_owned()),
    }
}
