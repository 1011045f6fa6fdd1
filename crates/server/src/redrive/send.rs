//! Sending: the next letters of a run go out side by side, and what came of them is written down in chunks.
//!
//! The store fences every step: a letter is sent only after the commit that says so. Whoever drops this between two
//! awaits leaves claims behind, which end by their lease; nothing is known here that the store does not know.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::{Duration, Instant};

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::claim::ClaimFence;
use lazaret_store::redrive::{Redrive, SendOutcome};
use tokio::task::{JoinError, JoinSet};

use super::load::{Back, Lease, Ready, load, pause};
use super::tick::tended;
use crate::app::App;

/// How long outcomes wait for others to share their commit while slower letters are still on their way.
const GATHER: Duration = Duration::from_millis(20);

/// How often a run is looked at while it is being sent: a person who pauses it waits no longer.
const LOOK: Duration = Duration::from_millis(200);

/// How often an outcome is written again that the store did not take, and how long it rests before.
const SETTLE_RESTS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

pub(super) type Settled = (ClaimFence, SendOutcome);

/// A look at the run that goes on while letters are sent.
type Looking<'a> = Pin<Box<dyn Future<Output = Result<Found, StoreError>> + Send + 'a>>;

/// What a look at a run came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Looked {
    /// Whether letters moved, so that there may be more to do.
    pub moved: bool,
    /// When its pace allows the next letter.
    pub next_at: Option<Time>,
}

/// A run at work.
pub(super) struct Sending<'a> {
    app: &'a App,
    run: Redrive,
    /// Claimed, and read.
    queue: VecDeque<Ready>,
    /// On their way.
    out: JoinSet<Back>,
    /// Back, and not written down.
    done: Vec<Settled>,
    /// Whether to look for letters: there may be some.
    more: bool,
    /// The look that is under way.
    looking: Option<Looking<'a>>,
    /// Whether to look at the run before anything else is begun.
    recheck: bool,
    /// Whether something was written since the last look began that can stop the run.
    bad_since_look: bool,
    /// Whether nothing is begun any more: the run does not claim, the store failed or the end is asked for.
    halted: bool,
    failed: Option<StoreError>,
    /// Why the run has to pause: its destination is not what the configuration says.
    unfit: Option<String>,
    taken: u64,
    looked_at: Instant,
    looked: Looked,
}

/// What one round writes and reads.
struct Round {
    begin: Vec<Ready>,
    settle: Vec<Settled>,
    /// How many letters to take; nothing for no look at all.
    look: Option<u32>,
}

/// What a look found.
struct Found {
    /// How many letters it was to take.
    limit: u32,
    run: Option<Redrive>,
    ready: Vec<Ready>,
    /// What cannot be sent.
    unfit: Vec<Settled>,
    moved: u64,
    next_at: Option<Time>,
}

impl<'a> Sending<'a> {
    pub(super) fn new(app: &'a App, run: Redrive) -> Sending<'a> {
        Sending {
            app,
            run,
            queue: VecDeque::new(),
            out: JoinSet::new(),
            done: Vec::new(),
            more: true,
            looking: None,
            recheck: false,
            bad_since_look: false,
            halted: false,
            failed: None,
            unfit: None,
            taken: 0,
            looked_at: Instant::now(),
            looked: Looked::default(),
        }
    }

    /// Sends until there is nothing to send for now.
    pub(super) async fn go(mut self) -> Result<Looked, StoreError> {
        loop {
            while let Some(one) = self.out.try_join_next() {
                self.collect(one);
            }
            if *self.app.stopping().borrow() {
                self.halted = true;
            }
            if let Some(why) = self.unfit.take() {
                self.halted = true;
                if let Err(error) = pause(self.app, self.run.id, why).await {
                    self.fail(error);
                }
            }
            self.give_back();
            let round = self.next_round(Instant::now());
            if let Some(limit) = round.look {
                self.bad_since_look = false;
                self.looking = Some(Box::pin(look_at(self.app, self.run.id, self.run.edit, limit)));
            }
            if !round.writes() {
                if self.out.is_empty() && self.done.is_empty() && self.looking.is_none() {
                    break;
                }
                self.wait().await;
                continue;
            }
            self.work(round).await;
        }
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.looked),
        }
    }

    /// Claims that will not be begun by us end now, not with their lease.
    fn give_back(&mut self) {
        let now = self.app.clock.now();
        let (halted, done) = (self.halted, &mut self.done);
        self.queue.retain(|ready| {
            let keep = !halted && now < ready.lease.begin_before;
            if !keep {
                done.push((ready.fence(), SendOutcome::Unsent));
            }
            keep
        });
    }

    fn next_round(&mut self, now: Instant) -> Round {
        let at_once = self.run.options.concurrency.max(1) as usize;
        let room = at_once.saturating_sub(self.out.len());
        // A commit for each letter that comes back would be many commits; a chunk waits for half of the room.
        let enough = self.out.is_empty() || room >= at_once.div_ceil(2);
        let begin: Vec<Ready> = match enough && !self.halted && !self.recheck {
            true => self.queue.drain(..room.min(self.queue.len())).collect(),
            false => Vec::new(),
        };
        let settle_now = !begin.is_empty() || self.out.is_empty() || self.done.len() >= at_once.div_ceil(2);
        let settle = if settle_now { std::mem::take(&mut self.done) } else { Vec::new() };
        let stale =
            now.duration_since(self.looked_at) >= LOOK && !(self.queue.is_empty() && begin.is_empty());
        let wants = self.more && self.queue.len() < at_once && self.taken < limits::REDRIVE_LETTERS_PER_LOOK;
        let look = match (self.halted || self.looking.is_some(), wants) {
            (true, _) => None,
            (false, true) => Some(self.run.options.batch_size),
            (false, false) => (stale || self.recheck).then_some(0),
        };
        Round { begin, settle, look }
    }

    /// Writes what came back and begins what goes next, side by side, so that the writer takes them into one commit. What
    /// is begun goes at once; a look that is under way goes on meanwhile.
    async fn work(&mut self, round: Round) {
        let (app, id) = (self.app, self.run.id);
        let Round { begin, settle, look: _ } = round;
        let bad = settle.iter().any(|(_, outcome)| is_bad(outcome));
        let out = &mut self.out;
        let begun = async {
            let claims = begin.iter().map(Ready::fence).collect();
            let begun = begin_sending(app, id, claims).await?;
            for ready in begin {
                // Others are no longer ours: their lease ended, and somebody else has them or will.
                if begun.contains(&ready.outgoing.letter) {
                    out.spawn(ready.send(app.clock.clone()));
                }
            }
            Ok(())
        };
        let mut writing = Box::pin(async { tokio::join!(write_down(app, id, settle), begun) });
        let mut found = None;
        let (settled, begun) = loop {
            tokio::select! {
                written = &mut writing => break written,
                looked = looked(&mut self.looking) => found = Some(looked),
            }
        };
        drop(writing);
        match settled {
            Ok(0) => {}
            Ok(_) => {
                // The next of a lane may go, or the run may have come to its end.
                (self.more, self.looked.moved) = (true, true);
                self.recheck |= bad;
                self.bad_since_look |= bad;
            }
            Err(error) => self.fail(error),
        }
        if let Err(error) = begun {
            self.fail(error);
        }
        if let Some(found) = found {
            self.found(found);
        }
    }

    fn found(&mut self, found: Result<Found, StoreError>) {
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.fail(error),
        };
        self.looked_at = Instant::now();
        // What failed while the run was looked at may not have been seen.
        self.recheck = self.bad_since_look;
        self.done.extend(found.unfit);
        self.taken += found.ready.len() as u64;
        self.queue.extend(found.ready);
        self.looked.moved |= found.moved > 0;
        if found.limit > 0 {
            self.more = found.moved > 0;
            self.looked.next_at = found.next_at;
        }
        match found.run {
            Some(run) if run.state.claims() => self.run = run,
            Some(_) | None => self.halted = true,
        }
    }

    /// Nothing more is begun; what is on its way is still waited for and written down.
    fn fail(&mut self, error: StoreError) {
        self.halted = true;
        self.failed.get_or_insert(error);
    }

    fn collect(&mut self, one: Result<Back, JoinError>) {
        match one {
            Ok(Back { settled, unfit }) => {
                self.done.push(settled);
                self.unfit = self.unfit.take().or(unfit);
            }
            // Which letter it was is known to its claim, which ends by its lease.
            Err(error) => tracing::error!(error = %error, "outcome unknown: sending was interrupted"),
        }
    }

    /// Waits for a letter to come back or for the look, but not for long while others wait to be written down.
    async fn wait(&mut self) {
        let patience = if self.done.is_empty() { LOOK } else { GATHER };
        let (out, looking) = (&mut self.out, &mut self.looking);
        let came = tokio::time::timeout(patience, async {
            tokio::select! {
                Some(one) = out.join_next() => Came::Back(one),
                found = looked(looking) => Came::Looked(Box::new(found)),
            }
        });
        match came.await {
            Ok(Came::Back(one)) => self.collect(one),
            Ok(Came::Looked(found)) => self.found(*found),
            Err(_) if self.done.is_empty() => {}
            Err(_) => {
                let settle = std::mem::take(&mut self.done);
                self.work(Round { begin: Vec::new(), settle, look: None }).await;
            }
        }
    }
}

/// What was waited for.
enum Came {
    Back(Result<Back, JoinError>),
    Looked(Box<Result<Found, StoreError>>),
}

/// Waits for the look that is under way; for ever if there is none.
async fn looked(looking: &mut Option<Looking<'_>>) -> Result<Found, StoreError> {
    let Some(look) = looking else { return std::future::pending().await };
    let found = look.await;
    *looking = None;
    found
}

impl Round {
    /// Whether it has anything to write.
    fn writes(&self) -> bool {
        !self.begin.is_empty() || !self.settle.is_empty()
    }
}

/// Whether an outcome can stop its run.
fn is_bad(outcome: &SendOutcome) -> bool {
    match outcome {
        SendOutcome::Failed { .. } | SendOutcome::Unknown { .. } | SendOutcome::Lost { .. } => true,
        SendOutcome::Delivered { .. }
        | SendOutcome::Sent { .. }
        | SendOutcome::Assumed
        | SendOutcome::Unsent => false,
    }
}

async fn begin_sending(
    app: &App,
    id: RedriveId,
    claims: Vec<ClaimFence>,
) -> Result<Vec<LetterId>, StoreError> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    app.store.begin_sending(id, claims, app.clock.now()).await
}

/// Writes down what became of letters, and again if the store does not take it at once: it cannot be found out anew.
pub(super) async fn write_down(app: &App, id: RedriveId, settle: Vec<Settled>) -> Result<usize, StoreError> {
    if settle.is_empty() {
        return Ok(0);
    }
    let mut rests = SETTLE_RESTS.into_iter();
    loop {
        match app.store.settle_letters(id, settle.clone(), app.clock.now()).await {
            Ok(ours) => {
                let lost = ours.iter().filter(|ours| !**ours).count();
                if lost > 0 {
                    tracing::warn!(redrive.id = %id, letters = lost, "{lost} claims were taken over or settled by others");
                }
                return Ok(settle.len());
            }
            Err(error) => match rests.next() {
                Some(rest) => tokio::time::sleep(rest).await,
                None => return Err(error),
            },
        }
    }
}

/// Moves the run on and takes its next letters.
async fn look_at(app: &App, id: RedriveId, edit: Option<u32>, limit: u32) -> Result<Found, StoreError> {
    let run = tended(app, id).await?;
    let mut found = Found { limit, run, ready: Vec::new(), unfit: Vec::new(), moved: 0, next_at: None };
    let claims = found.run.as_ref().is_some_and(|run| run.state.claims());
    let waits =
        found.run.as_ref().and_then(|run| run.letters.get(&Outcome::Waiting)).is_some_and(|it| *it > 0);
    if limit == 0 || !claims || !waits {
        return Ok(found);
    }
    let lease = Lease::from_now(app);
    let next = app.store.take_letters(id, limit, lease.until, app.clock.now()).await?;
    found.moved = next.taken.len() as u64 + next.put_back + next.skipped;
    found.next_at = next.next_at;
    (found.ready, found.unfit) = load(app, id, edit, next.taken, lease).await?;
    Ok(found)
}
