//! A worker that dies at the worst moment: every message is handled or a dead letter, and no dead letter is there twice.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::consumer::pull;
use lazaret_brokers::nats::{Options, Version};
use lazaret_core::broker::DeathReason;
use lazaret_worker::jetstream::{Delivery, Worker};
use tokio::sync::mpsc::unbounded_channel;

use crate::rig::{POLICY, Rig, Running, billing, death, invalid, next, timed_out};

/// Set for the process that is a worker and gets killed.
const CHILD_URL: &str = "LAZARET_WORKER_TEST_URL";

/// The user `mute` cannot answer deliveries, so a worker of his stays between publishing and terminating.
const USERS: &str = r#"authorization { users: [
    { user: full, password: full },
    { user: mute, password: mute, permissions: { publish: { deny: ["$JS.ACK.>"] } } },
] }"#;

/// Is the worker when a test below starts this program again, and nothing otherwise. A message `late` may pass by itself, any
/// other fails for good.
#[tokio::test]
async fn child_worker() {
    let Ok(url) = std::env::var(CHILD_URL) else { return };
    let options = ConnectOptions::with_user_and_password("mute".into(), "mute".into());
    let client = options.connect(url).await.unwrap();
    let worker = Worker::new(client, "ORDERS", "billing").retry_policy(POLICY);
    let handler = |delivery: Delivery| async move {
        Err(if delivery.payload().as_ref() == b"late" { timed_out() } else { invalid() })
    };
    worker.run(handler, std::future::pending()).await.unwrap();
}

/// A worker in a process of its own; killed when dropped, also by a test that fails.
struct Child(std::process::Child);

impl Child {
    fn start(url: &str, environment: &[(&str, &str)]) -> Child {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crashes::child_worker"])
            .env(CHILD_URL, url)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Child(child.unwrap())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_worker_killed_between_publishing_and_terminating_leaves_one_dead_letter() {
    for version in Version::ALL {
        let options = Options { version, settings: USERS.into(), ..Options::default() };
        let full = ConnectOptions::with_user_and_password("full".into(), "full".into());
        let rig = Rig::bare(options, full).await;
        rig.create_stream("ORDERS", "orders.>").await;
        rig.create_stream("DLQ", "dlq.>").await;
        rig.create_consumer(pull::Config { ack_wait: Duration::from_secs(1), ..billing() }).await;
        rig.publish("nonsense").await;
        let child = Child::start(&rig.server.url(), &[]);
        rig.dead_letters(1).await;
        drop(child);
        assert_eq!(rig.consumer().await.num_ack_pending, 1, "it was terminated before the kill");
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker(), move |delivery| {
            let handled = handled.clone();
            async move {
                handled.send(delivery.number())?;
                Err(invalid())
            }
        });
        assert!(next(&mut events).await >= 2);
        rig.wait_until_idle().await;
        let letters = rig.dead_letters(1).await;
        assert_eq!(letters[0].payload.as_ref(), b"nonsense");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_message_that_ends_its_worker_every_time_is_given_up() {
    for version in Version::ALL {
        let rig = Rig::start(version).await;
        rig.create_consumer(pull::Config { ack_wait: Duration::from_secs(1), ..billing() }).await;
        rig.publish("poison").await;
        for number in 1..=3 {
            let (handled, mut events) = unbounded_channel();
            let running = Running::start(rig.worker(), move |delivery| {
                let handled = handled.clone();
                async move {
                    handled.send(delivery.number())?;
                    std::future::pending().await
                }
            });
            assert_eq!(next(&mut events).await, number);
            running.abort().await;
            assert!(events.recv().await.is_none(), "the handler runs on");
        }
        // Three attempts are allowed, so the handler is not run again.
        let running = Running::start(rig.worker(), |_| async { panic!("run once too often") });
        let letters = rig.dead_letters(1).await;
        let death = death(&letters[0]);
        assert_eq!((death.deliveries, death.reason), (Some(4), Some(DeathReason::Exhausted)));
        assert_eq!(death.error.unwrap().error_type, "lazaret_worker::Unfinished");
        rig.wait_until_idle().await;
        running.stop().await;
    }
}

#[tokio::test]
async fn the_environment_sets_the_number_of_retries_and_the_version() {
    let rig = Rig::start(Version::Current).await;
    rig.publish("late").await;
    let environment = [("MAX_RETRIES", "0"), ("SERVICE_VERSION", "7.1.0")];
    let child = Child::start(&rig.server.url(), &environment);
    let letters = rig.dead_letters(1).await;
    let death = death(&letters[0]);
    assert_eq!((death.deliveries, death.reason), (Some(1), Some(DeathReason::Exhausted)));
    assert_eq!(death.service_version.as_deref(), Some("7.1.0"));
    drop(child);
}

#[tokio::test]
async fn nothing_is_lost_or_buried_twice_while_the_server_is_killed_again_and_again() {
    const MESSAGES: u64 = 200;
    for version in Version::ALL {
        let mut rig = Rig::start(version).await;
        rig.create_consumer(pull::Config { ack_wait: Duration::from_secs(2), ..billing() }).await;
        for n in 1..=MESSAGES {
            rig.publish(if n % 20 == 0 { "nonsense" } else { "12" }).await;
        }
        let (handled, mut events) = unbounded_channel();
        let running = Running::start(rig.worker().concurrency(4), move |delivery| {
            let handled = handled.clone();
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                handled.send(delivery.sequence())?;
                if delivery.payload().as_ref() == b"nonsense" { Err(invalid()) } else { Ok(()) }
            }
        });
        let mut seen = BTreeSet::new();
        for kill_after in [30, 80, 130] {
            while seen.len() < kill_after {
                seen.insert(next(&mut events).await);
            }
            rig.server.kill();
            rig.server.start_again();
        }
        while seen.len() < usize::try_from(MESSAGES).unwrap() {
            seen.insert(next(&mut events).await);
        }
        rig.wait_until_connected().await;
        rig.wait_until_idle().await;
        let letters = rig.dead_letters(10).await;
        let dead: BTreeSet<u64> =
            letters.iter().map(|letter| death(letter).origin.unwrap().sequence).collect();
        assert_eq!(dead, (1..=10).map(|n| n * 20).collect(), "{version:?}");
        running.stop().await;
    }
}
