//! The files of the archive: which there are, what waits for the next, and whether they are still what was written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use lazaret_core::limits;

use super::{ADDRESS, VIEWS};
use crate::access::Permission;
use crate::api::archive;
use crate::api::archive::verify;
use crate::api::problem::Problem;
use crate::api::wire::archive::FileList;
use crate::app::App;
use crate::web::asked::Asked;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::format::grouped;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::tabs::{Tab, tabs};
use crate::web::viewer::{Theme, Viewer};

#[derive(Template)]
#[template(path = "archive_files.html")]
struct Files {
    shell: Shell,
    tabs: Vec<Tab>,
    list: FileList,
    next: Option<String>,
    hindrance: Option<String>,
}

impl Files {
    /// Files on this page that were found damaged.
    fn damaged(&self) -> usize {
        self.list.items.iter().filter(|file| file.problem.is_some()).count()
    }
}

pub(super) async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    asked: &Asked,
    problem: Option<&Problem>,
) -> Result<Response, Problem> {
    let list = archive::files(State(Arc::clone(app)), asked.pairs(&["cursor"])).await?.0;
    let next = list.next_cursor.as_deref().map(|cursor| format!("{ADDRESS}?view=files&cursor={cursor}"));
    let page = Files {
        shell: Shell::new(app, viewer, "Archive files", ADDRESS).await?.with(problem),
        tabs: tabs(ADDRESS, &VIEWS, "files"),
        next,
        list,
        hindrance: viewer.hindrance(Permission::Decide),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn verify(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    form: Form,
) -> Result<Response, Problem> {
    match check(&app, &form).await {
        Ok(told) => Ok(done("/archive?view=files", &told)),
        Err(problem) => page(&app, &viewer, &Asked::default(), Some(&problem)).await,
    }
}

/// Checks one file, or as many as fit into the time that a page may take. What was found stands with each file.
async fn check(app: &Arc<App>, form: &Form) -> Result<String, Problem> {
    let body = Ok(form::body(form.texts(&["fileId"])));
    let mut walk = verify::walk(Arc::clone(app), body).await?;
    walk.stalest_first();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(limits::PAGE_WORK_MS_MAX) && walk.step().await?.is_some() {}
    let (files, letters, damaged) = (walk.end.files, walk.end.letters, walk.end.damaged.len() as u64);
    let mut told = match damaged {
        0 => format!("{} files with {} letters verified.", grouped(files), grouped(letters)),
        _ => format!("{} of {} files missing or damaged.", grouped(damaged), grouped(files)),
    };
    if files < walk.of {
        let rest = grouped(walk.of - files);
        told.push_str(&format!(" {rest} not verified: verify again, or run lazaret archive verify."));
    }
    Ok(told)
}
