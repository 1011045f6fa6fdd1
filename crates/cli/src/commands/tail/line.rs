//! One event on one line. Everything from the server is made harmless and, on a terminal, cut to its width.

use lazaret_core::time::Time;

use crate::answers::event::Event;
use crate::output::{Paint, Screen, escape};

/// The text about the letter is not cut below this; rather the line is longer than the terminal is wide.
const TEXT_CHARS_MIN: usize = 16;

/// Most kinds fit; a longer one moves the rest of its line.
const KIND_CHARS: usize = 15;

/// The event as a line without its end.
pub fn line(event: &Event, screen: &Screen) -> String {
    let (at, kind) = match screen.width() {
        Some(_) => (time_of_day(&event.at), short(&event.kind)),
        None => (event.at.clone(), event.kind.as_str()),
    };
    let at = escape::line(&at);
    let kind = escape::line(kind);
    let id = escape::line(&ids(event, screen));
    let text = escape::line(&text(event));
    let taken = at.chars().count() + kind.chars().count().max(KIND_CHARS) + id.chars().count() + 3;
    let (padding, text) = match screen.width() {
        Some(width) => {
            let padding = " ".repeat(KIND_CHARS.saturating_sub(kind.chars().count()));
            (padding, cut(&text, usize::from(width).saturating_sub(taken).max(TEXT_CHARS_MIN)))
        }
        None => (String::new(), text),
    };
    let kind = paint(&event.kind).map_or(kind.clone(), |paint| screen.paint(paint, &kind));
    let at = screen.paint(Paint::Dim, &at);
    let mut words = vec![at, format!("{kind}{padding}")];
    words.extend([text, id].into_iter().filter(|word| !word.is_empty()));
    words.join(" ").trim_end().to_owned()
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

/// The id to go on with: of the letter, or what else the event is about. Where there is room, the incident's too.
fn ids(event: &Event, screen: &Screen) -> String {
    let first = event.letter_id.as_ref().or(event.incident_id.as_ref()).or(event.operation_id.as_ref());
    let mut text = first.cloned().unwrap_or_default();
    if let (Some(_), Some(incident), None) = (&event.letter_id, &event.incident_id, screen.width()) {
        text.push_str(&format!(" incident:{incident}"));
    }
    text
}

fn text(event: &Event) -> String {
    let mut parts = Vec::new();
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
    parts.join(" ")
}

fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return format!("{text:<chars_max$}");
    }
    let mut cut: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    cut.push('…');
    cut
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
    fn an_event_is_one_line_that_fits_and_is_harmless() {
        let narrow = lines(Some(80), ColorChoice::Never);
        let wide = lines(Some(140), ColorChoice::Never);
        let all = lines(None, ColorChoice::Never);
        for (text, width) in [(&narrow, 80), (&wide, 140)] {
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
        assert!(!format!("{narrow}{wide}{all}").contains('\u{1b}'));
        insta::assert_snapshot!("tail_80_columns", narrow);
        insta::assert_snapshot!("tail_140_columns", wide);
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
