//! RabbitMQ on a real broker, from the message that fails to the redrive that its worker confirms.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use lazaret_brokers::rabbitmq::{Server, Vhost};
use lazaret_server::config::{Config, RabbitMqConfig, SourceConfig, SourceKind};
use lazaret_server::sources::{self, Running};
use lazaret_sources::Declare;
use lazaret_sources::rabbitmq::{DeadLetterQueue, ManagementConfig};
use lazaret_store::sqlite::Mode;
use lazaret_worker::Failure;
use lazaret_worker::rabbitmq::{Delivery, Worker};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::redriving::{diagnose, drive, incident_of, launch_of};
use super::rig::TestApp;

const WAIT_MAX: Duration = Duration::from_secs(60);
const GOOD: u64 = 1_000;

/// A shop whose orders are billed by a worker, and a server that captures from the worker's dead-letter queue.
struct Shop {
    app: TestApp,
    url: String,
    billed: Arc<AtomicU64>,
    is_fixed: Arc<AtomicBool>,
}

impl Shop {
    /// On a virtual host of the broker that all tests share.
    async fn open() -> Shop {
        let vhost = tokio::task::spawn_blocking(|| Server::shared().vhost()).await.unwrap();
        Shop::on(&vhost).await
    }

    async fn on(vhost: &Vhost) -> Shop {
        let address = vhost.url.rsplit_once('@').unwrap().1.split_once('/').unwrap().0;
        let mut rabbitmq = RabbitMqConfig::new("rabbit", [format!("amqp://{address}")]);
        rabbitmq.vhost = vhost.name.clone();
        rabbitmq.quiet_ms = 1_000;
        rabbitmq.management = Some(ManagementConfig { url: vhost.management_url.clone() });
        rabbitmq.queues = vec![DeadLetterQueue::new("billing-dlq")];
        let mut source = SourceConfig::new("rabbit", SourceKind::RabbitMq);
        source.rabbitmq = Some(rabbitmq);
        let mut config = Config::default();
        config.sources.insert("rabbit".to_owned(), source);
        let app = TestApp::with(config, Mode::Real).await;
        let shop = Shop { app, url: vhost.url.clone(), billed: Arc::default(), is_fixed: Arc::default() };
        shop.running().source.declare(Declare::Apply).await.unwrap();
        shop
    }

    fn running(&self) -> Arc<Running> {
        Arc::clone(self.app.app.sources.get("rabbit").unwrap())
    }

    async fn channel(&self) -> Channel {
        let connection = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        channel
    }

    /// Starts the worker; it ends when the sender is dropped or used.
    fn work(&self) -> oneshot::Sender<()> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (billed, is_fixed) = (Arc::clone(&self.billed), Arc::clone(&self.is_fixed));
        let bill = move |order: Delivery| {
            let (billed, is_fixed) = (Arc::clone(&billed), Arc::clone(&is_fixed));
            async move {
                if order.body().starts_with(b"{\"poison\"") && !is_fixed.load(Ordering::Relaxed) {
                    return Err(Failure::new("ValidationError", "order 500 has no total"));
                }
                billed.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        };
        let worker = Worker::new(self.url.clone(), "billing", "orders").concurrency(16);
        tokio::spawn(async move {
            let stop = async {
                stopped.await.ok();
            };
            worker.run(bill, stop).await.unwrap();
        });
        stop
    }

    async fn count(&self) -> u64 {
        let list = self.app.get("/api/v1/dead-letters?source=rabbit&limit=1").await.expect(200);
        list["total"].as_u64().unwrap()
    }

    /// Records the cause and the fix, and launches a redrive of all letters; returns its address.
    async fn redrive(&self, letter: &str) -> String {
        let incident = incident_of(&self.app, letter).await;
        diagnose(&self.app, &incident, "contract").await;
        self.app.pass(1_000);
        self.app.post(&format!("{incident}/fix"), &json!({"reference": "deploy 7"})).await.expect(200);
        self.is_fixed.store(true, Ordering::Relaxed);
        let wanted = json!({"filter": {"source": "rabbit"}, "pace": "unlimited", "canary": 0});
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
            let list = self.app.get("/api/v1/dead-letters?source=rabbit").await.expect(200);
            if let Some(letter) = list["items"].as_array().unwrap().first() {
                let id = letter["id"].as_str().unwrap();
                return self.app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
            }
        }
    }

    /// Captures and takes receipts, whatever fails in between.
    fn supervise(&self) -> Vec<JoinHandle<()>> {
        let pause = Duration::from_millis(50);
        let (running, app) = (self.running(), Arc::clone(&self.app.app));
        let capture = tokio::spawn(async move {
            loop {
                match running.source.next().await {
                    Ok(arrivals) => {
                        sources::capture_arrivals(&app, &running, arrivals).await.unwrap();
                    }
                    Err(_) => tokio::time::sleep(pause).await,
                }
            }
        });
        let (running, app) = (self.running(), Arc::clone(&self.app.app));
        let receipts = tokio::spawn(async move {
            loop {
                if sources::take_receipts(&app, "rabbit", &running).await.is_err() {
                    tokio::time::sleep(pause).await;
                }
            }
        });
        vec![capture, receipts]
    }
}

async fn publish(channel: &Channel, queue: &str, id: &str, body: &str) {
    let properties = BasicProperties::default().with_delivery_mode(2).with_message_id(id.into());
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties).await;
    let confirmed = sent.unwrap().await.unwrap();
    assert!(confirmed.take_message().is_none(), "{queue} does not exist");
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + WAIT_MAX;
    while !is_so().await {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_message_is_a_letter_whose_redrive_its_worker_confirms() {
    let shop = Shop::open().await;
    let _worker = shop.work();
    let channel = shop.channel().await;
    until("the worker declares no queue", async || {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let probe = shop.channel().await;
        probe.queue_declare("orders".into(), options, FieldTable::default()).await.is_ok()
    })
    .await;
    for n in 0..=GOOD {
        let body = match n == GOOD / 2 {
            true => r#"{"poison": true, "tenantId": "acme"}"#.to_owned(),
            false => format!(r#"{{"order": {n}}}"#),
        };
        publish(&channel, "orders", &format!("order-{n}"), &body).await;
    }
    until("good messages are held up", async || shop.billed.load(Ordering::Relaxed) == GOOD).await;
    let letter = shop.letter().await;
    assert_eq!((&letter["queue"], &letter["tenantId"]), (&json!("orders"), &json!("acme")), "{letter}");
    assert_eq!((&letter["eventId"], &letter["subscriberId"]), (&json!("order-500"), &json!("billing")));
    assert_eq!(letter["error"]["type"], "ValidationError", "{letter}");
    assert_eq!(
        (&letter["origin"]["kind"], &letter["origin"]["queue"]),
        (&json!("rabbitmq"), &json!("orders"))
    );
    let id = letter["id"].as_str().unwrap();
    let body = shop.app.get(&format!("/api/v1/dead-letters/{id}/body")).await;
    assert_eq!(body.bytes, br#"{"poison": true, "tenantId": "acme"}"#.as_slice());

    shop.app.post(&format!("/api/v1/dead-letters/{id}/retry"), &json!({})).await.problem(409, "rca_required");
    let run = shop.redrive(id).await;
    until("no receipt resolves the letter", async || {
        drive(&shop.app).await;
        sources::take_receipts(&shop.app.app, "rabbit", &shop.running()).await.unwrap();
        shop.app.get(&run).await.expect(200)["letters"]["succeeded"] == 1
    })
    .await;
    assert_eq!(shop.billed.load(Ordering::Relaxed), GOOD + 1);
    let listed = shop.app.get(&format!("{run}/letters")).await.expect(200);
    assert_eq!(listed["items"][0]["evidence"], "receipt", "{listed}");
    let letter = shop.app.get(&format!("/api/v1/dead-letters/{id}")).await.expect(200);
    assert_eq!(letter["status"], "resolved");
    shop.app.check().await;
}

/// A queue that dead-letters natively to `billing-dlq`, worked on by a program that knows nothing of Lazaret.
async fn native_queue(channel: &Channel) {
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString("billing-dlq".into()));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare("invoices".into(), options, arguments).await.unwrap();
}

async fn reject_one(channel: &Channel) {
    until("nothing is in the queue", async || {
        let got = channel.basic_get("invoices".into(), BasicGetOptions::default()).await.unwrap();
        match got {
            Some(message) => message.delivery.reject(BasicRejectOptions { requeue: false }).await.is_ok(),
            None => false,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_broker_dead_lettered_is_redriven_to_its_queue() {
    let shop = Shop::open().await;
    let channel = shop.channel().await;
    native_queue(&channel).await;
    publish(&channel, "invoices", "invoice-1", "not even JSON").await;
    reject_one(&channel).await;
    let letter = shop.letter().await;
    assert_eq!((&letter["queue"], &letter["eventId"]), (&json!("invoices"), &json!("invoice-1")), "{letter}");
    let run = shop.redrive(letter["id"].as_str().unwrap()).await;
    drive(&shop.app).await;
    // It dies again: the same letter in its next life, and a relapse.
    reject_one(&channel).await;
    until("the relapse is not recognised", async || {
        let arrivals = shop.running().source.next().await.unwrap();
        sources::capture_arrivals(&shop.app.app, &shop.running(), arrivals).await.unwrap();
        shop.app.get(&run).await.expect(200)["letters"]["relapsed"] == 1
    })
    .await;
    assert_eq!(shop.count().await, 1);
    let letter = shop.letter().await;
    assert_eq!((&letter["life"], &letter["status"]), (&json!(2), &json!("pending")), "{letter}");
    shop.app.check().await;
}

/// A consumer that reports nothing back proves nothing: silence counts once it took the message, and only as assumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_without_a_receipt_is_assumed_after_the_quiet_window() {
    let shop = Shop::open().await;
    let channel = shop.channel().await;
    native_queue(&channel).await;
    publish(&channel, "invoices", "invoice-1", "{}").await;
    reject_one(&channel).await;
    let letter = shop.letter().await;
    let run = shop.redrive(letter["id"].as_str().unwrap()).await;
    for _ in 0..5 {
        drive(&shop.app).await;
        shop.app.pass(600_000);
    }
    let state = shop.app.get(&run).await.expect(200);
    assert_eq!((&state["letters"]["sent"], &state["letters"]["assumed"]), (&json!(1), &json!(0)), "{state}");
    let (options, none) = (BasicConsumeOptions { no_ack: true, ..Default::default() }, FieldTable::default());
    let _consumer = channel.basic_consume("invoices".into(), "plain".into(), options, none).await.unwrap();
    until("silence is not taken for success", async || {
        drive(&shop.app).await;
        shop.app.pass(60_000);
        shop.app.get(&run).await.expect(200)["letters"]["assumed"] == 1
    })
    .await;
    let listed = shop.app.get(&format!("{run}/letters")).await.expect(200);
    assert_eq!(listed["items"][0]["evidence"], "quiet_window", "{listed}");
    shop.app.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_source_is_shown_with_its_connection_and_queues() {
    let shop = Shop::open().await;
    let channel = shop.channel().await;
    native_queue(&channel).await;
    assert!(shop.running().source.next().await.unwrap().is_empty());
    let source = shop.app.get("/api/v1/sources/rabbit").await.expect(200);
    assert_eq!(
        (&source["kind"], &source["connection"]["connected"]),
        (&json!("rabbitmq"), &json!(true)),
        "{source}"
    );
    let topology = shop.app.get("/api/v1/sources/rabbit/topology").await.expect(200);
    assert_eq!((&topology["applied"], &topology["changes"]), (&json!(false), &json!([])), "{topology}");
    // The node publishes its statistics every five seconds.
    until("the queue is not found", async || {
        let found = shop.app.get("/api/v1/sources/rabbit/queues").await.expect(200);
        assert_eq!(found["known"], true, "{found}");
        let items = found["items"].as_array().unwrap();
        items.iter().any(|it| {
            it["queue"] == "billing-dlq" && it["fedBy"] == json!(["invoices"]) && it["captured"] == true
        })
    })
    .await;
    let check = shop.app.get("/api/v1/sources/rabbit/check").await.expect(200);
    assert_eq!(check["level"], "warning", "{check}");
    let told = check["findings"].to_string();
    assert!(told.contains("classic queue invoices dead-letters at most once"), "{told}");
    let page = String::from_utf8(shop.app.get("/sources?check=rabbit").await.bytes.to_vec()).unwrap();
    for part in ["rabbitmq", "Backlog", "Dead-letter queues", "billing-dlq", "invoices"] {
        assert!(page.contains(part), "{part} is not on the page");
    }
    let metrics = String::from_utf8(shop.app.get("/metrics").await.bytes.to_vec()).unwrap();
    assert!(metrics.contains("lazaret_source_connected{source=\"rabbit\"} 1"), "{metrics}");
    shop.app.get("/api/v1/sources/jobs/queues").await.expect(200);
    shop.app.get("/api/v1/sources/nobody/queues").await.problem(404, "not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    const DEAD: u64 = 60;
    let (server, vhost) = tokio::task::spawn_blocking(|| {
        let server = Server::start();
        let vhost = server.vhost();
        (Arc::new(Mutex::new(server)), vhost)
    })
    .await
    .unwrap();
    let kill = |times: u64| {
        let server = Arc::clone(&server);
        tokio::task::spawn_blocking(move || {
            for n in 0..times {
                // At moments that differ, and are the same in every run.
                std::thread::sleep(Duration::from_millis(300 + 170 * (n * 7 % 5)));
                let mut server = server.lock().unwrap();
                server.kill();
                server.start_again();
            }
        })
    };
    let shop = Shop::on(&vhost).await;
    let channel = shop.channel().await;
    for n in 0..DEAD {
        publish(&channel, "billing-dlq", &format!("order-{n}"), &format!(r#"{{"poison": {n}}}"#)).await;
    }
    let tasks = shop.supervise();
    let kills = kill(2);
    until("not every dead message is a letter", async || shop.count().await == DEAD).await;
    kills.await.unwrap();
    shop.app.check().await;
    let list = shop.app.get("/api/v1/dead-letters?source=rabbit&limit=500").await.expect(200);
    let letters = list["items"].as_array().unwrap();
    assert!(letters.iter().all(|letter| letter["life"] == 1 && letter["status"] == "pending"), "{list}");
    tasks.iter().for_each(JoinHandle::abort);
    drop(server);
}
