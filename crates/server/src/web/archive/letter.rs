//! One letter of the archive, whole; its restore, and a hold on it.

use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Redirect, Response};

use super::ADDRESS;
use crate::access::Permission;
use crate::api::archive;
use crate::api::archive::restore as bring_back;
use crate::api::holds;
use crate::api::problem::{Code, Problem};
use crate::api::wire::archive::{ArchivedEntry, RemovalBody};
use crate::api::wire::entry::LetterEntry;
use crate::app::App;
use crate::web::form::{self, Form};
use crate::web::format as filters;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

/// Characters of the original that are shown; the whole is at its own address.
const SHOWN_CHARS: usize = 20_000;

#[derive(Template)]
#[template(path = "archived_letter.html")]
struct ArchivedLetter {
    shell: Shell,
    letter: LetterEntry,
    archive: RemovalBody,
    typed: Typed,
    hindrance: Option<String>,
    /// Why the viewer may not reveal it.
    reveal: Option<String>,
}

/// What stands in the fields of both forms.
#[derive(Default)]
struct Typed {
    reason: String,
    why: String,
    until: String,
}

impl ArchivedLetter {
    fn address(&self) -> String {
        format!("{ADDRESS}/{}", self.letter.summary.id)
    }

    /// The original, as far as it is text.
    fn original(&self) -> Option<&str> {
        Some(self.letter.original_event.get()).filter(|text| *text != "null")
    }

    fn is_cut(&self) -> bool {
        self.original().is_some_and(|text| text.chars().nth(SHOWN_CHARS).is_some())
    }

    fn wrong(&self, field: &str) -> bool {
        self.shell.trouble.as_ref().is_some_and(|trouble| trouble.field.as_deref() == Some(field))
    }
}

type Id = Result<Path<String>, PathRejection>;

pub(super) async fn show(State(app): State<Arc<App>>, viewer: Viewer, id: Id) -> Result<Response, Problem> {
    let Path(id) = id?;
    page(&app, &viewer, &id, None).await
}

async fn page(
    app: &Arc<App>,
    viewer: &Viewer,
    id: &str,
    refused: Option<(Problem, &Form)>,
) -> Result<Response, Problem> {
    let found = archive::show(State(Arc::clone(app)), Ok(Path(id.to_owned()))).await;
    let ArchivedEntry { letter, archive } = match (found, &refused) {
        (Ok(entry), _) => entry.0,
        // It came back in between: that is where whoever looks wants to be.
        (Err(problem), None) if problem.code() == Code::NotArchived => {
            return Ok(Redirect::to(&format!("/letters/{id}")).into_response());
        }
        (Err(problem), _) => return Err(problem),
    };
    let typed = match &refused {
        Some((_, form)) => Typed {
            reason: form.get("reason").to_owned(),
            why: form.get("why").to_owned(),
            until: form.get("until").to_owned(),
        },
        None => Typed::default(),
    };
    let problem = refused.as_ref().map(|(problem, _)| problem);
    let title = format!("Archived {}", letter.summary.letter_type);
    let page = ArchivedLetter {
        shell: Shell::new(app, viewer, title, ADDRESS).await?.with(problem),
        letter,
        archive,
        typed,
        hindrance: viewer.hindrance(Permission::Decide),
        reveal: viewer.hindrance(Permission::Reveal),
    };
    Ok(match problem {
        Some(problem) => (problem.status(), Page(page)).into_response(),
        None => Page(page).into_response(),
    })
}

pub(super) async fn restore(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let body = Ok(form::body(form.texts(&["reason"])));
    let restored =
        bring_back::restore_one(State(Arc::clone(&app)), caller, request, Ok(Path(id.clone())), body).await;
    match restored {
        Ok(letter) => Ok(done(
            &format!("/letters/{}", letter.id),
            &format!("The letter is back, {} as it was.", letter.status),
        )),
        Err(problem) => page(&app, &viewer, &id, Some((problem, &form))).await,
    }
}

/// A hold by its own door, because an archived letter is held by its id alone.
pub(super) async fn hold(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Id,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let mut wish = form.texts(&["until"]);
    wish.insert("letterId".into(), id.clone().into());
    if let Some(why) = form.text("why") {
        wish.insert("reason".into(), why.into());
    }
    match holds::place(State(Arc::clone(&app)), caller, request, Ok(form::body(wish))).await {
        Ok(_) => Ok(done(&format!("/archive/{id}"), "The letter is held.")),
        Err(problem) => page(&app, &viewer, &id, Some((problem, &form))).await,
    }
}
