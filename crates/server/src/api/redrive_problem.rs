//! Why nothing was put back, as problems: each says what to do next.

use lazaret_core::gate::Shut;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use serde_json::{Value, json};

use super::problem::{Code, Problem};
use super::wire::redrive::allowed;
use crate::redrive::{NotRedriven, ShutIncident};

/// The gate is shut for one incident, for this reason.
pub(crate) fn shut(shut: Shut, incident: IncidentId, reason: String) -> Problem {
    let named = json!([{
        "id": incident.to_string(),
        "url": incident_url(incident),
        "code": shut.code(),
        "reason": &reason,
        "hint": shut.hint(),
    }]);
    Problem::new(code(shut), format!("incident {incident}: {reason}"))
        .with("incidents", named)
        .hint(shut.hint())
}

pub(crate) fn incident_url(incident: IncidentId) -> String {
    format!("/api/v1/incidents/{incident}")
}

const fn code(shut: Shut) -> Code {
    match shut {
        Shut::RcaRequired | Shut::Regressed | Shut::DiedAfterFix => Code::RcaRequired,
        Shut::FixRequired => Code::FixRequired,
        Shut::DecisionRequired => Code::DecisionRequired,
        Shut::Poison => Code::Poison,
    }
}

fn all_shut(incidents: &[ShutIncident], detail: String) -> Problem {
    let named: Vec<Value> = incidents
        .iter()
        .take(limits::INCIDENTS_NAMED)
        .map(|one| {
            json!({
                "id": one.incident.to_string(),
                "url": incident_url(one.incident),
                "code": one.shut.code(),
                "reason": one.shut.to_string(),
                "hint": one.shut.hint(),
                "count": one.letters,
            })
        })
        .collect();
    // The first is what has to be done first; the others are beside it.
    let first = incidents.first().map_or(Shut::RcaRequired, |one| one.shut);
    Problem::new(code(first), detail).with("incidents", named).hint(first.hint())
}

impl From<NotRedriven> for Problem {
    fn from(error: NotRedriven) -> Problem {
        let text = error.to_string();
        match error {
            NotRedriven::Unknown(_) => Problem::new(Code::NotFound, text)
                .hint("find redrives with GET /api/v1/redrives or `lazaret redrive ls`"),
            NotRedriven::UnknownLetter(id) => Problem::no_letter(id),
            NotRedriven::FilterRequired => filter_required(),
            NotRedriven::BadOption { field, .. } => Problem::new(Code::BadRequest, text).with("field", field),
            NotRedriven::CountMismatch { count, expected } => Problem::new(Code::CountMismatch, text)
                .with("count", count)
                .with("expectedCount", expected)
                .hint("check the current count, then send it"),
            NotRedriven::TooLarge(_) => {
                Problem::new(Code::TooBroad, text).hint("use a narrower filter, for example with since:24h")
            }
            NotRedriven::State { state, .. } => {
                let allowed: Vec<&str> = allowed(state).collect();
                let hint = match allowed.as_slice() {
                    [] => "it is finished; create a new plan with POST /api/v1/redrives/plan".to_owned(),
                    allowed => format!("allowed now: {}", allowed.join(", ")),
                };
                Problem::new(Code::RedriveState, text)
                    .with("state", state.name())
                    .with("allowedActions", json!(allowed))
                    .hint(hint)
            }
            NotRedriven::Letter(refused) => refused.into(),
            NotRedriven::Shut(incidents) => all_shut(&incidents, text),
            NotRedriven::NoWayBack(_) => Problem::new(Code::NoWayBack, text)
                .hint("configure [sources.<name>.destination], or repeat the work at the source and resolve the letter"),
            NotRedriven::BodyMissing(..) => Problem::new(Code::NoWayBack, text)
                .with("field", "edit.body")
                .hint("send a new body in `edit.body`, or discard the letter"),
            NotRedriven::PlanExpired(_) => {
                Problem::new(Code::PlanExpired, text).hint("create a new plan with POST /api/v1/redrives/plan")
            }
            NotRedriven::GlassReason => Problem::new(Code::GlassReason, text)
                .with("field", "breakGlass")
                .hint("give the reason of the emergency override in `breakGlass`; it is recorded in the audit log"),
            NotRedriven::GlassForbidden => Problem::new(Code::GlassForbidden, text)
                .with("may", json!(["admin"]))
                .hint("ask an administrator, or complete RCA and fix"),
            NotRedriven::NotUnknown(_) => Problem::new(Code::NotAllowed, text)
                .hint("list unknown outcomes with GET /api/v1/redrives/{id}/letters?outcome=unknown"),
            NotRedriven::BadEdit(_) => Problem::new(Code::BadRequest, text).with("field", "edit"),
            NotRedriven::NotByReceipt(_) => Problem::new(Code::NotAllowed, text),
            NotRedriven::Store(error) => error.into(),
        }
    }
}

pub(crate) fn filter_required() -> Problem {
    Problem::new(Code::FilterRequired, "filter required: it must not match all pending letters")
        .hint(r#"send {"filter":{"queue":"billing"}}, {"letters":["…"]}, or {"all":true,"expectedCount":12} for everything"#)
}
