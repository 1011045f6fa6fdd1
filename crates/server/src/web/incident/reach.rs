//! Whom an incident hits, each value with the letters that have it.

use lazaret_core::class::ErrorClass;
use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::id::IncidentId;
use lazaret_core::pattern::Pattern;

use crate::api::wire::incident::{IncidentEntry, ValueCount};

/// One kind of value.
pub(super) struct Reach {
    pub name: &'static str,
    pub values: Vec<Reached>,
}

pub(super) struct Reached {
    pub value: String,
    pub count: u64,
    /// The filter of these letters, in its text form.
    pub filter: String,
}

/// Every kind of which there are values.
pub(super) fn of(entry: &IncidentEntry) -> Vec<Reach> {
    let affected = &entry.affected;
    let mut incident = Filter::default();
    incident.incident.include.extend(IncidentId::parse(&entry.incident.id));
    let listed = |name, values: &[ValueCount], key: fn(&mut Filter, &str)| Reach {
        name,
        values: values.iter().map(|one| reached(one, &incident, key)).collect(),
    };
    let all = [
        listed("Queues", &affected.queues, |filter, value| add(&mut filter.queue, value)),
        listed("Types", &affected.types, |filter, value| add(&mut filter.letter_type, value)),
        listed("Subscribers", &affected.subscribers, |filter, value| add(&mut filter.subscriber, value)),
        listed("Order keys", &affected.aggregates, |filter, value| add(&mut filter.aggregate, value)),
        listed("Tenants", &affected.tenants, |filter, value| add(&mut filter.tenant, value)),
        listed("Classes", &affected.classes, |filter, value| {
            filter.class.include.extend(ErrorClass::parse(value));
        }),
    ];
    all.into_iter().filter(|reach| !reach.values.is_empty()).collect()
}

fn reached(one: &ValueCount, incident: &Filter, key: fn(&mut Filter, &str)) -> Reached {
    let mut filter = incident.clone();
    key(&mut filter, &one.value);
    Reached { value: one.value.clone(), count: one.count, filter: filter.to_string() }
}

fn add(patterns: &mut Patterns, value: &str) {
    patterns.include.insert(Pattern::new(value));
}
