//! `lazaret prune`: takes away what is too old or too much, or says what would go.

use clap::Args;

use super::retention::scope_told;
use crate::answers::retention::{Pruned, PrunedQueue};
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret prune --dry-run                       preview pruning
  lazaret prune                                 prune now
  lazaret prune --dry-run --json | jq '[.archived, .deleted]'

The server prunes automatically every five minutes, see `lazaret retention`. Letters younger than min_age are \
archived, never deleted. Held letters are kept.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PruneArgs {
    /// Preview without removing letters
    #[arg(long)]
    dry_run: bool,
}

pub async fn run(args: PruneArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let content = Content::json(&serde_json::json!({"dryRun": args.dry_run}));
    let answer = client.post(&["prune"], &[], content).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let pruned: Pruned = answer.read()?;
    if !pruned.queues.is_empty() {
        screen.table(&table(&pruned.queues))?;
    }
    screen.line(&verdict(&pruned, args.dry_run))?;
    for unmet in &pruned.unmet {
        let (scope, letters) = (scope_told(&unmet.scope), moment::count(unmet.letters));
        screen.note(&escape::line(&format!("{scope}: {letters} over the limit kept: held")));
    }
    screen.note(&format!("next prune: {}", escape::line(&pruned.next_prune_at)));
    Ok(Outcome::Done)
}

fn table(queues: &[PrunedQueue]) -> Table {
    let now = moment::now();
    let is_dry = queues.iter().any(|queue| queue.why.is_some());
    let mut columns = vec![
        Column::cut("SOURCE"),
        Column::cut("QUEUE"),
        Column::whole("LIMIT"),
        Column::number("ARCHIVED"),
        Column::number("DELETED"),
    ];
    if is_dry {
        columns.extend([Column::whole("STATUS"), Column::whole("OLDEST").left_out(1), Column::cut("REASON")]);
    }
    let mut table = Table::new(columns);
    for queue in queues {
        let mut cells = vec![
            queue.source.as_str().into(),
            queue.queue.as_str().into(),
            queue.reason.as_str().into(),
            moment::count(queue.archived).into(),
            moment::count(queue.deleted).into(),
        ];
        if is_dry {
            let oldest = queue.oldest_at.as_ref().map_or(String::new(), |at| moment::ago(at, now));
            cells.extend([(&queue.status).into(), oldest.into(), (&queue.why).into()]);
        }
        table.row(cells);
    }
    table
}

fn verdict(pruned: &Pruned, dry_run: bool) -> String {
    let (archived, deleted) = (moment::count(pruned.archived), moment::count(pruned.deleted));
    match (dry_run, pruned.archived + pruned.deleted, pruned.complete) {
        (true, 0, _) => "no letters beyond their limits".to_owned(),
        (true, _, true) => format!("{archived} would be archived, {deleted} deleted"),
        (true, _, false) => format!("at least {archived} would be archived, {deleted} deleted"),
        (false, 0, true) => "no letters beyond their limits".to_owned(),
        (false, _, true) => format!("{archived} archived, {deleted} deleted"),
        (false, _, false) => {
            format!("{archived} archived, {deleted} deleted; the rest is pruned in the background")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_was_done_and_what_was_not() {
        let pruned = |archived, deleted, complete| Pruned {
            complete,
            archived,
            deleted,
            queues: Vec::new(),
            unmet: Vec::new(),
            next_prune_at: String::new(),
        };
        for (told, pruned, dry_run) in [
            ("no letters beyond their limits", pruned(0, 0, true), true),
            ("at least 1,000 would be archived, 0 deleted", pruned(1_000, 0, false), true),
            ("1 archived, 2 deleted", pruned(1, 2, true), false),
            ("1 archived, 2 deleted; the rest is pruned in the background", pruned(1, 2, false), false),
            ("no letters beyond their limits", pruned(0, 0, true), false),
        ] {
            assert_eq!(verdict(&pruned, dry_run), told);
        }
    }
}
