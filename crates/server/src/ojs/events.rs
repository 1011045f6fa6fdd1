//! What happened to jobs, for those who poll.
//!
//! A reader keeps its own place: `cursor` of the answer before, or the id of the last event that it has seen.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::id::EventId;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_core::redaction::Redactor;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::event::Event;
use serde_json::{Map, Value, json};

use super::problem::{Code, Problem};
use super::{Answer, Pairs, VERSION, given, read_limit};
use crate::app::App;
use crate::jobs::SOURCE;
use crate::raw_json::shown;

/// Who tells.
const TELLER: &str = "ojs://lazaret/server/main";

/// How far the times of events may be out of the order in which they were committed.
const DISORDER_MS: i64 = 5_000;

/// What is asked for. Each list that is not empty has to hold.
#[derive(Debug, Default)]
struct Asked {
    kinds: Vec<Pattern>,
    queues: Vec<Pattern>,
    job_types: Vec<Pattern>,
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn events(State(app): State<Arc<App>>, pairs: Pairs) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let asked = read(&pairs)?;
    let mut place = match &asked.after {
        Some(text) => place_of(&app, text).await?,
        None => 0,
    };
    let limit = asked.limit.unwrap_or(limits::OJS_EVENTS);
    let (mut events, mut looked_at, mut has_more) = (Vec::new(), 0, false);
    'reads: loop {
        let read = app.store.events(place, limits::EVENTS_PER_READ).await?;
        for event in &read {
            if events.len() == limit {
                has_more = true;
                break 'reads;
            }
            events.extend(message(event, &app.redactor).filter(|message| asked.wants(message)));
            place = event.position;
        }
        looked_at += read.len();
        if read.len() < limits::EVENTS_PER_READ {
            break;
        }
        if looked_at >= limits::EVENTS_PER_POLL_MAX {
            has_more = true;
            break;
        }
    }
    let body = json!({"events": events, "cursor": place.to_string(), "has_more": has_more});
    Ok(Answer(StatusCode::OK, body).into_response())
}

fn read(pairs: &[(String, String)]) -> Result<Asked, Problem> {
    let mut asked = Asked::default();
    for (key, value) in pairs.iter().filter_map(|(key, value)| Some((key.as_str(), given(value)?))) {
        match key {
            "types" => asked.kinds.extend(patterns(value)),
            "queues" => asked.queues.extend(patterns(value)),
            "job_types" => asked.job_types.extend(patterns(value)),
            "after" | "cursor" => asked.after = Some(value.to_owned()),
            "limit" => asked.limit = Some(read_limit("limit", value, limits::OJS_EVENTS_MAX)?),
            _ => {}
        }
    }
    let lists = [("types", &asked.kinds), ("queues", &asked.queues), ("job_types", &asked.job_types)];
    for (name, list) in lists {
        if list.len() > limits::EVENT_KINDS_MAX {
            let message = format!("{name} accepts up to {} names", limits::EVENT_KINDS_MAX);
            return Err(Problem::new(Code::InvalidRequest, message).detail("field", name));
        }
    }
    Ok(asked)
}

fn patterns(value: &str) -> impl Iterator<Item = Pattern> {
    value.split(',').filter_map(given).map(Pattern::new)
}

impl Asked {
    fn wants(&self, message: &Value) -> bool {
        let holds = |list: &[Pattern], value: &Value| {
            list.is_empty()
                || value.as_str().is_some_and(|text| list.iter().any(|pattern| pattern.matches(text)))
        };
        holds(&self.kinds, &message["type"])
            && holds(&self.queues, &message["data"]["queue"])
            && holds(&self.job_types, &message["data"]["job_type"])
    }
}

/// An event in the envelope of the specification; nothing if it is not about a job or a worker.
fn message(event: &Event, redactor: &Redactor) -> Option<Value> {
    let about = event.about.as_deref().filter(|letter| letter.source == SOURCE);
    let detail =
        event.detail.as_deref().and_then(|text| serde_json::from_str(&redactor.json_text(text)).ok());
    let mut data: Map<String, Value> = detail.unwrap_or_default();
    let subject = match (event.job, about) {
        (_, _) if event.kind.starts_with("worker.") => data.get("worker_id")?.as_str()?.to_owned(),
        (Some(job), _) => job.to_string(),
        (None, Some(letter)) if event.kind.starts_with("dead_letter.") => letter.event_id.clone(),
        // It is about many jobs of one queue at once.
        (None, None) if event.kind == "dead_letter.pruned" => pruned(&mut data)?,
        (None, Some(_) | None) => return None,
    };
    if let Some(letter) = about {
        data.entry("job_type").or_insert_with(|| letter.letter_type.clone().into());
        data.entry("queue").or_insert_with(|| letter.queue.clone().into());
    }
    Some(json!({
        "specversion": VERSION,
        "id": format!("evt_{}", event.id),
        "type": event.kind,
        "source": TELLER,
        "time": event.at.to_string(),
        "subject": subject,
        "data": data,
    }))
}

/// Tells how many jobs of a queue went; nothing if the letters were of another source.
fn pruned(data: &mut Map<String, Value>) -> Option<String> {
    data.remove("source").filter(|source| source == SOURCE)?;
    let number = |key: &str| data.get(key).and_then(Value::as_u64).unwrap_or(0);
    let count = number("archived") + number("deleted");
    data.insert("count".to_owned(), count.into());
    data.get("queue")?.as_str().map(str::to_owned)
}

/// The position that a reader names: by itself, or by the id of the event there.
async fn place_of(app: &App, text: &str) -> Result<u64, Problem> {
    let unknown = || {
        Problem::new(Code::InvalidRequest, format!("unknown event `{}`", shown(text)))
            .hint("pass cursor of the previous response, or omit after to start with the oldest event")
            .detail("field", "after")
    };
    if let Ok(position) = text.parse() {
        return Ok(position);
    }
    let id = text.strip_prefix("evt_").and_then(|id| EventId::parse(id).ok()).ok_or_else(unknown)?;
    find(app, id).await?.ok_or_else(unknown)
}

/// The position after which the events are that happened from then on, but for the disorder of commits.
pub(super) async fn place_at(app: &App, from: Time) -> Result<u64, StoreError> {
    let kept = app.store.events_kept().await?;
    let (mut low, mut high) = (kept.oldest.saturating_sub(1), kept.newest);
    while low < high {
        let middle = low + (high - low) / 2;
        match app.store.events(middle, 1).await?.first() {
            Some(event) if event.at < from => low = event.position,
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

/// Finds an event by its id, which tells its time: positions grow with time, but for the disorder of commits.
async fn find(app: &App, id: EventId) -> Result<Option<u64>, StoreError> {
    let mut low = place_at(app, id.at().plus_ms(-DISORDER_MS)).await?;
    let until = id.at().plus_ms(DISORDER_MS);
    loop {
        let read = app.store.events(low, limits::EVENTS_PER_READ).await?;
        if let Some(event) = read.iter().find(|event| event.id == id) {
            return Ok(Some(event.position));
        }
        match read.last() {
            Some(last) if last.at <= until => low = last.position,
            Some(_) | None => return Ok(None),
        }
    }
}
