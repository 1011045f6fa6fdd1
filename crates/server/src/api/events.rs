//! What happened, as it happens: server-sent events for those who stay, pages for those who poll.
//!
//! A reader keeps its own place and names it when it comes back; the server remembers no reader.

mod message;
mod reader;

use std::sync::Arc;

use axum::extract::{Extension, Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, body::Body};
use http::{HeaderMap, HeaderValue, header};
use lazaret_core::filter::Filter;
use lazaret_core::limits;
use lazaret_core::pattern::Pattern;
use lazaret_store::access::StoredSession;

use super::letters::{Pairs, once, parse_limit};
use super::problem::{Code, Problem};
use crate::access::Caller;
use crate::app::App;
use crate::events::{Selection, TooManyReaders};
use crate::raw_json::shown;
use message::{EventMessage, EventPage, LostMessage};

/// How soon someone who found no place may try again.
const RETRY_AFTER_S: u32 = 10;

const LAST_EVENT_ID: &str = "last-event-id";

/// What is asked for.
#[derive(Debug, Default)]
struct Asked {
    selection: Selection,
    after: Option<u64>,
    limit: Option<usize>,
}

/// Follows what happens.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "events",
    params(
        ("kind" = Option<String>, Query, description = "Kinds with `*`, separated by commas or repeated, such as `dead_letter.*,incident.opened`"),
        ("after" = Option<u64>, Query, description = "Position to continue after; 0 is the oldest stored event. Default: new events only"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Overrides `after`"),
        ("q" = Option<String>, Query, description = "Letter filter; single keys are accepted too: only events of matching letters"),
        ("limit" = Option<u32>, Query, description = "For polling: 1 to 500, default 50"),
    ),
    responses(
        (status = 200, content(
            (String = "text/event-stream", example = "id: 7\nevent: dead_letter.added\ndata: {…}\n\n"),
            (EventPage = "application/json"),
        ), description = "Event stream; ends when the server stops or the reader is too slow (`event: dropped`). A page if `Accept` is JSON. A position that is no longer stored is reported first (`event: lost`)"),
        (status = 400, description = "bad_filter or bad_request"),
        (status = 503, description = "too_many_readers")
    )
)]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    session: Option<Extension<StoredSession>>,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Response, Problem> {
    let Query(pairs) = pairs?;
    let asked = parse(&pairs)?;
    let place = match headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        // A reader that was there before any event may have missed some since.
        Some(id) => position("Last-Event-ID", id.to_str().unwrap_or("?"))?,
        None => place(&app, asked.after).await?,
    };
    if polls(&headers) {
        return Ok(Json(poll(&app, &asked, place).await?).into_response());
    }
    if asked.limit.is_some() {
        return Err(Problem::new(Code::BadRequest, "limit is not allowed for a stream")
            .hint("request a page with Accept: application/json"));
    }
    let session = session.map(|Extension(session)| session);
    let body = reader::follow(&app, caller, session, asked.selection, place).map_err(|too_many| {
        let message = match too_many {
            TooManyReaders::InAll(max) => format!("limit reached: {max} event streams are open"),
            TooManyReaders::OfCaller(max) => format!("limit reached: {max} of your event streams are open"),
        };
        Problem::new(Code::TooManyReaders, message)
            .retry_after(RETRY_AFTER_S)
            .hint("close one, or poll with Accept: application/json")
    })?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Some proxies hold an answer back until it is whole, which this one never is.
        (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, Body::new(body)).into_response())
}

fn parse(pairs: &[(String, String)]) -> Result<Asked, Problem> {
    let mut asked = Asked::default();
    let mut filter = Vec::new();
    for (key, value) in pairs {
        match key.as_str() {
            "kind" => {
                let kinds = value.split(',').map(str::trim);
                asked.selection.kinds.extend(kinds.map(Pattern::new));
            }
            "after" => once(&mut asked.after, "after", position("after", value)?)?,
            "limit" => once(&mut asked.limit, "limit", parse_limit(value, limits::PAGE_ROWS_MAX)?)?,
            _ => filter.push((key.as_str(), value.as_str())),
        }
    }
    let kinds = &asked.selection.kinds;
    if kinds.iter().any(|kind| kind.text().is_empty()) {
        return Err(Problem::new(Code::BadRequest, "kind is empty")
            .hint("such as kind=dead_letter.* or kind=incident.opened; omit it for all kinds"));
    }
    let too_long = kinds.iter().any(|kind| kind.text().len() > limits::NAME_BYTES_MAX);
    if too_long || kinds.len() > limits::EVENT_KINDS_MAX {
        let max = limits::EVENT_KINDS_MAX;
        return Err(Problem::new(Code::BadRequest, format!("kind accepts up to {max} patterns")));
    }
    let filter = Filter::from_query(filter)?;
    if filter.needs_content() {
        return Err(Problem::new(Code::BadFilter, "events cannot be filtered by the content of letters")
            .hint("remove body, contains, path and headerPath, or poll GET /api/v1/dead-letters"));
    }
    asked.selection.letters = Some(filter).filter(|filter| !filter.is_empty());
    Ok(asked)
}

fn position(name: &str, value: &str) -> Result<u64, Problem> {
    value.trim().parse().map_err(|_| {
        Problem::new(Code::BadRequest, format!("{name} must be a position, got `{}`", shown(value)))
            .hint("it is the id of an event in the stream, and `next` of a page")
    })
}

/// Where a reader begins, as the position of the event before.
async fn place(app: &App, asked: Option<u64>) -> Result<u64, Problem> {
    Ok(match asked {
        None => app.store.events_kept().await?.newest,
        Some(0) => app.store.events_kept().await?.oldest.saturating_sub(1),
        Some(place) => place,
    })
}

/// Whether the caller wants a page instead of a stream.
fn polls(headers: &HeaderMap) -> bool {
    let accepts = |kind: &str| {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|item| {
            let name = item.split(';').next().unwrap_or_default();
            name.trim().eq_ignore_ascii_case(kind)
        })
    };
    accepts("application/json") && !accepts("text/event-stream")
}

/// One page: as many events as fit that are wanted, and how far was looked.
async fn poll(app: &App, asked: &Asked, place: u64) -> Result<EventPage, Problem> {
    let limit = asked.limit.unwrap_or(limits::PAGE_ROWS);
    let mut page = EventPage { items: Vec::new(), next: place, lost: None };
    let mut looked_at = 0;
    while looked_at < limits::EVENTS_PER_POLL_MAX {
        let (events, lost) = reader::read(app, page.next).await?;
        if let Some(lost) = lost {
            page.next = lost.oldest.saturating_sub(1);
            page.lost.get_or_insert(LostMessage::from(&lost));
            if events.is_empty() {
                continue;
            }
        }
        looked_at += events.len();
        for event in &events {
            if page.items.len() == limit {
                return Ok(page);
            }
            if asked.selection.takes(event, app.clock.now()) {
                page.items.push(EventMessage::new(event, &app.redactor));
            }
            page.next = event.position;
        }
        if events.len() < limits::EVENTS_PER_READ {
            break;
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_json_alone_polls() {
        for (accept, expected) in [
            ("application/json", true),
            ("Application/JSON;q=0.9, */*", true),
            ("application/json, text/event-stream", false),
            ("text/event-stream", false),
            ("*/*", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(polls(&headers), expected, "{accept}");
        }
        assert!(!polls(&HeaderMap::new()));
    }
}
