//! `lazaret token`: access tokens, through the server or, when none runs here, in the store itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lazaret_core::id::TokenId;
use lazaret_server::access::Role;
use lazaret_server::config::Overrides;
use lazaret_server::tokens;
use serde_json::json;

use super::config;
use crate::answers::{MintedToken, Token, Tokens};
use crate::args::Secret;
use crate::client::{Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make a token and print it, this once
    #[command(after_help = EXAMPLES_NEW)]
    New(NewArgs),
    /// List tokens; their secrets are not kept
    #[command(after_help = EXAMPLES_LS)]
    Ls,
    /// Make a token worthless
    #[command(after_help = EXAMPLES_REVOKE)]
    Revoke(RevokeArgs),
}

const EXAMPLES_NEW: &str = "\
Examples:
  lazaret token new --name ci --role producer
  export LAZARET_TOKEN=$(lazaret token new --name me --role admin)
  lazaret token new --name me --role admin --data /var/lib/lazaret

The server at --url makes it; when none runs on this machine, it is made in the store itself.
Roles: producer reports letters; viewer looks; operator decides; approver also approves; \
admin does everything.
The first token has to be an admin's; from then on every request needs one.";

const EXAMPLES_LS: &str = "\
Examples:
  lazaret token ls";

const EXAMPLES_REVOKE: &str = "\
Examples:
  lazaret token revoke 019a8b1c-7e00-7000-8000-000000000000";

#[derive(Args, Debug)]
pub struct NewArgs {
    /// Who or what will use it; stands in the audit log
    #[arg(long)]
    name: String,
    /// What it may do
    #[arg(long, value_parser = Role::ALL.map(Role::name))]
    role: String,
    /// Data folder to use when no server runs
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store to use when no server runs: postgres://…
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file that names the data folder or the store
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// The token's id, as `lazaret token ls` shows it
    #[arg(value_parser = TokenId::parse)]
    id: TokenId,
}

pub async fn run(command: TokenCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        TokenCommand::New(args) => make(args, client, screen).await,
        TokenCommand::Ls => list(client, screen).await,
        TokenCommand::Revoke(args) => {
            let id = args.id.to_string();
            client.delete(&["tokens", &id]).await?;
            match screen.format {
                Format::Json => screen.json(&json!({ "id": id, "revoked": true }).to_string())?,
                Format::Text => screen.line(&format!("{id} revoked"))?,
            }
            Ok(Outcome::Done)
        }
    }
}

async fn make(args: NewArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let content = Content::json(&json!({ "name": args.name, "role": args.role }));
    match client.post(&["tokens"], &[], content).await {
        Ok(answer) => {
            let minted: MintedToken = answer.read()?;
            screen.note(&format!("made by the server, id {}", escape::line(&minted.id)));
            match screen.format {
                Format::Json => screen.json(answer.text()?)?,
                Format::Text => screen.line(&escape::line(&minted.token))?,
            }
        }
        // Only for a server of this machine is the folder here the store that was meant.
        Err(ClientError::Unreachable { .. }) if client.is_local() => make_offline(args, screen).await?,
        Err(error) => return Err(error.into()),
    }
    screen.note("keep it now: it is shown this once, and only its hash is stored");
    Ok(Outcome::Done)
}

async fn make_offline(args: NewArgs, screen: &mut Screen) -> anyhow::Result<()> {
    let store = args.store.map(Secret::into_text);
    let overrides = Overrides { data: args.data, store, ..Overrides::default() };
    let mut config = config::load(args.config, overrides)?;
    config.data = std::path::absolute(&config.data).unwrap_or(config.data);
    let role = Role::parse(&args.role).ok_or_else(|| Failure::misuse("there is no such role"))?;
    let made = tokens::create_offline(&config, &args.name, role).await.map_err(|error| {
        let hint = error.hint();
        let failure = Failure::failed(format!(
            "no server answers, and the token cannot be made without one: {:#}",
            anyhow::Error::from(error)
        ));
        failure.hint(hint.unwrap_or_else(|| "name the server with --url, or its folder with --data".into()))
    })?;
    screen.note(&format!(
        "no server answers: made offline in {}, id {}",
        escape::line(&config.kept_in()),
        made.id
    ));
    match screen.format {
        Format::Json => {
            let json = json!({
                "id": made.id.to_string(), "name": made.name, "role": made.role.name(), "token": made.token,
            });
            screen.json(&json.to_string())?;
        }
        Format::Text => screen.line(&made.token)?,
    }
    Ok(())
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["tokens"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let tokens: Tokens = answer.read()?;
    if tokens.items.is_empty() {
        screen.note("no tokens: everyone on the server's machine may do everything");
        return Ok(Outcome::Done);
    }
    screen.table(&table(&tokens.items))?;
    Ok(Outcome::Done)
}

fn table(tokens: &[Token]) -> Table {
    let now = moment::now();
    let mut table = Table::new(vec![
        Column::whole("ID"),
        Column::cut("NAME"),
        Column::whole("ROLE"),
        Column::whole("CREATED"),
        Column::cut("BY").left_out(1),
        Column::whole("REVOKED"),
    ]);
    for token in tokens {
        let revoked = token.revoked_at.as_ref().map_or("no".into(), |at| moment::ago(at, now));
        table.row(vec![
            token.id.as_str().into(),
            token.name.as_str().into(),
            token.role.as_str().into(),
            moment::ago(&token.created_at, now).into(),
            (&token.created_by).into(),
            revoked.into(),
        ]);
    }
    table
}
