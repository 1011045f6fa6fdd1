//! Case: whatever people decide on letters and workers do to jobs, each letter goes where the machine says and its job
//! stands as the letter says.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::id::{JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::lifecycle::{Action, Next, Place, Standing, Status};
use lazaret_core::time::Time;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::job::{Changed, LetterEffect};
use proptest::prelude::{Strategy, prop_oneof};
use proptest::sample::select;

use crate::books;
use crate::jobs::{ack, change, enqueue, fail, fetch, new, stored};
use crate::rig::{Rig, at};
use crate::seeds::{is_fixed, sequences};

const SEQUENCES: usize = 5;
const STEPS: usize = 150;
/// Few, so that the same jobs are met again and again.
const JOBS: u8 = 2;

/// What is done with one of the jobs.
#[derive(Clone, Debug)]
enum Step {
    Enqueue,
    Run(End),
    /// On the letter that it has, or on the first that it ever had.
    Decide(Verb, Whose),
    /// Forgets all jobs that ended.
    Prune,
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum End {
    Dies,
    Succeeds,
    Cancelled,
}

#[derive(Clone, Copy, Debug)]
enum Whose {
    Present,
    First,
}

fn step() -> impl Strategy<Value = (u8, Step)> {
    // Those that take the job along are met more often.
    let verbs = Verb::ALL.into_iter().chain([Verb::Retry, Verb::Delete, Verb::Restore, Verb::Restore]);
    let decide =
        (select(verbs.collect::<Vec<_>>()), select(vec![Whose::Present, Whose::Present, Whose::First]));
    let step = prop_oneof![
        40 => select(vec![Step::Enqueue]),
        80 => select(vec![End::Dies, End::Dies, End::Dies, End::Dies, End::Succeeds, End::Cancelled])
            .prop_map(Step::Run),
        100 => decide.prop_map(|(verb, whose)| Step::Decide(verb, whose)),
        30 => select(vec![Step::Prune]),
        2 => select(vec![Step::Restart]),
    ];
    (0..JOBS, step)
}

/// The letters that a job ever had, in order, as a person would keep them on paper.
#[derive(Default)]
struct Papers {
    letters: Vec<(LetterId, Standing)>,
}

impl Papers {
    /// The letter that the job has: the one that is not deleted, else the newest.
    fn present(&self) -> Option<usize> {
        let live = self.letters.iter().position(|(_, standing)| standing.place == Place::Live);
        live.or(self.letters.len().checked_sub(1))
    }

    fn live(&mut self) -> Option<&mut Standing> {
        self.letters.iter_mut().map(|(_, standing)| standing).find(|standing| standing.place == Place::Live)
    }
}

fn moved(standing: Standing, action: Action) -> Standing {
    let Ok(Next::Moves { status, place, .. }) = standing.after(action) else {
        panic!("{action} on a letter that is {standing}");
    };
    Standing { status, place, ..standing }
}

pub async fn any_sequence_keeps_jobs_with_their_letters(rig: &mut Rig) {
    let decided = RefCell::new(BTreeSet::new());
    sequences(rig, step(), (SEQUENCES, STEPS), async |rig, round, steps| {
        let met = follow(rig, round, steps).await;
        decided.borrow_mut().extend(met);
    })
    .await;
    if !is_fixed() {
        return;
    }
    let decided = decided.into_inner();
    // A hold does nothing to the job; what does something to it has to have been tried.
    for verb in [Verb::Resolve, Verb::Discard, Verb::Reopen, Verb::Retry, Verb::Delete, Verb::Restore] {
        assert!(decided.contains(&(verb, Some(Status::Pending))), "no pending letter met {verb:?}");
    }
    assert!(decided.contains(&(Verb::Restore, None)), "no letter was in the way of another");
}

/// Takes the steps; returns what was decided on letters that stood how.
async fn follow(rig: &mut Rig, round: usize, steps: &[(u8, Step)]) -> BTreeSet<(Verb, Option<Status>)> {
    let ids: Vec<JobId> = (0..JOBS).map(|_| new(rig, "", at(0)).id).collect();
    let mut papers: BTreeMap<u8, Papers> = BTreeMap::new();
    let mut decided = BTreeSet::new();
    for (n, (which, step)) in steps.iter().enumerate() {
        let (which, done) = (*which, &steps[..=n]);
        let now = at((round * 2 * STEPS + n) as i64 * 1_000);
        let (id, papers_of) = (ids[usize::from(which)], papers.entry(which).or_default());
        match step {
            Step::Enqueue => try_enqueue(rig, which, id, papers_of, now).await,
            Step::Run(end) => run(rig, which, id, *end, papers_of, now).await,
            Step::Decide(verb, whose) => {
                decided.extend(decide(rig, id, *verb, *whose, papers_of, now).await);
            }
            Step::Prune => {
                let ended = [JobState::Completed, JobState::Cancelled, JobState::Discarded];
                rig.store().prune_jobs(ended.map(|state| (state, now)), 100).await.unwrap();
            }
            Step::Restart => rig.reopen().await,
        }
        books::agree(rig.store()).await;
        for (letter, standing) in papers.values().flat_map(|papers| &papers.letters) {
            let found = rig.store().history(*letter).await.unwrap().map(|history| history.letter);
            let stands = found.map(|letter| (letter.status, letter.hold.is_some()));
            let expected = (standing.place == Place::Live).then_some((standing.status, standing.held));
            assert_eq!(stands, expected, "after {done:?}");
        }
    }
    decided
}

fn queue(which: u8) -> String {
    format!("q{which}")
}

async fn try_enqueue(rig: &Rig, which: u8, id: JobId, papers: &mut Papers, now: Time) {
    let options =
        format!(r#""queue":"{}","retry":{{"max_attempts":1,"on_exhaustion":"dead_letter"}}"#, queue(which));
    let job = Job { id, ..new(rig, &options, now) };
    if papers.live().is_some() || rig.store().job(id).await.unwrap().is_some() {
        assert_eq!(rig.store().enqueue_jobs(vec![(job, Vec::new())], now).await.unwrap(), Err(id));
    } else {
        enqueue(rig, vec![job], now).await;
    }
}

async fn run(rig: &Rig, which: u8, id: JobId, end: End, papers: &mut Papers, now: Time) {
    let waits =
        rig.store().job(id).await.unwrap().is_some_and(|stored| stored.job.state == JobState::Available);
    let fetched = fetch(rig, &[&queue(which)], 1, now).await;
    assert_eq!(fetched, if waits { vec![id] } else { Vec::new() });
    if !waits {
        return;
    }
    let live = papers.live();
    // Only a letter that is out is moved by what becomes of the job.
    let out = live.as_ref().is_some_and(|standing| standing.status == Status::Reprocessing);
    let action = match end {
        End::Dies => {
            fail(rig, id, "no", now.plus_ms(1)).await;
            Action::DieAgain
        }
        End::Succeeds => {
            ack(rig, id, now.plus_ms(1)).await;
            Action::Confirm
        }
        End::Cancelled => {
            let before = stored(rig, id).await;
            let after = before.job.clone().cancelled(now.plus_ms(1)).unwrap();
            let effect = LetterEffect::End { evidence: "cancelled" };
            assert_eq!(change(rig, &before, after, effect, now.plus_ms(1)).await, Changed::Done);
            Action::EndWithoutDeadLetter
        }
    };
    match live {
        Some(standing) if out => *standing = moved(*standing, action),
        Some(standing) => panic!("a job runs beside a letter that is {standing}"),
        None if action == Action::DieAgain => {
            let letter = rig.store().letter_of_job(id).await.unwrap().unwrap().letter;
            assert_eq!(letter.previous, papers.letters.last().map(|(id, _)| *id));
            papers.letters.push((letter.id, Standing::live(Status::Pending)));
        }
        None => {}
    }
}

/// Decides on a letter; says what it was before and is after, or nothing where another was in its way.
async fn decide(
    rig: &Rig,
    id: JobId,
    verb: Verb,
    whose: Whose,
    papers: &mut Papers,
    now: Time,
) -> Vec<(Verb, Option<Status>)> {
    let at = match whose {
        Whose::Present => papers.present(),
        Whose::First => (!papers.letters.is_empty()).then_some(0),
    };
    let Some(at) = at else { return Vec::new() };
    let other_lives = papers
        .letters
        .iter()
        .enumerate()
        .any(|(other, (_, standing))| other != at && standing.place == Place::Live);
    let taken = other_lives || rig.store().job(id).await.unwrap().is_some();
    let (letter, standing) = papers.letters[at];
    let expected = match standing.after(verb.action()) {
        Err(refused) => Decided::Refused(refused),
        Ok(_) if verb == Verb::Restore && taken => Decided::Replaced,
        Ok(_) => Decided::Done,
    };
    assert_eq!(rig.decide(letter, verb, now).await, expected, "{verb:?} on a letter that is {standing}");
    if expected == Decided::Done {
        let held = match verb {
            Verb::Hold => true,
            Verb::Release => false,
            _ => standing.held,
        };
        let after = Standing { held, ..moved(standing, verb.action()) };
        papers.letters[at].1 = after;
        return [standing, after].map(|standing| (verb, Some(standing.status))).to_vec();
    }
    if expected == Decided::Replaced { vec![(verb, None)] } else { Vec::new() }
}
