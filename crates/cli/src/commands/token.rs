//! `lazaret token`: access tokens, through a server or in a store itself.

use std::path::Path;

use clap::{Args, Subcommand};
use lazaret_core::id::TokenId;
use lazaret_server::access::Role;
use lazaret_server::serve::ServeError;
use lazaret_server::tokens;
use lazaret_store::StoreError;
use lazaret_store::folder::ServedAt;
use serde_json::json;

use crate::answers::{MintedToken, Token, Tokens};
use crate::args::{StoreArgs, Target, UrlFrom};
use crate::client::{Answer, Client, ClientError, Content};
use crate::failure::{Failure, Outcome};
use crate::output::table::{Column, Table};
use crate::output::{Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Create a token and print it once
    #[command(after_help = EXAMPLES_NEW)]
    New(NewArgs),
    /// List tokens
    #[command(after_help = EXAMPLES_LS)]
    Ls,
    /// Revoke a token
    #[command(after_help = EXAMPLES_REVOKE)]
    Revoke(RevokeArgs),
}

const EXAMPLES_NEW: &str = "\
Examples:
  lazaret token new --name ci --role producer
  export LAZARET_TOKEN=$(lazaret token new --name me --role admin)
  lazaret token new --name me --role admin --data /var/lib/lazaret

--url selects the server; --data, --store or --config select a store, used through the server \
that runs on it, if any. Without these flags the server on this machine is used, or the default \
store if none is reachable.
Roles: producer reports letters; viewer reads; operator redrives and decides; approver also approves; \
admin has full access.
The first token must have the role admin; from then on every request needs a token.";

const EXAMPLES_LS: &str = "\
Examples:
  lazaret token ls";

const EXAMPLES_REVOKE: &str = "\
Examples:
  lazaret token revoke 019a8b1c-7e00-7000-8000-000000000000";

#[derive(Args, Debug)]
pub struct NewArgs {
    /// Name of the person or program; shown in the audit log
    #[arg(long)]
    name: String,
    /// Role
    #[arg(long, value_parser = Role::ALL.map(Role::name))]
    role: String,
    #[command(flatten)]
    pub on: StoreArgs,
}

#[derive(Args, Debug)]
pub struct RevokeArgs {
    /// Token id
    #[arg(value_parser = TokenId::parse)]
    id: TokenId,
}

pub async fn run(
    command: TokenCommand,
    url_from: UrlFrom,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    match command {
        TokenCommand::New(args) => make(args, url_from, client, screen).await,
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

async fn make(
    args: NewArgs,
    url_from: UrlFrom,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let NewArgs { name, role, on } = args;
    let wish = TokenWish { name, role };
    match on.target(url_from)? {
        Target::Server => print_minted(&ask(client, &wish).await?, screen)?,
        Target::Store => make_in_store(on, &wish, screen).await?,
        Target::Default => match ask(client, &wish).await {
            Ok(answer) => print_minted(&answer, screen)?,
            Err(ClientError::Unreachable { .. }) => {
                screen.note("no server reachable");
                make_in_store(on, &wish, screen).await?;
            }
            Err(error) => return Err(error.into()),
        },
    }
    screen.note("copy the token now: it is shown once and stored as a hash");
    Ok(Outcome::Done)
}

/// The token to make.
struct TokenWish {
    name: String,
    role: String,
}

async fn ask(client: &Client, wish: &TokenWish) -> Result<Answer, ClientError> {
    let content = Content::json(&json!({ "name": wish.name, "role": wish.role }));
    client.post(&["tokens"], &[], content).await
}

fn print_minted(answer: &Answer, screen: &mut Screen) -> anyhow::Result<()> {
    let minted: MintedToken = answer.read()?;
    screen.note(&format!("created by the server, id {}", escape::line(&minted.id)));
    match screen.format {
        Format::Json => screen.json(answer.text()?)?,
        Format::Text => screen.line(&escape::line(&minted.token))?,
    }
    Ok(())
}

/// Makes the token in the store itself, or through the server that holds its folder.
async fn make_in_store(on: StoreArgs, wish: &TokenWish, screen: &mut Screen) -> anyhow::Result<()> {
    let config = on.load()?;
    let role = Role::parse(&wish.role).ok_or_else(|| Failure::misuse("unknown role"))?;
    let made = match tokens::create_offline(&config, &wish.name, role).await {
        Ok(made) => made,
        Err(ServeError::Store(StoreError::Held { folder, holder })) => {
            let answer = ask_holder(&folder, &holder, wish).await?;
            return print_minted(&answer, screen);
        }
        Err(error) => {
            let hint = error.hint();
            let failure =
                Failure::failed(format!("cannot create the token: {:#}", anyhow::Error::from(error)));
            let hint =
                hint.unwrap_or_else(|| "select a server with --url, or a data folder with --data".into());
            return Err(failure.hint(hint).into());
        }
    };
    screen.note(&format!("created offline in {}, id {}", escape::line(&config.kept_in()), made.id));
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

/// Asks the server that holds a data folder. It wrote a key there: only that server accepts it, so the token is never
/// made in another store that happens to be served at the same address.
async fn ask_holder(folder: &Path, holder: &str, wish: &TokenWish) -> anyhow::Result<Answer> {
    let held = |why: &str| {
        let (folder, holder) = (folder.display().to_string(), escape::line(holder));
        Failure::failed(format!("{} is in use by {holder}, {why}", escape::line(&folder)))
            .hint("stop it and try again, or pass --url")
    };
    let served = ServedAt::read(folder).ok_or_else(|| held("which does not publish its address"))?;
    let client = Client::new(&served.url, Some(&served.key))?;
    match ask(&client, wish).await {
        Ok(answer) => Ok(answer),
        Err(ClientError::Refused(problem)) if problem.code == "unauthorized" => {
            Err(held("and a different server answers at its address").into())
        }
        Err(ClientError::Refused(problem)) => Err(ClientError::Refused(problem).into()),
        Err(_) => Err(held("which does not answer").into()),
    }
}

async fn list(client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["tokens"], &[]).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let tokens: Tokens = answer.read()?;
    if tokens.items.is_empty() {
        screen.note("no tokens: access control is off, anyone on the server's machine has full access");
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
