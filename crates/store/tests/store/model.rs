//! Case: any sequence of captures, redrives and decisions leaves each letter where the machine says.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::{Action, Life, Next, Place, Refused, Standing, Status};
use lazaret_core::redrive::Outcome as RunOutcome;
use lazaret_core::time::Time;
use lazaret_store::claim::{ClaimFence, ClaimStep};
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::redrive::SendOutcome;
use lazaret_store::retention::{Prunable, PrunableKey};
use lazaret_store::stats::LedgerBy;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;

use crate::books;
use crate::rig::{Rig, at, dying, failed, mark};
use crate::seeds::sequences;
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
    /// A new run of it alone takes it, if it can.
    Take,
    Begin,
    Settle(SendOutcome),
    /// Begins or settles with a fence that is not the holder's.
    Intrude(SendOutcome),
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
    let outcome = || {
        select(vec![
            SendOutcome::Delivered { evidence: "acked", handle: None },
            SendOutcome::Sent { handle: None },
            SendOutcome::Sent { handle: None },
            SendOutcome::Assumed,
            SendOutcome::Failed { attempt: Box::new(failed(at(0), "503")), why: "503".into() },
            SendOutcome::Unknown { why: "no answer".into() },
            SendOutcome::Lost { why: "no trace".into() },
            SendOutcome::Unsent,
        ])
    };
    let step = prop_oneof![
        60 => select(vec![Step::Die, Step::Repeat, Step::Marked(0), Step::Marked(1)]),
        60 => Just(Step::Take),
        60 => Just(Step::Begin),
        100 => outcome().prop_map(Step::Settle),
        20 => outcome().prop_map(Step::Intrude),
        160 => select(Verb::ALL.to_vec()).prop_map(Step::Decide),
        10 => Just(Step::RestoreFirst),
        60 => Just(Step::Archive),
        15 => Just(Step::File),
        1 => Just(Step::Restart),
    ];
    (0..EVENTS, step)
}

/// A letter that is out, and how far.
#[derive(Clone, Debug)]
struct Out {
    run: RedriveId,
    fence: ClaimFence,
    step: ClaimStep,
    /// Its outcome in the run is `sent`, or `unknown`.
    outcome: Option<RunOutcome>,
}

/// One letter, as a person would keep it on paper.
#[derive(Clone, Debug)]
struct Paper {
    id: LetterId,
    status: Status,
    place: Place,
    held: bool,
    life: u32,
    out: Option<Out>,
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
        self.out = None;
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
    sequences(rig, step(), (SEQUENCES, STEPS), follow).await;
}

async fn follow(rig: &mut Rig, round: usize, steps: &[(u8, Step)]) {
    let (mut papers, mut shelf) = (Papers::new(), Shelf::default());
    for (n, (event, step)) in steps.iter().enumerate() {
        // A second apart, so that each death is later than the send before it.
        let now = at((round * 2 * STEPS + n) as i64 * 1_000);
        match step {
            Step::Die | Step::Repeat | Step::Marked(_) => {
                capture(rig, papers.entry(*event).or_default(), *event, step, now).await
            }
            Step::Restart => rig.reopen().await,
            Step::RestoreFirst => {
                if let Some(papers) = papers.get_mut(event) {
                    decide(rig, &shelf, papers, 0, Verb::Restore, now).await;
                }
            }
            Step::Decide(verb) => {
                if let Some(papers) = papers.get_mut(event) {
                    let id = standing_of(papers).id;
                    let which = papers.iter().position(|paper| paper.id == id).unwrap();
                    decide(rig, &shelf, papers, which, *verb, now).await;
                }
            }
            Step::Archive => {
                if let Some(papers) = papers.get_mut(event) {
                    archive(rig, standing_of(papers), now).await;
                }
            }
            Step::File => {
                shelf.file(rig, now).await;
                let all = papers.values_mut().flatten();
                all.filter(|paper| paper.place != Place::Live).for_each(|paper| paper.filed = true);
            }
            Step::Take | Step::Begin | Step::Settle(_) | Step::Intrude(_) => {
                if let Some(papers) = papers.get_mut(event) {
                    act(rig, standing_of(papers), step, now).await;
                }
            }
        }
        compare(rig, &papers, &steps[..=n]).await;
    }
    books::agree(rig.store()).await;
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
            out: None,
            ever_sent: false,
            last: Captured { mark: None, ..told },
            filed: false,
            away: 0,
        });
        return;
    }
    let paper = standing_of(papers);
    let being_sent = paper.out.as_ref().is_some_and(|out| out.step > ClaimStep::Claimed);
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

async fn act(rig: &Rig, paper: &mut Paper, step: &Step, now: Time) {
    match step {
        Step::Take => {
            let may = paper.place == Place::Live && paper.apply(Action::Redrive).is_ok();
            let taken = rig.take(paper.id, paper.life, now).await;
            assert_eq!(taken.is_some(), may, "{paper:?}");
            if let Some((run, fence)) = taken {
                paper.out = Some(Out { run, fence, step: ClaimStep::Claimed, outcome: None });
            }
        }
        Step::Begin => {
            let Some(out) = &mut paper.out else { return };
            let may = out.step == ClaimStep::Claimed;
            assert_eq!(rig.begin(out.run, &out.fence, now).await, may, "{out:?}");
            if may {
                out.step = ClaimStep::Sending;
            }
        }
        Step::Settle(outcome) => settle(rig, paper, outcome, now).await,
        Step::Intrude(outcome) => {
            let Some(out) = &paper.out else { return };
            let lost = ClaimFence { renewals: out.fence.renewals + 1, ..out.fence.clone() };
            assert!(!rig.begin(out.run, &lost, now).await);
            assert!(!rig.settle(out.run, &lost, outcome.clone(), now).await);
            assert!(!rig.settle(rig.run_id(), &out.fence, outcome.clone(), now).await);
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

/// Tells what sending came to. A letter is only taken back before it is out, and only confirmed once it may be.
async fn settle(rig: &Rig, paper: &mut Paper, outcome: &SendOutcome, now: Time) {
    let Some(out) = paper.out.clone() else { return };
    let may = match outcome {
        SendOutcome::Delivered { .. } => out.step != ClaimStep::Claimed,
        SendOutcome::Sent { .. } => out.step == ClaimStep::Sending,
        SendOutcome::Assumed | SendOutcome::Lost { .. } => out.outcome == Some(RunOutcome::Sent),
        SendOutcome::Unknown { .. } => {
            out.step == ClaimStep::Sending && out.outcome != Some(RunOutcome::Unknown)
        }
        SendOutcome::Failed { .. } | SendOutcome::Unsent => out.step != ClaimStep::Sent,
    };
    assert_eq!(rig.settle(out.run, &out.fence, outcome.clone(), now).await, may, "{outcome:?} on {out:?}");
    if !may {
        return;
    }
    match outcome {
        SendOutcome::Delivered { .. } | SendOutcome::Assumed => {
            paper.apply(Action::Confirm).unwrap();
            (paper.out, paper.ever_sent) = (None, true);
        }
        SendOutcome::Failed { .. } | SendOutcome::Unsent => {
            paper.apply(Action::Unclaim).unwrap();
            paper.out = None;
        }
        SendOutcome::Sent { .. } => {
            paper.ever_sent = true;
            paper.out = Some(Out { step: ClaimStep::Sent, outcome: Some(RunOutcome::Sent), ..out });
        }
        SendOutcome::Unknown { .. } | SendOutcome::Lost { .. } => {
            paper.out = Some(Out { outcome: Some(RunOutcome::Unknown), ..out });
        }
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
