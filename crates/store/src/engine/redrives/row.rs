//! Rows of redrives and of their letters, and the values they hold.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::id::RedriveId;
use lazaret_core::redrive::{
    Canaries, Options, Outcome, Pace, Prioritization, RedriveKind, RunState, StopRule,
};

use crate::StoreError;
use crate::audit::Actor;
use crate::redrive::{Redrive, RedriveLetter};
use crate::seam::{Conn, Row, Sql, Table, Tx, binds, sql, table};

/// A redrive with what only the store needs of it.
pub(crate) struct Run {
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

    /// Returns true if the list is complete and was not launched: only then may verdicts change it.
    pub fn is_plan(&self) -> bool {
        self.frozen
            && self.redrive.launched_at.is_none()
            && matches!(self.state(), RunState::Planning | RunState::Planned)
    }

    fn has_canaries(&self) -> bool {
        self.redrive.launched_at.is_some() && self.redrive.options.canary > 0
    }
}

pub(crate) const REDRIVES: Table = table!(
    "redrives" as "r": "id", "kind", "state", "filter", "actor", "role", "request", "reason", "break_glass", "edit",
    "rule", "plan", "why", "pace", "batch_size", "concurrency", "order_by", "direction", "canary", "canary_ms",
    "canary_assumed", "stop_percent", "stop_of", "quiet_ms", "total", "refused", "canary_passed", "opened_at",
    "launched_at", "resumed_at", "finished_at", "updated_at", "recent", "spent_until_us", "frozen", "waiting", "out",
    "sent", "unknown", "succeeded", "assumed", "ended", "failed", "relapsed", "skipped", "lane_blocked", "cancelled"
);

/// Reads a redrive without its canaries.
pub(super) fn read(row: &Row<'_>) -> Result<Run, StoreError> {
    let mut redrive = Redrive {
        id: row.get("id")?,
        kind: row.get("kind")?,
        state: row.get("state")?,
        filter: row.get("filter")?,
        by: Actor { name: row.get("actor")?, role: row.get("role")?, request: row.get("request")? },
        reason: row.get("reason")?,
        break_glass: row.get("break_glass")?,
        edit: row.get("edit")?,
        rule: row.get("rule")?,
        plan: row.get("plan")?,
        why: row.get("why")?,
        options: options(row)?,
        total: row.get("total")?,
        refused: row.get("refused")?,
        canary_passed: row.get("canary_passed")?,
        opened_at: row.get("opened_at")?,
        launched_at: row.get("launched_at")?,
        resumed_at: row.get("resumed_at")?,
        finished_at: row.get("finished_at")?,
        updated_at: row.get("updated_at")?,
        letters: BTreeMap::new(),
        canaries: Canaries::new(),
    };
    let (recent, spent_until_us) = (row.get("recent")?, row.get("spent_until_us")?);
    let frozen = row.get("frozen")?;
    for outcome in Outcome::ALL {
        redrive.letters.insert(outcome, row.get(outcome.name())?);
    }
    let left = redrive.letters.get(&Outcome::Waiting).copied().unwrap_or(0);
    if redrive.state == RunState::Cancelled {
        // Whatever has not had its turn has none any more, also before its row says so.
        redrive.letters.insert(Outcome::Waiting, 0);
        *redrive.letters.entry(Outcome::Cancelled).or_default() += left;
    }
    Ok(Run { redrive, recent, spent_until_us, frozen, left })
}

fn options(row: &Row<'_>) -> Result<Options, StoreError> {
    let pace: Option<u32> = row.get("pace")?;
    let no_pace = || StoreError::Corrupt(format!("a redrive has the rate {pace:?}"));
    Ok(Options {
        pace: Pace::from_per_minute(pace).ok_or_else(no_pace)?,
        batch_size: row.get("batch_size")?,
        concurrency: row.get("concurrency")?,
        prioritization: Prioritization { by: row.get("order_by")?, direction: row.get("direction")? },
        canary: row.get("canary")?,
        canary_ms: row.get("canary_ms")?,
        canary_assumed: row.get("canary_assumed")?,
        stop: StopRule { percent: row.get("stop_percent")?, of: row.get("stop_of")? },
        quiet_ms: row.get("quiet_ms")?,
    })
}

const CANARIES: Sql = sql!(
    "
select redrive, outcome, count(*) as letters
  from redrive_letters{sqlite  indexed by redrive_letters_canaries}
 where redrive {any $1}
   and canary{sqlite  = 1}
 group by redrive, outcome"
);

/// Adds the canaries of those runs that have some.
pub(super) async fn add_canaries<'a>(
    conn: &mut impl Conn,
    runs: impl IntoIterator<Item = &'a mut Run>,
) -> Result<(), StoreError> {
    let mut runs: Vec<&mut Run> = runs.into_iter().filter(|run| run.has_canaries()).collect();
    if runs.is_empty() {
        return Ok(());
    }
    let ids: Vec<RedriveId> = runs.iter().map(|run| run.redrive.id).collect();
    let values = binds![ids];
    let counted = conn.query(&CANARIES, values, |row| {
        Ok((row.get::<RedriveId>("redrive")?, row.get("outcome")?, row.get("letters")?))
    });
    let mut found: HashMap<RedriveId, Canaries> = HashMap::new();
    for (id, outcome, letters) in counted.await? {
        found.entry(id).or_default().insert(outcome, letters);
    }
    for run in &mut runs {
        run.redrive.canaries = found.remove(&run.redrive.id).unwrap_or_default();
    }
    Ok(())
}

const FIND: Sql = sql!("select {} from redrives r where r.id = $1", REDRIVES);

const LOCK: Sql = sql!("select {} from redrives r where r.id = $1{postgres  for no key update}", REDRIVES);

async fn one(conn: &mut impl Conn, sql: &Sql, id: RedriveId) -> Result<Option<Run>, StoreError> {
    let mut found = conn.query_opt(sql, binds![id], read).await?;
    add_canaries(conn, &mut found).await?;
    Ok(found)
}

/// One redrive.
pub(crate) async fn find(conn: &mut impl Conn, id: RedriveId) -> Result<Option<Run>, StoreError> {
    one(conn, &FIND, id).await
}

/// One redrive that has to be there.
pub(crate) async fn expect(conn: &mut impl Conn, id: RedriveId) -> Result<Run, StoreError> {
    find(conn, id).await?.ok_or_else(|| gone(id))
}

/// One redrive whose row is locked until the commit: its letters on the list stand still, and it is counted by nobody else.
pub(crate) async fn lock_redrive(tx: &mut impl Tx, id: RedriveId) -> Result<Option<Run>, StoreError> {
    one(tx, &LOCK, id).await
}

pub(crate) fn gone(id: RedriveId) -> StoreError {
    StoreError::Corrupt(format!("redrive {id} is gone"))
}

/// Without `canary`, which a redrive has too: that is read as `is_canary`.
pub(crate) const REDRIVE_LETTERS: Table = table!(
    "redrive_letters" as "t": "ordinal", "letter", "life", "outcome", "lane", "grp", "evidence", "idempotency_key",
    "sent_at", "outcome_at", "handle"
);

/// Reads a letter of a redrive.
pub(super) fn letter(row: &Row<'_>) -> Result<RedriveLetter, StoreError> {
    let (ordinal, letter) = (row.get("ordinal")?, row.get("letter")?);
    let (life, outcome) = (row.get("life")?, row.get("outcome")?);
    let lane: Option<String> = row.get("lane")?;
    Ok(RedriveLetter {
        ordinal,
        letter,
        life,
        outcome,
        lane: lane.map(|lane| aggregate_of(&lane).to_owned()),
        group: row.get("grp")?,
        evidence: row.get("evidence")?,
        idempotency_key: row.get("idempotency_key")?,
        sent_at: row.get("sent_at")?,
        outcome_at: row.get("outcome_at")?,
        handle: row.get("handle")?,
        canary: row.get("is_canary")?,
    })
}

/// What parts the source from the aggregate in the name of a lane: no name holds it.
pub(crate) const LANE_MARK: char = '\u{1f}';

/// The order key of a lane, as people know it.
pub(crate) fn aggregate_of(lane: &str) -> &str {
    lane.split_once(LANE_MARK).map_or(lane, |(_, aggregate)| aggregate)
}

/// The outcome of this name, for rows that the stores read themselves.
pub(crate) fn outcome(text: &str) -> Result<Outcome, StoreError> {
    Outcome::parse(text).ok_or_else(|| StoreError::Corrupt(format!("the outcome `{text}` is unknown")))
}

/// The kind of redrive of this name, for rows that the stores read themselves.
pub(crate) fn kind(text: &str) -> Result<RedriveKind, StoreError> {
    RedriveKind::parse(text)
        .ok_or_else(|| StoreError::Corrupt(format!("the kind of redrive `{text}` is unknown")))
}
