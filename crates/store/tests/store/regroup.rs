//! Regrouping: new rules move letters between incidents, incidents keep their ids, and capture goes on meanwhile.

use std::collections::BTreeMap;

use lazaret_core::fingerprint::{Fingerprint, Grouping, Parts};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::incident::IncidentState;
use lazaret_core::letter::{Captured, SourceWord};
use lazaret_core::time::Time;
use lazaret_store::decision::Verb;
use lazaret_store::incident::{Incident, IncidentQuery};
use lazaret_store::regroup::{NewGrouping, OldGrouping, RegroupBatch, Regrouping};
use lazaret_store::series::{SeriesOf, SeriesQuery, Step};

use crate::books;
use crate::rig::{Rig, at, captured, dying};

/// A way of grouping that looks at the message alone, told apart by its name.
pub fn by_message(revision: &str, message: &str) -> Grouping {
    grouping(&format!("{revision} {message}"))
}

fn grouping(key: &str) -> Grouping {
    let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let parts = Parts { letter_type: "t".into(), template: key.into(), ..Parts::default() };
    Grouping { fingerprint: Fingerprint::stored(format!("v1:{hex}")), parts }
}

/// Carries a regrouping to its end, in batches of `size`, by what `group` makes of each life.
pub async fn regroup(
    rig: &Rig,
    revision: &str,
    size: usize,
    group: impl Fn(&OldGrouping) -> Grouping,
) -> Regrouping {
    let mut state = rig.store().regrouping(revision.into(), begun()).await.unwrap();
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
    write_step(rig, revision, &old, group).await
}

async fn write_step(
    rig: &Rig,
    revision: &str,
    old: &[OldGrouping],
    group: impl Fn(&OldGrouping) -> Grouping,
) -> Regrouping {
    let (looked_at, up_to) = (old.len() as u64, old.last().map(|life| life.position));
    let lives = old
        .iter()
        .map(|life| NewGrouping {
            position: life.position,
            old: life.fingerprint.clone(),
            grouping: group(life),
            incident: IncidentId::mint(at(900_000), rig.mint()),
        })
        .collect();
    let batch = RegroupBatch { revision: revision.into(), lives, looked_at, up_to, at: at(900_000) };
    rig.store().regroup(batch).await.unwrap()
}

/// When new rules came into force: after the letters that a case begins with.
fn begun() -> Time {
    at(40)
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
    let state = rig.store().regrouping("newer".into(), begun()).await.unwrap();
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

pub async fn letters_deleted_while_they_are_regrouped_are_passed_by(rig: &mut Rig) {
    let ids = rig.create_many(10, at(0)).await;
    let group = |life: &OldGrouping| by_message("new", &life.error.message);
    rig.store().regrouping("new".into(), begun()).await.unwrap();
    // Read before they go, written after: the batch knows lives that are not there any more.
    let old = rig.store().old_groupings(4).await.unwrap();
    for id in [ids[1], ids[2], ids[9]] {
        rig.done(id, Verb::Delete, at(50)).await;
    }
    rig.done(ids[2], Verb::Restore, at(60)).await;
    write_step(rig, "new", &old, group).await;
    // This one gets the place of nobody, though the newest is gone.
    let late = rig.create(dying("late", at(70)), at(70)).await;
    let mut state = rig.store().regrouped().await.unwrap();
    while state.towards.is_some() {
        state = step(rig, "new", 3, group).await;
        // Whatever stage it is in, those that come back are not left behind.
        if rig.store().history(ids[1]).await.unwrap().is_none() {
            rig.done(ids[1], Verb::Restore, at(80)).await;
        }
    }
    let expected = by_message("new", "connection refused").fingerprint;
    for id in ids[..9].iter().chain([&late]) {
        assert_eq!(rig.letter(*id).await.fingerprint, expected, "{id}");
    }
    assert_eq!(open(rig).await.len(), 1);
}

pub async fn a_letter_restored_after_the_rules_changed_is_grouped_by_them(rig: &mut Rig) {
    for (deleted_at, restored_at) in [(0, 1), (0, 2), (1, 2), (0, 9), (2, 9)] {
        rig.store().reset().await.unwrap();
        let revision = format!("{deleted_at} {restored_at}");
        let group = |life: &OldGrouping| by_message(&revision, &life.error.message);
        let ids = rig.create_many(3, at(0)).await;
        let incident = rig.letter(ids[0]).await.incident;
        let mut state = rig.store().regrouping(revision.clone(), begun()).await.unwrap();
        for n in 0.. {
            if n == deleted_at {
                rig.done(ids[0], Verb::Delete, at(50)).await;
            }
            if n == restored_at {
                rig.done(ids[0], Verb::Restore, at(60)).await;
                state = rig.store().regrouped().await.unwrap();
            }
            if n > restored_at && state.towards.is_none() {
                break;
            }
            if state.towards.is_some() {
                state = step(rig, &revision, 100, group).await;
            }
        }
        assert_eq!(state.reached, revision);
        let letter = rig.letter(ids[0]).await;
        let expected = by_message(&revision, "connection refused").fingerprint;
        assert_eq!((letter.fingerprint, letter.incident), (expected, incident), "{revision}");
        assert_eq!(open(rig).await.len(), 1);
        books::agree(rig.store()).await;
    }
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
    rig.store().regrouping("new".into(), begun()).await.unwrap();
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
    rig.store().regrouping("new".into(), begun()).await.unwrap();
    // Admitted before the rules changed, stored after.
    let straggler = rig.create(captured("straggler"), at(10)).await;
    regroup(rig, "new", 2, |life| by_message("new", &life.error.message)).await;
    let expected = by_message("new", "connection refused").fingerprint;
    assert_eq!(rig.letter(straggler).await.fingerprint, expected);
}

pub async fn rules_that_change_again_start_over(rig: &mut Rig) {
    rig.create_many(6, at(0)).await;
    let id = open(rig).await[0].id;
    rig.store().regrouping("one".into(), begun()).await.unwrap();
    step(rig, "one", 2, |life| by_message("one", &life.error.message)).await;
    let state = rig.store().regrouping("two".into(), begun()).await.unwrap();
    assert_eq!((state.towards.as_deref(), state.done), (Some("two"), 0));
    // A batch of the rules before is too late.
    step(rig, "one", 2, |life| by_message("one", &life.error.message)).await;
    rig.reopen().await;
    regroup(rig, "two", 2, |life| by_message("two", &life.error.message)).await;
    let found = open(rig).await;
    assert_eq!((found.len(), found[0].id, found[0].letters), (1, id, 6));
}

pub async fn earlier_lives_stay_as_they_were_judged(rig: &mut Rig) {
    let id = rig.create(said("a", "timeout"), at(0)).await;
    let mut again = said("a", "refused");
    (again.died_at, again.letter_type) = (Some(at(500)), "order.paid".into());
    rig.capture(again, at(500)).await;
    let before = rig.history(id).await.lives[0].fingerprint.clone();
    regroup(rig, "new", 1, |life| by_message("new", &life.error.message)).await;
    let history = rig.history(id).await;
    let expected = by_message("new", "refused").fingerprint;
    assert_eq!((&history.lives[0].fingerprint, &history.lives[1].fingerprint), (&before, &expected));
    assert_eq!(history.letter.fingerprint, expected);
}

/// The incidents of letters, in order.
async fn incidents_of<const N: usize>(rig: &Rig, ids: [LetterId; N]) -> [IncidentId; N] {
    let mut incidents = Vec::new();
    for id in ids {
        incidents.push(rig.letter(id).await.incident);
    }
    incidents.try_into().unwrap()
}

pub async fn a_rule_that_takes_some_letters_out_of_a_group_makes_two_incidents(rig: &mut Rig) {
    for taken_out in ["a", "b"] {
        let event = |n: &str| format!("{taken_out}{n}");
        let one = rig.create(said(&event("1"), "timeout"), at(0)).await;
        let two = rig.create(said(&event("2"), "timeout"), at(1)).await;
        let [before, _] = incidents_of(rig, [one, two]).await;
        let apart = if taken_out == "a" { 0 } else { 1 };
        regroup(rig, &format!("apart {taken_out}"), 1, |life| {
            let is_apart = life.position == 2 * i64::from(taken_out == "b") + 1 + apart;
            if is_apart { grouping(&format!("apart {taken_out}")) } else { again(life) }
        })
        .await;
        let [first, second] = incidents_of(rig, [one, two]).await;
        assert_ne!(first, second);
        assert_eq!(first, before, "the oldest letter keeps the id that is known");
    }
}

/// The same group as before.
fn again(life: &OldGrouping) -> Grouping {
    Grouping { fingerprint: life.fingerprint.clone(), parts: Parts::default() }
}

pub async fn letters_that_join_another_group_leave_the_rest_of_theirs_alone(rig: &mut Rig) {
    let mut other = said("c", "timeout");
    other.letter_type = "other".into();
    let one = rig.create(said("a", "timeout"), at(0)).await;
    let two = rig.create(said("b", "timeout"), at(1)).await;
    let other = rig.create(other, at(2)).await;
    let [a, _, c] = incidents_of(rig, [one, two, other]).await;
    let target = rig.letter(other).await.fingerprint;
    regroup(rig, "new", 10, |life| {
        if life.position == 1 {
            Grouping { fingerprint: target.clone(), parts: Parts::default() }
        } else {
            again(life)
        }
    })
    .await;
    assert_eq!(incidents_of(rig, [one, two, other]).await, [c, a, c]);
}

pub async fn a_rule_that_is_taken_back_gives_the_incidents_back(rig: &mut Rig) {
    let mut other = said("b", "timeout");
    other.letter_type = "other".into();
    let one = rig.create(said("a", "timeout"), at(0)).await;
    let two = rig.create(other, at(1)).await;
    let before = incidents_of(rig, [one, two]).await;
    let [first, second] = [rig.letter(one).await.fingerprint, rig.letter(two).await.fingerprint];
    regroup(rig, "lumped", 10, |_| grouping("all the same")).await;
    let [lumped, also] = incidents_of(rig, [one, two]).await;
    assert_eq!((lumped, also), (before[0], before[0]));
    regroup(rig, "as before", 10, |life| {
        let fingerprint = if life.position == 1 { first.clone() } else { second.clone() };
        Grouping { fingerprint, parts: Parts::default() }
    })
    .await;
    assert_eq!(incidents_of(rig, [one, two]).await, before);
    assert_eq!(open(rig).await.len(), 2);
}

/// Asserts that every letter is in a listed incident that is not closed, and that there are so many of them.
async fn all_are_listed(rig: &Rig, letters: &[LetterId], count: usize, when: &str) {
    let listed = open(rig).await;
    let unsettled = listed.iter().filter(|incident| incident.state != IncidentState::Closed).count();
    assert_eq!(unsettled, count, "{when}: {listed:?}");
    for letter in letters {
        let incident = rig.letter(*letter).await.incident;
        let found = listed.iter().find(|listed| listed.id == incident);
        assert_eq!(found.map(|found| found.state), Some(IncidentState::Open), "{when}: {letter}");
    }
    books::agree(rig.store()).await;
}

pub async fn rules_that_are_switched_on_and_off_and_on_again_hide_no_letters(rig: &mut Rig) {
    let mut letters = Vec::new();
    for (event, message) in [("a", "timeout"), ("b", "refused"), ("c", "reset"), ("d", "refused")] {
        letters.push(rig.create(said(event, message), at(0)).await);
    }
    for turn in 1..=6 {
        let joined = turn % 2 == 1;
        let group = |life: &OldGrouping| {
            if joined { grouping("all the same") } else { by_message("apart", &life.error.message) }
        };
        let revision = if joined { "joined" } else { "apart" };
        regroup(rig, revision, 2, group).await;
        let count = if joined { 1 } else { 3 };
        all_are_listed(rig, &letters, count, &format!("turn {turn}")).await;
        // A death under the rules in force is seen as well.
        let mut late = rig.admit(said(&format!("late {turn}"), "reset"), at(turn));
        late.grouping = if joined { grouping("all the same") } else { by_message("apart", "reset") };
        letters.push(rig.insert(vec![late]).await[0].letter);
        all_are_listed(rig, &letters, count, &format!("turn {turn}, later")).await;
        rig.reopen().await;
    }
}

pub async fn an_incident_that_was_merged_is_listed_as_soon_as_it_has_a_letter(rig: &mut Rig) {
    let one = rig.create(said("a", "timeout"), at(0)).await;
    let mut other = said("b", "timeout");
    other.letter_type = "other".into();
    let other = rig.create(other, at(1)).await;
    let [survivor, merged] = incidents_of(rig, [one, other]).await;
    rig.done(other, Verb::Delete, at(50)).await;
    let mut third = said("c", "timeout");
    third.letter_type = "other".into();
    rig.create(third, at(60)).await;
    regroup(rig, "joined", 10, |_| grouping("all the same")).await;
    assert_eq!(open(rig).await.iter().map(|incident| incident.id).collect::<Vec<_>>(), [survivor]);
    // It comes back under its old fingerprint; nobody has regrouped it yet.
    rig.done(other, Verb::Restore, at(70)).await;
    assert_eq!(rig.letter(other).await.incident, merged);
    books::agree(rig.store()).await;
    let found = rig.store().incident(merged).await.unwrap().unwrap().incident;
    assert_eq!((found.merged_into, found.state), (None, IncidentState::Open));
    regroup(rig, "joined", 10, |_| grouping("all the same")).await;
    assert_eq!(incidents_of(rig, [one, other]).await, [survivor, survivor]);
    let found = rig.store().incident(merged).await.unwrap().unwrap().incident;
    assert_eq!((found.merged_into, found.letters), (Some(survivor), 0));
}

pub async fn groups_that_move_on_one_after_the_other_stay_apart(rig: &mut Rig) {
    for swapped in [false, true] {
        let name = |text: &str| format!("{text} {swapped}");
        let [mut one, mut two] = [said(&name("a"), "x"), said(&name("b"), "x")];
        (one.letter_type, two.letter_type) = (name("one"), name("two"));
        if swapped {
            std::mem::swap(&mut one, &mut two);
        }
        let one = rig.create(one, at(0)).await;
        let two = rig.create(two, at(1)).await;
        let chain = [rig.letter(one).await.fingerprint, rig.letter(two).await.fingerprint];
        regroup(rig, &name("moved on"), 10, |life| {
            let fingerprint = if life.fingerprint == chain[0] {
                chain[1].clone()
            } else if life.fingerprint == chain[1] {
                grouping(&name("last")).fingerprint
            } else {
                life.fingerprint.clone()
            };
            Grouping { fingerprint, parts: Parts::default() }
        })
        .await;
        let [first, second] = incidents_of(rig, [one, two]).await;
        assert_ne!(first, second);
    }
}

pub async fn an_empty_store_has_every_revision(rig: &mut Rig) {
    let state = rig.store().regrouping("any".into(), begun()).await.unwrap();
    assert_eq!((state.reached.as_str(), state.towards, state.total), ("any", None, 0));
}

pub async fn an_incident_of_many_fingerprints_is_found_whole(rig: &mut Rig) {
    let count = 1_200;
    let batch = (0..count)
        .map(|n| {
            let mut admitted = rig.admit(captured(&format!("e{n}")), at(n));
            admitted.grouping = grouping(&format!("cause {n}"));
            admitted
        })
        .collect();
    let first = rig.insert(batch).await[0].letter;
    let [known] = incidents_of(rig, [first]).await;
    // While the old fingerprints are in use, and after they have become one.
    for revision in ["as they are", "one"] {
        regroup(rig, revision, 500, |life| if revision == "one" { grouping("one") } else { again(life) })
            .await;
        let found = rig.find(&format!("incident:{known}")).await.len() as i64;
        let others = rig.find(&format!("-incident:{known}")).await.len() as i64;
        let expected = if revision == "one" { count } else { 1 };
        assert_eq!((found, others), (expected, count - expected), "{revision}");
    }
    let query = SeriesQuery {
        of: SeriesOf::Incidents(vec![known]),
        step: Step::Hour,
        from: at(-3_600_000),
        until: at(3_600_000),
    };
    let arrived: u64 = rig.store().series(query).await.unwrap()[0].points.iter().map(|p| p.arrived).sum();
    assert_eq!(arrived, count as u64);
}

pub async fn a_life_of_which_nothing_is_told_keeps_its_own_error(rig: &mut Rig) {
    let id = rig.create(dying("a", at(0)), at(1)).await;
    let mut untold = captured("a");
    untold.error = Default::default();
    untold.word = SourceWord::NewDeath;
    rig.capture(untold, at(600)).await;
    let history = rig.history(id).await;
    assert_eq!((history.lives.len(), history.lives[1].fatal), (2, 2));
    assert_eq!(history.attempts[1].attempt.error, Default::default());
    regroup(rig, "new", 10, |life| by_message("new", &life.error.message)).await;
    assert_eq!(rig.letter(id).await.fingerprint, by_message("new", "").fingerprint);
}
