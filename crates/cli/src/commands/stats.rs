//! `lazaret stats`: how many letters there are, and of what kind.

use clap::Args;
use lazaret_core::lifecycle::Status;

use crate::answers::{Ranking, Stats};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table, Titles};
use crate::output::{Format, Paint, Screen, chart, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret stats
  lazaret stats --status pending
  lazaret stats --json | jq .byErrorType";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    /// Status
    #[arg(long, value_name = "STATUS", value_parser = Status::ALL.map(Status::name))]
    status: Option<String>,
}

/// Values shown of one dimension; `--json` has more.
const VALUES_SHOWN: usize = 10;

const BAR_CELLS: u64 = 24;

pub async fn run(args: StatsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let query: Vec<(&str, &str)> = args.status.iter().map(|status| ("status", status.as_str())).collect();
    let answer = client.get(&["stats"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let stats: Stats = answer.read()?;
    let now = moment::now();
    let of_status = args.status.map(|status| format!(" {status}")).unwrap_or_default();
    let noun = if stats.total == 1 { "letter" } else { "letters" };
    let total = format!("{}{of_status} {noun}", moment::count(stats.total));
    screen.line(&screen.paint(Paint::Bold, &total))?;
    for (label, at) in [("oldest", &stats.oldest_at), ("newest", &stats.newest_at)] {
        if let Some(at) = at {
            screen.line(&format!("{label} died {}", escape::line(&moment::both(at, now))))?;
        }
    }
    let dimensions = [
        ("status", &stats.by_status),
        ("source", &stats.by_source),
        ("queue", &stats.by_queue),
        ("type", &stats.by_type),
        ("error type", &stats.by_error_type),
        ("class", &stats.by_class),
    ];
    for (title, ranking) in dimensions {
        if ranking.0.iter().all(|(_, n)| *n == 0) {
            continue;
        }
        screen.line("")?;
        screen.line(&screen.paint(Paint::Bold, &format!("by {title}")))?;
        let bars = if screen.is_terminal() { Bars::Drawn } else { Bars::LeftOut };
        screen.table(&table(ranking, bars))?;
        let more = ranking.0.len().saturating_sub(VALUES_SHOWN);
        if more > 0 {
            screen.line(&format!("… and {} more", moment::count(more as u64)))?;
        }
    }
    Ok(Outcome::Done)
}

/// Bars are for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bars {
    Drawn,
    LeftOut,
}

fn table(ranking: &Ranking, bars: Bars) -> Table {
    let mut columns = vec![Column::number("LETTERS"), Column::cut("VALUE")];
    if bars == Bars::Drawn {
        columns.insert(1, Column::whole("SHARE").left_out(1));
    }
    let mut table = Table::new(columns).with_titles(Titles::Hidden);
    let mut counts: Vec<&(String, u64)> = ranking.0.iter().collect();
    // Statuses come in an order of their own; the sort keeps that of equals.
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let largest = counts.first().map_or(0, |(_, n)| *n);
    for (value, n) in counts.into_iter().take(VALUES_SHOWN) {
        let mut cells: Vec<Cell> = vec![moment::count(*n).into(), value.as_str().into()];
        if bars == Bars::Drawn {
            cells.insert(1, Cell::painted(&chart::bar(*n, largest, BAR_CELLS), Some(Paint::Cyan)));
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn the_largest_ten_are_shown() {
        let counts = (0..12).map(|n| (format!("queue-{n}"), 1_200 - n * 100)).collect();
        insta::assert_snapshot!(table(&Ranking(counts), Bars::Drawn).render(Some(80), Colour::Off));
    }
}
