//! Rows of letters on the lists of runs, many at once: moved together with the counts of their runs and their lanes.
//! The redrives are held by the caller.

use std::collections::BTreeMap;

use lazaret_core::id::RedriveId;
use lazaret_core::limits;
use lazaret_core::redrive::{LaneEffect, Outcome, RunState, StopRule};
use lazaret_core::time::Time;

use super::super::cell::{At, Bind, Cells, Uid, clean};
use super::super::insert::column;
use super::super::writer::Write;
use super::line;
use crate::StoreError;
use crate::redrive::Did;

/// A letter on the list of a run, as far as a move of it needs to know.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub redrive: RedriveId,
    pub ordinal: i64,
    pub outcome: Outcome,
    pub lane: Option<String>,
}

/// Where a letter comes to, and what is kept of it.
#[derive(Debug)]
pub(super) struct Shifted {
    pub row: Listed,
    pub to: Outcome,
    evidence: Option<String>,
    key: Option<String>,
    sent_at: Option<Time>,
    at: Time,
}

impl Shifted {
    pub fn of(
        row: Listed,
        to: Outcome,
        evidence: Option<String>,
        sent_at: Option<Time>,
        at: Time,
    ) -> Shifted {
        let cut = |text: String| clean(&text).chars().take(limits::OUTCOME_REASON_CHARS_MAX).collect();
        Shifted { row, to, evidence: evidence.map(cut), key: None, sent_at, at }
    }

    /// The move with the key that the letter is sent under.
    pub fn under(self, key: String) -> Shifted {
        Shifted { key: Some(key), ..self }
    }
}

/// What a commit changes in the counts of one run.
#[derive(Default)]
struct Counts {
    /// In the order of `Outcome::ALL`.
    by: [i64; Outcome::ALL.len()],
    marks: String,
    /// What the run did, by the minute.
    did: BTreeMap<i64, Did>,
    at: Time,
}

impl Counts {
    fn add(&mut self, outcome: Outcome, by: i64) {
        for (known, count) in Outcome::ALL.into_iter().zip(&mut self.by) {
            if known == outcome {
                *count += by;
            }
        }
    }
}

const SHIFT: &str = "
update redrive_letters t
   set outcome = n.outcome, evidence = n.evidence, outcome_at = n.at, sent_at = coalesce(n.sent_at, t.sent_at),
       idempotency_key = coalesce(n.key, t.idempotency_key)
  from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[],
              $8::text[])
    as n (redrive, ordinal, was, outcome, evidence, at, sent_at, key)
 where t.redrive = n.redrive
   and t.ordinal = n.ordinal
   and t.outcome = n.was";

/// Moves rows that stand as their moves say, with their lanes and the counts of their runs.
pub(super) async fn shift_all(write: &Write, moves: &[Shifted]) -> Result<(), StoreError> {
    if moves.is_empty() {
        return Ok(());
    }
    let moved = write
        .conn
        .execute(
            SHIFT,
            &[
                &column(moves, |one| Uid(*one.row.redrive.bytes())),
                &column(moves, |one| one.row.ordinal),
                &column(moves, |one| one.row.outcome.name()),
                &column(moves, |one| one.to.name()),
                &column(moves, |one| one.evidence.as_deref()),
                &column(moves, |one| At(one.at)),
                &column(moves, |one| one.sent_at.map(At)),
                &column(moves, |one| one.key.as_deref()),
            ],
        )
        .await?;
    if moved != moves.len() as u64 {
        let count = moves.len();
        return Err(StoreError::Corrupt(format!("of {count} letters of redrives held still, {moved} moved")));
    }
    let mut counts: BTreeMap<RedriveId, Counts> = BTreeMap::new();
    for one in moves {
        let of_run = counts.entry(one.row.redrive).or_default();
        of_run.add(one.row.outcome, -1);
        of_run.add(one.to, 1);
        of_run.at = one.at.max(of_run.at);
        of_run.did.entry(one.at.minute()).or_default().count(one.row.outcome, one.to);
        if let Some(good) = one.to.weight() {
            of_run.marks.push(StopRule::mark(good));
        }
    }
    advance(write, moves).await?;
    block(write, moves, &mut counts).await?;
    count(write, &counts).await
}

/// The moves that do something to the rest of their lanes, with these.
fn with_lane(moves: &[Shifted], effect: LaneEffect) -> Vec<(&Shifted, &str)> {
    let of_lane = moves.iter().filter(|one| one.to.lane() == effect);
    of_lane.filter_map(|one| Some((one, one.row.lane.as_deref()?))).collect()
}

/// The lane is asked for as a range, so that the order is that of the index of lanes: with an equality PostgreSQL may walk
/// through the whole list in the order of ordinals instead.
const ADVANCE: &str = "
update redrive_letters t
   set head = true
  from unnest($1::uuid[], $2::text[], $3::bigint[]) as m (redrive, lane, ordinal)
 cross join lateral (select ordinal
                       from redrive_letters
                      where redrive = m.redrive
                        and lane between m.lane and m.lane
                        and ordinal > m.ordinal
                        and outcome = 'waiting'
                      order by lane, ordinal
                      limit 1) n
 where t.redrive = m.redrive
   and t.ordinal = n.ordinal";

/// The next letters of lanes may go.
async fn advance(write: &Write, moves: &[Shifted]) -> Result<(), StoreError> {
    let ended = with_lane(moves, LaneEffect::Next);
    if ended.is_empty() {
        return Ok(());
    }
    let redrives: Vec<Uid> = column(&ended, |(one, _)| Uid(*one.row.redrive.bytes()));
    let lanes: Vec<&str> = column(&ended, |(_, lane)| *lane);
    let ordinals: Vec<i64> = column(&ended, |(one, _)| one.row.ordinal);
    write.conn.execute(ADVANCE, &[&redrives, &lanes, &ordinals]).await?;
    Ok(())
}

const BLOCK: &str = "
update redrive_letters t
   set outcome = $5, evidence = m.why, outcome_at = m.at, head = false
  from unnest($1::uuid[], $2::text[], $3::bigint[], $4::text[], $6::timestamptz[])
    as m (redrive, lane, ordinal, why, at)
 cross join lateral (select ordinal
                       from redrive_letters
                      where redrive = m.redrive
                        and lane between m.lane and m.lane
                        and ordinal > m.ordinal
                        and outcome = 'waiting'
                      order by lane, ordinal
                      limit $7) n
 where t.redrive = m.redrive
   and t.ordinal = n.ordinal
returning t.redrive";

/// The rest of lanes does not go; of a very long one the rest of the rest is seen to when the run is tended.
async fn block(
    write: &Write,
    moves: &[Shifted],
    counts: &mut BTreeMap<RedriveId, Counts>,
) -> Result<(), StoreError> {
    let failed = with_lane(moves, LaneEffect::Block);
    if failed.is_empty() {
        return Ok(());
    }
    // What is more is seen to when the run is tended: nothing of a lane without a head can go.
    let most = (limits::FREEZE_ROWS_PER_WRITE / failed.len()).max(1) as i64;
    let why = |one: &Shifted| format!("an earlier letter of its key {}", one.to.name());
    let blocked = write
        .conn
        .query(
            BLOCK,
            &[
                &column(&failed, |(one, _)| Uid(*one.row.redrive.bytes())),
                &column(&failed, |(_, lane)| *lane),
                &column(&failed, |(one, _)| one.row.ordinal),
                &column(&failed, |(one, _)| why(one)),
                &Outcome::LaneBlocked.name(),
                &column(&failed, |(one, _)| At(one.at)),
                &most,
            ],
        )
        .await?;
    for row in blocked {
        let of_run = counts.entry(RedriveId::from_bytes(row.id(0)?)).or_default();
        of_run.add(Outcome::Waiting, -1);
        of_run.add(Outcome::LaneBlocked, 1);
    }
    Ok(())
}

const COUNT: &str = "
update redrives r
   set waiting = r.waiting + d.waiting, out = r.out + d.out, sent = r.sent + d.sent, unknown = r.unknown + d.unknown,
       succeeded = r.succeeded + d.succeeded, assumed = r.assumed + d.assumed, ended = r.ended + d.ended,
       failed = r.failed + d.failed, relapsed = r.relapsed + d.relapsed, skipped = r.skipped + d.skipped,
       lane_blocked = r.lane_blocked + d.lane_blocked, cancelled = r.cancelled + d.cancelled,
       recent = right(r.recent || d.marks, r.stop_of::integer), updated_at = greatest(r.updated_at, d.at)
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
              $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[],
              $15::timestamptz[])
    as d (id, waiting, out, sent, unknown, succeeded, assumed, ended, failed, relapsed, skipped, lane_blocked,
          cancelled, marks, at)
 where r.id = d.id
returning r.id, r.kind = 'single' and r.plan is null,
          r.finished_at is null and r.waiting + r.out + r.sent + r.unknown = 0, d.at";

const END: &str = "
update redrives
   set state = case when state = 'cancelled' then state else $2 end, finished_at = $3
 where id = $1";

/// Writes the counts. A single retry of a job ends here, with its letter.
async fn count(write: &Write, counts: &BTreeMap<RedriveId, Counts>) -> Result<(), StoreError> {
    let all: Vec<(&RedriveId, &Counts)> = counts.iter().collect();
    let ids: Vec<Uid> = column(&all, |(id, _)| Uid(*id.bytes()));
    let by: Vec<Vec<i64>> = (0..Outcome::ALL.len())
        .map(|outcome| column(&all, |(_, counts)| counts.by.get(outcome).copied().unwrap_or(0)))
        .collect();
    let marks: Vec<&str> = column(&all, |(_, counts)| counts.marks.as_str());
    let at: Vec<At> = column(&all, |(_, counts)| At(counts.at));
    let mut binds: Vec<Bind<'_>> = vec![&ids];
    for of_outcome in &by {
        binds.push(of_outcome);
    }
    binds.push(&marks);
    binds.push(&at);
    let ended = RunState::Done;
    let mut lines = Vec::new();
    for row in write.conn.query(COUNT, &binds).await? {
        let (id, is_alone, is_over): (Uid, bool, bool) = (row.cell(0)?, row.cell(1)?, row.cell(2)?);
        if is_alone && is_over {
            let at: At = row.cell(3)?;
            write.conn.execute(END, &[&id, &ended.name(), &at]).await?;
        }
        if !is_alone {
            let redrive = RedriveId::from_bytes(id.0);
            let did = counts.get(&redrive).into_iter().flat_map(|counts| &counts.did);
            lines.extend(did.map(|(minute, did)| (redrive, *minute, *did)));
        }
    }
    line::add(write, lines).await
}

const END_WAITING: &str = "
with chunk as (select ordinal
                 from redrive_letters
                where redrive = $1
                  and ordinal > $2
                  and outcome = 'waiting'
                order by ordinal
                limit $6)
update redrive_letters t
   set outcome = $3, evidence = $4, outcome_at = $5, head = false
  from chunk c
 where t.redrive = $1
   and t.ordinal = c.ordinal
returning t.ordinal";

/// Ends the next letters of a run that wait, behind an ordinal; says where it came to, nothing if that was the last.
pub(in crate::postgres) async fn end_waiting(
    write: &Write,
    id: RedriveId,
    after: i64,
    to: Outcome,
    why: Option<&str>,
    at: Time,
) -> Result<Option<i64>, StoreError> {
    let limit = limits::FREEZE_ROWS_PER_WRITE;
    let binds = (Uid(*id.bytes()), to.name(), At(at), limit as i64);
    let ended =
        write.conn.query(END_WAITING, &[&binds.0, &after, &binds.1, &why, &binds.2, &binds.3]).await?;
    let mut of_run = Counts { at, ..Counts::default() };
    of_run.add(Outcome::Waiting, -(ended.len() as i64));
    of_run.add(to, ended.len() as i64);
    count(write, &BTreeMap::from([(id, of_run)])).await?;
    let mut last = None;
    for row in &ended {
        last = last.max(Some(row.cell::<i64>(0)?));
    }
    Ok(last.filter(|_| ended.len() == limit))
}
