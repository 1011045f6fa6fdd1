//! Incidents and lines of numbers as the server answers them.

use serde::Deserialize;

use super::redrive::Redrive;

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct IncidentPage {
    pub items: Vec<Incident>,
    pub total: u64,
    pub next_cursor: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    pub id: String,
    pub fingerprint: String,
    pub title: String,
    pub state: String,
    pub count: u64,
    pub by_status: ByStatus,
    #[serde(rename = "type")]
    pub letter_type: String,
    pub error_type: String,
    pub template: String,
    pub class: String,
    pub category: Option<String>,
    pub first_seen_at: String,
    pub last_seen_at: String,
    pub merged_into: Option<String>,
    pub sparkline: Sparkline,
}

#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub struct ByStatus {
    pub pending: u64,
    pub reprocessing: u64,
    pub resolved: u64,
    pub discarded: u64,
}

#[derive(Deserialize, Debug)]
pub struct Sparkline {
    /// Oldest first.
    pub arrived: Vec<u64>,
}

/// What the whole incident has beside what lists show; read from the same text.
#[derive(Deserialize, Debug)]
pub struct IncidentRest {
    #[serde(default)]
    pub fingerprints: Vec<FingerprintParts>,
    pub affected: Affected,
    pub series: Series,
    #[serde(default)]
    pub similar: Vec<Similar>,
    pub assignee: Option<String>,
    /// What the class of its letters suggests.
    #[serde(rename = "suggestedCategory")]
    pub suggested_category: Option<String>,
    /// The analysis that holds.
    pub rca: Option<Rca>,
    /// The fix that is in force.
    pub fix: Option<Fix>,
    /// Oldest first.
    #[serde(default)]
    pub timeline: Vec<Told>,
    /// Newest first.
    #[serde(default)]
    pub redrives: Vec<Redrive>,
    /// What the gate asks for next.
    pub next: Option<NextStep>,
}

/// One revision of the analysis.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Rca {
    pub revision: u64,
    pub category: String,
    pub root_cause: String,
    pub remediation: String,
    pub author: String,
    pub at: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    pub kind: String,
    pub reference: String,
    pub fixed_at: String,
    pub author: String,
}

/// Something that happened to an incident.
#[derive(Deserialize, Debug)]
pub struct Told {
    pub at: String,
    pub kind: String,
    pub by: Option<String>,
    pub text: Option<String>,
}

#[derive(Deserialize, Debug)]
pub struct NextStep {
    pub code: String,
}

#[derive(Deserialize, Debug)]
pub struct FingerprintParts {
    pub fingerprint: String,
    pub parts: Parts,
}

/// What a fingerprint is made of.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Parts {
    #[serde(rename = "type")]
    pub letter_type: String,
    pub error_type: String,
    pub language: Option<String>,
    #[serde(default)]
    pub frames: Vec<String>,
    pub template: String,
    pub rule: Option<String>,
}

/// Why the letter belongs to its incident, and what it has of its own.
#[derive(Deserialize, Debug)]
pub struct Grouping {
    pub parts: Parts,
    #[serde(default)]
    pub differences: Vec<Difference>,
}

#[derive(Deserialize, Debug)]
pub struct Difference {
    pub part: String,
    pub common: String,
    pub here: String,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Affected {
    /// How many letters were looked at.
    pub over: u64,
    #[serde(default)]
    pub queues: Vec<ValueCount>,
    #[serde(default)]
    pub types: Vec<ValueCount>,
    #[serde(default)]
    pub subscribers: Vec<ValueCount>,
    #[serde(default)]
    pub aggregates: Vec<ValueCount>,
    #[serde(default)]
    pub tenants: Vec<ValueCount>,
    #[serde(default)]
    pub classes: Vec<ValueCount>,
}

#[derive(Deserialize, Debug)]
pub struct ValueCount {
    pub value: String,
    pub count: u64,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Similar {
    pub id: String,
    pub title: String,
    pub state: String,
    pub count: u64,
    pub last_seen_at: String,
    pub likeness: f64,
}

/// One line; steps without changes may be omitted.
#[derive(Deserialize, Debug)]
pub struct Series {
    pub step: String,
    pub from: String,
    pub until: String,
    pub points: Vec<Point>,
}

#[derive(Deserialize, Debug)]
pub struct Point {
    pub at: String,
    pub arrived: u64,
    pub departed: u64,
}

/// Several lines between the same two times.
#[derive(Deserialize, Debug)]
pub struct SeriesLines {
    pub step: String,
    pub from: String,
    pub until: String,
    pub items: Vec<SeriesLine>,
}

#[derive(Deserialize, Debug)]
pub struct SeriesLine {
    pub value: String,
    pub points: Vec<Point>,
}
