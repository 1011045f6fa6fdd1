//! `lazaret store`: brings a shared store to the newest format, and copies one store into another. Works on the stores
//! themselves, without a server.

use std::path::Path;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use lazaret_server::audit::AuditKey;
use lazaret_server::config::{Config, Overrides, PostgresUrl, StoreUrl};
use lazaret_server::serve::ServeError;
use lazaret_server::stores::copy::{self, Copied, CopyError, Step};
use lazaret_store::StoreError;
use lazaret_store::postgres::PostgresStore;
use serde_json::json;

use super::{config, serve};
use crate::args::Secret;
use crate::failure::{Failure, Outcome};
use crate::output::{COUNTER_OF_ROWS, Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Bring a PostgreSQL store to the newest format
    #[command(after_help = EXAMPLES_MIGRATE)]
    Migrate(MigrateArgs),
    /// Copy a whole store into an empty one
    #[command(after_help = EXAMPLES_COPY)]
    Copy(CopyArgs),
}

const EXAMPLES_MIGRATE: &str = "\
Examples:
  lazaret store migrate --store postgres://lazaret@db.example.org/lazaret
  LAZARET_STORE=postgres://lazaret:…@db.example.org/lazaret lazaret store migrate

`serve` does the same at its start; this is for those who want to do it before.";

const EXAMPLES_COPY: &str = "\
Examples:
  lazaret store copy --from sqlite:/var/lib/lazaret --to postgres://lazaret@db.example.org/lazaret
  lazaret store copy --from postgres://lazaret@db.example.org/lazaret --to sqlite:./lazaret-data

Everything is copied: letters, incidents, redrives, jobs, holds, tokens, the audit log and the index of the archive. \
Files of the archive stay where they are, and the search index is rebuilt.
Stop the servers of both stores first. The target has to be empty; if the copy fails it stays empty.
At the end every row is compared, the ledger recounted and the audit log verified.";

#[derive(Args, Debug)]
pub struct MigrateArgs {
    /// The store; without it the one of the configuration
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

#[derive(Args, Debug)]
pub struct CopyArgs {
    /// The store to copy: sqlite:FOLDER or postgres://…
    #[arg(long, value_name = "STORE")]
    from: Secret,
    /// The store to copy into, made if need be
    #[arg(long, value_name = "STORE")]
    to: Secret,
    /// Configuration file that names the key of the audit log, if audit.key_file is set
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

pub async fn run(command: StoreCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        StoreCommand::Migrate(args) => migrate(args, screen).await,
        StoreCommand::Copy(args) => copy(args, screen).await,
    }
}

async fn migrate(args: MigrateArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let overrides = Overrides { store: args.store.map(Secret::into_text), ..Overrides::default() };
    let config = config::load(args.config, overrides)?;
    let StoreUrl::Postgres(url) = &config.store else {
        let message = "the embedded store is brought to the newest format when it is opened";
        return Err(Failure::misuse(message).hint("name a shared one with --store postgres://…").into());
    };
    let (from, to) = PostgresStore::migrate(url.secret()).await.map_err(|source| not_opened(url, source))?;
    match screen.format {
        Format::Json => screen.json(&json!({ "from": from, "to": to }).to_string())?,
        Format::Text if from == to => screen.line(&format!("{url} has format {to} already"))?,
        Format::Text if from == 0 => screen.line(&format!("{url} was made, in format {to}"))?,
        Format::Text => screen.line(&format!("{url} was brought from format {from} to {to}"))?,
    }
    Ok(Outcome::Done)
}

fn not_opened(url: &PostgresUrl, source: StoreError) -> Failure {
    serve::failed(ServeError::Shared { store: url.clone(), source })
}

async fn copy(args: CopyArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let audit = config::load(args.config, Overrides::default())?.audit;
    let (from, to) = (place("--from", args.from)?, place("--to", args.to)?);
    if from == to {
        return Err(Failure::misuse("--from and --to are the same store").into());
    }
    if from.store == StoreUrl::Embedded && !from.data.join("lazaret.db").is_file() {
        let message = format!("there is no store in {}", from.data.display());
        return Err(Failure::failed(message).hint("name the data folder of the server").into());
    }
    let named = audit.key_file.is_some();
    let key = match AuditKey::read(&Config { audit, ..from.clone() }) {
        Ok(key) => Some(key),
        Err(_) if !named => None,
        Err(error) => return Err(failed(error.into()).into()),
    };
    let bar = screen.bar(None, COUNTER_OF_ROWS);
    let copied = copy::copy(&from, &to, key.as_ref(), &mut |step| show(&bar, step)).await;
    bar.finish_and_clear();
    tell(&copied.map_err(failed)?, (&from, &to), key.as_ref(), screen)
}

/// Reads `sqlite:FOLDER` or `postgres://…` as a configuration that names it.
fn place(flag: &str, given: Secret) -> Result<Config, Failure> {
    let text = given.into_text();
    match text.strip_prefix("sqlite:") {
        Some(path) if !path.is_empty() => {
            let path = Path::new(path);
            // The file is as good as the folder that it is in.
            let folder = match path.file_name() {
                Some(name) if name == "lazaret.db" => path.parent().unwrap_or(Path::new(".")),
                Some(_) | None => path,
            };
            Ok(Config { data: folder.to_owned(), ..Config::default() })
        }
        Some(_) | None => match StoreUrl::parse(&text) {
            Ok(store @ StoreUrl::Postgres(_)) => Ok(Config { store, ..Config::default() }),
            Ok(StoreUrl::Embedded) => {
                Err(Failure::misuse(format!("{flag}: which folder? write sqlite:FOLDER")))
            }
            Err(problem) if text.starts_with("postgres") => {
                Err(Failure::misuse(format!("{flag}: {problem}")))
            }
            Err(_) => Err(Failure::misuse(format!("{flag}: write sqlite:FOLDER or postgres://…"))),
        },
    }
}

fn failed(error: CopyError) -> Failure {
    let hint = match error {
        CopyError::Open(ServeError::Store(StoreError::Held { .. }))
        | CopyError::From(StoreError::Held { .. })
        | CopyError::To(StoreError::Held { .. }) => {
            Some("stop that server first: the copy needs both stores alone")
        }
        CopyError::Open(error) => return serve::failed(error),
        CopyError::From(ref source) | CopyError::To(ref source) => PostgresStore::hint(source),
        CopyError::NotEmpty(_) => {
            Some("name an empty folder or database: a copy is never mixed into another store")
        }
        CopyError::Key(_) => None,
        CopyError::Differs(_) | CopyError::Ledger | CopyError::Audit => Some(
            "do not use the copy; look at the original with `lazaret ledger verify` and `lazaret audit verify`",
        ),
    };
    let failure = Failure::failed(format!("{:#}", anyhow::Error::from(error)));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn show(bar: &ProgressBar, step: Step) {
    let (doing, table, rows) = match step {
        Step::Copying { table, rows } => ("copied", table, rows),
        Step::Comparing { table, rows } => ("compared", table, rows),
    };
    bar.set_position(rows);
    bar.set_message(format!("of {table} {doing}"));
}

fn tell(
    copied: &Copied,
    (from, to): (&Config, &Config),
    key: Option<&AuditKey>,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let count = |table: &str| moment::count(copied.rows.get(table).copied().unwrap_or(0));
    match screen.format {
        Format::Json => {
            let told = json!({ "rows": copied.rows, "auditLinksVerified": copied.audit_linked });
            screen.json(&told.to_string())?;
        }
        Format::Text => {
            let all = moment::count(copied.rows.values().sum());
            screen.line(&format!(
                "{all} rows copied, compared and the same: {} letters, {} incidents, {} redrives, {} jobs, {} audit entries",
                count("dead_letter_queue"), count("incidents"), count("redrives"), count("jobs"), count("audit"),
            ))?;
            screen.note(&format!("the copy is in {}", escape::line(&to.kept_in())));
        }
    }
    match (key, to.audit_key_file()) {
        (None, _) => screen
            .note("the audit log was not verified: its key was not found (--config with audit.key_file)"),
        (Some(key), None) => {
            screen.note(&format!(
                "set audit.key_file to a copy of {} where the copy is served",
                key.path().display()
            ));
        }
        (Some(_), Some(_)) => {}
    }
    if let Some(fault) = copied.audit_fault {
        screen.note(&format!("the audit log has a fault, in the original as well: {}", fault.told()));
    }
    if copied.rows.get("archive_files").is_some_and(|files| *files > 0) {
        let place = from.archive_url().map_or("where they are".to_owned(), |url| url.to_string());
        screen.note(&format!(
            "files of the archive were not copied: set archive.url to {} where the copy is served",
            escape::line(&place)
        ));
    }
    Ok(Outcome::Done)
}
