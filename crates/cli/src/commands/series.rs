//! `lazaret series`: what came in and what went out, drawn over time.

use clap::Args;
use lazaret_core::id::IncidentId;
use lazaret_core::time::Time;
use lazaret_store::series::{SeriesBy, Step};

use crate::answers::incident::{SeriesLine, SeriesLines};
use crate::client::Client;
use crate::failure::Outcome;
use crate::filter;
use crate::output::chart::{self, Columns};
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, fit, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret series                                all letters, last 48 hours
  lazaret series --by queue                     top 10 queues
  lazaret series --by type --value invoice.created --value order.created --since 7d
  lazaret series --step minute --since 90m
  lazaret series --by queue --json | jq '.items[] | {value, n: ([.points[].arrived] | add)}'

Each line is scaled to its own peak, shown in PEAK; a dot is an empty column.";

/// Columns of a line where nothing says how wide it may be, and at most and at least.
const LINE_COLUMNS: u16 = 48;
const LINE_COLUMNS_MAX: u16 = 168;
const LINE_COLUMNS_MIN: u16 = 12;

/// What stands beside a line: its numbers, and room for the beginning of its value.
const BESIDE_COLUMNS: u16 = 46;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SeriesArgs {
    /// Group by; default: one line for all letters
    #[arg(long, value_name = "WHAT", value_parser = SeriesBy::ALL.map(SeriesBy::name))]
    by: Option<String>,

    /// Value to show; repeatable; default: top 10
    #[arg(long, value_name = "VALUE", requires = "by")]
    value: Vec<String>,

    /// Incident id
    #[arg(long, value_name = "ID", value_parser = IncidentId::parse, conflicts_with = "by")]
    incident: Option<IncidentId>,

    /// Step width
    #[arg(long, value_name = "STEP", default_value = Step::Hour.name(), value_parser = Step::ALL.map(Step::name))]
    step: String,

    /// Start: a time or a duration; default 48h for hours, 3h for minutes
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// End: a time or a duration
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
}

pub async fn run(args: SeriesArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let now = moment::now();
    let moment_of = |text: &Option<String>| {
        text.as_ref().map(|text| filter::moment(text, now).map(|time| time.to_string())).transpose()
    };
    let (since, until) = (moment_of(&args.since)?, moment_of(&args.until)?);
    let incident = args.incident.map(|id| id.to_string());
    let mut query = vec![("step", args.step.as_str())];
    let asked = [("by", &args.by), ("incident", &incident), ("since", &since), ("until", &until)];
    query.extend(asked.into_iter().filter_map(|(key, value)| Some((key, value.as_deref()?))));
    query.extend(args.value.iter().map(|value| ("value", value.as_str())));
    let answer = client.get(&["series"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let lines: SeriesLines = answer.read()?;
    if lines.items.iter().all(|line| line.points.is_empty()) {
        screen.note(&footer(&lines, "no letters in this range", screen.width()));
        return Ok(Outcome::Done);
    }
    let drawn = table(&lines, columns(screen.width()));
    screen.table(&drawn.table)?;
    screen.note(&footer(&lines, &drawn.each, screen.width()));
    Ok(Outcome::Done)
}

/// Columns of a line on a screen of this width.
fn columns(width: Option<u16>) -> usize {
    let columns = width.map_or(LINE_COLUMNS, |width| width.saturating_sub(BESIDE_COLUMNS));
    usize::from(columns.clamp(LINE_COLUMNS_MIN, LINE_COLUMNS_MAX))
}

/// From when to when, to the minute, because no step is shorter, and what is to be said of it. On a narrow terminal
/// that is two lines.
fn footer(lines: &SeriesLines, said: &str, width: Option<u16>) -> String {
    let times = escape::line(&format!("{} to {}", moment::minute(&lines.from), moment::minute(&lines.until)));
    let one_line = format!("{times} · {said}");
    let fits = width.is_none_or(|width| fit::columns_of(&one_line) <= usize::from(width));
    if fits { one_line } else { format!("{times}\n{said}") }
}

/// The lines, and what one column of them is.
#[derive(Debug)]
struct Drawn {
    table: Table,
    each: String,
}

fn table(lines: &SeriesLines, width: usize) -> Drawn {
    let mut table = Table::new(vec![
        Column::cut("VALUE").left_out(3),
        Column::whole("DEATHS"),
        Column::number("DIED"),
        Column::number("PEAK").left_out(1),
        Column::number("DECIDED").left_out(2),
    ]);
    let step = Step::parse(&lines.step).unwrap_or(Step::Hour);
    let mut steps_each = 1;
    for line in &lines.items {
        let columns = Columns::of(&steps_of(line, lines, step), width);
        steps_each = columns.steps_each;
        let sum = |of: fn(&crate::answers::incident::Point) -> u64| {
            line.points.iter().map(of).fold(0, u64::saturating_add)
        };
        table.row(vec![
            if line.value.is_empty() { "everything" } else { line.value.as_str() }.into(),
            Cell::painted(&columns.spark(), Some(Paint::Cyan)),
            moment::count(sum(|point| point.arrived)).into(),
            moment::count(columns.largest()).into(),
            moment::count(sum(|point| point.departed)).into(),
        ]);
    }
    let each = match steps_each {
        1 => format!("one {} per column", step.name()),
        n => format!("{n} {}s per column", step.name()),
    };
    Drawn { table, each }
}

fn steps_of(line: &SeriesLine, lines: &SeriesLines, step: Step) -> Vec<u64> {
    let (Ok(from), Ok(until)) = (Time::parse(&lines.from), Time::parse(&lines.until)) else {
        return Vec::new();
    };
    let arrived = line.points.iter().filter_map(|point| Some((Time::parse(&point.at).ok()?, point.arrived)));
    chart::steps(arrived, from, until, step.ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    fn lines() -> SeriesLines {
        let at = |hour: u32| format!("2025-11-14T{hour:02}:00:00.000Z");
        let point =
            |hour, arrived| serde_json::json!({"at": at(hour), "arrived": arrived, "departed": arrived / 4});
        serde_json::from_value(serde_json::json!({
            "by": "queue", "step": "hour", "from": at(0), "until": "2025-11-15T00:00:00.000Z",
            "items": [
                {"value": "billing", "points": [point(3, 1_000), point(4, 2_000), point(23, 1)]},
                {"value": "shipping\u{1b}[2J", "points": [point(12, 3)]},
                {"value": "", "points": []},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn lines_are_drawn_with_their_numbers() {
        let drawn = table(&lines(), 24);
        let footer = footer(&lines(), &drawn.each, Some(80));
        assert_eq!(footer, "2025-11-14T00:00Z to 2025-11-15T00:00Z · one hour per column");
        insta::assert_snapshot!(drawn.table.render(Some(80), Colour::Off));
    }

    #[test]
    fn what_does_not_fit_is_added_up() {
        let drawn = table(&lines(), 12);
        assert_eq!(drawn.each, "2 hours per column");
        assert!(drawn.table.render(None, Colour::Off).contains("·▄█········▁"));
    }

    #[test]
    fn it_fits_a_narrow_terminal() {
        let mut lines = lines();
        lines.items[1].points[0].arrived = 1_234_567_890;
        lines.items[1].points[0].departed = 1_234_567_890;
        for width in [60, 80] {
            let drawn = table(&lines, columns(Some(width)));
            let text = drawn.table.render(Some(width), Colour::Off);
            let text = format!("{text}{}", footer(&lines, &drawn.each, Some(width)));
            let fits = |line: &str| line.chars().count() <= usize::from(width);
            assert!(text.lines().all(fits), "{text}");
        }
        let nothing = footer(&lines, "no letters in this range", Some(60));
        assert_eq!(nothing, "2025-11-14T00:00Z to 2025-11-15T00:00Z\nno letters in this range");
    }
}
