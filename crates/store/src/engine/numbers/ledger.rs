//! The ledger: every letter that was captured is somewhere, by the counters or by a recount of the rows.

use lazaret_core::incident::IncidentState;
use lazaret_core::lifecycle::{Place, Status};

use super::stats::terms;
use crate::StoreError;
use crate::engine::dimension::Dimension;
use crate::engine::holds;
use crate::seam::{Conn, Query, Row, Sql, binds, sql};
use crate::stats::{Ledger, LedgerBy};

const PLACES: Sql = sql!(
    "
select place, removal, count(*) as keys
  from letter_keys
 group by place, removal
 limit 100"
);

/// Asked within a snapshot.
pub(super) async fn ledger(conn: &mut impl Conn, by: LedgerBy) -> Result<Ledger, StoreError> {
    let statuses = match by {
        LedgerBy::Counters => terms(conn, Dimension::All, "").await?.to_vec(),
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
    let read = |row: &Row<'_>| -> Result<(Place, Option<String>, u64), StoreError> {
        Ok((row.get("place")?, row.get("removal")?, row.get("keys")?))
    };
    for (place, removal, keys) in conn.query(&PLACES, &[], read).await? {
        ledger.captured += keys;
        match (place, removal.as_deref()) {
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

const RECOUNT: Sql =
    sql!("select status, count(*) as letters from dead_letter_queue group by status limit 100");

async fn recount(conn: &mut impl Conn) -> Result<Vec<(Status, u64)>, StoreError> {
    conn.query(&RECOUNT, &[], |row| Ok((row.get("status")?, row.get("letters")?))).await
}

/// How many counters say something else than the rows, and how many letters are not in one place.
async fn wrong_counters(conn: &mut impl Conn) -> Result<u64, StoreError> {
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
        let query = Query::new(format!(
            "select (select count(*) from ({rows} except {kept}) a)
                  + (select count(*) from ({kept} except {rows}) b) as wrong"
        ));
        wrong += conn.ask(&query, wrong_rows).await?.into_iter().sum::<u64>();
    }
    wrong += conn.query_one(&WRONG_INCIDENTS, binds![unsettled()], wrong_rows).await?;
    Ok(wrong + count_misplaced(conn).await? + holds::count_contradictions(conn).await?)
}

/// How many letters, keys and files contradict each other about where a letter is.
pub(crate) async fn count_misplaced(conn: &mut impl Conn) -> Result<u64, StoreError> {
    let mut wrong = 0;
    for check in MISPLACED {
        wrong += conn.query_one(check, &[], wrong_rows).await?;
    }
    Ok(wrong)
}

fn wrong_rows(row: &Row<'_>) -> Result<u64, StoreError> {
    row.get("wrong")
}

fn unsettled() -> Vec<&'static str> {
    vec![Status::Pending.name(), Status::Reprocessing.name()]
}

/// The incident of a letter is found by its fingerprint; one that was merged into another is not listed.
const UNLISTED: Sql = sql!(
    "
select count(*) as wrong
  from dead_letter_queue l
  left join fingerprints f on f.fingerprint = l.fingerprint
  left join incidents i on i.id = f.incident and i.merged_into is null
 where i.id is null
    or i.state = $1 and l.status {any $2}"
);

/// How many live letters nobody finds by looking through the incidents.
async fn unlisted(conn: &mut impl Conn) -> Result<u64, StoreError> {
    conn.query_one(&UNLISTED, binds![IncidentState::Closed, unsettled()], wrong_rows).await
}

/// Incidents whose sums are not those of their letters.
const WRONG_INCIDENTS: Sql = sql!(
    "
select count(*) as wrong
  from incidents i
  left join (select f.incident as incident, count(*) as letters,
                    count(*) filter (where l.status {any $1}) as unsettled
               from dead_letter_queue l
               join fingerprints f on f.fingerprint = l.fingerprint
              group by f.incident) r on r.incident = i.id
 where i.letters <> coalesce(r.letters, 0)
    or i.unsettled <> coalesce(r.unsettled, 0)"
);

/// What the key of a letter, the index of the archive, the trash and the files say has to be the same. Each counts what is
/// wrong in one way.
const MISPLACED: &[Sql] = &[
    // What waits for a file is in the trash, whole, and not in a file.
    sql!(
        "
select count(*) as wrong
  from archive a
 where a.waiting{sqlite  = 1}
   and (not exists (select 1
                      from trash t
                      join trash_lives v on v.letter = t.{sqlite letter}{postgres id} and v.life = t.life
                     where t.id = a.id
                       and t.life = a.life)
        or exists (select 1 from archive_rows r where r.letter = a.id and r.last_life >= a.life))"
    ),
    // What does not wait is in a file and not in the trash.
    sql!(
        "
select count(*) as wrong
  from archive a
 where not a.waiting
   and (exists (select 1 from trash t where t.id = a.id)
        or not exists (select 1 from archive_rows r where r.letter = a.id and r.last_life = a.life))"
    ),
    // What the index holds is what the keys say.
    sql!(
        "
select count(*) as wrong
  from archive a
 where not exists (select 1
                     from letter_keys k
                    where k.id = a.id
                      and k.key = a.key
                      and k.place = a.place
                      and k.removed_status = a.status)"
    ),
    sql!(
        "
select count(*) as wrong
  from letter_keys k
 where k.place = 'archived'
   and not exists (select 1 from archive a where a.id = k.id)"
    ),
    // Live letters are where their keys say, and nowhere else.
    sql!(
        "
select count(*) as wrong
  from dead_letter_queue l
 where not exists (select 1 from letter_keys k where k.id = l.id and k.place = 'live')
    or exists (select 1 from archive a where a.id = l.id)"
    ),
    sql!(
        "
select count(*) as wrong
  from trash t
 where not exists (select 1 from archive a where a.id = t.id and a.waiting{sqlite  = 1})"
    ),
    // Files hold lives of letters that are there.
    sql!(
        "
select count(*) as wrong
  from archive_rows r
 where not exists (select 1
                     from dead_letter_queue l
                    where l.id = r.letter{postgres  and l.created_at = uuid_time(r.letter)})
   and not exists (select 1 from archive a where a.id = r.letter)"
    ),
    // Each life of a letter is in one place.
    sql!(
        "
select count(*) as wrong
  from (select r.letter as id, sum(r.last_life - r.first_life + 1) as away
          from archive_rows r
         group by r.letter) w
  left join dead_letter_queue l on l.id = w.id{postgres  and l.created_at = uuid_time(w.id)}
  left join archive a on a.id = w.id
  left join trash t on t.id = w.id
 where w.away
       + (select count(*) from lives v where v.letter = l.{sqlite letter}{postgres id})
       + (select count(*) from trash_lives v where v.letter = t.{sqlite letter}{postgres id})
       <> coalesce(l.life, a.life)"
    ),
    // A key stands for one letter in each generation.
    sql!(
        "
select count(*) as wrong
  from (select 1
          from letter_keys
         group by key, generation
        having count(*) > 1) t"
    ),
    // SQLite finds a key that is not among the newest by `key_index`.
    sql!(
        "
select {postgres 0::bigint as wrong}{sqlite count(*) as wrong
  from letter_keys k
 where k.number <= coalesce((select cast(value as integer) from meta where key = 'keys'), 0)
   and not exists (select 1 from key_index x where x.hash = substr(k.key, 1, 8) and x.number = k.number)}"
    ),
];
