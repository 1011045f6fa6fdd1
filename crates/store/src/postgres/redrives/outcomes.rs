//! What becomes of a letter of a run. This is the only place that moves an outcome: the run's counts, its last outcomes
//! and the rest of the letter's lane move with it, in the same commit.
//!
//! Whoever moves a letter holds it already, and the rows of redrives come after letters in the order of locks. So what
//! is told here is kept back until the end of the transaction; then the redrives are held in the order of their ids, and
//! with them all rows of their letters.

use std::collections::{BTreeSet, HashMap};

use lazaret_core::death::Known;
use lazaret_core::gate::Passed;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::letter::{RedriveMark, Strategy};
use lazaret_core::redrive::{Outcome, RedriveKind};
use lazaret_core::time::Time;

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::incidents;
use super::super::insert::column;
use super::super::writer::Write;
use super::doors::{Passage, let_pass, open_doors};
use super::shifts::{Listed, Shifted, shift_all};
use crate::StoreError;
use crate::engine::redrives::row;

/// What was told of letters that redrives have out, and of letters that were put back without a plan.
#[derive(Default)]
pub(in crate::postgres) struct Outcomes {
    turns: Vec<Turn>,
    pub(super) passages: Vec<Passage>,
}

/// A letter that comes to another outcome.
pub(super) struct Turn {
    pub letter: LetterId,
    /// The life that was out, and the run that had it, where these are known.
    pub life: Option<u32>,
    pub run: Option<RedriveId>,
    pub to: Outcome,
    pub evidence: Option<String>,
    pub sent_at: Option<Time>,
    pub at: Time,
    /// The death that it is, if it is one.
    pub death: Option<Death>,
}

/// A death of a letter, which is the run's if one had put it back.
pub(super) struct Death {
    /// What the letter died of before, and now.
    fingerprints: [String; 2],
    /// The incident that it is in now.
    incident: IncidentId,
    died_at: Time,
}

impl Death {
    fn now(&self) -> &str {
        &self.fingerprints[1]
    }
}

impl Outcomes {
    pub(super) fn turn(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// Writes everything that was told; deaths of letters that no run had out go into the tally.
    pub async fn flush(self, write: &mut Write) -> Result<(), StoreError> {
        if self.turns.is_empty() && self.passages.is_empty() {
            return Ok(());
        }
        let doors = open_doors(&write.conn, &self.passages).await?;
        let found = find(&write.conn, &self.turns).await?;
        let mut redrives: BTreeSet<RedriveId> = doors.iter().copied().collect();
        redrives.extend(found.iter().flatten().map(|found| found.listed.redrive));
        lock_redrives(&write.conn, &redrives).await?;
        let_pass(write, &self.passages).await?;
        let mut moves = Moves::default();
        let mut relapsed = Vec::new();
        for (turn, found) in self.turns.into_iter().zip(found) {
            let now = found.as_ref().map(|found| moves.outcome(&found.listed));
            match (&turn.death, now) {
                (Some(_), Some(now)) if now.may_be_out() => {}
                (Some(death), Some(_) | None) => {
                    write.tally.die(death.now(), death.died_at);
                    continue;
                }
                (None, Some(now)) if is_out(now) => {}
                (None, Some(_) | None) => continue,
            }
            let Some(Found { listed, group }) = found else { continue };
            if let Some(death) = turn.death {
                relapsed.push(Relapse { listed: listed.clone(), group, death });
            }
            moves.add(Shifted::of(listed, turn.to, turn.evidence, turn.sent_at, turn.at));
        }
        shift_all(write, &moves.all).await?;
        regress(write, &relapsed).await?;
        blame(write, &relapsed).await
    }
}

/// Moves of rows; one that moves twice in a commit is moved once, to where it came last.
#[derive(Default)]
struct Moves {
    all: Vec<Shifted>,
    places: HashMap<(RedriveId, i64), usize>,
}

impl Moves {
    /// How a row stands after the moves so far.
    fn outcome(&self, listed: &Listed) -> Outcome {
        let place = self.places.get(&(listed.redrive, listed.ordinal));
        place.and_then(|place| self.all.get(*place)).map_or(listed.outcome, |moved| moved.to)
    }

    fn add(&mut self, one: Shifted) {
        let key = (one.row.redrive, one.row.ordinal);
        match self.places.get(&key).and_then(|place| self.all.get_mut(*place)) {
            Some(known) => *known = one,
            None => {
                self.places.insert(key, self.all.len());
                self.all.push(one);
            }
        }
    }
}

/// Whether a letter is on its way: nothing but a death comes after anything else.
const fn is_out(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Out | Outcome::Sent | Outcome::Unknown => true,
        Outcome::Waiting
        | Outcome::Succeeded
        | Outcome::Assumed
        | Outcome::Ended
        | Outcome::Failed
        | Outcome::Relapsed
        | Outcome::Skipped
        | Outcome::LaneBlocked
        | Outcome::Cancelled => false,
    }
}

/// A row that a turn is about.
struct Found {
    listed: Listed,
    group: u32,
}

/// What is on its way comes before what was thought to be done, and then the newest redrive.
const FIND: &str = "
select n.n, t.redrive, t.ordinal, t.outcome, t.lane, t.grp
  from unnest($1::uuid[], $2::integer[], $3::uuid[]) with ordinality as n (letter, life, run, n)
 cross join lateral (select redrive, ordinal, outcome, lane, grp
                       from redrive_letters
                      where letter = n.letter
                        and (n.life is null or life = n.life)
                        and (n.run is null or redrive = n.run)
                        and outcome in ('out', 'sent', 'unknown', 'succeeded', 'assumed')
                      order by outcome in ('out', 'sent', 'unknown') desc, redrive desc
                      limit 1) t";

/// The rows of turns, in their order. Their letters are held, so nobody else moves them.
async fn find(conn: &Conn, turns: &[Turn]) -> Result<Vec<Option<Found>>, StoreError> {
    let mut found: Vec<Option<Found>> = turns.iter().map(|_| None).collect();
    if turns.is_empty() {
        return Ok(found);
    }
    let letters: Vec<Uid> = column(turns, |turn| Uid(*turn.letter.bytes()));
    let lives: Vec<Option<i32>> = column(turns, |turn| turn.life.map(|life| life as i32));
    let runs: Vec<Option<Uid>> = column(turns, |turn| turn.run.map(|run| Uid(*run.bytes())));
    for row in conn.query(FIND, &[&letters, &lives, &runs]).await? {
        let listed = Listed {
            redrive: RedriveId::from_bytes(row.id(1)?),
            ordinal: row.cell(2)?,
            outcome: row::outcome(row.cell(3)?)?,
            lane: row.cell(4)?,
        };
        let place = found.get_mut(row.count(0)? as usize - 1);
        if let Some(place) = place {
            *place = Some(Found { listed, group: row.small(5)? });
        }
    }
    Ok(found)
}

const HOLD: &str = "
select id
  from redrives
 where id = any($1)
 order by id
   for no key update";

async fn lock_redrives(conn: &Conn, redrives: &BTreeSet<RedriveId>) -> Result<(), StoreError> {
    if !redrives.is_empty() {
        let ids: Vec<Uid> = redrives.iter().map(|id| Uid(*id.bytes())).collect();
        conn.execute(HOLD, &[&ids]).await?;
    }
    Ok(())
}

/// A letter that died again after a run had sent it.
struct Relapse {
    listed: Listed,
    group: u32,
    death: Death,
}

/// Relapses of letters that runs sent under the RCA of these incidents and that disprove the fix in this commit: those that
/// went alone, as canaries or by themselves, and those of runs that have ended. What died before the fix in force says nothing against it.
const GOVERNED: &str = "
select n.n
  from unnest($1::uuid[], $2::integer[], $3::uuid[], $5::timestamptz[], $6::bigint[]) with ordinality
    as n (redrive, grp, incident, died_at, ordinal, n)
  join redrives r on r.id = n.redrive
  join incidents i on i.id = n.incident
  join redrive_groups g on g.redrive = n.redrive and g.number = n.grp
  join redrive_letters t on t.redrive = n.redrive and t.ordinal = n.ordinal
 where (t.canary or r.kind = 'single' or r.state in ('done', 'stopped', 'cancelled'))
   and g.incident = n.incident
   and g.verdict = $4
   and i.fix_at is not null
   and n.died_at > i.fix_at";

/// A letter that went alone disproves the fix at once, and a run that has ended cannot tell its incident of a relapse any more: the
/// incident moves with this commit.
async fn regress(write: &mut Write, relapsed: &[Relapse]) -> Result<(), StoreError> {
    if relapsed.is_empty() {
        return Ok(());
    }
    let redrives: Vec<Uid> = column(relapsed, |one| Uid(*one.listed.redrive.bytes()));
    let groups: Vec<i32> = column(relapsed, |one| one.group as i32);
    let of: Vec<Uid> = column(relapsed, |one| Uid(*one.death.incident.bytes()));
    let died_at: Vec<At> = column(relapsed, |one| At(one.death.died_at));
    let ordinals: Vec<i64> = column(relapsed, |one| one.listed.ordinal);
    let governed = Passed::Governed.name();
    let rows = write.conn.query(GOVERNED, &[&redrives, &groups, &of, &governed, &died_at, &ordinals]).await?;
    for row in rows {
        if let Some(one) = relapsed.get(row.count(0)? as usize - 1) {
            write.tally.relapse(one.death.now());
        }
    }
    Ok(())
}

/// The group of rows that no plan made: their letters went through a door, and no run judges them.
const NO_GROUP: u32 = 0;

/// What a run put back and what dies of the same again is the run's to judge; what dies of something else speaks against
/// the fix of that, and what no plan had put back dies outside of any run.
async fn blame(write: &mut Write, relapsed: &[Relapse]) -> Result<(), StoreError> {
    let before: Vec<&str> = relapsed.iter().map(|one| one.death.fingerprints[0].as_str()).collect();
    if before.is_empty() {
        return Ok(());
    }
    let incidents = incidents::of_fingerprints(&write.conn, &before).await?;
    for Relapse { group, death, .. } in relapsed {
        if *group == NO_GROUP || incidents.get(&death.fingerprints[0]) != Some(&death.incident) {
            write.tally.die(death.now(), death.died_at);
        }
    }
    Ok(())
}

/// A letter that was out came to its end by another door than its run: its claim is answered, its outcome moves.
pub(in crate::postgres) async fn left(
    write: &mut Write,
    letter: LetterId,
    to: Outcome,
    evidence: &str,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.execute("delete from claims where letter = $1", &[&Uid(*letter.bytes())]).await?;
    let evidence = Some(evidence.to_owned());
    let turn = Turn { letter, life: None, run: None, to, evidence, sent_at: None, at, death: None };
    write.outcomes.turn(turn);
    Ok(())
}

/// A letter died again, of what it died of before and of what it did now: if a run had put this life back, that is a
/// relapse of the run, else a death outside of any.
pub(in crate::postgres) fn relapse(
    write: &mut Write,
    (letter, life): (LetterId, u32),
    fingerprints: [&str; 2],
    incident: IncidentId,
    died_at: Time,
    at: Time,
) {
    let death = Death { fingerprints: fingerprints.map(str::to_owned), incident, died_at };
    write.outcomes.turn(Turn {
        letter,
        life: Some(life),
        run: None,
        to: Outcome::Relapsed,
        evidence: Some("it died again".to_owned()),
        sent_at: None,
        at,
        death: Some(death),
    });
}

const MARK_SENT: &str = "
select exists (select 1
                 from claims
                where letter = $1
                  and life = $2
                  and run = $3
                  and step <> 'claimed')
    or exists (select 1
                 from redrive_letters
                where letter = $1
                  and life = $2
                  and redrive = $3
                  and outcome in ('sent', 'unknown', 'succeeded', 'assumed', 'ended', 'failed', 'relapsed'))";

/// Whether the redrive that a mark names did send the present life of a letter.
pub(in crate::postgres) async fn mark_sent(
    conn: &Conn,
    known: &Known,
    mark: Option<RedriveMark>,
) -> Result<bool, StoreError> {
    let Some(mark) = mark.filter(|mark| mark.letter == known.letter && mark.life == known.life) else {
        return Ok(false);
    };
    let (letter, redrive) = (Uid(*mark.letter.bytes()), Uid(*mark.redrive.bytes()));
    let found = conn.query_opt(MARK_SENT, &[&letter, &(mark.life as i32), &redrive]).await?;
    found.map_or(Ok(false), |row| row.cell(0))
}

const DECIDED: &str = "
select r.kind, r.actor
  from claims c
  join redrives r on r.id = c.run
 where c.letter = $1";

/// How a letter that is out comes to be resolved, and by whom: the person or the rule whose redrive it is. Nothing if no
/// redrive has it.
pub(in crate::postgres) async fn decided_by(
    conn: &Conn,
    letter: LetterId,
) -> Result<Option<(Strategy, String)>, StoreError> {
    let found = conn.query_opt(DECIDED, &[&Uid(*letter.bytes())]).await?;
    found.map(|row| Ok((strategy_of(row::kind(row.cell(0)?)?), row.cell(1)?))).transpose()
}

pub(super) const fn strategy_of(kind: RedriveKind) -> Strategy {
    match kind {
        RedriveKind::Single | RedriveKind::Bulk | RedriveKind::Plan => Strategy::ManualRetry,
        RedriveKind::Rule => Strategy::AutomaticRetry,
    }
}
