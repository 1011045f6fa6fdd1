//! NATS JetStream from the command line: the topology, the first start, and credentials that do not fit.

use std::time::{Duration, Instant};

use lazaret_brokers::nats::{Access, Certificates, Options, Server as Nats, Version};
use serde_json::Value;

use crate::running::{Desk, Server};

const TOKEN: &str = "open-sesame-4711";
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long a first start is watched: a duty that failed would show it for longer.
const WATCHED: Duration = Duration::from_secs(3);

fn nats(version: Version) -> Nats {
    Nats::start_with(Options { version, access: Access::Token(TOKEN.to_owned()), ..Options::default() })
}

fn desk(nats: &Nats, token: &str) -> Desk {
    let desk = Desk::new().with_env("LAZARET_SOURCES__SHOP__AUTH__TOKEN", token);
    desk.file(
        "lazaret.toml",
        &format!("[sources.shop]\nkind = \"jetstream\"\nservers = [\"{}\"]\n", nats.url()),
    );
    desk
}

#[test]
fn a_source_is_in_order_from_its_first_start_on() {
    for version in Version::ALL {
        let nats = nats(version);
        let desk = desk(&nats, TOKEN);
        let dry_run = desk.run(&["jetstream", "apply", "shop", "--dry-run"]);
        assert!(dry_run.stderr.contains("7 differences; nothing was changed (dry run)"), "{dry_run:?}");
        let told = dry_run.ok();
        for line in ["+ stream DLQ", "    subjects: dlq.>", "+ consumer DLQ.lazaret-shop"] {
            assert!(told.lines().any(|it| it == line), "{line}: {told}");
        }

        let log = desk.folder.path().join("log");
        let server = Server::start_logging(desk, &log);
        let (begun, mut swept_at) = (Instant::now(), None);
        while swept_at.is_none_or(|at: Instant| at.elapsed() < WATCHED) {
            assert!(begun.elapsed() < WAIT_MAX, "the sweep does not run");
            let sources = server.json(&["sources"]);
            let shop = sources["items"].as_array().unwrap().iter().find(|it| it["name"] == "shop").unwrap();
            let duties = shop["duties"].as_array().unwrap();
            assert!(duties.iter().all(|duty| duty["problem"] == Value::Null), "{shop}");
            let sweep = duties.iter().find(|duty| duty["name"] == "sweep").unwrap();
            if shop["connection"]["connected"] == true && sweep["counts"]["sweeps"] != 0 {
                swept_at.get_or_insert_with(Instant::now);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        let again = server.run(&["jetstream", "apply", "shop"]);
        assert!(again.stderr.contains("no differences"), "{again:?}");
        server.run(&["doctor", "shop"]).ok();
        server.stop();
    }
}

#[test]
fn a_wrong_token_is_refused_and_not_shown() {
    let nats = nats(Version::Current);
    let wrong = "not-the-token-0815";
    let told = desk(&nats, wrong).run(&["jetstream", "apply", "shop"]).fails(1);
    assert!(told.contains("the server refused the credentials"), "{told}");
    assert!(!told.contains(wrong), "{told}");
}

#[test]
fn a_client_certificate_is_needed_and_its_key_is_never_logged() {
    let options =
        Options { tls: Some(Certificates::generate()), verifies_clients: true, ..Options::default() };
    let nats = Nats::start_with(options);
    let certificates = nats.certificates().unwrap();
    let desk = |client: Option<(std::path::PathBuf, std::path::PathBuf)>| {
        let desk = Desk::new().with_env("LAZARET_LOG__LEVEL", "trace");
        let client = client.map_or(String::new(), |(certificate, key)| {
            format!("tls.cert_file = {certificate:?}\ntls.key_file = {key:?}\n")
        });
        let (url, ca) = (nats.url(), certificates.ca());
        desk.file(
            "lazaret.toml",
            &format!(
                "[sources.shop]\nkind = \"jetstream\"\nservers = [\"{url}\"]\ntls.ca_file = {ca:?}\n{client}"
            ),
        );
        desk
    };
    let secrets = |key: &std::path::Path| {
        let pem = std::fs::read_to_string(key).unwrap();
        pem.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned).collect::<Vec<_>>()
    };
    let is_shown = |key: &std::path::Path, text: &str| secrets(key).iter().any(|line| text.contains(line));
    let missing = desk(None).run(&["jetstream", "apply", "shop"]).fails(1);
    assert!(missing.contains("repair tls"), "{missing}");
    let stranger = certificates.other_client();
    let wrong = desk(Some(stranger.clone())).run(&["jetstream", "apply", "shop"]).fails(1);
    assert!(wrong.contains("repair tls") && !is_shown(&stranger.1, &wrong), "{wrong}");
    for (client, is_right) in [(certificates.client(), true), (stranger, false)] {
        let log = nats.folder().join("lazaret.log");
        let server = Server::start_logging(desk(Some(client.clone())), &log);
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < WAIT_MAX, "the connection is not {is_right}");
            let sources = server.json(&["sources"]);
            let shop = sources["items"].as_array().unwrap().iter().find(|it| it["name"] == "shop").unwrap();
            assert!(!is_shown(&client.1, &shop.to_string()), "{shop}");
            let connection = &shop["connection"];
            if connection["connected"] == is_right && (is_right || connection["lastError"].is_string()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        server.stop();
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(!logged.is_empty() && !is_shown(&client.1, &logged), "{logged}");
    }
}
