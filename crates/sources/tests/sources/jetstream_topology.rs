//! The topology: what is declared, what is left alone, and what the doctor says.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use lazaret_brokers::nats::Version;
use lazaret_sources::jetstream::{JetStream, Sampling, Sweep, WatchedConsumer};
use lazaret_sources::{Change, ChangeKind, Declare, Duty, Level, Source};

use crate::jetstream_app::NatsApp;

fn shown(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|it| format!("{} {}", it.kind.name(), it.subject)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_changes_nothing_and_applying_twice_changes_nothing_more() {
    for version in Version::ALL {
        let mut app = NatsApp::bare(version, RetentionPolicy::Limits).await;
        app.config.consumers =
            vec![WatchedConsumer::new("ORDERS", "worker"), WatchedConsumer::new("ORDERS", "gone")];
        let source = app.source();
        let dry = source.declare(Declare::DryRun).await.unwrap();
        let expected = [
            "create stream DLQ",
            "create stream LAZARET_ADVISORIES",
            "create stream LAZARET_METRICS",
            "create consumer DLQ.lazaret-shop",
            "create consumer DLQ.lazaret-shop-follow-up",
            "create consumer LAZARET_ADVISORIES.lazaret-shop-bridge",
            "create consumer LAZARET_ADVISORIES.lazaret-shop-receipts",
            "update consumer ORDERS.worker",
            "blocked consumer ORDERS.gone",
        ];
        assert_eq!(shown(&dry), expected);
        assert_eq!(dry[7].details, ["backoff: 1s, 1500ms -> 1s, 2s, 4s, 8s", "max_deliver: 3 -> 5"]);
        assert!(app.context.get_stream("DLQ").await.is_err());
        assert_eq!(app.worker().await.cached_info().config.max_deliver, 3);
        assert_eq!(source.declare(Declare::Apply).await.unwrap(), dry);
        let worker = app.worker().await;
        let config = &worker.cached_info().config;
        assert_eq!((config.max_deliver, config.backoff.len()), (5, 4));
        assert_eq!(shown(&source.declare(Declare::Apply).await.unwrap()), ["blocked consumer ORDERS.gone"]);
        // Somebody limits the dead-letter stream.
        let mut limited = app.stream("DLQ").await.cached_info().config.clone();
        limited.max_messages = 10;
        app.context.update_stream(limited).await.unwrap();
        let changes = source.declare(Declare::Apply).await.unwrap();
        assert_eq!(changes[0].details, ["max_msgs: 10 -> -1"]);
        assert_eq!(app.stream("DLQ").await.cached_info().config.max_messages, -1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_an_application_survive_the_declaration() {
    for version in Version::ALL {
        let mut app = NatsApp::bare(version, RetentionPolicy::Limits).await;
        let consumer = pull::Config {
            durable_name: Some("billing".to_owned()),
            filter_subject: "orders.new".to_owned(),
            description: Some("bills orders".to_owned()),
            max_ack_pending: 77,
            ..pull::Config::default()
        };
        app.stream("ORDERS").await.create_consumer(consumer).await.unwrap();
        app.config.consumers = vec![WatchedConsumer::new("ORDERS", "billing")];
        app.source().declare(Declare::Apply).await.unwrap();
        let stream = app.stream("ORDERS").await;
        let config = stream.consumer_info("billing").await.unwrap().config;
        assert_eq!((config.max_deliver, config.max_ack_pending), (5, 77));
        assert_eq!(config.description.as_deref(), Some("bills orders"));
        assert_eq!(config.filter_subject, "orders.new");
        // The one that is not configured stays as it is.
        assert_eq!(app.worker().await.cached_info().config.max_deliver, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_has_our_subjects_blocks_the_declaration() {
    for version in Version::ALL {
        let app = NatsApp::bare(version, RetentionPolicy::Limits).await;
        let shadow =
            Config { name: "OLD_DLQ".to_owned(), subjects: vec!["dlq.*".to_owned()], ..Config::default() };
        app.context.create_stream(shadow).await.unwrap();
        let source = app.source();
        let changes = source.declare(Declare::Apply).await.unwrap();
        let ChangeKind::Blocked(why) = &changes[0].kind else { panic!("{changes:?}") };
        assert!(why.contains("OLD_DLQ captures dlq.>"), "{why}");
        let findings = source.check().await;
        assert!(
            findings.iter().any(|it| it.level == Level::Error && it.what.contains("OLD_DLQ")),
            "{findings:#?}"
        );
    }
}

async fn findings(app: &NatsApp) -> Vec<String> {
    let source = JetStream::new(app.config.clone()).unwrap();
    let findings = source.check().await;
    assert!(findings.iter().all(|it| it.level == Level::Ok || it.hint.is_some()), "{findings:#?}");
    findings.into_iter().filter(|it| it.level != Level::Ok).map(|it| it.what).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_what_would_lose_or_loop_messages() {
    for version in Version::ALL {
        let app = NatsApp::bare(version, RetentionPolicy::Limits).await;
        let told = |findings: &[String], text: &str| {
            assert!(findings.iter().any(|it| it.contains(text)), "{version:?} {text}: {findings:#?}");
        };
        let before = findings(&app).await;
        told(&before, "stream LAZARET_ADVISORIES is missing");
        told(&before, "stream DLQ is missing");
        app.source().declare(Declare::Apply).await.unwrap();
        let endless = pull::Config { durable_name: Some("endless".to_owned()), ..pull::Config::default() };
        app.stream("ORDERS").await.create_consumer(endless).await.unwrap();
        let mut short = app.stream("ORDERS").await.cached_info().config.clone();
        short.max_age = std::time::Duration::from_secs(3_600);
        short.max_messages = 1_000;
        app.context.update_stream(short).await.unwrap();
        let mut limited = app.stream("LAZARET_ADVISORIES").await.cached_info().config.clone();
        limited.max_messages = 5;
        app.context.update_stream(limited).await.unwrap();
        let after = findings(&app).await;
        told(&after, "consumer ORDERS.endless has no max_deliver");
        told(&after, "stream ORDERS drops messages after 1h");
        told(&after, "stream ORDERS drops its oldest messages at max_msgs");
        told(&after, "stream LAZARET_ADVISORIES differs: max_msgs: 5 -> -1");
        let warns = after.iter().any(|it| it.contains("+TERM <reason>"));
        assert_eq!(warns, version == Version::Debian, "{after:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duty_fails_for_as_long_as_the_server_is_away() {
    let app = NatsApp::start(Version::Current).await;
    let source = app.source();
    let duties: [Box<dyn Duty>; 2] =
        [Box::new(Sweep::new(source.clone())), Box::new(Sampling::new(source.clone()))];
    app.kill().await;
    for duty in &duties {
        for _ in 0..2 {
            assert!(duty.run_once().await.is_err(), "{} says that it worked", duty.name());
        }
    }
    app.start_again().await;
    for duty in &duties {
        duty.run_once().await.unwrap();
    }
}
