//! Services written with the NATS clients of others publish, fail, and receive the redriven message as they published it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use lazaret_brokers::nats::{Version, node_modules, python};
use lazaret_core::broker;
use lazaret_sources::Source;
use lazaret_sources::destination::{Destination, Sent, Verified};
use lazaret_sources::jetstream::Bridge;
use lazaret_sources::testing::suite::verify;
use serde_json::Value;

use crate::jetstream_app::{MAX_DELIVER, NatsApp, WAIT_MAX, bridge_until, some_letters};
use crate::jetstream_redrive::outgoing;

/// A client program in `tests/clients` and what runs it.
#[derive(Clone, Copy, Debug)]
enum Language {
    Python,
    JavaScript,
}

impl Language {
    fn command(self) -> Command {
        let program = |name: &str| -> PathBuf {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
        };
        match self {
            Language::Python => {
                let mut command = Command::new(python());
                command.arg(program("nats_client.py"));
                command
            }
            Language::JavaScript => {
                let mut command = Command::new("node");
                command.arg(program("nats_client.mjs")).env("NATS_MODULES", node_modules());
                command
            }
        }
    }

    /// Runs the client in a mode; returns what it prints.
    async fn run(self, mode: &'static str, app: &NatsApp) -> Value {
        let url = app.server.lock().unwrap().url();
        let ran = tokio::task::spawn_blocking(move || self.command().arg(mode).arg(url).output());
        let Output { status, stdout, stderr } = ran.await.unwrap().unwrap_or_else(|error| {
            panic!("{self:?} cannot be started: {error}; `cargo xtask test` installs what is missing")
        });
        assert!(
            status.success(),
            "{self:?} {mode}: {status}; if a package is missing, `cargo xtask test` installs it\n{}",
            String::from_utf8_lossy(&stderr)
        );
        serde_json::from_slice(&stdout).unwrap()
    }
}

/// Headers by name, as a client reports them.
fn headers(report: &Value) -> BTreeMap<String, Value> {
    serde_json::from_value(report["headers"].clone()).unwrap()
}

fn is_ours(name: &str) -> bool {
    name.starts_with("Lazaret-") || [broker::IDEMPOTENCY_KEY, broker::MESSAGE_ID].contains(&name)
}

async fn comes_back_unchanged(language: Language, version: Version) {
    let app = NatsApp::start(version).await;
    let source = app.source();
    let published = language.run("publish", &app).await;
    let failed = language.run("fail", &app).await;
    assert_eq!(failed["deliveries"], MAX_DELIVER, "{language:?} {version:?}");

    bridge_until(&app, &Bridge::new(source.clone()), 1).await;
    let letters = some_letters(&source).await;
    source.ack(&[letters[0].receipt.clone()]).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = outgoing(&letters[0]);
    assert_eq!(letters[0].captured.letter_type, published["subject"]);
    assert_eq!(letters[0].captured.retry_count, MAX_DELIVER);

    let Sent::Taken { handle } = source.send(&letter).await else { panic!("not taken") };
    assert_eq!(verify(source.as_ref(), &letter, handle.clone()).await, Verified::NotYet);
    let received = language.run("receive", &app).await;
    assert_eq!(received["subject"], published["subject"]);
    assert_eq!(received["body"], published["body"]);
    let (mut sent, mut back) = (headers(&published), headers(&received));
    assert_eq!(back[broker::IDEMPOTENCY_KEY][0], letter.idempotency_key);
    // The stream would take the message for a duplicate of the first one.
    assert_eq!(back["Lazaret-Original-Nats-Msg-Id"], sent[broker::MESSAGE_ID]);
    sent.retain(|name, _| !is_ours(name));
    back.retain(|name, _| !is_ours(name));
    assert!(sent.len() >= 6, "{sent:?}");
    assert_eq!(back, sent, "{language:?} {version:?}");

    let until = Instant::now() + WAIT_MAX;
    loop {
        match verify(source.as_ref(), &letter, handle.clone()).await {
            Verified::Succeeded { evidence, .. } => break assert_eq!(evidence, "acked"),
            odd => assert!(Instant::now() < until, "the acknowledgement is not seen: {odd:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_receives_what_it_published() {
    for version in Version::ALL {
        comes_back_unchanged(Language::Python, version).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_client_receives_what_it_published() {
    for version in Version::ALL {
        comes_back_unchanged(Language::JavaScript, version).await;
    }
}
