//! A worker that is killed at any moment: every message succeeded or is a dead letter.
//!
//! `LAZARET_TORTURE_ROUNDS` and `LAZARET_TORTURE_SEED` make it longer or repeat it; `cargo xtask torture` sets them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lazaret_worker::rabbitmq::Delivery;

use crate::rig::{
    self, DLQ, PATIENCE, QUEUE, Rig, connect, declare, invalid, parse, publish, take, timed_out, worker,
};

/// Set for the process that is a worker and gets killed.
const CHILD_URL: &str = "LAZARET_WORKER_TEST_URL";

/// Where the child writes down which messages it has handled.
const HANDLED: &str = "handled";

/// Published before each kill.
const MESSAGES_PER_KILL: u64 = 15;

/// Is the worker when a test starts this program again, and nothing otherwise.
///
/// A message `late` times out every time and `bad…` is invalid; `soon…` times out twice and succeeds, anything else at once.
/// What succeeds is published to a queue before the handler returns.
#[tokio::test]
async fn child_worker() {
    let Ok(url) = std::env::var(CHILD_URL) else { return };
    let (_connection, channel) = connect(&url).await;
    declare(&channel, HANDLED, Default::default()).await;
    let handler = move |delivery: Delivery| {
        let channel = channel.clone();
        async move {
            let body = String::from_utf8(delivery.body().to_vec())?;
            match (&body[..], delivery.retry_count()) {
                (body, _) if body.starts_with("late") => Err(timed_out()),
                (body, _) if body.starts_with("bad") => Err(invalid()),
                (body, 0..=1) if body.starts_with("soon") => Err(timed_out()),
                (body, _) => {
                    publish(&channel, HANDLED, BasicProperties::default().with_delivery_mode(2), body).await;
                    Ok(())
                }
            }
        }
    };
    worker(&url).concurrency(4).run(handler, std::future::pending()).await.unwrap();
}

/// A worker in a process of its own; killed when dropped, also by a test that fails.
pub struct Child(std::process::Child);

impl Child {
    pub fn start(url: &str, environment: &[(&str, &str)]) -> Child {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::child_worker"])
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

fn setting(name: &str, default: u64) -> u64 {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text}"));
    std::env::var(name).map_or(default, read)
}

/// Numbers that look random and come again with the same seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Where the messages were when the worker was killed.
#[derive(Default)]
struct Phases {
    /// Delivered to the worker and not answered.
    in_hand: u64,
    waiting_in_delay_queues: u64,
    in_dlq: u64,
}

#[tokio::test]
async fn every_message_succeeds_or_is_a_dead_letter_however_often_the_worker_is_killed() {
    let kills = setting("LAZARET_TORTURE_ROUNDS", 20);
    let seed = setting("LAZARET_TORTURE_SEED", 42);
    let mut random = Random(seed);
    let rig = Rig::start().await;
    rig.declare_work_queue().await;
    let mut expected: BTreeMap<String, bool> = BTreeMap::new();
    let mut phases = Phases::default();
    for kill in 0..kills {
        let child = Child::start(&rig.vhost.url, &[]);
        for n in 0..MESSAGES_PER_KILL {
            let kind = ["late", "bad", "soon", "good"][random.below(4) as usize];
            let id = format!("{kind}-{kill}-{n}");
            rig.publish_with(BasicProperties::default().with_delivery_mode(2), &id).await;
            expected.insert(id, matches!(kind, "soon" | "good"));
        }
        wait_for_consumer(&rig).await;
        tokio::time::sleep(Duration::from_millis(random.below(500))).await;
        drop(child);
        phases.count(&rig).await;
    }
    let child = Child::start(&rig.vhost.url, &[]);
    let (mut handled, mut dead) = (BTreeMap::new(), BTreeMap::new());
    let until = Instant::now() + PATIENCE;
    while handled.len() + dead.len() < expected.len() {
        assert!(Instant::now() < until, "lost: {:?}", missing(&expected, &handled, &dead));
        while let Some(message) = take(&rig.channel, HANDLED).await {
            *handled.entry(String::from_utf8(message.data.clone()).unwrap()).or_insert(0) += 1;
        }
        while let Some(message) = take(&rig.channel, DLQ).await {
            let original = String::from_utf8(parse(&message).original.to_vec()).unwrap();
            *dead.entry(original).or_insert(0) += 1;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(child);
    let twice = handled.values().chain(dead.values()).filter(|times| **times > 1).count();
    println!(
        "{kills} kills, seed {seed}: {} messages, {} handled, {} dead, {twice} more than once; \
         at the kills {} in hand, {} in delay queues, {} in the DLQ",
        expected.len(),
        handled.len(),
        dead.len(),
        phases.in_hand,
        phases.waiting_in_delay_queues,
        phases.in_dlq
    );
    for (id, succeeds) in &expected {
        assert_eq!((handled.contains_key(id), dead.contains_key(id)), (*succeeds, !*succeeds), "{id}");
    }
    assert!(
        phases.in_hand > 0 && phases.waiting_in_delay_queues > 0 && phases.in_dlq > 0,
        "no kill hit every phase: the test proved little"
    );
}

fn missing<'e>(
    expected: &'e BTreeMap<String, bool>,
    handled: &BTreeMap<String, u32>,
    dead: &BTreeMap<String, u32>,
) -> BTreeSet<&'e String> {
    expected.keys().filter(|id| !handled.contains_key(*id) && !dead.contains_key(*id)).collect()
}

async fn wait_for_consumer(rig: &Rig) {
    rig::wait_for("the child's consumer", async || consumers(rig).await > 0).await;
}

async fn consumers(rig: &Rig) -> u32 {
    let options = lapin::options::QueueDeclareOptions { passive: true, ..Default::default() };
    let found = rig.channel.queue_declare(QUEUE.into(), options, Default::default()).await.unwrap();
    found.consumer_count()
}

impl Phases {
    async fn count(&mut self, rig: &Rig) {
        // What the dead worker had in hand is ready again once the broker has noticed.
        rig::wait_for("the broker to miss the child", async || consumers(rig).await == 0).await;
        self.in_hand += u64::from(rig.ready(QUEUE).await);
        self.in_dlq += u64::from(rig.ready(DLQ).await);
        let queues = rig.api("GET", &format!("/api/queues/{}?columns=name", rig.vhost.name), "").await;
        for queue in queues.unwrap().as_array().unwrap() {
            let name = queue["name"].as_str().unwrap();
            if name.contains(".retry.") {
                self.waiting_in_delay_queues += u64::from(rig.ready(name).await);
            }
        }
    }
}
