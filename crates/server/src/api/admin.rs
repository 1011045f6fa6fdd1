//! Administration: who am I, the audit log, tokens, and emptying a test store.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use http::StatusCode;
use lazaret_core::id::{IncidentId, LetterId, RedriveId, TokenId};
use lazaret_core::limits;
use lazaret_store::audit::AuditQuery;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::guard::{RequestId, actor};
use super::letters::{Pairs, parse_limit, unknown_parameter};
use super::problem::{Code, Problem};
use super::wire::AuditBody;
use crate::access::{Caller, Role};
use crate::app::App;
use crate::raw_json::shown;
use crate::redaction::Masker;
use crate::tokens;

#[derive(Serialize, ToSchema)]
pub(crate) struct MeBody {
    pub actor: String,
    #[schema(value_type = String)]
    pub role: &'static str,
    /// True if the caller was let in without a token: none was ever made, and the request came from this machine.
    pub open: bool,
    #[schema(value_type = String)]
    pub version: &'static str,
}

/// Says who the caller is.
#[utoipa::path(get, path = "/api/v1/me", tag = "administration", responses((status = 200, body = MeBody)))]
pub(crate) async fn me(Extension(caller): Extension<Caller>) -> Json<MeBody> {
    Json(MeBody {
        open: caller.token.is_none(),
        actor: caller.name,
        role: caller.role.name(),
        version: env!("CARGO_PKG_VERSION"),
    })
}

#[derive(Serialize, ToSchema, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditList {
    pub items: Vec<AuditBody>,
    /// Pass it as `before` for the next page; null on the last one.
    pub next_before: Option<u64>,
}

/// Shows who decided what, newest first.
#[utoipa::path(
    get,
    path = "/api/v1/audit",
    tag = "administration",
    params(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("before" = Option<u64>, Query, description = "`nextBefore` of the page before"),
        ("letter" = Option<String>, Query, description = "Entries about this letter alone; decisions on many at once name a filter"),
        ("incident" = Option<String>, Query, description = "Entries about this incident alone"),
        ("redrive" = Option<String>, Query, description = "Entries about this redrive alone"),
        ("actor" = Option<String>, Query, description = "What this person or program did, by its whole name"),
        ("action" = Option<String>, Query, description = "Acts of this kind, such as `discard` or `letter.revealed`")
    ),
    responses((status = 200, body = AuditList))
)]
pub(crate) async fn audit(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<AuditList>, Problem> {
    let mut query = AuditQuery::newest(limits::PAGE_ROWS);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "limit" => query.limit = parse_limit(&value, limits::PAGE_ROWS_MAX)?,
            "letter" => query.letter = Some(LetterId::parse(&value)?),
            "incident" => query.incident = Some(IncidentId::parse(&value)?),
            "redrive" => query.redrive = Some(RedriveId::parse(&value)?),
            "actor" => query.actor = Some(value),
            "action" => query.action = Some(value),
            "before" => {
                let position = value.parse::<u64>().map_err(|_| {
                    Problem::new(
                        Code::BadRequest,
                        format!("before must be a position, got `{}`", shown(&value)),
                    )
                })?;
                query.before = Some(position);
            }
            _ => {
                let known = ["limit", "before", "letter", "incident", "redrive", "actor", "action"];
                return Err(unknown_parameter(&key, &known));
            }
        }
    }
    let limit = query.limit;
    let entries = app.store.audit(query).await?;
    let next_before = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.position);
    let masker = Masker::new(&app.redactor);
    let mut items: Vec<AuditBody> = entries.into_iter().map(AuditBody::from).collect();
    items.iter_mut().for_each(|item| item.hide(&masker));
    Ok(Json(AuditList { items, next_before }))
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TokenList {
    pub items: Vec<TokenBody>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TokenBody {
    pub id: String,
    pub name: String,
    pub role: String,
    pub created_at: String,
    pub created_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// Lists tokens; their texts are not kept anywhere.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "administration", responses((status = 200, body = TokenList)))]
pub(crate) async fn tokens(State(app): State<Arc<App>>) -> Result<Json<TokenList>, Problem> {
    let items = app
        .store
        .tokens()
        .await?
        .into_iter()
        .map(|token| TokenBody {
            id: token.id.to_string(),
            name: token.name,
            role: token.role,
            created_at: token.created_at.to_string(),
            created_by: token.created_by,
            revoked_at: token.revoked_at.map(|at| at.to_string()),
        })
        .collect();
    Ok(Json(TokenList { items }))
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokenWish {
    /// Who or what will use it; the audit log shows this name.
    pub name: String,
    /// producer, viewer, operator, approver or admin
    pub role: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreatedToken {
    pub id: String,
    pub name: String,
    #[schema(value_type = String)]
    pub role: &'static str,
    /// Shown this once.
    pub token: String,
    pub created_at: String,
}

/// Makes a token.
#[utoipa::path(
    post,
    path = "/api/v1/tokens",
    tag = "administration",
    request_body = TokenWish,
    responses((status = 201, body = CreatedToken), (status = 400, description = "bad_request"))
)]
pub(crate) async fn create_token(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    body: Result<Json<TokenWish>, JsonRejection>,
) -> Result<(StatusCode, Json<CreatedToken>), Problem> {
    let Json(wish) = body?;
    let role = Role::parse(&wish.role).ok_or_else(|| {
        let known: Vec<&str> = Role::ALL.into_iter().map(Role::name).collect();
        Problem::new(Code::BadRequest, format!("the role `{}` is unknown", shown(&wish.role)))
            .hint(format!("known: {}", known.join(", ")))
    })?;
    let by = actor(&caller, &request);
    let made =
        tokens::create(app.store.as_ref(), &app.entropy, app.clock.now(), &wish.name, role, by).await?;
    app.access.reload(app.store.as_ref()).await?;
    let body = CreatedToken {
        id: made.id.to_string(),
        name: made.name,
        role: made.role.name(),
        token: made.token,
        created_at: made.created_at.to_string(),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Revokes a token at once.
#[utoipa::path(
    delete,
    path = "/api/v1/tokens/{id}",
    tag = "administration",
    params(("id" = String, Path)),
    responses((status = 204), (status = 404, description = "not_found"))
)]
pub(crate) async fn revoke_token(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let Path(text) = id?;
    let id = TokenId::parse(&text)?;
    if !app.store.revoke_token(id, actor(&caller, &request), app.clock.now()).await? {
        return Err(Problem::new(Code::NotFound, format!("there is no token {id} in force")));
    }
    app.access.reload(app.store.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Empties a store that was made in test mode.
#[utoipa::path(post, path = "/test/reset", tag = "test mode", responses((status = 204), (status = 404, description = "not_found: the store is for real use")))]
pub(crate) async fn reset(State(app): State<Arc<App>>) -> Result<StatusCode, Problem> {
    app.store.reset().await?;
    Ok(StatusCode::NO_CONTENT)
}
