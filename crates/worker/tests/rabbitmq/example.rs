//! The examples do what they say: the service passes the acceptance list of the requirement, and the bench moves every message.

#[path = "../../examples/dead-letters.rs"]
#[allow(dead_code, reason = "its `main` is for cargo run")]
mod dead_letters;
#[path = "../../examples/outbound-transformer.rs"]
#[allow(dead_code, reason = "its `main` is for cargo run")]
mod outbound_transformer;

use dead_letters::Mover;

use crate::rig::Rig;

#[tokio::test]
async fn the_outbound_transformer_meets_every_criterion() {
    let rig = Rig::start().await;
    let checks = outbound_transformer::check_acceptance(&rig.vhost.url).await.unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| !check.is_met).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(checks.len(), 8);
}

#[tokio::test]
async fn the_bench_moves_every_message_through_worker_and_bare_consumer() {
    let rig = Rig::start().await;
    for mover in [Mover::Bare, Mover::Worker] {
        let rate = dead_letters::measure(mover, &rig.vhost.url, 1_000).await.unwrap();
        println!("{mover:?}: {rate:.0} dead letters/s");
    }
    assert_eq!(rig.ready("bench-dlq").await, 2_000);
}
