//! TLS and credentials: what is wrong is told, and no secret is shown.

use std::path::PathBuf;

use lazaret_brokers::Certificates;
use lazaret_brokers::rabbitmq::{Options, Server};
use lazaret_sources::rabbitmq::{Auth, DeadLetterQueue, RabbitMq, RabbitMqConfig};
use lazaret_sources::{Declare, Level, Secret, Source as _};

use crate::rabbitmq_app::RabbitApp;

async fn refused(config: RabbitMqConfig) -> String {
    let source = RabbitMq::new(config).unwrap();
    let error = source.next().await.unwrap_err();
    let (state, findings) = (source.state(), source.check().await);
    assert!(!state.connected && state.last_error.is_some(), "{state:?}");
    assert!(findings.iter().any(|it| it.level == Level::Error && it.hint.is_some()), "{findings:?}");
    let told = format!("{error} {error:?} {state:?} {findings:?} {source:?}");
    assert!(!told.contains("hunter2"), "{told}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_hosts_and_servers_are_told() {
    let app = RabbitApp::start().await;
    let wrong = || Auth::User { user: "guest".to_owned(), password: Secret::new("hunter2") };
    let why = refused(RabbitMqConfig { auth: wrong(), ..app.config.clone() }).await;
    assert!(why.contains("refused the credentials"), "{why}");
    let why = refused(RabbitMqConfig { vhost: "nowhere".to_owned(), ..app.config.clone() }).await;
    assert!(why.contains("virtual host \"nowhere\""), "{why}");
    let nobody = format!("amqp://127.0.0.1:{}", app.cable.port);
    app.cable.cut().await;
    let why = refused(RabbitMqConfig { servers: vec![nobody.clone()], ..app.config.clone() }).await;
    assert!(why.contains("start the broker"), "{why}");
    // Servers are tried in their order.
    let port = app.vhost.url.rsplit(':').next().unwrap().split('/').next().unwrap();
    let servers = vec![nobody, format!("amqp://127.0.0.1:{port}")];
    let source = RabbitMq::new(RabbitMqConfig { servers, ..app.config.clone() }).unwrap();
    source.next().await.unwrap();
    assert!(source.state().connected);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_checked_on_both_sides() {
    let server = tokio::task::spawn_blocking(|| {
        Server::start_with(Options {
            tls: Some(Certificates::generate()),
            settings: "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n"
                .to_owned(),
        })
    })
    .await
    .unwrap();
    let certificates = server.certificates().unwrap();
    let port = server.tls_url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let mut config = RabbitMqConfig::new("orders", [format!("amqps://localhost:{port}")]);
    config.queues = vec![DeadLetterQueue::new("orders-dlq")];
    config.tls.is_required = true;
    config.tls.ca = Some(certificates.ca());
    config.tls.client = Some(certificates.client());
    let source = RabbitMq::new(config.clone()).unwrap();
    source.declare(Declare::Apply).await.unwrap();
    source.next().await.unwrap();
    assert!(source.state().connected);

    let mut stranger = config.clone();
    stranger.tls.ca = Some(certificates.other_ca());
    let why = refused(stranger).await;
    assert!(why.contains("repair tls"), "{why}");
    let mut anonymous = config.clone();
    anonymous.tls.client = None;
    refused(anonymous).await;
    let mut missing = config.clone();
    missing.tls.ca = Some(PathBuf::from("/nowhere/ca.pem"));
    let why = refused(missing).await;
    assert!(why.contains("/nowhere/ca.pem does not exist: repair tls"), "{why}");
    // The broker does not offer it unless a plugin is on.
    let why = refused(RabbitMqConfig { auth: Auth::External, ..config }).await;
    assert!(!why.is_empty(), "{why}");
}
