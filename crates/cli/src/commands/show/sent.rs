//! How a letter was put back, on its page: the redrives it was in, and what was changed before it was sent.

use lazaret_core::time::Time;

use crate::answers::redrive::{LetterEdit, LetterRedrive};
use crate::output::page::Page;
use crate::output::{Paint, escape, moment};

/// Lines of a difference that are shown; `--json` has all.
const DIFF_LINES: usize = 40;

pub fn redrives(page: &mut Page<'_>, redrives: &[LetterRedrive], now: Time) {
    if redrives.is_empty() {
        return;
    }
    page.heading(&format!("redrives ({})", redrives.len()));
    for redrive in redrives {
        let outcome = escape::line(&redrive.outcome.replace('_', " "));
        let outcome = Paint::of_run(&redrive.outcome)
            .map_or(outcome.clone(), |paint| page.screen.paint(paint, &outcome));
        let evidence = redrive.evidence.as_ref().map(|evidence| format!(": {evidence}")).unwrap_or_default();
        let at = redrive.outcome_at.as_ref().or(redrive.sent_at.as_ref());
        let at = at.map(|at| format!(", {}", moment::both(at, now))).unwrap_or_default();
        page.block(&format!("life {}: {outcome}{}", redrive.life, escape::line(&format!("{evidence}{at}"))));
        let by = redrive.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let reason = redrive.reason.as_ref().map(|reason| format!(", {reason}")).unwrap_or_default();
        let edit = redrive.edit.map(|number| format!(", edit {number}")).unwrap_or_default();
        page.block(&escape::line(&format!("   {} {}{by}{edit}{reason}", redrive.kind, redrive.redrive_id)));
    }
}

pub fn edits(page: &mut Page<'_>, edits: &[LetterEdit], now: Time) {
    for edit in edits {
        page.heading(&format!("edit {} (life {})", edit.number, edit.life));
        let reason = edit.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        page.block(&escape::line(&format!("{} by {}{reason}", moment::both(&edit.at, now), edit.author)));
        if let Some(destination) = &edit.destination {
            page.block(&escape::line(&format!("to {destination}")));
        }
        for (name, (old, new)) in &edit.headers_changed {
            let pieces = [("-", old, Paint::Red), ("+", new, Paint::Green)];
            for (sign, value, paint) in pieces {
                let Some(value) = value else { continue };
                let line = page.screen.paint(paint, &escape::line(&format!("{sign} header {name}: {value}")));
                page.block(&line);
            }
        }
        match &edit.diff {
            Some(diff) => difference(page, diff),
            None => page.block(&format!(
                "{} bytes of {}",
                moment::count(edit.body_bytes),
                escape::line(&edit.content_type)
            )),
        }
    }
}

/// A unified difference without its head, which names files that are none.
fn difference(page: &mut Page<'_>, diff: &str) {
    let is_head = |line: &&str| line.starts_with("---") || line.starts_with("+++");
    let lines: Vec<&str> = diff.lines().skip_while(is_head).collect();
    for line in lines.iter().take(DIFF_LINES) {
        let text = escape::line(line);
        let text = match line.chars().next() {
            Some('-') => page.screen.paint(Paint::Red, &text),
            Some('+') => page.screen.paint(Paint::Green, &text),
            Some('@') => page.screen.paint(Paint::Dim, &text),
            Some(_) | None => text,
        };
        page.block(&text);
    }
    let more = lines.len().saturating_sub(DIFF_LINES);
    if more > 0 {
        page.block(&format!("… and {} more lines", moment::count(more as u64)));
    }
}
