//! Rows of redrives and of their letters, and the values they hold.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::{
    Canaries, Direction, Options, OrderBy, Outcome, Pace, Prioritization, RedriveKind, RunState, StopRule,
};
use tokio_postgres::Row;

use super::super::cell::{Cells, Uid};
use super::super::conn::Conn;
use super::super::rows::unknown;
use crate::StoreError;
use crate::audit::Actor;
use crate::redrive::{Redrive, RedriveLetter};

/// A redrive with what only the store needs of it.
pub(super) struct Run {
    pub redrive: Redrive,
    /// The last outcomes, newest last.
    pub recent: String,
    pub spent_until_us: Option<i64>,
    /// Whether the list is complete.
    pub frozen: bool,
    /// How many rows wait, also of a run that is cancelled.
    pub left: u64,
}

impl Run {
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.redrive.letters.get(&outcome).copied().unwrap_or(0)
    }

    pub fn state(&self) -> RunState {
        self.redrive.state
    }
}

/// The columns that `read` takes, in its order; the alias `r` is the table of redrives.
pub(super) const COLUMNS: &str = "
r.id, r.kind, r.state, r.filter, r.actor, r.role, r.request, r.reason, r.break_glass, r.edit, r.rule, r.plan, r.why,
r.pace, r.batch_size, r.concurrency, r.order_by, r.direction, r.canary, r.canary_ms, r.canary_assumed, r.stop_percent,
r.stop_of, r.quiet_ms, r.total, r.refused, r.canary_passed, r.opened_at, r.launched_at, r.finished_at, r.updated_at,
r.recent, r.spent_until_us, r.resumed_at, r.frozen, r.waiting, r.out, r.sent, r.unknown, r.succeeded, r.assumed,
r.ended, r.failed, r.relapsed, r.skipped, r.lane_blocked, r.cancelled";

/// How many columns `COLUMNS` has: what else a statement reads comes after them.
pub(super) const WIDTH: usize = COUNTS_FROM + Outcome::ALL.len();

/// The first of the counts, which are in the order of `Outcome::ALL`.
const COUNTS_FROM: usize = 35;

/// Reads a redrive without its canaries.
fn read(row: &Row) -> Result<Run, StoreError> {
    let state = state(row.cell(2)?)?;
    let mut letters = BTreeMap::new();
    for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
        letters.insert(outcome, row.count(COUNTS_FROM + at)?);
    }
    let left = letters.get(&Outcome::Waiting).copied().unwrap_or(0);
    if state == RunState::Cancelled {
        // Whatever has not had its turn has none any more, also before its row says so.
        letters.insert(Outcome::Waiting, 0);
        *letters.entry(Outcome::Cancelled).or_default() += left;
    }
    let redrive = Redrive {
        id: RedriveId::from_bytes(row.id(0)?),
        kind: kind(row.cell(1)?)?,
        state,
        filter: row.cell(3)?,
        options: options(row)?,
        by: Actor { name: row.cell(4)?, role: row.cell(5)?, request: row.cell(6)? },
        reason: row.cell(7)?,
        break_glass: row.cell(8)?,
        edit: row.cell::<Option<i32>>(9)?.map(|edit| edit.max(0) as u32),
        total: row.count(24)?,
        refused: row.count(25)?,
        letters,
        canaries: Canaries::new(),
        canary_passed: row.cell(26)?,
        why: row.cell(12)?,
        plan: row.cell(11)?,
        rule: row.cell(10)?,
        opened_at: row.time(27)?,
        launched_at: row.time_opt(28)?,
        resumed_at: row.time_opt(33)?,
        finished_at: row.time_opt(29)?,
        updated_at: row.time(30)?,
    };
    Ok(Run { redrive, recent: row.cell(31)?, spent_until_us: row.cell(32)?, frozen: row.cell(34)?, left })
}

fn options(row: &Row) -> Result<Options, StoreError> {
    let pace: Option<u32> = row.cell::<Option<i64>>(13)?.map(small);
    let (by, direction): (&str, &str) = (row.cell(16)?, row.cell(17)?);
    Ok(Options {
        pace: Pace::from_per_minute(pace)
            .ok_or_else(|| unknown("pace", &pace.unwrap_or_default().to_string()))?,
        batch_size: small(row.cell(14)?),
        concurrency: small(row.cell(15)?),
        prioritization: Prioritization {
            by: OrderBy::parse(by).ok_or_else(|| unknown("order", by))?,
            direction: Direction::parse(direction).ok_or_else(|| unknown("direction", direction))?,
        },
        canary: small(row.cell(18)?),
        canary_ms: row.cell(19)?,
        canary_assumed: row.cell(20)?,
        stop: StopRule { percent: small(row.cell(21)?), of: small(row.cell(22)?) },
        quiet_ms: row.cell(23)?,
    })
}

fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

const CANARIES: &str = "
select redrive, outcome, count(*)
  from redrive_letters
 where redrive = any($1)
   and canary
 group by redrive, outcome";

/// Reads redrives in the order of their rows.
pub(super) async fn read_all(conn: &Conn, rows: &[Row]) -> Result<Vec<Run>, StoreError> {
    let mut runs: Vec<Run> = rows.iter().map(read).collect::<Result<_, _>>()?;
    let asked: Vec<Uid> =
        runs.iter().filter(|run| has_canaries(run)).map(|run| Uid(*run.redrive.id.bytes())).collect();
    if asked.is_empty() {
        return Ok(runs);
    }
    let mut found: HashMap<RedriveId, Canaries> = HashMap::new();
    for row in conn.query(CANARIES, &[&asked]).await? {
        let canaries = found.entry(RedriveId::from_bytes(row.id(0)?)).or_default();
        canaries.insert(outcome(row.cell(1)?)?, row.count(2)?);
    }
    for run in &mut runs {
        run.redrive.canaries = found.remove(&run.redrive.id).unwrap_or_default();
    }
    Ok(runs)
}

fn has_canaries(run: &Run) -> bool {
    run.redrive.launched_at.is_some() && run.redrive.options.canary > 0
}

async fn one(conn: &Conn, sql: &str, id: RedriveId) -> Result<Option<Run>, StoreError> {
    let found = conn.query(sql, &[&Uid(*id.bytes())]).await?;
    Ok(read_all(conn, &found).await?.pop())
}

/// One redrive.
pub(super) async fn find(conn: &Conn, id: RedriveId) -> Result<Option<Run>, StoreError> {
    one(conn, &format!("select {COLUMNS} from redrives r where r.id = $1"), id).await
}

/// One redrive whose row is held until the commit: its letters on the list stand still, and it is counted by nobody else.
pub(super) async fn hold(conn: &Conn, id: RedriveId) -> Result<Option<Run>, StoreError> {
    one(conn, &format!("select {COLUMNS} from redrives r where r.id = $1 for no key update"), id).await
}

pub(super) fn gone(id: RedriveId) -> StoreError {
    StoreError::Corrupt(format!("redrive {id} is gone"))
}

/// The columns that `letter` takes, in its order; the alias `t` is the table of letters of redrives.
pub(super) const LETTER_COLUMNS: &str = "
t.ordinal, t.letter, t.life, t.outcome, t.canary, t.lane, t.grp, t.evidence, t.idempotency_key, t.sent_at, t.outcome_at,
t.handle";

/// Reads a letter of a redrive from the column `from` on.
pub(super) fn letter(row: &Row, from: usize) -> Result<RedriveLetter, StoreError> {
    let lane: Option<&str> = row.cell(from + 5)?;
    Ok(RedriveLetter {
        ordinal: row.count(from)?,
        letter: LetterId::from_bytes(row.id(from + 1)?),
        life: row.small(from + 2)?,
        outcome: outcome(row.cell(from + 3)?)?,
        canary: row.cell(from + 4)?,
        lane: lane.map(|lane| aggregate_of(lane).to_owned()),
        group: row.small(from + 6)?,
        evidence: row.cell(from + 7)?,
        idempotency_key: row.cell(from + 8)?,
        sent_at: row.time_opt(from + 9)?,
        outcome_at: row.time_opt(from + 10)?,
        handle: row.cell(from + 11)?,
    })
}

/// What parts the source from the aggregate in the name of a lane: no name holds it.
pub(super) const LANE_MARK: char = '\u{1f}';

/// The order key of a lane, as people know it.
pub(super) fn aggregate_of(lane: &str) -> &str {
    lane.split_once(LANE_MARK).map_or(lane, |(_, aggregate)| aggregate)
}

pub(super) fn outcome(text: &str) -> Result<Outcome, StoreError> {
    Outcome::parse(text).ok_or_else(|| unknown("outcome", text))
}

pub(super) fn state(text: &str) -> Result<RunState, StoreError> {
    RunState::parse(text).ok_or_else(|| unknown("redrive's state", text))
}

pub(super) fn kind(text: &str) -> Result<RedriveKind, StoreError> {
    RedriveKind::parse(text).ok_or_else(|| unknown("kind of redrive", text))
}
