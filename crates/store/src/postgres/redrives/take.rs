//! Taking letters of a run to be sent: as many as its pace allows, heads of lanes alone, in the order of the run.
//!
//! Two instances that take letters of one run do so one after the other, by a lock of the run that nobody else needs:
//! the redrive's own row is written by capture too, which holds letters by then, so it cannot come before them. Lanes
//! are looked at under a lock that all takes with lanes share. A constraint on claims would forbid retries by hand of
//! two jobs of one key, which go without lanes; a lock for each lane would fill the server's table of locks.

use std::collections::{HashMap, HashSet};

use lazaret_core::gate::{Governance, Passed, Shut};
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::lifecycle::{Action, Next as Leads, Standing, Status};
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_core::time::Time;
use serde_json::json;

use super::super::cell::{Cells, Uid};
use super::super::conn::Conn;
use super::super::events::{self, NewEvent};
use super::super::insert::column;
use super::super::jobs::follow::{Jobs, lock_jobs};
use super::super::jobs::retry::{Asked, retry_held};
use super::super::verdicts::{self, Mark, move_all};
use super::super::writer::{Write, Writer};
use super::doors::add_claims;
use super::shifts::{Listed, Shifted, shift_all};
use crate::StoreError;
use crate::claim::ClaimStep;
use crate::decision::Decided;
use crate::engine::incidents::letter_causes;
use crate::engine::redrives::plan::groups;
use crate::engine::redrives::row::{self, Run};
use crate::job::SOURCE;
use crate::redrive::{Group, GroupVerdict, LetterCause, Next, Taken, first_shut, refused_at_claim};

/// Takes the next letters of a run. Letters that moved cost nothing of the pace, so there may be more looks than one, but
/// not without end.
pub(super) async fn take_all(
    writer: &Writer,
    id: RedriveId,
    limit: u32,
    lease_until: Time,
    at: Time,
) -> Result<Next, StoreError> {
    const LOOKS_MAX: usize = 8;
    let mut all = Next::default();
    for _ in 0..LOOKS_MAX {
        let had = u32::try_from(all.taken.len() as u64 + all.put_back).unwrap_or(u32::MAX);
        let rest = limit.saturating_sub(had);
        let next = writer
            .write_run(rest as usize, (id, rest, lease_until, at), |write, asked| {
                Box::pin(take(write, asked.0, asked.1, asked.2, asked.3))
            })
            .await?;
        let again = next.skipped > 0;
        // It is told when nothing could be had: what one look gave is something.
        all.next_at = if had == 0 { next.next_at } else { None };
        all.taken.extend(next.taken);
        all.put_back += next.put_back;
        all.skipped += next.skipped;
        if !again || all.taken.len() as u64 + all.put_back >= u64::from(limit) {
            break;
        }
    }
    Ok(all)
}

const LOCK_RUN: &str = "select pg_advisory_xact_lock(hashtextextended('lazaret run ' || $1::uuid::text, 0))";

const LOCK_LANES: &str = "select pg_advisory_xact_lock(hashtextextended('lazaret lanes', 0))";

async fn take(
    write: &mut Write,
    id: RedriveId,
    limit: u32,
    lease_until: Time,
    at: Time,
) -> Result<Next, StoreError> {
    write.conn.query(LOCK_RUN, &[&Uid(*id.bytes())]).await?;
    let Some(run) = row::find(write, id).await? else { return Ok(Next::default()) };
    let granted = match grant(&run, limit, at) {
        Ok(granted) => granted,
        Err(next) => return Ok(next),
    };
    let heads = heads(&write.conn, &run, granted).await?;
    let heads = free_of_lanes(&write.conn, heads).await?;
    let letters: Vec<LetterId> = heads.iter().map(|head| head.letter).collect();
    let jobs = lock_jobs(write, &letters).await?;
    let held = verdicts::lock_letters(write, &letters).await?;
    // From here on nobody pauses it, and nobody blocks a lane.
    let Some(run) = row::lock_redrive(write, id).await? else { return Ok(Next::default()) };
    let granted = match grant(&run, limit, at) {
        Ok(granted) => granted,
        Err(next) => return Ok(next),
    };
    let mut heads = still_waiting(&write.conn, &run, heads).await?;
    heads.truncate(granted as usize);
    let groups = groups(write, id).await?;
    // The run is stopped when it is tended; until then nothing more leaves it.
    if run.redrive.break_glass.is_none() && first_shut(&groups).is_some() {
        return Ok(Next::default());
    }
    let destinations = destinations(groups);
    let governed = match run.redrive.break_glass {
        Some(_) => Vec::new(),
        None => governed(&heads, &destinations),
    };
    let causes = letter_causes(write, &governed).await?;
    let mut sorted = Sorted::default();
    for head in heads {
        sorted.sort(head, &held, &destinations, &causes);
    }
    let mut look = Look { run, lease_until, at, next: Next::default(), moves: Vec::new() };
    look.put_back(write, sorted.jobs, &jobs).await?;
    look.claim(write, sorted.others).await?;
    for (head, why) in sorted.moved {
        look.skip(head, why);
    }
    for (head, shut) in sorted.refused {
        look.refuse(head, shut);
    }
    shift_all(write, &look.moves).await?;
    look.spend(write).await?;
    Ok(look.next)
}

/// How many letters a run may take now; if none, what is told.
fn grant(run: &Run, limit: u32, at: Time) -> Result<u32, Next> {
    if !run.state().claims() {
        return Err(Next::default());
    }
    let options = run.redrive.options;
    let granted = options.pace.take(run.spent_until_us, at, limit.min(options.batch_size));
    match granted.letters {
        0 => Err(Next { next_at: granted.next_at, ..Next::default() }),
        letters => Ok(letters),
    }
}

/// A letter whose turn it is.
struct Head {
    listed: Listed,
    letter: LetterId,
    life: u32,
    group: u32,
    source: String,
    subscriber: Option<String>,
}

/// A letter is passed over while another of its lane is out, whatever run that belongs to.
const HEADS: &str = "
select t.ordinal, t.letter, t.life, t.grp, t.lane, g.source, g.subscriber
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = $1
   and t.outcome = 'waiting'
   and t.head
   and (t.lane is null or not exists (select 1 from claims c where c.lane = t.lane))
 order by t.rank, t.ordinal
 limit $2";

const CANARIES: &str = "
select t.ordinal, t.letter, t.life, t.grp, t.lane, g.source, g.subscriber
  from redrive_letters t
  join redrive_groups g on g.redrive = t.redrive and g.number = t.grp
 where t.redrive = $1
   and t.canary
   and t.outcome = 'waiting'
   and t.head
   and (t.lane is null or not exists (select 1 from claims c where c.lane = t.lane))
 order by t.rank, t.ordinal
 limit $2";

async fn heads(conn: &Conn, run: &Run, limit: u32) -> Result<Vec<Head>, StoreError> {
    let id = run.redrive.id;
    let sql = if run.state() == RunState::Canary { CANARIES } else { HEADS };
    let mut heads = Vec::new();
    for row in conn.query(sql, &[&Uid(*id.bytes()), &i64::from(limit)]).await? {
        let (ordinal, lane) = (row.cell(0)?, row.cell(4)?);
        heads.push(Head {
            listed: Listed { redrive: id, ordinal, outcome: Outcome::Waiting, lane },
            letter: LetterId::from_bytes(row.id(1)?),
            life: row.small(2)?,
            group: row.small(3)?,
            source: row.cell(5)?,
            subscriber: row.cell(6)?,
        });
    }
    Ok(heads)
}

const CLAIMED_LANES: &str = "
select lane
  from claims
 where lane = any($1)";

/// Those of the letters whose lanes nobody holds, also while others take letters of the same lanes for other runs.
async fn free_of_lanes(conn: &Conn, mut heads: Vec<Head>) -> Result<Vec<Head>, StoreError> {
    let lanes: Vec<&str> = heads.iter().filter_map(|head| head.listed.lane.as_deref()).collect();
    if lanes.is_empty() {
        return Ok(heads);
    }
    conn.query(LOCK_LANES, &[]).await?;
    let mut taken: HashSet<String> = HashSet::new();
    for row in conn.query(CLAIMED_LANES, &[&lanes]).await? {
        taken.insert(row.cell(0)?);
    }
    heads.retain(|head| head.listed.lane.as_ref().is_none_or(|lane| !taken.contains(lane)));
    Ok(heads)
}

const STILL_WAITING: &str = "
select ordinal
  from redrive_letters
 where redrive = $1
   and ordinal = any($2)
   and outcome = 'waiting'
   and head
   and (canary or not $3)";

/// Those of the letters that still wait, of a redrive that is held.
async fn still_waiting(conn: &Conn, run: &Run, mut heads: Vec<Head>) -> Result<Vec<Head>, StoreError> {
    let ordinals: Vec<i64> = column(&heads, |head| head.listed.ordinal);
    let canaries = run.state() == RunState::Canary;
    let mut waiting: HashSet<i64> = HashSet::new();
    for row in conn.query(STILL_WAITING, &[&Uid(*run.redrive.id.bytes()), &ordinals, &canaries]).await? {
        waiting.insert(row.cell(0)?);
    }
    heads.retain(|head| waiting.contains(&head.listed.ordinal));
    Ok(heads)
}

/// Where the letters of each group go, and how they passed the gate.
type Destinations = HashMap<u32, (Passed, String)>;

fn destinations(groups: Vec<Group>) -> Destinations {
    let goes = |group: Group| match group.verdict {
        Some(GroupVerdict::Goes { passed, destination }) => Some((group.number, (passed, destination))),
        Some(GroupVerdict::Shut(_) | GroupVerdict::NoWayBack(_) | GroupVerdict::BodyMissing(_)) | None => {
            None
        }
    };
    groups.into_iter().filter_map(goes).collect()
}

/// The letters of groups that passed the gate under an RCA: each is judged again by the incident that it is in now.
fn governed(heads: &[Head], destinations: &Destinations) -> Vec<LetterId> {
    let is_governed =
        |head: &&Head| destinations.get(&head.group).is_some_and(|(passed, _)| *passed == Passed::Governed);
    heads.iter().filter(is_governed).map(|head| head.letter).collect()
}

/// Letters by what is done with them.
#[derive(Default)]
struct Sorted {
    jobs: Vec<(Head, Standing)>,
    others: Vec<(Head, String)>,
    /// Letters that are not as they were planned, and why.
    moved: Vec<(Head, String)>,
    /// Letters for whose incidents the gate is shut.
    refused: Vec<(Head, Shut)>,
}

impl Sorted {
    fn sort(
        &mut self,
        head: Head,
        held: &HashMap<LetterId, (u32, Standing)>,
        destinations: &Destinations,
        causes: &HashMap<LetterId, LetterCause>,
    ) {
        let Some((life, standing)) = held.get(&head.letter) else {
            return self.moved.push((head, "the letter is gone".into()));
        };
        if *life != head.life {
            return self.moved.push((head, "the letter died again meanwhile".into()));
        }
        if let Err(refused) = standing.after(Action::Redrive) {
            return self.moved.push((head, refused.to_string()));
        }
        if let Some(Err(shut)) = causes.get(&head.letter).map(|cause| cause.pass(Governance::Required)) {
            return self.refused.push((head, shut));
        }
        match destinations.get(&head.group) {
            None => self.moved.push((head, "its source takes nothing back".into())),
            Some((_, destination)) if destination == SOURCE => self.jobs.push((head, *standing)),
            Some((_, destination)) => self.others.push((head, destination.clone())),
        }
    }
}

/// What one look is about, and what it comes to.
struct Look {
    run: Run,
    lease_until: Time,
    at: Time,
    next: Next,
    moves: Vec<Shifted>,
}

impl Look {
    /// The letter moved before its turn: it is left alone, and the next of its lane may go.
    fn skip(&mut self, head: Head, why: String) {
        self.moves.push(Shifted::of(head.listed, Outcome::Skipped, Some(why), None, self.at));
        self.next.skipped += 1;
    }

    /// The gate is shut for the incident that the letter is in by now. What is behind it in its lane must not overtake it.
    fn refuse(&mut self, head: Head, shut: Shut) {
        let outcome = refused_at_claim(head.listed.lane.as_deref());
        self.moves.push(Shifted::of(head.listed, outcome, Some(shut.to_string()), None, self.at));
        self.next.skipped += 1;
    }

    /// Jobs have no sending that could fail: job, letter and outcome move in this commit.
    async fn put_back(
        &mut self,
        write: &mut Write,
        heads: Vec<(Head, Standing)>,
        jobs: &Jobs,
    ) -> Result<(), StoreError> {
        if heads.is_empty() {
            return Ok(());
        }
        let (at, run) = (self.at, self.run.redrive.id);
        let with = Override::default();
        let asked: Vec<(Asked<'_>, Standing)> = heads
            .iter()
            .map(|(head, standing)| (Asked { letter: head.letter, with: &with }, *standing))
            .collect();
        let retried = retry_held(write, &asked, jobs, at).await?;
        let done: Vec<LetterId> = heads
            .iter()
            .zip(&retried)
            .filter(|(_, retried)| retried.decided == Decided::Done)
            .map(|((head, _), _)| head.letter)
            .collect();
        let mut keys = add_claims(write, &done, run, ClaimStep::Sent, None, at).await?;
        let detail = json!({ "redrive": run.to_string() }).to_string();
        for ((head, _), retried) in heads.into_iter().zip(retried) {
            let Some(key) = keys.remove(&head.letter) else {
                self.skip(head, "no job can be put back for it".into());
                continue;
            };
            let event = NewEvent {
                at,
                kind: RETRIED,
                letter: Some(head.letter),
                job: retried.job,
                actor: Some(&self.run.redrive.by.name),
                detail: Some(detail.clone()),
                ..NewEvent::default()
            };
            events::add(write, &event)?;
            let sent = Shifted::of(head.listed, Outcome::Sent, None, Some(at), at);
            self.moves.push(sent.under(key));
            self.next.put_back += 1;
        }
        events::note_all(write, RETRIED, &done).await
    }

    async fn claim(&mut self, write: &mut Write, heads: Vec<(Head, String)>) -> Result<(), StoreError> {
        if heads.is_empty() {
            return Ok(());
        }
        let (at, run) = (self.at, self.run.redrive.id);
        let letters: Vec<LetterId> = column(&heads, |(head, _)| head.letter);
        let to = leads_to(Status::Pending, Action::Redrive)?;
        move_all(write, &letters, Status::Pending, to, Mark::Claims, at).await?;
        let lease = Some(self.lease_until);
        let mut keys = add_claims(write, &letters, run, ClaimStep::Claimed, lease, at).await?;
        for (head, destination) in heads {
            let key = keys.remove(&head.letter).unwrap_or_default();
            self.next.taken.push(Taken {
                letter: head.letter,
                life: head.life,
                idempotency_key: key.clone(),
                renewals: 0,
                destination,
                source: head.source,
                subscriber: head.subscriber,
            });
            let out = Shifted::of(head.listed, Outcome::Out, None, None, at);
            self.moves.push(out.under(key));
        }
        Ok(())
    }

    /// Takes what was used from the bucket: what was allowed and not used is not spent.
    async fn spend(&self, write: &Write) -> Result<(), StoreError> {
        let used = self.next.taken.len() as u64 + self.next.put_back;
        if used > 0 {
            let pace = self.run.redrive.options.pace;
            let used = u32::try_from(used).unwrap_or(u32::MAX);
            let spent = pace.take(self.run.spent_until_us, self.at, used).spent_until_us;
            write.conn.execute(SPEND, &[&Uid(*self.run.redrive.id.bytes()), &spent]).await?;
        }
        Ok(())
    }
}

const SPEND: &str = "
update redrives
   set spent_until_us = $2
 where id = $1";

pub(super) const RETRIED: &str = "dead_letter.retried";

/// Where an action leads live letters of a state.
pub(super) fn leads_to(from: Status, action: Action) -> Result<Status, StoreError> {
    match Standing::live(from).after(action) {
        Ok(Leads::Moves { status, .. }) => Ok(status),
        Ok(Leads::NewLetter) | Err(_) => {
            Err(StoreError::Corrupt(format!("letters that are {from} were to {}", action.name())))
        }
    }
}
