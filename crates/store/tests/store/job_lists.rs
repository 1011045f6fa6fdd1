//! Cases: jobs are listed newest first, by what is asked for, page by page.

use std::collections::BTreeSet;

use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::state::JobState;
use lazaret_core::pattern::Pattern;
use lazaret_store::job::{JobPage, JobQuery};

use crate::jobs::{ack, enqueue, fail, moved, new};
use crate::rig::{Rig, at};

const ALL: JobQuery =
    JobQuery { queue: None, state: None, job_type: None, worker: None, before: None, limit: 100 };

/// Every job that matches, page by page; each page has to be full or the last one.
async fn walk(rig: &Rig, query: &JobQuery) -> Vec<Job> {
    let mut query = query.clone();
    let mut jobs = Vec::new();
    loop {
        let JobPage { jobs: page, next } = rig.store().jobs(query.clone()).await.unwrap();
        assert!(page.len() <= query.limit);
        assert!(next.is_none() || page.len() == query.limit);
        jobs.extend(page);
        query.before = next;
        if next.is_none() {
            return jobs;
        }
    }
}

/// Jobs of two queues, two types and all states, some of them held by workers.
async fn mixed(rig: &Rig) -> Vec<JobId> {
    let retry = r#""retry":{"initial_interval":"PT5S","jitter":false}"#;
    let dead = r#""retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}"#;
    let states = ["", retry, dead, "", "", r#""pending":true"#, r#""delay_until":"+PT9S""#, ""];
    let mut ids = Vec::new();
    for n in 0..40_usize {
        let queue = ["a", "b"][n / 2 % 2];
        let comma = if states[n % 8].is_empty() { "" } else { "," };
        let options = format!(r#""queue":"{queue}"{comma}{}"#, states[n % 8]);
        let job_type = ["mail.send", "mail.drop"][n % 2].to_owned();
        let job = Job { job_type, ..new(rig, &options, at(n as i64)) };
        let id = enqueue(rig, vec![job], at(n as i64)).await[0];
        ids.push(id);
        if n % 8 < 5 {
            let worker = ["w1", "w2", ""][n % 3].to_owned();
            let fetched =
                rig.store().fetch_jobs(vec![queue.into()], 100, worker, None, at(100)).await.unwrap();
            assert!(fetched.iter().any(|job| job.id == id));
        }
        match n % 8 {
            0 => ack(rig, id, at(101)).await,
            1 | 2 => {
                fail(rig, id, "no", at(101)).await;
            }
            3 => moved(rig, id, |job| job.cancelled(at(101)).unwrap(), at(101)).await,
            _ => {}
        }
    }
    ids
}

pub async fn jobs_are_listed_newest_first_by_what_is_asked_for(rig: &mut Rig) {
    let mut ids = mixed(rig).await;
    ids.reverse();
    let all = walk(rig, &ALL).await;
    assert_eq!(all.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    let holder = |job: &Job| job.held.as_ref().and_then(|held| held.worker.clone());
    let seen: BTreeSet<JobState> = all.iter().map(|job| job.state).collect();
    assert_eq!(seen.len(), JobState::ALL.len(), "{seen:?}");
    let queues = [None, Some("a"), Some("b"), Some("none")];
    let types = [None, Some("mail.send"), Some("mail.*"), Some("*drop"), Some("mail"), Some("m?il.*")];
    let states: Vec<_> = std::iter::once(None).chain(JobState::ALL.map(Some)).collect();
    for queue in queues {
        for state in &states {
            for job_type in types {
                for worker in [None, Some("w1"), Some("w9")] {
                    let query = JobQuery {
                        queue: queue.map(str::to_owned),
                        state: *state,
                        job_type: job_type.map(Pattern::new),
                        worker: worker.map(str::to_owned),
                        ..ALL
                    };
                    let matching = all.iter().filter(|job| {
                        queue.is_none_or(|queue| job.queue == queue)
                            && state.is_none_or(|state| job.state == state)
                            && query.job_type.as_ref().is_none_or(|pattern| pattern.matches(&job.job_type))
                            && worker.is_none_or(|worker| holder(job).as_deref() == Some(worker))
                    });
                    let expected: Vec<Job> = matching.cloned().collect();
                    let found = walk(rig, &JobQuery { limit: 3, ..query.clone() }).await;
                    assert_eq!(found, expected, "{query:?}");
                }
            }
        }
    }
}

pub async fn jobs_that_come_in_while_paging_disturb_nothing(rig: &mut Rig) {
    let ids = enqueue(rig, (0..6).map(|n| new(rig, "", at(n))).collect(), at(10)).await;
    let first = rig.store().jobs(JobQuery { limit: 2, ..ALL }).await.unwrap();
    enqueue(rig, vec![new(rig, "", at(11))], at(11)).await;
    let rest = walk(rig, &JobQuery { limit: 2, before: first.next, ..ALL }).await;
    let seen: Vec<_> = first.jobs.iter().chain(&rest).map(|job| job.id).rev().collect();
    assert_eq!(seen, ids);
    assert_eq!(rig.store().jobs(JobQuery { limit: 7, ..ALL }).await.unwrap().next, None);
}
