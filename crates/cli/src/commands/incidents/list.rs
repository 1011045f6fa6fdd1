//! Incidents in rows: one line each where there is room, and on a narrow terminal the title, which is the cause, on a
//! line for itself. The id is always whole.

use lazaret_core::time::Time;

use crate::answers::incident::Incident;
use crate::output::chart::Columns;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Paint, Screen, escape, fit, moment};

/// Columns of the picture of the last 48 hours.
const SPARK_COLUMNS: usize = 24;

/// Below this a title beside everything else would be but a word.
const ONE_LINE_COLUMNS: u16 = 110;

/// Of a title on the same line as everything else at least so much is shown.
const TITLE_COLUMNS_MIN: u16 = 20;

/// How far the title stands from the edge when it has a line for itself.
const INDENT: &str = "  ";
const GAP: &str = "  ";

/// The incidents as lines, each with its end.
pub fn list(incidents: &[Incident], screen: &Screen, now: Time) -> String {
    match screen.width() {
        Some(width) if width < ONE_LINE_COLUMNS => {
            in_several_lines(incidents, usize::from(width), screen, now)
        }
        Some(_) | None => screen.inset(&in_one_line(incidents, now), 0),
    }
}

fn in_one_line(incidents: &[Incident], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("STATE").left_out(4),
        Column::number("COUNT"),
        Column::whole("LAST 48 H").left_out(2),
        Column::whole("SEEN").left_out(3),
        Column::whole("CATEGORY").left_out(1),
        Column::cut_to("TITLE", TITLE_COLUMNS_MIN),
        Column::whole("ID"),
    ]);
    for incident in incidents {
        let mut cells = facts(incident, now);
        cells.extend([incident.title.as_str().into(), Cell::painted(&incident.id, Some(Paint::Bold))]);
        table.row(cells);
    }
    table
}

/// A line of facts, below it the title, and the id behind that or on a third line.
fn in_several_lines(incidents: &[Incident], width: usize, screen: &Screen, now: Time) -> String {
    let mut table = Table::new(vec![
        Column::whole("STATE").left_out(4),
        Column::number("COUNT"),
        Column::whole("LAST 48 H").left_out(1),
        Column::whole("SEEN").left_out(3),
        Column::whole("CATEGORY").left_out(2),
    ]);
    incidents.iter().for_each(|incident| table.row(facts(incident, now)));
    let table = screen.inset(&table, 0);
    let mut rows = table.lines();
    let mut lines = Vec::from_iter(rows.next().map(str::to_owned));
    for (incident, row) in incidents.iter().zip(rows) {
        lines.push(row.to_owned());
        let title = fit::cut(&escape::line(&incident.title), width.saturating_sub(INDENT.len()));
        let id = escape::line(&incident.id);
        let taken = INDENT.len() + fit::columns_of(&title) + GAP.len() + fit::columns_of(&id);
        let id = screen.paint(Paint::Bold, &id);
        if taken <= width {
            lines.push(format!("{INDENT}{title}{GAP}{id}"));
        } else {
            lines.extend([format!("{INDENT}{title}"), format!("{INDENT}{id}")]);
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// What is known of an incident beside its title: state, count, the last 48 hours, last seen, category.
fn facts(incident: &Incident, now: Time) -> Vec<Cell> {
    let spark = Columns::of(&incident.sparkline.arrived, SPARK_COLUMNS).spark();
    vec![
        Cell::painted(&incident.state, Paint::of_state(&incident.state)),
        count(incident).into(),
        Cell::painted(&spark, Some(Paint::Cyan)),
        moment::ago(&incident.last_seen_at, now).into(),
        incident.category.as_deref().unwrap_or("unknown").into(),
    ]
}

/// Pending letters of all; one number where they are the same.
fn count(incident: &Incident) -> String {
    let (pending, all) = (moment::count(incident.by_status.pending), moment::count(incident.count));
    if pending == all { all } else { format!("{pending}/{all}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::incidents::tests::page;
    use crate::output::Format;
    use clap::ColorChoice;

    fn listed(incidents: &[Incident], width: Option<u16>, choice: ColorChoice) -> String {
        let screen = Screen::new(Format::Text, choice);
        let screen = match width {
            Some(width) => screen.of_width(width),
            None => screen.without_width(),
        };
        list(incidents, &screen, Time::parse("2025-11-15T03:00:00Z").unwrap())
    }

    #[test]
    fn a_list_fits_the_terminal_and_is_whole_without_one() {
        let mut incidents = page(None).items;
        for width in [60, 80, 120] {
            let text = listed(&incidents, Some(width), ColorChoice::Never);
            insta::assert_snapshot!(format!("incidents_{width}_columns"), text);
        }
        insta::assert_snapshot!("incidents_no_terminal", listed(&incidents, None, ColorChoice::Never));
        incidents[1].title = "時間外".repeat(30);
        for width in 40..160 {
            let text = listed(&incidents, Some(width), ColorChoice::Never);
            let fits = |line: &str| fit::columns_of(line) <= usize::from(width);
            assert!(text.lines().all(fits), "{width}:\n{text}");
            assert!(text.contains("NetworkError: conne") && text.contains("時間外時間"), "{width}:\n{text}");
            assert!(incidents.iter().all(|incident| text.contains(&incident.id)), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_narrow_list_is_coloured_too() {
        let text = listed(&page(None).items, Some(60), ColorChoice::Always);
        assert!(text.contains("\u{1b}[1m019a8b1c-7e00-7000-8000-000000000001\u{1b}[0m"), "{text:?}");
        assert!(!text.contains("\u{1b}[2J"), "{text:?}");
    }
}
