//! `lazaret outbox`: makes the table of a configured outbox in the application's own database.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lazaret_server::config::{Config, OutboxSource, Overrides};
use lazaret_sources::outbox::{Outbox, Step, ddl, script};
use serde_json::json;

use super::config;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen, escape};

#[derive(Subcommand, Debug)]
pub enum OutboxCommand {
    /// Create the table, indexes and triggers without blocking the application; keeps existing objects
    #[command(after_help = EXAMPLES)]
    Init(InitArgs),
}

const EXAMPLES: &str = "\
Examples:
  lazaret outbox init shop              as configured in [sources.shop]
  lazaret outbox init shop --print      print the statements for a migration";

#[derive(Args, Debug)]
pub struct InitArgs {
    /// Name of the source in the configuration
    source: String,
    /// Print the statements only
    #[arg(long)]
    print: bool,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn run(command: OutboxCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let OutboxCommand::Init(args) = command;
    let config = config::load(args.config, Overrides::default())?;
    let OutboxSource { outbox, .. } = find(&config, &args.source)?;
    if args.print {
        let statements = script(&ddl(outbox));
        match screen.format {
            Format::Json => screen.json(&json!({ "sql": statements }).to_string())?,
            Format::Text => screen.write(statements.as_bytes())?,
        }
        return Ok(Outcome::Done);
    }
    let made = Outbox::new(outbox.clone()).map_err(|error| Failure::failed(error.to_string()))?;
    let is_text = screen.format == Format::Text;
    let begins = |step: &Step| {
        if is_text {
            eprintln!("making {}", escape::line(&step.about));
        }
    };
    made.init(begins).await.map_err(|error| {
        let hint = match error.passes() {
            true => "run it again: existing objects are kept, incomplete indexes rebuilt",
            false => "the user of the source needs CREATE privileges; --print prints the statements for an administrator",
        };
        Failure::failed(error.to_string()).hint(hint)
    })?;
    let table = outbox.table.to_string();
    match screen.format {
        Format::Json => screen.json(&json!({ "table": table }).to_string())?,
        Format::Text => screen.line(&format!("{} is ready", escape::line(&table)))?,
    }
    Ok(Outcome::Done)
}

fn find<'a>(config: &'a Config, name: &str) -> anyhow::Result<&'a OutboxSource> {
    let outboxes = || config.sources.iter().filter_map(|(name, it)| Some((name, it.outbox.as_ref()?)));
    let found = outboxes().find(|(known, _)| *known == name).map(|(_, outbox)| outbox);
    found.ok_or_else(|| {
        let known: Vec<&str> = outboxes().map(|(name, _)| name.as_str()).collect();
        let hint = match known.as_slice() {
            [] => "add [sources.NAME] with kind = \"outbox\", url and table to lazaret.toml".to_owned(),
            known => format!("configured: {}", known.join(", ")),
        };
        Failure::misuse(format!("no outbox source named {name}")).hint(hint).into()
    })
}
