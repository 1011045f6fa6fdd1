//! `lazaret doctor`: looks at the server and every source from outside, and says what to do.

use clap::Args;
use serde_json::Value;

use crate::answers::source::{Check, Finding, Sources};
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Paint, Screen, escape};

const EXAMPLES: &str = "\
Examples:
  lazaret doctor
  lazaret doctor shop
  lazaret doctor --json | jq '.[] | select(.level != \"ok\")'

Exit code 1 if a check fails.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Only this source
    source: Option<String>,
}

pub async fn run(args: DoctorArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let names = match args.source {
        Some(name) => vec![name],
        None => {
            let sources: Sources = client.get(&["sources"], &[]).await?.read()?;
            sources.items.into_iter().map(|source| source.name).collect()
        }
    };
    let (mut checks, mut raw) = (Vec::new(), Vec::new());
    for name in names {
        let answer = client.get(&["sources", &name, "check"], &[]).await?;
        raw.push(answer.read::<Value>()?);
        checks.push(answer.read::<Check>()?);
    }
    match screen.format {
        Format::Json => screen.json(&Value::Array(raw).to_string())?,
        Format::Text => {
            for check in &checks {
                show(check, screen)?;
            }
        }
    }
    let broken: Vec<&str> =
        checks.iter().filter(|check| check.level == "error").map(|check| check.source.as_str()).collect();
    if broken.is_empty() {
        return Ok(Outcome::Done);
    }
    Err(Failure::failed(format!("health check failed: {}", escape::line(&broken.join(", ")))).into())
}

fn show(check: &Check, screen: &mut Screen) -> anyhow::Result<()> {
    screen.line(&screen.paint(Paint::Bold, &escape::line(&check.source)))?;
    for Finding { level, what, hint } in &check.findings {
        let (mark, paint) = match level.as_str() {
            "ok" => ("ok  ", Paint::Green),
            "warning" => ("warn", Paint::Yellow),
            _ => ("FAIL", Paint::Red),
        };
        let mark = screen.paint(paint, mark);
        screen.line(&format!("  {mark}  {}", escape::line(what)))?;
        if let Some(hint) = hint {
            screen.line(&format!("        → {}", escape::line(hint)))?;
        }
    }
    Ok(())
}
