//! NATS JetStream on a real server, from the message that fails to the redrive that its consumer acknowledges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::{self, stream};
use lazaret_nats::{Server, Version};
use lazaret_server::config::{Config, JetStreamConfig, SourceConfig, SourceKind};
use lazaret_server::sources::{self, Running};
use lazaret_sources::Declare;
use lazaret_store::sqlite::Mode;
use lazaret_worker::Failure;
use lazaret_worker::jetstream::{Delivery, Worker};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::redriving::{diagnose, drive, incident_of, launch_of};
use super::rig::TestApp;

const WAIT_MAX: Duration = Duration::from_secs(60);
const GOOD: u64 = 1_000;

/// A shop whose orders are billed by a worker, and a server that watches.
struct Shop {
    app: TestApp,
    client: async_nats::Client,
    billed: Arc<AtomicU64>,
    is_fixed: Arc<AtomicBool>,
    _server: Server,
}

impl Shop {
    async fn open(version: Version) -> Shop {
        let server = tokio::task::spawn_blocking(move || Server::start(version)).await.unwrap();
        let client = async_nats::connect(server.url()).await.unwrap();
        let context = jetstream::new(client.clone());
        let orders = stream::Config {
            name: "ORDERS".to_owned(),
            subjects: vec!["orders.>".to_owned()],
            ..stream::Config::default()
        };
        let billing = pull::Config {
            durable_name: Some("billing".to_owned()),
            max_deliver: 5,
            ..pull::Config::default()
        };
        context.create_stream(orders).await.unwrap().create_consumer(billing).await.unwrap();
        let mut source = SourceConfig::new("nats", SourceKind::JetStream);
        source.jetstream = Some(JetStreamConfig::new("nats", [server.url()]));
        let mut config = Config::default();
        config.sources.insert("nats".to_owned(), source);
        let app = TestApp::with(config, Mode::Real).await;
        let shop = Shop { app, client, billed: Arc::default(), is_fixed: Arc::default(), _server: server };
        shop.running().source.declare(Declare::Apply).await.unwrap();
        shop
    }

    fn running(&self) -> Arc<Running> {
        Arc::clone(self.app.app.sources.get("nats").unwrap())
    }

    /// Starts the worker; it ends when the sender is dropped or used.
    fn work(&self) -> oneshot::Sender<()> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (billed, is_fixed) = (Arc::clone(&self.billed), Arc::clone(&self.is_fixed));
        let bill = move |order: Delivery| {
            let (billed, is_fixed) = (Arc::clone(&billed), Arc::clone(&is_fixed));
            async move {
                if order.payload().starts_with(b"poison") && !is_fixed.load(Ordering::Relaxed) {
                    return Err(Failure::new("ValidationError", "order 500 has no total"));
                }
                billed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        };
        let worker = Worker::new(self.client.clone(), "ORDERS", "billing").concurrency(16);
        tokio::spawn(async move {
            let stop = async {
                stopped.await.ok();
            };
            worker.run(bill, stop).await.unwrap();
        });
        stop
    }

    async fn publish(&self) {
        let context = jetstream::new(self.client.clone());
        let mut sent = Vec::new();
        for n in 0..=GOOD {
            let body = if n == GOOD / 2 { "poison".to_owned() } else { format!("order {n}") };
            sent.push(context.publish("orders.new", body.into()).await.unwrap());
        }
        for one in sent {
            one.await.unwrap();
        }
    }

    /// Captures until there is a letter.
    async fn letter(&self) -> Value {
        let (running, until) = (self.running(), Instant::now() + WAIT_MAX);
        loop {
            assert!(Instant::now() < until, "nothing was captured");
            let arrivals = running.source.next().await.unwrap();
            sources::capture_arrivals(&self.app.app, &running, arrivals).await.unwrap();
            let list = self.app.get("/api/v1/dead-letters?source=nats").await.expect(200);
            if let Some(letter) = list["items"].as_array().unwrap().first() {
                let id = letter["id"].as_str().unwrap();
                return self.app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
            }
        }
    }
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + WAIT_MAX;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_message_is_a_letter_whose_redrive_its_consumer_acknowledges() {
    let shop = Shop::open(Version::Current).await;
    let _worker = shop.work();
    shop.publish().await;
    until("the good ones are held up", async || shop.billed.load(Ordering::Relaxed) == GOOD).await;
    let letter = shop.letter().await;
    assert_eq!(
        (&letter["type"], &letter["queue"]),
        (&json!("orders.new"), &json!("ORDERS.billing")),
        "{letter}"
    );
    assert_eq!(letter["error"]["type"], "ValidationError", "{letter}");
    assert_eq!(
        (&letter["origin"]["kind"], &letter["origin"]["stream"]),
        (&json!("jetstream"), &json!("ORDERS"))
    );
    let id = letter["id"].as_str().unwrap();
    assert_eq!(shop.app.get(&format!("/api/v1/dead-letters/{id}/body")).await.bytes, b"poison");

    // Nobody redrives without a cause and a fix.
    let retry = format!("/api/v1/dead-letters/{id}/retry");
    shop.app.post(&retry, &json!({})).await.problem(409, "rca_required");
    let incident = incident_of(&shop.app, id).await;
    diagnose(&shop.app, &incident, "contract").await;
    shop.app.pass(1_000);
    shop.app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
    shop.is_fixed.store(true, Ordering::Relaxed);
    let wanted = json!({"filter": {"source": "nats"}, "pace": "unlimited", "canary": 0});
    let plan = shop.app.post("/api/v1/redrives/plan", &wanted).await.expect(201);
    shop.app.post("/api/v1/redrives", &launch_of(&plan)).await.expect(202);
    let run = format!("/api/v1/redrives/{}", plan["id"].as_str().unwrap());
    until("the redrive is not proved", async || {
        drive(&shop.app).await;
        shop.app.get(&run).await.expect(200)["letters"]["succeeded"] == 1
    })
    .await;
    assert_eq!(shop.billed.load(Ordering::Relaxed), GOOD + 1);
    let listed = shop.app.get(&format!("{run}/letters")).await.expect(200);
    assert_eq!(listed["items"][0]["evidence"], "acked", "{listed}");
    assert!(listed["items"][0]["handle"].as_str().unwrap().starts_with("ORDERS:"), "{listed}");
    let letter = shop.app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["status"], "resolved");
    shop.app.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_tells_of_its_success_by_a_receipt() {
    let shop = Shop::open(Version::Debian).await;
    let worker = shop.work();
    let context = jetstream::new(shop.client.clone());
    context.publish("orders.new", "poison".into()).await.unwrap().await.unwrap();
    let letter = shop.letter().await;
    drop(worker);
    shop.is_fixed.store(true, Ordering::Relaxed);
    let incident = incident_of(&shop.app, letter["id"].as_str().unwrap()).await;
    diagnose(&shop.app, &incident, "contract").await;
    shop.app.pass(1_000);
    shop.app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
    let wanted = json!({"filter": {"source": "nats"}, "pace": "unlimited", "canary": 0});
    let plan = shop.app.post("/api/v1/redrives/plan", &wanted).await.expect(201);
    shop.app.post("/api/v1/redrives", &launch_of(&plan)).await.expect(202);
    drive(&shop.app).await;
    let _worker = shop.work();
    let run = format!("/api/v1/redrives/{}", plan["id"].as_str().unwrap());
    until("no receipt resolves the letter", async || {
        sources::take_receipts(&shop.app.app, "nats", &shop.running()).await.unwrap();
        shop.app.get(&run).await.expect(200)["letters"]["succeeded"] == 1
    })
    .await;
    let listed = shop.app.get(&format!("{run}/letters")).await.expect(200);
    assert_eq!(listed["items"][0]["evidence"], "receipt", "{listed}");
    shop.app.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_shown_with_its_connection_and_topology() {
    let shop = Shop::open(Version::Current).await;
    let running = shop.running();
    assert!(running.source.next().await.unwrap().is_empty());
    let source = shop.app.get("/api/v1/sources/nats").await.expect(200);
    assert_eq!(
        (&source["kind"], &source["connection"]["connected"]),
        (&json!("jetstream"), &json!(true)),
        "{source}"
    );
    assert_eq!(source["connection"]["depth"], 0, "{source}");
    let duties: Vec<&str> =
        source["duties"].as_array().unwrap().iter().map(|duty| duty["name"].as_str().unwrap()).collect();
    assert_eq!(duties, ["bridge", "sweep", "sampling"]);
    let topology = shop.app.get("/api/v1/sources/nats/topology").await.expect(200);
    assert_eq!((&topology["applied"], &topology["changes"]), (&json!(false), &json!([])), "{topology}");
    jetstream::new(shop.client.clone()).delete_stream("DLQ").await.unwrap();
    let topology = shop.app.get("/api/v1/sources/nats/topology").await.expect(200);
    assert!(topology["changes"][0]["subject"].as_str().unwrap().contains("DLQ"), "{topology}");
    let applied = shop.app.post("/api/v1/sources/nats/topology", &json!({})).await.expect(200);
    assert_eq!(
        (&applied["applied"], applied["changes"].as_array().unwrap().is_empty()),
        (&json!(true), false)
    );
    let log = shop.app.get("/api/v1/audit?limit=1").await.expect(200);
    assert_eq!(log["items"][0]["action"], "source.topology_applied", "{log}");
    let check = shop.app.get("/api/v1/sources/nats/check").await.expect(200);
    assert_ne!(check["level"], "error", "{check}");
    let metrics = String::from_utf8(shop.app.get("/metrics").await.bytes.to_vec()).unwrap();
    for line in ["lazaret_source_connected{source=\"nats\"} 1", "lazaret_source_depth{source=\"nats\"}"] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let page = String::from_utf8(shop.app.get("/sources").await.bytes.to_vec()).unwrap();
    for part in ["jetstream", "Waiting to be captured", "Bridge"] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    let why = shop.app.post("/api/v1/dead-letters?source=nats", &json!({"eventId": "x"})).await;
    why.problem(400, "unknown_source");
}
