//! `lazaret alerts`: what fires, taking care of it, silences, and test notifications.

use clap::{Args, Subcommand};
use lazaret_core::id::{AlertId, SilenceId};
use serde_json::json;

use crate::answers::alert::{Alerts, Notifications, Silence, Silences};
use crate::client::{Client, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum AlertsCommand {
    /// List alerts, firing ones first
    #[command(after_help = EXAMPLES_LIST)]
    List,
    /// Acknowledge a firing alert: its notification is not repeated
    #[command(after_help = EXAMPLES_ACK)]
    Ack(AckArgs),
    /// Silence alerts that match
    #[command(after_help = EXAMPLES_SILENCE)]
    Silence(SilenceArgs),
    /// List silences in force and to come
    #[command(after_help = EXAMPLES_SILENCES)]
    Silences,
    /// End a silence
    #[command(after_help = EXAMPLES_UNSILENCE)]
    Unsilence(UnsilenceArgs),
    /// Send a test notification to one receiver, or to all of them
    #[command(after_help = EXAMPLES_TEST)]
    Test(TestArgs),
    /// List the newest notifications
    #[command(after_help = EXAMPLES_NOTIFICATIONS)]
    Notifications,
}

const EXAMPLES_LIST: &str = "\
Examples:
  lazaret alerts list
  lazaret alerts list --json | jq -r '.items[] | select(.state == \"firing\") | .summary'

Rules, routes and receivers are made in the configuration ([alerts]).";

const EXAMPLES_ACK: &str = "\
Examples:
  lazaret alerts ack 019a8b1c-7e00-7000-8000-000000000009 --reason 'looking into it'";

const EXAMPLES_SILENCE: &str = "\
Examples:
  lazaret alerts silence 'source=billing' --until 2h --reason 'planned maintenance'
  lazaret alerts silence 'rule=spike type=mail.*' --from 2026-12-01T22:00:00Z --until 2026-12-02T04:00:00Z --reason 'campaign'";

const EXAMPLES_SILENCES: &str = "\
Examples:
  lazaret alerts silences";

const EXAMPLES_UNSILENCE: &str = "\
Examples:
  lazaret alerts unsilence 019a8b1c-7e00-7000-8000-000000000009";

const EXAMPLES_TEST: &str = "\
Examples:
  lazaret alerts test
  lazaret alerts test ops";

const EXAMPLES_NOTIFICATIONS: &str = "\
Examples:
  lazaret alerts notifications";

#[derive(Args, Debug)]
pub struct AckArgs {
    /// The alert, as `lazaret alerts list` shows it
    #[arg(value_name = "ID", value_parser = AlertId::parse)]
    id: AlertId,

    /// What is being done about it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args, Debug)]
pub struct SilenceArgs {
    /// Labels and patterns, such as 'source=billing type=invoice.*'
    #[arg(value_name = "MATCHERS")]
    matchers: String,

    /// When it ends: a time, or a length from now such as 2h
    #[arg(long, value_name = "WHEN")]
    until: String,

    /// When it begins: a time, or a length from now
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,

    /// Why, for whoever wonders that nobody was notified
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Args, Debug)]
pub struct UnsilenceArgs {
    /// The silence, as `lazaret alerts silences` shows it
    #[arg(value_name = "ID", value_parser = SilenceId::parse)]
    id: SilenceId,
}

#[derive(Args, Debug)]
pub struct TestArgs {
    /// The receiver; all of them unless given
    receiver: Option<String>,
}

pub async fn run(command: AlertsCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        AlertsCommand::List => list(client, screen).await,
        AlertsCommand::Ack(args) => acknowledge(args, client, screen).await,
        AlertsCommand::Silence(args) => silence(args, client, screen).await,
        AlertsCommand::Silences => silences(client, screen).await,
        AlertsCommand::Unsilence(UnsilenceArgs { id }) => {
            client.delete(&["silences", &id.to_string()]).await?;
            screen.note(&format!("silence {id} ended"));
            Ok(Outcome::Done)
        }
        AlertsCommand::Test(args) => test(args, client, screen).await,
        AlertsCommand::Notifications => {
            let answer = client.get(&["notifications"], &[]).await?;
            if screen.format == Format::Json {
                screen.json(answer.text()?)?;
                return Ok(Outcome::Done);
            }
            let sent: Notifications = answer.read()?;
            show_notifications(&sent, screen)?;
            Ok(Outcome::Done)
        }
    }
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["alerts"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let alerts: Alerts = answer.read()?;
    if alerts.items.is_empty() {
        screen.note("no alerts");
        return Ok(Outcome::Done);
    }
    let now = moment::now();
    let mut table = Table::new(vec![
        Column::whole("ID").left_out(3),
        Column::whole("STATE"),
        Column::whole("SEVERITY"),
        Column::whole("RULE"),
        Column::number("COUNT").left_out(2),
        Column::whole("SINCE"),
        Column::cut("BY").left_out(1),
        Column::cut("SUMMARY"),
    ]);
    for alert in &alerts.items {
        let since = alert.fired_at.as_ref().unwrap_or(&alert.since);
        table.row(vec![
            alert.id.as_str().into(),
            alert.state.as_str().into(),
            alert.severity.as_str().into(),
            alert.rule.as_str().into(),
            alert.count.to_string().into(),
            moment::ago(since, now).into(),
            (&alert.acknowledged_by).into(),
            alert.summary.as_str().into(),
        ]);
    }
    screen.table(&table)?;
    Ok(Outcome::Done)
}

async fn acknowledge(args: AckArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let content = Content::json(&json!({ "reason": args.reason }));
    let answer = client.post(&["alerts", &id, "acknowledge"], &[], content).await?;
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => screen.line(&format!("{id} acknowledged"))?,
    }
    Ok(Outcome::Done)
}

async fn silence(args: SilenceArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let SilenceArgs { matchers, until, from, reason } = args;
    let wanted = json!({ "matchers": matchers, "until": until, "from": from, "reason": reason });
    let answer = client.post(&["silences"], &[], Content::json(&wanted)).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let silence: Silence = answer.read()?;
    screen.line(&format!(
        "silence {} until {}",
        escape::line(&silence.id),
        escape::line(&silence.ends_at)
    ))?;
    Ok(Outcome::Done)
}

async fn silences(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["silences"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let silences: Silences = answer.read()?;
    if silences.items.is_empty() {
        screen.note("no silences");
        return Ok(Outcome::Done);
    }
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::whole("FROM").left_out(2),
        Column::whole("UNTIL"),
        Column::cut("BY").left_out(1),
        Column::cut("MATCHERS"),
        Column::cut("REASON").left_out(3),
    ]);
    for silence in &silences.items {
        table.row(vec![
            silence.id.as_str().into(),
            silence.starts_at.as_str().into(),
            silence.ends_at.as_str().into(),
            silence.created_by.as_str().into(),
            silence.matchers.as_str().into(),
            silence.reason.as_str().into(),
        ]);
    }
    screen.table(&table)?;
    Ok(Outcome::Done)
}

async fn test(args: TestArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let content = Content::json(&json!({ "receiver": args.receiver }));
    let answer = client.post(&["alerts", "test"], &[], content).await?;
    let text = answer.text()?.to_owned();
    let sent: Notifications = answer.read()?;
    match screen.format {
        Format::Json => screen.json(&text)?,
        Format::Text => show_notifications(&sent, screen)?,
    }
    let undelivered = sent.items.iter().filter(|one| one.state != "delivered").count();
    if undelivered > 0 {
        let message = format!("{undelivered} of {} receivers were not reached", sent.items.len());
        return Err(Failure::failed(message)
            .hint("the error above says why; it is retried with backoff")
            .into());
    }
    Ok(Outcome::Done)
}

fn show_notifications(sent: &Notifications, screen: &mut Screen) -> anyhow::Result<()> {
    let mut table = Table::new(vec![
        Column::whole("RECEIVER"),
        Column::whole("STATE"),
        Column::number("ATTEMPTS"),
        Column::cut("TITLE").left_out(1),
        Column::cut("ERROR"),
    ]);
    for one in &sent.items {
        table.row(vec![
            one.receiver.as_str().into(),
            one.state.as_str().into(),
            one.attempts.to_string().into(),
            one.title.as_str().into(),
            (&one.error).into(),
        ]);
    }
    screen.table(&table)?;
    Ok(())
}
