//! Letters brought back from the archive: one, or all that match a filter.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use lazaret_core::filter::Filter;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Action, Place};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::archive::{ArchiveQuery, Archived};
use lazaret_store::decision::{Decided, Decision, Verb};
use serde_json::json;

use super::super::decisions;
use super::super::fields::{Fields, bad};
use super::super::guard::{RequestId, actor};
use super::super::letters::{parse_id, read_filter};
use super::super::ndjson::line;
use super::super::problem::{Code, Problem};
use super::super::reveal::may_ask;
use super::super::wire::archive::RestoredBody;
use super::super::wire::{LetterSummary, SkippedBody};
use super::{not_archived, parse_place};
use crate::access::Caller;
use crate::app::App;
use crate::archive::{self, ArchiveError};

/// Skipped letters that are named in an answer.
const SKIPPED_SHOWN: usize = 100;

const NDJSON: &str = "application/x-ndjson";

/// Brings one letter back, in the state it had.
#[utoipa::path(
    post,
    path = "/api/v1/archive/{id}/restore",
    tag = "archive",
    params(("id" = String, Path)),
    request_body(content = Option<Object>, description = "`{\"reason\": \"…\"}`; optional"),
    responses(
        (status = 200, body = LetterSummary),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_archived: it is live; replaced: its key is used by another letter or job"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn restore_one(
    State(app): State<Arc<App>>,
    caller: Extension<Caller>,
    request: Extension<RequestId>,
    id: Result<Path<String>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<LetterSummary>, Problem> {
    let Path(text) = id?;
    let id = parse_id(Ok(Path(text.clone())))?;
    if app.store.archived_letter(id).await?.is_none() {
        return Err(not_archived(&app, id).await?);
    }
    decisions::by_id(Verb::Restore, State(app), caller, request, Ok(Path(text)), body).await
}

/// Brings back all letters of the archive that match, if they are as many as expected.
#[utoipa::path(
    post,
    path = "/api/v1/archive/restore",
    tag = "archive",
    request_body(content = Object, description = "`{\"filter\": {…}, \"count\": n}`, or `{\"all\": true, \"count\": n}`; `reason`; `place`: archived unless it says deleted"),
    responses(
        (status = 200, body = RestoredBody, description = "Done. With `Accept: application/x-ndjson` lines of `{\"done\": n, \"of\": m}` while running, the last `{\"end\": {…}}`; without that line it was interrupted, see `{\"problem\": \"…\"}`"),
        (status = 400, description = "filter_required, bad_filter or bad_request: `field` says which"),
        (status = 409, description = "count_mismatch: nothing was restored"),
        (status = 422, description = "too_broad: more letters than one call restores"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn restore_many(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(request): Extension<RequestId>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let restore = begin(app, &caller, &request, body).await?;
    if !headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(NDJSON.as_bytes())) {
        return Ok(Json(restore.whole().await?).into_response());
    }
    let lines = stream::unfold(Some(restore), |restore| async move {
        let (line, restore) = restore?.next().await;
        Some((Ok::<Bytes, Infallible>(line), restore))
    });
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON))], Body::from_stream(lines)).into_response())
}

/// A restore as it was asked for, before its first letter.
pub(crate) async fn begin(
    app: Arc<App>,
    caller: &Caller,
    request: &RequestId,
    body: Result<Bytes, BytesRejection>,
) -> Result<Restore, Problem> {
    let asked = read(Fields::read(&body?)?, app.clock.now())?;
    may_ask(&app, caller, &asked.filter)?;
    let decision = Decision {
        verb: Verb::Restore,
        actor: actor(caller, request),
        reason: asked.reason.clone(),
        at: app.clock.now(),
        from: None,
        floor_ms: None,
    };
    let letters = select(&app, &asked).await?;
    Ok(Restore { app, of: letters.len() as u64, chunks: chunks(letters), decision, end: Tally::default() })
}

/// The letters that match, if they are as many as expected and not too many.
async fn select(app: &App, asked: &Asked) -> Result<Vec<Archived>, Problem> {
    let (now, mut letters, mut before) = (app.clock.now(), Vec::new(), None);
    loop {
        let page = archive::search(
            app,
            ArchiveQuery {
                filter: asked.filter.clone(),
                place: Some(asked.place),
                now,
                before,
                limit: limits::PAGE_ROWS_MAX,
            },
        )
        .await?;
        letters.extend(page.letters);
        if letters.len() > limits::RESTORED_PER_CALL {
            let max = limits::RESTORED_PER_CALL;
            return Err(Problem::new(
                Code::TooBroad,
                format!("more than {max} archived letters match, the maximum per call"),
            )
            .hint("split the range with since and until"));
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let (count, expected) = (letters.len() as u64, asked.count);
    if count != expected {
        return Err(Problem::new(
            Code::CountMismatch,
            format!("{count} archived letters match, expected {expected}: nothing was restored"),
        )
        .with("count", count)
        .with("expectedCount", expected)
        .hint("check the count with GET /api/v1/archive, then send it"));
    }
    Ok(letters)
}

/// Letters of one file together, so that it is read once for many of them.
fn chunks(mut letters: Vec<Archived>) -> VecDeque<Vec<Archived>> {
    let file = |archived: &Archived| archived.file.as_ref().map(|row| (*row.file.bytes(), row.row));
    letters.sort_by_key(file);
    let mut chunks: VecDeque<Vec<Archived>> = VecDeque::new();
    for archived in letters {
        let together = |chunk: &&mut Vec<Archived>| {
            let same = |other: &Archived| file(other).map(|(id, _)| id) == file(&archived).map(|(id, _)| id);
            chunk.len() < limits::RESTORED_PER_STEP && chunk.last().is_some_and(same)
        };
        match chunks.back_mut().filter(together) {
            Some(chunk) => chunk.push(archived),
            None => chunks.push_back(vec![archived]),
        }
    }
    chunks
}

/// A restore by filter that goes on.
pub(crate) struct Restore {
    app: Arc<App>,
    chunks: VecDeque<Vec<Archived>>,
    decision: Decision,
    of: u64,
    end: Tally,
}

#[derive(Default)]
struct Tally {
    restored: u64,
    skipped: u64,
    /// The first of them, and why.
    named: Vec<SkippedBody>,
}

impl Restore {
    /// Brings all of them back.
    pub async fn whole(mut self) -> Result<RestoredBody, ArchiveError> {
        while self.step().await? {}
        Ok(self.end.into())
    }

    /// Brings the next letters back; false when there were none left.
    async fn step(&mut self) -> Result<bool, ArchiveError> {
        let Some(chunk) = self.chunks.pop_front() else { return Ok(false) };
        for (letter, decided) in archive::restore_many(&self.app, chunk, self.decision.clone()).await? {
            self.end.add(letter, why_not(decided));
        }
        Ok(true)
    }

    /// The next line, and the rest unless it was the last.
    async fn next(mut self) -> (Bytes, Option<Restore>) {
        match self.step().await {
            Ok(true) => {
                let done = self.end.restored + self.end.skipped;
                (line(&json!({ "done": done, "of": self.of })), Some(self))
            }
            Ok(false) => (line(&json!({ "end": RestoredBody::from(self.end) })), None),
            // What was brought back stays; the rest can be asked for again.
            Err(error) => {
                tracing::warn!(error = %error, "restore by filter interrupted");
                (
                    line(&json!({ "problem": Problem::from(error).text(), "restored": self.end.restored })),
                    None,
                )
            }
        }
    }
}

/// Why a letter did not come back, if it did not.
fn why_not(decided: Result<Decided, ArchiveError>) -> Option<String> {
    match decided {
        Ok(Decided::Done) => None,
        Ok(Decided::Refused(refused)) => Some(refused.to_string()),
        Ok(Decided::Unknown | Decided::NoWayBack) => Some("no longer archived".into()),
        Ok(Decided::Replaced) => Some("its key is used by another letter or job".into()),
        Err(error) => Some(error.to_string()),
    }
}

impl Tally {
    fn add(&mut self, letter: LetterId, why_not: Option<String>) {
        match why_not {
            None => self.restored += 1,
            Some(reason) => {
                self.skipped += 1;
                if self.named.len() < SKIPPED_SHOWN {
                    self.named.push(SkippedBody { id: letter.to_string(), reason });
                }
            }
        }
    }
}

impl From<Tally> for RestoredBody {
    fn from(tally: Tally) -> RestoredBody {
        RestoredBody { restored: tally.restored, skipped: tally.skipped, skipped_letters: tally.named }
    }
}

/// A restore by filter, as it was asked for.
struct Asked {
    filter: Filter,
    place: Place,
    count: u64,
    reason: Option<String>,
}

fn read(mut fields: Fields, now: Time) -> Result<Asked, Problem> {
    let filter = match fields.take("filter") {
        Some(filter) => read_filter(&filter)?,
        None => Filter::default(),
    };
    let all = fields.flag("all")?.unwrap_or(false);
    let count = fields.count("count")?;
    let place = match fields.text("place")? {
        Some(text) => parse_place(&text).map_err(|problem| problem.with("field", "place"))?,
        None => Place::Archived,
    };
    let reason = fields.reason("reason")?;
    fields.end()?;
    match (filter.spares_nothing(Action::Restore, now), all) {
        (false, false) | (true, true) => {}
        (true, false) => {
            return Err(Problem::filter_required(&filter)
                .hint(r#"send {"filter":{"queue":"billing"},"count":12}, or {"all":true,"count":12} for everything"#));
        }
        (false, true) => return Err(bad("all", "conflicts with a filter")),
    }
    let Some(count) = count else {
        return Err(bad("count", "is missing").hint("the number of matching archived letters"));
    };
    Ok(Asked { filter, place, count, reason })
}
