//! `lazaret redrive ls`: redrives, newest first.

use clap::Args;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use lazaret_core::redrive::{RedriveKind, RunState};
use lazaret_core::time::Time;

use crate::answers::redrive::{Redrive, RedrivePage};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret redrive ls
  lazaret redrive ls --state canary,running,paused
  lazaret redrive ls --incident 019a8b1c-7e00-7000-8000-000000000001
  lazaret redrive ls --kind plan --json | jq -r '.items[] | [.id, .state, .successRate] | @tsv'";

#[derive(Args, Debug)]
pub struct LsArgs {
    /// States, comma-separated
    #[arg(long, value_name = "STATES", value_delimiter = ',', value_parser = RunState::ALL.map(RunState::name))]
    state: Vec<String>,

    /// Kinds, comma-separated: single, bulk, rule, plan
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = RedriveKind::ALL.map(RedriveKind::name))]
    kind: Vec<String>,

    /// Incident id
    #[arg(long, value_name = "ID", value_parser = IncidentId::parse)]
    incident: Option<IncidentId>,

    /// Redrives per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

pub async fn run(args: LsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let asked = [
        ("state", Some(args.state.join(",")).filter(|states| !states.is_empty())),
        ("kind", Some(args.kind.join(",")).filter(|kinds| !kinds.is_empty())),
        ("incident", args.incident.map(|id| id.to_string())),
        ("limit", args.limit.map(|limit| limit.to_string())),
        ("cursor", args.cursor.clone()),
    ];
    let query: Vec<(&str, &str)> =
        asked.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let answer = client.get(&["redrives"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: RedrivePage = answer.read()?;
    if page.items.is_empty() {
        screen.note("no redrives; plan one with `lazaret redrive plan`");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&page.items, moment::now()))?;
    if let Some(cursor) = page.next_cursor {
        screen.note(&format!("next page: lazaret redrive ls --cursor {}", escape::line(&cursor)));
    }
    Ok(Outcome::Done)
}

fn table(redrives: &[Redrive], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("STATE"),
        Column::whole("KIND").left_out(4),
        Column::number("LETTERS"),
        Column::number("OK"),
        Column::number("FAILED"),
        Column::number("LEFT").left_out(3),
        Column::whole("OPENED").left_out(5),
        Column::cut("BY").left_out(2),
        Column::cut("SELECTION").left_out(1),
        Column::whole("ID"),
    ]);
    for redrive in redrives {
        let left = redrive.letters.waiting.saturating_add(redrive.letters.under_way());
        table.row(vec![
            Cell::painted(&redrive.state, Paint::of_run(&redrive.state)),
            redrive.kind.as_str().into(),
            moment::count(redrive.count).into(),
            moment::count(redrive.letters.good()).into(),
            moment::count(redrive.letters.bad()).into(),
            moment::count(left).into(),
            moment::ago(&redrive.opened_at, now).into(),
            (&redrive.by).into(),
            which(redrive).into(),
            Cell::painted(&redrive.id, Some(Paint::Bold)),
        ]);
    }
    table
}

/// What it is about: a rule, a filter, or letters that were named.
fn which(redrive: &Redrive) -> String {
    match (&redrive.rule, redrive.filter.as_str()) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, "") => format!("{} by id", moment::letters(redrive.total)),
        (None, filter) => filter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn redrives_are_listed_with_how_far_they_are() {
        let run: Redrive = serde_json::from_str(include_str!("run.json")).unwrap();
        let plan: Redrive = serde_json::from_str(include_str!("plan.json")).unwrap();
        let table = table(&[run, plan], Time::parse("2026-11-15T03:00:00Z").unwrap());
        insta::assert_snapshot!("redrives_no_terminal", table.render(None, Colour::Off));
        insta::assert_snapshot!("redrives_80_columns", table.render(Some(80), Colour::Off));
    }
}
