//! Rows of redrives and of their letters, and the values they hold.

use std::collections::BTreeMap;

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::{
    Canaries, Direction, Options, OrderBy, Outcome, Pace, Prioritization, RedriveKind, RunState, StopRule,
};
use lazaret_core::time::Time;
use rusqlite::{Connection, Row};

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

pub(super) fn read(conn: &Connection, row: &Row<'_>) -> Result<Run, StoreError> {
    let id = RedriveId::from_bytes(row.get(0)?);
    let state = state(&row.get::<_, String>(2)?)?;
    let mut letters = BTreeMap::new();
    for (at, outcome) in Outcome::ALL.into_iter().enumerate() {
        letters.insert(outcome, row.get::<_, i64>(COUNTS_FROM + at)?.max(0) as u64);
    }
    if state == RunState::Cancelled {
        // Whatever has not had its turn has none any more, also before its row says so.
        let left = letters.insert(Outcome::Waiting, 0).unwrap_or(0);
        *letters.entry(Outcome::Cancelled).or_default() += left;
    }
    let time = |at: usize| row.get::<_, Option<i64>>(at).map(|ms| ms.map(Time::from_ms));
    let redrive = Redrive {
        id,
        kind: kind(&row.get::<_, String>(1)?)?,
        state,
        filter: row.get(3)?,
        options: options(row)?,
        by: Actor { name: row.get(4)?, role: row.get(5)?, request: row.get(6)? },
        reason: row.get(7)?,
        break_glass: row.get(8)?,
        edit: row.get(9)?,
        total: row.get::<_, i64>(24)?.max(0) as u64,
        refused: row.get::<_, i64>(25)?.max(0) as u64,
        letters,
        canaries: canaries(conn, id)?,
        canary_passed: row.get(26)?,
        why: row.get(12)?,
        plan: row.get(11)?,
        rule: row.get(10)?,
        opened_at: Time::from_ms(row.get(27)?),
        launched_at: time(28)?,
        resumed_at: time(33)?,
        finished_at: time(29)?,
        updated_at: Time::from_ms(row.get(30)?),
    };
    Ok(Run { redrive, recent: row.get(31)?, spent_until_us: row.get(32)?, frozen: row.get(34)? })
}

fn options(row: &Row<'_>) -> Result<Options, StoreError> {
    let pace: Option<u32> = row.get(13)?;
    let (by, direction): (String, String) = (row.get(16)?, row.get(17)?);
    Ok(Options {
        pace: Pace::from_per_minute(pace)
            .ok_or_else(|| unknown("pace", &pace.unwrap_or_default().to_string()))?,
        batch_size: row.get(14)?,
        concurrency: row.get(15)?,
        prioritization: Prioritization {
            by: OrderBy::parse(&by).ok_or_else(|| unknown("order", &by))?,
            direction: Direction::parse(&direction).ok_or_else(|| unknown("direction", &direction))?,
        },
        canary: row.get(18)?,
        canary_ms: row.get(19)?,
        canary_assumed: row.get(20)?,
        stop: StopRule { percent: row.get(21)?, of: row.get(22)? },
        quiet_ms: row.get(23)?,
    })
}

const CANARIES: &str = "
select outcome, count(*)
  from redrive_letters indexed by redrive_letters_canaries
 where redrive = ?1
   and canary = 1
 group by outcome
 limit 100";

fn canaries(conn: &Connection, id: RedriveId) -> Result<Canaries, StoreError> {
    let mut statement = conn.prepare_cached(CANARIES)?;
    let mut found = statement.query([id.bytes()])?;
    let mut canaries = Canaries::new();
    while let Some(row) = found.next()? {
        canaries.insert(outcome(&row.get::<_, String>(0)?)?, row.get::<_, i64>(1)?.max(0) as u64);
    }
    Ok(canaries)
}

/// One redrive.
pub(super) fn find(conn: &Connection, id: RedriveId) -> Result<Option<Run>, StoreError> {
    let mut statement = conn.prepare_cached(&format!("select {COLUMNS} from redrives r where r.id = ?1"))?;
    let mut found = statement.query([id.bytes()])?;
    found.next()?.map(|row| read(conn, row)).transpose()
}

/// The same where it has to be there.
pub(super) fn expect(conn: &Connection, id: RedriveId) -> Result<Run, StoreError> {
    find(conn, id)?.ok_or_else(|| StoreError::Corrupt(format!("redrive {id} is gone")))
}

/// The columns that `letter` takes, in its order; the alias `t` is the table of letters of redrives.
pub(super) const LETTER_COLUMNS: &str = "
t.ordinal, t.letter, t.life, t.outcome, t.canary, t.lane, t.grp, t.evidence, t.idempotency_key, t.sent_at, t.outcome_at,
t.handle";

/// Reads a letter of a redrive from the column `from` on.
pub(super) fn letter(row: &Row<'_>, from: usize) -> Result<RedriveLetter, StoreError> {
    let time = |at: usize| row.get::<_, Option<i64>>(from + at).map(|ms| ms.map(Time::from_ms));
    let lane: Option<String> = row.get(from + 5)?;
    Ok(RedriveLetter {
        ordinal: row.get::<_, i64>(from)?.max(0) as u64,
        letter: LetterId::from_bytes(row.get(from + 1)?),
        life: row.get(from + 2)?,
        outcome: outcome(&row.get::<_, String>(from + 3)?)?,
        canary: row.get(from + 4)?,
        lane: lane.map(|lane| aggregate_of(&lane).to_owned()),
        group: row.get(from + 6)?,
        evidence: row.get(from + 7)?,
        idempotency_key: row.get(from + 8)?,
        sent_at: time(9)?,
        outcome_at: time(10)?,
        handle: row.get(from + 11)?,
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
