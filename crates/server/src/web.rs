//! The dashboard: pages made from the functions of the API, one file per page.
//!
//! A page decides nothing by itself: it hands what it was asked to the handler of the API that does the same, and shows
//! what comes back, or why nothing came. It never holds a query of its own.

mod alerts;
mod archive;
pub(crate) mod asked;
pub(crate) mod assets;
mod audit;
pub(crate) mod chart;
pub(crate) mod form;
pub(crate) mod format;
mod frame;
mod incident;
mod incidents;
mod job;
mod jobs;
mod letter;
mod letters;
pub(crate) mod mood;
mod overview;
mod redrive;
mod redrives;
mod reveal;
mod rules;
mod settings;
pub(crate) mod shell;
pub(crate) mod sign_in;
pub(crate) mod sources;
mod tabs;
pub(crate) mod viewer;
mod zone;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub(crate) use frame::{frame, is_page, page_behind};

/// Adds the pages and what they are made of.
pub(crate) fn add_to(routes: Router<Arc<App>>) -> Router<Arc<App>> {
    let routes = routes.route("/assets/{file}", get(assets::serve));
    let routes = incident::add_to(incidents::add_to(overview::add_to(routes)));
    let routes = redrive::add_to(reveal::add_to(letter::add_to(letters::add_to(routes))));
    let routes = rules::add_to(job::add_to(jobs::add_to(routes)));
    let routes = alerts::add_to(archive::add_to(sources::add_to(routes)));
    settings::add_to(audit::add_to(sign_in::add_to(routes)))
}
