//! How every queue stands against its policy, for people.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::retention::{Effective, PruningPolicy};
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::retention::QueueStanding;

use super::policy::{Policies, Scope, counted_in};
use super::step;
use crate::app::App;

/// All queues and their policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retained {
    /// Those with the most letters first.
    pub queues: Vec<QueueRetention>,
    /// Queues beyond those that are shown.
    pub more: usize,
    pub counts: Vec<Counted>,
}

/// A queue, what holds for it, and how it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRetention {
    pub source: String,
    pub queue: String,
    pub effective: Effective,
    /// With what its letters are counted, if they are.
    pub counted_in: Option<Scope>,
    /// Live letters by status.
    pub letters: BTreeMap<Status, u64>,
    /// Of those.
    pub held: u64,
    /// When the retention of its oldest pending letter began.
    pub oldest_at: Option<Time>,
    /// What follows from its policy and may surprise.
    pub notes: Vec<String>,
}

/// A count and its limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    pub scope: Scope,
    pub max: u64,
    pub letters: u64,
    pub held: u64,
    /// Letters over the limit that stay, because they are held.
    pub unmet: u64,
}

/// Every queue that has letters or a policy of its own.
pub async fn standings(app: &App) -> Result<Retained, StoreError> {
    let policies = Policies::of(&app.config);
    let standings = app.store.queue_standings().await?;
    let mut queues: BTreeMap<(String, String), QueueRetention> = BTreeMap::new();
    for (source, queue) in policies.queues() {
        queues.insert((source.to_owned(), queue.to_owned()), empty(&policies, source, queue));
    }
    for standing in &standings {
        let QueueStanding { source, queue, status, letters, held, oldest_at } = standing;
        let key = (source.clone(), queue.clone());
        let told = queues.entry(key).or_insert_with(|| empty(&policies, source, queue));
        told.letters.insert(*status, *letters);
        told.held += held;
        if *status == Status::Pending {
            told.oldest_at = *oldest_at;
        }
    }
    let mut queues: Vec<QueueRetention> = queues.into_values().collect();
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.letters.values().sum::<u64>()));
    let more = queues.len().saturating_sub(limits::RETENTION_QUEUES_SHOWN);
    queues.truncate(limits::RETENTION_QUEUES_SHOWN);
    let counted = |sum: step::Sum| Counted {
        unmet: sum.unmet(),
        scope: sum.scope,
        max: sum.max,
        letters: sum.letters,
        held: sum.held,
    };
    let counts = step::sums(&policies, &standings).into_iter().map(counted).collect();
    Ok(Retained { queues, more, counts })
}

fn empty(policies: &Policies, source: &str, queue: &str) -> QueueRetention {
    let effective = policies.effective(source, queue);
    QueueRetention {
        source: source.to_owned(),
        queue: queue.to_owned(),
        counted_in: counted_in(source, queue, &effective).map(|(scope, _)| scope),
        letters: BTreeMap::new(),
        held: 0,
        oldest_at: None,
        notes: notes(&effective),
        effective,
    }
}

fn notes(effective: &Effective) -> Vec<String> {
    let Effective { max_age, min_age, pruning_policy, resolved_max_age, discarded_max_age, .. } = effective;
    let mut notes = Vec::new();
    let ages = [
        ("max_age", max_age),
        ("resolved_max_age", resolved_max_age),
        ("discarded_max_age", discarded_max_age),
    ];
    for (name, age) in ages {
        if pruning_policy.0 == PruningPolicy::Delete && age.0 < min_age.0 {
            notes.push(format!("{name} is shorter than min_age: letters are archived, not deleted"));
        }
    }
    if min_age.0 < Length::from_ms(limits::RETENTION_FLOOR_MS) {
        notes.push("min_age is below the 90 days that RULE-040-061 asks for".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use lazaret_core::retention::Retention;

    use super::*;

    #[test]
    fn what_may_surprise_is_said() {
        let of = |settings: Retention| {
            let nothing = Retention::default();
            notes(&Effective::of("jobs", &settings, &nothing, &nothing))
        };
        let days = |days: i64| Some(Length::from_ms(days * 86_400_000));
        assert_eq!(of(Retention::default()), [""; 0]);
        let short = of(Retention { max_age: days(30), ..Retention::default() });
        assert!(short.len() == 1 && short[0].starts_with("max_age is shorter than min_age"), "{short:?}");
        let policy = Some(PruningPolicy::Archive);
        assert_eq!(
            of(Retention { max_age: days(30), pruning_policy: policy, ..Retention::default() }),
            [""; 0]
        );
        let low = of(Retention { min_age: days(30), ..Retention::default() });
        assert!(low.len() == 1 && low[0].contains("RULE-040-061"), "{low:?}");
    }
}
