//! One event on one line, or two on a narrow terminal. Everything from the server is made harmless and, on a terminal,
//! cut to its width.

use lazaret_core::time::Time;

use crate::answers::event::{Event, EventDetail};
use crate::output::{Paint, Screen, escape, fit};

/// Below this an id, of which no part is of any use, leaves no room for words and gets a line for itself.
const ONE_LINE_COLUMNS: usize = 80;

/// Most kinds fit; a longer one moves the rest of its line, but does not take all of it.
const KIND_COLUMNS: usize = 15;
const KIND_COLUMNS_MAX: usize = 20;

/// What an event says, harmless already.
struct Words {
    at: String,
    kind: String,
    text: String,
    id: String,
}

/// The event as one or two lines, without the end of the last.
pub fn line(event: &Event, screen: &Screen) -> String {
    let Some(width) = screen.width().map(usize::from) else {
        let kind = escape::line(&event.kind);
        let words = Words { at: escape::line(&event.at), kind, text: text(event), id: ids(event) };
        return joined(words, event, screen);
    };
    let at = fit::cut(&escape::line(&time_of_day(&event.at)), width);
    let room = width.saturating_sub(fit::columns_of(&at) + 1);
    let kind = fit::cut(&escape::line(short(&event.kind)), room.min(KIND_COLUMNS_MAX));
    let room = room.saturating_sub(fit::columns_of(&kind) + 1);
    let id = escape::line(id(event));
    if width < ONE_LINE_COLUMNS {
        let text = fit::cut(&text(event), room);
        let first = joined(Words { at, kind, text, id: String::new() }, event, screen);
        return match id.is_empty() {
            true => first,
            false => format!("{first}\n{}", screen.paint(Paint::Dim, &format!("  {id}"))),
        };
    }
    let padding = KIND_COLUMNS.saturating_sub(fit::columns_of(&kind));
    let room = room.saturating_sub(padding + fit::columns_of(&id) + 1);
    let text = fit::cut(&text(event), room);
    let behind = room.saturating_sub(fit::columns_of(&text));
    let text = format!("{:padding$}{text}{:behind$}", "", "");
    joined(Words { at, kind, text, id }, event, screen)
}

fn joined(words: Words, event: &Event, screen: &Screen) -> String {
    let Words { at, kind, text, id } = words;
    let kind = paint(&event.kind).map_or(kind.clone(), |paint| screen.paint(paint, &kind));
    let words = [screen.paint(Paint::Dim, &at), kind, text, id];
    let there: Vec<String> = words.into_iter().filter(|word| !word.is_empty()).collect();
    there.join(" ").trim_end().to_owned()
}

/// A terminal shows what happens now: the time of day is enough, and the day would take the room of the message.
fn time_of_day(at: &str) -> String {
    match Time::parse(at) {
        Ok(time) => {
            let text = time.to_string();
            let clock = text.split_once('T').map_or("", |(_, clock)| clock);
            format!("{}Z", clock.split('.').next().unwrap_or_default())
        }
        Err(_) => at.to_owned(),
    }
}

/// Nearly every event is about a letter, so that this need not be said on each line.
fn short(kind: &str) -> &str {
    kind.strip_prefix("dead_letter.").unwrap_or(kind)
}

fn paint(kind: &str) -> Option<Paint> {
    match kind {
        "dead_letter.added" | "dead_letter.relapsed" | "incident.regressed" => Some(Paint::Red),
        "dead_letter.recurred" | "dead_letter.reopened" | "dead_letter.held" => Some(Paint::Yellow),
        "dead_letter.resolved" | "dead_letter.replayed" | "incident.closed" | "incident.fixed" => {
            Some(Paint::Green)
        }
        "dead_letter.discarded" | "dead_letter.pruned" | "dead_letter.deleted" => Some(Paint::Dim),
        "incident.opened" => Some(Paint::Bold),
        kind if kind.starts_with("incident.") || kind.starts_with("redrive.") => Some(Paint::Cyan),
        _ => None,
    }
}

/// The id to go on with: of the letter, or what else the event is about.
fn id(event: &Event) -> &str {
    let ids = [&event.letter_id, &event.incident_id, &event.operation_id, &event.job_id];
    ids.into_iter().flatten().next().map_or("", String::as_str)
}

/// Where there is room, the incident of a letter too.
fn ids(event: &Event) -> String {
    match (&event.letter_id, &event.incident_id) {
        (Some(letter), Some(incident)) => escape::line(&format!("{letter} incident:{incident}")),
        (_, _) => escape::line(id(event)),
    }
}

fn text(event: &Event) -> String {
    let mut parts = Vec::new();
    if event.letter.is_none() {
        parts.extend(job_or_worker(&event.detail));
    }
    if let Some(letter) = &event.letter {
        parts.push(letter.letter_type.clone());
        parts.push(letter.queue.clone());
        let error_type = letter.error.error_type.as_deref().unwrap_or("error");
        let message = letter.error.message.as_deref().unwrap_or_default();
        parts.push(format!("{error_type}: {message}"));
    }
    parts.extend(event.detail.title.clone());
    // Who decided is worth more than why the letter died, which is known by then.
    if let Some(actor) = &event.actor {
        parts.insert(0, format!("by {actor}"));
    }
    parts.retain(|part| !part.is_empty());
    escape::line(&parts.join(" "))
}

/// What a job's event says beside its id; a worker's has its name and nothing else.
fn job_or_worker(detail: &EventDetail) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(detail.job_type.clone());
    parts.extend(detail.queue.clone());
    parts.extend(detail.attempt.map(|attempt| format!("run {attempt}")));
    if let (Some(archived), Some(deleted)) = (detail.archived, detail.deleted) {
        parts.push(format!("{archived} archived, {deleted} deleted"));
        parts.extend(detail.reason.as_ref().map(|limit| format!("by {limit}")));
    }
    parts.extend(detail.worker_id.as_ref().map(|worker| format!("worker {worker}")));
    if let Some(error) = &detail.error {
        let message = error.message.as_deref().unwrap_or_default();
        parts.push(format!("{}: {message}", error.error_type.as_deref().unwrap_or("error")));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    fn events() -> Vec<Event> {
        let letter = "019a8b1c-7e00-7000-8000-000000000000";
        let incident = "019a8b1c-7e00-7000-8000-000000000001";
        let about = serde_json::json!({
            "type": "invoice.created", "queue": "billing",
            "error": {"type": "NetworkError", "message": "connection timed out\nafter 5 s \u{1b}[2J"},
        });
        let event = |kind: &str, more: serde_json::Value| {
            let mut json = serde_json::json!({
                "id": "evt_x", "position": 7, "at": "2025-11-15T03:00:12.345Z", "kind": kind, "detail": {},
            });
            json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(json).unwrap()
        };
        vec![
            event(
                "dead_letter.added",
                serde_json::json!({"letterId": letter, "incidentId": incident, "letter": about}),
            ),
            event(
                "incident.opened",
                serde_json::json!({"incidentId": incident, "detail": {"title": "NetworkError: timed out \u{1b}[2J"}}),
            ),
            event(
                "dead_letter.resolved",
                serde_json::json!({"letterId": letter, "actor": "anna", "letter": about}),
            ),
            event("redrive.\u{1b}[2J", serde_json::json!({})),
            event(
                "job.failed",
                serde_json::json!({"jobId": letter, "detail": {
                    "job_type": "mail.send", "queue": "mails", "attempt": 2, "duration_ms": 7,
                    "error": {"type": "SmtpError", "code": "421", "message": "busy\u{1b}[2J", "retryable": true},
                }}),
            ),
            event(
                "worker.quiet",
                serde_json::json!({"actor": "anna", "detail": {"worker_id": "w\u{1b}[2J"}}),
            ),
            event(
                "incident.diagnosed.at.length",
                serde_json::json!({"incidentId": incident, "detail": {"title": "時間外の時間外の時間外の時間外の時間外の時間外の"}}),
            ),
        ]
    }

    fn lines(width: Option<u16>, choice: ColorChoice) -> String {
        let mut screen = Screen::new(Format::Text, choice);
        screen = match width {
            Some(width) => screen.of_width(width),
            None => screen.without_width(),
        };
        events().iter().map(|event| line(event, &screen) + "\n").collect()
    }

    #[test]
    fn an_event_fits_the_terminal_and_is_harmless() {
        for width in [38, 60, 79, 80, 81, 100, 140] {
            let text = lines(Some(width), ColorChoice::Never);
            let fits = |line: &str| fit::columns_of(line) <= usize::from(width);
            assert!(text.lines().all(fits), "{width}:\n{text}");
            assert!(!text.contains('\u{1b}'));
            if [60, 80, 140].contains(&width) {
                insta::assert_snapshot!(format!("tail_{width}_columns"), text);
            }
        }
        let all = lines(None, ColorChoice::Never);
        assert_eq!((all.lines().count(), all.contains('\u{1b}')), (events().len(), false));
        insta::assert_snapshot!("tail_no_terminal", all);
    }

    #[test]
    fn kinds_are_told_apart_by_colour_too() {
        let text = lines(Some(140), ColorChoice::Always);
        for painted in ["\u{1b}[31madded\u{1b}[0m", "\u{1b}[1mincident.opened", "\u{1b}[32mresolved"] {
            assert!(text.contains(painted), "{painted} is missing in {text:?}");
        }
    }
}
