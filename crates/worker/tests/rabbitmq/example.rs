//! The example service passes the acceptance list of the requirement.

#[path = "../../examples/outbound-transformer.rs"]
#[allow(dead_code, reason = "its `main` is for cargo run")]
mod outbound_transformer;

use crate::rig::Rig;

#[tokio::test]
async fn the_outbound_transformer_meets_every_criterion() {
    let rig = Rig::start().await;
    let checks = outbound_transformer::check_acceptance(&rig.vhost.url).await.unwrap();
    let failed: Vec<_> = checks.iter().filter(|check| !check.is_met).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(checks.len(), 8);
}
