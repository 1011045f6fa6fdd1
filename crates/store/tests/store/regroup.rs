//! Regrouping: new rules move letters between incidents, incidents keep their ids, and capture goes on meanwhile.

use std::collections::BTreeMap;

use lazaret_core::fingerprint::{Fingerprint, Grouping, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::incident::IncidentState;
use lazaret_core::letter::Captured;
use lazaret_store::incident::{Incident, IncidentQuery};
use lazaret_store::regroup::{NewGrouping, OldGrouping, RegroupBatch, Regrouping};
use lazaret_store::series::{SeriesOf, SeriesQuery, Step};

use crate::rig::{Rig, at, captured, dying};

/// A way of grouping that looks at the message alone, told apart by its name.
fn by_message(revision: &str, message: &str) -> Grouping {
    grouping(&format!("{revision} {message}"))
}

fn grouping(key: &str) -> Grouping {
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let parts = Parts { letter_type: "t".into(), template: key.into(), ..Parts::default() };
    Grouping { fingerprint: Fingerprint::stored(format!("v1:{hex}")), parts }
}

/// Carries a regrouping to its end, in batches of `size`, by what `group` makes of each life.
async fn regroup(
    rig: &Rig,
    revision: &str,
    size: usize,
    group: impl Fn(&OldGrouping) -> Grouping,
) -> Regrouping {
    let mut state = rig.store().regrouping(revision.into()).await.unwrap();
    while state.towards.is_some() {
        state = step(rig, revision, size, &group).await;
    }
    assert_eq!(state.reached, revision);
    state
}

async fn step(
    rig: &Rig,
    revision: &str,
    size: usize,
    group: impl Fn(&OldGrouping) -> Grouping,
) -> Regrouping {
    let old = rig.store().old_groupings(size).await.unwrap();
    assert!(old.len() <= size);
    let (looked_at, up_to) = (old.len() as u64, old.last().map(|life| life.position));
    let lives = old
        .iter()
        .map(|life| NewGrouping {
            position: life.position,
            old: life.fingerprint.clone(),
            grouping: group(life),
            incident: IncidentId::mint(at(900_000), rig.mint()),
        })
        .filter(|new| new.old != new.grouping.fingerprint)
        .collect();
    let batch = RegroupBatch { revision: revision.into(), lives, looked_at, up_to, at: at(900_000) };
    rig.store().regroup(batch).await.unwrap()
}

fn said(event: &str, message: &str) -> Captured {
    let mut letter = captured(event);
    letter.error.message = message.into();
    letter
}

async fn open(rig: &Rig) -> Vec<Incident> {
    let query = IncidentQuery { limit: 100, ..IncidentQuery::default() };
    rig.store().incidents(query).await.unwrap().incidents
}

pub async fn an_incident_keeps_its_id_when_its_fingerprint_changes(rig: &mut Rig) {
    rig.create_many(25, at(0)).await;
    let before = open(rig).await;
    let state = regroup(rig, "new", 4, |life| by_message("new", &life.error.message)).await;
    assert_eq!((state.done, state.total), (25, 25));
    let after = open(rig).await;
    assert_eq!((after.len(), after[0].id, after[0].letters), (1, before[0].id, 25));
    assert_ne!(after[0].fingerprint, before[0].fingerprint);
    assert_eq!(after[0].title, by_message("new", "connection refused").parts.title());
    // The second way leads back to the same incident, and a third time nothing moves.
    regroup(rig, "newer", 100, |life| by_message("newer", &life.error.message)).await;
    let dump = rig.dump().await;
    let state = rig.store().regrouping("newer".into()).await.unwrap();
    assert_eq!((state.towards, open(rig).await[0].id), (None, before[0].id));
    assert_eq!(rig.dump().await, dump);
}

pub async fn a_group_that_falls_apart_leaves_its_id_to_the_first_part(rig: &mut Rig) {
    let first = rig.create(said("a", "timeout"), at(0)).await;
    rig.create(said("b", "timeout"), at(1)).await;
    let other = rig.create(said("c", "refused"), at(2)).await;
    let id = rig.letter(first).await.incident;
    regroup(rig, "one", 100, |_| grouping("all the same")).await;
    assert_eq!(open(rig).await.len(), 1);
    regroup(rig, "two", 2, |life| by_message("two", &life.error.message)).await;
    assert_eq!(rig.letter(first).await.incident, id);
    let split = rig.letter(other).await.incident;
    assert_ne!(split, id);
    let letters: BTreeMap<IncidentId, u64> =
        open(rig).await.iter().map(|incident| (incident.id, incident.letters)).collect();
    assert_eq!(letters, BTreeMap::from([(id, 2), (split, 1)]));
    assert!(rig.told().await.contains(&"incident.split".to_owned()));
}

pub async fn two_groups_that_become_one_are_found_under_both_ids(rig: &mut Rig) {
    let mut other = said("b", "timeout");
    other.letter_type = "order.paid".into();
    let one = rig.create(said("a", "timeout"), at(0)).await;
    let two = rig.create(other, at(1)).await;
    let (one, two) = (rig.letter(one).await.incident, rig.letter(two).await.incident);
    regroup(rig, "one", 100, |life| by_message("one", &life.error.message)).await;
    let found = open(rig).await;
    assert_eq!((found.len(), found[0].id, found[0].letters), (1, one, 2));
    let gone = rig.store().incident(two).await.unwrap().unwrap().incident;
    assert_eq!((gone.merged_into, gone.letters, gone.state), (Some(one), 0, IncidentState::Closed));
    assert!(rig.told().await.contains(&"incident.merged".to_owned()));
}

pub async fn letters_captured_by_the_new_rules_meanwhile_join_the_old_incident(rig: &mut Rig) {
    let old = rig.create_many(10, at(0)).await;
    let id = rig.letter(old[0]).await.incident;
    let group = |life: &OldGrouping| by_message("new", &life.error.message);
    rig.store().regrouping("new".into()).await.unwrap();
    // The new rules are in force: this one opens an incident of its own before any old life was looked at.
    let mut admitted = rig.admit(dying("early", at(50)), at(50));
    admitted.grouping = by_message("new", "connection refused");
    rig.insert(vec![admitted]).await;
    assert_eq!(open(rig).await.len(), 2);
    step(rig, "new", 3, group).await;
    let mut admitted = rig.admit(dying("late", at(60)), at(60));
    admitted.grouping = by_message("new", "connection refused");
    let late = rig.insert(vec![admitted]).await[0].letter;
    regroup(rig, "new", 3, group).await;
    let found = open(rig).await;
    assert_eq!((found.len(), found[0].id, found[0].letters), (1, id, 12));
    assert_eq!((rig.letter(late).await.incident, found[0].last_seen_at), (id, at(60)));
    let query = SeriesQuery {
        of: SeriesOf::Incidents(vec![id]),
        step: Step::Hour,
        from: at(-3_600_000),
        until: at(3_600_000),
    };
    let arrived: u64 = rig.store().series(query).await.unwrap()[0].points.iter().map(|p| p.arrived).sum();
    assert_eq!(arrived, 12, "the line follows the letters");
}

pub async fn what_the_old_rules_captured_last_is_regrouped_too(rig: &mut Rig) {
    rig.create_many(3, at(0)).await;
    rig.store().regrouping("new".into()).await.unwrap();
    // Admitted before the rules changed, stored after.
    let straggler = rig.create(captured("straggler"), at(10)).await;
    regroup(rig, "new", 2, |life| by_message("new", &life.error.message)).await;
    let expected = by_message("new", "connection refused").fingerprint;
    assert_eq!(rig.letter(straggler).await.fingerprint, expected);
}

pub async fn rules_that_change_again_start_over(rig: &mut Rig) {
    rig.create_many(6, at(0)).await;
    let id = open(rig).await[0].id;
    rig.store().regrouping("one".into()).await.unwrap();
    step(rig, "one", 2, |life| by_message("one", &life.error.message)).await;
    let state = rig.store().regrouping("two".into()).await.unwrap();
    assert_eq!((state.towards.as_deref(), state.done), (Some("two"), 0));
    // A batch of the rules before is too late.
    step(rig, "one", 2, |life| by_message("one", &life.error.message)).await;
    rig.reopen().await;
    regroup(rig, "two", 2, |life| by_message("two", &life.error.message)).await;
    let found = open(rig).await;
    assert_eq!((found.len(), found[0].id, found[0].letters), (1, id, 6));
}

pub async fn earlier_lives_are_regrouped_and_the_letter_stays_with_its_present_one(rig: &mut Rig) {
    let id = rig.create(said("a", "timeout"), at(0)).await;
    let mut again = said("a", "refused");
    again.died_at = Some(at(500));
    rig.capture(again, at(500)).await;
    regroup(rig, "new", 1, |life| by_message("new", &life.error.message)).await;
    let history = rig.history(id).await;
    let lives: Vec<_> = history.lives.iter().map(|life| life.fingerprint.clone()).collect();
    let expected = ["timeout", "refused"].map(|message| by_message("new", message).fingerprint);
    assert_eq!(lives, expected);
    assert_eq!(history.letter.fingerprint, expected[1]);
}

pub async fn an_empty_store_has_every_revision(rig: &mut Rig) {
    let state = rig.store().regrouping("any".into()).await.unwrap();
    assert_eq!((state.reached.as_str(), state.towards, state.total), ("any", None, 0));
}
