//! Redrives as the server answers them: the plan, the run, and what became of each letter.

use serde::Deserialize;

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RedrivePage {
    pub items: Vec<Redrive>,
    pub next_cursor: Option<String>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Redrive {
    pub id: String,
    pub kind: String,
    pub state: String,
    /// Letters that go.
    pub count: u64,
    /// Letters on the list, the refused ones among them.
    pub total: u64,
    #[serde(default)]
    pub refused: u64,
    #[serde(default)]
    pub filter: String,
    pub by: Option<String>,
    pub reason: Option<String>,
    pub break_glass: Option<String>,
    /// Why it is paused, stopped or cancelled.
    pub why: Option<String>,
    pub rule: Option<String>,
    pub edit: Option<u64>,
    pub options: RunOptions,
    pub letters: Outcomes,
    pub canaries: Option<Outcomes>,
    #[serde(default)]
    pub canary_passed: bool,
    pub success_rate: Option<f64>,
    pub opened_at: String,
    pub launched_at: Option<String>,
    pub finished_at: Option<String>,
    pub expires_at: Option<String>,
    #[serde(default)]
    pub allowed_actions: Vec<String>,
    pub plan: Option<Plan>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RunOptions {
    pub pace: Pace,
    pub batch_size: u64,
    pub concurrency: u64,
    pub prioritization: Prioritization,
    pub canary: u64,
    #[serde(default)]
    pub canary_assumed: bool,
    pub canary_timeout: Option<String>,
    pub stop_percent: u64,
    pub stop_of: u64,
}

/// Letters a minute, or a word for something else.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(untagged)]
pub enum Pace {
    PerMinute(u64),
    Word(String),
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Prioritization {
    pub order_by: String,
    pub direction: String,
}

/// How many letters stand where.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub struct Outcomes {
    pub waiting: u64,
    pub out: u64,
    pub sent: u64,
    pub unknown: u64,
    pub succeeded: u64,
    pub assumed: u64,
    pub ended: u64,
    pub failed: u64,
    pub relapsed: u64,
    pub skipped: u64,
    pub lane_blocked: u64,
    pub cancelled: u64,
}

impl Outcomes {
    /// The work is done, proved or taken for it.
    pub fn good(&self) -> u64 {
        self.succeeded.saturating_add(self.assumed)
    }

    /// Letters of which nothing more is to come by itself.
    pub fn settled(&self) -> u64 {
        let rest = [self.unknown, self.ended, self.failed, self.relapsed];
        let never_sent = [self.skipped, self.lane_blocked, self.cancelled];
        rest.into_iter().chain(never_sent).fold(self.good(), u64::saturating_add)
    }

    /// Letters on their way, or sent and not known to have succeeded.
    pub fn under_way(&self) -> u64 {
        self.out.saturating_add(self.sent)
    }

    /// Letters for which the run did not do what was asked of it.
    pub fn bad(&self) -> u64 {
        [self.failed, self.relapsed, self.unknown, self.lane_blocked].into_iter().fold(0, u64::saturating_add)
    }
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    #[serde(default)]
    pub types: Vec<Counted>,
    #[serde(default)]
    pub queues: Vec<Counted>,
    #[serde(default)]
    pub destinations: Vec<Destination>,
    #[serde(default)]
    pub lanes: Lanes,
    #[serde(default)]
    pub older_outside: OlderOutside,
    /// At the chosen pace, ISO 8601.
    pub duration: Option<String>,
    #[serde(default)]
    pub samples: Vec<Sample>,
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// Those under whose analysis letters go.
    #[serde(default)]
    pub incidents: Vec<PlanIncident>,
}

#[derive(Deserialize, Clone, Debug)]
pub struct Counted {
    pub value: String,
    pub count: u64,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Destination {
    pub name: String,
    pub address: Option<String>,
    pub count: u64,
    /// Consumers that did not fail and would get the letters all the same.
    #[serde(default)]
    pub also_reaches: Vec<String>,
}

#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct Lanes {
    pub total: u64,
    pub unordered: u64,
    pub largest: Vec<Counted>,
}

/// Letters of the same order keys that died earlier and are not on the list.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
pub struct OlderOutside {
    pub count: u64,
    pub lanes: Vec<String>,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub letter_id: String,
    pub life: u64,
    pub destination: Option<String>,
    pub content_type: Option<String>,
    #[serde(default)]
    pub body_bytes: u64,
    /// Nothing where it is no text.
    pub body: Option<String>,
}

#[derive(Deserialize, Clone, Debug)]
pub struct Refusal {
    pub code: String,
    pub reason: String,
    pub hint: Option<String>,
    pub count: u64,
    #[serde(default)]
    pub incidents: Vec<PlanIncident>,
}

#[derive(Deserialize, Clone, Debug)]
pub struct PlanIncident {
    pub id: String,
    pub title: Option<String>,
    #[serde(default)]
    pub count: u64,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RedriveLetterPage {
    pub items: Vec<RedriveLetter>,
    pub next_cursor: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RedriveLetter {
    pub letter_id: String,
    pub life: u64,
    pub outcome: String,
    #[serde(default)]
    pub canary: bool,
    pub lane: Option<String>,
    /// What proves the outcome, or why it is so.
    pub evidence: Option<String>,
    pub outcome_at: Option<String>,
}

/// A redrive that a letter was in.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LetterRedrive {
    pub redrive_id: String,
    pub kind: String,
    pub life: u64,
    pub outcome: String,
    pub evidence: Option<String>,
    pub edit: Option<u64>,
    pub sent_at: Option<String>,
    pub outcome_at: Option<String>,
    pub by: Option<String>,
    pub reason: Option<String>,
}

/// A letter as somebody changed it before it was sent.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct LetterEdit {
    pub number: u64,
    pub life: u64,
    pub author: String,
    pub reason: Option<String>,
    pub at: String,
    #[serde(default)]
    pub content_type: String,
    pub destination: Option<String>,
    #[serde(default)]
    pub body_bytes: u64,
    /// Unified; nothing where one of the two is no text.
    pub diff: Option<String>,
    #[serde(default)]
    pub headers_changed: std::collections::BTreeMap<String, (Option<String>, Option<String>)>,
}

/// Whether the audit log is as it was written.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerdict {
    pub intact: bool,
    pub entries: u64,
    pub linked: u64,
    #[serde(default)]
    pub unlinked: u64,
    pub fault: Option<AuditFault>,
}

#[derive(Deserialize, Debug)]
pub struct AuditFault {
    pub position: u64,
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_number_or_a_word() {
        let read = |text: &str| serde_json::from_str::<Pace>(text).unwrap();
        assert_eq!(read("100"), Pace::PerMinute(100));
        assert_eq!(read("\"unlimited\""), Pace::Word("unlimited".into()));
    }

    #[test]
    fn every_letter_is_waiting_under_way_or_settled() {
        let each = Outcomes {
            waiting: 1,
            out: 2,
            sent: 4,
            unknown: 8,
            succeeded: 16,
            assumed: 32,
            ended: 64,
            failed: 128,
            relapsed: 256,
            skipped: 512,
            lane_blocked: 1_024,
            cancelled: 2_048,
        };
        assert_eq!(each.waiting + each.under_way() + each.settled(), 4_095);
        assert_eq!((each.good(), each.bad()), (48, 8 + 128 + 256 + 1_024));
    }
}
