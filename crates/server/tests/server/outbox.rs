//! An application's outbox, from the order that is written to the event that is processed after all.

use std::sync::Arc;

use lazaret_core::attempt::Attempt;
use lazaret_core::key::CaptureKey;
use lazaret_server::config::{
    Config, DestinationConfig, DestinationUrl, OutboxSource, PostgresUrl, SourceConfig, SourceKind,
};
use lazaret_server::sources::{self, Looked, Running};
use lazaret_sources::Source;
use lazaret_sources::outbox::{Outbox, OutboxConfig, RelayConfig, TableName, ddl};
use lazaret_store::SourceStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;
use serde_json::{Value, json};
use tokio_postgres::{Client, NoTls};

use super::receiver::Receiver;
use super::redriving::{diagnose, drive, incident_of, launch_of, url};
use super::rig::TestApp;

/// Longer than any test.
const NEVER_MS: u64 = 3_600_000;

/// A shop with an outbox in its own database, a receiver of its events, and a server that watches and relays.
pub struct Shop {
    pub app: TestApp,
    receiver: Receiver,
    pub database: Client,
    url: String,
    _own: TestDatabase,
}

impl Shop {
    pub async fn open() -> Shop {
        let own = tokio::task::spawn_blocking(TestDatabase::bare).await.unwrap();
        let (url, receiver) = (own.url(), Receiver::start().await);
        let (database, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let config = config(&url, &receiver);
        let outbox = config.sources["shop"].outbox.as_ref().unwrap();
        for step in ddl(&outbox.outbox) {
            database.batch_execute(&step.sql).await.unwrap();
        }
        database
            .batch_execute("create table orders (id text primary key, total numeric not null)")
            .await
            .unwrap();
        let app = TestApp::with(config, Mode::Real).await;
        Shop { app, receiver, database, url, _own: own }
    }

    fn running(&self) -> Arc<Running> {
        Arc::clone(self.app.app.sources.get("shop").unwrap())
    }

    /// Writes an order and its event in one transaction, as an application does; gives the event's id.
    async fn order(&mut self, order: &str) -> String {
        let write = self.database.transaction().await.unwrap();
        write.execute("insert into orders (id, total) values ($1, 12.50)", &[&order]).await.unwrap();
        let event = "insert into outbox (event_type, aggregate_type, aggregate_id, payload)
                     values ('OrderCreated', 'order', $1, jsonb_build_object('order', $1::text, 'total', 12.50))
                     returning id::text";
        let id = write.query_one(event, &[&order]).await.unwrap().get(0);
        write.commit().await.unwrap();
        id
    }

    /// An order whose event the application itself has given up.
    pub async fn dead_order(&mut self, order: &str) -> String {
        let id = self.order(order).await;
        self.set(&id, "DEAD_LETTER").await;
        id
    }

    async fn set(&self, id: &str, status: &str) {
        let sql = "update outbox
                      set status = $2, processed_at = now(), retry_count = retry_count + 1, last_error = 'Timeout: no answer'
                    where id = ($1::text)::uuid";
        self.database.execute(sql, &[&id, &status]).await.unwrap();
    }

    async fn status(&self, id: &str) -> String {
        let sql = "select status from outbox where id = ($1::text)::uuid";
        let row = self.database.query_opt(sql, &[&id]).await.unwrap();
        row.map_or_else(|| "gone".to_owned(), |row| row.get(0))
    }

    /// Lets the relay work until nothing is left, however often it has to try.
    async fn relay(&self) {
        let running = self.running();
        let Some(Ok(relay)) = &running.outbox.as_ref().unwrap().relay else { panic!("there is no relay") };
        loop {
            let due =
                "update outbox set next_attempt_at = now() - interval '1 second' where status = 'PENDING'";
            let waiting = self.database.execute(due, &[]).await.unwrap();
            let worked = relay.tick().await.unwrap();
            if worked.claimed == 0 && waiting == 0 {
                break;
            }
        }
    }

    /// Captures what is dead; gives how many arrived.
    pub async fn capture(&self) -> usize {
        let running = self.running();
        let arrivals = running.source.next().await.unwrap();
        self.app.pass(1_000);
        sources::capture_arrivals(&self.app.app, &running, arrivals).await.unwrap()
    }

    pub async fn look(&self) {
        let mut looked = Looked::default();
        while !sources::look_after(&self.app.app, "shop", &self.running(), &mut looked).await.unwrap() {}
    }

    pub async fn letters(&self) -> Vec<Value> {
        let list = self.app.get("/api/v1/dead-letters?source=shop&sort=createdAt").await.expect(200);
        list["items"].as_array().unwrap().clone()
    }

    async fn letter(&self, id: &Value) -> Value {
        self.app.get(&format!("/api/v1/dead-letters/{}", id.as_str().unwrap())).await.expect(200)
    }

    /// Finds the cause, fixes it, and launches a redrive of all that wait.
    pub async fn redrive(&self) -> Value {
        let letters = self.letters().await;
        let incident = incident_of(&self.app, letters[0]["id"].as_str().unwrap()).await;
        diagnose(&self.app, &incident, "infrastructure").await;
        self.app.pass(1_000);
        self.app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
        let wanted = json!({"filter": {"source": "shop"}, "pace": "unlimited", "canary": 0});
        let plan = self.app.post("/api/v1/redrives/plan", &wanted).await.expect(201);
        self.app.post("/api/v1/redrives", &launch_of(&plan)).await.expect(202);
        drive(&self.app).await;
        plan
    }
}

fn config(url: &str, receiver: &Receiver) -> Config {
    let mut outbox = OutboxConfig::new("shop", url, TableName::parse("public.outbox").unwrap());
    (outbox.sweep_ms, outbox.poll_ms) = (NEVER_MS, NEVER_MS);
    outbox.relay = Some(RelayConfig::default());
    let sink = DestinationConfig {
        allow_private: true,
        ..DestinationConfig::new(DestinationUrl::parse(&receiver.url()).unwrap())
    };
    let mut source = SourceConfig::new("shop", SourceKind::Outbox);
    source.outbox = Some(OutboxSource {
        outbox,
        url: PostgresUrl::parse(url).unwrap(),
        sink: Some(sink),
        acknowledge_early_delete: false,
    });
    let mut config = Config::default();
    config.sources.insert("shop".to_owned(), source);
    config
}

#[tokio::test]
async fn an_order_whose_event_fails_is_delivered_after_its_cause_is_fixed() {
    let mut shop = Shop::open().await;
    let (first, second) = (shop.order("o-1").await, shop.order("o-2").await);
    // The receiver is broken for as many tries as the rules give each of them.
    shop.receiver.answers(&[503; 10]);
    shop.relay().await;
    assert_eq!(
        (shop.status(&first).await, shop.status(&second).await),
        ("DEAD_LETTER".into(), "DEAD_LETTER".into())
    );
    assert_eq!(shop.receiver.got().len(), 10);
    assert_eq!(shop.capture().await, 2);
    let letters = shop.letters().await;
    assert_eq!(letters.len(), 2);
    let one = letters.iter().find(|letter| letter["eventId"] == *first).unwrap();
    assert_eq!((&one["type"], &one["queue"]), (&json!("OrderCreated"), &json!("public.outbox")), "{one}");
    assert_eq!((&one["aggregateId"], &one["retryCount"]), (&json!("o-1"), &json!(5)), "{one}");
    assert!(one["error"]["message"].as_str().unwrap().contains("503"), "{one}");
    let whole = shop.letter(&one["id"]).await;
    let event = &whole["originalEvent"];
    assert_eq!((&event["eventId"], &event["pattern"]), (&json!(first), &json!("OrderCreated")), "{event}");
    assert_eq!(
        (&event["version"], &event["payload"]),
        (&json!("1"), &json!({"order": "o-1", "total": 12.50}))
    );
    let source = json!({"type": "integration", "id": "shop", "name": "public.outbox"});
    assert_eq!((&event["source"], &event["metadata"]["aggregate_id"]), (&source, &json!("o-1")));
    assert!(event["timestamp"].as_str().unwrap().ends_with('Z'), "{event}");
    let refused = json!({"filter": {"source": "shop"}});
    let refused = shop.app.post("/api/v1/redrives/plan", &refused).await.expect(201);
    assert_eq!(refused["count"], 0, "nothing goes back without its cause: {refused}");
    let plan = shop.redrive().await;
    assert_eq!((shop.status(&first).await, shop.status(&second).await), ("PENDING".into(), "PENDING".into()));
    let row =
        shop.database.query_one("select retry_count, last_error from outbox limit 1", &[]).await.unwrap();
    assert_eq!((row.get::<_, i32>(0), row.get::<_, Option<String>>(1)), (0, None));
    shop.relay().await;
    let got = shop.receiver.got();
    assert_eq!(got.len(), 12);
    let sent = got.iter().rev().find(|got| got.headers["idempotency-key"] == first.as_str()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), json!({"order": "o-1", "total": 12.50}));
    assert_eq!(
        (&sent.headers["lazaret-event-type"], &sent.headers["lazaret-aggregate-id"]),
        (&"OrderCreated".parse().unwrap(), &"o-1".parse().unwrap())
    );
    shop.app.pass(60_000);
    drive(&shop.app).await;
    let run = shop.app.get(&url(&plan)).await.expect(200);
    assert_eq!((&run["state"], &run["letters"]["succeeded"]), (&json!("done"), &json!(2)), "{run}");
    for letter in shop.letters().await {
        assert_eq!(letter["status"], "resolved", "{letter}");
        let resolution = &letter["resolution"];
        assert_eq!(
            (&resolution["strategy"], &resolution["resolvedBy"]),
            (&json!("manual_retry"), &json!("local"))
        );
    }
    shop.app.check().await;
}

#[tokio::test]
async fn a_letter_of_a_relay_has_the_error_of_every_try() {
    let mut shop = Shop::open().await;
    let [first, second] = [shop.order("o-1").await, shop.order("o-2").await];
    shop.receiver.answers(&[500, 500, 503, 503, 500, 500, 503, 503, 429, 429]);
    shop.relay().await;
    assert_eq!(shop.capture().await, 2);
    let letter = shop.letters().await.into_iter().find(|letter| letter["eventId"] == *first).unwrap();
    let whole = shop.letter(&letter["id"]).await;
    let history = whole["retryHistory"].as_array().unwrap();
    let codes: Vec<&str> = history.iter().map(|run| run["error"]["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["500", "503", "500", "503", "429"], "{whole}");
    for (n, run) in (1..).zip(history) {
        assert_eq!((&run["attempt"], run["timestamp"].is_string()), (&json!(n), true), "{run}");
        assert!(run["processingDuration"].is_number(), "{run}");
    }
    assert_eq!((&whole["retryCount"], &whole["error"]["code"]), (&json!(5), &json!("429")));
    // A server that starts again looks at all dead rows again, and learns nothing new of them.
    let arrivals = Outbox::new(shop.running().outbox.as_ref().unwrap().outbox.config().clone())
        .unwrap()
        .next()
        .await
        .unwrap();
    assert_eq!(arrivals.len(), 2);
    sources::capture_arrivals(&shop.app.app, &shop.running(), arrivals).await.unwrap();
    assert_eq!(shop.letter(&letter["id"]).await["retryHistory"], whole["retryHistory"]);
    // What fails after a redrive is told with the next life, and what gets through is forgotten.
    shop.redrive().await;
    shop.receiver.answers(&[500, 503]);
    shop.relay().await;
    for id in [&first, &second] {
        assert_eq!(shop.status(id).await, "PROCESSED");
    }
    let keys = [&first, &second].map(|id| CaptureKey::of("shop", "", "", id)).to_vec();
    assert_eq!(shop.app.store.tries_of(keys).await.unwrap(), [vec![], vec![]] as [Vec<Attempt>; 2]);
    shop.app.check().await;
}

#[tokio::test]
async fn a_row_that_dies_again_is_the_next_life_of_its_letter() {
    let mut shop = Shop::open().await;
    let id = shop.dead_order("o-1").await;
    assert_eq!(shop.capture().await, 1);
    // Read again and again, and told by another process that knows nothing: the same death.
    let again = TestApp::with(config(&shop.url, &shop.receiver), Mode::Real).await;
    drop(again);
    let fresh = Outbox::new(shop.running().outbox.as_ref().unwrap().outbox.config().clone()).unwrap();
    let arrivals = fresh.next().await.unwrap();
    assert_eq!(arrivals.len(), 1);
    sources::capture_arrivals(&shop.app.app, &shop.running(), arrivals).await.unwrap();
    assert_eq!(shop.letters().await[0]["life"], 1);
    let plan = shop.redrive().await;
    assert_eq!(shop.status(&id).await, "PENDING");
    shop.set(&id, "DEAD_LETTER").await;
    shop.app.pass(1_000);
    let arrivals = fresh.next().await.unwrap();
    sources::capture_arrivals(&shop.app.app, &shop.running(), arrivals).await.unwrap();
    let letters = shop.letters().await;
    assert_eq!(
        (letters.len(), &letters[0]["life"], &letters[0]["status"]),
        (1, &json!(2), &json!("pending"))
    );
    drive(&shop.app).await;
    let run = shop.app.get(&url(&plan)).await.expect(200);
    assert_eq!(run["letters"]["relapsed"], 1, "{run}");
    shop.app.check().await;
}

#[tokio::test]
async fn what_the_application_settles_itself_is_settled_here() {
    let mut shop = Shop::open().await;
    let (one, two) = (shop.dead_order("o-1").await, shop.dead_order("o-2").await);
    assert_eq!(shop.capture().await, 2);
    shop.set(&one, "PROCESSED").await;
    shop.look().await;
    let letters = shop.letters().await;
    let of = |id: &str| letters.iter().find(|letter| letter["eventId"] == *id).unwrap();
    assert_eq!(
        (&of(&one)["status"], &of(&one)["resolution"]["resolvedBy"]),
        (&json!("resolved"), &json!("source:shop"))
    );
    assert_eq!(of(&two)["status"], "pending");
    shop.app.check().await;
}

#[tokio::test]
async fn a_row_that_vanished_is_reported_and_can_be_put_back() {
    let mut shop = Shop::open().await;
    let id = shop.dead_order("o-1").await;
    assert_eq!(shop.capture().await, 1);
    let before =
        shop.database.query_one("select payload::text, created_at::text from outbox", &[]).await.unwrap();
    shop.database.execute("delete from outbox", &[]).await.unwrap();
    shop.look().await;
    let source = shop.app.get("/api/v1/sources/shop").await.expect(200);
    let letter = shop.letters().await[0]["id"].clone();
    assert_eq!(
        (&source["outbox"]["vanished"], &source["outbox"]["vanishedLetters"]),
        (&json!(1), &json!([letter]))
    );
    let put_back = format!("/api/v1/dead-letters/{}/put-back", letter.as_str().unwrap());
    assert_eq!(shop.app.post(&put_back, &json!({})).await.expect(200)["row"], "made");
    assert_eq!(shop.app.post(&put_back, &json!({})).await.expect(200)["row"], "is_there");
    let log = shop.app.get("/api/v1/audit?limit=3").await.expect(200);
    let told: Vec<_> =
        log["items"].as_array().unwrap().iter().map(|it| (&it["action"], &it["letterId"])).collect();
    // Newest first: the second time no row was written.
    let expected = [json!("row.put_back.refused"), json!("row.put_back"), json!("row.put_back")];
    assert_eq!(told, expected.iter().map(|action| (action, &letter)).collect::<Vec<_>>(), "{log}");
    let after =
        shop.database.query_one("select payload::text, created_at::text from outbox", &[]).await.unwrap();
    for column in 0..2 {
        assert_eq!(before.get::<_, String>(column), after.get::<_, String>(column));
    }
    assert_eq!(shop.status(&id).await, "DEAD_LETTER");
    shop.look().await;
    assert_eq!(shop.app.get("/api/v1/sources/shop").await.expect(200)["outbox"]["vanished"], 0);
    shop.redrive().await;
    assert_eq!(shop.status(&id).await, "PENDING");
    assert_eq!(shop.letter(&letter).await["status"], "reprocessing");
    shop.app.check().await;
}

#[tokio::test]
async fn sources_are_listed_and_looked_at() {
    let mut shop = Shop::open().await;
    shop.dead_order("o-1").await;
    shop.capture().await;
    let list = shop.app.get("/api/v1/sources").await.expect(200);
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["jobs", "report", "shop"]);
    let shown = &list["items"][2];
    assert_eq!((&shown["kind"], &shown["pending"]), (&json!("outbox"), &json!(1)), "{shown}");
    assert_eq!(
        (&shown["outbox"]["connected"], &shown["outbox"]["captured"]),
        (&json!(true), &json!(1)),
        "{shown}"
    );
    assert_eq!(shown["outbox"]["relay"]["preset"], "outbox", "{shown}");
    let check = shop.app.get("/api/v1/sources/shop/check").await.expect(200);
    assert_ne!(check["level"], "error", "{check}");
    shop.database.execute("drop trigger if exists nothing on outbox", &[]).await.unwrap();
    shop.database.batch_execute("alter table outbox rename column last_error to mishap").await.unwrap();
    let check = shop.app.get("/api/v1/sources/shop/check").await.expect(200);
    assert_eq!(check["level"], "error", "{check}");
    assert!(check.to_string().contains("last_error"), "{check}");
    shop.app.get("/api/v1/sources/jobs/check").await.expect(200);
    shop.app.get("/api/v1/sources/nobody").await.problem(404, "not_found");
    shop.app.get("/api/v1/sources/nobody/check").await.problem(404, "not_found");
    let entry = json!({"eventId": "e", "originalEvent": {}, "error": {"type": "A", "message": "b"}});
    shop.app.post("/api/v1/dead-letters?source=shop", &entry).await.problem(400, "unknown_source");
    let own = shop.app.report(&entry).await;
    shop.app
        .post(&format!("/api/v1/dead-letters/{own}/put-back"), &json!({}))
        .await
        .problem(409, "no_way_back");
}

#[tokio::test]
async fn the_example_writes_its_order_and_its_event_together() {
    let shop = Shop::open().await;
    let example = include_str!("../../../../examples/outbox.sql");
    shop.database.batch_execute(example).await.unwrap();
    // The second time the order is there already: nothing of the transaction stays.
    shop.database.batch_execute(example).await.unwrap_err();
    shop.database.batch_execute("rollback").await.unwrap();
    let rows = shop.database.query("select aggregate_id, status from outbox", &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].get::<_, &str>(0), rows[0].get::<_, &str>(1)), ("o-4711", "PENDING"));
    shop.relay().await;
    let got = shop.receiver.got();
    assert_eq!(got.len(), 1);
    let body: Value = serde_json::from_slice(&got[0].body).unwrap();
    assert_eq!(body, json!({"order": "o-4711", "total": 12.50}));
}
