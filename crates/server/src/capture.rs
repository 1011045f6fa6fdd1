//! The way in, the same for every source: captured, admitted by pure rules, inserted, answered with receipts.
//!
//! A source acknowledges a message only once it holds the receipt: that is after the commit.

use lazaret_core::letter::{Admitted, Captured, Receipt, admit};
use lazaret_store::StoreError;

use crate::app::App;

/// Stores captured messages; the receipts come back in order.
pub async fn capture(app: &App, captured: Vec<Captured>) -> Result<Vec<Receipt>, StoreError> {
    if captured.is_empty() {
        return Ok(Vec::new());
    }
    let admitted = captured.into_iter().map(|one| admit_one(app, one)).collect::<Result<Vec<_>, _>>()?;
    app.store.insert(admitted).await
}

fn admit_one(app: &App, captured: Captured) -> Result<Admitted, StoreError> {
    let random = [app.entropy.take()?, app.entropy.take()?];
    Ok(admit(captured, app.clock.now(), random, &app.rules))
}
