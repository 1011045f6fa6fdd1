//! `lazaret incident show`: one incident, with what is known of its cause and its reach.

mod page;

use clap::{Args, Subcommand};
use lazaret_core::id::IncidentId;

use crate::answers::Page as LetterPage;
use crate::answers::incident::{Incident, IncidentRest};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::{Format, Screen, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001 --json | jq .affected
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001 --json | jq .fingerprints[0].parts

`lazaret incidents` lists them with their ids.";

#[derive(Subcommand, Debug)]
pub enum IncidentCommand {
    /// Show one incident: its letters, why they are one, whom it hits, when, and what it resembles
    Show(IncidentShowArgs),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct IncidentShowArgs {
    /// The incident
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,
}

pub async fn run(command: IncidentCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        IncidentCommand::Show(args) => show(args, client, screen).await,
    }
}

async fn show(args: IncidentShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let answer = client.get(&["incidents", &id], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let incident: Incident = answer.read()?;
    let rest: IncidentRest = answer.read()?;
    let newest = newest_letter(&incident, client).await?;
    let text = page::page(&incident, &rest, newest.as_deref(), screen, moment::now());
    screen.write(text.as_bytes())?;
    Ok(Outcome::Done)
}

/// The letter to look at next. There may be none any more.
async fn newest_letter(incident: &Incident, client: &Client) -> anyhow::Result<Option<String>> {
    if incident.count == 0 {
        return Ok(None);
    }
    let query = [("incident", incident.id.as_str()), ("limit", "1")];
    let page: LetterPage = client.get(&["dead-letters"], &query).await?.read()?;
    Ok(page.items.into_iter().next().map(|letter| letter.id))
}
