//! Lists of jobs, newest first. What people ask for most, what runs and what waits, is found by an index that holds
//! little else; everything else by going through the jobs, a bounded number at a time.

use lazaret_core::id::JobId;
use lazaret_core::limits;

use super::super::cell::{Cells, Uid, clean};
use super::super::conn::{Binds, Conn};
use super::super::filter::like;
use super::row;
use crate::StoreError;
use crate::engine::queues::{self, Way};
use crate::job::{JobPage, JobQuery, StoredJob};

/// The condition of the index of a way.
const fn condition(way: Way) -> Option<&'static str> {
    match way {
        Way::ById => None,
        Way::Held => Some("j.state = 'active' and j.worker is not null"),
        Way::Waiting => Some("j.state = 'available'"),
        Way::Due => Some("j.due_at is not null"),
    }
}

pub(in crate::postgres) async fn page(conn: &mut Conn, query: &JobQuery) -> Result<JobPage, StoreError> {
    let queues = queues::all(conn).await?;
    let Some(way) = queues::way(query, &queues) else { return Ok(JobPage { jobs: Vec::new(), next: None }) };
    let end = match way {
        Way::ById => window_end(conn, query.before).await?,
        Way::Held | Way::Waiting | Way::Due => None,
    };
    let mut jobs = Vec::new();
    let mut last = query.before;
    loop {
        // One more tells whether there is anything behind the page.
        let rows = query.limit + 1;
        let (sql, binds) = candidates(query, way, last, end, rows);
        let found = conn.ask(&sql, &binds).await?;
        for found in &found {
            if jobs.len() >= query.limit {
                return Ok(JobPage { jobs, next: last });
            }
            let StoredJob { job, .. } = row::read(found)?;
            last = Some(job.id);
            // Rows of an older format have their type in the packed text alone.
            if query.job_type.as_ref().is_none_or(|pattern| pattern.matches(&job.job_type)) {
                jobs.push(job);
            }
        }
        if found.len() < rows {
            return Ok(JobPage { jobs, next: end });
        }
    }
}

/// Jobs that match before an id, newest first, down to the end of the window.
fn candidates(
    query: &JobQuery,
    way: Way,
    before: Option<JobId>,
    end: Option<JobId>,
    rows: usize,
) -> (String, Binds) {
    let mut binds = Binds::default();
    let mut all: Vec<String> = Vec::new();
    if let Some(queue) = &query.queue {
        all.push(format!("j.queue = {}", binds.text(clean(queue))));
    }
    if let Some(state) = query.state {
        all.push(format!("j.state = {}", binds.text(state.name())));
    }
    if let Some(worker) = &query.worker {
        all.push(format!("j.worker = {}", binds.text(clean(worker))));
    }
    if let Some(before) = before {
        all.push(format!("j.id < {}", binds.id(*before.bytes())));
    }
    if let Some(end) = end {
        all.push(format!("j.id >= {}", binds.id(*end.bytes())));
    }
    if let Some(pattern) = &query.job_type {
        let mark = binds.text(like(&clean(pattern.text())));
        all.push(format!("(j.type is null or j.type like {mark})"));
    }
    let limit = binds.long(rows as i64);
    let (columns, and) = (row::COLUMNS, |all: &[String]| all.join(" and "));
    let from = match condition(way) {
        None if all.is_empty() => "from jobs j".to_owned(),
        None => format!("from jobs j where {}", and(&all)),
        Some(condition) => {
            all.insert(0, condition.to_owned());
            // Kept apart, or PostgreSQL goes through the ids until it has found enough.
            format!("from (select * from jobs j where {} offset 0) j", and(&all))
        }
    };
    (format!("select {columns} {from} order by j.id desc limit {limit}"), binds)
}

const WINDOW_END: &str = "
select id
  from jobs
 where id < $1
 order by id desc
 limit 1 offset $2";

/// The last job that this page looks at; nothing if so many are not left.
async fn window_end(conn: &Conn, before: Option<JobId>) -> Result<Option<JobId>, StoreError> {
    let before = before.map_or([u8::MAX; 16], |id| *id.bytes());
    let found = conn.query_opt(WINDOW_END, &[&Uid(before), &(limits::JOBS_LOOKED_AT_MAX as i64 - 1)]).await?;
    found.map(|row| Ok(JobId::from_bytes(row.id(0)?))).transpose()
}

#[cfg(test)]
mod tests {
    use lazaret_core::job::state::JobState;
    use lazaret_core::pattern::Pattern;

    use super::*;
    use crate::Store;
    use crate::postgres::PostgresStore;
    use crate::sqlite::Mode;
    use crate::testing::TestDatabase;

    /// Completed jobs for the most part; a few hundred of each kind that has an index of its own.
    const MANY: &str = "
    insert into jobs (id, queue, state, priority, attempt, enqueued_at, worker, due_at, ended_at, dead, detail, version)
    select gen_random_uuid(), 'q' || n % 10,
           case n % 200 when 0 then 'available' when 1 then 'active' when 2 then 'retryable' else 'completed' end, 0, 0,
           'epoch'::timestamptz + n * interval '1 ms', case n % 200 when 1 then 'w' || n % 7 end,
           case when n % 200 in (1, 2) then 'epoch'::timestamptz end,
           case when n % 200 > 2 then 'epoch'::timestamptz end, false, 'x', 1
      from generate_series(1, 40000) n;
    analyze jobs";

    async fn plan(conn: &Conn, query: &JobQuery, way: Way) -> String {
        let (sql, binds) = candidates(query, way, query.before, Some(JobId::from_bytes([0; 16])), 11);
        let rows = conn.ask(&format!("explain (costs off) {sql}"), &binds).await.unwrap();
        rows.iter().map(|row| row.cell::<String>(0).unwrap() + "\n").collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_are_found_by_the_index_that_holds_them() {
        let database = TestDatabase::new();
        let store = PostgresStore::open(&database.url(), Mode::Test).await.unwrap();
        let conn = Conn::of(&store.lanes).await.unwrap();
        conn.batch(MANY).await.unwrap();
        let all =
            JobQuery { queue: None, state: None, job_type: None, worker: None, before: None, limit: 10 };
        let whole = |state| JobQuery {
            queue: Some("q1".into()),
            state: Some(state),
            job_type: Some(Pattern::new("a*")),
            before: Some(JobId::from_bytes([200; 16])),
            ..all.clone()
        };
        let held = JobQuery { worker: Some("w1".into()), ..all.clone() };
        for (query, way, index) in [
            (all.clone(), Way::ById, "jobs_id_key"),
            (held.clone(), Way::Held, "jobs_held"),
            (JobQuery { worker: held.worker, ..whole(JobState::Active) }, Way::Held, "jobs_held"),
            (whole(JobState::Available), Way::Waiting, "jobs_waiting"),
            (whole(JobState::Retryable), Way::Due, "jobs_due"),
        ] {
            let plan = plan(&conn, &query, way).await;
            assert!(plan.contains(index), "{query:?}: {plan}");
            assert!(!plan.contains("Seq Scan"), "{query:?}: {plan}");
            assert_eq!(plan.contains("Sort"), way != Way::ById, "{query:?}: {plan}");
        }
        store.close().await.unwrap();
    }
}
