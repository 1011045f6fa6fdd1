//! `lazaret audit verify`: whether the audit log is as it was written. The server looks; where none runs on this machine,
//! the store is looked into without one.

use std::path::PathBuf;

use clap::Args;
use lazaret_server::audit::{self, AuditKey, Fault, Verdict};
use lazaret_server::config::{Config, Overrides, StoreUrl};
use lazaret_server::stores;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use crate::answers::redrive::{AuditFault, AuditVerdict};
use crate::args::Secret;
use crate::client::{Client, ClientError};
use crate::commands::{config, serve};
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Paint, Screen, escape, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret audit verify && echo untouched
  lazaret audit verify --json | jq .fault
  lazaret audit verify --data /var/lib/lazaret      when no server runs

Entries are linked by a key that lies outside the database: one that was changed, removed or put in between is found. \
The server at --url looks; when none runs on this machine, the store itself is looked into.
Exit code 1 when the log is not as it was written.";

#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Data folder to look into when no server runs
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store to look into when no server runs: postgres://…
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file that names the data folder, the store and the key
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub async fn run(args: VerifyArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let names_a_store = args.data.is_some() || args.store.is_some() || args.config.is_some();
    // Whoever names a store means that one, whatever server answers here.
    let asked = if names_a_store { None } else { Some(client.get(&["audit", "verify"], &[]).await) };
    let (verdict, text) = match asked {
        None => {
            let json = offline(args, screen).await?;
            (serde_json::from_value(json.clone())?, json.to_string())
        }
        Some(Ok(answer)) => (answer.read::<AuditVerdict>()?, answer.text()?.to_owned()),
        // Only for a server of this machine is the folder here the store that was meant.
        Some(Err(ClientError::Unreachable { .. })) if client.is_local() => {
            let json = offline(args, screen).await?;
            (serde_json::from_value(json.clone())?, json.to_string())
        }
        Some(Err(error)) => return Err(error.into()),
    };
    match screen.format {
        Format::Json => screen.json(&text)?,
        Format::Text => {
            let paint = if verdict.intact { Paint::Green } else { Paint::Red };
            screen.line(&screen.paint(paint, &told(&verdict)))?;
        }
    }
    Ok(if verdict.intact { Outcome::Done } else { Outcome::Incomplete })
}

/// Looks into the store itself, and answers as the server would.
async fn offline(args: VerifyArgs, screen: &Screen) -> anyhow::Result<serde_json::Value> {
    let overrides =
        Overrides { data: args.data, store: args.store.map(Secret::into_text), ..Overrides::default() };
    let mut config: Config = config::load(args.config, overrides)?;
    config.data = std::path::absolute(&config.data).unwrap_or(config.data);
    if config.store == StoreUrl::Embedded && !config.data.join("lazaret.db").is_file() {
        let message =
            format!("no server answers, and there is no store in {}", escape::line(&config.kept_in()));
        return Err(Failure::failed(message)
            .hint("name the server with --url, or its folder with --data")
            .into());
    }
    let key = AuditKey::read(&config).map_err(|error| {
        let hint = error.hint();
        let failure = Failure::failed(format!("{:#}", anyhow::Error::from(error)));
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    let opened = stores::open(&config, Mode::Real).await.map_err(serve::failed)?;
    screen.note(&format!("no server answers: looking into {}", escape::line(&config.kept_in())));
    let verdict = audit::verify(opened.store.as_ref(), &key).await;
    opened.store.close().await?;
    Ok(as_answered(&verdict?))
}

fn as_answered(verdict: &Verdict) -> serde_json::Value {
    let Verdict { entries, linked, unlinked, head, fault } = verdict;
    let fault = fault.as_ref().map(|Fault { position, id, kind }| {
        let id = id.map(|id| id.to_string());
        json!({ "position": position, "id": id, "kind": kind.name(), "detail": kind.told() })
    });
    json!({
        "intact": fault.is_none(), "entries": entries, "linked": linked, "unlinked": unlinked,
        "newestPosition": head.as_ref().map(|head| head.position), "fault": fault,
    })
}

fn told(verdict: &AuditVerdict) -> String {
    match &verdict.fault {
        Some(AuditFault { position, detail }) => escape::line(&format!(
            "the audit log is not as it was written, at entry {}: {detail}",
            moment::count(*position)
        )),
        None if !verdict.intact => "the audit log is not as it was written".to_owned(),
        None => {
            let entries = match verdict.linked {
                1 => "1 entry is".to_owned(),
                linked => format!("{} entries are", moment::count(linked)),
            };
            let unlinked = match verdict.unlinked {
                0 => String::new(),
                count => {
                    format!("; {} of {} not linked yet", moment::count(count), moment::count(verdict.entries))
                }
            };
            format!("untouched: {entries} as written{unlinked}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: serde_json::Value) -> String {
        told(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn a_log_is_untouched_or_it_is_said_where_it_is_not() {
        let clean =
            shown(json!({"intact": true, "entries": 812, "linked": 810, "unlinked": 2, "fault": null}));
        assert_eq!(clean, "untouched: 810 entries are as written; 2 of 812 not linked yet");
        let changed = shown(json!({
            "intact": false, "entries": 812, "linked": 812, "unlinked": 0,
            "fault": {"position": 17, "id": null, "kind": "changed", "detail": "the entry was changed\u{1b}[2J"},
        }));
        let expected = "the audit log is not as it was written, at entry 17: the entry was changed\\u{1b}[2J";
        assert_eq!(changed, expected);
    }
}
