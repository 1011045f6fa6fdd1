//! The eight states of a job and every move between them. This is the whole machine.
//!
//! Stores bind their guards from here and `docs/jobs.md` prints it. Nothing else compares states to decide what is
//! allowed. Whether a discarded job is in the dead letter is not a state: it is the letter's affair.

use std::fmt;

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobState {
    /// Waits for its time.
    Scheduled,
    /// Can be fetched.
    Available,
    /// Parked until somebody activates it.
    Pending,
    /// A worker has it.
    Active,
    Completed,
    /// Failed, and waits for its next attempt.
    Retryable,
    Cancelled,
    /// Failed or expired for good.
    Discarded,
}

/// What can happen to a job that exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobAction {
    /// Its time has come, or its backoff is over.
    Promote,
    Activate,
    Fetch,
    /// Its deadline passed before anybody ran it.
    Expire,
    /// A heartbeat prolongs the reservation.
    Extend,
    Ack,
    /// The worker of a job that was given up, and went to the dead letter, says that the work is done.
    AckLate,
    /// An attempt failed and another one follows after a delay.
    Retry,
    /// Failed for good, and nobody wants to see it again.
    Discard,
    /// Failed for good, and goes to the dead letter.
    DeadLetter,
    /// The worker gives it back unharmed.
    Requeue,
    /// The worker fell silent, and attempts are left.
    ReservationExpired,
    Cancel,
    /// Taken out of the dead letter and put back.
    RetryFromDeadLetter,
}

/// How a job comes into being.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Beginning {
    Now,
    /// At a time that has not come yet.
    Later,
    /// When somebody activates it.
    Parked,
}

/// An action that the job's state does not allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("cannot {action} a job that is {state}: it would have to be {}", one_of(.expected))]
pub struct JobRefused {
    pub action: JobAction,
    pub state: JobState,
    pub expected: &'static [JobState],
}

use JobState::{Active, Available, Cancelled, Completed, Discarded, Pending, Retryable, Scheduled};

impl JobAction {
    pub const ALL: [JobAction; 14] = [
        JobAction::Promote,
        JobAction::Activate,
        JobAction::Fetch,
        JobAction::Expire,
        JobAction::Extend,
        JobAction::Ack,
        JobAction::AckLate,
        JobAction::Retry,
        JobAction::Discard,
        JobAction::DeadLetter,
        JobAction::Requeue,
        JobAction::ReservationExpired,
        JobAction::Cancel,
        JobAction::RetryFromDeadLetter,
    ];

    /// The states in which it is allowed: the guard of a store's update.
    pub const fn from(self) -> &'static [JobState] {
        match self {
            JobAction::Promote => &[Scheduled, Retryable],
            JobAction::Activate => &[Pending],
            JobAction::Fetch | JobAction::Expire => &[Available],
            JobAction::Extend
            | JobAction::Ack
            | JobAction::Retry
            | JobAction::Discard
            | JobAction::DeadLetter
            | JobAction::Requeue
            | JobAction::ReservationExpired => &[Active],
            JobAction::Cancel => &[Scheduled, Available, Pending, Active, Retryable],
            JobAction::AckLate | JobAction::RetryFromDeadLetter => &[Discarded],
        }
    }

    /// The state that it leads to.
    pub const fn to(self) -> JobState {
        match self {
            JobAction::Promote
            | JobAction::Activate
            | JobAction::Requeue
            | JobAction::ReservationExpired
            | JobAction::RetryFromDeadLetter => Available,
            JobAction::Fetch | JobAction::Extend => Active,
            JobAction::Ack | JobAction::AckLate => Completed,
            JobAction::Retry => Retryable,
            JobAction::Expire | JobAction::Discard | JobAction::DeadLetter => Discarded,
            JobAction::Cancel => Cancelled,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            JobAction::Promote => "promote",
            JobAction::Activate => "activate",
            JobAction::Fetch => "fetch",
            JobAction::Expire => "expire",
            JobAction::Extend => "extend",
            JobAction::Ack => "ack",
            JobAction::AckLate => "ack_late",
            JobAction::Retry => "retry",
            JobAction::Discard => "discard",
            JobAction::DeadLetter => "dead_letter",
            JobAction::Requeue => "requeue",
            JobAction::ReservationExpired => "expire_reservation",
            JobAction::Cancel => "cancel",
            JobAction::RetryFromDeadLetter => "retry_from_dead_letter",
        }
    }
}

impl JobState {
    pub const ALL: [JobState; 8] =
        [Scheduled, Available, Pending, Active, Completed, Retryable, Cancelled, Discarded];

    pub const fn name(self) -> &'static str {
        match self {
            Scheduled => "scheduled",
            Available => "available",
            Pending => "pending",
            Active => "active",
            Completed => "completed",
            Retryable => "retryable",
            Cancelled => "cancelled",
            Discarded => "discarded",
        }
    }

    pub fn parse(text: &str) -> Option<JobState> {
        JobState::ALL.into_iter().find(|state| state.name() == text)
    }

    /// The state in which a new job begins.
    pub const fn first(beginning: Beginning) -> JobState {
        match beginning {
            Beginning::Now => Available,
            Beginning::Later => Scheduled,
            Beginning::Parked => Pending,
        }
    }

    /// Whether it stays so unless it is taken out of the dead letter.
    pub const fn is_terminal(self) -> bool {
        match self {
            Completed | Cancelled | Discarded => true,
            Scheduled | Available | Pending | Active | Retryable => false,
        }
    }

    /// Where `action` leads from here, or why it does not.
    pub fn after(self, action: JobAction) -> Result<JobState, JobRefused> {
        if action.from().contains(&self) {
            Ok(action.to())
        } else {
            Err(JobRefused { action, state: self, expected: action.from() })
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for JobAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn one_of(states: &[JobState]) -> String {
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    names.join(" or ")
}

/// The machine as a table for `docs/jobs.md`: every state, every action.
pub fn table() -> String {
    let mut text = String::from("| a job that is | can |\n|---|---|\n");
    for state in JobState::ALL {
        let moves: Vec<String> = JobAction::ALL
            .into_iter()
            .filter_map(|action| state.after(action).ok().map(|to| format!("{action} → {to}")))
            .collect();
        let moves = if moves.is_empty() { "–".to_owned() } else { moves.join("; ") };
        text.push_str(&format!("| {state} | {moves} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../../docs/jobs.md");
        assert!(docs.contains(&table()), "docs/jobs.md should hold:\n{}", table());
    }

    /// The transitions of the specification, row by row, and the late ack, which is ours.
    const ROWS: [(JobState, JobAction, JobState); 19] = [
        (Scheduled, JobAction::Promote, Available),
        (Pending, JobAction::Activate, Available),
        (Available, JobAction::Fetch, Active),
        (Available, JobAction::Expire, Discarded),
        (Active, JobAction::Ack, Completed),
        (Active, JobAction::Retry, Retryable),
        (Active, JobAction::Discard, Discarded),
        (Active, JobAction::DeadLetter, Discarded),
        (Active, JobAction::Cancel, Cancelled),
        (Active, JobAction::ReservationExpired, Available),
        (Active, JobAction::Requeue, Available),
        (Active, JobAction::Extend, Active),
        (Retryable, JobAction::Promote, Available),
        (Scheduled, JobAction::Cancel, Cancelled),
        (Available, JobAction::Cancel, Cancelled),
        (Pending, JobAction::Cancel, Cancelled),
        (Retryable, JobAction::Cancel, Cancelled),
        (Discarded, JobAction::RetryFromDeadLetter, Available),
        (Discarded, JobAction::AckLate, Completed),
    ];

    #[test]
    fn every_state_and_action_is_as_the_specification_says() {
        let mut allowed = 0;
        for state in JobState::ALL {
            for action in JobAction::ALL {
                let row = ROWS.iter().find(|row| row.0 == state && row.1 == action);
                match state.after(action) {
                    Ok(to) => {
                        allowed += 1;
                        assert_eq!(row.map(|row| row.2), Some(to), "{state} {action}");
                    }
                    Err(refused) => {
                        assert_eq!(row, None, "{state} {action}");
                        assert_eq!((refused.state, refused.action), (state, action));
                        assert!(!refused.expected.contains(&state));
                    }
                }
            }
        }
        assert_eq!(allowed, ROWS.len());
    }

    #[test]
    fn a_job_begins_available_scheduled_or_pending() {
        assert_eq!(JobState::first(Beginning::Now), Available);
        assert_eq!(JobState::first(Beginning::Later), Scheduled);
        assert_eq!(JobState::first(Beginning::Parked), Pending);
    }

    #[test]
    fn a_terminal_job_leaves_only_by_way_of_the_dead_letter() {
        for state in JobState::ALL.into_iter().filter(|state| state.is_terminal()) {
            for action in JobAction::ALL {
                let from_dead_letter = matches!(action, JobAction::RetryFromDeadLetter | JobAction::AckLate);
                let leaves = state == Discarded && from_dead_letter;
                assert_eq!(state.after(action).is_ok(), leaves, "{state} {action}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_state_and_the_expected_ones() {
        let refused = Completed.after(JobAction::Ack).unwrap_err();
        assert_eq!(refused.to_string(), "cannot ack a job that is completed: it would have to be active");
        assert_eq!(refused.expected, [Active]);
    }

    #[test]
    fn names_are_read_back() {
        for state in JobState::ALL {
            assert_eq!(JobState::parse(state.name()), Some(state));
        }
        assert_eq!(JobState::parse("Active"), None);
    }

    #[test]
    fn the_table_shows_every_state() {
        assert_eq!(
            table(),
            "| a job that is | can |\n\
             |---|---|\n\
             | scheduled | promote → available; cancel → cancelled |\n\
             | available | fetch → active; expire → discarded; cancel → cancelled |\n\
             | pending | activate → available; cancel → cancelled |\n\
             | active | extend → active; ack → completed; retry → retryable; discard → discarded; \
             dead_letter → discarded; requeue → available; expire_reservation → available; cancel → cancelled |\n\
             | completed | – |\n\
             | retryable | promote → available; cancel → cancelled |\n\
             | cancelled | – |\n\
             | discarded | ack_late → completed; retry_from_dead_letter → available |\n"
        );
    }
}
