//! Named points at which a server in test mode ends as if it were killed: no handler runs, nothing is flushed.
//!
//! A test names one in `LAZARET_TORTURE_DIE_AT`. Outside of test mode the variable means nothing.

use std::sync::LazyLock;

use crate::app::App;

const VARIABLE: &str = "LAZARET_TORTURE_DIE_AT";

static DIE_AT: LazyLock<Option<String>> = LazyLock::new(|| std::env::var(VARIABLE).ok());

/// Ends the process here if a test asked for it.
pub(crate) fn reach(app: &App, point: &'static str) {
    if app.test_mode && DIE_AT.as_deref() == Some(point) {
        std::process::abort();
    }
}
