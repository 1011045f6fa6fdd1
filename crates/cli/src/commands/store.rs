//! `lazaret store`: brings a shared store to the newest format, and copies one store into another. Works on the stores
//! themselves, without a server.

use std::path::Path;

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use lazaret_server::config::{Config, Overrides, PostgresUrl, StoreUrl};
use lazaret_server::serve::ServeError;
use lazaret_server::stores::copy::{Copied, Copy, CopyError, Step};
use lazaret_server::stores::{self, Opened};
use lazaret_store::StoreError;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::{config, serve};
use crate::args::Secret;
use crate::failure::{Failure, Outcome};
use crate::output::{BAR_OF_LETTERS, Format, Screen, escape, moment};

#[derive(Subcommand, Debug)]
pub enum StoreCommand {
    /// Bring a PostgreSQL store to the newest format
    #[command(after_help = EXAMPLES_MIGRATE)]
    Migrate(MigrateArgs),
    /// Copy one store into another: tokens, letters whole, jobs and paused queues
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

Stop the servers that use the store which is copied. If the copy is broken off, run it again: it goes on, \
and what is there already stays.
At the end every letter is compared by the hash of all that is kept of it.
Letters that were being sent wait again, and so do jobs that were put back from the dead letter.
Not copied: events, audit log, incidents (they are made anew), the archive, holds, operations, workers, lines over time.";

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
    /// Configuration file with the rules by which letters are grouped
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
    let rules = config::load(args.config, Overrides::default())?;
    let (from, to) = (place("--from", args.from)?, place("--to", args.to)?);
    if from == to {
        return Err(Failure::misuse("--from and --to are the same store").into());
    }
    if from.store == StoreUrl::Embedded && !from.data.join("lazaret.db").is_file() {
        let message = format!("there is no store in {}", from.data.display());
        return Err(Failure::failed(message).hint("name the data folder of the server").into());
    }
    let source = open(&from).await?;
    let target = open(&to).await?;
    let groups = rules.groups();
    let copy = Copy { from: source.store.as_ref(), to: target.store.as_ref(), groups: &groups };
    let bar = screen.bar(Some(copy.letters().await.map_err(failed)?), BAR_OF_LETTERS);
    let copied = copy.run(&mut |step| show(&bar, step)).await;
    bar.finish_and_clear();
    let closed = (target.store.close().await, source.store.close().await);
    let copied = copied.map_err(failed)?;
    closed.0.and(closed.1)?;
    tell(&copied, &to, screen)
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

async fn open(config: &Config) -> Result<Opened, Failure> {
    stores::open(config, Mode::Real).await.map_err(|error| match error {
        ServeError::Store(held @ StoreError::Held { .. }) => {
            Failure::failed(held.to_string()).hint("stop that server first: the copy needs the store alone")
        }
        other => serve::failed(other),
    })
}

fn failed(error: CopyError) -> Failure {
    let hint = match &error {
        CopyError::From(source) | CopyError::To(source) => PostgresStore::hint(source)
            .unwrap_or("run it again: it goes on where it was, and what is there already stays"),
        CopyError::Differs(..) | CopyError::Missing { .. } => {
            "is a server using one of the stores? stop it and run the copy again"
        }
        CopyError::Books => "look with `lazaret ledger verify`, and report this as a fault",
    };
    Failure::failed(format!("{:#}", anyhow::Error::from(error))).hint(hint)
}

fn show(bar: &ProgressBar, step: Step) {
    match step {
        Step::Copying { letters } => bar.set_position(letters),
        Step::Jobs { jobs } => bar.set_message(format!("copied, {} jobs", moment::count(jobs))),
        Step::Verifying { letters } => {
            bar.set_position(letters);
            bar.set_message("compared");
        }
    }
}

fn tell(copied: &Copied, to: &Config, screen: &mut Screen) -> anyhow::Result<Outcome> {
    for (letter, detail) in &copied.troubles {
        screen.note(&format!("letter {letter} was not copied: {}", escape::line(detail)));
    }
    let Copied { tokens, letters, letters_known, troubled, jobs, jobs_known, .. } = copied;
    let Copied { jobs_in_letters, queues_paused, verified, .. } = copied;
    match screen.format {
        Format::Json => {
            let told = json!({
                "tokens": tokens, "letters": letters, "lettersKnown": letters_known, "lettersNotCopied": troubled,
                "jobs": jobs, "jobsKnown": jobs_known, "jobsInLetters": jobs_in_letters,
                "queuesPaused": queues_paused, "lettersVerified": verified,
            });
            screen.json(&told.to_string())?;
        }
        Format::Text => {
            let count = |number: &u64| moment::count(*number);
            screen.line(&format!(
                "{} letters copied, {} were there, {} compared and the same; {} jobs copied, {} were there, {} stand in \
                 their letters; {} tokens copied",
                count(letters), count(letters_known), count(verified), count(jobs), count(jobs_known),
                count(jobs_in_letters), count(tokens),
            ))?;
            screen.note(&format!("the copy is in {}", escape::line(&to.kept_in())));
        }
    }
    if *troubled > 0 {
        screen.note(&format!("{} were not copied", moment::letters(*troubled)));
        return Ok(Outcome::Incomplete);
    }
    Ok(Outcome::Done)
}
