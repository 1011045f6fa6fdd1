//! `lazaret audit`: who decided what, and why; and whether that is as it was written.

mod verify;

use clap::{Args, Subcommand};

use crate::answers::{AuditEntry, AuditPage};
use crate::args::UrlFrom;
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, moment, shell_word};

const EXAMPLES: &str = "\
Examples:
  lazaret audit
  lazaret audit --limit 200
  lazaret audit --letter 019a8b1c-7e00-7000-8000-000000000000
  lazaret audit --actor anna --action discard
  lazaret audit verify                          verify integrity
  lazaret audit --json | jq -r '.items[] | [.at, .actor, .action, .reason] | @tsv'";

#[derive(Subcommand, Debug)]
enum AuditCommand {
    /// Verify that no entry was changed, removed or inserted; exit code 1 on a fault
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,

    /// Number of entries
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,

    /// Entries before this position
    #[arg(long, value_name = "POSITION")]
    before: Option<u64>,

    /// Entries of this letter; bulk actions are logged with their filter instead
    #[arg(long, value_name = "ID")]
    letter: Option<String>,

    /// Entries of this incident
    #[arg(long, value_name = "ID")]
    incident: Option<String>,

    /// Entries of this redrive
    #[arg(long, value_name = "ID")]
    redrive: Option<String>,

    /// Entries by this actor, exact name
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,

    /// Entries with this action, such as discard or letter.revealed
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
}

pub async fn run(
    args: AuditArgs,
    url_from: UrlFrom,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    if let Some(AuditCommand::Verify(args)) = args.command {
        return verify::run(args, url_from, client, screen).await;
    }
    let limit = args.limit.to_string();
    let before = args.before.map(|before| before.to_string());
    let mut query = vec![("limit", limit.as_str())];
    let wanted = [
        ("letter", &args.letter),
        ("incident", &args.incident),
        ("redrive", &args.redrive),
        ("actor", &args.actor),
        ("action", &args.action),
    ];
    let wanted = wanted.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    query.extend(wanted.clone());
    query.extend(before.as_ref().map(|before| ("before", before.as_str())));
    let answer = client.get(&["audit"], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let page: AuditPage = answer.read()?;
    if page.items.is_empty() {
        let is_narrow = wanted.clone().next().is_some();
        screen.note(if is_narrow { "no matching entries" } else { "no entries yet" });
        return Ok(Outcome::Done);
    }
    screen.table(&table(&page.items))?;
    if let Some(before) = page.next_before {
        let narrow: String = wanted.map(|(name, value)| format!(" --{name} {}", shell_word(value))).collect();
        screen.note(&format!("older: lazaret audit --limit {limit}{narrow} --before {before}"));
    }
    Ok(Outcome::Done)
}

fn table(entries: &[AuditEntry]) -> Table {
    let mut table = Table::new(vec![
        Column::whole("AT"),
        Column::cut("ACTOR"),
        Column::whole("ROLE").left_out(1),
        Column::whole("ACTION"),
        Column::number("LETTERS"),
        Column::cut("OBJECT"),
        Column::cut("REASON"),
    ]);
    for entry in entries {
        table.row(vec![
            entry.at.as_str().into(),
            entry.actor.as_str().into(),
            (&entry.role).into(),
            entry.action.as_str().into(),
            moment::count(entry.count).into(),
            which(entry).into(),
            (&entry.reason).into(),
        ]);
    }
    table
}

/// What a decision was about: a letter, an incident, a filter, letters of a redrive, or everything.
fn which(entry: &AuditEntry) -> &str {
    if let (None, Some(incident)) = (&entry.letter_id, &entry.incident_id) {
        return incident;
    }
    if let (None, Some(redrive), None | Some("")) =
        (&entry.letter_id, &entry.redrive_id, entry.filter.as_deref())
    {
        return redrive;
    }
    match (&entry.letter_id, entry.filter.as_deref(), &entry.operation_id) {
        (Some(letter), _, _) => letter,
        (None, Some(""), _) | (None, None, Some(_)) => "all letters",
        (None, Some(filter), _) => filter,
        (None, None, None) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Colour;

    #[test]
    fn decisions_are_listed_with_actor_and_reason() {
        let entry = |json| serde_json::from_value::<AuditEntry>(json).unwrap();
        let entries = [
            entry(serde_json::json!({
                "at": "2025-11-15T03:00:00.000Z", "actor": "anna", "role": "operator", "action": "discard",
                "operationId": "019a8b1c-7e00-7000-8000-000000000009", "filter": "queue:billing",
                "count": 412, "reason": "test data",
            })),
            entry(serde_json::json!({
                "at": "2025-11-15T02:00:00.000Z", "actor": "loopback", "role": "admin", "action": "hold",
                "letterId": "019a8b1c-7e00-7000-8000-000000000000", "count": 1, "reason": "case\n12",
            })),
        ];
        insta::assert_snapshot!(table(&entries).render(None, Colour::Off));
    }
}
