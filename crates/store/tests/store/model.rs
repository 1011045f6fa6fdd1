//! Case: any sequence of captures, claims and decisions leaves each letter where the machine says.

use std::collections::BTreeMap;

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::{Action, Life, Next, Place, Refused, Standing, Status};
use lazaret_core::time::Time;
use lazaret_store::claim::{ClaimRefused, ClaimStep, Settlement};
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::stats::LedgerBy;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::books;
use crate::rig::{Rig, at, dying, mark};

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
        120 => select(Verb::ALL.to_vec()).prop_map(Step::Decide),
        1 => select(vec![Step::Restart]),
    ];
    (0..EVENTS, step)
}

/// One letter, as a person would keep it on paper.
#[derive(Clone, Debug)]
struct Paper {
    id: LetterId,
    status: Status,
    held: bool,
    life: u32,
    claim: Option<(RedriveId, ClaimStep)>,
    ever_sent: bool,
    last: Captured,
}

impl Paper {
    fn standing(&self) -> Standing {
        Standing { status: self.status, place: Place::Live, held: self.held, content_kept: true }
    }

    /// Moves as the machine says.
    fn apply(&mut self, action: Action) -> Result<(), Refused> {
        let Next::Moves { status, life, .. } = self.standing().after(action)? else {
            panic!("a live letter never gives way to a new one");
        };
        self.status = status;
        self.life += u32::from(life == Life::Next);
        match action {
            Action::Hold => self.held = true,
            Action::Release => self.held = false,
            _ => {}
        }
        Ok(())
    }

    fn die(&mut self) {
        self.apply(Action::DieAgain).unwrap();
        self.claim = None;
    }
}

type Papers = BTreeMap<u8, Paper>;

pub async fn any_sequence_of_actions_follows_the_machine(rig: &mut Rig) {
    let mut runner = TestRunner::deterministic();
    let strategy = step();
    for sequence in 0..SEQUENCES {
        rig.store().reset().await.unwrap();
        let mut papers = Papers::new();
        let mut done = Vec::new();
        for n in 0..STEPS {
            let (event, step) = strategy.new_tree(&mut runner).unwrap().current();
            done.push((event, step.clone()));
            // A second apart, so that each death is later than the send before it.
            let now = at((sequence * STEPS + n) as i64 * 1_000);
            match step {
                Step::Die | Step::Repeat | Step::Marked(_) => {
                    capture(rig, &mut papers, event, &step, now).await
                }
                Step::Restart => rig.reopen().await,
                Step::Claim(_) | Step::Advance(_) | Step::Settle(_) | Step::Decide(_) => {
                    if let Some(paper) = papers.get_mut(&event) {
                        act(rig, paper, step, now).await;
                    }
                }
            }
            compare(rig, &papers, &done).await;
        }
        books::agree(rig.store()).await;
    }
}

async fn capture(rig: &Rig, papers: &mut Papers, event: u8, step: &Step, now: Time) {
    let anew = dying(&format!("e{event}"), now.plus_ms(-1));
    let Some(paper) = papers.get_mut(&event) else {
        let id = rig.create(anew.clone(), now).await;
        let paper = Paper {
            id,
            status: Status::Pending,
            held: false,
            life: 1,
            claim: None,
            ever_sent: false,
            last: anew,
        };
        papers.insert(event, paper);
        return;
    };
    let being_sent = matches!(paper.claim, Some((_, ClaimStep::Sending | ClaimStep::Sent)));
    let died = if paper.ever_sent || being_sent { Outcome::Relapse } else { Outcome::Recurred };
    let (captured, outcome) = match step {
        Step::Repeat => (paper.last.clone(), Outcome::Duplicate),
        Step::Marked(0) => {
            (Captured { mark: mark(paper.id, paper.life, rig.run_id()), ..anew }, Outcome::Relapse)
        }
        Step::Marked(ago) if *ago < paper.life => {
            (Captured { mark: mark(paper.id, paper.life - ago, rig.run_id()), ..anew }, Outcome::Duplicate)
        }
        _ => (anew, died),
    };
    let receipt = rig.capture(captured.clone(), now).await;
    assert_eq!((receipt.letter, receipt.outcome), (paper.id, outcome), "{step:?} on {paper:?}");
    if outcome != Outcome::Duplicate {
        // A relapse proves that a copy was out; a discarded letter does not move, so nothing is noted on it.
        paper.ever_sent |= outcome == Outcome::Relapse && paper.status != Status::Discarded;
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
            let expected = paper.apply(Action::Redrive).map_err(ClaimRefused::from);
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
        Step::Decide(verb) => {
            let expected = paper.apply(verb.action()).map_or_else(Decided::Refused, |()| Decided::Done);
            assert_eq!(rig.decide(id, verb, now).await, expected, "{verb:?} on {paper:?}");
        }
        Step::Die | Step::Repeat | Step::Marked(_) | Step::Restart => unreachable!("done elsewhere"),
    }
}

/// Asserts that the store and the papers tell the same.
async fn compare(rig: &Rig, papers: &Papers, done: &[(u8, Step)]) {
    let ledger = rig.store().ledger(LedgerBy::Recount).await.unwrap();
    assert_eq!((ledger.difference(), ledger.wrong_counters), (0, 0), "after {done:?}");
    let counted = [ledger.pending, ledger.reprocessing, ledger.resolved, ledger.discarded];
    let expected =
        Status::ALL.map(|status| papers.values().filter(|paper| paper.status == status).count() as u64);
    assert_eq!(counted, expected, "after {done:?}");
    for paper in papers.values() {
        let found = rig.history(paper.id).await;
        let letter = &found.letter;
        assert_eq!(
            (letter.status, letter.life, letter.hold.is_some(), found.lives.len() as u32),
            (paper.status, paper.life, paper.held, paper.life),
            "after {done:?}"
        );
        let ended = matches!(paper.status, Status::Resolved | Status::Discarded);
        assert_eq!(letter.resolution.is_some(), ended, "after {done:?}");
    }
}
