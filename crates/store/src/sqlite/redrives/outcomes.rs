//! What becomes of a letter of a run. This is the only place that moves an outcome: the run's counts, its last outcomes
//! and the rest of the letter's lane move with it, in the same commit.

use std::collections::BTreeMap;

use lazaret_core::death::Known;
use lazaret_core::gate::Passed;
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::Happening;
use lazaret_core::letter::{RedriveMark, Strategy};
use lazaret_core::limits;
use lazaret_core::redrive::{LaneEffect, Outcome, RedriveKind, RunState, StopRule};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::super::writer::Write;
use super::line;
use crate::StoreError;
use crate::engine::incidents;
use crate::engine::redrives::row;
use crate::redrive::Did;
use crate::seam::ready;

/// A letter on the list of a run, as far as a move of it needs to know.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub redrive: RedriveId,
    pub ordinal: i64,
    pub outcome: Outcome,
    pub lane: Option<String>,
}

/// Where a letter comes to, and what is kept of it.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub to: Outcome,
    pub evidence: Option<&'a str>,
    pub key: Option<&'a str>,
    pub sent_at: Option<Time>,
    pub at: Time,
}

impl<'a> Turn<'a> {
    pub fn new(to: Outcome, evidence: Option<&'a str>, at: Time) -> Turn<'a> {
        Turn { to, evidence, key: None, sent_at: None, at }
    }
}

/// Moves of a request, counted until they are written once at its end.
#[derive(Default)]
pub(super) struct Shifts {
    runs: BTreeMap<RedriveId, Shift>,
    /// Letters of lanes that were blocked, which one request may do to so many.
    blocked: usize,
}

#[derive(Default)]
struct Shift {
    /// In the order of `Outcome::ALL`.
    by: [i64; Outcome::ALL.len()],
    marks: String,
    did: Did,
}

impl Shift {
    fn add(&mut self, outcome: Outcome, by: i64) {
        for (known, count) in Outcome::ALL.into_iter().zip(&mut self.by) {
            if known == outcome {
                *count += by;
            }
        }
    }
}

const SHIFT: &str = "
update redrive_letters
   set outcome = ?4, evidence = ?5, outcome_at = ?6, sent_at = coalesce(?7, sent_at),
       idempotency_key = coalesce(?8, idempotency_key)
 where redrive = ?1
   and ordinal = ?2
   and outcome = ?3";

impl Shifts {
    /// Moves one letter; false if it does not stand as the caller saw it.
    pub fn shift(&mut self, write: &Write, row: &Listed, turn: &Turn<'_>) -> Result<bool, StoreError> {
        let evidence: Option<String> =
            turn.evidence.map(|text| text.chars().take(limits::OUTCOME_REASON_CHARS_MAX).collect());
        let moved = write.conn.prepare_cached(SHIFT)?.execute((
            row.redrive.bytes(),
            row.ordinal,
            row.outcome.name(),
            turn.to.name(),
            evidence,
            turn.at.ms(),
            turn.sent_at.map(Time::ms),
            turn.key,
        ))?;
        if moved == 0 {
            return Ok(false);
        }
        let shift = self.runs.entry(row.redrive).or_default();
        shift.add(row.outcome, -1);
        shift.add(turn.to, 1);
        shift.did.count(row.outcome, turn.to);
        if let Some(good) = turn.to.weight() {
            shift.marks.push(StopRule::mark(good));
        }
        if let Some(lane) = &row.lane {
            match turn.to.lane() {
                LaneEffect::Next => advance(write, row, lane)?,
                LaneEffect::Block => {
                    let why = format!("an earlier letter of its key {}", turn.to.name());
                    let most = limits::FREEZE_ROWS_PER_WRITE.saturating_sub(self.blocked);
                    let blocked = block(write, row, lane, &why, most, turn.at)?;
                    self.blocked += blocked as usize;
                    let shift = self.runs.entry(row.redrive).or_default();
                    shift.add(Outcome::Waiting, -blocked);
                    shift.add(Outcome::LaneBlocked, blocked);
                }
                LaneEffect::Hold => {}
            }
        }
        Ok(true)
    }

    /// Counts letters that were moved together.
    pub fn count(&mut self, redrive: RedriveId, from: Outcome, to: Outcome, letters: i64) {
        let shift = self.runs.entry(redrive).or_default();
        shift.add(from, -letters);
        shift.add(to, letters);
    }

    /// Writes the counts. A single retry of a job ends here, with its letter.
    pub fn flush(self, write: &Write, at: Time) -> Result<(), StoreError> {
        for (redrive, Shift { by, marks, did }) in self.runs {
            let [
                waiting,
                out,
                sent,
                unknown,
                succeeded,
                assumed,
                ended,
                failed,
                relapsed,
                skipped,
                blocked,
                cancelled,
            ] = by;
            let found: Option<(bool, bool)> = write
                .conn
                .prepare_cached(COUNT)?
                .query_row(
                    rusqlite::params![
                        redrive.bytes(),
                        waiting,
                        out,
                        sent,
                        unknown,
                        succeeded,
                        assumed,
                        ended,
                        failed,
                        relapsed,
                        skipped,
                        blocked,
                        cancelled,
                        marks,
                        at.ms(),
                    ],
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            let Some((is_alone, ends)) = found else { continue };
            if !is_alone {
                line::add(write, redrive, did, at)?;
            }
            if ends {
                write.conn.prepare_cached(END)?.execute((
                    redrive.bytes(),
                    RunState::Done.name(),
                    at.ms(),
                    RunState::Cancelled.name(),
                ))?;
            }
        }
        Ok(())
    }
}

const COUNT: &str = "
update redrives
   set waiting = waiting + ?2, out = out + ?3, sent = sent + ?4, unknown = unknown + ?5, succeeded = succeeded + ?6,
       assumed = assumed + ?7, ended = ended + ?8, failed = failed + ?9, relapsed = relapsed + ?10,
       skipped = skipped + ?11, lane_blocked = lane_blocked + ?12, cancelled = cancelled + ?13,
       recent = substr(recent || ?14, -stop_of), updated_at = max(updated_at, ?15)
 where id = ?1
returning kind = 'single' and plan is null,
          kind = 'single' and plan is null and finished_at is null and waiting + out + sent + unknown = 0";

const END: &str = "
update redrives
   set state = case when state = ?4 then state else ?2 end, finished_at = ?3
 where id = ?1";

const ADVANCE: &str = "
update redrive_letters
   set head = 1
 where redrive = ?1
   and ordinal = (select ordinal
                    from redrive_letters indexed by redrive_letters_in_lane
                   where redrive = ?1
                     and lane = ?2
                     and ordinal > ?3
                     and outcome = ?4
                   order by ordinal
                   limit 1)";

/// The next letter of the lane may go.
fn advance(write: &Write, row: &Listed, lane: &str) -> Result<(), StoreError> {
    let waiting = Outcome::Waiting.name();
    write.conn.prepare_cached(ADVANCE)?.execute((row.redrive.bytes(), lane, row.ordinal, waiting))?;
    Ok(())
}

const BLOCK: &str = "
update redrive_letters
   set outcome = ?5, evidence = ?6, outcome_at = ?7, head = 0
 where redrive = ?1
   and ordinal in (select ordinal
                     from redrive_letters indexed by redrive_letters_in_lane
                    where redrive = ?1
                      and lane = ?2
                      and ordinal > ?3
                      and outcome = ?4
                    order by ordinal
                    limit ?8)";

/// The rest of the lane does not go. What is more than `most` is seen to when the run is tended: nothing of it can go
/// meanwhile, because the lane has no head.
fn block(
    write: &Write,
    row: &Listed,
    lane: &str,
    why: &str,
    most: usize,
    at: Time,
) -> Result<i64, StoreError> {
    let blocked = write.conn.prepare_cached(BLOCK)?.execute((
        row.redrive.bytes(),
        lane,
        row.ordinal,
        Outcome::Waiting.name(),
        Outcome::LaneBlocked.name(),
        why,
        at.ms(),
        most as i64,
    ))?;
    Ok(blocked as i64)
}

const OF_LETTER: &str = "
select redrive, ordinal, outcome, lane, grp
  from redrive_letters indexed by redrive_letters_by_letter
 where letter = ?1
   and life = ?2
   and outcome <> 'refused'
 order by redrive desc, ordinal desc
 limit 100";

/// The newest run that may have this life of a letter out there, and the group it is in.
fn newest(
    write: &Write,
    letter: LetterId,
    life: u32,
    may: impl Fn(Outcome) -> bool,
) -> Result<Option<(Listed, u32)>, StoreError> {
    let mut statement = write.conn.prepare_cached(OF_LETTER)?;
    let mut found = statement.query((letter.bytes(), life))?;
    while let Some(row) = found.next()? {
        let outcome = row::outcome(&row.get::<_, String>(2)?)?;
        if may(outcome) {
            let listed = Listed {
                redrive: RedriveId::from_bytes(row.get(0)?),
                ordinal: row.get(1)?,
                outcome,
                lane: row.get(3)?,
            };
            return Ok(Some((listed, row.get(4)?)));
        }
    }
    Ok(None)
}

const LIFE: &str = "select life from dead_letter_queue where id = ?1";

/// A letter that was out came to its end by another door than its run: its claim is answered, its outcome moves.
pub(in crate::sqlite) fn left(
    write: &Write,
    letter: LetterId,
    to: Outcome,
    evidence: &str,
    at: Time,
) -> Result<(), StoreError> {
    write.conn.prepare_cached("delete from claims where letter = ?1")?.execute([letter.bytes()])?;
    let life: Option<u32> =
        write.conn.prepare_cached(LIFE)?.query_row([letter.bytes()], |row| row.get(0)).optional()?;
    let Some(life) = life else { return Ok(()) };
    let out = |outcome| matches!(outcome, Outcome::Out | Outcome::Sent | Outcome::Unknown);
    let Some((row, _)) = newest(write, letter, life, out)? else { return Ok(()) };
    let mut shifts = Shifts::default();
    shifts.shift(write, &row, &Turn::new(to, Some(evidence), at))?;
    shifts.flush(write, at)
}

/// A letter died again: if a run had put this life back, that is a relapse of the run. Says whether one had.
///
/// The incident regresses with this commit if the letter went alone, which disproves the fix at once, or if the run has
/// ended and cannot tell its incident any more.
pub(in crate::sqlite) fn relapse(
    write: &mut Write,
    letter: LetterId,
    life: u32,
    incident: IncidentId,
    died_at: Time,
    at: Time,
) -> Result<bool, StoreError> {
    let Some((row, group)) = newest(write, letter, life, Outcome::may_be_out)? else { return Ok(false) };
    let mut shifts = Shifts::default();
    shifts.shift(write, &row, &Turn::new(Outcome::Relapsed, Some("it died again"), at))?;
    shifts.flush(write, at)?;
    let governs: bool = write.conn.prepare_cached(GOVERNS)?.exists((
        row.redrive.bytes(),
        group,
        incident.bytes(),
        Passed::Governed.name(),
        died_at.ms(),
        row.ordinal,
    ))?;
    if governs {
        ready(incidents::happen(write, incident, Happening::RunRelapsed, None, at))?;
    }
    // A door's own retry has no group, and nobody looks after its incident: the death speaks for itself.
    Ok(group > 0)
}

/// Whether a run sent letters of this group under the RCA of this incident, and the death speaks against the fix that is
/// in force: the letter went alone, as a canary or by itself, or the run has ended.
const GOVERNS: &str = "
select 1
  from redrives r
  join redrive_groups g on g.redrive = r.id and g.number = ?2
  join incidents i on i.id = g.incident
  join redrive_letters t on t.redrive = r.id and t.ordinal = ?6
 where r.id = ?1
   and (t.canary = 1 or r.kind = 'single' or r.state in ('done', 'stopped', 'cancelled'))
   and g.incident = ?3
   and g.verdict = ?4
   and i.fix_at < ?5";

const MARK_SENT: &str = "
select 1
  from claims
 where letter = ?1
   and life = ?2
   and run = ?3
   and step <> 'claimed'
union all
select 1
  from redrive_letters indexed by redrive_letters_by_letter
 where letter = ?1
   and life = ?2
   and redrive = ?3
   and outcome in ('sent', 'unknown', 'succeeded', 'assumed', 'ended', 'failed', 'relapsed')";

/// Whether the redrive that a mark names did send the present life of a letter.
pub(in crate::sqlite) fn mark_sent(
    conn: &Connection,
    known: &Known,
    mark: Option<RedriveMark>,
) -> Result<bool, StoreError> {
    let Some(mark) = mark.filter(|mark| mark.letter == known.letter && mark.life == known.life) else {
        return Ok(false);
    };
    let binds = (mark.letter.bytes(), mark.life, mark.redrive.bytes());
    Ok(conn.prepare_cached(MARK_SENT)?.exists(binds)?)
}

const DECIDED: &str = "
select r.kind, r.actor
  from claims c
  join redrives r on r.id = c.run
 where c.letter = ?1";

/// How a letter that is out comes to be resolved, and by whom: the person or the rule whose redrive it is. Nothing if no
/// redrive has it.
pub(in crate::sqlite) fn decided_by(
    write: &Write,
    letter: LetterId,
) -> Result<Option<(Strategy, String)>, StoreError> {
    let found: Option<(String, String)> = write
        .conn
        .prepare_cached(DECIDED)?
        .query_row([letter.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    found.map(|(kind, actor)| Ok((strategy_of(row::kind(&kind)?), actor))).transpose()
}

pub(super) const fn strategy_of(kind: RedriveKind) -> Strategy {
    match kind {
        RedriveKind::Single | RedriveKind::Bulk | RedriveKind::Plan => Strategy::ManualRetry,
        RedriveKind::Rule => Strategy::AutomaticRetry,
    }
}
