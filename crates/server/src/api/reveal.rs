//! Seeing what is masked: by role, with a reason, and on record before anything is shown. And what may be asked of letters
//! by those who may not: a filter must not answer what a page does not show.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::limits;
use lazaret_core::redaction::Redactor;
use lazaret_store::audit::Act;
use serde_json::Value;

use super::archive;
use super::guard::{RequestId, actor, may};
use super::letters::{
    self, Lives, Pairs, body_response, once, parse_id, parse_life, parse_lives, unknown_parameter,
};
use super::problem::{Code, Problem};
use super::wire::TotalBody;
use super::wire::archive::ArchivedEntry;
use super::wire::entry::LetterEntry;
use crate::access::{Caller, Permission};
use crate::app::App;

/// Who wants to see what is masked of a letter, and why.
#[derive(Debug)]
pub(crate) struct Reveal<'a> {
    app: &'a App,
    caller: &'a Caller,
    request: &'a RequestId,
    reason: String,
}

impl<'a> Reveal<'a> {
    /// Refuses who may not, and who does not say why.
    pub fn new(
        app: &'a App,
        caller: &'a Caller,
        request: &'a RequestId,
        reason: &str,
    ) -> Result<Reveal<'a>, Problem> {
        may(caller, Permission::Reveal)?;
        let reason = reason.trim();
        let (min, max) = (limits::REVEAL_REASON_CHARS_MIN, limits::REASON_BYTES_MAX);
        if reason.chars().count() < min || reason.len() > max {
            let text = format!("reason required: at least {min} characters, at most {max} bytes");
            return Err(Problem::new(Code::ReasonRequired, text)
                .with("field", "reason")
                .hint("your name and reason are recorded in the audit log"));
        }
        Ok(Reveal { app, caller, request, reason: reason.to_owned() })
    }

    /// Puts the look on record. Whatever is to be shown is ready by then, and is not shown if this fails.
    async fn note(self, letter: LetterId) -> Result<(), Problem> {
        let (by, at) = (actor(self.caller, self.request), self.app.clock.now());
        let act = Act::Reveal { letter, reason: self.reason };
        self.app.store.note_act(act, by, at).await?;
        tracing::info!(letter.id = %letter, by = self.caller.name, "letter {letter} was revealed");
        Ok(())
    }

    /// A live letter as it is.
    pub async fn letter(self, id: LetterId, lives: Lives) -> Result<LetterEntry, Problem> {
        let entry = letters::entry(self.app, id, lives, &open()).await?;
        self.note(id).await?;
        Ok(entry)
    }

    async fn body(self, id: LetterId, life: Option<u32>) -> Result<Response, Problem> {
        let original = letters::found_original(self.app, id, life).await?;
        self.note(id).await?;
        body_response(original, &open()).await
    }

    pub async fn archived(self, id: LetterId) -> Result<ArchivedEntry, Problem> {
        let entry = archive::entry(self.app, id, &open()).await?;
        self.note(id).await?;
        Ok(entry)
    }

    async fn archived_body(self, id: LetterId, life: Option<u32>) -> Result<Response, Problem> {
        let original = archive::found_original(self.app, id, life).await?;
        self.note(id).await?;
        body_response(original, &open()).await
    }
}

/// Masks nothing.
fn open() -> Arc<Redactor> {
    Arc::new(Redactor::off())
}

/// Takes the reason to reveal out of the parameters, if one is given.
fn take_reason(pairs: Pairs) -> Result<(Option<String>, Pairs), Problem> {
    let Query(pairs) = pairs?;
    let mut reason = None;
    let mut rest = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        match key.as_str() {
            "reveal" => once(&mut reason, "reveal", value)?,
            _ => rest.push((key, value)),
        }
    }
    Ok((reason, Ok(Query(rest))))
}

/// Shows a letter, masked or revealed.
pub(crate) async fn letter(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<LetterEntry>, Problem> {
    let (reason, pairs) = take_reason(pairs)?;
    match reason {
        None => letters::show(State(app), id, pairs).await,
        Some(reason) => {
            let (id, lives) = (parse_id(id)?, parse_lives(pairs)?);
            Reveal::new(&app, &caller, &request, &reason)?.letter(id, lives).await.map(Json)
        }
    }
}

/// Gives the bytes of a letter, masked or exact.
pub(crate) async fn body(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let (reason, pairs) = take_reason(pairs)?;
    match reason {
        None => letters::body(State(app), id, pairs).await,
        Some(reason) => {
            let (id, life) = (parse_id(id)?, parse_life(pairs)?);
            Reveal::new(&app, &caller, &request, &reason)?.body(id, life).await
        }
    }
}

/// Shows a letter of the archive, masked or revealed.
pub(crate) async fn archived(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Json<ArchivedEntry>, Problem> {
    let (reason, pairs) = take_reason(pairs)?;
    if let Some((key, _)) = pairs?.0.first() {
        return Err(unknown_parameter(key, &["reveal"]));
    }
    match reason {
        None => archive::show(State(app), id).await,
        Some(reason) => {
            let id = parse_id(id)?;
            Reveal::new(&app, &caller, &request, &reason)?.archived(id).await.map(Json)
        }
    }
}

/// Gives the bytes of a letter of the archive, masked or exact.
pub(crate) async fn archived_body(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let (reason, pairs) = take_reason(pairs)?;
    match reason {
        None => archive::body(State(app), id, pairs).await,
        Some(reason) => {
            let (id, life) = (parse_id(id)?, parse_life(pairs)?);
            Reveal::new(&app, &caller, &request, &reason)?.archived_body(id, life).await
        }
    }
}

/// Counts letters, if the caller may ask for them so.
pub(crate) async fn count(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    body: Result<Json<Value>, JsonRejection>,
) -> Result<Json<TotalBody>, Problem> {
    let Json(body) = body?;
    may_ask(&app, &caller, &letters::read_filter(&body)?)?;
    letters::count(State(app), Ok(Json(body))).await
}

/// Refuses a filter whose answer would tell what is masked, to those who may not reveal.
pub(crate) fn may_ask(app: &App, caller: &Caller, filter: &Filter) -> Result<(), Problem> {
    if app.redactor.is_off() || caller.role.may(Permission::Reveal) {
        return Ok(());
    }
    if let Some(condition) = app.redactor.asked_by(filter) {
        let text = format!("filter on masked value `{}`", crate::raw_json::shown(condition));
        return Err(
            refused(text).hint("filter by an unmasked value, or use a token with permission `reveal`")
        );
    }
    if !app.config.redaction.search && filter.needs_content() {
        return Err(refused("searching inside letters is not allowed".to_owned())
            .hint("remove body, contains, path and headerPath, or set redaction.search"));
    }
    Ok(())
}

fn refused(text: String) -> Problem {
    Problem::new(Code::Forbidden, text).with("needs", Permission::Reveal.name())
}

/// The keys of a query that look into letters.
const INSIDE: [&str; 5] = ["q", "path", "headerPath", "body", "contains"];

/// The same for the query of a request, whatever its route makes of it. What is no filter is for the route to refuse.
pub(crate) fn may_ask_by(app: &App, caller: &Caller, query: Option<&str>) -> Result<(), Problem> {
    let Some(query) = query.filter(|_| !app.redactor.is_off() && !caller.role.may(Permission::Reveal)) else {
        return Ok(());
    };
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if INSIDE.contains(&key.as_ref())
            && let Ok(filter) = Filter::from_query([(key.as_ref(), value.as_ref())])
        {
            may_ask(app, caller, &filter)?;
        }
    }
    Ok(())
}
