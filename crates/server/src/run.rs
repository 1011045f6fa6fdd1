//! The loops: each calls a tick until it is idle, then waits for a change or for a while.

mod alerts;
mod drive;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_core::limits;
use lazaret_store::StoreError;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::app::App;
use crate::archive;
use crate::audit;
use crate::books;
use crate::events;
use crate::holds;
use crate::jobs;
use crate::months;
use crate::operations::{self, Progress};
use crate::redrive;
use crate::regroup;
use crate::reload::{self, Live, Reloading};
use crate::replay;
use crate::retention;
use crate::search;
use crate::sessions;
use crate::sources;

/// How long a loop rests after a failure: a store that is away is not helped by being asked.
const REST: Duration = Duration::from_secs(1);

/// How long a loop waits when nothing changes, in case a change was missed.
const IDLE: Duration = Duration::from_secs(5);

/// How long a loop waits after a change before it looks.
const LOOK: Duration = Duration::from_millis(100);

/// How long work that nobody waits for rests between two batches. There is one writer: without a rest every capture
/// would stand behind a batch.
const YIELD: Duration = Duration::from_millis(5);

/// How long a loop waits whose work nobody misses: events too many do no harm, and rules that are changed here wake it.
const SELDOM: Duration = Duration::from_secs(60);

/// How long a loop waits whose work comes up once a month, or may as well be done later.
const HOURLY: Duration = Duration::from_secs(3_600);

/// Work that is done without being asked for.
#[derive(Clone, Copy, Debug)]
enum Duty {
    Operations,
    Unfrozen,
    Holds,
    Jobs,
    BodyIndex,
    Extracts,
    Regrouping,
    EventRetention,
    JobRetention,
    Archive,
    Prune,
    Room,
    Months,
    Replay,
    Plans,
    AuditChain,
    Sessions,
}

impl Duty {
    const ALL: [Duty; 17] = [
        Duty::Operations,
        Duty::Unfrozen,
        Duty::Holds,
        Duty::Jobs,
        Duty::BodyIndex,
        Duty::Extracts,
        Duty::Regrouping,
        Duty::EventRetention,
        Duty::JobRetention,
        Duty::Archive,
        Duty::Prune,
        Duty::Room,
        Duty::Months,
        Duty::Replay,
        Duty::Plans,
        Duty::AuditChain,
        Duty::Sessions,
    ];

    const fn name(self) -> &'static str {
        match self {
            Duty::Operations => "operations",
            Duty::Unfrozen => "ending operations that were abandoned",
            Duty::Holds => "marking and freeing held letters",
            Duty::Jobs => "jobs that are due",
            Duty::BodyIndex => "the body index",
            Duty::Extracts => "copies of letters for SQL",
            Duty::Regrouping => "regrouping",
            Duty::EventRetention => "forgetting old events",
            Duty::JobRetention => "forgetting ended jobs",
            Duty::Archive => "writing files of the archive",
            Duty::Prune => "taking away letters that are too old or too many",
            Duty::Room => "giving room back",
            Duty::Months => "taking away empty months",
            Duty::Replay => "replay rules",
            Duty::Plans => "dropping plans that nobody launched",
            Duty::AuditChain => "linking the audit log",
            Duty::Sessions => "forgetting sessions that are over",
        }
    }

    async fn tick(self, app: &App) -> Result<Progress, StoreError> {
        match self {
            Duty::Operations => operations::tick(app).await,
            Duty::Unfrozen => operations::end_abandoned(app).await,
            Duty::Holds => holds::tick(app).await,
            Duty::Jobs => jobs::tick(app).await,
            Duty::BodyIndex => search::tick(app).await,
            Duty::Extracts => search::refill_extracts(app).await,
            Duty::Regrouping => regroup::tick(app).await,
            Duty::EventRetention => events::prune(app).await,
            Duty::JobRetention => jobs::ended::prune(app).await,
            Duty::Archive => archive::tick(app).await,
            Duty::Prune => retention::tick(app).await,
            Duty::Room => retention::give_room_back(app).await,
            Duty::Months => months::drop_empty(app).await,
            Duty::Replay => replay::tick(app).await,
            Duty::Plans => redrive::drop_plans(app).await,
            Duty::AuditChain => audit::tick(app).await,
            Duty::Sessions => sessions::tick(app).await,
        }
    }

    /// How long to rest after a batch that took so long.
    fn rest(self, took: Duration) -> Duration {
        match self {
            // Somebody waits for it, and its chunks are small.
            Duty::Operations | Duty::Jobs => Duration::ZERO,
            Duty::Unfrozen
            | Duty::Holds
            | Duty::BodyIndex
            | Duty::Extracts
            | Duty::Regrouping
            | Duty::EventRetention
            | Duty::JobRetention
            | Duty::Archive
            | Duty::Room
            | Duty::Months
            | Duty::Replay
            | Duty::Plans
            | Duty::AuditChain
            | Duty::Sessions => YIELD,
            Duty::Prune => retention::rest_after(took),
        }
    }

    /// How long to wait when there is nothing to do.
    const fn idle(self) -> Duration {
        match self {
            Duty::Operations
            | Duty::Holds
            | Duty::Jobs
            | Duty::BodyIndex
            | Duty::Replay
            | Duty::AuditChain => IDLE,
            Duty::Unfrozen
            | Duty::Regrouping
            | Duty::EventRetention
            | Duty::JobRetention
            | Duty::Archive
            | Duty::Prune
            | Duty::Room
            | Duty::Plans => SELDOM,
            // They open nothing once they are over.
            Duty::Months | Duty::Sessions | Duty::Extracts => HOURLY,
        }
    }

    /// The same, as far as it is known when something will be to do.
    async fn wait(self, app: &App) -> Duration {
        match self {
            Duty::Jobs => match jobs::until_due(app).await {
                Ok(Some(wait)) => wait.min(self.idle()),
                Ok(None) => self.idle(),
                // The next tick fails in the same way and says so.
                Err(_) => REST,
            },
            Duty::Archive => archive::until_next_try(app).map_or(self.idle(), |wait| wait.min(self.idle())),
            // A reload wakes it when there are rules.
            Duty::Replay if app.config.replay_rules.is_empty() => SELDOM,
            Duty::Replay => match replay::until_due(app).await {
                Ok(Some(wait)) => wait.min(self.idle()),
                Ok(None) => self.idle(),
                Err(_) => REST,
            },
            Duty::Prune => retention::until_due(app).min(self.idle()),
            Duty::Operations
            | Duty::Unfrozen
            | Duty::Holds
            | Duty::BodyIndex
            | Duty::Extracts
            | Duty::Regrouping
            | Duty::EventRetention
            | Duty::JobRetention
            | Duty::Room
            | Duty::Months
            | Duty::Plans
            | Duty::AuditChain
            | Duty::Sessions => self.idle(),
        }
    }

    /// Whether a commit can mean that there is something to do.
    const fn follows_commits(self) -> bool {
        match self {
            Duty::Operations | Duty::Jobs | Duty::BodyIndex => true,
            // Rules change by a reload, and what is captured has its group; what dies lies for a while. Decisions are few
            // among commits.
            Duty::Unfrozen
            | Duty::Holds
            | Duty::Extracts
            | Duty::Regrouping
            | Duty::EventRetention
            | Duty::JobRetention
            | Duty::Archive
            | Duty::Prune
            | Duty::Room
            | Duty::Months
            | Duty::Replay
            | Duty::Plans
            | Duty::AuditChain
            | Duty::Sessions => false,
        }
    }
}

/// Starts every loop; they end when the app is stopping.
pub(crate) fn start(live: &Arc<Live>) -> JoinSet<()> {
    let mut loops = JoinSet::new();
    for duty in Duty::ALL {
        loops.spawn(work(duty, Arc::clone(live)));
    }
    loops.spawn(alerts::evaluate(Arc::clone(live)));
    loops.spawn(alerts::deliver(Arc::clone(live)));
    loops.spawn(drive::redrives(Arc::clone(live)));
    loops.spawn(sources::supervise(Arc::clone(live)));
    let app = live.app();
    let stop = app.stopping();
    loops.spawn(reload_tokens(Arc::clone(&app), stop));
    loops.spawn(keep_time(Arc::clone(&app)));
    // The first page need not wait for it.
    loops.spawn(async move {
        if let Err(error) = books::count(&app).await {
            tracing::warn!(%error, "the ledger could not be counted for pages");
        }
    });
    loops
}

async fn work(duty: Duty, live: Arc<Live>) {
    let (mut changes, mut stop) = {
        let app = live.app();
        (app.store.changes(), app.stopping())
    };
    let mut reloads = live.changes();
    while !*stop.borrow() {
        // Seen before looking, or an operation that is frozen in between waits for the next change.
        changes.mark_unchanged();
        let started = Instant::now();
        let progress = duty.tick(&live.app()).await;
        let between = duty.rest(started.elapsed());
        let (rest, waits) = match progress {
            Ok(Progress::More) if between.is_zero() => continue,
            Ok(Progress::More) => (between, false),
            Ok(Progress::Idle) => (duty.wait(&live.app()).await, true),
            Err(error) => {
                let name = duty.name();
                tracing::warn!(error = %error, "{name} could not go on, trying again");
                (REST, false)
            }
        };
        tokio::select! {
            _ = stop.changed() => {}
            // Capture commits hundreds of times a second; looking a few times a second is enough. What is known to
            // come sooner is not waited past.
            _ = changes.changed(), if waits && duty.follows_commits() => {
                tokio::time::sleep(LOOK.min(rest)).await;
            }
            () = reloads.changed(), if waits => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

async fn reload_tokens(app: Arc<App>, mut stop: watch::Receiver<bool>) {
    while !*stop.borrow() {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(IDLE) => {}
        }
        if let Err(error) = app.access.reload(app.store.as_ref()).await {
            // The tokens that are known stay in force.
            tracing::warn!(error = %error, "tokens could not be read anew");
        }
    }
}

/// Keeps the clock at the time of those who share the store.
async fn keep_time(app: Arc<App>) {
    let mut stop = app.stopping();
    while !*stop.borrow() {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(Duration::from_millis(limits::CLOCK_CHECK_MS)) => {}
        }
        if let Err(error) = app.clock.adjust(app.store.as_ref()).await {
            // What was found last goes on to be used.
            tracing::warn!(error = %error, "the clock could not be compared with the database's");
        }
    }
}

/// Takes the configuration anew with each hangup.
pub(crate) async fn reload_on_hangup(
    live: Arc<Live>,
    reloading: Reloading,
    mut hangup: tokio::signal::unix::Signal,
) {
    let mut stop = live.app().stopping();
    while !*stop.borrow() {
        tokio::select! {
            _ = stop.changed() => return,
            asked = hangup.recv() => match asked {
                Some(()) => reload::reload(&live, &reloading).await,
                None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_core::class::Category;
    use lazaret_core::duration::Length;
    use lazaret_core::filter::Filter;
    use lazaret_core::id::HoldId;
    use lazaret_core::job::enqueue::{JobDefaults, read_enqueue};
    use lazaret_core::job::failure::read_nack;
    use lazaret_core::job::state::JobState;
    use lazaret_core::replay::ReplayRule;
    use lazaret_store::audit::Actor;
    use lazaret_store::hold::{HoldOn, HoldState, NewHold};
    use lazaret_store::sqlite::{Mode, SqliteStore};
    use lazaret_store::{AuditLog, Holds, JobStore, Store};

    use super::*;
    use crate::access::Role;
    use crate::clock::Clock;
    use crate::config::Config;

    /// How late a job may be on a machine that is busy with other tests; alone it is some milliseconds.
    const LATE_MS_MAX: i64 = 1_000;

    #[tokio::test]
    async fn a_job_becomes_available_when_its_time_comes_without_being_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).unwrap());
        let app = App::new(store.clone(), Config::default(), Clock::System, false).await.unwrap();
        let live = Live::new(Arc::clone(&app));
        let loops = start(&live);
        let text = r#"{"type":"a","args":[],"options":{"delay_until":"+PT0.3S"}}"#;
        let new = read_enqueue(text, &JobDefaults::default()).unwrap();
        let job = jobs::enqueue(&app, vec![new]).await.unwrap().remove(0);
        let mut changes = store.changes();
        let promoted = loop {
            let now = store.job(job.id).await.unwrap().unwrap().job;
            if now.state == JobState::Available {
                break now;
            }
            changes.changed().await.unwrap();
        };
        let late_ms = promoted.enqueued_at.since(job.scheduled_at.unwrap());
        assert!((0..LATE_MS_MAX).contains(&late_ms), "{late_ms} ms late");
        app.stop();
        loops.join_all().await;
    }

    #[tokio::test]
    async fn a_dead_job_goes_back_by_its_rule_without_being_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).unwrap());
        let rule = ReplayRule {
            name: "soon".into(),
            filter: Filter::from_text("error:Boom").unwrap(),
            delay: Length::from_ms(300),
            max_replays: 1,
            enabled: true,
            cause: None,
            category: Category::Infrastructure,
        };
        let config = Config { replay_rules: vec![rule], ..Config::default() };
        let app = App::new(store.clone(), config, Clock::System, false).await.unwrap();
        let text =
            r#"{"type":"a","args":[],"options":{"retry":{"max_attempts":1,"on_exhaustion":"dead_letter"}}}"#;
        let new = read_enqueue(text, &JobDefaults::default()).unwrap();
        let id = jobs::enqueue(&app, vec![new]).await.unwrap().remove(0).id;
        store.fetch_jobs(vec!["default".into()], 1, "w".into(), None, app.clock.now()).await.unwrap();
        let nack = format!(r#"{{"job_id":"{id}","error":{{"code":"x","type":"Boom","message":"m"}}}}"#);
        let died = jobs::nack(&app, &read_nack(&nack).unwrap()).await.unwrap().job;
        assert!(died.in_dead_letter);
        let mut changes = store.changes();
        let live = Live::new(Arc::clone(&app));
        let loops = start(&live);
        let back = loop {
            changes.mark_unchanged();
            let now = store.job(id).await.unwrap().unwrap().job;
            if now.state == JobState::Available {
                break now;
            }
            changes.changed().await.unwrap();
        };
        let lay_ms = back.enqueued_at.since(died.discarded_at.unwrap());
        assert!(lay_ms >= 300, "{lay_ms} ms");
        app.stop();
        loops.join_all().await;
    }

    #[tokio::test]
    async fn a_hold_whose_time_is_over_ends_without_being_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).unwrap());
        let app = App::new(store.clone(), Config::default(), Clock::System, false).await.unwrap();
        let now = app.clock.now();
        let id = HoldId::mint(now, [7; 10]);
        let on = HoldOn::Standing(Filter::from_text("queue:billing").unwrap());
        let by = Actor { name: "legal".into(), role: "operator".into(), request: None };
        let (at, until) = (now.plus_ms(-60_000), Some(now.plus_ms(-1)));
        store.place_hold(NewHold { id, on, reason: "case".into(), until, by, at }).await.unwrap();
        let mut changes = store.changes();
        let live = Live::new(Arc::clone(&app));
        let loops = start(&live);
        loop {
            changes.mark_unchanged();
            if store.hold(id).await.unwrap().unwrap().state == HoldState::Released {
                break;
            }
            changes.changed().await.unwrap();
        }
        app.stop();
        loops.join_all().await;
    }

    #[tokio::test]
    async fn the_audit_log_is_linked_without_being_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path(), Mode::Real).unwrap());
        let app = App::new(store.clone(), Config::default(), Clock::System, false).await.unwrap();
        let key = audit::AuditKey::make(&folder.path().join("audit.key")).unwrap();
        let app = Arc::new(app.with_audit_key(Some(key)));
        let by = Actor { name: "test".into(), role: "admin".into(), request: None };
        crate::tokens::create(store.as_ref(), &app.entropy, app.clock.now(), "a", Role::Admin, by)
            .await
            .unwrap();
        let mut changes = store.changes();
        let live = Live::new(Arc::clone(&app));
        let loops = start(&live);
        loop {
            changes.mark_unchanged();
            let entries = store.audit_links(0, 10).await.unwrap();
            if !entries.is_empty() && entries.iter().all(|(_, link)| link.is_some()) {
                break;
            }
            changes.changed().await.unwrap();
        }
        app.stop();
        loops.join_all().await;
    }
}
