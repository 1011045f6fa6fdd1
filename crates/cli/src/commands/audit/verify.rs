//! `lazaret audit verify`: whether the audit log is as it was written, by a server or by the store itself.

use clap::Args;
use lazaret_server::audit::{self, AuditKey, Fault, Verdict};
use lazaret_server::config::StoreUrl;
use lazaret_server::stores;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use crate::answers::redrive::{AuditFault, AuditVerdict};
use crate::args::{StoreArgs, Target, UrlFrom};
use crate::client::{Client, ClientError};
use crate::commands::serve;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Paint, Screen, escape, moment};

pub const EXAMPLES: &str = "\
Examples:
  lazaret audit verify && echo intact
  lazaret audit verify --json | jq .fault
  lazaret audit verify --data /var/lib/lazaret      verify this store offline

Entries form a hash chain with a key outside the database: changed, removed or inserted entries are detected. \
--url selects a server; --data, --store or --config select a store to verify offline. Default: the server on this \
machine, or the default store if none is reachable.
Exit code 1 on a fault.";

#[derive(Args, Debug)]
pub struct VerifyArgs {
    #[command(flatten)]
    on: StoreArgs,
}

pub async fn run(
    args: VerifyArgs,
    url_from: UrlFrom,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let target = args.on.target(url_from)?;
    let asked = match target {
        Target::Store => None,
        Target::Server | Target::Default => Some(client.get(&["audit", "verify"], &[]).await),
    };
    let (verdict, text) = match asked {
        Some(Ok(answer)) => (answer.read::<AuditVerdict>()?, answer.text()?.to_owned()),
        Some(Err(ClientError::Unreachable { .. })) if target == Target::Default => {
            screen.note("no server reachable");
            offline(args.on, screen).await?
        }
        Some(Err(error)) => return Err(error.into()),
        None => offline(args.on, screen).await?,
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

/// Verifies the store itself, and answers as the server would: the verdict, and its JSON.
async fn offline(on: StoreArgs, screen: &Screen) -> anyhow::Result<(AuditVerdict, String)> {
    let config = on.load()?;
    if config.store == StoreUrl::Embedded && !config.data.join("lazaret.db").is_file() {
        let message = format!("no store in {}", escape::line(&config.kept_in()));
        return Err(Failure::failed(message)
            .hint("select a server with --url, or a data folder with --data")
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
    screen.note(&format!("verifying {}", escape::line(&config.kept_in())));
    let verdict = audit::verify(opened.store.as_ref(), &key).await;
    opened.store.close().await?;
    let json = as_answered(&verdict?);
    Ok((serde_json::from_value(json.clone())?, json.to_string()))
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
        Some(AuditFault { position, detail }) => {
            escape::line(&format!("audit log fault at entry {}: {detail}", moment::count(*position)))
        }
        None if !verdict.intact => "audit log fault".to_owned(),
        None => {
            let entries = match verdict.linked {
                1 => "1 entry".to_owned(),
                linked => format!("{} entries", moment::count(linked)),
            };
            let unlinked = match verdict.unlinked {
                0 => String::new(),
                count => {
                    format!("; {} of {} not linked yet", moment::count(count), moment::count(verdict.entries))
                }
            };
            format!("intact: {entries} verified{unlinked}")
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
        assert_eq!(clean, "intact: 810 entries verified; 2 of 812 not linked yet");
        let changed = shown(json!({
            "intact": false, "entries": 812, "linked": 812, "unlinked": 0,
            "fault": {"position": 17, "id": null, "kind": "changed", "detail": "the entry was changed\u{1b}[2J"},
        }));
        let expected = "audit log fault at entry 17: the entry was changed\\u{1b}[2J";
        assert_eq!(changed, expected);
    }
}
