//! `lazaret jobs`: push, list, show and cancel jobs.

mod list;
mod page;
mod push;

use clap::{Args, Subcommand};
use lazaret_core::id::JobId;

use crate::answers::Page as LetterPage;
use crate::answers::job::Job;
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::{Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum JobsCommand {
    /// Enqueue a job; prints its id
    Push(push::PushArgs),
    /// List jobs, newest first
    Ls(list::JobsLsArgs),
    /// Show a job: state, attempts, errors and dead letter
    #[command(after_help = EXAMPLES_SHOW)]
    Show(JobArgs),
    /// Cancel an unfinished job
    #[command(after_help = EXAMPLES_CANCEL)]
    Cancel(JobArgs),
}

const EXAMPLES_SHOW: &str = "\
Examples:
  lazaret jobs show 019a8b1c-7e00-7000-8000-000000000000
  lazaret jobs show 019a8b1c-7e00-7000-8000-000000000000 --json | jq .errors";

const EXAMPLES_CANCEL: &str = "\
Examples:
  lazaret jobs cancel 019a8b1c-7e00-7000-8000-000000000000

If a worker runs the job, its result is rejected.";

#[derive(Args, Debug)]
pub struct JobArgs {
    /// Job id
    #[arg(value_parser = JobId::parse)]
    id: JobId,
}

pub async fn run(command: JobsCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        JobsCommand::Push(args) => push::run(args, client, screen).await,
        JobsCommand::Ls(args) => list::run(&args, client, screen).await,
        JobsCommand::Show(args) => show(&args, client, screen).await,
        JobsCommand::Cancel(args) => cancel(&args, client, screen).await,
    }
}

async fn show(args: &JobArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let answer = client.get_ojs(&["jobs", &id], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let job: Job = answer.read()?;
    let filter = format!("source:jobs event:{id}");
    let letters: LetterPage =
        client.get(&["dead-letters"], &[("q", filter.as_str()), ("limit", "1")]).await?.read()?;
    let text = page::page(&job, letters.items.first(), screen, moment::now());
    screen.write(text.as_bytes())?;
    Ok(Outcome::Done)
}

async fn cancel(args: &JobArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.delete_ojs(&["jobs", &args.id.to_string()]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let job: Job = answer.read()?;
    let was = job.previous_state.map(|state| format!(": was {state}")).unwrap_or_default();
    screen.line(&escape::line(&format!("{} {}{was}", job.id, job.state)))?;
    Ok(Outcome::Done)
}
