//! Who one is here, how pages look, who else may come in, and how the server is set up.

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use lazaret_core::limits;

use super::form::Form;
use super::format as filters;
use super::frame::{Page, done, set_cookie};
use super::shell::Shell;
use super::sign_in::place;
use super::viewer::{THEME, Theme, Viewer};
use crate::access::{Permission, Role};
use crate::api::admin::{self, CreatedToken, TokenBody, TokenWish};
use crate::api::problem::{Code, Problem};
use crate::app::App;
use crate::config::StoreUrl;

pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    routes
        .route("/settings", get(show))
        .route("/settings/theme", post(paint))
        .route("/settings/tokens", post(create))
        .route("/settings/tokens/{id}/revoke", post(revoke))
}

/// A token in the list.
struct TokenRow {
    token: TokenBody,
    /// Whether the viewer is signed in with it.
    mine: bool,
    /// Whether nobody could make another one without it.
    last_admin: bool,
}

/// A browser in which the viewer's token is signed in.
struct SessionRow {
    created_at: String,
    expires_at: String,
    here: bool,
}

/// A choice among several.
struct Choice {
    name: &'static str,
    told: &'static str,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct Settings {
    shell: Shell,
    themes: Vec<Choice>,
    sessions: Vec<SessionRow>,
    /// Why the viewer may not deal with tokens.
    hindrance: Option<String>,
    tokens: Vec<TokenRow>,
    revoked: Vec<TokenBody>,
    /// The token that was just made; it is shown this once.
    made: Option<CreatedToken>,
    /// Whether it was the first one, so that from now on everybody needs one.
    closed: bool,
    name: String,
    roles: Vec<Choice>,
    version: &'static str,
    store: &'static str,
    kept_in: String,
    configuration: String,
}

/// What became of a form of this page.
#[derive(Default)]
struct Sent {
    made: Option<CreatedToken>,
    problem: Option<Problem>,
    name: String,
    role: String,
}

async fn show(State(app): State<Arc<App>>, viewer: Viewer) -> Result<Response, Problem> {
    page(&app, &viewer, Sent::default()).await
}

async fn page(app: &Arc<App>, viewer: &Viewer, sent: Sent) -> Result<Response, Problem> {
    let mut shell = Shell::new(app, viewer, "Settings", "/settings").await?.with(sent.problem.as_ref());
    shell.open = viewer.open && app.access.still_admits(&viewer.caller);
    let hindrance = viewer.hindrance(Permission::Administer);
    let all = match hindrance {
        // The API shows them to nobody else either.
        Some(_) => Vec::new(),
        None => admin::tokens(State(Arc::clone(app))).await?.0.items,
    };
    let (revoked, tokens): (Vec<_>, Vec<_>) = all.into_iter().partition(|token| token.revoked_at.is_some());
    let status = match (&sent.problem, &sent.made) {
        (Some(problem), _) => problem.status(),
        (None, Some(_)) => StatusCode::CREATED,
        (None, None) => StatusCode::OK,
    };
    let settings = Settings {
        themes: themes(shell.theme),
        sessions: sessions(app, viewer).await?,
        tokens: rows(app, viewer, tokens),
        revoked,
        hindrance,
        closed: viewer.open && !shell.open,
        roles: roles(&sent.role),
        name: sent.name,
        made: sent.made,
        version: env!("CARGO_PKG_VERSION"),
        store: match app.config.store {
            StoreUrl::Embedded => "embedded (SQLite)",
            StoreUrl::Postgres(_) => "PostgreSQL",
        },
        kept_in: app.config.kept_in(),
        configuration: app.config.to_toml(),
        shell,
    };
    Ok((status, Page(settings)).into_response())
}

fn themes(chosen: Theme) -> Vec<Choice> {
    let told = |theme| match theme {
        Theme::System => "System",
        Theme::Light => "Light",
        Theme::Dark => "Dark",
    };
    Theme::ALL
        .into_iter()
        .map(|theme| Choice { name: theme.name(), told: told(theme), chosen: theme == chosen })
        .collect()
}

fn roles(chosen: &str) -> Vec<Choice> {
    let told = |role| match role {
        Role::Producer => "report letters and run jobs; no read access",
        Role::Viewer => "read-only",
        Role::Operator => "redrives and decides on letters",
        Role::Approver => "operator who also approves business decisions",
        Role::Admin => "full access, including tokens",
    };
    Role::ALL
        .into_iter()
        .map(|role| Choice { name: role.name(), told: told(role), chosen: role.name() == chosen })
        .collect()
}

fn rows(app: &App, viewer: &Viewer, tokens: Vec<TokenBody>) -> Vec<TokenRow> {
    let mine = viewer.session.as_ref().and_then(|session| app.access.holder(&session.token));
    let mine = mine.map(|holder| holder.token.to_string());
    let admin = |token: &TokenBody| token.role == Role::Admin.name();
    let admins = tokens.iter().filter(|token| admin(token)).count();
    let alone = admins == 1;
    let row = |token: TokenBody| TokenRow {
        mine: mine.as_deref() == Some(&token.id),
        last_admin: alone && admin(&token),
        token,
    };
    tokens.into_iter().map(row).collect()
}

/// The API has no sessions: programs have none.
async fn sessions(app: &App, viewer: &Viewer) -> Result<Vec<SessionRow>, Problem> {
    let Some(own) = &viewer.session else { return Ok(Vec::new()) };
    let now = app.clock.now();
    let all = app.store.sessions_of(own.token).await?;
    let standing = all.into_iter().filter(|session| session.expires_at > now);
    Ok(standing
        .map(|session| SessionRow {
            created_at: session.created_at.to_string(),
            expires_at: session.expires_at.to_string(),
            here: session.hash == own.hash,
        })
        .collect())
}

async fn paint(form: Form) -> Result<Response, Problem> {
    let theme = Theme::parse(form.get("theme")).ok_or_else(|| {
        Problem::new(Code::BadRequest, "theme must be system, light or dark").with("field", "theme")
    })?;
    let to = form.text("next").unwrap_or_else(|| "/settings".into());
    let mut response = done(place(&to), "Theme saved for this browser.");
    let (name, age_s) = (theme.name(), limits::THEME_KEPT_S);
    set_cookie(
        response.headers_mut(),
        &format!("{THEME}={name}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age_s}"),
    );
    Ok(response)
}

async fn create(State(app): State<Arc<App>>, viewer: Viewer, form: Form) -> Result<Response, Problem> {
    let (name, role) = (form.get("name").trim().to_owned(), form.get("role").to_owned());
    let wish = TokenWish { name: name.clone(), role: role.clone() };
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let sent = match admin::create_token(State(Arc::clone(&app)), caller, request, Ok(Json(wish))).await {
        Ok((_, Json(made))) => Sent { made: Some(made), ..Sent::default() },
        Err(problem) => Sent { problem: Some(problem), made: None, name, role },
    };
    page(&app, &viewer, sent).await
}

async fn revoke(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    match admin::revoke_token(State(Arc::clone(&app)), caller, request, id).await {
        Ok(_) => {
            // The name is only told; which token it was says the address.
            let whose = form.text("name").map_or_else(|| "Token".into(), |name| format!("Token {name}"));
            Ok(done("/settings", &format!("{whose} revoked.")))
        }
        Err(problem) => page(&app, &viewer, Sent { problem: Some(problem), ..Sent::default() }).await,
    }
}
