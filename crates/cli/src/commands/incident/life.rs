//! What people did about an incident, on its page: the analysis, the fix, the redrives, and what happened when.

use lazaret_core::time::Time;

use crate::answers::incident::{Fix, Rca, Told};
use crate::answers::redrive::Redrive;
use crate::output::page::{INDENT, Page};
use crate::output::table::{Cell, Column, Table};
use crate::output::{Paint, escape, fit, moment};

/// Entries of the timeline that are shown, the newest; `--json` has more.
const TIMELINE_SHOWN: usize = 20;

/// Redrives that are shown, the newest.
const REDRIVES_SHOWN: usize = 5;

pub fn analysis(page: &mut Page<'_>, rca: Option<&Rca>, fix: Option<&Fix>, now: Time) {
    if let Some(rca) = rca {
        let revision = if rca.revision > 1 { format!(", revision {}", rca.revision) } else { String::new() };
        page.heading("root cause");
        text(page, &rca.root_cause);
        page.heading("remediation");
        text(page, &rca.remediation);
        let who = format!(
            "{} by {}, {}{revision}",
            escape::line(&rca.category),
            escape::line(&rca.author),
            moment::both(&rca.at, now)
        );
        let who = page.screen.paint(Paint::Dim, &escape::line(&who));
        page.block(&who);
    }
    if let Some(fix) = fix {
        page.heading("fix");
        page.block(&escape::line(&fix.reference));
        let kind = match fix.kind.as_str() {
            "decision" => "decided",
            _ => "effective",
        };
        let who = format!("{kind} {}, linked by {}", moment::both(&fix.fixed_at, now), fix.author);
        let who = page.screen.paint(Paint::Dim, &escape::line(&who));
        page.block(&who);
    }
}

/// Text of several lines, wrapped where the terminal is too narrow for it.
fn text(page: &mut Page<'_>, text: &str) {
    for line in escape::lines(text.trim()).lines() {
        match page.screen.width() {
            None => page.block(line),
            Some(width) => {
                let room = usize::from(width.saturating_sub(INDENT)).max(usize::from(INDENT));
                fit::wrapped(line, room).iter().for_each(|line| page.block(line));
            }
        }
    }
}

pub fn redrives(page: &mut Page<'_>, redrives: &[Redrive], now: Time) {
    if redrives.is_empty() {
        return;
    }
    page.heading(&format!("redrives ({})", redrives.len()));
    let mut table = Table::new(vec![
        Column::whole("STATE"),
        Column::number("LETTERS"),
        Column::number("OK"),
        Column::number("FAILED").left_out(2),
        Column::whole("OPENED").left_out(1),
        Column::cut("BY").left_out(3),
        Column::whole("ID"),
    ]);
    for redrive in redrives.iter().take(REDRIVES_SHOWN) {
        table.row(vec![
            Cell::painted(&redrive.state, Paint::of_run(&redrive.state)),
            moment::count(redrive.count).into(),
            moment::count(redrive.letters.good()).into(),
            moment::count(redrive.letters.bad()).into(),
            moment::ago(&redrive.opened_at, now).into(),
            (&redrive.by).into(),
            redrive.id.as_str().into(),
        ]);
    }
    page.table(&table);
}

pub fn timeline(page: &mut Page<'_>, told: &[Told], now: Time) {
    if told.is_empty() {
        return;
    }
    let hidden = told.len().saturating_sub(TIMELINE_SHOWN);
    let title = match hidden {
        0 => "timeline".to_owned(),
        _ => format!("timeline, newest {TIMELINE_SHOWN} of {}", told.len()),
    };
    page.heading(&title);
    let mut table = Table::new(vec![
        Column::whole("AT"),
        Column::whole("EVENT"),
        Column::cut("BY").left_out(1),
        Column::cut("TEXT").left_out(2),
    ])
    .with_titles(crate::output::table::Titles::Hidden);
    for entry in told.iter().skip(hidden) {
        table.row(vec![
            Cell::painted(&moment::ago(&entry.at, now), Some(Paint::Dim)),
            Cell::painted(&entry.kind.replace('_', " "), Paint::of_state(&entry.kind)),
            (&entry.by).into(),
            entry.text.as_deref().map(first_line).unwrap_or_default().into(),
        ]);
    }
    page.table(&table);
}

/// The beginning of a note; the rest is in `--json`.
fn first_line(text: &str) -> String {
    let text = text.trim();
    match text.split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => text.to_owned(),
    }
}
