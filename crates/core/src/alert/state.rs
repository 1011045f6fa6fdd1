//! An alert and where it stands.

use sha2::{Digest as _, Sha256};

use super::rule::{RuleKind, Scope, Severity};
use crate::id::{AlertId, IncidentId, LetterId};
use crate::time::Time;

/// What an alert is about. There is one alert for each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlertKey {
    pub kind: RuleKind,
    pub scope: Scope,
    /// The type, the queue, the incident's id, …; empty for `Scope::All`.
    pub subject: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertState {
    /// Above its value, but not for long enough.
    Pending,
    Firing,
    Resolved,
}

/// Who took care of a firing alert.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    pub by: String,
    pub at: Time,
    pub reason: Option<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Alert {
    pub key: AlertKey,
    /// The name of the rule that applied last.
    pub rule: String,
    pub severity: Severity,
    pub state: AlertState,
    /// Since when the value is too high.
    pub since: Time,
    pub fired_at: Option<Time>,
    /// Since when a firing alert is no longer too high.
    pub clear_since: Option<Time>,
    pub resolved_at: Option<Time>,
    pub value: f64,
    /// Letters since it fired.
    pub count: u64,
    /// Occurrences by minute, within the window of its rule.
    pub recent: Vec<(i64, u64)>,
    pub summary: String,
    /// Labels besides the rule, the severity and the subject.
    pub labels: Vec<(String, String)>,
    pub sample: Option<LetterId>,
    pub incident: Option<IncidentId>,
    /// How often it fired again shortly after it resolved; each time it takes longer to resolve.
    pub flaps: u32,
    pub ack: Option<Ack>,
    pub updated_at: Time,
}

impl AlertKey {
    /// The id of the alert: the same key always has the same one.
    pub fn id(&self) -> AlertId {
        let mut hash = Sha256::new();
        for part in [self.kind.name(), self.scope.name(), &self.subject] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        AlertId::from_bytes(bytes)
    }
}

impl AlertState {
    pub const ALL: [AlertState; 3] = [AlertState::Pending, AlertState::Firing, AlertState::Resolved];

    pub const fn name(self) -> &'static str {
        match self {
            AlertState::Pending => "pending",
            AlertState::Firing => "firing",
            AlertState::Resolved => "resolved",
        }
    }

    pub fn parse(text: &str) -> Option<AlertState> {
        AlertState::ALL.into_iter().find(|state| state.name() == text)
    }
}

impl Alert {
    pub fn id(&self) -> AlertId {
        self.key.id()
    }

    /// What routes, silences and rules match, each label once.
    pub fn labels(&self) -> Vec<(&str, &str)> {
        let mut labels = vec![
            ("rule", self.rule.as_str()),
            ("kind", self.key.kind.name()),
            ("severity", self.severity.name()),
        ];
        if self.key.scope != Scope::All {
            labels.push((self.key.scope.name(), &self.key.subject));
        }
        let known: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
        let more = self.labels.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        labels.extend(more.map(|(name, value)| (name.as_str(), value.as_str())));
        labels
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().into_iter().find(|(label, _)| *label == name).map(|(_, value)| value)
    }
}
