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
    /// Migrate a PostgreSQL store to the latest schema
    #[command(after_help = EXAMPLES_MIGRATE)]
    Migrate(MigrateArgs),
    /// Copy a store into an empty one
    #[command(after_help = EXAMPLES_COPY)]
    Copy(CopyArgs),
}

const EXAMPLES_MIGRATE: &str = "\
Examples:
  lazaret store migrate --store postgres://lazaret@db.example.org/lazaret
  LAZARET_STORE=postgres://lazaret:…@db.example.org/lazaret lazaret store migrate

`serve` also migrates at startup; use this command to migrate beforehand.";

const EXAMPLES_COPY: &str = "\
Examples:
  lazaret store copy --from sqlite:/var/lib/lazaret --to postgres://lazaret@db.example.org/lazaret
  lazaret store copy --from postgres://lazaret@db.example.org/lazaret --to sqlite:./lazaret-data

Everything is copied: letters, incidents, redrives, jobs, holds, tokens, the audit log and the index of the archive. \
Archive files are not copied; the search index is rebuilt.
Stop the servers of both stores first. The target must be empty; it stays empty if the copy fails.
At the end every row is compared, the ledger recounted and the audit log verified.";

#[derive(Args, Debug)]
pub struct MigrateArgs {
    /// Store URL; default: from the configuration
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

#[derive(Args, Debug)]
pub struct CopyArgs {
    /// Source store: sqlite:FOLDER or postgres://…
    #[arg(long, value_name = "STORE")]
    from: Secret,
    /// Target store; created if missing
    #[arg(long, value_name = "STORE")]
    to: Secret,
    /// Configuration file with audit.key_file
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
        let message = "the embedded store is migrated when it is opened";
        return Err(Failure::misuse(message).hint("pass --store postgres://…").into());
    };
    let (from, to) = PostgresStore::migrate(url.secret()).await.map_err(|source| not_opened(url, source))?;
    match screen.format {
        Format::Json => screen.json(&json!({ "from": from, "to": to }).to_string())?,
        Format::Text if from == to => screen.line(&format!("{url}: schema {to}, up to date"))?,
        Format::Text if from == 0 => screen.line(&format!("{url}: created with schema {to}"))?,
        Format::Text => screen.line(&format!("{url}: migrated from schema {from} to {to}"))?,
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
        let message = format!("no store in {}", from.data.display());
        return Err(Failure::failed(message).hint("pass the data folder of the server").into());
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
                Err(Failure::misuse(format!("{flag}: folder required, use sqlite:FOLDER")))
            }
            Err(problem) if text.starts_with("postgres") => {
                Err(Failure::misuse(format!("{flag}: {problem}")))
            }
            Err(_) => Err(Failure::misuse(format!("{flag}: use sqlite:FOLDER or postgres://…"))),
        },
    }
}

fn failed(error: CopyError) -> Failure {
    let hint = match error {
        CopyError::Open(ServeError::Store(StoreError::Held { .. }))
        | CopyError::From(StoreError::Held { .. })
        | CopyError::To(StoreError::Held { .. }) => {
            Some("stop the server first: the copy needs exclusive access to both stores")
        }
        CopyError::Open(error) => return serve::failed(error),
        CopyError::From(ref source) | CopyError::To(ref source) => PostgresStore::hint(source),
        CopyError::NotEmpty(_) => Some("use an empty folder or database as target"),
        CopyError::Key(_) => None,
        CopyError::Differs(_) | CopyError::Ledger | CopyError::Audit => Some(
            "do not use the copy; verify the original with `lazaret ledger verify` and `lazaret audit verify`",
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
                "{all} rows copied and verified: {} letters, {} incidents, {} redrives, {} jobs, {} audit entries",
                count("dead_letter_queue"), count("incidents"), count("redrives"), count("jobs"), count("audit"),
            ))?;
            screen.note(&format!("target: {}", escape::line(&to.kept_in())));
        }
    }
    match (key, to.audit_key_file()) {
        (None, _) => screen.note("audit log not verified: key not found (pass --config with audit.key_file)"),
        (Some(key), None) => {
            screen.note(&format!(
                "set audit.key_file on the target server to a copy of {}",
                key.path().display()
            ));
        }
        (Some(_), Some(_)) => {}
    }
    if let Some(fault) = copied.audit_fault {
        screen.note(&format!("audit log fault, also in the original: {}", fault.told()));
    }
    if copied.rows.get("archive_files").is_some_and(|files| *files > 0) {
        let place = from.archive_url().map_or("their location".to_owned(), |url| url.to_string());
        screen.note(&format!(
            "archive files are not copied: set archive.url on the target server to {}",
            escape::line(&place)
        ));
    }
    Ok(Outcome::Done)
}
