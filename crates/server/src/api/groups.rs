//! The rules of grouping in force, as the API uses them: the one place here that asks the app for them.

use lazaret_core::fingerprint::{self, Grouping, Subject};

use crate::app::App;

/// Works out the group of a failure.
pub(crate) fn group(app: &App, subject: Subject<'_>) -> Grouping {
    fingerprint::group(subject, &app.groups())
}
