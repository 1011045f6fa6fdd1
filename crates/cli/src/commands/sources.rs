//! `lazaret sources`: where letters come from, how each place stands, and rows that are put back.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use crate::answers::source::{Source, Sources};
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret sources
  lazaret sources restore-row 019a8b1c-7e00-7000-8000-000000000000
  lazaret sources --json | jq '.items[] | select(.outbox.connected == false) | .name'";

/// Rows that cannot be changed of which each is named.
const REFUSED_SHOWN: usize = 5;

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SourcesArgs {
    #[command(subcommand)]
    command: Option<SourcesCommand>,
}

#[derive(Subcommand, Debug)]
enum SourcesCommand {
    /// Restore the missing outbox row of a letter
    #[command(after_help = EXAMPLES_RESTORE_ROW, alias = "put-back")]
    RestoreRow(RestoreRowArgs),
}

const EXAMPLES_RESTORE_ROW: &str = "\
Examples:
  lazaret sources restore-row 019a8b1c-7e00-7000-8000-000000000000

The letter can then be redriven.";

#[derive(Args, Debug)]
struct RestoreRowArgs {
    /// Letter ids
    #[arg(required = true, value_name = "LETTER")]
    letters: Vec<String>,
}

pub async fn run(args: SourcesArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(client, screen).await,
        Some(SourcesCommand::RestoreRow(args)) => put_back(&args.letters, client, screen).await,
    }
}

#[derive(Deserialize)]
struct PutBack {
    row: String,
}

async fn put_back(letters: &[String], client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    for letter in letters {
        let answer =
            client.post(&["dead-letters", letter, "put-back"], &[], Content::json(&json!({}))).await?;
        match screen.format {
            Format::Json => screen.json(answer.text()?)?,
            Format::Text => {
                let told = match answer.read::<PutBack>()?.row.as_str() {
                    "made" => "row restored",
                    _ => "row already exists",
                };
                screen.line(&format!("{}: {told}", escape::line(letter)))?;
            }
        }
    }
    Ok(Outcome::Done)
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["sources"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let sources: Sources = answer.read()?;
    screen.table(&table(&sources.items))?;
    for source in &sources.items {
        let name = escape::line(&source.name);
        let Some(outbox) = &source.outbox else {
            notes(source, &name, screen);
            continue;
        };
        if let Some(error) = outbox.last_error.as_deref().filter(|_| !outbox.connected) {
            screen.note(&format!("{name}: {}", escape::line(error)));
        }
        if let Some(problem) = outbox.relay.as_ref().and_then(|relay| relay.problem.as_deref()) {
            screen.note(&format!("relay of {name}: {}", escape::line(problem)));
        }
        for refused in outbox.relay.iter().flat_map(|relay| &relay.refused_rows).take(REFUSED_SHOWN) {
            let (row, reason) = (escape::line(&refused.row), escape::line(&refused.reason));
            screen.note(&format!("row {row} of {name} cannot be updated: {reason}"));
        }
        if let Some(first) = outbox.vanished_letters.first() {
            screen.note(&format!(
                "{name}: missing rows of {}; restore with `lazaret sources restore-row {}`",
                moment::letters(outbox.vanished),
                escape::line(first)
            ));
        }
    }
    Ok(Outcome::Done)
}

/// What is wrong with a broker.
fn notes(source: &Source, name: &str, screen: &mut Screen) {
    let Some(connection) = &source.connection else { return };
    if let Some(error) = connection.last_error.as_deref().filter(|_| !connection.connected) {
        screen.note(&format!("{name}: {}", escape::line(error)));
    }
    for duty in &source.duties {
        if let Some(problem) = &duty.problem {
            screen.note(&format!("the {} of {name}: {}", escape::line(&duty.name), escape::line(problem)));
        }
    }
    if let Some(depth) = connection.depth.filter(|depth| *depth > 0) {
        screen.note(&format!("{name}: backlog {}", moment::letters(depth)));
    }
}

fn table(sources: &[Source]) -> Table {
    let mut table = Table::new(vec![
        Column::cut_to("SOURCE", 12),
        Column::whole("KIND"),
        Column::whole("STATE"),
        Column::number("PENDING"),
        Column::number("CAPTURED").left_out(3),
        Column::number("DELIVERED").left_out(2),
        Column::whole("GOVERNANCE").left_out(4),
        Column::cut_to("GOES BACK TO", 16).left_out(1),
    ]);
    for source in sources {
        let outbox = source.outbox.as_ref();
        let (state, paint) = state(source);
        let relay = outbox.and_then(|outbox| outbox.relay.as_ref());
        let connection = source.connection.as_ref();
        let captured = outbox.map(|outbox| outbox.captured).or(connection.map(|it| it.captured));
        table.row(vec![
            Cell::painted(&source.name, Some(Paint::Bold)),
            source.kind.as_str().into(),
            Cell::painted(&state, paint),
            moment::count(source.pending).into(),
            captured.map(moment::count).unwrap_or_default().into(),
            relay.map(|relay| moment::count(relay.delivered)).unwrap_or_default().into(),
            source.governance.as_str().into(),
            source.address.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

fn state(source: &Source) -> (String, Option<Paint>) {
    match &source.outbox {
        None => broker_state(source),
        Some(outbox) if !outbox.connected && outbox.last_error.is_some() => {
            ("away".to_owned(), Some(Paint::Red))
        }
        // The leader reads it.
        Some(outbox) if !outbox.connected && !outbox.leads => ("elsewhere".to_owned(), None),
        Some(outbox) if !outbox.connected => ("connecting".to_owned(), Some(Paint::Yellow)),
        Some(outbox) if outbox.relay.as_ref().is_some_and(|relay| relay.problem.is_some()) => {
            ("relay failing".to_owned(), Some(Paint::Red))
        }
        Some(outbox) if outbox.vanished > 0 => ("missing rows".to_owned(), Some(Paint::Yellow)),
        Some(_) => ("connected".to_owned(), Some(Paint::Green)),
    }
}

fn broker_state(source: &Source) -> (String, Option<Paint>) {
    let (state, paint) = match &source.connection {
        None => ("open", None),
        Some(connection) if !connection.connected && connection.last_error.is_some() => {
            ("away", Some(Paint::Red))
        }
        Some(connection) if !connection.connected => ("connecting", Some(Paint::Yellow)),
        Some(_) if source.duties.iter().any(|duty| duty.problem.is_some()) => ("degraded", Some(Paint::Red)),
        Some(_) => ("connected", Some(Paint::Green)),
    };
    (state.to_owned(), paint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn sources_are_listed_with_how_they_stand() {
        let sources: Sources = serde_json::from_value(json!({"items": [
            {"name": "jobs", "kind": "jobs", "governance": "optional", "pending": 12, "address": "jobs", "outbox": null},
            {"name": "shop", "kind": "outbox", "governance": "required", "pending": 4711,
             "address": "db.example.org/shop public.outbox",
             "outbox": {"leads": true, "connected": true, "lastError": null, "lagMs": 0, "captured": 4800, "vanished": 0,
                        "vanishedLetters": [],
                        "relay": {"sink": "http://x/", "delivered": 90210, "retried": 3, "died": 1, "problem": null}}},
            {"name": "x\u{1b}[2J", "kind": "outbox", "governance": "required", "pending": 0, "address": null,
             "outbox": {"leads": true, "connected": false, "lastError": "refused", "lagMs": 0, "captured": 0, "vanished": 2,
                        "vanishedLetters": ["a"], "relay": null}},
        ]}))
        .unwrap();
        insta::assert_snapshot!("sources_no_terminal", table(&sources.items).render(None, Colour::Off));
        insta::assert_snapshot!("sources_60_columns", table(&sources.items).render(Some(60), Colour::Off));
    }

    #[test]
    fn a_source_that_has_just_started_is_not_called_away() {
        let told = |leads: bool, connected: bool, error: Option<&str>| {
            let outbox = serde_json::json!({"leads": leads, "connected": connected, "lastError": error,
                "captured": 0, "vanished": 0, "relay": null});
            let source = serde_json::json!({"name": "shop", "kind": "outbox", "governance": "required",
                "pending": 0, "address": null, "outbox": outbox});
            state(&serde_json::from_value(source).unwrap()).0
        };
        assert_eq!(told(true, false, None), "connecting");
        assert_eq!(told(false, false, None), "elsewhere");
        assert_eq!(told(true, false, Some("refused")), "away");
        assert_eq!(told(true, true, Some("refused before")), "connected");
    }
}
