//! What a run does by itself: stops when its gate shuts or its letters fail, judges its canaries, finds that all were sent,
//! and ends. Facts in, effects out; the store loads the ones and applies the others in one transaction.

use std::collections::BTreeMap;

use super::canary::{Canaries, CanaryVerdict, judge};
use super::options::Options;
use super::run::{Outcome, RedriveKind, RunAction, RunState};
use crate::gate::{Passed, Shut};
use crate::incident::Happening;
use crate::time::Time;

/// How often a run can be advanced before it has to wait for something else.
pub const ADVANCES_MAX: usize = 6;

const DAY_MS: i64 = 86_400_000;

/// When the day ends that a rule's redrive was opened on.
pub fn day_end(opened_at: Time) -> Time {
    Time::from_ms((opened_at.ms().div_euclid(DAY_MS) + 1).saturating_mul(DAY_MS))
}

/// When the day of a time began.
pub fn day_start(at: Time) -> Time {
    Time::from_ms(at.ms().div_euclid(DAY_MS).saturating_mul(DAY_MS))
}

/// A run as it stands.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    pub state: RunState,
    pub kind: RedriveKind,
    pub options: &'a Options,
    pub letters: &'a BTreeMap<Outcome, u64>,
    /// Rows that wait, also of a run that is cancelled.
    pub waiting: u64,
    pub canaries: &'a Canaries,
    /// The last outcomes, newest last.
    pub recent: &'a str,
    pub opened_at: Time,
    pub launched_at: Option<Time>,
    pub resumed_at: Option<Time>,
    pub finished_at: Option<Time>,
    /// Why its gate is shut, unless an emergency override ignores that.
    pub gate: Option<Shut>,
    /// Whether a letter that waits can go now; asked only if `needs_heads`.
    pub has_heads: bool,
    /// Whether the operation that it belongs to works on.
    pub operation_works: bool,
}

/// What happens to letters of a run that have not had their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LetterEffect {
    /// Others take the place of canaries that moved before their turn.
    RenewCanaries,
    EndWaiting {
        outcome: Outcome,
        why: Option<&'static str>,
    },
}

/// One step that a run takes by itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// The state it comes to, and why.
    pub state: Option<RunState>,
    pub why: Option<String>,
    pub canary_passed: bool,
    /// Nothing of it is under way any more.
    pub finished: bool,
    pub letters: Option<LetterEffect>,
    /// What the timelines of its incidents say.
    pub timeline: Option<&'static str>,
    pub event: Option<&'static str>,
}

/// Another run of the same incident that is not over; the last counts most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum OtherRuns {
    None,
    /// All of its letters were sent.
    Sent,
    /// Some of its letters are still to be sent.
    Sending,
}

/// An incident whose letters a run sends.
#[derive(Clone, Copy, Debug)]
pub struct IncidentFacts {
    pub passed: Passed,
    /// Whether a letter of it died again, after the fix that is in force.
    pub relapsed: bool,
    pub other_runs: OtherRuns,
}

impl RunFacts<'_> {
    fn count(&self, outcome: Outcome) -> u64 {
        self.letters.get(&outcome).copied().unwrap_or(0)
    }

    /// Returns true if letters wait and none is under way: then the run ends unless one of them can go.
    pub fn needs_heads(&self) -> bool {
        self.state.claims()
            && self.count(Outcome::Waiting) > 0
            && self.count(Outcome::Out) + self.count(Outcome::Sent) == 0
    }

    /// Returns true if the gate can stop the run.
    pub fn needs_gate(&self) -> bool {
        self.state.after(RunAction::Stop).is_some()
    }

    fn reason_to_stop(&self) -> Option<String> {
        let rule = self.options.stop;
        match self.gate {
            Some(Shut::Regressed) => Some("the incident came back".to_owned()),
            Some(shut) => Some(shut.to_string()),
            // Canaries have a verdict of their own, and a run that stands still does no more harm.
            None if self.state == RunState::Running && rule.stops(self.recent) => Some(format!(
                "more than {} % of the last {} letters failed or relapsed",
                rule.percent, rule.of
            )),
            None => None,
        }
    }

    /// Returns true if letters may still join: a rule's redrive is open for its day, an operation's while that works.
    fn is_joined(&self, now: Time) -> bool {
        match self.kind {
            RedriveKind::Single | RedriveKind::Plan => false,
            RedriveKind::Rule => now < day_end(self.opened_at),
            RedriveKind::Bulk => self.operation_works,
        }
    }
}

/// The next step that a run takes by itself, if there is one. Apply it, load the facts anew and ask again.
pub fn advance(run: &RunFacts<'_>, now: Time) -> Option<Effects> {
    match run.state {
        RunState::Planning | RunState::Planned | RunState::Done => None,
        RunState::Cancelled => wind_up(run),
        RunState::Canary | RunState::Running | RunState::Paused | RunState::Verifying | RunState::Stopped => {
            if let (Some(next), Some(why)) = (run.state.after(RunAction::Stop), run.reason_to_stop()) {
                return Some(Effects {
                    why: Some(why),
                    timeline: Some("redrive_stopped"),
                    ..Effects::to(next)
                });
            }
            match run.state.after(RunAction::PassCanary) {
                Some(next) => after_canaries(run, next, now),
                None => finish(run, now),
            }
        }
    }
}

/// Ends what waits of a cancelled run, and the run once nothing of it is out.
fn wind_up(run: &RunFacts<'_>) -> Option<Effects> {
    if run.waiting > 0 {
        return Some(Effects::end_waiting(Outcome::Cancelled, None));
    }
    let out = run.count(Outcome::Out) + run.count(Outcome::Sent);
    (out == 0 && run.finished_at.is_none()).then(|| Effects { finished: true, ..Effects::default() })
}

/// The rest of a run may go once its canaries succeeded.
fn after_canaries(run: &RunFacts<'_>, next: RunState, now: Time) -> Option<Effects> {
    let why = match judge(run.canaries, run.options.canary_assumed) {
        CanaryVerdict::Pass => return Some(Effects { canary_passed: true, ..Effects::to(next) }),
        // All of them moved before their turn: nothing is verified yet.
        CanaryVerdict::Renew => {
            return Some(Effects { letters: Some(LetterEffect::RenewCanaries), ..Effects::default() });
        }
        CanaryVerdict::Fail(outcome) => format!("canary: {}", outcome.name()),
        CanaryVerdict::Wait => {
            let begun_at = run.resumed_at.or(run.launched_at).unwrap_or(now);
            if now.since(begun_at) <= run.options.canary_ms {
                return None;
            }
            "canary: not verified in time".to_owned()
        }
    };
    let paused = run.state.after(RunAction::Pause)?;
    Some(Effects { why: Some(why), ..Effects::to(paused) })
}

/// Finds that all were sent, and that nothing is under way any more.
fn finish(run: &RunFacts<'_>, now: Time) -> Option<Effects> {
    if run.needs_heads() && !run.has_heads {
        // What waits when nothing can go waits behind a letter of which nobody knows, of this run or another: that does not
        // hold up the end.
        let why = "an earlier letter of its key did not get through";
        return Some(Effects::end_waiting(Outcome::LaneBlocked, Some(why)));
    }
    if run.count(Outcome::Waiting) + run.count(Outcome::Out) > 0 {
        return None;
    }
    if let Some(next) = run.state.after(RunAction::AllSent) {
        return Some(Effects::to(next));
    }
    if run.count(Outcome::Sent) > 0 || run.is_joined(now) {
        return None;
    }
    let next = run.state.after(RunAction::Finish)?;
    Some(Effects { finished: true, timeline: Some("redrive_done"), ..Effects::to(next) })
}

impl Effects {
    fn to(state: RunState) -> Effects {
        Effects { state: Some(state), event: state.event(), ..Effects::default() }
    }

    fn end_waiting(outcome: Outcome, why: Option<&'static str>) -> Effects {
        Effects { letters: Some(LetterEffect::EndWaiting { outcome, why }), ..Effects::default() }
    }

    /// Returns true if the incidents of the run hear of this step.
    pub fn concerns_incidents(&self) -> bool {
        self.finished || matches!(self.state, Some(RunState::Stopped | RunState::Verifying))
    }

    /// What the step means for an incident of the run.
    pub fn happening(&self, incident: &IncidentFacts) -> Option<Happening> {
        let IncidentFacts { passed, relapsed, other_runs } = *incident;
        if passed != Passed::Governed {
            return None;
        }
        let stopped = self.state == Some(RunState::Stopped);
        if relapsed && (stopped || self.finished) {
            return Some(Happening::RunRelapsed);
        }
        if self.finished {
            return (other_runs == OtherRuns::None).then_some(Happening::RunEnded);
        }
        let sent = self.state == Some(RunState::Verifying) && other_runs < OtherRuns::Sending;
        sent.then_some(Happening::AllSent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a plan, launched at 0, with these letters.
    fn facts<'a>(
        state: RunState,
        options: &'a Options,
        letters: &'a BTreeMap<Outcome, u64>,
        canaries: &'a Canaries,
    ) -> RunFacts<'a> {
        RunFacts {
            state,
            kind: RedriveKind::Plan,
            options,
            letters,
            waiting: letters.get(&Outcome::Waiting).copied().unwrap_or(0),
            canaries,
            recent: "",
            opened_at: Time::from_ms(0),
            launched_at: Some(Time::from_ms(0)),
            resumed_at: None,
            finished_at: None,
            gate: None,
            has_heads: true,
            operation_works: false,
        }
    }

    fn check(
        state: RunState,
        letters: &[(Outcome, u64)],
        change: impl Fn(&mut RunFacts<'_>),
    ) -> Option<Effects> {
        let (options, canaries) = (Options::default(), Canaries::new());
        let letters = letters.iter().copied().collect();
        let mut run = facts(state, &options, &letters, &canaries);
        change(&mut run);
        advance(&run, Time::from_ms(1_000))
    }

    #[test]
    fn a_run_ends_in_two_steps_once_nothing_is_under_way() {
        let letters = [(Outcome::Succeeded, 3)];
        let sent = check(RunState::Running, &letters, |_| {}).unwrap();
        assert_eq!(sent, Effects { state: Some(RunState::Verifying), ..Effects::default() });
        let done = check(RunState::Verifying, &letters, |_| {}).unwrap();
        assert_eq!((done.state, done.finished), (Some(RunState::Done), true));
        assert_eq!((done.timeline, done.event), (Some("redrive_done"), Some("redrive.done")));
        assert_eq!(check(RunState::Done, &letters, |_| {}), None);
    }

    #[test]
    fn a_run_with_letters_under_way_goes_on() {
        for outcome in [Outcome::Waiting, Outcome::Out] {
            assert_eq!(check(RunState::Running, &[(outcome, 1)], |_| {}), None);
        }
        assert_eq!(check(RunState::Verifying, &[(Outcome::Sent, 1)], |_| {}), None);
    }

    #[test]
    fn a_gate_that_shuts_stops_what_can_still_send() {
        let shut = |run: &mut RunFacts<'_>| run.gate = Some(Shut::Regressed);
        for state in [RunState::Canary, RunState::Running, RunState::Paused] {
            let stopped = check(state, &[(Outcome::Waiting, 1)], shut).unwrap();
            assert_eq!(stopped.state, Some(RunState::Stopped));
            assert_eq!(stopped.why.as_deref(), Some("the incident came back"));
        }
        assert_eq!(check(RunState::Verifying, &[(Outcome::Sent, 1)], shut), None);
    }

    #[test]
    fn what_cannot_go_does_not_hold_up_the_end() {
        let blocked =
            check(RunState::Running, &[(Outcome::Waiting, 2)], |run| run.has_heads = false).unwrap();
        let Some(LetterEffect::EndWaiting { outcome, .. }) = blocked.letters else {
            panic!("letters end: {blocked:?}");
        };
        assert_eq!(outcome, Outcome::LaneBlocked);
    }

    #[test]
    fn a_cancelled_run_ends_what_waits_and_then_itself() {
        let waiting = check(RunState::Cancelled, &[], |run| run.waiting = 1).unwrap();
        assert_eq!(waiting, Effects::end_waiting(Outcome::Cancelled, None));
        assert_eq!(check(RunState::Cancelled, &[(Outcome::Sent, 1)], |_| {}), None);
        assert!(check(RunState::Cancelled, &[], |_| {}).unwrap().finished);
        assert_eq!(check(RunState::Cancelled, &[], |run| run.finished_at = Some(Time::from_ms(1))), None);
    }

    #[test]
    fn a_redrive_that_letters_may_join_stays_open() {
        let of = |kind| move |run: &mut RunFacts<'_>| run.kind = kind;
        let letters = [(Outcome::Succeeded, 1)];
        assert_eq!(check(RunState::Verifying, &letters, of(RedriveKind::Rule)), None);
        assert!(check(RunState::Verifying, &letters, of(RedriveKind::Bulk)).is_some());
        let works = |run: &mut RunFacts<'_>| (run.kind, run.operation_works) = (RedriveKind::Bulk, true);
        assert_eq!(check(RunState::Verifying, &letters, works), None);
    }

    #[test]
    fn incidents_hear_what_their_letters_came_to() {
        let incident =
            |relapsed, other_runs| IncidentFacts { passed: Passed::Governed, relapsed, other_runs };
        let done = Effects { finished: true, ..Effects::to(RunState::Done) };
        assert_eq!(done.happening(&incident(false, OtherRuns::None)), Some(Happening::RunEnded));
        assert_eq!(done.happening(&incident(false, OtherRuns::Sent)), None);
        assert_eq!(done.happening(&incident(true, OtherRuns::Sending)), Some(Happening::RunRelapsed));
        let sent = Effects::to(RunState::Verifying);
        assert_eq!(sent.happening(&incident(true, OtherRuns::Sent)), Some(Happening::AllSent));
        assert_eq!(sent.happening(&incident(false, OtherRuns::Sending)), None);
        let free = IncidentFacts { passed: Passed::Freely, relapsed: false, other_runs: OtherRuns::None };
        assert_eq!(done.happening(&free), None);
    }
}
