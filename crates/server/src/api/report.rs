//! `POST /api/v1/dead-letters`: one entry, a batch or a stream, answered item by item.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Query, Request, State};
use bytes::{Bytes, BytesMut};
use http::header;
use http_body_util::BodyExt;
use lazaret_core::letter::Captured;
use lazaret_core::limits;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::letters::{Pairs, unknown_parameter};
use super::ndjson::{LineBounds, Lines, MEDIA_TYPES, half_sent};
use super::problem::{Code, Problem, too_large};
use crate::app::App;
use crate::capture::capture;
use crate::raw_json::{RawObject, shown};
use crate::report::{Door, Refusal, read_entry};

#[derive(Serialize, ToSchema)]
pub(crate) struct ReportAnswer {
    pub items: Vec<ItemAnswer>,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ItemAnswer {
    /// The letter; absent if the item was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub event_id: Option<String>,
    /// created, duplicate, recurred, relapse or refused
    #[schema(value_type = String)]
    pub result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    /// The line of a stream that was refused, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ItemError {
    #[schema(value_type = String)]
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// Takes dead letters from any program. What is answered is stored for good; sending it again changes nothing.
#[utoipa::path(
    post,
    path = "/api/v1/dead-letters",
    tag = "report",
    params(("source" = Option<String>, Query, description = "Source name; default `report`")),
    request_body(
        description = "One entry, `{\"items\":[…]}` with up to 1,000, or NDJSON with up to 10,000 lines",
        content((Object = "application/json"), (String = "application/x-ndjson"))
    ),
    responses(
        (status = 200, body = ReportAnswer),
        (status = 400, description = "bad_json, bad_request or unknown_source"),
        (status = 413, description = "too_large"),
        (status = 422, description = "unprocessable: a single entry was refused"),
        (status = 503, description = "store_busy or store_full: nothing was stored; store_unavailable: see `hint`")
    )
)]
pub(crate) async fn report(
    State(app): State<Arc<App>>,
    pairs: Pairs,
    request: Request,
) -> Result<Json<ReportAnswer>, Problem> {
    let source = read_source(&app, pairs?)?;
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = content_type.unwrap_or("application/json").split(';').next().unwrap_or("").trim();
    match media_type.to_ascii_lowercase().as_str() {
        "application/json" => report_json(&app, &source, request.into_body()).await,
        lines if MEDIA_TYPES.contains(&lines) => report_stream(&app, &source, request.into_body()).await,
        other => Err(Problem::new(
            Code::UnsupportedMediaType,
            format!("unsupported content type `{}`", shown(other)),
        )
        .hint("send application/json or application/x-ndjson")),
    }
}

fn read_source(app: &App, Query(pairs): Query<Vec<(String, String)>>) -> Result<String, Problem> {
    let mut source = "report".to_owned();
    for (key, value) in pairs {
        match key.as_str() {
            "source" => source = value,
            _ => return Err(unknown_parameter(&key, &["source"])),
        }
    }
    if !app.config.sources.contains_key(&source) {
        let known: Vec<&str> = app.config.sources.keys().map(String::as_str).collect();
        return Err(Problem::new(
            Code::UnknownSource,
            format!("source `{}` is not configured", shown(&source)),
        )
        .hint(format!("configured: {}; add [sources.<name>] for another", known.join(", "))));
    }
    if app.sources.get(&source).is_some() {
        let kind = app.config.sources.get(&source).map_or("source", |config| config.kind.name());
        let why = format!("source `{}` has kind {kind}: it does not accept reports", shown(&source));
        return Err(Problem::new(Code::UnknownSource, why)
            .hint("its dead letters are captured automatically; report to another source"));
    }
    Ok(source)
}

async fn report_json(app: &Arc<App>, source: &str, body: Body) -> Result<Json<ReportAnswer>, Problem> {
    let max = app.config.limits.body_bytes_max;
    let body = http_body_util::Limited::new(body, max).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() { too_large() } else { half_sent(&*error) }
    })?;
    let text = Text::new(body.to_bytes())?;
    if text.as_str().trim().is_empty() {
        return Err(Problem::new(Code::BadRequest, "empty body")
            .hint(r#"send {"eventId":"…","originalEvent":{…},"error":{"type":"…","message":"…"}}"#));
    }
    let items = split_batch(&text)?;
    match items {
        Some(items) => {
            let answers = take(app, source, text, items, None).await?;
            Ok(Json(ReportAnswer { items: answers }))
        }
        None => {
            let whole = 0..text.as_str().len();
            let answers = take(app, source, text, vec![whole], None).await?;
            for answer in &answers {
                if let Some(error) = &answer.error {
                    let problem = Problem::new(Code::Unprocessable, error.message.clone())
                        .with("reason", error.code)
                        .hint("nothing was stored: correct the entry and send it again");
                    return Err(match &error.field {
                        Some(field) => problem.with("field", field.clone()),
                        None => problem,
                    });
                }
            }
            Ok(Json(ReportAnswer { items: answers }))
        }
    }
}

/// A body that is UTF-8, shared between the threads that read parts of it.
#[derive(Clone)]
struct Text(Bytes);

impl Text {
    fn new(bytes: Bytes) -> Result<Text, Problem> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Text(bytes)),
            Err(error) => Err(Problem::new(
                Code::BadJson,
                format!("body is not UTF-8: invalid byte at {}", error.valid_up_to()),
            )),
        }
    }

    fn as_str(&self) -> &str {
        // Checked once at the door.
        std::str::from_utf8(&self.0).unwrap_or("")
    }
}

type Span = std::ops::Range<usize>;

/// The entries of a batch as places in the body; nothing if the body is one entry.
fn split_batch(text: &Text) -> Result<Option<Vec<Span>>, Problem> {
    let body = text.as_str();
    let bad =
        |error: serde_json::Error| Problem::new(Code::BadJson, format!("the body is not JSON: {error}"));
    let list: Vec<&RawValue> = if body.trim_start().starts_with('[') {
        serde_json::from_str(body).map_err(bad)?
    } else {
        let object: RawObject<'_> = serde_json::from_str(body).map_err(bad)?;
        let entry = object.0.iter().any(|(name, _)| name == "originalEvent");
        match object.0.iter().find(|(name, _)| name == "items") {
            Some((_, items)) if !entry => serde_json::from_str(items.get())
                .map_err(|_| Problem::new(Code::BadJson, "items must be an array of entries"))?,
            Some(_) | None => return Ok(None),
        }
    };
    if list.len() > limits::BATCH_ITEMS_MAX {
        let (items, max) = (list.len(), limits::BATCH_ITEMS_MAX);
        return Err(Problem::new(
            Code::TooLarge,
            format!("the batch has {items} items, the maximum is {max}"),
        )
        .hint("split it, or send it as application/x-ndjson"));
    }
    let start = body.as_ptr() as usize;
    let place = |raw: &&RawValue| {
        let from = raw.get().as_ptr() as usize - start;
        from..from + raw.get().len()
    };
    Ok(Some(list.iter().map(place).collect()))
}

/// Reads and stores entries; the answers come back in order. `line` is the number of the first, for a stream.
async fn take(
    app: &Arc<App>,
    source: &str,
    text: Text,
    items: Vec<Span>,
    line: Option<usize>,
) -> Result<Vec<ItemAnswer>, Problem> {
    let bytes = text.as_str().len();
    let read = {
        let (app, source) = (Arc::clone(app), source.to_owned());
        move || read_all(&app, &source, &text, &items)
    };
    // Reading a thousand entries takes tens of milliseconds: too long for the threads that serve everyone. One entry
    // takes less than handing it over.
    let read = if bytes <= limits::READ_INLINE_BYTES_MAX {
        read()
    } else {
        tokio::task::spawn_blocking(read).await.map_err(|error| {
            tracing::error!(%error, "entries could not be read");
            Problem::new(Code::Internal, "the entries could not be read").hint("see the server's log")
        })?
    };
    let mut answers: Vec<Result<String, Refusal>> = Vec::with_capacity(read.len());
    let mut captured = Vec::with_capacity(read.len());
    for item in read {
        match item {
            Ok((event_id, one)) => {
                answers.push(Ok(event_id));
                captured.push(one);
            }
            Err(refusal) => answers.push(Err(refusal)),
        }
    }
    let mut receipts = capture(app, captured).await?.into_iter();
    Ok(answers
        .into_iter()
        .enumerate()
        .map(|(at, answer)| answer_item(answer, &mut receipts, line.map(|l| l + at)))
        .collect())
}

fn read_all(
    app: &App,
    source: &str,
    text: &Text,
    items: &[Span],
) -> Vec<Result<(String, Captured), Refusal>> {
    // The source was checked at the door.
    let Some(config) = app.config.sources.get(source) else { return Vec::new() };
    let door = Door { source, config, entry_bytes_max: app.config.limits.entry_bytes_max };
    items
        .iter()
        .map(|span| {
            let captured = read_entry(&text.as_str()[span.clone()], door)?;
            Ok((captured.message_id.clone(), captured))
        })
        .collect()
}

fn answer_item(
    answer: Result<String, Refusal>,
    receipts: &mut impl Iterator<Item = lazaret_core::letter::Receipt>,
    line: Option<usize>,
) -> ItemAnswer {
    match answer {
        Ok(event_id) => {
            let receipt = receipts.next();
            ItemAnswer {
                id: receipt.map(|receipt| receipt.letter.to_string()),
                event_id: Some(event_id),
                result: receipt.map_or("refused", |receipt| receipt.outcome.name()),
                error: None,
                line: None,
            }
        }
        Err(refusal) => ItemAnswer {
            id: None,
            event_id: refusal.event_id,
            result: "refused",
            error: Some(ItemError { code: refusal.code, message: refusal.message, field: refusal.field }),
            line,
        },
    }
}

/// Reads a stream line by line and stores it in chunks; answered at the end.
async fn report_stream(app: &Arc<App>, source: &str, body: Body) -> Result<Json<ReportAnswer>, Problem> {
    let mut stream = Stream { app, source, line: 0, chunk: Vec::new(), chunk_bytes: 0, answers: Vec::new() };
    let limits = &app.config.limits;
    let bounds = LineBounds { bytes_max: limits.ndjson_bytes_max, line_bytes_max: limits.entry_bytes_max };
    let mut lines = Lines::new(body, bounds);
    while let Some(line) = lines.next().await.map_err(|problem| stream.broken(problem))? {
        stream.add(line).await?;
    }
    stream.store().await?;
    Ok(Json(ReportAnswer { items: stream.answers }))
}

/// A stream being read: lines wait in a chunk until it is worth a commit.
struct Stream<'a> {
    app: &'a Arc<App>,
    source: &'a str,
    line: usize,
    chunk: Vec<(usize, Bytes)>,
    chunk_bytes: usize,
    answers: Vec<ItemAnswer>,
}

impl Stream<'_> {
    async fn add(&mut self, line: Bytes) -> Result<(), Problem> {
        self.line += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        if self.answers.len() + self.chunk.len() >= limits::NDJSON_LINES_MAX {
            let max = limits::NDJSON_LINES_MAX;
            self.store().await?;
            return Err(
                self.broken(Problem::new(Code::TooLarge, format!("the stream has more than {max} lines")))
            );
        }
        self.chunk_bytes += line.len();
        self.chunk.push((self.line, line));
        if self.chunk.len() >= limits::STREAM_LINES_PER_WRITE
            || self.chunk_bytes >= limits::STREAM_BYTES_PER_WRITE
        {
            self.store().await?;
        }
        Ok(())
    }

    async fn store(&mut self) -> Result<(), Problem> {
        let chunk = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let mut text = BytesMut::new();
        let mut spans = Vec::with_capacity(chunk.len());
        let mut lines = Vec::with_capacity(chunk.len());
        let mut answers: Vec<Option<ItemAnswer>> = Vec::with_capacity(chunk.len());
        for (number, line) in chunk {
            if std::str::from_utf8(&line).is_err() {
                let error =
                    ItemError { code: "bad_json", message: "the line is not UTF-8".into(), field: None };
                let refused = ItemAnswer {
                    id: None,
                    event_id: None,
                    result: "refused",
                    error: Some(error),
                    line: Some(number),
                };
                answers.push(Some(refused));
                continue;
            }
            spans.push(text.len()..text.len() + line.len());
            text.extend_from_slice(&line);
            lines.push(number);
            answers.push(None);
        }
        let taken = take(self.app, self.source, Text::new(text.freeze())?, spans, Some(0)).await;
        let taken = taken.map_err(|problem| self.broken(problem))?;
        let mut taken = taken
            .into_iter()
            .zip(lines)
            .map(|(answer, number)| ItemAnswer { line: answer.line.map(|_| number), ..answer });
        for answer in answers {
            self.answers.extend(answer.or_else(|| taken.next()));
        }
        Ok(())
    }

    /// Says how far a stream that breaks off was kept, so that the caller knows where to go on.
    fn broken(&self, problem: Problem) -> Problem {
        problem
            .with("itemsKept", self.answers.len())
            .hint("earlier items are stored; send all again, known entries are recognised")
    }
}
