//! A job laid out for reading. Everything from the job is made harmless here.

use lazaret_core::time::Time;

use super::list::runs;
use crate::answers::LetterSummary;
use crate::answers::job::{Job, JobError};
use crate::output::page::Page;
use crate::output::{Paint, Screen, escape, json_text, moment};

/// Frames of a backtrace that are shown; `--json` has them all.
const FRAMES_SHOWN: usize = 20;

pub fn page(job: &Job, letter: Option<&LetterSummary>, screen: &Screen, now: Time) -> String {
    let mut page = Page::new(screen);
    head(&mut page, job, now);
    errors(&mut page, &job.errors, now);
    page.heading("arguments");
    page.block(&json_text::indented(job.args.get()));
    if let Some(meta) = job.meta.as_deref().filter(|meta| meta.get() != "{}") {
        page.heading("meta");
        page.block(&json_text::indented(meta.get()));
    }
    if let Some(result) = &job.result {
        page.heading("result");
        page.block(&json_text::indented(result.get()));
    }
    if let Some(letter) = letter {
        dead_letter(&mut page, letter);
    }
    if ["scheduled", "available", "pending", "active", "retryable"].contains(&job.state.as_str()) {
        page.heading("actions");
        page.block(&format!("lazaret jobs cancel {}", escape::line(&job.id)));
    }
    page.into_text()
}

fn head(page: &mut Page<'_>, job: &Job, now: Time) {
    page.field("job", &job.id);
    let state = escape::line(&job.state);
    let state = match Paint::of_job(&job.state) {
        Some(paint) => page.screen.paint(paint, &state),
        None => state,
    };
    page.plain("state", &state);
    page.field("type", &job.job_type);
    page.field("queue", &job.queue);
    page.field("attempts", &runs(job));
    if job.priority != 0 {
        page.field("priority", &job.priority.to_string());
    }
    let times = [
        ("created", Some(&job.created_at)),
        ("scheduled", job.scheduled_at.as_ref()),
        ("expires", job.expires_at.as_ref()),
        ("started", job.started_at.as_ref()),
        ("re-enqueued", job.re_enqueued_at.as_ref()),
        ("next attempt", job.next_attempt_at.as_ref()),
        ("completed", job.completed_at.as_ref().filter(|_| job.state == "completed")),
        ("cancelled", job.cancelled_at.as_ref()),
        ("discarded", job.discarded_at.as_ref()),
    ];
    for (label, at) in times {
        if let Some(at) = at {
            page.field(label, &moment::both(at, now));
        }
    }
}

fn errors(page: &mut Page<'_>, errors: &[JobError], now: Time) {
    if errors.is_empty() {
        return;
    }
    page.heading(&format!("failed attempts ({})", errors.len()));
    for (at, error) in errors.iter().enumerate() {
        let when = error.occurred_at.as_ref().map_or(String::new(), |at| moment::both(at, now));
        page.block(&escape::line(&format!("{}. {when}, attempt {}", at + 1, error.attempt)));
        let code = error.code.as_ref().filter(|code| **code != error.error_type);
        let code = code.map(|code| format!(" ({code})")).unwrap_or_default();
        page.block(&format!(
            "   {}",
            escape::line(&format!("{}{code}: {}", error.error_type, error.message))
        ));
    }
    let Some(last) = errors.last().filter(|error| !error.backtrace.is_empty()) else { return };
    page.heading("last stack trace");
    for frame in last.backtrace.iter().take(FRAMES_SHOWN) {
        page.block(&escape::lines(frame));
    }
    let more = last.backtrace.len().saturating_sub(FRAMES_SHOWN);
    if more > 0 {
        page.block(&format!("… and {more} more; see --json"));
    }
}

/// The letter of the job, and where to look next.
fn dead_letter(page: &mut Page<'_>, letter: &LetterSummary) {
    page.heading("dead letter");
    page.inner_field("letter", &letter.id);
    page.inner_field("status", &format!("{} (life {})", letter.status, letter.life));
    page.inner_field("class", &letter.class);
    if let Some(incident) = &letter.incident_id {
        page.inner_field("incident", incident);
    }
    page.block(&format!("lazaret show {}", escape::line(&letter.id)));
    if let Some(incident) = &letter.incident_id {
        page.block(&format!("lazaret incident show {}", escape::line(incident)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::ls::tests::page as letters;
    use crate::output::Format;
    use clap::ColorChoice;

    #[test]
    fn a_job_is_all_there_and_harmless() {
        let job: Job = serde_json::from_value(serde_json::json!({
            "id": "019a8b1c-7e00-7000-8000-000000000000", "type": "mail.send", "queue": "mails\u{202e}",
            "state": "discarded", "attempt": 2, "max_attempts": 2, "priority": 5,
            "args": ["a\u{1b}]0;owned\u{7}", {"n": 1}], "meta": {"tenant_id": "acme"},
            "created_at": "2025-11-15T02:50:00.000Z", "started_at": "2025-11-15T02:57:00.000Z",
            "completed_at": "2025-11-15T02:58:00.000Z", "discarded_at": "2025-11-15T02:58:00.000Z",
            "errors": [
                {"attempt": 1, "type": "SmtpError", "code": "421", "message": "busy\u{1b}[2J",
                 "occurred_at": "2025-11-15T02:55:00.000Z"},
                {"attempt": 2, "type": "timeout", "code": "timeout", "message": "ran longer\nthan it may",
                 "occurred_at": "2025-11-15T02:58:00.000Z", "backtrace": ["at send (mail.js:7)", "at run\u{1b}[2J"]},
            ],
        }))
        .unwrap();
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(100);
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let text = page(&job, letters(1, None).items.first(), &screen, now);
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
        insta::assert_snapshot!(text);
    }
}
