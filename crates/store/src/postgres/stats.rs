//! Statistics from the counters, and the ledger from counters or rows.

use std::collections::BTreeMap;

use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::cell::Cells;
use super::conn::Conn;
use super::counters::Dimension;
use super::holds::record;
use super::rows;
use crate::StoreError;
use crate::job::SOURCE;
use crate::stats::{Ledger, LedgerBy, Stats, StatsOf};

const BY_VALUE: &str = "
select value, sum(letters)::bigint as n
  from counters
 where dimension = $1
   and ($2::text is null or term = $2)
 group by value
having sum(letters) > 0
 order by n desc, value
 limit $3";

pub(super) async fn stats(conn: &Conn, of: StatsOf) -> Result<Stats, StoreError> {
    match of {
        StatsOf::All => of_letters(conn, None).await,
        StatsOf::Only(status) => of_letters(conn, Some(status)).await,
        StatsOf::Jobs(status) => of_jobs(conn, status).await,
    }
}

async fn of_letters(conn: &Conn, only: Option<Status>) -> Result<Stats, StoreError> {
    let only = only.map(Status::name);
    let guard = if only.is_some() { "status = $1" } else { "$1::text is null" };
    let by_status = by_status(conn, Dimension::All, "").await?;
    let total = by_status.iter().filter(|(name, _)| only.is_none_or(|only| only == **name));
    Ok(Stats {
        total: total.map(|(_, letters)| letters).sum(),
        by_source: by(conn, Dimension::Source, only).await?,
        by_queue: by(conn, Dimension::Queue, only).await?,
        by_type: by(conn, Dimension::Type, only).await?,
        by_error_type: by(conn, Dimension::ErrorType, only).await?,
        by_class: by(conn, Dimension::Class, only).await?,
        oldest_at: end(conn, guard, only, "asc").await?,
        newest_at: end(conn, guard, only, "desc").await?,
        by_status,
    })
}

/// Letters of jobs, which are counted and found by themselves.
async fn of_jobs(conn: &Conn, status: Status) -> Result<Stats, StoreError> {
    let only = Some(status.name());
    let by_status = by_status(conn, Dimension::Source, SOURCE).await?;
    Ok(Stats {
        total: by_status.get(status.name()).copied().unwrap_or(0),
        by_queue: by(conn, Dimension::JobQueue, only).await?,
        by_type: by(conn, Dimension::JobType, only).await?,
        by_error_type: by(conn, Dimension::JobErrorType, only).await?,
        oldest_at: end(conn, OF_JOBS, only, "asc").await?,
        newest_at: end(conn, OF_JOBS, only, "desc").await?,
        by_status,
        ..Stats::default()
    })
}

/// The source is not bound: the index holds no others, and PostgreSQL has to see that.
const OF_JOBS: &str = "source = 'jobs' and status = $1";

async fn by(conn: &Conn, dimension: Dimension, only: Option<&str>) -> Result<Vec<(String, u64)>, StoreError> {
    let limit = limits::STATS_VALUES_MAX as i64;
    let rows = conn.query(BY_VALUE, &[&dimension.name(), &only, &limit]).await?;
    rows.iter().map(|row| Ok((row.cell(0)?, row.count(1)?))).collect()
}

/// The first or the last death of some letters.
async fn end(
    conn: &Conn,
    guard: &str,
    only: Option<&str>,
    direction: &str,
) -> Result<Option<Time>, StoreError> {
    conn.query_opt(&end_sql(guard, direction), &[&only]).await?.map(|row| row.time(0)).transpose()
}

fn end_sql(guard: &str, direction: &str) -> String {
    format!("select died_at from dead_letter_queue where {guard} order by died_at {direction} limit 1")
}

const TERMS: &str = "
select term, letters
  from counters
 where dimension = $1
   and value = $2
 limit 100";

/// Live letters by status, from the counters of one value.
async fn terms(conn: &Conn, dimension: Dimension, value: &str) -> Result<Vec<(Status, u64)>, StoreError> {
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    for row in conn.query(TERMS, &[&dimension.name(), &value]).await? {
        kept.insert(row.cell(0)?, row.count(1)?);
    }
    Ok(Status::ALL.map(|status| (status, kept.get(status.name()).copied().unwrap_or(0))).to_vec())
}

async fn by_status(
    conn: &Conn,
    dimension: Dimension,
    value: &str,
) -> Result<BTreeMap<&'static str, u64>, StoreError> {
    let terms = terms(conn, dimension, value).await?;
    Ok(terms.into_iter().map(|(status, letters)| (status.name(), letters)).collect())
}

const PLACES: &str = "
select place, removal, count(*)
  from letter_keys
 group by place, removal
 limit 100";

pub(super) async fn ledger(conn: &Conn, by: LedgerBy) -> Result<Ledger, StoreError> {
    let statuses = match by {
        LedgerBy::Counters => terms(conn, Dimension::All, "").await?,
        LedgerBy::Recount => recount(conn).await?,
    };
    let mut ledger = Ledger::default();
    for (status, letters) in statuses {
        match status {
            Status::Pending => ledger.pending = letters,
            Status::Reprocessing => ledger.reprocessing = letters,
            Status::Resolved => ledger.resolved = letters,
            Status::Discarded => ledger.discarded = letters,
        }
    }
    for row in conn.query(PLACES, &[]).await? {
        let (removal, keys): (Option<&str>, u64) = (row.cell(1)?, row.count(2)?);
        ledger.captured += keys;
        match (rows::place(row.cell(0)?)?, removal) {
            (Place::Live, _) => {}
            (Place::Archived, _) => ledger.archived += keys,
            (Place::Deleted, Some("pruned")) => ledger.pruned += keys,
            (Place::Deleted, _) => ledger.deleted += keys,
        }
    }
    if by == LedgerBy::Recount {
        ledger.wrong_counters = wrong_counters(conn).await?;
        ledger.unlisted = unlisted(conn).await?;
    }
    Ok(ledger)
}

const RECOUNT: &str = "
select status, count(*)
  from dead_letter_queue
 group by status
 limit 100";

async fn recount(conn: &Conn) -> Result<Vec<(Status, u64)>, StoreError> {
    let rows = conn.query(RECOUNT, &[]).await?;
    rows.iter().map(|row| Ok((rows::status(row.cell(0)?)?, row.count(1)?))).collect()
}

/// How many counters say something else than the rows.
async fn wrong_counters(conn: &Conn) -> Result<u64, StoreError> {
    let mut wrong = 0;
    for dimension in Dimension::ALL {
        let (name, column) = (dimension.name(), dimension.column());
        let rows = format!(
            "select {column} as value, status as term, count(*) as letters
               from dead_letter_queue
              where {column} is not null
              group by 1, 2"
        );
        let kept =
            format!("select value, term, letters from counters where dimension = '{name}' and letters <> 0");
        let sql = format!(
            "select (select count(*) from ({rows} except {kept}) a) + (select count(*) from ({kept} except {rows}) b)"
        );
        wrong += conn.query_one(&sql, &[]).await?.count(0)?;
    }
    let waiting = [Status::Pending.name(), Status::Reprocessing.name()];
    wrong += conn.query_one(WRONG_INCIDENTS, &[&waiting.as_slice()]).await?.count(0)?;
    for sql in WRONG_PLACES {
        wrong += conn.query_one(sql, &[]).await?.count(0)?;
    }
    wrong += record::wrong(conn).await?;
    Ok(wrong)
}

/// Letters that are in no place, or in two: every one that is archived is on record, its lives are in the trash or in a
/// file, and nobody else's are.
const WRONG_PLACES: [&str; 6] = [
    "select count(*)
       from letter_keys k
       left join archive a on a.id = k.id
      where a.id is null and k.place = 'archived'
         or a.id is not null and (a.place <> k.place or a.key <> k.key)",
    "select count(*)
       from archive a
       left join letter_keys k on k.id = a.id
       left join dead_letter_queue l on l.id = a.id and l.created_at = a.created_at
      where k.id is null
         or l.id is not null",
    "select count(*)
       from archive a
       left join trash t on t.id = a.id
       left join trash_lives v on v.letter = a.id and v.life = a.life
       left join archive_rows r on r.letter = a.id and r.last_life = a.life
      where a.waiting <> (t.id is not null and t.life = a.life)
         or a.waiting <> (v.letter is not null)
         or a.waiting = (r.letter is not null)",
    "select count(*)
       from trash t
       left join archive a on a.id = t.id
      where a.waiting is distinct from true",
    "select count(*)
       from archive_rows r
       join lives v on v.letter = r.letter and v.life between r.first_life and r.last_life",
    "select count(*)
       from archive_rows r
       join trash_lives v on v.letter = r.letter and v.life between r.first_life and r.last_life",
];

/// The incident of a letter is found by its fingerprint; one that was merged into another is not listed.
const UNLISTED: &str = "
select count(*)
  from dead_letter_queue l
  left join fingerprints f on f.fingerprint = l.fingerprint
  left join incidents i on i.id = f.incident and i.merged_into is null
 where i.id is null
    or i.state = $1 and l.status = any($2)";

/// How many live letters nobody finds by looking through the incidents.
async fn unlisted(conn: &Conn) -> Result<u64, StoreError> {
    let unsettled = [Status::Pending.name(), Status::Reprocessing.name()];
    let row = conn.query_one(UNLISTED, &[&IncidentState::Closed.name(), &unsettled.as_slice()]).await?;
    row.count(0)
}

/// Incidents whose sums are not those of their letters.
const WRONG_INCIDENTS: &str = "
select count(*)
  from incidents i
  left join (select f.incident as incident, count(*) as letters,
                    count(*) filter (where l.status = any($1)) as unsettled
               from dead_letter_queue l
               join fingerprints f on f.fingerprint = l.fingerprint
              group by f.incident) r on r.incident = i.id
 where i.letters <> coalesce(r.letters, 0)
    or i.unsettled <> coalesce(r.unsettled, 0)";
