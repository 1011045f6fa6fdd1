//! `lazaret holds`: which holds there are; one with its letters; and its end.

mod show;

use clap::{Args, Subcommand};
use lazaret_core::id::HoldId;
use lazaret_core::limits;
use lazaret_core::time::Time;
use serde_json::json;

use crate::answers::hold::{HoldPage, HoldRecord};
use crate::client::{Client, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment, shell_word};

const EXAMPLES: &str = "\
Examples:
  lazaret holds                                 active holds, newest first
  lazaret holds --ended                         include released and expired holds
  lazaret holds show 019a8b1c-7e00-7000-8000-000000000009
  lazaret holds release 019a8b1c-7e00-7000-8000-000000000009 --reason 'case closed'
  lazaret holds --json | jq -r '.items[] | [.id, .letters, .until] | @tsv'

`lazaret hold` places one.";

pub const EXAMPLES_RELEASE: &str = "\
Examples:
  lazaret holds release 019a8b1c-7e00-7000-8000-000000000009 --reason 'case closed'

Letters covered by another hold stay held.";

#[derive(Subcommand, Debug)]
enum HoldsCommand {
    /// Show a hold with its letters
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Release a hold
    #[command(after_help = EXAMPLES_RELEASE)]
    Release(ReleaseArgs),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct HoldsArgs {
    #[command(subcommand)]
    command: Option<HoldsCommand>,

    /// Include released and expired holds
    #[arg(long)]
    ended: bool,

    /// Holds per page, 1 to 500
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=limits::PAGE_ROWS_MAX as i64))]
    limit: Option<u16>,

    /// Cursor of the next page
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args, Debug)]
pub struct ReleaseArgs {
    /// Hold id
    #[arg(value_name = "ID", value_parser = HoldId::parse)]
    id: HoldId,

    /// Reason, recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn run(args: HoldsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match args.command {
        Some(HoldsCommand::Show(args)) => show::run(args, client, screen).await,
        Some(HoldsCommand::Release(args)) => release(args, client, screen).await,
        None => list(&args, client, screen).await,
    }
}

async fn list(args: &HoldsArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let limit = args.limit.map(|limit| limit.to_string());
    let mut query: Vec<(&str, &str)> = limit.iter().map(|limit| ("limit", limit.as_str())).collect();
    query.extend(args.cursor.as_ref().map(|cursor| ("cursor", cursor.as_str())));
    if args.ended {
        query.push(("ended", "true"));
    }
    let answer = client.get(&["holds"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: HoldPage = answer.read()?;
    if page.items.is_empty() {
        screen.note("no holds; `lazaret hold` places one");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&page.items, moment::now()))?;
    if let Some(cursor) = &page.next_cursor {
        let ended = if args.ended { " --ended" } else { "" };
        let limit = limit.map(|limit| format!(" --limit {limit}")).unwrap_or_default();
        screen.note(&format!("older: lazaret holds{ended}{limit} --cursor {}", shell_word(cursor)));
    }
    Ok(Outcome::Done)
}

fn table(holds: &[HoldRecord], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("STATE").left_out(4),
        Column::number("LETTERS"),
        Column::whole("PLACED").left_out(2),
        Column::whole("UNTIL").left_out(5),
        Column::cut("BY").left_out(1),
        Column::cut("SCOPE").left_out(3),
        Column::cut("REASON"),
    ]);
    for hold in holds {
        table.row(vec![
            Cell::painted(&hold.id, Some(Paint::Bold)),
            Cell::painted(state(hold), Paint::of_hold(&hold.state)),
            moment::count(hold.letters).into(),
            moment::ago(&hold.at, now).into(),
            hold.until.as_deref().map_or_else(|| "released".into(), |at| moment::ago(at, now)).into(),
            hold.by.as_str().into(),
            which(hold).into(),
            hold.reason.as_str().into(),
        ]);
    }
    table
}

/// The state in words: a hold that is in force need not be a standing one, which also catches letters to come.
fn state(hold: &HoldRecord) -> &str {
    match hold.state.as_str() {
        "standing" => "active",
        other => other,
    }
}

/// What it is on.
fn which(hold: &HoldRecord) -> String {
    match (hold.kind.as_str(), &hold.filter, &hold.letter_id) {
        ("standing", Some(filter), _) if filter.is_empty() => "all letters and future matches".into(),
        ("standing", Some(filter), _) => format!("{filter} and future matches"),
        (_, Some(filter), _) => filter.clone(),
        (_, None, Some(letter)) => letter.clone(),
        (_, None, None) => String::new(),
    }
}

async fn release(args: ReleaseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Some(reason) = args.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty()) else {
        return Err(Failure::misuse("reason required to release a hold")
            .hint("pass --reason TEXT; it is recorded in the audit log")
            .into());
    };
    let id = args.id.to_string();
    let content = Content::json(&json!({ "reason": reason }));
    let answer = client.post(&["holds", &id, "release"], &[], content).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let hold: HoldRecord = answer.read()?;
    screen.line(&format!("{id} is {}", escape::line(&hold.state)))?;
    if hold.state == "releasing" {
        screen.note(&format!("{} still being released", moment::letters(hold.letters)));
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn holds_are_listed_with_what_they_are_on_and_until_when() {
        let page: HoldPage = serde_json::from_value(json!({"items": [
            {"id": "019a8b1c-7e00-7000-8000-000000000009", "state": "standing", "kind": "standing", "filter": "tenant:acme",
             "reason": "case 12/2026", "by": "legal", "at": "2025-11-14T03:00:00.000Z", "until": null, "letters": 412},
            {"id": "019a8b1c-7e00-7000-8000-000000000007", "state": "standing", "kind": "letter",
             "letterId": "019a8b1c-7e00-7000-8000-000000000001", "reason": "case 13", "by": "legal",
             "at": "2025-11-14T03:00:00.000Z", "until": null, "letters": 1},
            {"id": "019a8b1c-7e00-7000-8000-000000000008", "state": "releasing", "kind": "letter",
             "letterId": "019a8b1c-7e00-7000-8000-000000000000", "reason": "look\nagain", "by": "anna",
             "at": "2025-11-15T02:00:00.000Z", "until": "2026-11-15T03:00:00.000Z", "letters": 1},
        ], "nextCursor": null}))
        .unwrap();
        let table = table(&page.items, Time::parse("2025-11-15T03:00:00Z").unwrap());
        insta::assert_snapshot!("holds_no_terminal", table.render(None, Colour::Off));
        insta::assert_snapshot!("holds_80_columns", table.render(Some(80), Colour::Off));
    }
}
