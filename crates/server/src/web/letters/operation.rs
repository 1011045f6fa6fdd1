//! How far a decision on many letters is.

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};

use crate::api::decisions;
use crate::api::problem::Problem;
use crate::api::wire::OperationBody;
use crate::app::App;
use crate::web::format as filters;
use crate::web::format::encoded;
use crate::web::frame::Page;
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "operation.html")]
pub(crate) struct OperationPage {
    shell: Shell,
    operation: OperationBody,
    list: String,
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
) -> Result<Page<OperationPage>, Problem> {
    let operation = decisions::operation(State(Arc::clone(&app)), id).await?.0;
    let shell = Shell::new(&app, &viewer, "Bulk action", "/letters").await?;
    let list = format!("/letters?q={}", encoded(&operation.filter));
    Ok(Page(OperationPage { shell, operation, list }))
}

/// The operation that a list was asked to show; one that is not there is not shown.
pub(super) async fn find(app: &Arc<App>, id: Option<&str>) -> Option<OperationBody> {
    let path = Ok(Path(id?.to_owned()));
    decisions::operation(State(Arc::clone(app)), path).await.ok().map(|body| body.0)
}
