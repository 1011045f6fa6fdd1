//! Two years in one test: letters come in every day, limits push them out, people hold, restore and settle some, some die
//! again. Every day the limits hold, the ledger is right, held letters are there, and nothing inside the floor is destroyed.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Place;
use lazaret_core::time::Time;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::redrive_rig::configured;
use super::retention::{DAY_MS, dead_letter, entry, parsed, place_of, prune};
use super::rig::TestApp;

const DAYS: i64 = 730;

/// `report` archives for ever; `orders` deletes, and is kept short by its count; `mails` leaves before its floor ends; jobs
/// are counted together but for one queue.
const CONFIG: &str = "
[retention]
resolved_max_age = '40d'
[sources.report.retention]
max_age = '100d'
[sources.orders]
kind = 'report'
retention = { max_age = '120d', max_count = 100, pruning_policy = 'delete', resolved_max_age = '95d' }
[sources.mails]
kind = 'report'
retention = { max_age = '30d', pruning_policy = 'delete', min_age = '60d' }
[jobs.retention]
max_age = '110d'
max_count = 40
[jobs.queues.own.retention]
max_count = 5
min_age = '20d'
";

/// What is known of a letter outside of the store.
struct Known {
    source: &'static str,
    event: String,
    /// Its last death.
    since: Time,
}

struct Years {
    app: TestApp,
    letters: BTreeMap<LetterId, Known>,
    held: BTreeSet<LetterId>,
    /// How often each thing happened, so that a year in which nothing happens is no proof.
    happened: BTreeMap<&'static str, u32>,
}

fn max_age_days(source: &str) -> i64 {
    match source {
        "report" => 100,
        "orders" => 120,
        "mails" => 30,
        _ => 110,
    }
}

fn floor_days(source: &str) -> i64 {
    match source {
        "mails" => 60,
        "own" => 20,
        _ => 90,
    }
}

impl Years {
    async fn new() -> Years {
        let app = TestApp::with(configured(CONFIG), Mode::Real).await;
        Years { app, letters: BTreeMap::new(), held: BTreeSet::new(), happened: BTreeMap::new() }
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn now(&self) -> Time {
        self.app.app.clock.now()
    }

    /// The letters of a day.
    async fn traffic(&mut self, day: i64) {
        for (source, letters) in [("report", 2), ("orders", 2), ("mails", 1)] {
            let lines: Vec<String> =
                (0..letters).map(|n| entry(&format!("{source}-{day}-{n}")).to_string()).collect();
            let path = format!("/api/v1/dead-letters?source={source}");
            let answer =
                self.app.post_text(&path, "application/x-ndjson", lines.join("\n")).await.expect(200);
            let since = self.now();
            for (n, item) in answer["items"].as_array().unwrap().iter().enumerate() {
                let id = parsed(item["id"].as_str().unwrap_or_else(|| panic!("{answer}")));
                self.letters.insert(id, Known { source, event: format!("{source}-{day}-{n}"), since });
            }
        }
        if day % 2 == 0 {
            let queue = if day % 6 == 0 { "own" } else { "q" };
            let id = parsed(&dead_letter(&self.app, queue).await);
            let source = if queue == "own" { "own" } else { "jobs" };
            self.letters.insert(id, Known { source, event: String::new(), since: self.now() });
        }
    }

    /// A live letter that is not held, chosen by the day.
    async fn some_live(&self, day: i64) -> Option<LetterId> {
        let page = self.app.get("/api/v1/dead-letters?status=pending&sort=diedAt&limit=50").await.expect(200);
        let items = page["items"].as_array().unwrap();
        let ids: Vec<LetterId> = items.iter().map(|item| parsed(item["id"].as_str().unwrap())).collect();
        let free: Vec<&LetterId> = ids.iter().filter(|id| !self.held.contains(id)).collect();
        free.get(day as usize % free.len().max(1)).copied().copied()
    }

    async fn decide(&self, id: LetterId, action: &str) -> Value {
        let path = format!("/api/v1/dead-letters/{id}/{action}");
        self.app.post(&path, &json!({"reason": "so"})).await.expect(200)
    }

    /// What people do, each thing on days of its own.
    async fn decisions(&mut self, day: i64) {
        let what = match day {
            day if day % 11 == 3 => "resolve",
            day if day % 17 == 5 => "discard",
            day if day % 23 == 7 => "hold",
            day if day % 29 == 9 => "delete",
            _ => "",
        };
        if !what.is_empty()
            && let Some(id) = self.some_live(day).await
        {
            self.decide(id, what).await;
            self.note(what);
            match what {
                "hold" => {
                    self.held.insert(id);
                }
                // Deleted by hand is not destroyed by a limit; inside the floor its content is kept all the same.
                "delete" => {
                    self.letters.remove(&id);
                }
                _ => {}
            }
        }
        if day % 101 == 50
            && let Some(id) = self.held.pop_first()
        {
            self.decide(id, "release").await;
            self.note("release");
        }
    }

    /// Some come back from the archive: by hand, or because they die again.
    async fn returns(&mut self, day: i64) {
        if day % 19 != 8 {
            return;
        }
        let mut archived = None;
        for (id, known) in &self.letters {
            let old_enough = self.now().since(known.since) > 50 * DAY_MS;
            if old_enough
                && !known.event.is_empty()
                && place_of(&self.app, *id).await == Some(Place::Archived)
            {
                archived = Some(*id);
                break;
            }
        }
        let Some(id) = archived else { return };
        if day % 2 == 0 {
            let back = self.decide(id, "restore").await;
            assert_eq!(back["place"], "live");
            self.note("restore");
        } else {
            let known = &self.letters[&id];
            let mut again = entry(&known.event);
            again["createdAt"] = json!(self.now().to_string());
            let path = format!("/api/v1/dead-letters?source={}", known.source);
            let answer = self.app.post(&path, &again).await.expect(200);
            assert_eq!(answer["items"][0]["id"], id.to_string(), "the same letter: {answer}");
            let now = self.now();
            self.letters.get_mut(&id).unwrap().since = now;
            self.note("die again");
        }
        assert_eq!(place_of(&self.app, id).await, Some(Place::Live));
    }

    /// What has to be true after every prune.
    async fn check(&mut self) {
        let told = self.app.get("/api/v1/retention").await.expect(200);
        for count in told["counts"].as_array().unwrap() {
            let of = |key: &str| count[key].as_u64().unwrap();
            assert!(of("letters") <= of("maxCount").max(of("held")), "{count}");
        }
        for queue in told["queues"].as_array().unwrap() {
            let Some(oldest) = queue["oldestAt"].as_str() else { continue };
            let age_ms = self.now().since(Time::parse(oldest).unwrap());
            let max_ms = max_age_days(queue["source"].as_str().unwrap()) * DAY_MS;
            assert!(age_ms <= max_ms, "{queue}");
        }
        for id in &self.held {
            assert_eq!(place_of(&self.app, *id).await, Some(Place::Live), "{id} is held");
        }
        // Each letter is asked for once, on the last day of its floor: what is destroyed does not come back.
        for (id, known) in &self.letters {
            let left_ms = floor_days(known.source) * DAY_MS - self.now().since(known.since);
            if (0..DAY_MS).contains(&left_ms) {
                assert!(
                    place_of(&self.app, *id).await.is_some(),
                    "{id} of {} is gone inside the floor",
                    known.source
                );
            }
        }
        self.app.check().await;
    }
}

#[tokio::test]
async fn two_years_of_daily_traffic() {
    let mut years = Years::new().await;
    for day in 0..DAYS {
        years.app.pass(DAY_MS / 2);
        years.traffic(day).await;
        years.app.pass(DAY_MS / 2 - 10 * 60_000);
        years.decisions(day).await;
        years.returns(day).await;
        // The rest of the day, and the prune of its last five minutes.
        years.app.pass(5 * 60_000 - 1_000);
        prune(&years.app).await;
        years.check().await;
    }
    for what in ["resolve", "discard", "hold", "release", "delete", "restore", "die again"] {
        assert!(years.happened.get(what).is_some_and(|times| *times >= 3), "{what}: {:?}", years.happened);
    }
    let ledger = years.app.get("/api/v1/ledger").await.expect(200);
    assert!(ledger["archived"].as_u64().unwrap() > 1_000, "{ledger}");
    assert!(ledger["pruned"].as_u64().unwrap() > 50, "{ledger}");
    // Where the policy is to archive, nothing at all was destroyed.
    for (id, known) in years.letters.iter().filter(|(_, known)| known.source == "report") {
        assert!(place_of(&years.app, *id).await.is_some(), "{id}, {}", known.event);
    }
}
