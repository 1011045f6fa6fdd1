//! Cases: the failed tries of outbox relays.

use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::key::CaptureKey;
use lazaret_store::source_store::FailedTry;

use crate::rig::{Rig, at};

fn failed(key: CaptureKey, ms: i64, message: &str) -> FailedTry {
    let error = LetterError {
        error_type: "HttpAnswer".into(),
        code: Some("503".into()),
        message: message.into(),
        context: Some("{\"n\":1.10}".into()),
        ..LetterError::default()
    };
    let extra = Some("{\"attempt\":2}".into());
    FailedTry { key, attempt: Attempt { at: Some(at(ms)), duration_ms: Some(12), error, extra } }
}

pub async fn failed_tries_are_kept_until_their_row_is_delivered(rig: &mut Rig) {
    let [one, two, none] = ["1", "2", "3"].map(|row| CaptureKey::of("shop", "", "", row));
    let long = "x".repeat(5_000);
    let tries = [failed(one, 2_000, "second"), failed(two, 1_000, &long), failed(one, 1_000, "first\0")];
    for _ in 0..2 {
        // Whoever does not know whether the tries were kept keeps them again.
        rig.store().keep_tries(tries.to_vec(), at(0)).await.unwrap();
    }
    rig.reopen().await;
    let of = async |rig: &Rig| rig.store().tries_of(vec![none, two, one]).await.unwrap();
    let [second, other, first] = tries.map(|told| told.attempt);
    assert_eq!(of(rig).await, [vec![], vec![other.clone()], vec![first, second.clone()]]);
    // What is too old goes.
    rig.store().keep_tries(Vec::new(), at(1_500)).await.unwrap();
    assert_eq!(of(rig).await, [vec![], vec![], vec![second]]);
    rig.store().forget_tries(vec![one, none]).await.unwrap();
    assert_eq!(of(rig).await, [vec![], vec![], vec![]] as [Vec<Attempt>; 3]);
}

pub async fn a_failed_try_waits_for_its_row(rig: &mut Rig) {
    let key = CaptureKey::of("shop", "", "", "1");
    rig.store().keep_tries(vec![failed(key, 1_000, "busy")], at(0)).await.unwrap();
}
