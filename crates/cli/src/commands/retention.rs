//! `lazaret retention`: how long letters stay, queue by queue, and where each setting comes from.

use clap::Args;
use serde_json::Value;

use crate::answers::retention::{Count, Queue, Retention, Scope, Setting};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret retention
  lazaret retention --source jobs
  lazaret retention --queue billing --json | jq '.queues[0].maxAge'
  lazaret prune --dry-run                       preview pruning

Letters over max_age, and the oldest over max_count, are pruned: younger than min_age always to the archive, older \
ones according to pruning_policy. Held letters are kept. Origin of a value: (q) queue, (s) source, (g) [retention]; \
no mark: default.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RetentionArgs {
    /// Source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
}

pub async fn run(args: RetentionArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let mut query = Vec::new();
    query.extend(args.source.as_deref().map(|source| ("source", source)));
    query.extend(args.queue.as_deref().map(|queue| ("queue", queue)));
    let answer = client.get(&["retention"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let retention: Retention = answer.read()?;
    if retention.queues.is_empty() {
        screen.note("no matching queue");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&retention.queues))?;
    for line in notes(&retention) {
        screen.note(&escape::line(&line));
    }
    Ok(Outcome::Done)
}

fn table(queues: &[Queue]) -> Table {
    let mut table = Table::new(vec![
        Column::cut("SOURCE"),
        Column::cut("QUEUE"),
        Column::number("PENDING"),
        Column::number("HELD").left_out(1),
        Column::whole("MAX AGE"),
        Column::whole("MAX COUNT"),
        Column::whole("COUNTED WITH").left_out(2),
        Column::whole("MIN AGE"),
        Column::whole("POLICY"),
        Column::whole("RESOLVED").left_out(4),
        Column::whole("DISCARDED").left_out(3),
    ]);
    for queue in queues {
        table.row(vec![
            queue.source.as_str().into(),
            queue.queue.as_str().into(),
            moment::count(queue.letters.get("pending").copied().unwrap_or(0)).into(),
            moment::count(queue.held).into(),
            told(&queue.max_age).into(),
            told(&queue.max_count).into(),
            queue.counted_with.as_deref().map_or("–", counted_with).into(),
            told(&queue.min_age).into(),
            told(&queue.pruning_policy).into(),
            told(&queue.resolved_max_age).into(),
            told(&queue.discarded_max_age).into(),
        ]);
    }
    table
}

fn counted_with(scope: &str) -> &str {
    match scope {
        "queue" => "itself",
        "source" => "its source",
        "global" => "all",
        other => other,
    }
}

/// A value, and a letter for where it comes from.
fn told(setting: &Setting) -> String {
    let value = match &setting.value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_u64().map_or(number.to_string(), moment::count),
        other => other.to_string(),
    };
    match setting.from.as_str() {
        "default" => value,
        from => format!("{value} ({})", from.chars().next().unwrap_or('?')),
    }
}

fn notes(retention: &Retention) -> Vec<String> {
    let mut notes = Vec::new();
    for queue in &retention.queues {
        notes.extend(queue.notes.iter().map(|note| format!("{} of {}: {note}", queue.queue, queue.source)));
    }
    for Count { scope, max_count, letters, held, unmet } in &retention.counts {
        if *unmet > 0 {
            notes.push(format!(
                "{}: {letters} letters, limit {max_count}, {held} held: {unmet} over the limit",
                scope_told(scope)
            ));
        }
    }
    if retention.more_queues > 0 {
        notes.push(format!(
            "{} more queues: filter with --source and --queue",
            moment::count(retention.more_queues)
        ));
    }
    notes.push(format!("next prune: {}", retention.next_prune_at));
    notes
}

/// What is counted together, for people.
pub fn scope_told(scope: &Scope) -> String {
    match (&scope.source, &scope.queue) {
        (Some(source), Some(queue)) => format!("{queue} of {source}"),
        (Some(source), None) => format!("queues of {source} together"),
        (None, _) => "all queues together".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    fn answer() -> Retention {
        let setting = |value: Value, from: &str| serde_json::json!({"value": value, "from": from});
        let age = setting("P180D".into(), "default");
        serde_json::from_value(serde_json::json!({
            "nextPruneAt": "2026-11-15T03:05:00.000Z",
            "queues": [{
                "source": "jobs", "queue": "mails", "maxAge": setting("P30D".into(), "queue"),
                "maxCount": setting(12_000.into(), "source"), "minAge": setting("P90D".into(), "default"),
                "pruningPolicy": setting("delete".into(), "global"), "resolvedMaxAge": age, "discardedMaxAge": age,
                "countedWith": "source", "letters": {"pending": 1234, "resolved": 3}, "held": 2,
                "notes": ["max_age is shorter than min_age"],
            }, {
                "source": "report", "queue": "report", "maxAge": age, "maxCount": setting(Value::Null, "default"),
                "minAge": setting("P90D".into(), "default"), "pruningPolicy": setting("archive".into(), "default"),
                "resolvedMaxAge": age, "discardedMaxAge": age, "letters": {}, "held": 0, "notes": [],
            }],
            "counts": [
                {"scope": "source", "source": "jobs", "maxCount": 1, "letters": 3, "held": 2, "unmet": 1},
                {"scope": "global", "maxCount": 9, "letters": 3, "held": 2, "unmet": 0},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn each_value_says_where_it_comes_from() {
        let text = table(&answer().queues).render(None, Colour::Off);
        let words = |line: usize| text.lines().nth(line).unwrap().split("  ").filter(|word| !word.is_empty());
        let told = |line: usize| words(line).map(str::trim).collect::<Vec<_>>();
        let mails =
            ["jobs", "mails", "1,234", "2", "P30D (q)", "12,000 (s)", "its source", "P90D", "delete (g)"];
        assert_eq!(told(1)[..9], mails, "{text}");
        let report =
            ["report", "report", "0", "0", "P180D", "none", "–", "P90D", "archive", "P180D", "P180D"];
        assert_eq!(told(2), report, "{text}");
    }

    #[test]
    fn what_may_surprise_stands_below() {
        let expected = [
            "mails of jobs: max_age is shorter than min_age",
            "queues of jobs together: 3 letters, limit 1, 2 held: 1 over the limit",
            "next prune: 2026-11-15T03:05:00.000Z",
        ];
        assert_eq!(notes(&answer()), expected);
    }
}
