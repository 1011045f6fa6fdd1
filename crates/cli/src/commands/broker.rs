//! `lazaret jetstream` and `lazaret rabbitmq`: declare what a source needs at its broker, and find dead-letter queues there.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lazaret_server::config::{Config, Overrides, SourceConfig, SourceKind};
use lazaret_sources::jetstream::JetStream;
use lazaret_sources::rabbitmq::RabbitMq;
use lazaret_sources::{Change, ChangeKind, Declare, FoundQueue, Source};
use serde_json::json;

use super::config;
use crate::failure::{Failure, Outcome};
use crate::output::table::{Cell, Column, Table};
use crate::output::{Format, Paint, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum JetStreamCommand {
    /// Create streams, consumers and retry policies as configured, and show changes
    #[command(after_help = APPLY_JETSTREAM)]
    Apply(ApplyArgs),
}

#[derive(Subcommand, Debug)]
pub enum RabbitMqCommand {
    /// Create the queues of a source as configured, and show changes
    #[command(after_help = APPLY_RABBITMQ)]
    Apply(ApplyArgs),
    /// List dead-letter queues with depth, rates and the configuration to capture them
    #[command(after_help = DISCOVER)]
    Discover(DiscoverArgs),
}

const APPLY_JETSTREAM: &str = "\
Examples:
  lazaret jetstream apply nats --dry-run    show what differs from [sources.nats] in lazaret.toml
  lazaret jetstream apply nats              apply the changes

Exit code 1 if a difference cannot be applied.";

const APPLY_RABBITMQ: &str = "\
Examples:
  lazaret rabbitmq apply shop --dry-run     show what differs from [sources.shop] in lazaret.toml
  lazaret rabbitmq apply shop               apply the changes

Exit code 1 if a difference cannot be applied.";

const DISCOVER: &str = "\
Examples:
  lazaret rabbitmq discover shop            dead-letter queues of the virtual host of [sources.shop]

Requires management.url and a user with the tag management or monitoring.";

#[derive(Args, Debug)]
pub struct ApplyArgs {
    /// Name of the source in the configuration
    source: String,
    /// Show changes without applying them
    #[arg(long)]
    dry_run: bool,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct DiscoverArgs {
    /// Name of the source in the configuration
    source: String,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn run_jetstream(command: JetStreamCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let JetStreamCommand::Apply(args) = command;
    let config = config::load(args.config.clone(), Overrides::default())?;
    let source = configured(&config, &args.source, SourceKind::JetStream, |it| it.jetstream.as_ref())?;
    apply(&JetStream::new(source.clone())?, &args, screen).await
}

pub async fn run_rabbitmq(command: RabbitMqCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let (name, file) = match &command {
        RabbitMqCommand::Apply(args) => (&args.source, &args.config),
        RabbitMqCommand::Discover(args) => (&args.source, &args.config),
    };
    let config = config::load(file.clone(), Overrides::default())?;
    let source = configured(&config, name, SourceKind::RabbitMq, |it| it.rabbitmq.as_ref())?;
    let source = RabbitMq::new(source.clone())?;
    match &command {
        RabbitMqCommand::Apply(args) => apply(&source, args, screen).await,
        RabbitMqCommand::Discover(args) => discover(&source, &args.source, screen).await,
    }
}

/// The settings of a source of this kind.
fn configured<'a, T>(
    config: &'a Config,
    name: &str,
    kind: SourceKind,
    settings: impl Fn(&'a SourceConfig) -> Option<&'a T>,
) -> anyhow::Result<&'a T> {
    if let Some(found) = config.sources.get(name).and_then(&settings) {
        return Ok(found);
    }
    let known = config.sources.iter().filter(|(_, source)| settings(source).is_some());
    let known: Vec<&str> = known.map(|(name, _)| name.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let (name, title, kind) = (escape::line(name), kind.title(), kind.name());
    Err(Failure::failed(format!("no {title} source named {name}"))
        .hint(format!("configured: {known}; a {title} source has kind = \"{kind}\""))
        .into())
}

async fn apply(source: &impl Source, args: &ApplyArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let how = if args.dry_run { Declare::DryRun } else { Declare::Apply };
    let changes = source.declare(how).await?;
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
        (0, _) => "no differences".to_owned(),
        (1, true) => "1 difference; nothing was changed (dry run)".to_owned(),
        (count, true) => format!("{count} differences; nothing was changed (dry run)"),
        (_, false) => {
            let made = changes.iter().filter(|change| !matches!(change.kind, ChangeKind::Blocked(_))).count();
            format!("{made} of {} applied", changes.len())
        }
    };
    screen.note(&told);
    Ok(())
}

async fn discover(source: &impl Source, name: &str, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Some(found) = source.discover().await? else {
        return Err(Failure::failed(format!("{} has no management API configured", escape::line(name)))
            .hint(format!("set management.url under [sources.{name}], such as http://127.0.0.1:15672"))
            .into());
    };
    if screen.format == Format::Json {
        let items: Vec<_> = found.iter().map(queue_body).collect();
        screen.json(&json!({"source": name, "items": items}).to_string())?;
        return Ok(Outcome::Done);
    }
    screen.table(&queues(&found))?;
    let missing: Vec<&FoundQueue> = found.iter().filter(|queue| !queue.is_captured).collect();
    if found.is_empty() {
        screen.note("no dead-letter queues found in this virtual host");
    } else if missing.is_empty() {
        screen.note("all of them are configured");
    } else {
        screen.note("to capture the others, add to the configuration:");
        for queue in missing {
            screen.note("");
            screen.note(&suggestion(name, queue));
        }
    }
    Ok(Outcome::Done)
}

fn queue_body(queue: &FoundQueue) -> serde_json::Value {
    json!({
        "queue": queue.name, "depth": queue.depth, "publishRate": queue.publish_rate,
        "deliverRate": queue.deliver_rate, "consumers": queue.consumers, "fedBy": queue.fed_by,
        "captured": queue.is_captured,
    })
}

fn queues(found: &[FoundQueue]) -> Table {
    let mut table = Table::new(vec![
        Column::cut_to("QUEUE", 20),
        Column::number("MESSAGES"),
        Column::number("IN/S"),
        Column::number("OUT/S"),
        Column::number("CONSUMERS").left_out(2),
        Column::whole("CAPTURED"),
        Column::cut_to("FED BY", 16).left_out(1),
    ]);
    for queue in found {
        table.row(vec![
            Cell::painted(&queue.name, Some(Paint::Bold)),
            queue.depth.map(moment::count).unwrap_or_default().into(),
            format!("{:.1}", queue.publish_rate).into(),
            format!("{:.1}", queue.deliver_rate).into(),
            queue.consumers.map(moment::count).unwrap_or_default().into(),
            match queue.is_captured {
                true => Cell::painted("yes", Some(Paint::Green)),
                false => Cell::painted("no", Some(Paint::Yellow)),
            },
            queue.fed_by.join(", ").into(),
        ]);
    }
    table
}

/// The lines of `lazaret.toml` that capture a queue.
fn suggestion(source: &str, queue: &FoundQueue) -> String {
    // A TOML string escapes as a JSON string does.
    let text = |text: &str| json!(text).to_string();
    let mut lines = format!("[[sources.{source}.dead_letter_queues]]\nqueue = {}", text(&queue.name));
    if let [only] = queue.fed_by.as_slice() {
        lines.push_str(&format!("\noriginal_queue = {}", text(only)));
    }
    lines
}
