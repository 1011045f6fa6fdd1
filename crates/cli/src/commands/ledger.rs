//! `lazaret ledger`: everything captured is accounted for, and this shows it.

use clap::{Args, Subcommand};

use crate::answers::Ledger;
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Column, Table, Titles};
use crate::output::{Format, Paint, Screen, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret ledger
  lazaret ledger --json | jq .difference
  lazaret ledger verify                         exit code 1 if letters are unaccounted for";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: Option<LedgerCommand>,
}

#[derive(Subcommand, Debug)]
enum LedgerCommand {
    /// Recount letters and incidents and compare; exit code 1 on a mismatch
    #[command(after_help = EXAMPLES_VERIFY)]
    Verify,
}

const EXAMPLES_VERIFY: &str = "\
Examples:
  lazaret ledger verify && echo ok";

pub async fn run(args: LedgerArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let query: &[(&str, &str)] = match args.command {
        Some(LedgerCommand::Verify) => &[("recount", "true")],
        None => &[],
    };
    let answer = client.get(&["ledger"], query).await?;
    let ledger: Ledger = answer.read()?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            screen.table(&table(&ledger))?;
            let (paint, verdict) = match verdict(&ledger) {
                Ok(verdict) => (Paint::Green, verdict),
                Err(verdict) => (Paint::Red, verdict),
            };
            screen.line(&screen.paint(paint, &verdict))?;
        }
    }
    match (args.command, verdict(&ledger)) {
        (Some(LedgerCommand::Verify), Err(_)) => Ok(Outcome::Incomplete),
        (Some(LedgerCommand::Verify) | None, _) => Ok(Outcome::Done),
    }
}

fn table(ledger: &Ledger) -> Table {
    let mut table =
        Table::new(vec![Column::whole("TERM"), Column::number("LETTERS")]).with_titles(Titles::Hidden);
    let terms = [
        ("captured", ledger.captured),
        ("= pending", ledger.pending),
        ("+ reprocessing", ledger.reprocessing),
        ("+ resolved", ledger.resolved),
        ("+ discarded", ledger.discarded),
        ("+ archived", ledger.archived),
        ("+ pruned", ledger.pruned),
        ("+ deleted", ledger.deleted),
    ];
    for (term, letters) in terms {
        table.row(vec![term.into(), moment::count(letters).into()]);
    }
    table
}

fn verdict(ledger: &Ledger) -> Result<String, String> {
    let mut problems = Vec::new();
    if let Some(wrong) = ledger.wrong_counters.filter(|wrong| *wrong > 0) {
        problems.push(format!("wrong counters: {}", moment::count(wrong)));
    }
    if let Some(unlisted) = ledger.unlisted_letters.filter(|unlisted| *unlisted > 0) {
        problems.push(format!("letters in no listed incident: {}", moment::count(unlisted)));
    }
    let unaccounted = format!("unaccounted: {}", ledger.difference);
    if ledger.difference == 0 && problems.is_empty() {
        return Ok(unaccounted);
    }
    problems.insert(0, unaccounted);
    Err(problems.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    fn ledger(difference: i64, wrong_counters: Option<u64>, unlisted_letters: Option<u64>) -> Ledger {
        Ledger {
            captured: 12_431,
            pending: 12_000,
            reprocessing: 0,
            resolved: 400,
            discarded: 31,
            archived: 0,
            pruned: 0,
            deleted: 0,
            difference,
            wrong_counters,
            unlisted_letters,
        }
    }

    #[test]
    fn the_terms_stand_under_each_other() {
        insta::assert_snapshot!(table(&ledger(0, None, None)).render(None, Colour::Off), @"
        captured        12,431
        = pending       12,000
        + reprocessing       0
        + resolved         400
        + discarded         31
        + archived           0
        + pruned             0
        + deleted            0
        ");
    }

    #[test]
    fn every_difference_is_shown() {
        assert_eq!(verdict(&ledger(0, Some(0), Some(0))), Ok("unaccounted: 0".into()));
        assert_eq!(verdict(&ledger(-2, None, None)), Err("unaccounted: -2".into()));
        assert_eq!(
            verdict(&ledger(0, Some(3), Some(1_204))),
            Err("unaccounted: 0\nwrong counters: 3\nletters in no listed incident: 1,204".into())
        );
        assert!(verdict(&ledger(0, Some(0), Some(1))).is_err());
    }
}
