//! Incidents: all letters of one cause, as lists and the incident's own page see them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use lazaret_core::class::{Category, ErrorClass};
use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, IncidentState, Unmoved};
use lazaret_core::pattern::Pattern;
use lazaret_core::rca::{Analysis, Fix, FixKind, Rca};
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;

/// One incident as lists see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Incident {
    pub id: IncidentId,
    /// Its newest fingerprint; others may point to it too.
    pub fingerprint: Fingerprint,
    pub title: String,
    pub state: IncidentState,
    pub letter_type: String,
    pub error_type: String,
    /// The error's message with what varies taken out.
    pub template: String,
    /// The class of the letter that opened it.
    pub class: ErrorClass,
    /// What its analysis says, if there is one.
    pub analysed: Option<Category>,
    /// Who looks after it.
    pub assignee: Option<String>,
    /// Live letters whose present life belongs to it.
    pub letters: u64,
    pub by_status: BTreeMap<&'static str, u64>,
    pub first_seen_at: Time,
    /// The last capture of a letter of it.
    pub last_seen_at: Time,
    /// The incident that took over its letters, when a new way of grouping found them to be one cause.
    pub merged_into: Option<IncidentId>,
}

/// The order of a list of incidents; ties are broken by id, in the same direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IncidentSort {
    #[default]
    LastSeenDesc,
    FirstSeenDesc,
    LettersDesc,
    /// Letters that are pending or on their way.
    UnsettledDesc,
}

impl IncidentSort {
    pub const ALL: [IncidentSort; 4] = [
        IncidentSort::LastSeenDesc,
        IncidentSort::FirstSeenDesc,
        IncidentSort::LettersDesc,
        IncidentSort::UnsettledDesc,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            IncidentSort::LastSeenDesc => "-lastSeenAt",
            IncidentSort::FirstSeenDesc => "-firstSeenAt",
            IncidentSort::LettersDesc => "-count",
            IncidentSort::UnsettledDesc => "-unsettled",
        }
    }

    pub fn parse(text: &str) -> Option<IncidentSort> {
        IncidentSort::ALL.into_iter().find(|sort| sort.name() == text)
    }
}

/// The last row of a page of incidents: what it is sorted by, and its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IncidentKey {
    pub value: i64,
    pub id: IncidentId,
}

/// One page of incidents. Every condition has to hold; one that is not given always does.
#[derive(Clone, Debug, Default)]
pub struct IncidentQuery {
    /// Any of these; all if there are none.
    pub states: Vec<IncidentState>,
    pub letter_type: Option<Pattern>,
    pub error_type: Option<Pattern>,
    pub class: Option<ErrorClass>,
    /// A part of the title, in any case.
    pub text: Option<String>,
    /// Last seen then or later.
    pub since: Option<Time>,
    pub sort: IncidentSort,
    pub limit: usize,
    pub after: Option<IncidentKey>,
}

#[derive(Clone, Debug)]
pub struct IncidentPage {
    pub incidents: Vec<Incident>,
    pub total: u64,
    pub next: Option<IncidentKey>,
}

/// One incident with what is known of its cause and its reach.
#[derive(Clone, Debug)]
pub struct IncidentDetail {
    pub incident: Incident,
    /// Every fingerprint that points to it, newest first, with what it is made of.
    pub fingerprints: Vec<(Fingerprint, Parts)>,
    pub affected: Affected,
    /// Incidents of other fingerprints that look alike, best first.
    pub similar: Vec<Similar>,
    pub record: IncidentRecord,
}

/// An incident that looks like another one, and what was found out about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Similar {
    pub incident: Incident,
    /// How alike they are, from 0 to 1.
    pub likeness: f64,
    /// Its analysis that holds.
    pub rca: Option<Rca>,
    /// The last fix that was named for it.
    pub fix: Option<Fix>,
}

/// How many incidents stand where; those that another one took over are none.
pub type IncidentCounts = BTreeMap<IncidentState, u64>;

/// What people wrote about an incident, and what happened to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncidentRecord {
    /// Every revision of the analysis, oldest first; the last one holds.
    pub rcas: Vec<Rca>,
    /// Every fix that was named, oldest first.
    pub fixes: Vec<Fix>,
    /// Whether a fix is in force; it is the last of `fixes`.
    pub fix: FixStanding,
    /// The last launch of a redrive of its letters.
    pub redriven_at: Option<Time>,
    /// The newest `limits::TIMELINE_ENTRIES_SHOWN`, oldest first.
    pub timeline: Vec<TimelineEntry>,
}

impl IncidentRecord {
    /// The fix that is in force.
    pub fn fix_in_force(&self) -> Option<&Fix> {
        self.fix.at().and(self.fixes.last())
    }
}

/// Something that happened to an incident.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimelineEntry {
    pub at: Time,
    /// A state it came to, or `assigned`, `note`, `revised`, `fix_named`, `redrive_started`, `redrive_done`,
    /// `redrive_stopped`, `redrive_cancelled`.
    pub kind: String,
    pub by: Option<String>,
    /// The note, the assignee, the reference, the id of the redrive.
    pub text: Option<String>,
}

/// What a person does about an incident.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IncidentStep {
    Diagnose(Analysis),
    Fix {
        kind: FixKind,
        reference: String,
        fixed_at: Time,
    },
    /// Only when nothing of it waits or is under way.
    Close(Option<String>),
    Assign(Option<String>),
    Note(String),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IncidentStepped {
    Done(IncidentState),
    Refused(Unmoved),
    /// The analysis was revised too often.
    TooMany,
    Unknown,
}

/// Whom an incident hits: the ten most frequent values each, over its newest letters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Affected {
    /// How many letters were looked at; fewer than the incident has means that only the newest were.
    pub over: u64,
    pub queues: Vec<(String, u64)>,
    pub types: Vec<(String, u64)>,
    pub subscribers: Vec<(String, u64)>,
    pub aggregates: Vec<(String, u64)>,
    pub tenants: Vec<(String, u64)>,
    pub classes: Vec<(String, u64)>,
}

/// What a store does for incidents. Every `Store` is one.
#[async_trait]
pub trait Incidents: Send + Sync {
    /// Fetches one page of incidents in a total order.
    async fn incidents(&self, query: IncidentQuery) -> Result<IncidentPage, StoreError>;

    /// Counts incidents by where they stand; states without any are left out.
    async fn incident_counts(&self) -> Result<IncidentCounts, StoreError>;

    /// Fetches one incident whole.
    async fn incident(&self, id: IncidentId) -> Result<Option<IncidentDetail>, StoreError>;

    /// Writes down what a person found out or did about an incident, moves it and writes the audit entry.
    async fn step_incident(
        &self,
        id: IncidentId,
        step: IncidentStep,
        by: Actor,
        at: Time,
    ) -> Result<IncidentStepped, StoreError>;
}
