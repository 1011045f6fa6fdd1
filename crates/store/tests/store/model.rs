//! Case: any sequence of captures, claims and decisions leaves each letter where the machine says.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::{Action, Life, Next, Place, Refused, Standing, Status};
use lazaret_core::time::Time;
use lazaret_store::claim::{ClaimRefused, ClaimStep, Settlement};
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::retention::{Prunable, PrunableKey};
use lazaret_store::stats::LedgerBy;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::books;
use crate::rig::{Rig, at, dying, mark};
use crate::shelf::{ARCHIVE, Push, Shelf, archived, batch, take};

const SEQUENCES: usize = 12;
const STEPS: usize = 60;
/// Few, so that the same letters are met again and again.
const EVENTS: u8 = 4;

/// What is done, to which event's letter.
#[derive(Clone, Debug)]
enum Step {
    /// Reports a death later than everything before it, or the first.
    Die,
    /// Reports the last death once more.
    Repeat,
    /// Reports a death that carries our mark, of this many lives ago.
    Marked(u32),
    /// Claims for a new run, or once more for the run that has it.
    Claim(bool),
    Advance(ClaimStep),
    Settle(Settlement),
    Decide(Verb),
    /// Restores the first letter that the event ever had.
    RestoreFirst,
    /// A limit pushes it out into the archive.
    Archive,
    /// All that waits for a file goes into one.
    File,
    Restart,
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    let settlement = select(vec![
        Settlement::Confirmed { evidence: "acked".into(), by: "redrive".into() },
        Settlement::Unclaimed,
        Settlement::Ended { evidence: "cancelled".into(), by: "source:jobs".into() },
    ]);
    let step = prop_oneof![
        60 => select(vec![Step::Die, Step::Repeat, Step::Marked(0), Step::Marked(1)]),
        60 => any::<bool>().prop_map(Step::Claim),
        100 => select(ClaimStep::ALL.to_vec()).prop_map(Step::Advance),
        60 => settlement.prop_map(Step::Settle),
        160 => select(Verb::ALL.to_vec()).prop_map(Step::Decide),
        10 => select(vec![Step::RestoreFirst]),
        60 => select(vec![Step::Archive]),
        15 => select(vec![Step::File]),
        1 => select(vec![Step::Restart]),
    ];
    (0..EVENTS, step)
}

/// One letter, as a person would keep it on paper.
#[derive(Clone, Debug)]
struct Paper {
    id: LetterId,
    status: Status,
    place: Place,
    held: bool,
    life: u32,
    claim: Option<(RedriveId, ClaimStep)>,
    ever_sent: bool,
    last: Captured,
    /// Whether what left the live letters stands in a file, and how many lives do that were there before.
    filed: bool,
    away: u32,
}

impl Paper {
    fn standing(&self) -> Standing {
        Standing { status: self.status, place: self.place, held: self.held, content_kept: true }
    }

    /// Moves as the machine says.
    fn apply(&mut self, action: Action) -> Result<(), Refused> {
        let Next::Moves { status, place, life } = self.standing().after(action)? else {
            panic!("a live letter never gives way to a new one");
        };
        self.status = status;
        self.place = place;
        self.life += u32::from(life == Life::Next);
        match action {
            Action::Hold => self.held = true,
            Action::Release => self.held = false,
            _ => {}
        }
        Ok(())
    }

    fn die(&mut self) {
        if self.filed {
            self.away = self.life;
        }
        self.filed = false;
        self.apply(Action::DieAgain).unwrap();
        self.claim = None;
    }
}

/// All letters that an event ever had, in order.
type Papers = BTreeMap<u8, Vec<Paper>>;

/// The letter that the event's key stands for: the one that is not deleted, else the newest.
fn standing_of(papers: &mut [Paper]) -> &mut Paper {
    let live = papers.iter().position(|paper| paper.place != Place::Deleted);
    let at = live.unwrap_or(papers.len() - 1);
    &mut papers[at]
}

pub async fn any_sequence_of_actions_follows_the_machine(rig: &mut Rig) {
    let mut runner = TestRunner::deterministic();
    let strategy = step();
    for sequence in 0..SEQUENCES {
        rig.store().reset().await.unwrap();
        let (mut papers, mut shelf) = (Papers::new(), Shelf::default());
        let mut done = Vec::new();
        for n in 0..STEPS {
            let (event, step) = strategy.new_tree(&mut runner).unwrap().current();
            done.push((event, step.clone()));
            // A second apart, so that each death is later than the send before it.
            let now = at((sequence * STEPS + n) as i64 * 1_000);
            match step {
                Step::Die | Step::Repeat | Step::Marked(_) => {
                    capture(rig, papers.entry(event).or_default(), event, &step, now).await
                }
                Step::Restart => rig.reopen().await,
                Step::RestoreFirst => {
                    if let Some(papers) = papers.get_mut(&event) {
                        decide(rig, &shelf, papers, 0, Verb::Restore, now).await;
                    }
                }
                Step::Decide(verb) => {
                    if let Some(papers) = papers.get_mut(&event) {
                        let id = standing_of(papers).id;
                        let which = papers.iter().position(|paper| paper.id == id).unwrap();
                        decide(rig, &shelf, papers, which, verb, now).await;
                    }
                }
                Step::Archive => {
                    if let Some(papers) = papers.get_mut(&event) {
                        archive(rig, standing_of(papers), now).await;
                    }
                }
                Step::File => {
                    shelf.file(rig, now).await;
                    let all = papers.values_mut().flatten();
                    all.filter(|paper| paper.place != Place::Live).for_each(|paper| paper.filed = true);
                }
                Step::Claim(_) | Step::Advance(_) | Step::Settle(_) => {
                    if let Some(papers) = papers.get_mut(&event) {
                        act(rig, standing_of(papers), step, now).await;
                    }
                }
            }
            compare(rig, &papers, &done).await;
        }
        books::agree(rig.store()).await;
    }
}

async fn capture(rig: &Rig, papers: &mut Vec<Paper>, event: u8, step: &Step, now: Time) {
    let anew = dying(&format!("e{event}"), now.plus_ms(-1));
    if papers.iter().all(|paper| paper.place == Place::Deleted) {
        // Whatever is told of a letter that was deleted is told of a new one.
        let told = match (step, papers.last()) {
            (Step::Repeat, Some(paper)) => paper.last.clone(),
            (Step::Marked(_), Some(paper)) => {
                Captured { mark: mark(paper.id, paper.life, rig.run_id()), ..anew }
            }
            _ => anew,
        };
        let id = rig.create(told.clone(), now).await;
        assert_eq!(rig.letter(id).await.previous, papers.last().map(|paper| paper.id));
        papers.push(Paper {
            id,
            status: Status::Pending,
            place: Place::Live,
            held: false,
            life: 1,
            claim: None,
            ever_sent: false,
            last: Captured { mark: None, ..told },
            filed: false,
            away: 0,
        });
        return;
    }
    let paper = standing_of(papers);
    let being_sent = matches!(paper.claim, Some((_, ClaimStep::Sending | ClaimStep::Sent)));
    let died = if paper.ever_sent || being_sent { Outcome::Relapse } else { Outcome::Recurred };
    let (captured, outcome) = match step {
        Step::Repeat => (paper.last.clone(), Outcome::Duplicate),
        // A mark of a redrive that did not send it proves nothing: only the time does.
        Step::Marked(0) => (Captured { mark: mark(paper.id, paper.life, rig.run_id()), ..anew }, died),
        Step::Marked(ago) if *ago < paper.life => {
            (Captured { mark: mark(paper.id, paper.life - ago, rig.run_id()), ..anew }, Outcome::Duplicate)
        }
        _ => (anew, died),
    };
    let receipt = rig.capture(captured.clone(), now).await;
    assert_eq!((receipt.letter, receipt.outcome), (paper.id, outcome), "{step:?} on {paper:?}");
    if outcome != Outcome::Duplicate {
        // A relapse proves that a copy was out; a discarded letter does not move, so nothing is noted on it. Out of the
        // archive it does.
        let moves = paper.status != Status::Discarded || paper.place == Place::Archived;
        paper.ever_sent |= outcome == Outcome::Relapse && moves;
        paper.die();
        paper.last = Captured { mark: None, ..captured };
    }
}

async fn act(rig: &Rig, paper: &mut Paper, step: Step, now: Time) {
    let id = paper.id;
    let claimed_at = paper.claim.map(|(_, step)| step);
    let run = paper.claim.map_or_else(|| rig.run_id(), |(run, _)| run);
    let not_claimed = Err(ClaimRefused::NotClaimed(id));
    match step {
        Step::Claim(again) => {
            let run = if again { run } else { rig.run_id() };
            let expected = match paper.place {
                Place::Archived | Place::Deleted => Err(ClaimRefused::Unknown(id)),
                Place::Live => paper.apply(Action::Redrive).map_err(ClaimRefused::from),
            };
            assert_eq!(rig.claim(id, paper.life, run, now).await.map(drop), expected);
            if expected.is_ok() {
                paper.claim = Some((run, ClaimStep::Claimed));
            }
        }
        Step::Advance(to) => {
            let allowed = matches!(
                (claimed_at, to),
                (Some(ClaimStep::Claimed), ClaimStep::Sending) | (Some(ClaimStep::Sending), ClaimStep::Sent)
            );
            let expected = if allowed { Ok(()) } else { not_claimed };
            assert_eq!(rig.advance(id, run, to, now).await, expected);
            if allowed {
                paper.claim = Some((run, to));
                paper.ever_sent |= to == ClaimStep::Sent;
            }
        }
        Step::Settle(how) => {
            let (action, from) = match how {
                Settlement::Confirmed { .. } => (Action::Confirm, ClaimStep::Sending..=ClaimStep::Sent),
                Settlement::Unclaimed => (Action::Unclaim, ClaimStep::Claimed..=ClaimStep::Sending),
                Settlement::Ended { .. } => {
                    (Action::EndWithoutDeadLetter, ClaimStep::Sending..=ClaimStep::Sent)
                }
            };
            let allowed = claimed_at.is_some_and(|step| from.contains(&step));
            let expected = if allowed { Ok(()) } else { not_claimed };
            assert_eq!(rig.store().settle(id, run, how, now).await.unwrap(), expected);
            if allowed {
                paper.apply(action).unwrap();
                paper.claim = None;
                paper.ever_sent |= action != Action::Unclaim;
            }
        }
        Step::Die
        | Step::Repeat
        | Step::Marked(_)
        | Step::Decide(_)
        | Step::RestoreFirst
        | Step::Archive
        | Step::File
        | Step::Restart => unreachable!("done elsewhere"),
    }
}

/// Pushes a letter out, if the machine lets it go.
async fn archive(rig: &Rig, paper: &mut Paper, now: Time) {
    if paper.place != Place::Live {
        return;
    }
    let letter = rig.letter(paper.id).await;
    let may = Prunable {
        key: PrunableKey { retention_at: letter.retention_at, letter: letter.id },
        source: letter.source,
        queue: letter.queue,
        letter_type: letter.letter_type,
        since: now,
    };
    let gone = take(rig, batch(&[may], Push { status: paper.status, ..ARCHIVE }, now)).await;
    let expected = paper.apply(Action::Archive).is_ok();
    assert_eq!(gone.len(), usize::from(expected), "{paper:?}");
}

async fn decide(rig: &Rig, shelf: &Shelf, papers: &mut [Paper], which: usize, verb: Verb, now: Time) {
    let other_lives =
        papers.iter().any(|paper| paper.id != papers[which].id && paper.place != Place::Deleted);
    let paper = &mut papers[which];
    let before = paper.clone();
    let expected = match (verb, paper.apply(verb.action())) {
        (_, Err(refused)) => Decided::Refused(refused),
        (Verb::Restore, Ok(())) if other_lives => Decided::Replaced,
        // These are no letters of jobs.
        (Verb::Retry, Ok(())) => Decided::NoWayBack,
        (_, Ok(())) => Decided::Done,
    };
    if expected != Decided::Done {
        *paper = before;
    }
    let decided = match verb {
        Verb::Restore => shelf.restore(rig, paper.id, now).await,
        _ => rig.decide(paper.id, verb, now).await,
    };
    assert_eq!(decided, expected, "{verb:?} on {paper:?}");
    if (verb, decided) == (Verb::Restore, Decided::Done) {
        paper.filed = false;
    }
}

/// Asserts that the store and the papers tell the same.
async fn compare(rig: &Rig, papers: &Papers, done: &[(u8, Step)]) {
    let ledger = rig.store().ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.difference(), ledger.wrong_counters), (0, 0), "after {done:?}");
    let counted = [ledger.pending, ledger.reprocessing, ledger.resolved, ledger.discarded];
    let in_place =
        |place| papers.values().flatten().filter(|paper| paper.place == place).collect::<Vec<&Paper>>();
    let (live, away, gone) = (in_place(Place::Live), in_place(Place::Archived), in_place(Place::Deleted));
    let expected =
        Status::ALL.map(|status| live.iter().filter(|paper| paper.status == status).count() as u64);
    assert_eq!(counted, expected, "after {done:?}");
    assert_eq!((ledger.archived, ledger.deleted), (away.len() as u64, gone.len() as u64), "after {done:?}");
    for (place, papers) in [(Place::Archived, &away), (Place::Deleted, &gone)] {
        let kept: BTreeSet<_> = archived(rig, place)
            .await
            .iter()
            .map(|kept| (kept.letter.id, kept.letter.status, kept.letter.hold.is_some(), kept.file.is_some()))
            .collect();
        let expected = papers.iter().map(|paper| (paper.id, paper.status, paper.held, paper.filed)).collect();
        assert_eq!(kept, expected, "after {done:?}");
    }
    for paper in away.into_iter().chain(gone) {
        assert!(rig.store().history(paper.id).await.unwrap().is_none(), "after {done:?}");
    }
    for paper in live {
        let found = rig.history(paper.id).await;
        let letter = &found.letter;
        assert_eq!(
            (letter.status, letter.life, letter.hold.is_some(), found.lives.len() as u32),
            (paper.status, paper.life, paper.held, paper.life - paper.away),
            "after {done:?}"
        );
        let ended = matches!(paper.status, Status::Resolved | Status::Discarded);
        assert_eq!(letter.resolution.is_some(), ended, "after {done:?}");
    }
}
