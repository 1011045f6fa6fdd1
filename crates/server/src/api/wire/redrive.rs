//! Redrives as the API shows them: one shape for the plan, the run and the list.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunAction, RunState};
use lazaret_store::redrive::{Redrive, RedriveLetter};
use serde::Serialize;
use utoipa::ToSchema;

use crate::redrive::Plan;

/// What may be done to a redrive that stands like this, by the names of the API.
pub(crate) fn allowed(state: RunState) -> impl Iterator<Item = &'static str> {
    let may = move |action| state.after(action).is_some();
    let paced = may(RunAction::Pause) || may(RunAction::Resume);
    [
        ("launch", may(RunAction::Launch)),
        ("pause", may(RunAction::Pause)),
        ("resume", may(RunAction::Resume)),
        ("cancel", may(RunAction::Cancel)),
        ("pace", paced),
    ]
    .into_iter()
    .filter(|(_, allowed)| *allowed)
    .map(|(name, _)| name)
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveBody {
    pub id: String,
    /// single, bulk, rule or plan
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// planning, planned, canary, running, paused, verifying, done, stopped or cancelled
    #[schema(value_type = String)]
    pub state: &'static str,
    /// Letters that go: what the launch has to say. Once launched, all that were not refused.
    pub count: u64,
    /// Letters on the list, the refused ones among them.
    pub total: u64,
    /// Letters that the gate or the lack of a way back keeps from going.
    pub refused: u64,
    /// The filter in its text form; empty if the letters were named.
    pub filter: String,
    pub by: String,
    pub role: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the gate was passed by force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<String>,
    /// Why it is paused, stopped or cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The edit that is sent in place of the original, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<u32>,
    pub options: OptionsBody,
    /// How many letters stand where.
    pub letters: OutcomesBody,
    /// The same of the canaries; null if there are none.
    pub canaries: Option<OutcomesBody>,
    pub canary_passed: bool,
    /// How many of a letter that has come to its end succeeded, from 0 to 1; null before the first.
    pub success_rate: Option<f64>,
    pub opened_at: String,
    pub launched_at: Option<String>,
    pub finished_at: Option<String>,
    pub updated_at: String,
    /// Until when it can be launched.
    pub expires_at: Option<String>,
    /// What may be done with it now.
    #[schema(value_type = Vec<String>)]
    pub allowed_actions: Vec<&'static str>,
    /// What was shown before the launch; null for what needs no plan, and in lists.
    pub plan: Option<Plan>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OptionsBody {
    /// Letters a minute, or "unlimited".
    #[schema(value_type = Object)]
    pub pace: PaceBody,
    pub batch_size: u32,
    pub concurrency: u32,
    pub prioritization: PrioritizationBody,
    pub canary: u32,
    pub canary_timeout: String,
    pub canary_assumed: bool,
    pub stop_percent: u32,
    pub stop_of: u32,
    pub quiet: String,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum PaceBody {
    PerMinute(u32),
    Word(&'static str),
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PrioritizationBody {
    /// createdAt, diedAt or retryCount
    #[schema(value_type = String)]
    pub order_by: &'static str,
    /// asc or desc
    #[schema(value_type = String)]
    pub direction: &'static str,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutcomesBody {
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

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveList {
    pub items: Vec<RedriveBody>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveLetterList {
    pub items: Vec<RedriveLetterBody>,
    /// Pass it as `cursor` for the next page; null on the last one.
    pub next_cursor: Option<String>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RedriveLetterBody {
    pub ordinal: u64,
    pub letter_id: String,
    pub life: u32,
    #[schema(value_type = String)]
    pub outcome: &'static str,
    pub canary: bool,
    /// The order key it keeps to.
    pub lane: Option<String>,
    pub group: u32,
    /// What proves the outcome, or why it is so.
    pub evidence: Option<String>,
    pub idempotency_key: Option<String>,
    /// What the destination handed out for it: a sequence, a delivery tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    pub sent_at: Option<String>,
    pub outcome_at: Option<String>,
}

/// What one redrive made of a letter, as the letter's page shows it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LetterRedriveBody {
    pub redrive_id: String,
    #[schema(value_type = String)]
    pub kind: &'static str,
    #[schema(value_type = String)]
    pub state: &'static str,
    pub by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The life that was sent.
    pub life: u32,
    /// The edit that was sent in place of the original, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<u32>,
    #[schema(value_type = String)]
    pub outcome: &'static str,
    pub evidence: Option<String>,
    pub idempotency_key: Option<String>,
    pub sent_at: Option<String>,
    pub outcome_at: Option<String>,
}

impl RedriveBody {
    /// A redrive with the plan that is kept beside it.
    pub fn whole(redrive: Redrive) -> RedriveBody {
        let plan = match redrive.kind {
            RedriveKind::Plan => redrive.plan.as_deref().map(|text| Plan::of(Some(text))),
            RedriveKind::Single | RedriveKind::Bulk | RedriveKind::Rule => None,
        };
        RedriveBody::new(redrive, plan)
    }

    pub fn new(redrive: Redrive, plan: Option<Plan>) -> RedriveBody {
        let state = redrive.state;
        let unlaunched = state.after(RunAction::Freeze).or(state.after(RunAction::Launch)).is_some();
        let count = |outcome: Outcome| redrive.letters.get(&outcome).copied().unwrap_or(0);
        let expires_at = redrive.opened_at.plus_ms(limits::PLAN_AGE_MS_MAX);
        RedriveBody {
            id: redrive.id.to_string(),
            kind: redrive.kind.name(),
            state: state.name(),
            count: if unlaunched { count(Outcome::Waiting) } else { redrive.letters.values().sum() },
            total: redrive.total,
            refused: redrive.refused,
            options: OptionsBody::from(&redrive.options),
            success_rate: success_rate(&redrive.letters),
            letters: OutcomesBody::from(&redrive.letters),
            canaries: (!redrive.canaries.is_empty()).then(|| OutcomesBody::from(&redrive.canaries)),
            canary_passed: redrive.canary_passed,
            filter: redrive.filter,
            by: redrive.by.name,
            role: redrive.by.role,
            reason: redrive.reason,
            break_glass: redrive.break_glass,
            why: redrive.why,
            rule: redrive.rule,
            edit: redrive.edit,
            opened_at: redrive.opened_at.to_string(),
            launched_at: redrive.launched_at.map(|at| at.to_string()),
            finished_at: redrive.finished_at.map(|at| at.to_string()),
            updated_at: redrive.updated_at.to_string(),
            expires_at: unlaunched.then(|| expires_at.to_string()),
            allowed_actions: allowed(state).collect(),
            plan,
        }
    }
}

/// How many of those that have come to their end are done; one that ended without a dead letter is not.
fn success_rate(letters: &BTreeMap<Outcome, u64>) -> Option<f64> {
    let count = |outcome: Outcome| letters.get(&outcome).copied().unwrap_or(0);
    let good = count(Outcome::Succeeded) + count(Outcome::Assumed);
    let all = good + count(Outcome::Ended) + count(Outcome::Failed) + count(Outcome::Relapsed);
    (all > 0).then(|| (good as f64 / all as f64 * 10_000.0).round() / 10_000.0)
}

impl From<&Options> for OptionsBody {
    fn from(options: &Options) -> OptionsBody {
        OptionsBody {
            pace: match options.pace {
                Pace::PerMinute(rate) => PaceBody::PerMinute(rate.get()),
                Pace::Unlimited => PaceBody::Word("unlimited"),
            },
            batch_size: options.batch_size,
            concurrency: options.concurrency,
            prioritization: PrioritizationBody {
                order_by: options.prioritization.by.name(),
                direction: options.prioritization.direction.name(),
            },
            canary: options.canary,
            canary_timeout: Length::from_ms(options.canary_ms).to_string(),
            canary_assumed: options.canary_assumed,
            stop_percent: options.stop.percent,
            stop_of: options.stop.of,
            quiet: Length::from_ms(options.quiet_ms).to_string(),
        }
    }
}

impl From<&BTreeMap<Outcome, u64>> for OutcomesBody {
    fn from(letters: &BTreeMap<Outcome, u64>) -> OutcomesBody {
        let count = |outcome: Outcome| letters.get(&outcome).copied().unwrap_or(0);
        OutcomesBody {
            waiting: count(Outcome::Waiting),
            out: count(Outcome::Out),
            sent: count(Outcome::Sent),
            unknown: count(Outcome::Unknown),
            succeeded: count(Outcome::Succeeded),
            assumed: count(Outcome::Assumed),
            ended: count(Outcome::Ended),
            failed: count(Outcome::Failed),
            relapsed: count(Outcome::Relapsed),
            skipped: count(Outcome::Skipped),
            lane_blocked: count(Outcome::LaneBlocked),
            cancelled: count(Outcome::Cancelled),
        }
    }
}

impl From<RedriveLetter> for RedriveLetterBody {
    fn from(letter: RedriveLetter) -> RedriveLetterBody {
        RedriveLetterBody {
            ordinal: letter.ordinal,
            letter_id: letter.letter.to_string(),
            life: letter.life,
            outcome: letter.outcome.name(),
            canary: letter.canary,
            lane: letter.lane,
            group: letter.group,
            evidence: letter.evidence,
            idempotency_key: letter.idempotency_key,
            handle: letter.handle,
            sent_at: letter.sent_at.map(|at| at.to_string()),
            outcome_at: letter.outcome_at.map(|at| at.to_string()),
        }
    }
}

impl From<(Redrive, RedriveLetter)> for LetterRedriveBody {
    fn from((redrive, letter): (Redrive, RedriveLetter)) -> LetterRedriveBody {
        LetterRedriveBody {
            redrive_id: redrive.id.to_string(),
            kind: redrive.kind.name(),
            state: redrive.state.name(),
            by: redrive.by.name,
            reason: redrive.reason,
            life: letter.life,
            edit: redrive.edit,
            outcome: letter.outcome.name(),
            evidence: letter.evidence,
            idempotency_key: letter.idempotency_key,
            sent_at: letter.sent_at.map(|at| at.to_string()),
            outcome_at: letter.outcome_at.map(|at| at.to_string()),
        }
    }
}
