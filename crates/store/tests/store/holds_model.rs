//! Case: whatever is held, released, captured and decided in any order, each letter is under the holds it should be
//! under, and shows the oldest.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::id::{HoldId, LetterId};
use lazaret_core::letter::{Captured, Hold};
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::hold::{HoldOn, HoldPlaced, HoldState, NewHold};
use lazaret_store::stats::LedgerBy;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;

use crate::books;
use crate::holds::{bea, filter, listed, new, work};
use crate::rig::{Rig, at, dying};
use crate::seeds::sequences;

const SEQUENCES: usize = 10;
const STEPS: usize = 50;
/// Few, so that the same letters are met again and again.
const EVENTS: u8 = 5;

#[derive(Clone, Debug)]
enum Step {
    /// Captures a message in one of two queues: a new letter, or the next life of one.
    Die(bool),
    Decide(Verb),
    PlaceOnLetter(Ends),
    /// On all letters of one of the queues.
    PlaceOnList(bool, Ends),
    PlaceStanding(bool, Ends),
    /// Ends one of the holds that are in force.
    Release(usize),
    /// Looks after the holds, as a tick does.
    Tick,
    Restart,
}

/// Whether a hold ends by itself, a few steps later.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Never,
    Soon,
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let ends = select(vec![Ends::Never, Ends::Soon]);
    let verbs = vec![Verb::Hold, Verb::Release, Verb::Release, Verb::Resolve, Verb::Reopen, Verb::Discard];
    let step = prop_oneof![
        30 => any::<bool>().prop_map(Step::Die),
        30 => select(verbs).prop_map(Step::Decide),
        10 => ends.clone().prop_map(Step::PlaceOnLetter),
        8 => (any::<bool>(), ends.clone()).prop_map(|(queue, ends)| Step::PlaceOnList(queue, ends)),
        8 => (any::<bool>(), ends).prop_map(|(queue, ends)| Step::PlaceStanding(queue, ends)),
        12 => (0..8_usize).prop_map(Step::Release),
        15 => select(vec![Step::Tick]),
        2 => select(vec![Step::Restart]),
    ];
    (0..EVENTS, step)
}

const fn queue(first: bool) -> &'static str {
    if first { "q1" } else { "q2" }
}

/// One hold that is in force, as a person would keep it on paper.
#[derive(Clone, Debug)]
struct Paper {
    at: Time,
    by: &'static str,
    reason: &'static str,
    until: Option<Time>,
    /// The queue that it stands for.
    standing: Option<&'static str>,
    /// The letter that it was placed on.
    own: Option<LetterId>,
    letters: BTreeSet<LetterId>,
}

#[derive(Clone, Debug, Default)]
struct Papers {
    /// The letter of each event, and its queue.
    letters: BTreeMap<u8, (LetterId, &'static str)>,
    holds: BTreeMap<HoldId, Paper>,
}

impl Papers {
    fn in_queue(&self, queue: &str) -> BTreeSet<LetterId> {
        self.letters.values().filter(|(_, of)| *of == queue).map(|(id, _)| *id).collect()
    }

    fn holds_of(&self, letter: LetterId) -> Vec<HoldId> {
        let mut holds: Vec<_> =
            self.holds.iter().filter(|(_, hold)| hold.letters.contains(&letter)).collect();
        holds.sort_by_key(|(id, hold)| (hold.at, **id));
        holds.into_iter().map(|(id, _)| *id).collect()
    }
}

pub async fn any_sequence_of_holds_leaves_each_letter_under_its_own(rig: &mut Rig) {
    sequences(rig, step(), (SEQUENCES, STEPS), follow).await;
}

async fn follow(rig: &mut Rig, round: usize, steps: &[(u8, Step)]) {
    let mut papers = Papers::default();
    for (n, (event, step)) in steps.iter().enumerate() {
        // A second apart, so that each death is later than all before it.
        let now = at((round * 2 * STEPS + n) as i64 * 1_000);
        take(rig, &mut papers, *event, step.clone(), now).await;
        compare(rig, &papers, &steps[..=n]).await;
    }
    books::agree(rig.store()).await;
}

async fn take(rig: &mut Rig, papers: &mut Papers, event: u8, step: Step, now: Time) {
    match step {
        Step::Die(first) => die(rig, papers, event, queue(first), now).await,
        Step::Decide(verb) => decide(rig, papers, event, verb, now).await,
        Step::PlaceOnLetter(ends) => {
            let Some((letter, _)) = papers.letters.get(&event).copied() else { return };
            place(rig, papers, HoldOn::Letter(letter), ends, now).await;
        }
        Step::PlaceOnList(first, ends) => {
            let count = papers.in_queue(queue(first)).len() as u64;
            let text = format!("queue:{}", queue(first));
            let wrong = new(rig, listed(&text, count + 1), now);
            assert_eq!(rig.store().place_hold(wrong).await.unwrap(), HoldPlaced::Count(count));
            place(rig, papers, listed(&text, count), ends, now).await;
        }
        Step::PlaceStanding(first, ends) => {
            let on = HoldOn::Standing(filter(&format!("queue:{}", queue(first))));
            place(rig, papers, on, ends, now).await;
        }
        Step::Release(which) => {
            let Some(id) = papers.holds.keys().nth(which).copied() else { return };
            assert!(rig.store().release_hold(id, None, bea(), now).await.unwrap());
            work(rig, id, now).await;
            papers.holds.remove(&id);
        }
        Step::Tick => {
            for hold in rig.store().due_holds(now).await.unwrap() {
                work(rig, hold.id, now).await;
            }
            papers.holds.retain(|_, hold| hold.until.is_none_or(|until| now < until));
        }
        Step::Restart => rig.reopen().await,
    }
}

async fn die(rig: &Rig, papers: &mut Papers, event: u8, queue: &'static str, now: Time) {
    let captured = Captured { queue: queue.into(), ..dying(&format!("e{event}"), now.plus_ms(-1)) };
    let id = rig.capture(captured, now).await.letter;
    let letter = rig.letter(id).await;
    // A discarded letter stays where it is.
    let of = if letter.status == Status::Discarded { papers.letters[&event].1 } else { queue };
    papers.letters.insert(event, (id, of));
    for hold in papers.holds.values_mut() {
        if hold.standing == Some(of) && hold.until.is_none_or(|until| now < until) {
            hold.letters.insert(id);
        }
    }
}

async fn decide(rig: &Rig, papers: &mut Papers, event: u8, verb: Verb, now: Time) {
    let Some((letter, _)) = papers.letters.get(&event).copied() else { return };
    let before: BTreeSet<_> = papers.holds_of(letter).into_iter().collect();
    let is_held = !before.is_empty();
    let decided = rig.decide(letter, verb, now).await;
    match verb {
        Verb::Hold => {
            assert_eq!(decided, Decided::Done);
            let all = rig.store().holds_of(letter).await.unwrap();
            let id = all.iter().map(|hold| hold.id).find(|id| !before.contains(id)).unwrap();
            let paper = Paper {
                at: now,
                by: "ana",
                reason: "ticket 7",
                until: None,
                standing: None,
                own: Some(letter),
                letters: BTreeSet::from([letter]),
            };
            papers.holds.insert(id, paper);
        }
        Verb::Release => {
            assert_eq!(decided == Decided::Done, is_held);
            for hold in papers.holds.values_mut() {
                hold.letters.remove(&letter);
            }
            // A hold on one letter ends with it.
            papers.holds.retain(|_, hold| hold.own != Some(letter));
        }
        Verb::Discard => assert!(!is_held || decided != Decided::Done, "it was held"),
        Verb::Resolve | Verb::Reopen | Verb::Retry | Verb::Delete | Verb::Restore => {}
    }
}

async fn place(rig: &Rig, papers: &mut Papers, on: HoldOn, ends: Ends, now: Time) {
    let until = match ends {
        Ends::Never => None,
        Ends::Soon => Some(now.plus_ms(7_500)),
    };
    let hold = NewHold { until, ..new(rig, on.clone(), now) };
    let id = hold.id;
    assert_eq!(rig.store().place_hold(hold).await.unwrap(), HoldPlaced::Placed);
    work(rig, id, now).await;
    let queue_of = |text: String| if text == "queue:q1" { "q1" } else { "q2" };
    let (standing, own, letters) = match on {
        HoldOn::Letter(letter) => (None, Some(letter), BTreeSet::from([letter])),
        HoldOn::Filter { filter, .. } => (None, None, papers.in_queue(queue_of(filter.to_string()))),
        HoldOn::Standing(filter) => {
            let queue = queue_of(filter.to_string());
            (Some(queue), None, papers.in_queue(queue))
        }
    };
    let paper = Paper { at: now, by: "bea", reason: "litigation 12", until, standing, own, letters };
    papers.holds.insert(id, paper);
}

/// Asserts that the store and the papers tell the same.
async fn compare(rig: &Rig, papers: &Papers, done: &[(u8, Step)]) {
    let ledger = rig.store().ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.difference(), ledger.wrong_counters), (0, 0), "after {done:?}");
    for (letter, _) in papers.letters.values() {
        let expected = papers.holds_of(*letter);
        let told = rig.store().holds_of(*letter).await.unwrap();
        let told: Vec<_> = told.iter().map(|hold| hold.id).collect();
        assert_eq!(told, expected, "after {done:?}");
        let oldest = expected.first().map(|id| &papers.holds[id]);
        let shown = oldest.map(|hold| Hold { at: hold.at, by: hold.by.into(), reason: hold.reason.into() });
        assert_eq!(rig.letter(*letter).await.hold, shown, "after {done:?}");
    }
    let mut told = BTreeMap::new();
    for hold in rig.store().holds(None, false, 1_000).await.unwrap() {
        assert_eq!(hold.state, HoldState::Standing, "after {done:?}");
        told.insert(hold.id, hold.letters as usize);
    }
    let expected: BTreeMap<_, _> = papers.holds.iter().map(|(id, hold)| (*id, hold.letters.len())).collect();
    assert_eq!(told, expected, "after {done:?}");
}
