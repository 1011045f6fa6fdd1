//! A letter laid out for reading. Everything from the letter is made harmless here.

use lazaret_core::header::headers_from_json;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;
use serde_json::value::RawValue;

use super::{held, sent};
use crate::answers::{Decision, FailedRun, LetterError, LetterRest, LetterSummary, Life};
use crate::client::Answer;
use crate::commands::grouping;
use crate::output::page::Page;
use crate::output::table::{Column, Table};
use crate::output::{Paint, Screen, escape, json_text, moment};

/// What was captured, as far as it can be shown.
#[derive(Debug)]
pub enum Payload {
    Json(String),
    Text(String),
    Binary { bytes: usize },
}

/// How JSON is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    Indented,
    AsCaptured,
}

impl Payload {
    /// Looks at the bytes rather than at what they call themselves.
    pub fn of(body: &Answer) -> Payload {
        let Ok(text) = std::str::from_utf8(&body.bytes) else {
            return Payload::Binary { bytes: body.bytes.len() };
        };
        match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Payload::Json(text.to_owned()),
            Err(_) => Payload::Text(text.to_owned()),
        }
    }

    /// The original event of the present life.
    pub fn present(rest: &LetterRest) -> Payload {
        match (&rest.body_missing, &rest.original_event) {
            (Some(why), _) => Payload::Text(format!("body missing: {why}")),
            (None, Some(json)) => Payload::Json(json.get().to_owned()),
            (None, None) => Payload::Text("null".to_owned()),
        }
    }

    pub fn text(&self, layout: Layout) -> String {
        match self {
            Payload::Json(json) if layout == Layout::Indented => json_text::indented(json),
            Payload::Json(text) | Payload::Text(text) => escape::lines(text),
            Payload::Binary { bytes } => {
                let bytes = moment::count(*bytes as u64);
                format!("{bytes} bytes, binary; --body writes them")
            }
        }
    }
}

/// The letter as a page of text.
pub fn page(letter: &LetterSummary, rest: &LetterRest, payload: &str, screen: &Screen, now: Time) -> String {
    let mut page = Page::new(screen);
    head(&mut page, letter, now);
    origin(&mut page, rest.origin.as_deref());
    error(&mut page, "error", &letter.error);
    attempts(&mut page, &rest.retry_history, now);
    lives(&mut page, &rest.lives, now);
    held::older(&mut page, &letter.id, &rest.older_lives);
    if let Some(grouping) = &rest.grouping {
        page.heading("grouping");
        grouping::parts(&mut page, &grouping.parts);
        grouping::differences(&mut page, &grouping.differences);
    }
    sent::redrives(&mut page, &rest.redrives, now);
    sent::edits(&mut page, &rest.edits, now);
    held::holds(&mut page, &rest.holds, now);
    decisions(&mut page, &rest.decisions, now);
    if let Some(reported) = &rest.reported {
        page.heading("reported fields (not applied)");
        page.block(&json_text::indented(reported.get()));
    }
    headers(&mut page, rest.headers.as_deref());
    page.heading("payload");
    page.block(payload);
    if !rest.allowed_actions.is_empty() {
        page.heading("actions");
        if letter.status == "pending" && letter.place == "live" {
            page.block(&format!("lazaret retry {}", escape::line(&letter.id)));
        }
        for action in &rest.allowed_actions {
            let reason = if action == "hold" { " --reason TEXT" } else { "" };
            page.block(&format!("lazaret {} {}{reason}", escape::line(action), escape::line(&letter.id)));
        }
    }
    page.into_text()
}

fn head(page: &mut Page<'_>, letter: &LetterSummary, now: Time) {
    page.field("letter", &letter.id);
    let status = match Paint::of_status(&letter.status) {
        Some(paint) => page.screen.paint(paint, &escape::line(&letter.status)),
        None => escape::line(&letter.status),
    };
    let place = if letter.place == "live" { String::new() } else { format!(", {}", letter.place) };
    page.plain("status", &format!("{status}{} (life {})", escape::line(&place), letter.life));
    if let Some(hold) = &letter.hold {
        page.field("hold", &format!("{} by {}: {}", moment::both(&hold.at, now), hold.by, hold.reason));
    }
    if let Some(resolution) = &letter.resolution {
        let by = resolution.resolved_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let notes = resolution.notes.as_ref().map(|notes| format!(": {notes}")).unwrap_or_default();
        let at = moment::both(&resolution.timestamp, now);
        page.field("resolution", &format!("{}{by}, {at}{notes}", resolution.strategy));
    }
    page.field("event", &letter.event_id);
    page.field("type", &letter.letter_type);
    page.field("queue", &letter.queue);
    page.field("source", &letter.source);
    page.maybe("subscriber", &letter.subscriber_id);
    page.maybe("tenant", &letter.tenant_id);
    page.maybe("aggregate", &letter.aggregate_id);
    page.maybe("schema", &letter.schema_version);
    page.field("died", &moment::both(&letter.died_at, now));
    page.field("captured", &moment::both(&letter.created_at, now));
    let of = letter.max_retries.map(|max| format!(" of {max}")).unwrap_or_default();
    page.field("retries", &format!("{}{of}", letter.retry_count));
    let category = letter.category.as_ref().map(|category| format!(", {category}")).unwrap_or_default();
    let retryable = match letter.retryable.as_deref() {
        Some("yes") => ", retryable",
        Some("no") => ", not retryable",
        Some(_) | None => "",
    };
    page.field("class", &format!("{}{category}{retryable}", letter.class));
    page.maybe("incident", &letter.incident_id);
    page.maybe("fingerprint", &letter.fingerprint);
    page.maybe("previous", &letter.previous_id);
}

/// Where the message came from at its broker.
fn origin(page: &mut Page<'_>, origin: Option<&RawValue>) {
    let Some(origin) = origin.and_then(|raw| Origin::from_json(raw.get()).ok()) else { return };
    let text = match &origin {
        Origin::Other(text) => text.clone(),
        Origin::JetStream(_) | Origin::RabbitMq(_) => {
            let parts =
                origin.shown().into_iter().map(|(name, value)| format!("{} {value}", name.to_lowercase()));
            parts.collect::<Vec<_>>().join(", ")
        }
    };
    page.field("origin", &text);
}

fn headers(page: &mut Page<'_>, headers: Option<&RawValue>) {
    let headers = headers.and_then(|raw| headers_from_json(raw.get()).ok()).unwrap_or_default();
    if headers.is_empty() {
        return;
    }
    page.heading(&format!("headers ({})", headers.len()));
    for (name, value) in &headers {
        page.block(&escape::line(&format!("{name}: {}", value.described())));
    }
}

fn error(page: &mut Page<'_>, title: &str, error: &LetterError) {
    page.heading(title);
    page.block(&one_line(error));
    if let Some((_, more)) = error.message.as_deref().and_then(|message| message.split_once('\n')) {
        page.block(&escape::lines(more));
    }
    if let Some(backtrace) = &error.stack_trace {
        page.block(&escape::lines(backtrace));
    }
    if let Some(context) = &error.context {
        page.block(&format!("context: {}", json_text::indented(context.get())));
    }
}

/// Type, code and message; of a message with several lines the first.
fn one_line(error: &LetterError) -> String {
    let code = error.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    let message = error.message.as_deref().unwrap_or("");
    let first = message.lines().next().unwrap_or("");
    escape::line(&format!("{}{code}: {first}", error.error_type.as_deref().unwrap_or("error")))
}

fn attempts(page: &mut Page<'_>, runs: &[FailedRun], now: Time) {
    if runs.is_empty() {
        return;
    }
    page.heading(&format!("failed attempts ({})", runs.len()));
    for (at, run) in runs.iter().enumerate() {
        let when = run.timestamp.as_ref().map_or("unknown time".into(), |at| moment::both(at, now));
        let took =
            run.processing_duration.map(|ms| format!(", took {}", moment::took(ms))).unwrap_or_default();
        let life = run.life.map(|life| format!(", life {life}")).unwrap_or_default();
        page.block(&escape::line(&format!("{}. {when}{took}{life}", at + 1)));
        page.block(&format!("   {}", one_line(&run.error)));
    }
}

fn lives(page: &mut Page<'_>, lives: &[Life], now: Time) {
    if lives.is_empty() {
        return;
    }
    page.heading(&format!("lives ({})", lives.len()));
    let mut table = Table::new(vec![
        Column::number("LIFE"),
        Column::whole("DIED"),
        Column::whole("CAPTURED").left_out(2),
        Column::number("RETRIES").left_out(3),
        Column::whole("CLASS"),
        Column::cut("CONTENT"),
        Column::number("BYTES"),
        Column::cut("SHA-256").left_out(1),
    ]);
    for life in lives {
        table.row(vec![
            life.life.to_string().into(),
            moment::ago(&life.died_at, now).into(),
            moment::ago(&life.captured_at, now).into(),
            life.retry_count.to_string().into(),
            life.class.as_str().into(),
            life.content_type.as_str().into(),
            match life.body_missing {
                Some(_) => "missing".into(),
                None => moment::count(life.body_bytes).into(),
            },
            life.sha256.as_str().into(),
        ]);
    }
    page.table(&table);
}

fn decisions(page: &mut Page<'_>, decisions: &[Decision], now: Time) {
    if decisions.is_empty() {
        return;
    }
    page.heading(&format!("decisions ({})", decisions.len()));
    for decision in decisions {
        let role = decision.role.as_ref().map(|role| format!(" ({role})")).unwrap_or_default();
        let with_others =
            decision.operation_id.as_ref().map(|id| format!(", in operation {id}")).unwrap_or_default();
        let elsewhere = if decision.imported { ", in the original store" } else { "" };
        let why = decision.reason.as_deref().unwrap_or("no reason given");
        let when = moment::both(&decision.at, now);
        page.block(&escape::line(&format!(
            "{when} {} by {}{role}{with_others}{elsewhere}",
            decision.action, decision.actor
        )));
        page.block(&format!("   {}", escape::line(why)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    #[test]
    fn a_letter_is_all_there_and_harmless() {
        let text = include_str!("letter.json");
        let letter: LetterSummary = serde_json::from_str(text).unwrap();
        let rest: LetterRest = serde_json::from_str(text).unwrap();
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(100);
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let payload = Payload::Json(rest.original_event.as_ref().unwrap().get().to_owned());
        let page = page(&letter, &rest, &payload.text(Layout::Indented), &screen, now);
        assert!(!page.contains('\u{1b}'));
        insta::assert_snapshot!(page);
    }
}
