//! A connection that stays open and answers nothing, as behind a broken proxy or a hung server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lazaret_sources::outbox::Outbox;
use lazaret_sources::{Source, SourceError};
use lazaret_store::testing::proxy::Proxy;

use crate::app::{App, some};
use crate::sinks::Scripted;

/// The application's own address, and the same through the proxy.
async fn behind_proxy() -> (App, App, Proxy) {
    let direct = App::start().await;
    let proxy = Proxy::start(&direct.config.url).await;
    let mut through = App::at(proxy.url());
    through.config.answer_ms_max = 1_000;
    (direct, through, proxy)
}

fn is_unavailable<T: std::fmt::Debug>(answer: Result<T, SourceError>) {
    assert!(matches!(answer, Err(SourceError::Unavailable { .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_answers_nothing_is_given_up_and_told_of() {
    let (direct, through, proxy) = behind_proxy().await;
    let outbox: Arc<Outbox> = through.outbox();
    let sink = Arc::new(Scripted::default());
    let relay =
        lazaret_sources::outbox::Relay::new(Arc::clone(&outbox), sink.clone(), Default::default()).unwrap();
    direct.dead_event("a", "{}").await;
    let receipts: Vec<_> = some(outbox.as_ref()).await.into_iter().map(|it| it.receipt).collect();
    outbox.ack(&receipts).await.unwrap();
    relay.tick().await.unwrap();
    assert!(outbox.state().connected);
    proxy.fall_silent();
    let begun = Instant::now();
    is_unavailable(relay.tick().await);
    is_unavailable(outbox.next().await);
    is_unavailable(outbox.statuses(&["019a8b1c-7e00-7000-8000-000000000000".to_owned()]).await);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(!outbox.state().connected && outbox.state().last_error.is_some());
    // And when it answers again, everything goes on.
    direct.event("b", "{}").await;
    direct.dead_event("c", "{}").await;
    proxy.answer_again();
    assert_eq!(relay.tick().await.unwrap().delivered, 1);
    assert_eq!(some(outbox.as_ref()).await.len(), 1);
    assert!(outbox.state().connected);
}
