//! `lazaret jetstream`: declares the streams and consumers of a JetStream source.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lazaret_server::config::Overrides;
use lazaret_sources::jetstream::JetStream;
use lazaret_sources::{Change, ChangeKind, Declare, Source};
use serde_json::json;

use super::config;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Paint, Screen, escape};

#[derive(Subcommand, Debug)]
pub enum JetStreamCommand {
    /// Make streams, consumers and retry policies as configured, and show what changed
    #[command(after_help = EXAMPLES)]
    Apply(ApplyArgs),
}

const EXAMPLES: &str = "\
Examples:
  lazaret jetstream apply nats --dry-run    show what differs from [sources.nats] in lazaret.toml
  lazaret jetstream apply nats              make it so

Ends with status 1 if something cannot be made as configured.";

#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// The source, as it is configured
    source: String,
    /// Show the changes and make none
    #[arg(long)]
    dry_run: bool,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn run(command: JetStreamCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let JetStreamCommand::Apply(args) = command;
    let config = config::load(args.config, Overrides::default())?;
    let source = config.sources.get(&args.source).and_then(|source| source.jetstream.as_ref());
    let Some(source) = source else {
        let known = config.sources.iter().filter(|(_, source)| source.jetstream.is_some());
        let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let name = escape::line(&args.source);
        return Err(Failure::failed(format!("no JetStream source is called {name}"))
            .hint(format!("configured: {known}; a JetStream source has kind = \"jetstream\""))
            .into());
    };
    let how = if args.dry_run { Declare::DryRun } else { Declare::Apply };
    let changes = JetStream::new(source.clone())?.declare(how).await?;
    match screen.format {
        Format::Json => {
            let changes: Vec<_> = changes.iter().map(body).collect();
            screen.json(
                &json!({"source": args.source, "applied": !args.dry_run, "changes": changes}).to_string(),
            )?;
        }
        Format::Text => show(&changes, args.dry_run, screen)?,
    }
    let blocked = changes.iter().filter(|change| matches!(change.kind, ChangeKind::Blocked(_))).count();
    match blocked {
        0 => Ok(Outcome::Done),
        1 => Err(Failure::failed("1 difference cannot be changed".to_owned()).into()),
        more => Err(Failure::failed(format!("{more} differences cannot be changed")).into()),
    }
}

fn body(change: &Change) -> serde_json::Value {
    let mut body = json!({"subject": change.subject, "kind": change.kind.name(), "details": change.details});
    if let ChangeKind::Blocked(why) = &change.kind {
        body["reason"] = why.as_str().into();
    }
    body
}

fn show(changes: &[Change], dry_run: bool, screen: &mut Screen) -> anyhow::Result<()> {
    for change in changes {
        let (mark, paint) = match &change.kind {
            ChangeKind::Create => ("+", Paint::Green),
            ChangeKind::Update => ("~", Paint::Yellow),
            ChangeKind::Blocked(_) => ("!", Paint::Red),
        };
        let subject = escape::line(&change.subject);
        screen.line(&format!("{} {subject}", screen.paint(paint, mark)))?;
        if let ChangeKind::Blocked(why) = &change.kind {
            screen.line(&format!("    cannot be changed: {}", escape::line(why)))?;
        }
        for detail in &change.details {
            screen.line(&format!("    {}", escape::line(detail)))?;
        }
    }
    let told = match (changes.len(), dry_run) {
        (0, _) => "everything is as configured".to_owned(),
        (1, true) => "1 difference; nothing was changed (dry run)".to_owned(),
        (count, true) => format!("{count} differences; nothing was changed (dry run)"),
        (_, false) => {
            let made = changes.iter().filter(|change| !matches!(change.kind, ChangeKind::Blocked(_))).count();
            format!("{made} of {} made as configured", changes.len())
        }
    };
    screen.note(&told);
    Ok(())
}
