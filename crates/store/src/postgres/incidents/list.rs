//! Incidents as lists see them. What is asked of each of a page is asked of all of them at once.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::Status;
use lazaret_core::pattern::Pattern;
use lazaret_core::time::Time;
use tokio_postgres::Row;

use super::super::cell::{Cells, Uid};
use super::super::conn::{Binds, Conn};
use super::super::counters::Dimension;
use super::super::filter::like;
use super::super::rows;
use super::record::category;
use crate::StoreError;
use crate::incident::{Incident, IncidentCounts, IncidentKey, IncidentPage, IncidentQuery, IncidentSort};

const COLUMNS: &str = "
i.id, i.state, i.opened_at, i.type, i.error_type, i.title, i.template, i.class, i.letters, i.last_seen_at,
i.merged_into, i.category, i.assignee";

/// How many these are.
const COLUMNS_COUNT: usize = 13;

/// Reads rows that begin with the columns above, in their order.
async fn read(conn: &Conn, rows: &[Row]) -> Result<Vec<Incident>, StoreError> {
    let ids: Vec<IncidentId> =
        rows.iter().map(|row| row.id(0).map(IncidentId::from_bytes)).collect::<Result<_, _>>()?;
    let (mut newest, mut by_status) =
        tokio::try_join!(newest_fingerprints(conn, &ids), by_status(conn, &ids))?;
    let mut incidents = Vec::with_capacity(rows.len());
    for (row, id) in rows.iter().zip(ids) {
        incidents.push(Incident {
            id,
            fingerprint: newest
                .remove(&id)
                .map_or_else(|| Fingerprint::stored(String::new()), |(fingerprint, _)| fingerprint),
            title: row.cell(5)?,
            state: super::state(row.cell(1)?)?,
            letter_type: row.cell(3)?,
            error_type: row.cell(4)?,
            template: row.cell(6)?,
            class: rows::class(row.cell(7)?)?,
            analysed: row.cell::<Option<&str>>(11)?.map(category).transpose()?,
            assignee: row.cell(12)?,
            letters: row.count(8)?,
            by_status: by_status.remove(&id).unwrap_or_else(no_letters),
            first_seen_at: row.time(2)?,
            last_seen_at: row.time(9)?,
            merged_into: row.id_opt(10)?.map(IncidentId::from_bytes),
        });
    }
    Ok(incidents)
}

const NEWEST_FINGERPRINTS: &str = "
select distinct on (f.incident) f.incident, f.fingerprint, f.parts
  from fingerprints f
  left join lateral (select true as used from counters where dimension = $2 and value = f.fingerprint limit 1) c on true
 where f.incident = any($1)
 order by f.incident, c.used nulls last, f.first_seen_at desc, f.fingerprint";

/// The newest fingerprint of each incident, one that letters have before one that none has. Counters are asked for one
/// by one, here and below (`limit` and `offset` see to it): there are as many of them as orders.
pub(super) async fn newest_fingerprints(
    conn: &Conn,
    incidents: &[IncidentId],
) -> Result<HashMap<IncidentId, (Fingerprint, Parts)>, StoreError> {
    let mut newest = HashMap::new();
    let ids = uids(incidents);
    for row in conn.query(NEWEST_FINGERPRINTS, &[&ids, &Dimension::Fingerprint.name()]).await? {
        let parts = Parts::from_json(row.cell(2)?).unwrap_or_default();
        newest.insert(IncidentId::from_bytes(row.id(0)?), (Fingerprint::stored(row.cell(1)?), parts));
    }
    Ok(newest)
}

const BY_STATUS: &str = "
select f.incident, c.term, sum(c.letters)::bigint
  from fingerprints f
 cross join lateral (select term, letters from counters where dimension = $2 and value = f.fingerprint offset 0) c
 where f.incident = any($1)
 group by f.incident, c.term";

type ByStatus = BTreeMap<&'static str, u64>;

fn no_letters() -> ByStatus {
    BTreeMap::from(Status::ALL.map(|status| (status.name(), 0)))
}

async fn by_status(
    conn: &Conn,
    incidents: &[IncidentId],
) -> Result<HashMap<IncidentId, ByStatus>, StoreError> {
    let mut counts: HashMap<IncidentId, ByStatus> = HashMap::new();
    for row in conn.query(BY_STATUS, &[&uids(incidents), &Dimension::Fingerprint.name()]).await? {
        let status = rows::status(row.cell(1)?)?;
        let counts = counts.entry(IncidentId::from_bytes(row.id(0)?)).or_insert_with(no_letters);
        counts.insert(status.name(), row.count(2)?);
    }
    Ok(counts)
}

fn uids(incidents: &[IncidentId]) -> Vec<Uid> {
    incidents.iter().map(|id| Uid(*id.bytes())).collect()
}

/// Those of these incidents that there are, in no order.
pub(super) async fn of_ids(conn: &Conn, incidents: &[IncidentId]) -> Result<Vec<Incident>, StoreError> {
    let sql = format!("select {COLUMNS} from incidents i where i.id = any($1)");
    read(conn, &conn.query(&sql, &[&uids(incidents)]).await?).await
}

/// Asked within a snapshot.
pub(in super::super) async fn page(conn: &Conn, query: &IncidentQuery) -> Result<IncidentPage, StoreError> {
    let column = match query.sort {
        IncidentSort::LastSeenDesc => "last_seen_at",
        IncidentSort::FirstSeenDesc => "opened_at",
        IncidentSort::LettersDesc => "letters",
        IncidentSort::UnsettledDesc => "unsettled",
    };
    let mut binds = Binds::default();
    let conditions = conditions(query, &mut binds);
    let counted = conn.ask(&format!("select count(*) from incidents i where {conditions}"), &binds).await?;
    let total = counted.first().map_or(Ok(0), |row| row.count(0))?;
    let mut sql = format!("select {COLUMNS}, i.{column} from incidents i where {conditions}");
    if let Some(after) = query.after {
        let value = match query.sort {
            IncidentSort::LastSeenDesc | IncidentSort::FirstSeenDesc => {
                binds.time(Time::from_ms(after.value))
            }
            IncidentSort::LettersDesc | IncidentSort::UnsettledDesc => binds.long(after.value),
        };
        let id = binds.id(*after.id.bytes());
        sql.push_str(&format!(" and (i.{column}, i.id) < ({value}, {id})"));
    }
    let limit = binds.long(query.limit as i64 + 1);
    sql.push_str(&format!(" order by i.{column} desc, i.id desc limit {limit}"));
    let mut rows = conn.ask(&sql, &binds).await?;
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().filter(|_| more).map(|row| key(query.sort, row)).transpose()?;
    Ok(IncidentPage { incidents: read(conn, &rows).await?, total, next })
}

const COUNTS: &str = "
select state, count(*)
  from incidents
 where merged_into is null
 group by state";

pub(in super::super) async fn counts(conn: &Conn) -> Result<IncidentCounts, StoreError> {
    let rows = conn.query(COUNTS, &[]).await?;
    rows.iter().map(|row| Ok((super::state(row.cell(0)?)?, row.count(1)?))).collect()
}

/// Where the next page begins if this is the last row of a page.
fn key(sort: IncidentSort, row: &Row) -> Result<IncidentKey, StoreError> {
    let value = match sort {
        IncidentSort::LastSeenDesc | IncidentSort::FirstSeenDesc => row.time(COLUMNS_COUNT)?.ms(),
        IncidentSort::LettersDesc | IncidentSort::UnsettledDesc => row.cell(COLUMNS_COUNT)?,
    };
    Ok(IncidentKey { value, id: IncidentId::from_bytes(row.id(0)?) })
}

/// What a page asks of incidents, joined by `and`.
fn conditions(query: &IncidentQuery, binds: &mut Binds) -> String {
    let mut all = vec!["i.merged_into is null".to_owned()];
    if !query.states.is_empty() {
        let states = binds.texts(query.states.iter().map(|state| state.name().to_owned()).collect());
        all.push(format!("i.state = any({states})"));
    }
    for (column, pattern) in [("type", &query.letter_type), ("error_type", &query.error_type)] {
        if let Some(pattern) = pattern {
            all.push(matching(column, pattern, binds));
        }
    }
    if let Some(class) = query.class {
        all.push(format!("i.class = {}", binds.text(class.name())));
    }
    match &query.text {
        Some(text) if text.contains('\0') => all.push(NEVER.to_owned()),
        // Only the case of ASCII is made the same, as in the embedded store; whatever the database takes for letters.
        Some(text) => {
            let text = binds.text(text.as_str());
            all.push(format!("strpos(lower(i.title collate \"C\"), lower({text} collate \"C\")) > 0"));
        }
        None => {}
    }
    if let Some(since) = query.since {
        all.push(format!("i.last_seen_at >= {}", binds.time(since)));
    }
    all.join(" and ")
}

/// No column holds a NUL, and none can be bound.
const NEVER: &str = "false";

fn matching(column: &str, pattern: &Pattern, binds: &mut Binds) -> String {
    match pattern.exact() {
        _ if pattern.text().contains('\0') => NEVER.to_owned(),
        Some(value) => format!("i.{column} = {}", binds.text(value)),
        None => format!("i.{column} like {}", binds.text(like(pattern.text()))),
    }
}
