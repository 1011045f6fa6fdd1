//! Dead letters of a JetStream dead-letter stream into the embedded store, beside bare consumers that only acknowledge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::{self, Context, Message};
use async_nats::{Client, HeaderMap};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lazaret_brokers::nats::{Server, Version};
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::broker::{BrokerDeath, DeathReason, HEADER_BYTES_MAX, MESSAGE_ID, StreamOrigin};
use lazaret_core::class::ErrorClass;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_server::app::App;
use lazaret_server::config::{JetStreamConfig, SourceConfig, SourceKind};
use lazaret_server::sources::{capture_and_pull, capture_arrivals};
use lazaret_sources::Declare;

use super::sample::{Bed, bed};

const LETTERS: usize = 10_000;
const BODY_BYTES: usize = 1_024;

/// Each is measured this often, by turns, and the best is taken.
const TURNS: usize = 3;

/// How a bare consumer acknowledges.
#[derive(Clone, Copy)]
enum Ack {
    /// Sends and does not wait for an answer.
    Plain,
    /// Waits until the server has it, message by message.
    Double,
    /// Waits until the server has it, 32 messages at once.
    DoubleAtOnce,
}

#[derive(Clone, Copy)]
struct Measured {
    time: Duration,
    /// Processor time of this process; nats-server has its own.
    cpu_s: f64,
}

pub async fn run() {
    let server = Server::start(Version::Current);
    let client = async_nats::connect(server.url()).await.expect("the server lets everyone in");
    let context = jetstream::new(client.clone());
    fill(&context, &server).await;
    let mut rows: [(&str, Option<Measured>); 4] = [
        ("bare consumer, plain acks", None),
        ("bare consumer, double acks, 32 at once", None),
        ("bare consumer, double acks, one after the other", None),
        ("Lazaret: stored with fsync, then acknowledged", None),
    ];
    for turn in 0..TURNS {
        let [plain, at_once, double, captured] = &mut rows;
        plain.1 = Some(best(plain.1, bare(&client, &context, Ack::Plain).await));
        at_once.1 = Some(best(at_once.1, bare(&client, &context, Ack::DoubleAtOnce).await));
        double.1 = Some(best(double.1, bare(&client, &context, Ack::Double).await));
        captured.1 = Some(best(captured.1, capture(&server, turn).await));
    }
    println!("## {LETTERS} dead letters from JetStream, fsync on\n");
    println!("Letters of {BODY_BYTES} bytes beside their headers; best of {TURNS} turns.\n");
    println!("| what | letters/s | Lazaret, of it | CPU µs a letter |\n|---|---|---|---|");
    let rows: Vec<(&str, Measured)> =
        rows.into_iter().filter_map(|(name, measured)| Some((name, measured?))).collect();
    let reached = rows.last().map_or(0.0, |(_, captured)| captured.rate());
    for (name, measured) in rows {
        let (rate, cpu) = (measured.rate(), measured.cpu_s * 1e6 / LETTERS as f64);
        println!("| {name} | {rate:.0} | {:.2} | {cpu:.1} |", reached / rate);
    }
    println!();
}

impl Measured {
    fn rate(self) -> f64 {
        LETTERS as f64 / self.time.as_secs_f64()
    }
}

fn best(known: Option<Measured>, new: Measured) -> Measured {
    known.filter(|known| known.time < new.time).unwrap_or(new)
}

async fn measure(work: impl Future<Output = ()>) -> Measured {
    let (begun, cpu) = (Instant::now(), cpu_s());
    work.await;
    Measured { time: begun.elapsed(), cpu_s: cpu_s() - cpu }
}

/// Processor time of this process so far; `/proc` counts hundredths of a second.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// An instance whose source is this server; the name makes the durable consumer a new one.
async fn instance(server: &Server, name: &str) -> (Bed, App) {
    let bed = bed().await;
    let mut config = bed.app.config.clone();
    let jetstream = JetStreamConfig::new(name, [server.url()]);
    let report = config.sources.get("report").expect("it is always there").clone();
    let source = SourceConfig { kind: SourceKind::JetStream, jetstream: Some(jetstream), ..report };
    config.sources.insert(name.to_owned(), source);
    let app = bed.app.under(config);
    app.sources
        .get(name)
        .expect("it is configured")
        .source
        .declare(Declare::Apply)
        .await
        .expect("it is declared");
    (bed, app)
}

/// Fills the dead-letter stream as workers do.
async fn fill(context: &Context, server: &Server) {
    let orders = jetstream::stream::Config {
        name: "ORDERS".to_owned(),
        subjects: vec!["orders.>".to_owned()],
        ..Default::default()
    };
    context.create_stream(orders).await.expect("the stream is new");
    instance(server, "declares").await;
    let created = Time::from_ms(1_790_000_000_000);
    let published = stream::iter(0..LETTERS).map(|n| async move {
        let origin = StreamOrigin {
            stream: "ORDERS".to_owned(),
            stream_created: created,
            sequence: n as u64 + 1,
            consumer: "worker".to_owned(),
        };
        let body = format!("{{\"order\":{n:>8},\"note\":\"{:x<width$}\"}}", "", width = BODY_BYTES - 30);
        context
            .publish_with_headers(origin.dead_letter_subject(), headers(n, &origin), body.into())
            .await?
            .await
    });
    published.buffer_unordered(256).try_collect::<Vec<_>>().await.expect("dead letters are published");
}

fn headers(n: usize, origin: &StreamOrigin) -> HeaderMap {
    let at = Some(origin.stream_created);
    let error = LetterError {
        error_type: ["std::io::Error", "shop::OutOfStock", "serde_json::Error"][n % 3].to_owned(),
        message: format!("order {n} cannot be booked: connection timed out after 5000 ms"),
        code: Some(format!("E{}", n % 40)),
        backtrace: Some((0..20).map(|frame| format!("{frame}: shop::orders::step{frame}\n")).collect()),
        ..LetterError::default()
    };
    let attempt = Attempt { at, duration_ms: Some(12), error: error.clone(), extra: None };
    let death = BrokerDeath {
        origin: Some(origin.clone()),
        original_subject: Some(format!("orders.created.{}", n % 5)),
        published_at: at,
        deliveries: Some(1),
        reason: Some(DeathReason::Permanent),
        error: Some(error),
        class: Some(ErrorClass::Validation),
        first_attempt_at: at,
        last_attempt_at: at,
        service_version: Some("3.1.0".to_owned()),
        attempts: vec![attempt],
    };
    let mut headers = HeaderMap::new();
    for (name, value) in death.headers(HEADER_BYTES_MAX) {
        headers.insert(name, value.as_str());
    }
    headers.insert(MESSAGE_ID, origin.message_id().as_str());
    headers
}

/// Takes every message with a consumer of its own and acknowledges it, until the server has all acknowledgements.
async fn bare(client: &Client, context: &Context, ack: Ack) -> Measured {
    let stream = context.get_stream("DLQ").await.expect("it is declared");
    let config =
        pull::Config { max_ack_pending: limits::JETSTREAM_ACK_PENDING_MAX as i64, ..Default::default() };
    let mut consumer: PullConsumer = stream.create_consumer(config).await.expect("a consumer can be made");
    measure(async {
        let mut taken = 0;
        while taken < LETTERS {
            let batch =
                consumer.fetch().max_messages(limits::JETSTREAM_CAPTURE_MESSAGES_MAX).messages().await;
            let batch: Vec<Message> = batch.expect("it answers").try_collect().await.expect("messages come");
            taken += batch.len();
            acknowledge(batch, ack).await;
        }
        client.flush().await.expect("it is connected");
        while consumer.info().await.expect("it is there").num_ack_pending > 0 {}
    })
    .await
}

async fn acknowledge(batch: Vec<Message>, ack: Ack) {
    let at_once = match ack {
        Ack::Plain | Ack::Double => 1,
        Ack::DoubleAtOnce => limits::JETSTREAM_BRIDGE_CONCURRENCY,
    };
    let acked = stream::iter(batch).map(|message| async move {
        match ack {
            Ack::Plain => message.ack().await,
            Ack::Double | Ack::DoubleAtOnce => message.double_ack().await,
        }
    });
    acked.buffer_unordered(at_once).try_collect::<Vec<()>>().await.expect("it is acknowledged");
}

/// Captures every message as the supervisor does.
async fn capture(server: &Server, turn: usize) -> Measured {
    let name = format!("orders{turn}");
    let (bed, app) = instance(server, &name).await;
    let running = Arc::clone(app.sources.get(&name).expect("it is configured"));
    let measured = measure(async {
        let (mut arrivals, mut taken) = (Vec::new(), 0);
        while taken < LETTERS {
            arrivals = capture_and_pull(&app, &running, arrivals).await.expect("they are stored");
            taken += arrivals.len();
        }
        capture_arrivals(&app, &running, arrivals).await.expect("they are stored");
    })
    .await;
    bed.app.store.close().await.expect("the store closes");
    measured
}
