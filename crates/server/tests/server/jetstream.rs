//! NATS JetStream on a real server, from the message that fails to the redrive that its consumer acknowledges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, stream};
use futures_util::TryStreamExt as _;
use lazaret_brokers::nats::{Cluster, Server, Version};
use lazaret_server::config::{Config, JetStreamConfig, SourceConfig, SourceKind};
use lazaret_server::sources::{self, Running};
use lazaret_sources::Declare;
use lazaret_store::sqlite::Mode;
use lazaret_worker::Failure;
use lazaret_worker::jetstream::{Delivery, Worker};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::metrics::REFERENCE;
use super::redriving::{diagnose, drive, incident_of, launch_of};
use super::rig::TestApp;

pub const WAIT_MAX: Duration = Duration::from_secs(60);
const GOOD: u64 = 1_000;

/// A shop whose orders are billed by a worker, and a server that watches.
pub struct Shop {
    pub app: TestApp,
    pub client: async_nats::Client,
    billed: Arc<AtomicU64>,
    is_fixed: Arc<AtomicBool>,
    /// One server, or those of a cluster.
    pub nodes: Arc<Mutex<Vec<Server>>>,
}

impl Shop {
    async fn open(version: Version) -> Shop {
        Shop::open_with(version, |_| {}).await
    }

    pub async fn open_with(version: Version, configure: impl FnOnce(&mut JetStreamConfig)) -> Shop {
        let server = tokio::task::spawn_blocking(move || Server::start(version)).await.unwrap();
        Shop::on(vec![server], configure).await
    }

    /// A shop on three nodes that replicate everything.
    pub async fn on_cluster(version: Version) -> Shop {
        let cluster = tokio::task::spawn_blocking(move || Cluster::start(version)).await.unwrap();
        Shop::on(cluster.nodes.into(), |config| config.replicas = 3).await
    }

    async fn on(nodes: Vec<Server>, configure: impl FnOnce(&mut JetStreamConfig)) -> Shop {
        let urls: Vec<String> = nodes.iter().map(Server::url).collect();
        let client = async_nats::connect(urls.clone()).await.unwrap();
        let context = jetstream::new(client.clone());
        let orders = stream::Config {
            name: "ORDERS".to_owned(),
            subjects: vec!["orders.>".to_owned()],
            num_replicas: nodes.len(),
            ..stream::Config::default()
        };
        let billing = pull::Config {
            durable_name: Some("billing".to_owned()),
            max_deliver: 5,
            ..pull::Config::default()
        };
        context.create_stream(orders).await.unwrap().create_consumer(billing).await.unwrap();
        let mut source = SourceConfig::new("nats", SourceKind::JetStream);
        let mut wanted = JetStreamConfig::new("nats", urls);
        configure(&mut wanted);
        source.jetstream = Some(wanted);
        let mut config = Config::default();
        config.sources.insert("nats".to_owned(), source);
        let app = TestApp::with(config, Mode::Real).await;
        let nodes = Arc::new(Mutex::new(nodes));
        let shop = Shop { app, client, billed: Arc::default(), is_fixed: Arc::default(), nodes };
        shop.running().source.declare(Declare::Apply).await.unwrap();
        shop
    }

    pub fn running(&self) -> Arc<Running> {
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

    /// Kills the server and starts it again, some times.
    fn kill_often(&self, times: u64) -> JoinHandle<()> {
        let nodes = Arc::clone(&self.nodes);
        tokio::task::spawn_blocking(move || {
            for n in 0..times {
                // At moments that differ, and are the same in every run.
                std::thread::sleep(Duration::from_millis(300 + 170 * (n * 7 % 5)));
                let mut nodes = nodes.lock().unwrap();
                nodes[0].kill();
                nodes[0].start_again();
            }
        })
    }

    /// A worker that knows nothing of Lazaret: it refuses every message until it is fixed.
    pub fn work_plainly(&self) -> JoinHandle<()> {
        let (client, billed, is_fixed) =
            (self.client.clone(), Arc::clone(&self.billed), Arc::clone(&self.is_fixed));
        tokio::spawn(async move {
            loop {
                let messages = pull_some(&client).await.unwrap_or_default();
                for message in messages {
                    let fixed = is_fixed.load(Ordering::Relaxed);
                    let done = if fixed { AckKind::Ack } else { AckKind::Nak(None) };
                    if message.ack_with(done).await.is_ok() && fixed {
                        billed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        })
    }

    /// Runs what the supervisor runs, whatever fails in between.
    pub fn supervise(&self) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::new();
        for duty in self.running().duties.clone() {
            tasks.push(tokio::spawn(async move {
                loop {
                    if duty.run_once().await.is_err() {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
            }));
        }
        let (running, app) = (self.running(), Arc::clone(&self.app.app));
        tasks.push(tokio::spawn(async move {
            loop {
                if sources::take_receipts(&app, "nats", &running).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }));
        let (running, app) = (self.running(), Arc::clone(&self.app.app));
        tasks.push(tokio::spawn(async move {
            loop {
                match running.source.next().await {
                    Ok(arrivals) if arrivals.is_empty() => {}
                    Ok(arrivals) => {
                        sources::capture_arrivals(&app, &running, arrivals).await.unwrap();
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        }));
        tasks
    }

    pub async fn count(&self) -> u64 {
        let list = self.app.get("/api/v1/dead-letters?source=nats&limit=1").await.expect(200);
        list["total"].as_u64().unwrap()
    }

    /// Names the cause and the fix, and launches a redrive of all letters; gives its address.
    pub async fn redrive(&self, letter: &str) -> String {
        let incident = incident_of(&self.app, letter).await;
        diagnose(&self.app, &incident, "contract").await;
        self.app.pass(1_000);
        self.app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
        self.is_fixed.store(true, Ordering::Relaxed);
        let wanted = json!({"filter": {"source": "nats"}, "pace": "unlimited", "canary": 0});
        let plan = self.app.post("/api/v1/redrives/plan", &wanted).await.expect(201);
        self.app.post("/api/v1/redrives", &launch_of(&plan)).await.expect(202);
        format!("/api/v1/redrives/{}", plan["id"].as_str().unwrap())
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

async fn pull_some(client: &async_nats::Client) -> Result<Vec<jetstream::Message>, async_nats::Error> {
    let context = jetstream::new(client.clone());
    let billing: PullConsumer = context.get_consumer_from_stream("billing", "ORDERS").await?;
    let batch = billing.batch().max_messages(50).expires(Duration::from_millis(500));
    let messages = batch.messages().await?;
    messages.try_collect().await
}

pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
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
    let run = shop.redrive(id).await;
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
    let run = shop.redrive(letter["id"].as_str().unwrap()).await;
    drive(&shop.app).await;
    let _worker = shop.work();
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
    assert_eq!(duties, ["bridge", "sweep", "sampling", "follow_up"]);
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
    assert!(metrics.contains("lazaret_source_connected{source=\"nats\"} 1"), "{metrics}");
    for line in REFERENCE.lines().filter(|line| line.starts_with("| `lazaret_source_")) {
        let name = line.split('`').nth(1).unwrap();
        assert!(metrics.contains(&format!("# TYPE {name} gauge")), "{name} is not in\n{metrics}");
        assert!(metrics.contains(&format!("{name}{{source=\"nats\"")), "{name} is not in\n{metrics}");
    }
    let page = String::from_utf8(shop.app.get("/sources").await.bytes.to_vec()).unwrap();
    for part in ["jetstream", "Backlog", "Bridge"] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    let why = shop.app.post("/api/v1/dead-letters?source=nats", &json!({"eventId": "x"})).await;
    why.problem(400, "unknown_source");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    const DEAD: u64 = 120;
    let shop = Shop::open(Version::Current).await;
    let context = jetstream::new(shop.client.clone());
    for n in 0..DEAD {
        context.publish("orders.new", format!("order {n}").into()).await.unwrap().await.unwrap();
    }
    let mut tasks = shop.supervise();
    tasks.push(shop.work_plainly());
    let kills = shop.kill_often(6);
    until("not every exhausted message is a letter", async || shop.count().await == DEAD).await;
    kills.await.unwrap();
    shop.app.check().await;
    let list = shop.app.get("/api/v1/dead-letters?source=nats&limit=500").await.expect(200);
    let letters = list["items"].as_array().unwrap();
    assert!(letters.iter().all(|letter| letter["life"] == 1 && letter["status"] == "pending"), "{list}");

    let run = shop.redrive(letters[0]["id"].as_str().unwrap()).await;
    let kills = shop.kill_often(6);
    until("not every letter comes to its end", async || {
        drive(&shop.app).await;
        shop.app.pass(2_000);
        let letters = shop.app.get(&run).await.expect(200)["letters"].clone();
        letters["succeeded"].as_u64().unwrap() + letters["assumed"].as_u64().unwrap() == DEAD
    })
    .await;
    kills.await.unwrap();
    assert_eq!(shop.count().await, DEAD, "a redriven message became another letter");
    tasks.iter().for_each(JoinHandle::abort);
    shop.app.check().await;
}
