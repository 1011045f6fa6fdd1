//! Whether the files of the archive are still what was written.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use lazaret_core::id::FileId;
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::archive::{ArchiveFile, FileState};
use serde_json::json;

use super::super::fields::Fields;
use super::super::ndjson::line;
use super::super::problem::{Code, Problem};
use super::super::wire::archive::{CheckedLine, DamagedBody, FileBody, VerifiedBody};
use crate::app::App;
use crate::archive::{self, ArchiveError};

/// Reads every file of the archive, or one, and checks it against what was written down of it.
#[utoipa::path(
    post,
    path = "/api/v1/archive/verify",
    tag = "archive",
    request_body(content = Option<Object>, description = "Empty for all, or `{\"fileId\": id}`"),
    responses(
        (status = 200, content_type = "application/x-ndjson", body = CheckedLine, description = "A line for each file as it was checked, the last `{\"end\": {\"files\": n, \"letters\": n, \"damaged\": […]}}`; without that line it was interrupted, see `{\"problem\": \"…\"}`"),
        (status = 400, description = "bad_id or bad_request"),
        (status = 404, description = "not_found: there is no such file")
    )
)]
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let walk = walk(app, body).await?;
    let lines = stream::unfold(Some(walk), |walk| async move {
        let (line, walk) = walk?.next().await;
        Some((Ok::<Bytes, Infallible>(line), walk))
    });
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// A check as it was asked for, before its first file.
pub(crate) async fn walk(app: Arc<App>, body: Result<Bytes, BytesRejection>) -> Result<Walk, Problem> {
    let mut fields = Fields::read(&body?)?;
    let one = fields.text("fileId")?;
    fields.end()?;
    let files = match one {
        Some(text) => VecDeque::from([known(&app, &text).await?]),
        None => all(&app).await?,
    };
    Ok(Walk { app, of: files.len() as u64, files, end: VerifiedBody::default() })
}

async fn known(app: &App, text: &str) -> Result<ArchiveFile, Problem> {
    let id = FileId::parse(text)
        .map_err(|error| Problem::new(Code::BadId, error.to_string()).with("field", "fileId"))?;
    match app.store.file(id).await? {
        Some(file) => Ok(file),
        None => Err(Problem::new(Code::NotFound, format!("file {id} not found"))
            .hint("find files with GET /api/v1/archive/files or `lazaret archive files`")),
    }
}

/// Taken down at once, so that it is known how many there are; one that is written meanwhile was verified then.
async fn all(app: &App) -> Result<VecDeque<ArchiveFile>, StoreError> {
    let mut files: VecDeque<ArchiveFile> = VecDeque::new();
    loop {
        let last = files.back().map(|file| file.id);
        let page = app.store.files(last, limits::PAGE_ROWS_MAX).await?;
        if page.is_empty() {
            // What is still being written is not there yet, or not whole.
            files.retain(|file| file.state != FileState::Writing);
            return Ok(files);
        }
        files.extend(page);
    }
}

/// A walk through files, one at a time: nobody who reads slowly makes us hold lines.
pub(crate) struct Walk {
    app: Arc<App>,
    files: VecDeque<ArchiveFile>,
    pub of: u64,
    pub end: VerifiedBody,
}

impl Walk {
    /// Those first that were looked at the longest ago, for who will not walk to the end.
    pub fn stalest_first(&mut self) {
        self.files.make_contiguous().sort_by_key(|file| file.checked_at);
    }

    /// The next line, and the walk unless it was the last.
    async fn next(mut self) -> (Bytes, Option<Walk>) {
        match self.step().await {
            Ok(Some(checked)) => (line(&checked), Some(self)),
            Ok(None) => (line(&json!({ "end": self.end })), None),
            Err(error) => {
                tracing::warn!(error = %error, "archive verification interrupted");
                (line(&json!({ "problem": error.to_string() })), None)
            }
        }
    }

    /// Checks the next file; nothing if there is none left.
    pub async fn step(&mut self) -> Result<Option<CheckedLine>, ArchiveError> {
        let Some(file) = self.files.pop_front() else { return Ok(None) };
        let problem = archive::verify_file(&self.app, &file).await?;
        self.end.files += 1;
        match &problem {
            None => self.end.letters += file.letters,
            Some(problem) => self.end.damaged.push(DamagedBody {
                file_id: file.id.to_string(),
                path: file.path.clone(),
                problem: problem.clone(),
            }),
        }
        let (done, of) = (self.end.files, self.of);
        Ok(Some(CheckedLine { file: FileBody::from(file), problem, done, of }))
    }
}
