//! Incidents as the API shows them, in lists and by themselves.

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::lifecycle::Status;
use lazaret_store::incident::{Affected, Incident, Similar};
use lazaret_store::series::{Line, Point};
use serde::Serialize;
use utoipa::ToSchema;

use super::record::{FixBody, RcaBody, RecordBody};
use crate::api::series::Span;

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IncidentBody {
    pub id: String,
    /// The newest one that points to it.
    pub fingerprint: String,
    pub title: String,
    /// open, diagnosed, fixed, redriving, verifying, closed or regressed
    #[schema(value_type = String)]
    pub state: &'static str,
    /// Letters whose present life belongs to it.
    pub count: u64,
    pub by_status: ByStatus,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub error_type: String,
    /// The error's message with what varies taken out.
    pub template: String,
    /// The class of the letter that opened it.
    #[schema(value_type = String)]
    pub class: &'static str,
    /// infrastructure, contract, business or poison_pill: what the analysis says, or else the class; null if neither tells
    #[schema(value_type = Option<String>)]
    pub category: Option<&'static str>,
    /// Who looks after it.
    pub assignee: Option<String>,
    pub first_seen_at: String,
    /// The last capture of a letter of it.
    pub last_seen_at: String,
    /// The incident that took over its letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<String>,
    pub sparkline: Sparkline,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ByStatus {
    pub pending: u64,
    pub reprocessing: u64,
    pub resolved: u64,
    pub discarded: u64,
}

/// Deaths captured in each of the last 48 hours.
#[derive(Serialize, ToSchema)]
pub(crate) struct Sparkline {
    /// hour
    #[schema(value_type = String)]
    pub step: &'static str,
    /// The beginning of the first hour.
    pub from: String,
    /// Oldest first; the last is the hour that is under way.
    pub arrived: Vec<u64>,
}

impl Sparkline {
    /// Fills the steps of a span from a line that leaves out the empty ones.
    pub fn new(span: Span, line: Option<&Line>) -> Sparkline {
        let mut arrived = vec![0; span.steps()];
        for point in line.into_iter().flat_map(|line| &line.points) {
            let at = point.at.since(span.from).div_euclid(span.step.ms());
            // What lies before the span has a negative place and is none of its steps.
            if let Some(slot) = usize::try_from(at).ok().and_then(|at| arrived.get_mut(at)) {
                *slot += point.arrived;
            }
        }
        Sparkline { step: span.step.name(), from: span.from.to_string(), arrived }
    }
}

impl IncidentBody {
    pub fn new(incident: Incident, sparkline: Sparkline) -> IncidentBody {
        let count = |status: Status| incident.by_status.get(status.name()).copied().unwrap_or(0);
        IncidentBody {
            by_status: ByStatus {
                pending: count(Status::Pending),
                reprocessing: count(Status::Reprocessing),
                resolved: count(Status::Resolved),
                discarded: count(Status::Discarded),
            },
            id: incident.id.to_string(),
            fingerprint: incident.fingerprint.to_string(),
            title: incident.title,
            state: incident.state.name(),
            count: incident.letters,
            letter_type: incident.letter_type,
            error_type: incident.error_type,
            template: incident.template,
            class: incident.class.name(),
            category: incident.analysed.or(incident.class.category()).map(|category| category.name()),
            assignee: incident.assignee,
            first_seen_at: incident.first_seen_at.to_string(),
            last_seen_at: incident.last_seen_at.to_string(),
            merged_into: incident.merged_into.map(|id| id.to_string()),
            sparkline,
        }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IncidentList {
    pub items: Vec<IncidentBody>,
    pub total: u64,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// One incident with what is known of its cause and its reach.
#[derive(Serialize, ToSchema)]
pub(crate) struct IncidentEntry {
    #[serde(flatten)]
    pub incident: IncidentBody,
    #[serde(flatten)]
    pub record: RecordBody,
    /// Every fingerprint that points to it, newest first.
    pub fingerprints: Vec<FingerprintBody>,
    pub affected: AffectedBody,
    /// The last 14 days; hours in which nothing moved are left out.
    pub series: SeriesBody,
    /// Incidents of other fingerprints that look alike, best first.
    pub similar: Vec<SimilarBody>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct FingerprintBody {
    pub fingerprint: String,
    pub parts: PartsBody,
}

impl From<(Fingerprint, Parts)> for FingerprintBody {
    fn from((fingerprint, parts): (Fingerprint, Parts)) -> FingerprintBody {
        FingerprintBody { fingerprint: fingerprint.to_string(), parts: parts.into() }
    }
}

/// What a fingerprint is made of.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartsBody {
    #[serde(rename = "type")]
    pub letter_type: String,
    pub error_type: String,
    /// The language that the backtrace was read as.
    #[schema(value_type = Option<String>)]
    pub language: Option<&'static str>,
    /// The program's own frames nearest the failure.
    pub frames: Vec<String>,
    pub template: String,
    /// The rule that decided it.
    pub rule: Option<String>,
}

impl From<Parts> for PartsBody {
    fn from(parts: Parts) -> PartsBody {
        PartsBody {
            letter_type: parts.letter_type,
            error_type: parts.error_type,
            language: parts.language.map(|language| language.name()),
            frames: parts.frames,
            template: parts.template,
            rule: parts.rule,
        }
    }
}

/// Whom an incident hits: the ten most frequent values each.
#[derive(Serialize, ToSchema)]
pub(crate) struct AffectedBody {
    /// Letters that were looked at; fewer than `count` means that only the newest were.
    pub over: u64,
    pub queues: Vec<ValueCount>,
    pub types: Vec<ValueCount>,
    pub subscribers: Vec<ValueCount>,
    pub aggregates: Vec<ValueCount>,
    pub tenants: Vec<ValueCount>,
    pub classes: Vec<ValueCount>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ValueCount {
    pub value: String,
    pub count: u64,
}

impl From<Affected> for AffectedBody {
    fn from(affected: Affected) -> AffectedBody {
        let counted = |values: Vec<(String, u64)>| {
            values.into_iter().map(|(value, count)| ValueCount { value, count }).collect()
        };
        AffectedBody {
            over: affected.over,
            queues: counted(affected.queues),
            types: counted(affected.types),
            subscribers: counted(affected.subscribers),
            aggregates: counted(affected.aggregates),
            tenants: counted(affected.tenants),
            classes: counted(affected.classes),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SeriesBody {
    /// hour
    #[schema(value_type = String)]
    pub step: &'static str,
    pub from: String,
    pub until: String,
    pub points: Vec<PointBody>,
}

impl SeriesBody {
    pub fn new(span: Span, line: Option<Line>) -> SeriesBody {
        SeriesBody {
            step: span.step.name(),
            from: span.from.to_string(),
            until: span.until.to_string(),
            points: line.into_iter().flat_map(|line| line.points).map(PointBody::from).collect(),
        }
    }
}

/// One step in which something moved.
#[derive(Serialize, ToSchema)]
pub(crate) struct PointBody {
    /// The beginning of the step.
    pub at: String,
    /// Deaths captured.
    pub arrived: u64,
    /// Letters resolved or discarded.
    pub departed: u64,
}

impl From<Point> for PointBody {
    fn from(point: Point) -> PointBody {
        PointBody { at: point.at.to_string(), arrived: point.arrived, departed: point.departed }
    }
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SimilarBody {
    pub id: String,
    pub title: String,
    #[schema(value_type = String)]
    pub state: &'static str,
    pub count: u64,
    pub last_seen_at: String,
    /// From 0 to 1.
    pub likeness: f64,
    /// Its analysis that holds.
    pub rca: Option<RcaBody>,
    /// The last fix that was named for it.
    pub fix: Option<FixBody>,
}

impl From<Similar> for SimilarBody {
    fn from(Similar { incident, likeness, rca, fix }: Similar) -> SimilarBody {
        SimilarBody {
            rca: rca.map(RcaBody::from),
            fix: fix.map(FixBody::from),
            id: incident.id.to_string(),
            title: incident.title,
            state: incident.state.name(),
            count: incident.letters,
            last_seen_at: incident.last_seen_at.to_string(),
            likeness: (likeness.clamp(0.0, 1.0) * 100.0).round() / 100.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::time::Time;
    use lazaret_store::series::Step;

    use super::*;

    #[test]
    fn a_sparkline_has_every_hour_and_the_last_is_the_one_under_way() {
        let now = Time::parse("2026-11-15T03:20:00Z").unwrap();
        let span = Span::last(Step::Hour, 48, now);
        let point = |at: &str, arrived| Point { at: Time::parse(at).unwrap(), arrived, departed: 0 };
        let points = vec![
            point("2026-11-13T03:00:00Z", 99),
            point("2026-11-13T04:00:00Z", 1),
            point("2026-11-15T03:00:00Z", 2),
            point("2026-11-15T04:00:00Z", 99),
        ];
        let sparkline = Sparkline::new(span, Some(&Line { value: String::new(), points }));
        assert_eq!(sparkline.from, "2026-11-13T04:00:00.000Z");
        assert_eq!((sparkline.arrived.len(), sparkline.arrived.iter().sum::<u64>()), (48, 3));
        assert_eq!((sparkline.arrived[0], sparkline.arrived[47]), (1, 2));
        assert_eq!(Sparkline::new(span, None).arrived, [0; 48]);
    }
}
