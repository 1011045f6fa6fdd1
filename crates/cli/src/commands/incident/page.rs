//! An incident laid out for reading. Everything from the server is made harmless here.

use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::series::Step;

use super::{life, next_step};
use crate::answers::incident::{Affected, Incident, IncidentRest, Point, Series, Similar, ValueCount};
use crate::commands::grouping;
use crate::output::chart::{self, Columns};
use crate::output::page::{INDENT, Page};
use crate::output::table::{Cell, Column, Table, Titles};
use crate::output::{Paint, Screen, escape, moment};

/// Columns of the chart where nothing says how wide it may be, and at most: wider ones are harder to read.
const CHART_COLUMNS: u16 = 84;
const CHART_COLUMNS_MAX: u16 = 168;
const CHART_ROWS: u64 = 4;

const BAR_CELLS: u64 = 12;

/// Values shown of each dimension; `--json` has more.
const VALUES_SHOWN: usize = 5;

/// The incident as a page of text. `letter` is one to look at.
pub fn page(
    incident: &Incident,
    rest: &IncidentRest,
    letter: Option<&str>,
    screen: &Screen,
    now: Time,
) -> String {
    let mut page = Page::new(screen);
    head(&mut page, incident, rest, now);
    life::analysis(&mut page, rest.rca.as_ref(), rest.fix.as_ref(), now);
    page.heading("template");
    page.block(&escape::lines(&incident.template));
    for (at, fingerprint) in rest.fingerprints.iter().enumerate() {
        let which =
            if at == 0 { String::new() } else { format!(" by {}", escape::line(&fingerprint.fingerprint)) };
        page.heading(&format!("grouping{which}"));
        grouping::parts(&mut page, &fingerprint.parts);
    }
    affected(&mut page, &rest.affected, incident.count);
    series(&mut page, &rest.series);
    similar(&mut page, &rest.similar, now);
    life::redrives(&mut page, &rest.redrives, now);
    life::timeline(&mut page, &rest.timeline, now);
    let mut steps: Vec<(String, &str)> = Vec::new();
    let unfinished =
        rest.redrives.iter().find(|redrive| redrive.launched_at.is_some() && redrive.finished_at.is_none());
    match unfinished.map(|redrive| (redrive.state.as_str(), &redrive.id)) {
        // What keeps it from being resumed comes first.
        Some(("stopped", id)) => {
            steps.extend(rest.next.as_ref().and_then(|_| next_step(incident, rest)));
            steps.push((format!("lazaret redrive show {id}"), "stopped redrive"));
        }
        Some(("paused", id)) => {
            steps.extend(rest.next.as_ref().and_then(|_| next_step(incident, rest)));
            steps.push((format!("lazaret redrive show {id}"), "paused redrive"));
        }
        Some((_, id)) => steps.push((format!("lazaret redrive watch {id}"), "running redrive")),
        None => steps.extend(next_step(incident, rest)),
    }
    steps.extend([(format!("lazaret ls incident:{}", incident.id), "letters of this incident")]);
    steps.extend(letter.map(|letter| (format!("lazaret show {letter}"), "newest letter")));
    let most_like = rest.similar.first();
    steps.extend(
        most_like.map(|other| (format!("lazaret incident show {}", other.id), "most similar incident")),
    );
    grouping::next_steps(&mut page, &steps);
    page.into_text()
}

fn head(page: &mut Page<'_>, incident: &Incident, rest: &IncidentRest, now: Time) {
    page.field("incident", &incident.id);
    page.field("title", &incident.title);
    let state = escape::line(&incident.state);
    let state =
        Paint::of_state(&incident.state).map_or(state.clone(), |paint| page.screen.paint(paint, &state));
    page.plain("state", &state);
    page.maybe("assignee", &rest.assignee);
    if let Some(other) = &incident.merged_into {
        page.field("merged into", other);
    }
    let category = incident.category.as_deref().unwrap_or("unknown");
    page.field("category", category);
    page.field("class", &incident.class);
    page.field("type", &incident.letter_type);
    page.field("error type", &incident.error_type);
    page.field("letters", &by_status(incident));
    page.field("first seen", &moment::both(&incident.first_seen_at, now));
    page.field("last seen", &moment::both(&incident.last_seen_at, now));
    page.field("fingerprint", &incident.fingerprint);
}

/// `1,310: 1,204 pending, 106 resolved`, or `12, all pending`
fn by_status(incident: &Incident) -> String {
    let counts = &incident.by_status;
    let named = [
        ("pending", counts.pending),
        ("reprocessing", counts.reprocessing),
        ("resolved", counts.resolved),
        ("discarded", counts.discarded),
    ];
    let there: Vec<(&str, u64)> = named.into_iter().filter(|(_, count)| *count > 0).collect();
    let all = moment::count(incident.count);
    match there.as_slice() {
        [] => all,
        [(name, count)] if *count == incident.count => format!("{all}, all {name}"),
        several => {
            let list = several.iter().map(|(name, count)| format!("{} {name}", moment::count(*count)));
            format!("{all}: {}", list.collect::<Vec<_>>().join(", "))
        }
    }
}

fn affected(page: &mut Page<'_>, affected: &Affected, letters: u64) {
    let dimensions = [
        ("queue", &affected.queues),
        ("type", &affected.types),
        ("subscriber", &affected.subscribers),
        ("aggregate", &affected.aggregates),
        ("tenant", &affected.tenants),
        ("class", &affected.classes),
    ];
    if dimensions.iter().all(|(_, values)| values.is_empty()) {
        return;
    }
    let over = match affected.over < letters {
        true => format!(", newest {}", moment::letters(affected.over)),
        false => String::new(),
    };
    page.heading(&format!("affected{over}"));
    let mut table = Table::new(vec![
        Column::whole("FIELD"),
        Column::number("LETTERS"),
        Column::whole("SHARE").left_out(1),
        Column::cut("VALUE"),
    ])
    .with_titles(Titles::Hidden);
    for (name, values) in dimensions {
        rows(&mut table, name, values, affected.over);
    }
    page.table(&table);
}

fn rows(table: &mut Table, name: &str, values: &[ValueCount], over: u64) {
    let largest = values.iter().map(|value| value.count).max().unwrap_or(0).max(over);
    for (at, value) in values.iter().take(VALUES_SHOWN).enumerate() {
        table.row(vec![
            if at == 0 { name } else { "" }.into(),
            moment::count(value.count).into(),
            Cell::painted(&chart::bar(value.count, largest, BAR_CELLS), Some(Paint::Cyan)),
            value.value.as_str().into(),
        ]);
    }
    if let Some(more) = more(values, over) {
        table.row(vec!["".into(), "".into(), "".into(), more.into()]);
    }
}

/// What is said of values that are not shown. The server sends so many and no more, so that their number is known only
/// if fewer came, or if every letter has one of those that came.
fn more(values: &[ValueCount], over: u64) -> Option<String> {
    let (shown, others) = values.split_at_checked(VALUES_SHOWN)?;
    if others.is_empty() {
        return None;
    }
    let sum = |values: &[ValueCount]| values.iter().map(|value| value.count).fold(0, u64::saturating_add);
    let are_all = values.len() < limits::AFFECTED_VALUES_MAX || sum(values) >= over;
    Some(match are_all {
        true => format!("… and {} more", moment::count(others.len() as u64)),
        // Some of these letters may have no value at all.
        false => {
            let rest = moment::letters(over.saturating_sub(sum(shown)));
            format!("… and more: {rest} with other or no values")
        }
    })
}

fn series(page: &mut Page<'_>, series: &Series) {
    let (Ok(from), Ok(until)) = (Time::parse(&series.from), Time::parse(&series.until)) else { return };
    let step = Step::parse(&series.step).unwrap_or(Step::Hour);
    let arrived = |point: &Point| Some((Time::parse(&point.at).ok()?, point.arrived));
    let steps = chart::steps(series.points.iter().filter_map(arrived), from, until, step.ms());
    if steps.is_empty() {
        return;
    }
    let width = page.screen.width().unwrap_or(CHART_COLUMNS).saturating_sub(INDENT).min(CHART_COLUMNS_MAX);
    let columns = Columns::of(&steps, usize::from(width));
    let each = match (columns.steps_each, step) {
        (1, step) => step.name().to_owned(),
        (n, step) => format!("{n} {}s", step.name()),
    };
    let largest = moment::count(columns.largest());
    page.heading(&format!("letters per {each}, peak {largest}"));
    // With no death at all only the line itself is drawn.
    let height = if columns.largest() == 0 { 1 } else { CHART_ROWS };
    for row in columns.rows(height) {
        let row = page.screen.paint(Paint::Cyan, row.trim_end());
        page.block(&row);
    }
    page.block(&ends(from, until, columns.values.len()));
}

/// The dates under the ends of a chart; what does not fit beside each other stands behind each other.
fn ends(from: Time, until: Time, columns: usize) -> String {
    let date = |time: Time| time.to_string().chars().take(10).collect::<String>();
    let (first, last) = (date(from), date(until));
    format!("{first}{last:>width$}", width = columns.saturating_sub(first.len()).max(last.len() + 1))
}

fn similar(page: &mut Page<'_>, similar: &[Similar], now: Time) {
    if similar.is_empty() {
        return;
    }
    page.heading("similar incidents");
    let mut table = Table::new(vec![
        Column::number("SIMILAR"),
        Column::whole("STATE").left_out(1),
        Column::number("LETTERS"),
        Column::whole("SEEN").left_out(2),
        Column::cut("TITLE").left_out(3),
        Column::whole("ID"),
    ]);
    for other in similar {
        table.row(vec![
            format!("{:.0}%", (other.likeness * 100.0).clamp(0.0, 100.0)).into(),
            Cell::painted(&other.state, Paint::of_state(&other.state)),
            moment::count(other.count).into(),
            moment::ago(&other.last_seen_at, now).into(),
            other.title.as_str().into(),
            other.id.as_str().into(),
        ]);
    }
    page.table(&table);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    fn shown(width: u16) -> String {
        shown_as(include_str!("incident.json"), width)
    }

    fn shown_as(text: &str, width: u16) -> String {
        let incident: Incident = serde_json::from_str(text).unwrap();
        let rest: IncidentRest = serde_json::from_str(text).unwrap();
        let screen = Screen::new(Format::Text, ColorChoice::Never).of_width(width);
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        let letter = Some("019a8b1c-7e00-7000-8000-000000000000");
        page(&incident, &rest, letter, &screen, now)
    }

    #[test]
    fn an_incident_is_all_there_and_harmless() {
        let text = shown(100);
        assert!(!text.contains('\u{1b}'));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_redrive_is_named_by_its_state() {
        for (state, command, purpose) in [
            ("running", "watch", "running redrive"),
            ("verifying", "watch", "running redrive"),
            ("paused", "show", "paused redrive"),
            ("stopped", "show", "stopped redrive"),
        ] {
            let text = include_str!("incident.json")
                .replace("\"state\": \"running\"", &format!("\"state\": \"{state}\""))
                .replace(
                    "\"next\": null",
                    r#""next": {"code": "rca_required", "reason": "it regressed", "hint": "revise it"}"#,
                );
            let text = shown_as(&text, 100);
            assert!(
                text.contains(&format!("lazaret redrive {command} ")) && text.contains(purpose),
                "{text}"
            );
            // What opens the gate again is named beside a redrive that cannot go on.
            assert_eq!(text.contains("lazaret incident diagnose"), command == "show", "{state}: {text}");
        }
    }

    #[test]
    fn the_chart_fits_the_terminal() {
        let text = shown(60);
        let is_drawn =
            |line: &&str| line.chars().any(|c| "▁▂▃▄▅▆▇█".contains(c)) || line.contains("2025-11-01");
        assert!(text.lines().filter(is_drawn).all(|line| line.chars().count() <= 60), "{text}");
    }

    #[test]
    fn values_that_are_not_shown_are_counted_only_if_they_are_known() {
        let more = |counts: &[u64], over| {
            let value = |(at, count): (usize, &u64)| ValueCount { value: at.to_string(), count: *count };
            more(&counts.iter().enumerate().map(value).collect::<Vec<_>>(), over)
        };
        assert_eq!([more(&[], 100), more(&[9; 5], 100)], [None, None]);
        assert_eq!(more(&[9; 9], 100).as_deref(), Some("… and 4 more"));
        assert_eq!(more(&[10; 10], 100).as_deref(), Some("… and 5 more"));
        let others = "… and more: 9,955 letters with other or no values";
        assert_eq!(more(&[9; 10], 10_000).as_deref(), Some(others));
    }

    #[test]
    fn dates_stand_under_the_ends_of_the_chart() {
        let (from, until) = (Time::from_ms(0), Time::from_ms(14 * 86_400_000));
        assert_eq!(ends(from, until, 30), "1970-01-01          1970-01-15");
        assert_eq!(ends(from, until, 4), "1970-01-01 1970-01-15");
    }
}
