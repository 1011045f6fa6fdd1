//! The archive: what was pushed out or deleted, found by the same filter, shown whole, brought back.

pub(crate) mod restore;
pub(crate) mod verify;

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use lazaret_core::cursor::{self, RawKey};
use lazaret_core::filter::Filter;
use lazaret_core::id::{FileId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::redaction::Redactor;
use lazaret_store::archive::{ArchiveQuery, Archived};
use lazaret_store::page::{LetterHistory, LifeAttempt, Original};
use lazaret_store::transfer::Exported;

use super::groups;
use super::holds;
use super::letters::{
    Pairs, body_response, masked, once, parse_id, parse_life, parse_limit, unknown_parameter,
};
use super::problem::{Code, Problem};
use super::retry::edits_of;
use super::wire::archive::{ArchiveList, ArchivedBody, ArchivedEntry, FileList, RemovalBody};
use super::wire::edit::Bodies;
use super::wire::entry::{Beside, LetterEntry};
use super::wire::redrive::LetterRedriveBody;
use super::wire::{LetterSummary, ScanBody};
use crate::app::App;
use crate::archive::{self, ArchiveError};
use crate::raw_json::shown;
use crate::redaction::Masker;

/// The numbers of these lists among those that have cursors.
const LETTERS: u8 = 41;
const FILES: u8 = 42;

const PAGE_KEYS: [&str; 3] = ["place", "limit", "cursor"];

/// Lists the letters of the archive, the last removed first.
#[utoipa::path(
    get,
    path = "/api/v1/archive",
    tag = "archive",
    params(
        ("q" = Option<String>, Query, description = "Filter as text; single keys are accepted as for live letters. Content filters scan letters and files within limits, reported in `scan`"),
        ("place" = Option<String>, Query, description = "archived: archived by retention; deleted: deleted manually and kept. Default: both"),
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses(
        (status = 200, body = ArchiveList),
        (status = 400, description = "bad_filter, bad_cursor or bad_request"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn list(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<ArchiveList>, Problem> {
    let Query(pairs) = pairs?;
    let (page, asked): (Vec<_>, Vec<_>) =
        pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).partition(|(key, _)| PAGE_KEYS.contains(key));
    let filter = Filter::from_query(asked.iter().copied())?;
    let (mut place, mut limit, mut after) = (None, None, None);
    for (key, value) in page {
        match key {
            "place" => once(&mut place, "place", parse_place(value)?)?,
            "limit" => once(&mut limit, "limit", parse_limit(value, limits::PAGE_ROWS_MAX)?)?,
            _ if value.is_empty() => {}
            _ => once(&mut after, "cursor", value)?,
        }
    }
    let hash = hash(&filter, place);
    let before = after.map(|text| cursor::open(text, LETTERS, hash)).transpose()?.map(|last| last.value);
    let limit = limit.unwrap_or(limits::PAGE_ROWS);
    let query = ArchiveQuery { filter, place, now: app.clock.now(), before, limit };
    let page = archive::search(&app, query).await?;
    let mut list = ArchiveList {
        items: page.letters.into_iter().map(ArchivedBody::from).collect(),
        next_cursor: page.next.map(|entry| cursor::seal(LETTERS, hash, RawKey { value: entry, id: [0; 16] })),
        scan: page.scan.map(ScanBody::from),
    };
    list.hide(&Masker::new(&app.redactor));
    Ok(Json(list))
}

/// A place of the archive by its name.
fn parse_place(text: &str) -> Result<Place, Problem> {
    match Place::parse(text) {
        Some(place @ (Place::Archived | Place::Deleted)) => Ok(place),
        Some(Place::Live) | None => {
            Err(Problem::new(Code::BadRequest, format!("unknown place `{}`", shown(text)))
                .hint("known: archived, deleted; live letters are at /api/v1/dead-letters"))
        }
    }
}

fn hash(filter: &Filter, place: Option<Place>) -> [u8; 8] {
    let mut hash = filter.hash();
    hash[0] ^= match place {
        None => 0,
        Some(Place::Archived) => 1,
        Some(Place::Deleted) => 2,
        Some(Place::Live) => 3,
    };
    hash
}

/// Shows one letter of the archive whole.
#[utoipa::path(
    get,
    path = "/api/v1/archive/{id}",
    tag = "archive",
    params(
        ("id" = String, Path),
        ("reveal" = Option<String>, Query, description = "Reason to reveal masked values, at least 10 characters; requires `reveal`, recorded in the audit log"),
    ),
    responses(
        (status = 200, body = ArchivedEntry),
        (status = 400, description = "bad_id, bad_request, or reason_required: the reason to reveal is too short"),
        (status = 403, description = "forbidden: the role may not reveal"),
        (status = 404, description = "not_found"),
        (status = 409, description = "not_archived: it is live"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ArchivedEntry>, Problem> {
    let id = parse_id(id)?;
    entry(&app, id, &app.redactor).await.map(Json)
}

/// One letter of the archive whole, as a redactor lets it be seen.
pub(crate) async fn entry(
    app: &App,
    id: LetterId,
    redactor: &Arc<Redactor>,
) -> Result<ArchivedEntry, Problem> {
    let Some(archived) = app.store.archived_letter(id).await? else {
        return Err(not_archived(app, id).await?);
    };
    let Some(exported) = archive::read_letter(app, id).await? else {
        return Err(not_archived(app, id).await?);
    };
    let (mut history, original) = opened(&archived, exported);
    let last = history.attempts.last().map_or(0, |attempt| attempt.ordinal);
    let late = app.store.late_attempts(id).await?.into_iter();
    history.attempts.extend(late.map(|late| LifeAttempt { ordinal: last + late.ordinal, ..late }));
    let Some(original) = original else { return Err(Problem::no_letter(id)) };
    let beside = Beside {
        redrives: app.store.redrives_of(id).await?.into_iter().map(LetterRedriveBody::from).collect(),
        edits: edits_of(app, id, Bodies::LeftOut, redactor).await?,
        holds: holds::of_letter(app, id).await?,
        older_lives: Vec::new(),
    };
    let letter = LetterEntry::new(history, original, beside, |subject| groups::group(app, subject));
    let mut letter = masked(letter, redactor).await?;
    letter.summary.allowed_actions = super::wire::archive::summary(&archived).allowed_actions;
    Ok(ArchivedEntry { letter, archive: RemovalBody::from(archived) })
}

/// Gives the bytes of the original of a letter of the archive: exactly, unless something in them is masked.
#[utoipa::path(
    get,
    path = "/api/v1/archive/{id}/body",
    tag = "archive",
    params(
        ("id" = String, Path),
        ("life" = Option<u32>, Query, description = "Default: the last life"),
        ("reveal" = Option<String>, Query, description = "Reason to reveal the exact bytes, at least 10 characters; requires `reveal`, recorded in the audit log"),
    ),
    responses(
        (status = 200, description = "Captured bytes, with their SHA-256 in `Lazaret-Sha256`. Masked bodies have `Lazaret-Redacted: true` instead", content_type = "application/octet-stream"),
        (status = 400, description = "bad_id, bad_request, or reason_required: the reason to reveal is too short"),
        (status = 403, description = "forbidden: the role may not reveal; withheld: a binary body cannot be masked"),
        (status = 404, description = "not_found"),
        (status = 410, description = "body_missing: the message expired before its body was read"),
        (status = 409, description = "not_archived: it is live"),
        (status = 502, description = "file_missing or file_corrupt: `path` names the file"),
        (status = 503, description = "archive_unavailable")
    )
)]
pub(crate) async fn body(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let id = parse_id(id)?;
    let original = found_original(&app, id, parse_life(pairs)?).await?;
    body_response(original, &app.redactor).await
}

/// The original of a life of a letter of the archive.
pub(crate) async fn found_original(app: &App, id: LetterId, life: Option<u32>) -> Result<Original, Problem> {
    if app.store.archived_letter(id).await?.is_none() {
        return Err(not_archived(app, id).await?);
    }
    let Some(exported) = archive::read_letter(app, id).await? else {
        return Err(not_archived(app, id).await?);
    };
    let wanted = life.unwrap_or(exported.letter.life);
    original_of(exported, wanted)
        .ok_or_else(|| Problem::new(Code::NotFound, format!("letter {id} has no life {wanted}")))
}

/// The original of one life of a letter that was read.
fn original_of(exported: Exported, wanted: u32) -> Option<Original> {
    let life = exported.lives.into_iter().find(|(life, _)| life.life == wanted);
    life.map(|(life, envelope)| Original { life: life.life, envelope })
}

/// A letter of the archive as live ones are shown: the columns from the index, the content as it was read.
fn opened(archived: &Archived, exported: Exported) -> (LetterHistory, Option<Original>) {
    let history = LetterHistory {
        letter: archived.letter.clone(),
        lives: exported.lives.iter().map(|(life, _)| life.clone()).collect(),
        attempts: exported.attempts.clone(),
        decisions: exported.decisions.clone(),
    };
    (history, original_of(exported, archived.letter.life))
}

/// A live letter with the lives and attempts that stand in files.
pub(crate) async fn whole_history(app: &App, id: LetterId) -> Result<Option<LetterHistory>, Problem> {
    let Some(mut history) = app.store.history(id).await? else { return Ok(None) };
    for older in archive::read_older(app, id).await? {
        history.lives.extend(older.lives.into_iter().map(|(life, _)| life));
        history.attempts.extend(older.attempts);
    }
    history.lives.sort_by_key(|life| life.life);
    history.attempts.sort_by_key(|attempt| (attempt.life, attempt.ordinal));
    Ok(Some(history))
}

/// The original of one life of a live letter, the present one unless said.
pub(crate) async fn whole_original(
    app: &App,
    id: LetterId,
    life: Option<u32>,
) -> Result<Option<Original>, Problem> {
    if let Some(original) = app.store.original(id, life).await? {
        return Ok(Some(original));
    }
    let (Some(wanted), Some(_)) = (life, app.store.history(id).await?) else { return Ok(None) };
    let older = archive::read_older(app, id).await?;
    Ok(older.into_iter().find_map(|exported| original_of(exported, wanted)))
}

/// Lists the files of the archive, the oldest first, and what waits for one.
#[utoipa::path(
    get,
    path = "/api/v1/archive/files",
    tag = "archive",
    params(
        ("limit" = Option<u32>, Query, description = "1 to 500, default 50"),
        ("cursor" = Option<String>, Query, description = "`nextCursor` of the previous page"),
    ),
    responses((status = 200, body = FileList), (status = 400, description = "bad_cursor or bad_request"))
)]
pub(crate) async fn files(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Json<FileList>, Problem> {
    let (mut limit, mut cursor) = (None, None);
    for (key, value) in pairs?.0 {
        match key.as_str() {
            "limit" => once(&mut limit, "limit", parse_limit(&value, limits::PAGE_ROWS_MAX)?)?,
            "cursor" if value.is_empty() => {}
            "cursor" => once(&mut cursor, "cursor", value)?,
            _ => return Err(unknown_parameter(&key, &["limit", "cursor"])),
        }
    }
    let limit = limit.unwrap_or(limits::PAGE_ROWS);
    let after = match cursor {
        Some(text) => Some(FileId::from_bytes(cursor::open(&text, FILES, [0; 8])?.id)),
        None => None,
    };
    let mut files = app.store.files(after, limit + 1).await?;
    let more = files.len() > limit;
    files.truncate(limit);
    let next_cursor = files
        .last()
        .filter(|_| more)
        .map(|last| cursor::seal(FILES, [0; 8], RawKey { value: 0, id: *last.id.bytes() }));
    let waiting = app.store.archive_waiting().await?;
    Ok(Json(FileList::new(files, next_cursor, waiting, archive::state(&app))))
}

/// A letter in short, wherever it is.
pub(crate) async fn summary(app: &App, id: LetterId) -> Result<Option<LetterSummary>, Problem> {
    if let Some(history) = app.store.history(id).await? {
        return Ok(Some(LetterSummary::shown(&history.letter, &Masker::new(&app.redactor))));
    }
    let archived = app.store.archived_letter(id).await?;
    Ok(archived.as_ref().map(|archived| {
        let mut letter = super::wire::archive::summary(archived);
        letter.hide(&Masker::new(&app.redactor));
        letter
    }))
}

/// Why there is no live letter of this id: it never was, or where it is now.
pub(crate) async fn no_live_letter(app: &App, id: LetterId) -> Problem {
    match app.store.archived_letter(id).await {
        Ok(Some(archived)) => gone(&archived),
        Ok(None) => Problem::no_letter(id),
        Err(error) => error.into(),
    }
}

fn gone(archived: &Archived) -> Problem {
    let Archived { letter, removed_at, removed_by, .. } = archived;
    let id = letter.id;
    let detail = match letter.place {
        Place::Deleted => {
            format!("letter {id} was deleted by {removed_by} at {removed_at}")
        }
        Place::Archived | Place::Live => format!("letter {id} is archived, since {removed_at}"),
    };
    Problem::new(Code::NotFound, detail)
        .with("place", letter.place.name())
        .with("archive", format!("/api/v1/archive/{id}"))
        .hint(format!(
            "show it with GET /api/v1/archive/{id} or `lazaret archive show {id}`; \
             restore it with POST /api/v1/archive/{id}/restore or `lazaret restore {id}`"
        ))
}

/// Why the archive does not have a letter.
async fn not_archived(app: &App, id: LetterId) -> Result<Problem, Problem> {
    Ok(match app.store.history(id).await? {
        Some(_) => Problem::new(Code::NotArchived, format!("letter {id} is not archived"))
            .hint(format!("show it with GET /api/v1/dead-letters/{id} or `lazaret show {id}`")),
        None => Problem::no_letter(id),
    })
}

impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Problem {
        let text = error.to_string();
        match error {
            ArchiveError::Store(error) => error.into(),
            ArchiveError::NoPlace => Problem::new(Code::ArchiveUnavailable, text)
                .hint("set archive.url to the location of the files"),
            ArchiveError::Away { .. } => Problem::new(Code::ArchiveUnavailable, text)
                .hint("nothing was changed: retry when the storage is reachable")
                .retry_after(5),
            ArchiveError::Missing { file, path } => Problem::new(Code::FileMissing, text)
                .with("fileId", file.to_string())
                .with("path", path)
                .hint("restore the file from a backup; `lazaret archive verify` lists all missing files"),
            ArchiveError::Damaged { file, path, problem } => Problem::new(Code::FileCorrupt, text)
                .with("fileId", file.to_string())
                .with("path", path)
                .with("problem", problem)
                .hint("restore the file from a backup; `lazaret archive verify` lists all damaged files"),
        }
    }
}
