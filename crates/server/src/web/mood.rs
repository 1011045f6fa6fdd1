//! What the icon of a tab shows: whether something is wrong anywhere, looked at every few seconds for all pages together.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::alerts::checks::{self, Level};
use crate::api::problem::Problem;
use crate::app::App;
use crate::books;

/// How long a look holds.
const REST: Duration = Duration::from_secs(3);

/// The last look, and the worst that it found besides incidents.
#[derive(Debug, Default)]
pub struct Moods(Mutex<Option<(Instant, Option<Level>)>>);

/// The worst that is wrong besides incidents. That it cannot be found out is the worst.
pub(super) async fn worst(app: &Arc<App>) -> Option<Level> {
    let last = *app.moods.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, worst)) = last
        && at.elapsed() < REST
    {
        return worst;
    }
    let Ok(worst) = look(app).await else { return Some(Level::Critical) };
    *app.moods.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), worst));
    worst
}

async fn look(app: &Arc<App>) -> Result<Option<Level>, Problem> {
    match books::seen(app).await?.ledger.difference() {
        0 => Ok(checks::urgent(app).await?.first().map(|alert| alert.level)),
        _ => Ok(Some(Level::Critical)),
    }
}
