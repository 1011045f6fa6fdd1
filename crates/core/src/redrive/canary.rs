//! Canaries: the first few letters, which go alone. Chosen among the heads of lanes, spread over types.

use std::collections::BTreeMap;

use super::run::Outcome;

/// How many canaries stand where.
pub type Canaries = BTreeMap<Outcome, u64>;

/// What the canaries say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CanaryVerdict {
    /// Some are not verified yet.
    Wait,
    Pass,
    /// None is under way and none has succeeded, because they moved before their turn: others have to go first.
    Renew,
    /// One did not succeed: the rest must not follow by itself.
    Fail(Outcome),
}

/// Judges the canaries. One that moved before its turn says nothing; one that is only assumed to have succeeded counts
/// where the plan says so.
pub fn judge(canaries: &Canaries, assumed_counts: bool) -> CanaryVerdict {
    let (mut verdict, mut succeeded, mut skipped) = (CanaryVerdict::Pass, false, false);
    for (outcome, letters) in canaries {
        if *letters == 0 {
            continue;
        }
        match outcome {
            Outcome::Failed
            | Outcome::Relapsed
            | Outcome::Unknown
            | Outcome::Ended
            | Outcome::LaneBlocked
            | Outcome::Cancelled => return CanaryVerdict::Fail(*outcome),
            Outcome::Assumed if !assumed_counts => return CanaryVerdict::Fail(*outcome),
            Outcome::Waiting | Outcome::Out | Outcome::Sent => verdict = CanaryVerdict::Wait,
            Outcome::Assumed | Outcome::Succeeded => succeeded = true,
            Outcome::Skipped => skipped = true,
        }
    }
    match verdict {
        CanaryVerdict::Pass if skipped && !succeeded => CanaryVerdict::Renew,
        verdict => verdict,
    }
}

/// Chooses up to `count` of the heads of lanes, given in the order of the run with their types: one of each type in turn.
pub fn choose<T: Copy>(heads: &[(T, &str)], count: usize) -> Vec<T> {
    let mut by_type: Vec<(&str, Vec<T>)> = Vec::new();
    for (head, letter_type) in heads {
        match by_type.iter_mut().find(|(known, _)| known == letter_type) {
            Some((_, of_type)) => of_type.push(*head),
            None => by_type.push((letter_type, vec![*head])),
        }
    }
    let longest = by_type.iter().map(|(_, of_type)| of_type.len()).max().unwrap_or(0);
    let turns =
        (0..longest).flat_map(|turn| by_type.iter().filter_map(move |(_, of_type)| of_type.get(turn)));
    turns.copied().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canaries(given: &[(Outcome, u64)]) -> Canaries {
        given.iter().copied().collect()
    }

    #[test]
    fn all_have_to_succeed() {
        let judge = |given: &[(Outcome, u64)]| judge(&canaries(given), false);
        assert_eq!(judge(&[(Outcome::Succeeded, 5)]), CanaryVerdict::Pass);
        assert_eq!(judge(&[(Outcome::Succeeded, 4), (Outcome::Sent, 1)]), CanaryVerdict::Wait);
        assert_eq!(judge(&[(Outcome::Succeeded, 4), (Outcome::Skipped, 1)]), CanaryVerdict::Pass);
        assert_eq!(judge(&[(Outcome::Skipped, 5)]), CanaryVerdict::Renew);
        assert_eq!(judge(&[(Outcome::Skipped, 4), (Outcome::Sent, 1)]), CanaryVerdict::Wait);
        assert_eq!(judge(&[]), CanaryVerdict::Pass);
        for bad in [Outcome::Failed, Outcome::Relapsed, Outcome::Unknown, Outcome::Assumed, Outcome::Ended] {
            assert_eq!(judge(&[(Outcome::Waiting, 3), (bad, 1)]), CanaryVerdict::Fail(bad));
        }
        assert_eq!(judge(&[(Outcome::Failed, 0), (Outcome::Succeeded, 1)]), CanaryVerdict::Pass);
    }

    #[test]
    fn an_assumed_success_counts_where_the_plan_says_so() {
        assert_eq!(super::judge(&canaries(&[(Outcome::Assumed, 5)]), true), CanaryVerdict::Pass);
    }

    #[test]
    fn they_are_spread_over_types_in_the_order_of_the_run() {
        let heads = [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "c"), (6, "b")];
        assert_eq!(choose(&heads, 5), [1, 4, 5, 2, 6]);
        assert_eq!(choose(&heads, 2), [1, 4]);
        assert_eq!(choose::<u8>(&[], 5), [0_u8; 0]);
    }
}
