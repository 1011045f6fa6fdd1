//! `lazaret rules`: the replay rules of the server, what they did, and switching them.

use clap::{Args, Subcommand};

use crate::answers::rules::{Rule, Rules};
use crate::client::{Client, Content};
use crate::failure::Outcome;
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

const EXAMPLES: &str = "\
Examples:
  lazaret rules
  lazaret rules --json | jq '.items[] | select(.waiting > 0) | .name'
  lazaret rules disable nightly-timeouts

Rules are defined in the configuration ([[replay_rules]]). Enable and disable override it, also after a restart.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct RulesArgs {
    #[command(subcommand)]
    command: Option<RulesCommand>,
}

#[derive(Subcommand, Debug)]
enum RulesCommand {
    /// Enable a rule, overriding the configuration
    #[command(after_help = EXAMPLES_ENABLE)]
    Enable(RuleName),
    /// Disable a rule, overriding the configuration
    #[command(after_help = EXAMPLES_DISABLE)]
    Disable(RuleName),
}

const EXAMPLES_ENABLE: &str = "\
Examples:
  lazaret rules enable nightly-timeouts";

const EXAMPLES_DISABLE: &str = "\
Examples:
  lazaret rules disable nightly-timeouts";

#[derive(Args, Debug)]
struct RuleName {
    /// Rule name
    name: String,
}

pub async fn run(args: RulesArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match args.command {
        None => list(client, screen).await,
        Some(RulesCommand::Enable(RuleName { name })) => switch(&name, "enable", client, screen).await,
        Some(RulesCommand::Disable(RuleName { name })) => switch(&name, "disable", client, screen).await,
    }
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["rules", "replay"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let rules: Rules = answer.read()?;
    if rules.items.is_empty() {
        screen.note("no replay rules: define them under [[replay_rules]] in the configuration");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&rules.items))?;
    for rule in &rules.items {
        if let Some(reason) = &rule.blocked {
            screen.note(&format!("{} is blocked: {}", escape::line(&rule.name), escape::line(reason)));
        }
    }
    Ok(Outcome::Done)
}

async fn switch(name: &str, verb: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let content = Content::json(&serde_json::json!({}));
    let answer = client.post(&["rules", "replay", name, verb], &[], content).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => screen.line(&format!("{} {verb}d", escape::line(name)))?,
    }
    Ok(Outcome::Done)
}

fn table(rules: &[Rule]) -> Table {
    let now = moment::now();
    let mut table = Table::new(vec![
        Column::whole("NAME"),
        Column::whole("ENABLED"),
        Column::whole("DELAY"),
        Column::number("MAX"),
        Column::number("WAITING"),
        Column::number("REPLAYED"),
        Column::whole("LAST"),
        Column::cut("CAUSE").left_out(1),
    ]);
    for rule in rules {
        let more = if rule.waiting_is_at_least { "+" } else { "" };
        table.row(vec![
            rule.name.as_str().into(),
            enabled(rule).into(),
            rule.delay.as_str().into(),
            rule.max_replays.to_string().into(),
            format!("{}{more}", rule.waiting).into(),
            rule.replayed.to_string().into(),
            rule.last_replayed_at.as_ref().map_or("–".to_owned(), |at| moment::ago(at, now)).into(),
            (&rule.cause).into(),
        ]);
    }
    table
}

fn enabled(rule: &Rule) -> String {
    let word = match (rule.enabled, &rule.blocked) {
        (true, Some(_)) => "blocked",
        (true, None) => "yes",
        (false, _) => "no",
    };
    match rule.enabled_by.as_str() {
        "switch" => format!("{word} (switched)"),
        _ => word.to_owned(),
    }
}
