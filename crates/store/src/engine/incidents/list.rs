//! Incidents as lists see them. What is asked of each of a page is asked of all of them at once.

use std::collections::{BTreeMap, HashMap};

use lazaret_core::fingerprint::{Fingerprint, Parts};
use lazaret_core::id::IncidentId;
use lazaret_core::lifecycle::Status;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::incident::{Incident, IncidentCounts, IncidentKey, IncidentPage, IncidentQuery, IncidentSort};
use crate::seam::{Conn, Query, Row, Sql, Table, binds, sql, table};

pub(crate) const INCIDENTS: Table = table!(
    "incidents" as "i": "id", "state", "opened_at", "type", "error_type", "title", "template", "class", "letters",
    "unsettled", "last_seen_at", "merged_into", "category", "assignee"
);

/// Reads an incident, without its fingerprint and the states of its letters.
fn read(row: &Row<'_>) -> Result<Incident, StoreError> {
    Ok(Incident {
        id: row.get("id")?,
        state: row.get("state")?,
        first_seen_at: row.get("opened_at")?,
        letter_type: row.get("type")?,
        error_type: row.get("error_type")?,
        title: row.get("title")?,
        template: row.get("template")?,
        class: row.get("class")?,
        letters: row.get("letters")?,
        last_seen_at: row.get("last_seen_at")?,
        merged_into: row.get("merged_into")?,
        analysed: row.get("category")?,
        assignee: row.get("assignee")?,
        fingerprint: Fingerprint::stored(String::new()),
        by_status: BTreeMap::from(Status::ALL.map(|status| (status.name(), 0))),
    })
}

/// Adds the fingerprints of incidents and the states of their letters.
async fn complete(conn: &mut impl Conn, incidents: &mut [Incident]) -> Result<(), StoreError> {
    let ids: Vec<IncidentId> = incidents.iter().map(|incident| incident.id).collect();
    let mut newest = newest_fingerprints(conn, &ids).await?;
    let values = binds![&ids];
    let counted = conn.query(&BY_STATUS, values, |row| {
        Ok((row.get::<IncidentId>("incident")?, row.get::<Status>("term")?, row.get::<u64>("letters")?))
    });
    let mut by_status: HashMap<IncidentId, Vec<(Status, u64)>> = HashMap::new();
    for (id, status, letters) in counted.await? {
        by_status.entry(id).or_default().push((status, letters));
    }
    for incident in incidents {
        if let Some((fingerprint, _)) = newest.remove(&incident.id) {
            incident.fingerprint = fingerprint;
        }
        for (status, letters) in by_status.remove(&incident.id).unwrap_or_default() {
            incident.by_status.insert(status.name(), letters);
        }
    }
    Ok(())
}

// PostgreSQL asks for counters one by one (`limit` and `offset` see to it): there are as many of them as orders.
const NEWEST_FINGERPRINTS: Sql = sql!(
    "
{sqlite select incident, fingerprint, parts
  from (select f.incident, f.fingerprint, f.parts,
               row_number() over (partition by f.incident
                                  order by exists (select 1
                                                     from counters c
                                                    where c.dimension = 'fingerprint'
                                                      and c.value = f.fingerprint) desc,
                                           f.first_seen_at desc, f.fingerprint) as place
          from fingerprints f
         where f.incident in rarray($1))
 where place = 1}{postgres select distinct on (f.incident) f.incident, f.fingerprint, f.parts
  from fingerprints f
  left join lateral (select true as used
                       from counters
                      where dimension = 'fingerprint'
                        and value = f.fingerprint
                      limit 1) c on true
 where f.incident = any($1)
 order by f.incident, c.used nulls last, f.first_seen_at desc, f.fingerprint}"
);

/// The newest fingerprint of each incident, one that letters have before one that none has.
pub(super) async fn newest_fingerprints(
    conn: &mut impl Conn,
    incidents: &[IncidentId],
) -> Result<HashMap<IncidentId, (Fingerprint, Parts)>, StoreError> {
    let values = binds![incidents];
    let found = conn.query(&NEWEST_FINGERPRINTS, values, |row| Ok((row.get("incident")?, fingerprint(row)?)));
    Ok(found.await?.into_iter().collect())
}

/// A fingerprint and what it is made of.
pub(super) fn fingerprint(row: &Row<'_>) -> Result<(Fingerprint, Parts), StoreError> {
    let text = Fingerprint::stored(row.get("fingerprint")?);
    Ok((text, Parts::from_json(&row.get::<String>("parts")?).unwrap_or_default()))
}

// Without `cross` SQLite begins with all counters of the dimension.
const BY_STATUS: Sql = sql!(
    "
select f.incident, c.term, {sqlite sum(c.letters)}{postgres sum(c.letters)::bigint} as letters
  from fingerprints f
 cross join {sqlite counters c on c.dimension = 'fingerprint' and c.value = f.fingerprint}{postgres lateral (
         select term, letters from counters where dimension = 'fingerprint' and value = f.fingerprint offset 0) c}
 where f.incident {any $1}
 group by f.incident, c.term"
);

const OF_IDS: Sql = sql!("select {} from incidents i where i.id {any $1}", INCIDENTS);

/// Those of these incidents that there are, in no order.
pub(super) async fn of_ids(conn: &mut impl Conn, ids: &[IncidentId]) -> Result<Vec<Incident>, StoreError> {
    let mut incidents = conn.query(&OF_IDS, binds![ids], read).await?;
    complete(conn, &mut incidents).await?;
    Ok(incidents)
}

/// One page, asked within a snapshot.
pub(super) async fn page(conn: &mut impl Conn, query: &IncidentQuery) -> Result<IncidentPage, StoreError> {
    let (column, index) = match query.sort {
        IncidentSort::LastSeenDesc => ("last_seen_at", "incidents_by_last_seen"),
        IncidentSort::FirstSeenDesc => ("opened_at", "incidents_by_opening"),
        IncidentSort::LettersDesc => ("letters", "incidents_by_letters"),
        IncidentSort::UnsettledDesc => ("unsettled", "incidents_by_unsettled"),
    };
    let from = format!("from incidents i{{sqlite  indexed by {index}}} where i.merged_into is null");
    let mut counted = Query::new(format!("select count(*) as total {from}"));
    restrict(conn, &mut counted, query);
    let total = conn.ask(&counted, |row| row.get("total")).await?.pop().unwrap_or(0);
    let mut listed = Query::new(format!("select {} {from}", INCIDENTS.list));
    restrict(conn, &mut listed, query);
    if let Some(after) = query.after {
        listed.bind(&format!(" and (i.{column}, i.id) < ($, "), key_value(query.sort, after.value));
        listed.bind("$)", after.id);
    }
    listed.push(&format!(" order by i.{column} desc, i.id desc"));
    listed.bind(" limit $", query.limit + 1);
    let mut rows = conn.ask(&listed, |row| Ok((read(row)?, key(query.sort, row)?))).await?;
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows.last().map(|(_, key)| *key).filter(|_| more);
    let mut incidents: Vec<Incident> = rows.into_iter().map(|(incident, _)| incident).collect();
    complete(conn, &mut incidents).await?;
    Ok(IncidentPage { incidents, total, next })
}

/// Where the next page begins if this is the last row of a page.
fn key(sort: IncidentSort, row: &Row<'_>) -> Result<IncidentKey, StoreError> {
    let value = match sort {
        IncidentSort::LastSeenDesc => row.get::<Time>("last_seen_at")?.ms(),
        IncidentSort::FirstSeenDesc => row.get::<Time>("opened_at")?.ms(),
        IncidentSort::LettersDesc => row.get("letters")?,
        IncidentSort::UnsettledDesc => row.get("unsettled")?,
    };
    Ok(IncidentKey { value, id: row.get("id")? })
}

/// What a key is compared by, as its column holds it.
fn key_value(sort: IncidentSort, value: i64) -> crate::seam::Value<'static> {
    match sort {
        IncidentSort::LastSeenDesc | IncidentSort::FirstSeenDesc => Time::from_ms(value).into(),
        IncidentSort::LettersDesc | IncidentSort::UnsettledDesc => value.into(),
    }
}

/// Adds what a page asks of incidents.
fn restrict<'a>(conn: &impl Conn, all: &mut Query<'a>, query: &'a IncidentQuery) {
    if !query.states.is_empty() {
        let states: Vec<&str> = query.states.iter().map(|state| state.name()).collect();
        all.bind(" and i.state {any $}", states);
    }
    for (column, pattern) in [("i.type", &query.letter_type), ("i.error_type", &query.error_type)] {
        if let Some(pattern) = pattern {
            all.match_pattern(conn.dialect(), column, pattern);
        }
    }
    if let Some(class) = query.class {
        all.bind(" and i.class = $", class);
    }
    if let Some(text) = &query.text {
        // Only the case of ASCII is made the same, whatever the database takes for letters.
        all.bind(
            " and {sqlite instr(lower(i.title), lower($))}\
             {postgres strpos(lower(i.title collate \"C\"), lower($ collate \"C\"))} > 0",
            text,
        );
        all.never_if_unkept(conn.dialect(), text);
    }
    if let Some(since) = query.since {
        all.bind(" and i.last_seen_at >= $", since);
    }
}

const COUNTS: Sql = sql!(
    "
select state, count(*) as incidents
  from incidents
 where merged_into is null
 group by state"
);

pub(super) async fn counts(conn: &mut impl Conn) -> Result<IncidentCounts, StoreError> {
    let counted = conn.query(&COUNTS, &[], |row| Ok((row.get("state")?, row.get("incidents")?)));
    Ok(counted.await?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use rusqlite::vtab::array;

    use super::*;
    use crate::sqlite::migrate;

    #[test]
    fn the_counts_of_incidents_are_found_by_their_fingerprints() {
        let mut conn = Connection::open_in_memory().unwrap();
        array::load_module(&conn).unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        for (sql, step) in [
            (BY_STATUS.sqlite, "(dimension=? AND value=?)"),
            (BY_STATUS.sqlite, "(incident=?)"),
            (NEWEST_FINGERPRINTS.sqlite, "(incident=?)"),
        ] {
            let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
            let steps = statement.query_map([rusqlite::types::Null], |row| row.get("detail")).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            assert!(steps.iter().any(|found| found.contains(step)), "{steps:?}");
        }
    }
}
