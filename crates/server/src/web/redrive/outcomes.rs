//! What became of the letters of a redrive, as parts of one bar with a legend.

use std::collections::BTreeMap;

use lazaret_core::redrive::{CanaryVerdict, Outcome, judge};

use crate::api::wire::redrive::{OutcomesBody, RedriveBody};
use crate::web::chart::{self, Share};
use crate::web::format::grouped;

/// Letters of one outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::web) struct Part {
    pub name: &'static str,
    /// What colours it.
    pub class: &'static str,
    pub label: &'static str,
    pub count: u64,
}

/// Every outcome with its letters.
pub(super) fn counts(letters: &OutcomesBody) -> BTreeMap<Outcome, u64> {
    let count = |outcome| match outcome {
        Outcome::Waiting => letters.waiting,
        Outcome::Out => letters.out,
        Outcome::Sent => letters.sent,
        Outcome::Unknown => letters.unknown,
        Outcome::Succeeded => letters.succeeded,
        Outcome::Assumed => letters.assumed,
        Outcome::Ended => letters.ended,
        Outcome::Failed => letters.failed,
        Outcome::Relapsed => letters.relapsed,
        Outcome::Skipped => letters.skipped,
        Outcome::LaneBlocked => letters.lane_blocked,
        Outcome::Cancelled => letters.cancelled,
    };
    Outcome::ALL.into_iter().map(|outcome| (outcome, count(outcome))).collect()
}

/// How an outcome is coloured, and what it means.
pub(super) const fn told(outcome: Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Succeeded => ("ok", "succeeded"),
        Outcome::Assumed => ("ok", "assumed successful"),
        Outcome::Ended => ("calm", "ended (cancelled, dropped or expired)"),
        Outcome::Sent => ("work", "sent, verifying"),
        Outcome::Out => ("work", "in flight"),
        Outcome::Unknown => ("warn", "unknown outcome"),
        Outcome::Failed => ("bad", "rejected by destination"),
        Outcome::Relapsed => ("bad", "relapsed"),
        Outcome::LaneBlocked => ("warn", "blocked by order key"),
        Outcome::Skipped => ("calm", "skipped (state changed)"),
        Outcome::Cancelled => ("calm", "cancelled"),
        Outcome::Waiting => ("wait", "waiting"),
    }
}

/// From what is done to what is still to do.
const DRAWN: [Outcome; 12] = [
    Outcome::Succeeded,
    Outcome::Assumed,
    Outcome::Ended,
    Outcome::Sent,
    Outcome::Out,
    Outcome::Unknown,
    Outcome::Failed,
    Outcome::Relapsed,
    Outcome::LaneBlocked,
    Outcome::Skipped,
    Outcome::Cancelled,
    Outcome::Waiting,
];

/// The parts that have letters, in the order in which they are drawn.
pub(in crate::web) fn parts(letters: &OutcomesBody) -> Vec<Part> {
    let counts = counts(letters);
    let part = |outcome: Outcome| {
        let ((class, label), count) = (told(outcome), counts.get(&outcome).copied().unwrap_or(0));
        Part { name: outcome.name(), class, label, count }
    };
    DRAWN.into_iter().map(part).filter(|part| part.count > 0).collect()
}

pub(in crate::web) fn bar(letters: &OutcomesBody, label: &str) -> String {
    let parts = parts(letters);
    let shares: Vec<Share> =
        parts.iter().map(|part| Share { class: part.class, label: part.label, count: part.count }).collect();
    let told: Vec<String> =
        parts.iter().map(|part| format!("{} {}", grouped(part.count), part.label)).collect();
    chart::split(&shares, &format!("{label}: {}", told.join(", ")))
}

/// `1 letter`, `1,204 letters`
pub(in crate::web) fn letters(count: u64) -> String {
    match count {
        1 => "1 letter".to_owned(),
        count => format!("{} letters", grouped(count)),
    }
}

/// How far the canaries are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gate {
    pub verified: u64,
    pub all: u64,
    /// The class and the word of its state.
    pub state: (&'static str, &'static str),
    pub text: String,
}

/// What the canaries say; nothing if there are none.
pub(super) fn gate(redrive: &RedriveBody) -> Option<Gate> {
    let canaries = counts(redrive.canaries.as_ref()?);
    let count = |outcome| canaries.get(&outcome).copied().unwrap_or(0);
    let assumed = if redrive.options.canary_assumed { count(Outcome::Assumed) } else { 0 };
    let (verified, all) = (count(Outcome::Succeeded) + assumed, canaries.values().sum());
    let (state, text) = if redrive.canary_passed {
        (("good", "passed"), "redrive continues".to_owned())
    } else {
        match judge(&canaries, redrive.options.canary_assumed) {
            CanaryVerdict::Pass => (("good", "passed"), "redrive continues".to_owned()),
            CanaryVerdict::Wait | CanaryVerdict::Renew => {
                (("canary", "waiting"), "waiting for canaries".to_owned())
            }
            CanaryVerdict::Fail(outcome) => {
                let (count, (_, label)) = (count(outcome), told(outcome));
                (("failed", "failed"), format!("{} {label}: redrive halted", grouped(count)))
            }
        }
    };
    Some(Gate { verified, all, state, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_drawn_once() {
        let mut drawn = DRAWN.to_vec();
        drawn.sort_unstable();
        assert_eq!(drawn, Outcome::ALL);
    }

    #[test]
    fn one_letter_is_one() {
        assert_eq!([0, 1, 1_204].map(letters), ["0 letters", "1 letter", "1,204 letters"]);
    }
}
