//! One after the other: what is too old, queue by queue, then what is too much, count by count. The pruner and the dry run
//! go the same steps.

use std::collections::BTreeMap;

use lazaret_core::lifecycle::Status;
use lazaret_core::retention::Limit;
use lazaret_core::time::Time;
use lazaret_store::retention::{Prunable, PrunableKey, PrunableQuery, QueueStanding};

use super::policy::{Policies, Scope, counted_in};

/// Letters that one limit pushes out, in the order of going.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub limit: Limit,
    pub status: Status,
    queues: Vec<(String, String)>,
    until: Time,
    after: Option<PrunableKey>,
    goal: Goal,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    /// All of them.
    All,
    /// So many more; those in an unfinished plan only when there are no others.
    Excess { left: u64, planned: bool },
}

/// What there is behind the letters that were looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behind {
    More,
    Nothing,
}

/// Statuses that have an age; a letter that is out there has none.
const AGED: [Status; 3] = [Status::Pending, Status::Resolved, Status::Discarded];

/// A step for each queue and status whose oldest letter is too old.
pub(super) fn by_age(policies: &Policies, standings: &[QueueStanding], now: Time) -> Vec<Step> {
    let mut steps = Vec::new();
    for status in AGED {
        for standing in standings.iter().filter(|standing| standing.status == status) {
            let QueueStanding { source, queue, oldest_at, .. } = standing;
            let Some(until) = too_old(policies, source, queue, status, now) else { continue };
            if oldest_at.is_some_and(|oldest| oldest <= until) {
                let queues = vec![(source.clone(), queue.clone())];
                let (limit, goal) = (Limit::MaxAge, Goal::All);
                steps.push(Step { limit, status, queues, until, after: None, goal });
            }
        }
    }
    steps
}

/// Since when a letter of this status may be there at the most.
pub(super) fn too_old(
    policies: &Policies,
    source: &str,
    queue: &str,
    status: Status,
    now: Time,
) -> Option<Time> {
    let max_age = policies.effective(source, queue).max_age_of(status)?;
    Some(now.plus_ms(-max_age.ms()))
}

/// What is counted together: how many pending letters there may be, how many there are, how many of those are held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sum {
    pub scope: Scope,
    pub max: u64,
    pub letters: u64,
    pub held: u64,
    pub queues: Vec<(String, String)>,
}

pub(super) fn sums(policies: &Policies, standings: &[QueueStanding]) -> Vec<Sum> {
    let mut sums: BTreeMap<Scope, Sum> = BTreeMap::new();
    for standing in standings.iter().filter(|standing| standing.status == Status::Pending) {
        let QueueStanding { source, queue, letters, held, .. } = standing;
        let Some((scope, max)) = counted_in(source, queue, &policies.effective(source, queue)) else {
            continue;
        };
        let empty = Sum { scope: scope.clone(), max, letters: 0, held: 0, queues: Vec::new() };
        let sum = sums.entry(scope).or_insert(empty);
        sum.letters += letters;
        sum.held += held;
        sum.queues.push((source.clone(), queue.clone()));
    }
    sums.into_values().collect()
}

impl Sum {
    /// Letters over the limit that stay because they are held.
    pub(super) fn unmet(&self) -> u64 {
        self.held.saturating_sub(self.max)
    }
}

/// A step for each count that is over its limit.
pub(super) fn by_count(sums: Vec<Sum>, now: Time) -> Vec<Step> {
    let step = |Sum { max, letters, queues, .. }| {
        let left = letters.checked_sub(max).filter(|left| *left > 0)?;
        let goal = Goal::Excess { left, planned: false };
        let (limit, status) = (Limit::MaxCount, Status::Pending);
        Some(Step { limit, status, queues, until: now, after: None, goal })
    };
    sums.into_iter().filter_map(step).collect()
}

impl Step {
    /// The next letters to look at.
    pub(super) fn query(&self, rows: usize) -> PrunableQuery {
        let (limit, planned) = match &self.goal {
            Goal::All => (rows, None),
            Goal::Excess { left, planned } => {
                (usize::try_from(*left).unwrap_or(rows).min(rows), Some(*planned))
            }
        };
        PrunableQuery {
            queues: self.queues.clone(),
            status: self.status,
            until: self.until,
            after: self.after,
            planned,
            limit,
        }
    }

    /// The same, however few are to go: whoever removes nothing has to look behind what is gone in thought.
    pub(super) fn wide_query(&self, rows: usize) -> PrunableQuery {
        PrunableQuery { limit: rows, ..self.query(rows) }
    }

    /// How many more may go; nothing if all may.
    pub(super) fn left(&self) -> Option<u64> {
        match &self.goal {
            Goal::All => None,
            Goal::Excess { left, .. } => Some(*left),
        }
    }

    /// Whether those in an unfinished plan have their turn.
    pub(super) fn takes_planned(&self) -> bool {
        match &self.goal {
            Goal::All => false,
            Goal::Excess { planned, .. } => *planned,
        }
    }

    /// Goes on behind what was looked at; `removed` of those went. Says whether the step goes on.
    pub(super) fn advance(&mut self, looked_at: &[Prunable], removed: u64, behind: Behind) -> bool {
        self.after = looked_at.last().map_or(self.after, |last| Some(last.key));
        if let Goal::Excess { left, .. } = &mut self.goal {
            *left = left.saturating_sub(removed);
        }
        match (&mut self.goal, behind) {
            (Goal::All, Behind::More) => true,
            (Goal::All, Behind::Nothing) => false,
            (Goal::Excess { left: 0, .. }, _) => false,
            (Goal::Excess { .. }, Behind::More) => true,
            (Goal::Excess { planned, .. }, Behind::Nothing) => {
                let others = !*planned;
                *planned = true;
                self.after = None;
                others
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::id::LetterId;
    use lazaret_core::retention::{MaxCount, Retention};

    use super::*;
    use crate::config::Config;

    fn found(n: i64) -> Prunable {
        let retention_at = Time::from_ms(n);
        Prunable {
            key: PrunableKey { retention_at, letter: LetterId::mint(retention_at, [0; 10]) },
            source: "jobs".into(),
            queue: "q".into(),
            letter_type: "t".into(),
            since: retention_at,
        }
    }

    fn standing(source: &str, queue: &str, status: Status, letters: u64, held: u64) -> QueueStanding {
        let oldest_at = (letters > held).then_some(Time::from_ms(0));
        QueueStanding { source: source.into(), queue: queue.into(), status, letters, held, oldest_at }
    }

    #[test]
    fn what_is_counted_goes_until_it_is_few_enough_and_planned_letters_last() {
        let sum = Sum {
            scope: Scope::Everything,
            max: 10,
            letters: 13,
            held: 0,
            queues: vec![("jobs".into(), "q".into())],
        };
        let mut step = by_count(vec![sum], Time::from_ms(99)).remove(0);
        assert_eq!((step.query(100).limit, step.query(2).limit, step.wide_query(2).limit), (3, 2, 2));
        assert_eq!(step.query(100).planned, Some(false));
        // One moved in between: it is passed by, and one more is asked for.
        assert!(step.advance(&[found(1), found(2)], 1, Behind::More));
        assert_eq!((step.left(), step.query(100).after), (Some(2), Some(found(2).key)));
        // There are no more but those in a plan, from the oldest on.
        assert!(step.advance(&[found(3)], 1, Behind::Nothing));
        assert_eq!((step.query(100).planned, step.query(100).after), (Some(true), None));
        assert!(!step.advance(&[found(0)], 1, Behind::More));
        assert_eq!(step.left(), Some(0));
    }

    #[test]
    fn holds_can_keep_a_count_from_being_met() {
        let retention = Retention { max_count: Some(MaxCount::Letters(2)), ..Retention::default() };
        let config = Config { retention, ..Config::default() };
        let standings = [
            standing("jobs", "a", Status::Pending, 3, 3),
            standing("report", "b", Status::Pending, 1, 0),
            standing("report", "b", Status::Resolved, 9, 0),
        ];
        let sums = sums(&Policies::of(&config), &standings);
        assert_eq!(sums.len(), 1);
        assert_eq!((sums[0].letters, sums[0].held, sums[0].unmet()), (4, 3, 1));
    }

    #[test]
    fn only_queues_with_something_too_old_are_looked_into() {
        let policies = Policies::of(&Config::default());
        let standings = [
            standing("jobs", "a", Status::Pending, 1, 0),
            standing("jobs", "all held", Status::Pending, 2, 2),
            standing("jobs", "a", Status::Reprocessing, 1, 0),
            standing("jobs", "a", Status::Discarded, 1, 0),
        ];
        let half_a_year = Time::from_ms(180 * 86_400_000);
        let steps = by_age(&policies, &standings, half_a_year);
        let told: Vec<_> = steps.iter().map(|step| (step.status, step.query(1).until.ms())).collect();
        assert_eq!(told, [(Status::Pending, 0), (Status::Discarded, 0)]);
        assert_eq!(by_age(&policies, &standings, half_a_year.plus_ms(-1)), []);
    }
}
