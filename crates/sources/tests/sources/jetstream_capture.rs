//! Letters from the dead-letter stream, whoever published them, and what happens when the server goes away.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use lazaret_brokers::nats::{Access, Options, Server, Version};
use lazaret_core::origin::Origin;
use lazaret_sources::jetstream::{Auth, Bridge, JetStream, JetStreamConfig};
use lazaret_sources::{Duty, Level, Secret, Source, Tls};

use crate::jetstream_app::{MAX_DELIVER, NatsApp, WAIT_MAX, bridge_until, some_letters};

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_know_nothing_of_lazaret_keep_their_errors() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        app.publish("dlq.ORDERS.legacy", HeaderMap::new(), "\u{1F600}").await;
        let bare = some_letters(&source).await;
        let captured = &bare[0].captured;
        assert_eq!(
            (captured.queue.as_str(), captured.letter_type.as_str()),
            ("ORDERS.legacy", "dlq.ORDERS.legacy")
        );
        assert_eq!(captured.envelope.content_type(), "text/plain; charset=utf-8");
        assert!(captured.message_id.starts_with("DLQ:"), "{}", captured.message_id);
        assert!(captured.error.message.contains("without an error"));
        source.ack(&[bare[0].receipt.clone()]).await.unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("X-Error-Type", "ValueError");
        headers.insert("error_message", "no such currency");
        headers.insert("error-code", "E42");
        headers.insert("Stacktrace", "at a");
        headers.insert("X-Retry-Count", "4");
        headers.insert("X-Original-Subject", "orders.old");
        app.publish("dlq.anything", headers, "{}").await;
        let told = some_letters(&source).await;
        let captured = &told[0].captured;
        let error = &captured.error;
        assert_eq!((error.error_type.as_str(), error.message.as_str()), ("ValueError", "no such currency"));
        assert_eq!((error.code.as_deref(), error.backtrace.as_deref()), (Some("E42"), Some("at a")));
        assert_eq!((captured.retry_count, captured.letter_type.as_str()), (4, "orders.old"));
        assert_eq!(captured.queue, "anything");
        // Their headers stay part of the message.
        assert_eq!(captured.envelope.headers().len(), 6);
        let Some(Origin::JetStream(origin)) = captured.envelope.origin() else { panic!("another origin") };
        assert_eq!(origin.subject, "orders.old");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_again_and_again_loses_no_letter() {
    const ROUNDS: usize = 3;
    const EACH: usize = 5;
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        let bridge = Bridge::new(source.clone());
        let mut expected = BTreeSet::new();
        let mut got = BTreeSet::new();
        for _ in 0..ROUNDS {
            for _ in 0..EACH {
                let sequence = app.publish("orders.new", HeaderMap::new(), "{}").await;
                expected.insert(app.message_id(sequence));
            }
            app.exhaust().await;
            // Killed while the bridge and the capture are at work.
            let (_, _, ()) = tokio::join!(bridge.run_once(), source.next(), app.kill());
            assert!(source.next().await.is_err());
            assert!(!source.state().connected);
            app.start_again().await;
            let until = Instant::now() + WAIT_MAX;
            while got.len() < expected.len() {
                assert!(Instant::now() < until, "{} of {} letters", got.len(), expected.len());
                // Either may still be without a connection.
                let (_, arrivals) = tokio::join!(bridge.run_once(), source.next());
                let Ok(arrivals) = arrivals else { continue };
                let receipts: Vec<_> = arrivals.iter().map(|it| it.receipt.clone()).collect();
                if source.ack(&receipts).await.is_ok() {
                    got.extend(arrivals.into_iter().map(|it| it.captured.message_id));
                }
            }
            wait_for_client(&app).await;
        }
        assert_eq!(got, expected);
        assert_eq!(app.count("DLQ").await, (ROUNDS * EACH) as u64);
        assert!(source.state().connected);
    }
}

/// Publishes with headers that are not UTF-8, which no careful client does.
async fn publish_raw(app: &NatsApp, subject: &str, header: &[u8], body: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let port = app.server.lock().unwrap().port();
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let block = [b"NATS/1.0\r\n", header, b"\r\n\r\n"].concat();
    let (head, all) = (block.len(), block.len() + body.len());
    let mut sent =
        format!("CONNECT {{\"headers\":true,\"verbose\":false}}\r\nHPUB {subject} {head} {all}\r\n")
            .into_bytes();
    sent.extend_from_slice(&block);
    sent.extend_from_slice(format!("{body}\r\nPING\r\n").as_bytes());
    stream.write_all(&sent).await.unwrap();
    let mut heard = Vec::new();
    while !heard.windows(4).any(|window| window == b"PONG") {
        assert!(stream.read_buf(&mut heard).await.unwrap() > 0, "{}", String::from_utf8_lossy(&heard));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_not_text_are_kept_and_block_nothing() {
    use lazaret_core::header::HeaderValue;
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        // One of the application's messages, through the bridge, and one straight to the dead-letter stream.
        publish_raw(&app, "orders.new", b"Raw: \xff\xfe\r\nTag: one", "bridged").await;
        publish_raw(&app, "dlq.ORDERS.worker", b"Raw: \xff\xfe\r\nTag: one", "direct").await;
        app.publish("dlq.ORDERS.worker", HeaderMap::new(), "good").await;
        exhaust_raw(&app).await;
        bridge_until(&app, &Bridge::new(app.source()), 3).await;
        let (until, mut got) = (Instant::now() + WAIT_MAX, std::collections::BTreeMap::new());
        while got.len() < 3 {
            assert!(Instant::now() < until, "{:?}", got.keys());
            let Ok(arrivals) = source.next().await else { continue };
            for arrival in arrivals {
                if source.ack(std::slice::from_ref(&arrival.receipt)).await.is_ok() {
                    got.insert(arrival.captured.envelope.body().to_vec(), arrival.captured);
                }
            }
        }
        for body in ["bridged", "direct"] {
            let headers = got[body.as_bytes()].envelope.headers();
            assert!(
                headers.contains(&("Raw".to_owned(), HeaderValue::RawText(vec![0xff, 0xfe].into()))),
                "{headers:?}"
            );
            assert!(
                headers.contains(&("Tag".to_owned(), HeaderValue::Text("one".to_owned()))),
                "{headers:?}"
            );
        }
        assert_eq!(app.count("DLQ").await, 3);
    }
}

/// Lets a message that no client of ours can read exhaust its deliveries: each delivery costs the connection.
async fn exhaust_raw(app: &NatsApp) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let port = app.server.lock().unwrap().port();
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let next = "$JS.API.CONSUMER.MSG.NEXT.ORDERS.worker";
    let request = "{\"batch\":5,\"expires\":8000000000}";
    let sent = format!(
        "CONNECT {{\"headers\":true,\"verbose\":false}}\r\nSUB in 1\r\nPUB {next} in {}\r\n{request}\r\n",
        request.len()
    );
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut heard = vec![0; 64 * 1024];
    // Nothing is acknowledged: the server delivers until it gives up.
    let listening = async { while stream.read(&mut heard).await.unwrap() > 0 {} };
    tokio::time::timeout(Duration::from_secs(7), listening).await.unwrap_err();
}

/// The application's own connection comes back at its own pace.
async fn wait_for_client(app: &NatsApp) {
    let until = Instant::now() + WAIT_MAX;
    while app.context.get_stream("ORDERS").await.is_err() {
        assert!(Instant::now() < until, "the application does not connect again");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_nobody_pulls_for_are_suspected() {
    for version in Version::ALL {
        let app = NatsApp::start(version).await;
        let source = app.source();
        app.publish("orders.new", HeaderMap::new(), "{}").await;
        assert_eq!(source.sweep().await.unwrap(), []);
        // Delivered for the last time, and nobody pulls any more.
        for _ in 0..MAX_DELIVER {
            assert_eq!(app.pull(1, Duration::from_secs(5)).await.len(), 1);
        }
        assert_eq!(source.sweep().await.unwrap(), []);
        let until = Instant::now() + WAIT_MAX;
        let suspected = loop {
            assert!(Instant::now() < until, "nothing is suspected");
            let suspected = source.sweep().await.unwrap();
            if !suspected.is_empty() {
                break suspected;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        assert_eq!((suspected[0].consumer.as_str(), suspected[0].messages), ("worker", 1));
        assert_eq!(app.count("DLQ").await, 0);
        let findings = source.check().await;
        let told = findings.iter().find(|it| it.what.contains("suspected to be exhausted"));
        assert_eq!(told.unwrap().level, Level::Warning, "{findings:#?}");
        // Pulling once more lets the server report it.
        assert!(app.pull(1, Duration::from_millis(500)).await.is_empty());
        bridge_until(&app, &Bridge::new(source.clone()), 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn growth_and_depth_are_measured() {
    let app = NatsApp::start(Version::Current).await;
    let source = app.source();
    assert!(source.next().await.unwrap().is_empty());
    assert_eq!(source.state().depth, Some(0));
    assert!(source.is_shared());
    // A new process sees what waits.
    app.publish("dlq.a.b", HeaderMap::new(), "{}").await;
    let source = app.source();
    let arrivals = source.next().await.unwrap();
    assert_eq!((arrivals.len(), source.state().depth), (1, Some(1)));
}

async fn started(access: Access) -> Server {
    let options = Options { access, ..Options::default() };
    tokio::task::spawn_blocking(|| Server::start_with(options)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_credential_connects_and_a_wrong_one_is_told_without_it() {
    let password = |password: &str| Auth::User { user: "app".to_owned(), password: Secret::new(password) };
    let token = started(Access::Token("hunter2".to_owned())).await;
    let user = started(Access::User { user: "app".to_owned(), password: "hunter2".to_owned() }).await;
    let nkey = started(Access::Nkey).await;
    let creds = started(Access::Credentials).await;
    let seed = Auth::Nkey(Secret::new(nkey.nkey_seed().unwrap()));
    let file = Auth::CredentialsFile(creds.credentials());
    let wrong_seed = Auth::Nkey(Secret::new("SUAhunter2"));
    let cases = [
        (&token, Auth::Token(Secret::new("hunter2")), true),
        (&token, Auth::Token(Secret::new("wrong-hunter2")), false),
        (&user, password("hunter2"), true),
        (&user, password("wrong-hunter2"), false),
        (&nkey, seed, true),
        (&nkey, wrong_seed, false),
        (&creds, file, true),
        (&creds, Auth::CredentialsFile("/nowhere/hunter2.creds".into()), false),
        (&creds, Auth::None, false),
    ];
    for (server, auth, is_right) in cases {
        let mut config = JetStreamConfig::new("shop", [server.url()]);
        config.auth = auth;
        let shown = format!("{config:?}");
        let source = JetStream::new(config).unwrap();
        let findings = source.check().await;
        let worst = findings.iter().find(|it| it.what.contains("connect") || it.what.contains("credential"));
        let worst = worst.unwrap_or(&findings[0]);
        assert_eq!(worst.level == Level::Ok, is_right, "{shown}: {findings:#?}");
        if !is_right {
            let error = source.next().await.unwrap_err().to_string();
            assert!(error.contains("credential"), "{shown}: {error}");
            assert!(!error.contains("wrong-hunter2") && !error.contains("SUA"), "{error}");
            assert!(worst.hint.is_some());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_needs_the_authority_that_signed_the_server() {
    let options =
        Options { tls: Some(lazaret_brokers::nats::Certificates::generate()), ..Options::default() };
    let server = tokio::task::spawn_blocking(|| Server::start_with(options)).await.unwrap();
    let certificates = server.certificates().unwrap();
    let trusted = Tls { is_required: true, ca: Some(certificates.ca()), client: None };
    for (tls, is_right) in
        [(trusted.clone(), true), (Tls { ca: Some(certificates.other_ca()), ..trusted }, false)]
    {
        let mut config = JetStreamConfig::new("shop", [server.url()]);
        config.tls = tls;
        let source = JetStream::new(config).unwrap();
        let first = source.check().await.remove(0);
        assert_eq!(first.level == Level::Ok, is_right, "{first:?}");
        assert!(is_right || first.what.contains("repair tls"), "{first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_client_certificate_connects_and_no_key_is_shown() {
    for version in Version::ALL {
        let tls = Some(lazaret_brokers::Certificates::generate());
        let options = Options { version, tls, verifies_clients: true, ..Options::default() };
        let server = tokio::task::spawn_blocking(|| Server::start_with(options)).await.unwrap();
        let certificates = server.certificates().unwrap();
        let ((certificate, key), (stranger, strange_key)) =
            (certificates.client(), certificates.other_client());
        let nowhere = std::path::PathBuf::from("/nowhere/client.pem");
        let cases = [
            (Some((certificate.clone(), key.clone())), true),
            (None, false),
            (Some((stranger, strange_key.clone())), false),
            // A key of another certificate, a certificate in place of the key and the other way round, and no file.
            (Some((certificate.clone(), strange_key.clone())), false),
            (Some((certificate.clone(), certificate.clone())), false),
            (Some((key.clone(), key.clone())), false),
            (Some((nowhere, key.clone())), false),
        ];
        let keys: Vec<String> =
            [key, strange_key].map(|path| std::fs::read_to_string(path).unwrap()).into_iter().collect();
        let secrets: Vec<&str> =
            keys.iter().flat_map(|pem| pem.lines()).filter(|line| !line.starts_with("-----")).collect();
        assert!(secrets.iter().all(|line| line.len() > 20) && secrets.len() >= 4);
        for (client, is_right) in cases {
            let mut config = JetStreamConfig::new("shop", [server.url()]);
            config.tls = Tls { is_required: true, ca: Some(certificates.ca()), client: client.clone() };
            let source = JetStream::new(config).unwrap();
            let findings = source.check().await;
            assert_eq!(findings[0].level == Level::Ok, is_right, "{version:?} {client:?}: {findings:#?}");
            let mut told = format!("{source:?} {findings:?}");
            if !is_right {
                let error = source.next().await.unwrap_err();
                assert!(error.to_string().contains("repair tls"), "{version:?} {client:?}: {error}");
                assert!(!source.state().connected);
                told.push_str(&format!("{error:?} {:?}", source.state()));
            }
            assert!(!secrets.iter().any(|secret| told.contains(secret)), "{told}");
        }
    }
}
