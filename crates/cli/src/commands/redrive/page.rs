//! A plan laid out so that a tired person knows what will happen. Everything from the server is made harmless here.

use lazaret_core::duration::Length;
use lazaret_core::time::Time;

use super::choices::pace_told;
use crate::answers::redrive::{
    Counted, Destination, OlderOutside, Plan, Prioritization, Redrive, Refusal, Sample,
};
use crate::gate;
use crate::output::page::{INDENT, Page};
use crate::output::table::{Cell, Column, Table, Titles};
use crate::output::{Paint, Screen, chart, escape, fit, json_text, moment};

const BAR_CELLS: u64 = 12;

/// Values shown of each dimension, incidents of each refusal, and samples with lines of each; `--json` has more.
const VALUES_SHOWN: usize = 5;
const INCIDENTS_SHOWN: usize = 5;
const SAMPLES_SHOWN: usize = 2;
const SAMPLE_LINES: usize = 8;

/// The plan as a page of text; it ends with the command that starts it.
pub fn plan(redrive: &Redrive, screen: &Screen, now: Time) -> String {
    let mut page = laid_out(redrive, screen, now);
    end(&mut page, redrive);
    page.into_text()
}

/// The plan for somebody who is about to be asked whether it shall start.
pub fn to_be_asked(redrive: &Redrive, screen: &Screen, now: Time) -> String {
    laid_out(redrive, screen, now).into_text()
}

fn laid_out<'a>(redrive: &Redrive, screen: &'a Screen, now: Time) -> Page<'a> {
    let mut page = Page::new(screen);
    page.field("plan", &redrive.id);
    let none = none();
    let plan = redrive.plan.as_ref().unwrap_or(&none);
    goes(&mut page, redrive, plan);
    how(&mut page, redrive, plan);
    under(&mut page, plan);
    whence(&mut page, redrive);
    if let Some(at) = &redrive.expires_at {
        page.field("expires", &moment::both(at, now));
    }
    refusals(&mut page, &plan.refusals, redrive.refused);
    older_outside(&mut page, &plan.older_outside);
    what_goes(&mut page, plan, redrive.count);
    samples(&mut page, &plan.samples);
    page
}

/// A plan of which nothing is known.
pub fn none() -> Plan {
    Plan {
        types: Vec::new(),
        queues: Vec::new(),
        destinations: Vec::new(),
        lanes: crate::answers::redrive::Lanes::default(),
        older_outside: OlderOutside::default(),
        duration: None,
        samples: Vec::new(),
        refusals: Vec::new(),
        incidents: Vec::new(),
    }
}

fn goes(page: &mut Page<'_>, redrive: &Redrive, plan: &Plan) {
    let all = match redrive.total {
        total if total == redrive.count => String::new(),
        total => format!(" of {} matching", moment::count(total)),
    };
    let (paint, goes) = match redrive.count {
        0 => (Paint::Red, format!("none{all}")),
        count => (Paint::Bold, format!("{}{all}", moment::letters(count))),
    };
    let goes = page.screen.paint(paint, &goes);
    page.plain("selected", &goes);
    destinations(page, &plan.destinations);
}

pub fn destinations(page: &mut Page<'_>, destinations: &[Destination]) {
    for (at, destination) in destinations.iter().enumerate() {
        let address = destination.address.as_ref().map(|to| format!(", {to}")).unwrap_or_default();
        let count = match destinations.len() {
            1 => String::new(),
            _ => format!("{} to ", moment::count(destination.count)),
        };
        let line = escape::line(&format!("{count}{}{address}", destination.name));
        page.wrapped(if at == 0 { "to" } else { "" }, &line);
        if !destination.also_reaches.is_empty() {
            let others = escape::line(&destination.also_reaches.join(", "));
            page.wrapped("", &format!("also reaches {others} (not failed)"));
        }
    }
}

/// Pace and time, who goes first, when it stops, and which order is kept.
pub fn how(page: &mut Page<'_>, redrive: &Redrive, plan: &Plan) {
    let options = &redrive.options;
    let pace = pace_told(&options.pace);
    match plan.duration.as_deref().and_then(|text| Length::parse(text).ok()).map(Length::ms) {
        Some(ms) if ms > 0 => {
            page.wrapped("rate", &format!("{pace}, about {}", moment::took(ms.unsigned_abs())));
        }
        Some(_) | None => page.wrapped("rate", &pace),
    }
    let at_once = format!("up to {} in flight", moment::letters(options.concurrency));
    page.wrapped("concurrency", &format!("{at_once}, batch size {}", moment::count(options.batch_size)));
    page.wrapped("canaries", &first(redrive));
    let (percent, of) = (options.stop_percent, options.stop_of);
    page.wrapped("stops", &format!("above {percent} % failed or relapsed of the last {of}"));
    page.wrapped("order", &order(redrive, plan));
}

/// Who goes first and alone, and what the others wait for.
fn first(redrive: &Redrive) -> String {
    let options = &redrive.options;
    if options.canary == 0 || redrive.count <= options.canary {
        return "none".to_owned();
    }
    let until = match options.canary_assumed {
        true => "have succeeded or passed the quiet window",
        false => "have succeeded",
    };
    let limit = options.canary_timeout.as_deref().and_then(|text| Length::parse(text).ok());
    let limit = limit
        .map(|limit| format!("; timeout {}", moment::took(limit.ms().unsigned_abs())))
        .unwrap_or_default();
    format!("{} first; the rest start once they {until}{limit}", moment::letters(options.canary))
}

/// What the pace is spent on first, and where order is kept in any case.
fn order(redrive: &Redrive, plan: &Plan) -> String {
    let Prioritization { order_by, direction } = &redrive.options.prioritization;
    let first = match (order_by.as_str(), direction.as_str()) {
        ("diedAt", "asc") => "oldest first".to_owned(),
        ("diedAt", _) => "newest first".to_owned(),
        ("createdAt", "asc") => "oldest capture first".to_owned(),
        ("createdAt", _) => "newest capture first".to_owned(),
        ("retryCount", "asc") => "fewest retries first".to_owned(),
        ("retryCount", _) => "most retries first".to_owned(),
        (other, _) => escape::line(other),
    };
    let kept = match plan.lanes.total {
        0 => return first,
        1 => "1 order key".to_owned(),
        total => format!("{} order keys", moment::count(total)),
    };
    let unordered = match plan.lanes.unordered {
        0 => String::new(),
        count => format!("; {} without one", moment::letters(count)),
    };
    format!("{first}; sequential within {kept}{unordered}")
}

/// The incidents under whose analysis letters go.
pub fn under(page: &mut Page<'_>, plan: &Plan) {
    match plan.incidents.as_slice() {
        [] => {}
        [one] => page.field("RCA", &format!("incident {}", one.id)),
        [first, ..] => {
            let count = moment::count(plan.incidents.len() as u64);
            page.field("RCA", &format!("{count} incidents, first {}", first.id));
        }
    }
}

pub fn whence(page: &mut Page<'_>, redrive: &Redrive) {
    if !redrive.filter.is_empty() {
        page.wrapped("filter", &escape::line(&redrive.filter));
    }
    if let Some(by) = &redrive.by {
        let reason = redrive.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        page.wrapped("by", &escape::line(&format!("{by}{reason}")));
    }
    if let Some(reason) = &redrive.break_glass {
        let line = page.screen.paint(Paint::Red, &escape::line(&format!("emergency override: {reason}")));
        page.plain("", &line);
    }
}

fn refusals(page: &mut Page<'_>, refusals: &[Refusal], refused: u64) {
    if refused == 0 && refusals.is_empty() {
        return;
    }
    page.heading(&format!("blocked ({})", moment::count(refused)));
    for refusal in refusals {
        let reason = escape::line(&refusal.reason);
        let line = format!("{}: {reason}", moment::letters(refusal.count));
        let lines = fitted(page.screen, &line, 0);
        for line in lines {
            let line = page.screen.paint(Paint::Yellow, &line);
            page.block(&line);
        }
        for incident in refusal.incidents.iter().take(INCIDENTS_SHOWN) {
            let title = incident.title.as_deref().map(escape::line).unwrap_or_default();
            let line = format!("{:>7}  {title}", moment::count(incident.count));
            let width =
                page.screen.width().map_or(usize::MAX, |width| usize::from(width.saturating_sub(INDENT)));
            page.block(fit::cut(&line, width).trim_end());
            let id = escape::line(&incident.id);
            let next =
                gate::command(&refusal.code, &id).unwrap_or_else(|| format!("lazaret incident show {id}"));
            page.block(&format!("{:>7}  {next}", ""));
        }
        let more = refusal.incidents.len().saturating_sub(INCIDENTS_SHOWN);
        if more > 0 {
            page.block(&format!("{:>7}  … and {} more incidents", "", moment::count(more as u64)));
        }
        if gate::command(&refusal.code, "").is_none()
            && let Some(hint) = &refusal.hint
        {
            for line in fitted(page.screen, &escape::line(hint), 9) {
                page.block(&format!("{:>7}  {line}", ""));
            }
        }
    }
}

fn older_outside(page: &mut Page<'_>, older: &OlderOutside) {
    if older.count == 0 {
        return;
    }
    page.heading(&format!("order key conflicts ({})", moment::count(older.count)));
    let keys = match older.lanes.is_empty() {
        true => String::new(),
        false => format!(" ({})", escape::line(&older.lanes.join(", "))),
    };
    let (letters, have, are, them) = match older.count {
        1 => ("1 pending letter".to_owned(), "has", "is", "it"),
        count => (format!("{} pending letters", moment::count(count)), "have", "are", "them"),
    };
    let text = format!(
        "{letters} {have} the same order key{keys} and died earlier, but {are} not selected. Include {them} in the \
         filter, or resolve or discard {them} first."
    );
    for line in fitted(page.screen, &text, 0) {
        page.block(&line);
    }
}

/// How the letters that go are spread over types, queues and order keys.
pub fn what_goes(page: &mut Page<'_>, plan: &Plan, count: u64) {
    // Keys of one letter each have no order to keep.
    let lanes = plan.lanes.largest.iter().filter(|lane| lane.count > 1).cloned().collect();
    let dimensions = [("type", &plan.types), ("queue", &plan.queues), ("order key", &lanes)];
    if dimensions.iter().all(|(_, values)| values.is_empty()) {
        return;
    }
    page.heading("breakdown");
    let mut table = Table::new(vec![
        Column::whole("FIELD"),
        Column::number("LETTERS"),
        Column::whole("SHARE").left_out(1),
        Column::cut("VALUE"),
    ])
    .with_titles(Titles::Hidden);
    for (name, values) in dimensions {
        rows(&mut table, name, values, count);
    }
    page.table(&table);
}

fn rows(table: &mut Table, name: &str, values: &[Counted], count: u64) {
    for (at, value) in values.iter().take(VALUES_SHOWN).enumerate() {
        table.row(vec![
            if at == 0 { name } else { "" }.into(),
            moment::count(value.count).into(),
            Cell::painted(&chart::bar(value.count, count.max(value.count), BAR_CELLS), Some(Paint::Cyan)),
            value.value.as_str().into(),
        ]);
    }
    let shown: u64 = values.iter().take(VALUES_SHOWN).map(|value| value.count).fold(0, u64::saturating_add);
    if values.len() > VALUES_SHOWN {
        let rest = moment::letters(count.saturating_sub(shown));
        table.row(vec!["".into(), "".into(), "".into(), format!("… and {rest} more").into()]);
    }
}

fn samples(page: &mut Page<'_>, samples: &[Sample]) {
    for sample in samples.iter().take(SAMPLES_SHOWN) {
        let to = sample.destination.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
        let what = sample.content_type.as_ref().map(|what| format!(", {what}")).unwrap_or_default();
        let bytes = moment::count(sample.body_bytes);
        page.heading("sample message");
        let life = if sample.life > 1 { format!(", life {}", sample.life) } else { String::new() };
        let head = escape::line(&format!("{}{life}{to}{what}, {bytes} bytes", sample.letter_id));
        for line in fitted(page.screen, &head, 0) {
            let line = page.screen.paint(Paint::Dim, &line);
            page.block(&line);
        }
        let Some(body) = &sample.body else { continue };
        let text = match serde_json::from_str::<serde::de::IgnoredAny>(body) {
            Ok(_) => json_text::indented(body),
            Err(_) => escape::lines(body),
        };
        let width = page.screen.width().map_or(usize::MAX, |width| usize::from(width.saturating_sub(INDENT)));
        for line in text.lines().take(SAMPLE_LINES) {
            page.block(&fit::cut(line, width));
        }
        if text.lines().count() > SAMPLE_LINES {
            page.block("…");
        }
    }
}

fn end(page: &mut Page<'_>, redrive: &Redrive) {
    if redrive.count == 0 {
        page.heading("all letters blocked");
        page.block("resolve the blockers above, then plan again");
        return;
    }
    page.heading("start the redrive");
    let command = start_command(redrive);
    page.block(&command);
}

/// The command that starts a plan, to be pasted.
pub fn start_command(redrive: &Redrive) -> String {
    format!("lazaret redrive start {} --expect {}", escape::line(&redrive.id), redrive.count)
}

/// Harmless text in lines that fit into a block, so many columns further in.
fn fitted(screen: &Screen, text: &str, further: u16) -> Vec<String> {
    match screen.width() {
        None => vec![text.to_owned()],
        Some(width) => fit::wrapped(text, usize::from(width.saturating_sub(INDENT + further).max(20))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    fn shown(screen: Screen) -> String {
        let redrive: Redrive = serde_json::from_str(include_str!("plan.json")).unwrap();
        let text = plan(&redrive, &screen, Time::parse("2026-11-15T03:00:00Z").unwrap());
        assert!(!text.contains('\u{1b}'), "{text}");
        text
    }

    #[test]
    fn a_plan_says_what_will_happen() {
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(100);
        insta::assert_snapshot!(shown(screen));
    }

    #[test]
    fn a_plan_fits_a_narrow_terminal_but_for_what_is_pasted() {
        let text = shown(Screen::new(Format::Text, ColorChoice::Never).of_width(60));
        let is_command = |line: &str| line.contains("lazaret ") || line.contains("019a8b1c-7e00-7000");
        for line in text.lines().filter(|line| !is_command(line)) {
            assert!(line.chars().count() <= 60, "{line}");
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_plan_of_which_nothing_goes_cannot_be_started() {
        let mut redrive: Redrive = serde_json::from_str(include_str!("plan.json")).unwrap();
        (redrive.count, redrive.total, redrive.refused) = (0, 18, 18);
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(100);
        let text = plan(&redrive, &screen, Time::parse("2026-11-15T03:00:00Z").unwrap());
        assert!(text.contains("selected    none of 18 matching\n"), "{text}");
        assert!(!text.contains("redrive start"), "{text}");
    }
}
