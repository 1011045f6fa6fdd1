//! `lazaret queues`: what waits where, and which queues give nothing out.

use clap::{Args, Subcommand};
use lazaret_core::job::state::JobState;
use serde_json::json;

use super::paged;
use crate::answers::job::Queue;
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret queues
  lazaret queues pause mails
  lazaret queues --json | jq '.items[] | select(.paused) | .name'";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
}

#[derive(Subcommand, Debug)]
enum QueuesCommand {
    /// Pause a queue: accepts jobs, delivers none
    #[command(after_help = EXAMPLES_PAUSE)]
    Pause(QueueArgs),
    /// Resume a queue
    #[command(after_help = EXAMPLES_RESUME)]
    Resume(QueueArgs),
}

const EXAMPLES_PAUSE: &str = "\
Examples:
  lazaret queues pause mails";

const EXAMPLES_RESUME: &str = "\
Examples:
  lazaret queues resume mails";

#[derive(Args, Debug)]
struct QueueArgs {
    /// Queue name
    name: String,
}

pub async fn run(args: QueuesArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(client, screen).await,
        Some(QueuesCommand::Pause(args)) => set(&args.name, "pause", client, screen).await,
        Some(QueuesCommand::Resume(args)) => set(&args.name, "resume", client, screen).await,
    }
}

async fn set(name: &str, verb: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.post_ojs(&["admin", "queues", name, verb], Content::json(&json!({}))).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => screen.line(&escape::line(&format!("{name} {verb}d")))?,
    }
    Ok(Outcome::Done)
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Some(queues) = paged::all::<Queue>(&["admin", "queues"], client, screen).await? else {
        return Ok(Outcome::Done);
    };
    if queues.is_empty() {
        screen.note("no queues: the first job creates one");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&queues))?;
    let paused = queues.iter().filter(|queue| queue.paused).count();
    if paused > 0 {
        screen.note(&format!("{paused} paused; resume with `lazaret queues resume NAME`"));
    }
    Ok(Outcome::Done)
}

/// The states whose jobs still have a way to go stand first, and the others are the first to be left out.
const SHOWN: [(JobState, &str, Option<u8>); 8] = [
    (JobState::Available, "AVAILABLE", None),
    (JobState::Active, "ACTIVE", None),
    (JobState::Retryable, "RETRYABLE", Some(6)),
    (JobState::Scheduled, "SCHEDULED", Some(5)),
    (JobState::Pending, "PENDING", Some(4)),
    (JobState::Discarded, "DISCARDED", Some(3)),
    (JobState::Completed, "COMPLETED", Some(2)),
    (JobState::Cancelled, "CANCELLED", Some(1)),
];

fn table(queues: &[Queue]) -> Table {
    let mut columns = vec![Column::cut_to("QUEUE", 16), Column::whole("STATUS")];
    columns.extend(SHOWN.map(|(_, title, rank)| match rank {
        Some(rank) => Column::number(title).left_out(rank),
        None => Column::number(title),
    }));
    let mut table = Table::new(columns);
    for queue in queues {
        let status = Cell::painted(&queue.status, queue.paused.then_some(Paint::Yellow));
        let mut row = vec![Cell::painted(&queue.name, Some(Paint::Bold)), status];
        row.extend(SHOWN.map(|(state, _, _)| moment::count(queue.count(state.name())).into()));
        table.row(row);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn queues_are_listed_with_their_depths() {
        let queue = |json| serde_json::from_value::<Queue>(json).unwrap();
        let queues = [
            queue(json!({"name": "mails", "status": "active", "paused": false,
                "counts": {"available": 12431, "active": 10, "completed": 7}})),
            queue(
                json!({"name": "x\u{1b}[2J", "status": "paused", "paused": true, "counts": {"scheduled": 1}}),
            ),
        ];
        insta::assert_snapshot!("queues_no_terminal", table(&queues).render(None, Colour::Off));
        insta::assert_snapshot!("queues_60_columns", table(&queues).render(Some(60), Colour::Off));
    }
}
