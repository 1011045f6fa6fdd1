//! `lazaret workers`: who works, what they hold, when they were last heard, and what they are told.

use clap::{Args, Subcommand};
use lazaret_core::time::Time;
use serde_json::json;

use super::paged;
use crate::answers::job::Worker;
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret workers
  lazaret workers quiet mailer-1            before a deployment
  lazaret workers --json | jq '.items[] | select(.state == \"stale\") | .id'";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct WorkersArgs {
    #[command(subcommand)]
    command: Option<WorkersCommand>,
}

#[derive(Subcommand, Debug)]
enum WorkersCommand {
    /// Quiet a worker: it finishes active jobs and fetches no new ones
    #[command(after_help = EXAMPLES_QUIET)]
    Quiet(WorkerArgs),
    /// Resume a quiet worker
    #[command(after_help = EXAMPLES_RESUME)]
    Resume(WorkerArgs),
    /// Terminate a worker: it finishes active jobs and exits; cannot be undone
    #[command(after_help = EXAMPLES_TERMINATE)]
    Terminate(WorkerArgs),
}

const EXAMPLES_QUIET: &str = "\
Examples:
  lazaret workers quiet mailer-1

Takes effect immediately: fetches return no jobs. The worker is notified with its next heartbeat.";

const EXAMPLES_RESUME: &str = "\
Examples:
  lazaret workers resume mailer-1";

const EXAMPLES_TERMINATE: &str = "\
Examples:
  lazaret workers terminate mailer-1

The worker is notified with its next heartbeat. A restarted worker is accepted again if its heartbeats include
pid, host or start time; otherwise start it under another name.";

#[derive(Args, Debug)]
struct WorkerArgs {
    /// Worker id
    name: String,
}

pub async fn run(args: WorkersArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(client, screen).await,
        Some(WorkersCommand::Quiet(args)) => tell(&args.name, "quiet", client, screen).await,
        Some(WorkersCommand::Resume(args)) => tell(&args.name, "resume", client, screen).await,
        Some(WorkersCommand::Terminate(args)) => tell(&args.name, "terminate", client, screen).await,
    }
}

async fn tell(name: &str, verb: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.post_ojs(&["admin", "workers", name, verb], Content::json(&json!({}))).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => {
            screen.line(&escape::line(&format!("{name}: {verb} with its next heartbeat")))?;
        }
    }
    Ok(Outcome::Done)
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Some(workers) = paged::all::<Worker>(&["admin", "workers"], client, screen).await? else {
        return Ok(Outcome::Done);
    };
    if workers.is_empty() {
        screen.note("no workers: a worker is listed after its first heartbeat");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&workers, moment::now()))?;
    Ok(Outcome::Done)
}

fn table(workers: &[Worker], now: Time) -> Table {
    let mut table = Table::new(vec![
        Column::cut_to("WORKER", 16),
        Column::whole("STATE"),
        Column::whole("REQUESTED").left_out(4),
        Column::cut("HOST").left_out(3),
        Column::number("PID").left_out(1),
        Column::cut("QUEUES").left_out(5),
        Column::number("ACTIVE"),
        Column::whole("HEARTBEAT"),
        Column::whole("SINCE").left_out(2),
    ]);
    for worker in workers {
        let ago = |at: &Option<String>| at.as_ref().map_or("never".to_owned(), |at| moment::ago(at, now));
        table.row(vec![
            Cell::painted(&worker.id, Some(Paint::Bold)),
            Cell::painted(&worker.state, paint(&worker.state)),
            worker.wished.as_str().into(),
            (&worker.hostname).into(),
            worker.pid.map_or(String::new(), |pid| pid.to_string()).into(),
            worker.queues.join(", ").into(),
            holds(worker).into(),
            ago(&worker.last_heartbeat_at).into(),
            worker.started_at.as_ref().map_or(String::new(), |at| moment::ago(at, now)).into(),
        ]);
    }
    table
}

/// Jobs that it holds, of how many it says it can.
fn holds(worker: &Worker) -> String {
    match worker.concurrency {
        Some(most) => format!("{}/{most}", worker.active_jobs),
        None => worker.active_jobs.to_string(),
    }
}

fn paint(state: &str) -> Option<Paint> {
    match state {
        "running" => Some(Paint::Green),
        "quiet" | "terminate" => Some(Paint::Yellow),
        "stale" => Some(Paint::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn workers_are_listed_with_what_they_hold() {
        let worker = |json| serde_json::from_value::<Worker>(json).unwrap();
        let workers = [
            worker(json!({
                "id": "mailer-1", "hostname": "shop-07\u{1b}[2J", "pid": 4711, "state": "running",
                "wished": "running", "queues": ["mails", "invoices"], "concurrency": 10, "active_jobs": 3,
                "started_at": "2025-11-15T01:00:00.000Z", "last_heartbeat_at": "2025-11-15T02:59:57.000Z",
            })),
            worker(json!({"id": "x", "state": "stale", "wished": "quiet", "active_jobs": 1})),
        ];
        let now = Time::parse("2025-11-15T03:00:00Z").unwrap();
        insta::assert_snapshot!("workers_no_terminal", table(&workers, now).render(None, Colour::Off));
        insta::assert_snapshot!("workers_80_columns", table(&workers, now).render(Some(80), Colour::Off));
    }
}
