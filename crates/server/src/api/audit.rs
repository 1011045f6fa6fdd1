//! Whether the audit log is still what was written.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::letters::{Pairs, unknown_parameter};
use super::problem::{Code, Problem};
use super::wire::hex;
use crate::app::App;
use crate::audit::{self, Verdict};

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VerdictBody {
    /// Whether every entry that is linked is what was written, and none is missing.
    pub intact: bool,
    /// Entries that were looked at; with a fault, up to there.
    pub entries: u64,
    pub linked: u64,
    /// The newest ones, which are not linked yet.
    pub unlinked: u64,
    /// The newest entry that is linked and fits. Written down elsewhere, the two prove later that nothing before was
    /// touched.
    pub newest_position: Option<u64>,
    pub newest_link: Option<String>,
    /// The first place where the log is not what was written.
    pub fault: Option<FaultBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FaultBody {
    pub position: u64,
    /// The entry that stands there, if one does.
    pub id: Option<String>,
    /// changed, removed, cut_off, inserted or other_key
    #[schema(value_type = String)]
    pub kind: &'static str,
    #[schema(value_type = String)]
    pub detail: &'static str,
}

/// Walks through the whole audit log and checks its chain.
#[utoipa::path(
    get,
    path = "/api/v1/audit/verify",
    tag = "administration",
    responses(
        (status = 200, body = VerdictBody, description = "Also on a fault: see `intact`"),
        (status = 409, description = "no_audit_key: this server has no audit key")
    )
)]
pub(crate) async fn verify(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<VerdictBody>, Problem> {
    if let Some((key, _)) = pairs?.0.first() {
        return Err(unknown_parameter(key, &[]));
    }
    let Some(key) = &app.audit_key else {
        return Err(Problem::new(Code::NoAuditKey, "no audit log key configured")
            .hint("set audit.key_file, or restore the missing key; see the server log"));
    };
    Ok(Json(audit::verify(app.store.as_ref(), key).await?.into()))
}

impl From<Verdict> for VerdictBody {
    fn from(verdict: Verdict) -> VerdictBody {
        VerdictBody {
            intact: verdict.fault.is_none(),
            entries: verdict.entries,
            linked: verdict.linked,
            unlinked: verdict.unlinked,
            newest_position: verdict.head.as_ref().map(|head| head.position),
            newest_link: verdict.head.as_ref().map(|head| hex(&head.link)),
            fault: verdict.fault.map(|fault| FaultBody {
                position: fault.position,
                id: fault.id.map(|id| id.to_string()),
                kind: fault.kind.name(),
                detail: fault.kind.told(),
            }),
        }
    }
}
