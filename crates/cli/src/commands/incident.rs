//! `lazaret incident …`: one incident, with what is known of its cause and its reach, and what people do about it.

mod diagnose;
mod form;
mod life;
mod page;
mod steps;

use clap::{Args, Subcommand};
use lazaret_core::id::IncidentId;
use serde_json::Value;

use crate::answers::Page as LetterPage;
use crate::answers::incident::{Incident, IncidentRest};
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::gate;
use crate::output::{Format, Screen, escape, moment};
use diagnose::DiagnoseArgs;
use steps::{AssignArgs, CloseArgs, FixArgs, NoteArgs, RcaArgs};

const EXAMPLES: &str = "\
Examples:
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001 --json | jq .affected
  lazaret incident show 019a8b1c-7e00-7000-8000-000000000001 --json | jq .fingerprints[0].parts

`lazaret incidents` lists them with their ids.";

#[derive(Subcommand, Debug)]
pub enum IncidentCommand {
    /// Show an incident: letters, grouping, impact, trend and similar incidents
    Show(IncidentShowArgs),
    /// Save the root cause and remediation
    #[command(after_help = diagnose::EXAMPLES)]
    Diagnose(DiagnoseArgs),
    /// Link the fix
    #[command(after_help = steps::EXAMPLES_FIX)]
    Fix(FixArgs),
    /// Close an incident without pending letters
    #[command(after_help = steps::EXAMPLES_CLOSE)]
    Close(CloseArgs),
    /// Set the assignee
    #[command(after_help = steps::EXAMPLES_ASSIGN)]
    Assign(AssignArgs),
    /// Add a note to the timeline
    #[command(after_help = steps::EXAMPLES_NOTE)]
    Note(NoteArgs),
    /// Print the RCA document
    #[command(after_help = steps::EXAMPLES_RCA)]
    Rca(RcaArgs),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct IncidentShowArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,
}

pub async fn run(command: IncidentCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        IncidentCommand::Show(args) => show(args, client, screen).await,
        IncidentCommand::Diagnose(args) => diagnose::run(args, client, screen).await,
        IncidentCommand::Fix(args) => steps::fix(args, client, screen).await,
        IncidentCommand::Close(args) => steps::close(args, client, screen).await,
        IncidentCommand::Assign(args) => steps::assign(args, client, screen).await,
        IncidentCommand::Note(args) => steps::note(args, client, screen).await,
        IncidentCommand::Rca(args) => steps::rca(args, client, screen).await,
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

/// Something that is done to an incident: the last word of its address, and how it is told when it is done.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    id: &'a str,
    what: &'a str,
    past: &'a str,
}

/// Does it, and tells where the incident stands now and what comes next.
async fn told(step: Step<'_>, body: &Value, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Step { id, what, past } = step;
    let answer = client.post(&["incidents", id, what], &[], Content::json(body)).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let incident: Incident = answer.read()?;
    let rest: IncidentRest = answer.read()?;
    screen.line(&format!("{id} {past}: is {}", escape::line(&incident.state)))?;
    if let Some((command, _)) = next_step(&incident, &rest) {
        screen.note(&format!("next: {command}"));
    }
    Ok(Outcome::Done)
}

/// The command that brings an incident on, and what it is for; none where nothing of it waits.
fn next_step(incident: &Incident, rest: &IncidentRest) -> Option<(String, &'static str)> {
    if incident.by_status.pending == 0 {
        return None;
    }
    let id = &incident.id;
    match &rest.next {
        Some(next) => Some((gate::command(&next.code, id)?, gate::purpose(&next.code))),
        None => Some((format!("lazaret redrive plan --incident {id}"), "plan a redrive")),
    }
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
