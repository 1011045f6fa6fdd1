//! The loops of alerts: one evaluates rules, the other delivers notifications.

use std::sync::Arc;
use std::time::Duration;

use lazaret_core::limits;
use lazaret_store::StoreError;

use super::REST;
use crate::alerts;
use crate::reload::Live;

/// How long to rest when nothing is left to do.
const TICK: Duration = Duration::from_millis(limits::ALERT_TICK_MS);

/// Evaluates rules every few seconds, on the instance that leads.
pub(super) async fn evaluate(live: Arc<Live>) {
    let mut stop = live.app().stopping();
    while !*stop.borrow() {
        let rest = rest("evaluating alerts", alerts::tick(&live.app()).await);
        tokio::select! {
            _ = stop.changed() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Delivers notifications, on every instance.
pub(super) async fn deliver(live: Arc<Live>) {
    let mut stop = live.app().stopping();
    while !*stop.borrow() {
        let rest = rest("delivering notifications", alerts::deliver(&live.app()).await);
        tokio::select! {
            _ = stop.changed() => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

fn rest(doing: &str, result: Result<bool, StoreError>) -> Duration {
    match result {
        // There is more, but nobody waits for it: capture goes first.
        Ok(true) => TICK / 4,
        Ok(false) => TICK,
        Err(error) => {
            tracing::warn!(%error, "{doing} failed, trying again");
            REST
        }
    }
}
