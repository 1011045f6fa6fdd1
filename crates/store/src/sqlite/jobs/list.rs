//! Lists of jobs, newest first. What people ask for most, what runs and what waits, is found by an index that holds
//! little else; everything else by going through the jobs, a bounded number at a time.

use lazaret_core::id::JobId;
use lazaret_core::limits;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::super::filter::glob;
use crate::StoreError;
use crate::engine::queues::{self, Way};
use crate::job::{JobPage, JobQuery, StoredJob};
use crate::seam::ready;

/// The index of a way, and its own condition.
const fn index(way: Way) -> (&'static str, &'static str) {
    match way {
        Way::ById => ("sqlite_autoindex_jobs_1", "1"),
        Way::Held => ("jobs_held", "state = 'active' and worker is not null"),
        Way::Waiting => ("jobs_waiting", "state = 'available'"),
        Way::Due => ("jobs_due", "due_at is not null"),
    }
}

pub(in crate::sqlite) fn page(conn: &mut Connection, query: &JobQuery) -> Result<JobPage, StoreError> {
    let queues = ready(queues::all(conn))?;
    let Some(way) = queues::way(query, &queues) else { return Ok(JobPage { jobs: Vec::new(), next: None }) };
    let end = match way {
        Way::ById => window_end(conn, query.before)?,
        Way::Held | Way::Waiting | Way::Due => None,
    };
    let (sql, binds) = candidates(query, way, end);
    let mut statement = conn.prepare_cached(&sql)?;
    let mut found = statement.query(rusqlite::params_from_iter(binds))?;
    let mut jobs = Vec::new();
    let mut last = None;
    while let Some(row) = found.next()? {
        if jobs.len() >= query.limit {
            return Ok(JobPage { jobs, next: last });
        }
        let id = JobId::from_bytes(row.get(0)?);
        last = Some(id);
        let Some(StoredJob { job, .. }) = super::job(conn, id)? else { continue };
        // Rows of an older format have their type in the packed text alone.
        if query.job_type.as_ref().is_none_or(|pattern| pattern.matches(&job.job_type)) {
            jobs.push(job);
        }
    }
    Ok(JobPage { jobs, next: end.map(JobId::from_bytes) })
}

/// The ids of jobs that match, newest first, down to the end of the window.
fn candidates(query: &JobQuery, way: Way, end: Option<[u8; 16]>) -> (String, Vec<Value>) {
    let (index, own) = index(way);
    let mut sql = format!("select id from jobs indexed by {index} where {own}");
    let mut binds = Vec::new();
    let mut and = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql.push_str(&format!(" and {condition}"));
            binds.push(value);
        }
    };
    let text = |text: &str| Value::Text(text.to_owned());
    and("queue = ?", query.queue.as_deref().map(text));
    and("state = ?", query.state.map(|state| text(state.name())));
    and("worker = ?", query.worker.as_deref().map(text));
    and("id < ?", query.before.map(|id| Value::Blob(id.bytes().to_vec())));
    and("id >= ?", end.map(|id| Value::Blob(id.to_vec())));
    // A pattern that no index helps with; `glob` would take a NUL for its end.
    let pattern = query.job_type.as_ref().map(|pattern| pattern.text()).filter(|text| !text.contains('\0'));
    and("(type is null or type glob ?)", pattern.map(|pattern| text(&glob(pattern))));
    sql.push_str(" order by id desc");
    (sql, binds)
}

const WINDOW_END: &str = "
select id
  from jobs indexed by sqlite_autoindex_jobs_1
 where id < ?1
 order by id desc
 limit 1 offset ?2";

/// The last job that this page looks at; nothing if so many are not left.
fn window_end(conn: &Connection, before: Option<JobId>) -> Result<Option<[u8; 16]>, StoreError> {
    let before = before.map_or([u8::MAX; 16], |id| *id.bytes());
    let mut statement = conn.prepare_cached(WINDOW_END)?;
    Ok(statement.query_row((before, limits::JOBS_LOOKED_AT_MAX as i64 - 1), |row| row.get(0)).optional()?)
}

#[cfg(test)]
mod tests {
    use lazaret_core::job::state::JobState;
    use lazaret_core::pattern::Pattern;

    use super::super::super::migrate;
    use super::*;

    #[test]
    fn jobs_are_found_by_the_index_that_holds_them() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate::migrate(&mut conn, 0).unwrap();
        let all =
            JobQuery { queue: None, state: None, job_type: None, worker: None, before: None, limit: 10 };
        let whole = JobQuery {
            queue: Some("q".into()),
            state: Some(JobState::Active),
            job_type: Some(Pattern::new("a*")),
            worker: Some("w".into()),
            before: Some(JobId::from_bytes([7; 16])),
            limit: 10,
        };
        for query in [all, whole] {
            for way in [Way::ById, Way::Held, Way::Waiting, Way::Due] {
                let (expected, _) = index(way);
                let (sql, binds) = candidates(&query, way, Some([0; 16]));
                let mut statement = conn.prepare(&format!("explain query plan {sql}")).unwrap();
                let steps =
                    statement.query_map(rusqlite::params_from_iter(binds), |row| row.get("detail")).unwrap();
                let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
                assert!(steps[0].contains(expected), "{query:?}: {steps:?}");
                let sorted = steps.iter().any(|step| step.contains("TEMP B-TREE"));
                assert_eq!(sorted, way != Way::ById, "{query:?}: {steps:?}");
            }
        }
    }
}
