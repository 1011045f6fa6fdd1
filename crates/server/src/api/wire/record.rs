//! What people wrote about an incident, as the API shows it.

use lazaret_core::gate::{self, Cause, Governance, Shut};
use lazaret_core::incident::{AgainstFix, FixStanding, IncidentState};
use lazaret_core::rca::{Fix, Rca};
use lazaret_store::incident::{Incident, IncidentRecord, TimelineEntry};
use serde::Serialize;
use utoipa::ToSchema;

use super::redrive::RedriveBody;

/// The record of one incident.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordBody {
    /// What the class of its letters says it is; an analysis knows better.
    #[schema(value_type = Option<String>)]
    pub suggested_category: Option<&'static str>,
    /// The analysis that holds.
    pub rca: Option<RcaBody>,
    /// Every revision, oldest first.
    pub rcas: Vec<RcaBody>,
    /// The fix that is in force.
    pub fix: Option<FixBody>,
    /// Every fix that was named, oldest first.
    pub fixes: Vec<FixBody>,
    /// Letters that died before then inherit the analysis.
    pub fix_at: Option<String>,
    /// Whether the incident regressed after its last fix and the RCA was not revised since.
    pub fix_disproved: bool,
    /// The last launch of a redrive of its letters.
    pub redriven_at: Option<String>,
    /// The newest entries, oldest first.
    pub timeline: Vec<TimelineBody>,
    /// The newest redrives of its letters, newest first.
    pub redrives: Vec<RedriveBody>,
    /// What is to be done before its letters go back, where governance is required; null if nothing is.
    pub next: Option<NextBody>,
}

#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RcaBody {
    pub revision: u32,
    #[schema(value_type = String)]
    pub category: &'static str,
    pub root_cause: String,
    pub remediation: String,
    pub author: String,
    pub at: String,
}

#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FixBody {
    /// deployed or decision
    #[schema(value_type = String)]
    pub kind: &'static str,
    pub reference: String,
    pub fixed_at: String,
    pub author: String,
    pub at: String,
    /// The revision of the analysis that it was named under.
    pub revision: u32,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct TimelineBody {
    pub at: String,
    /// A state it came to, or assigned, note, revised, fix_named, redrive_started and so on.
    pub kind: String,
    pub by: Option<String>,
    /// The note, the assignee, the reference, the id of the redrive.
    pub text: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct NextBody {
    /// rca_required, fix_required, decision_required or poison
    #[schema(value_type = String)]
    pub code: &'static str,
    pub reason: String,
    #[schema(value_type = String)]
    pub hint: &'static str,
}

impl RecordBody {
    pub fn new(incident: &Incident, record: IncidentRecord, redrives: Vec<RedriveBody>) -> RecordBody {
        let next = next(incident, &record);
        let fix = record.fix_in_force().cloned().map(FixBody::from);
        let rcas: Vec<RcaBody> = record.rcas.into_iter().map(RcaBody::from).collect();
        let fixes: Vec<FixBody> = record.fixes.into_iter().map(FixBody::from).collect();
        RecordBody {
            suggested_category: incident.class.category().map(|category| category.name()),
            rca: rcas.last().cloned(),
            rcas,
            fix,
            fixes,
            fix_at: record.fix.at().map(|at| at.to_string()),
            fix_disproved: record.fix == FixStanding::Disproved,
            redriven_at: record.redriven_at.map(|at| at.to_string()),
            timeline: record.timeline.into_iter().map(TimelineBody::from).collect(),
            redrives,
            next,
        }
    }
}

/// What the gate would say of letters that died before the fix.
fn next(incident: &Incident, record: &IncidentRecord) -> Option<NextBody> {
    let cause = Cause {
        // A closed incident whose fix was disproved is regressed again with its next letter.
        state: match record.fix {
            FixStanding::Disproved => IncidentState::Regressed,
            FixStanding::None | FixStanding::Named(_) => incident.state,
        },
        analysed: record.rcas.last().map(|rca| rca.analysis.category),
        class: incident.class.category(),
        fix: record.fix_in_force().map(|fix| fix.kind),
    };
    gate::pass(Governance::Required, cause, AgainstFix::Before).err().map(|shut: Shut| NextBody {
        code: shut.code(),
        reason: shut.to_string(),
        hint: shut.hint(),
    })
}

impl From<Rca> for RcaBody {
    fn from(rca: Rca) -> RcaBody {
        RcaBody {
            revision: rca.revision,
            category: rca.analysis.category.name(),
            root_cause: rca.analysis.root_cause,
            remediation: rca.analysis.remediation,
            author: rca.author,
            at: rca.at.to_string(),
        }
    }
}

impl From<Fix> for FixBody {
    fn from(fix: Fix) -> FixBody {
        FixBody {
            kind: fix.kind.name(),
            reference: fix.reference,
            fixed_at: fix.fixed_at.to_string(),
            author: fix.author,
            at: fix.at.to_string(),
            revision: fix.revision,
        }
    }
}

impl From<TimelineEntry> for TimelineBody {
    fn from(entry: TimelineEntry) -> TimelineBody {
        TimelineBody { at: entry.at.to_string(), kind: entry.kind, by: entry.by, text: entry.text }
    }
}
