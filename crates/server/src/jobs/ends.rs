//! The ends of many runs at once, as a worker reports them: prepared beside the requests, committed together.
//!
//! Each end succeeds or fails by itself, as if it were the only one.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lazaret_core::id::JobId;
use lazaret_core::job::Job;
use lazaret_core::job::failure::Nack;
use lazaret_core::job::worker::Ack;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::job::{JobChange, StoredJob};

use super::{Moved, NotDone, Step, Written, acked, change, nacked, read_id};
use crate::app::App;

/// How one run ended.
#[derive(Clone, Debug)]
pub enum End {
    Ack(Ack),
    Nack(Box<Nack>),
}

impl End {
    fn job_id(&self) -> &str {
        match self {
            End::Ack(ack) => &ack.job_id,
            End::Nack(nack) => &nack.job_id,
        }
    }

    fn step(&self, app: &App, job: Job, now: Time) -> Result<Step, NotDone> {
        match self {
            End::Ack(ack) => acked(job, ack, now),
            End::Nack(nack) => nacked(app, job, nack, now),
        }
    }
}

/// Ends that are prepared on the thread that serves them: grouping one failure takes some 20 µs.
const PREPARE_INLINE_MAX: usize = 8;

/// Ends that are read and written one by one at the same time, because the job was not handed out by this instance.
const AT_ONCE_MAX: usize = 16;

/// Ends runs; the outcomes come in order.
pub async fn end_all(app: &Arc<App>, ends: Vec<End>) -> Vec<Result<Moved, NotDone>> {
    let count = ends.len();
    let preparing = Arc::clone(app);
    let prepare_all =
        move || ends.into_iter().map(|end| Prepared::new(&preparing, end)).collect::<Vec<Prepared>>();
    let prepared = if count <= PREPARE_INLINE_MAX {
        prepare_all()
    } else {
        match tokio::task::spawn_blocking(prepare_all).await {
            Ok(prepared) => prepared,
            Err(_) => return (0..count).map(|_| Err(unprepared())).collect(),
        }
    };
    let (mut changes, mut waiting) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for Prepared { end, ready } in prepared {
        waiting.push((
            end,
            ready.map(|(change, moved)| {
                changes.push(change);
                moved
            }),
        ));
    }
    let mut changed = if changes.is_empty() {
        Vec::new().into_iter()
    } else {
        app.store.change_jobs(changes).await.into_iter()
    };
    let outcomes = waiting.into_iter().map(|(end, moved)| {
        let outcome = moved.and_then(|moved| Some((moved, changed.next()?)));
        async move {
            if let Some((HandedMove { previous, written }, changed)) = outcome
                && let Some(job) = written.end(app, changed?)?
            {
                return Ok(Moved { previous, job });
            }
            change(app, read_id(end.job_id())?, |job, now| end.step(app, job, now)).await
        }
    });
    // Collected first: what the store has answered must be told in any case, in the order it was asked for.
    let outcomes: Vec<_> = outcomes.collect();
    stream::iter(outcomes).buffered(AT_ONCE_MAX).collect().await
}

fn unprepared() -> NotDone {
    NotDone::Store(StoreError::Unavailable { doing: "preparing the ends of jobs", source: None })
}

/// An end, with its change if this instance handed the job out a moment ago.
struct Prepared {
    end: End,
    ready: Option<(JobChange, HandedMove)>,
}

/// What is told of the change of a job that was handed out.
struct HandedMove {
    previous: lazaret_core::job::state::JobState,
    written: Written,
}

impl Prepared {
    fn new(app: &App, end: End) -> Prepared {
        let ready = read_id(end.job_id()).ok().and_then(|id| handed_change(app, id, &end));
        Prepared { end, ready }
    }
}

/// The change of a job that was handed out. That it was handed out is no reason to refuse anything, so what is refused
/// here is read again.
fn handed_change(app: &App, id: JobId, end: &End) -> Option<(JobChange, HandedMove)> {
    let StoredJob { job, version } = app.store.handed_job(id)?;
    let (now, previous) = (app.clock.now(), job.state);
    let step = end.step(app, job, now).ok()?;
    let (change, written) = Written::begin((id, version), step, now);
    Some((change, HandedMove { previous, written }))
}
