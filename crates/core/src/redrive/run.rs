//! The life of a run and of each letter in it: the states and what leads from one to another. The only place that knows.

use std::fmt;

/// How a redrive came about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RedriveKind {
    /// One letter, put back by hand.
    Single,
    /// Many at once by an Open Job Spec client.
    Bulk,
    /// By a replay rule.
    Rule,
    /// By a plan that a person launched.
    Plan,
}

/// Where a redrive stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunState {
    /// The list is being taken down.
    Planning,
    /// It can be looked at and launched; nothing was sent.
    Planned,
    /// The first few were sent alone; the rest waits for them.
    Canary,
    Running,
    /// A person said so, or the canaries were not verified in time.
    Paused,
    /// All were sent, and not all are known to have succeeded.
    Verifying,
    Done,
    /// By itself: too much failed, or the incident came back.
    Stopped,
    Cancelled,
}

/// What is done to a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunAction {
    /// The list is complete.
    Freeze,
    LaunchWithCanary,
    Launch,
    /// The canaries succeeded.
    PassCanary,
    Pause,
    /// Goes on where it was: `ResumeCanary` if the canaries have not passed.
    Resume,
    ResumeCanary,
    /// Every letter was sent or is settled.
    AllSent,
    /// Nothing is under way any more.
    Finish,
    /// By itself.
    Stop,
    Cancel,
}

/// What became of one letter in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// Nothing yet.
    Waiting,
    /// Claimed, perhaps being sent.
    Out,
    /// Sent, and not known to have succeeded.
    Sent,
    /// Nobody knows whether it was sent.
    Unknown,
    /// The work is done, and something proves it.
    Succeeded,
    /// No new death for as long as the policy would have tried: taken for done.
    Assumed,
    /// Its job ended without a dead letter.
    Ended,
    /// The destination refused it.
    Failed,
    /// It died again.
    Relapsed,
    /// It moved before its turn came.
    Skipped,
    /// An earlier letter of its lane failed.
    LaneBlocked,
    /// The run was cancelled before its turn came.
    Cancelled,
}

impl RedriveKind {
    pub const ALL: [RedriveKind; 4] =
        [RedriveKind::Single, RedriveKind::Bulk, RedriveKind::Rule, RedriveKind::Plan];

    pub const fn name(self) -> &'static str {
        match self {
            RedriveKind::Single => "single",
            RedriveKind::Bulk => "bulk",
            RedriveKind::Rule => "rule",
            RedriveKind::Plan => "plan",
        }
    }

    pub fn parse(text: &str) -> Option<RedriveKind> {
        RedriveKind::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

use RunState::{Canary, Cancelled, Done, Paused, Planned, Planning, Running, Stopped, Verifying};

impl RunState {
    pub const ALL: [RunState; 9] =
        [Planning, Planned, Canary, Running, Paused, Verifying, Done, Stopped, Cancelled];

    pub const fn name(self) -> &'static str {
        match self {
            Planning => "planning",
            Planned => "planned",
            Canary => "canary",
            Running => "running",
            Paused => "paused",
            Verifying => "verifying",
            Done => "done",
            Stopped => "stopped",
            Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<RunState> {
        RunState::ALL.into_iter().find(|state| state.name() == text)
    }

    /// Where an action leads, if it does.
    pub const fn after(self, action: RunAction) -> Option<RunState> {
        match (action, self) {
            (RunAction::Freeze, Planning) => Some(Planned),
            (RunAction::LaunchWithCanary, Planned) => Some(Canary),
            (RunAction::Launch, Planned) => Some(Running),
            (RunAction::PassCanary, Canary) => Some(Running),
            (RunAction::Pause, Canary | Running) => Some(Paused),
            (RunAction::Resume, Paused | Stopped) => Some(Running),
            (RunAction::ResumeCanary, Paused | Stopped) => Some(Canary),
            (RunAction::AllSent, Canary | Running) => Some(Verifying),
            (RunAction::Finish, Canary | Running | Verifying) => Some(Done),
            (RunAction::Stop, Canary | Running | Paused) => Some(Stopped),
            (RunAction::Cancel, Planning | Planned | Canary | Running | Paused | Verifying | Stopped) => {
                Some(Cancelled)
            }
            (
                RunAction::Freeze
                | RunAction::LaunchWithCanary
                | RunAction::Launch
                | RunAction::PassCanary
                | RunAction::Pause
                | RunAction::Resume
                | RunAction::ResumeCanary
                | RunAction::AllSent
                | RunAction::Finish
                | RunAction::Stop
                | RunAction::Cancel,
                Planning | Planned | Canary | Running | Paused | Verifying | Done | Stopped | Cancelled,
            ) => None,
        }
    }

    /// Whether letters may be claimed now.
    pub const fn claims(self) -> bool {
        matches!(self, Canary | Running)
    }

    /// Whether it was launched and has not come to its end.
    pub const fn is_unfinished(self) -> bool {
        matches!(self, Canary | Running | Paused | Verifying | Stopped)
    }

    /// The event that tells of having come here.
    pub const fn event(self) -> Option<&'static str> {
        match self {
            Planned => Some("redrive.planned"),
            Paused => Some("redrive.paused"),
            Done => Some("redrive.done"),
            Stopped => Some("redrive.stopped"),
            Cancelled => Some("redrive.cancelled"),
            // A start and a resumption are told by who asked for them.
            Planning | Canary | Running | Verifying => None,
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Outcome {
    pub const ALL: [Outcome; 12] = [
        Outcome::Waiting,
        Outcome::Out,
        Outcome::Sent,
        Outcome::Unknown,
        Outcome::Succeeded,
        Outcome::Assumed,
        Outcome::Ended,
        Outcome::Failed,
        Outcome::Relapsed,
        Outcome::Skipped,
        Outcome::LaneBlocked,
        Outcome::Cancelled,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Waiting => "waiting",
            Outcome::Out => "out",
            Outcome::Sent => "sent",
            Outcome::Unknown => "unknown",
            Outcome::Succeeded => "succeeded",
            Outcome::Assumed => "assumed",
            Outcome::Ended => "ended",
            Outcome::Failed => "failed",
            Outcome::Relapsed => "relapsed",
            Outcome::Skipped => "skipped",
            Outcome::LaneBlocked => "lane_blocked",
            Outcome::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == text)
    }

    /// Whether something is still to happen to it by itself. An unknown one waits for a person and holds up nobody but
    /// its lane.
    pub const fn is_open(self) -> bool {
        matches!(self, Outcome::Waiting | Outcome::Out | Outcome::Sent)
    }

    /// Whether the letter may be out there: a death of it that comes now is a relapse of this run.
    pub const fn may_be_out(self) -> bool {
        matches!(
            self,
            Outcome::Out | Outcome::Sent | Outcome::Unknown | Outcome::Succeeded | Outcome::Assumed
        )
    }

    /// Whether it was sent, whatever came of it.
    pub const fn was_sent(self) -> bool {
        match self {
            Outcome::Sent
            | Outcome::Unknown
            | Outcome::Succeeded
            | Outcome::Assumed
            | Outcome::Ended
            | Outcome::Failed
            | Outcome::Relapsed => true,
            Outcome::Waiting
            | Outcome::Out
            | Outcome::Skipped
            | Outcome::LaneBlocked
            | Outcome::Cancelled => false,
        }
    }

    /// What it does to the letters behind it in its lane.
    pub const fn lane(self) -> LaneEffect {
        match self {
            Outcome::Succeeded | Outcome::Assumed | Outcome::Ended | Outcome::Skipped => LaneEffect::Next,
            Outcome::Failed | Outcome::Relapsed => LaneEffect::Block,
            Outcome::Waiting
            | Outcome::Out
            | Outcome::Sent
            | Outcome::Unknown
            | Outcome::LaneBlocked
            | Outcome::Cancelled => LaneEffect::Hold,
        }
    }

    /// How it counts for the rule by which a run stops by itself: good, bad or not at all.
    pub const fn weight(self) -> Option<bool> {
        match self {
            Outcome::Succeeded | Outcome::Assumed | Outcome::Ended => Some(true),
            Outcome::Failed | Outcome::Relapsed => Some(false),
            Outcome::Waiting
            | Outcome::Out
            | Outcome::Sent
            | Outcome::Unknown
            | Outcome::Skipped
            | Outcome::LaneBlocked
            | Outcome::Cancelled => None,
        }
    }
}

/// What becomes of the rest of a lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LaneEffect {
    /// The next one may go.
    Next,
    /// The rest goes back as `lane_blocked`.
    Block,
    /// The rest waits.
    Hold,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_from_plan_to_done() {
        let way = [
            (RunAction::Freeze, Planned),
            (RunAction::LaunchWithCanary, Canary),
            (RunAction::Pause, Paused),
            (RunAction::ResumeCanary, Canary),
            (RunAction::PassCanary, Running),
            (RunAction::Stop, Stopped),
            (RunAction::Resume, Running),
            (RunAction::AllSent, Verifying),
            (RunAction::Finish, Done),
        ];
        let mut state = Planning;
        for (action, next) in way {
            state = state.after(action).unwrap_or_else(|| panic!("{action:?} of {state}"));
            assert_eq!(state, next);
        }
    }

    #[test]
    fn what_has_ended_stays_so() {
        let all = [
            RunAction::Freeze,
            RunAction::Launch,
            RunAction::Pause,
            RunAction::Resume,
            RunAction::AllSent,
            RunAction::Finish,
            RunAction::Stop,
            RunAction::Cancel,
        ];
        for action in all {
            assert_eq!(Done.after(action), None);
            assert_eq!(Cancelled.after(action), None);
        }
        assert_eq!(Verifying.after(RunAction::Cancel), Some(Cancelled));
    }

    #[test]
    fn names_are_read_back() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::parse(outcome.name()), Some(outcome));
        }
        for state in RunState::ALL {
            assert_eq!(RunState::parse(state.name()), Some(state));
        }
        for kind in RedriveKind::ALL {
            assert_eq!(RedriveKind::parse(kind.name()), Some(kind));
        }
    }
}
