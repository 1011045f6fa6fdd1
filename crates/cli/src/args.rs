//! The command line: every command, and the options that all of them share. Each command's own options stand with it.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use lazaret_server::config::{Config, Overrides};

use crate::commands::alerts::AlertsCommand;
use crate::commands::archive::ArchiveCommand;
use crate::commands::audit::AuditArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::broker::{JetStreamCommand, RabbitMqCommand};
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::{self, ConfigCommand};
use crate::commands::decide::{DecideArgs, RestoreArgs};
use crate::commands::demo::DemoArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::export::ExportArgs;
use crate::commands::hold::HoldArgs;
use crate::commands::holds::HoldsArgs;
use crate::commands::import::ImportArgs;
use crate::commands::incident::IncidentCommand;
use crate::commands::incidents::IncidentsArgs;
use crate::commands::jobs::JobsCommand;
use crate::commands::ledger::LedgerArgs;
use crate::commands::ls::LsArgs;
use crate::commands::man::ManArgs;
use crate::commands::outbox::OutboxCommand;
use crate::commands::progress::ProgressArgs;
use crate::commands::prune::PruneArgs;
use crate::commands::queues::QueuesArgs;
use crate::commands::redrive::RedriveCommand;
use crate::commands::report::ReportArgs;
use crate::commands::retention::RetentionArgs;
use crate::commands::retry::RetryArgs;
use crate::commands::rules::RulesArgs;
use crate::commands::series::SeriesArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::show::ShowArgs;
use crate::commands::sources::SourcesArgs;
use crate::commands::stats::StatsArgs;
use crate::commands::store::StoreCommand;
use crate::commands::suggest::SuggestArgs;
use crate::commands::tail::TailArgs;
use crate::commands::token::TokenCommand;
use crate::commands::workers::WorkersArgs;
use crate::failure::Failure;
use crate::output::Format;

/// Lazaret is a dead-letter service: it captures failed messages, groups them by cause and redrives them.
#[derive(Parser, Debug)]
#[command(name = "lazaret", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the words of a command line, the name of the program first; clap ends the process on a wrong one.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Cli {
        let matches = Cli::command().get_matches_from(mark_excluding(words.into_iter().collect()));
        let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        cli.global.url_from = match matches.value_source("url") {
            Some(ValueSource::CommandLine) => UrlFrom::Flag,
            Some(ValueSource::EnvVariable) => UrlFrom::Environment,
            _ => UrlFrom::Default,
        };
        cli
    }
}

/// Stands before a filter word with a hyphen on its way through clap. No argument can hold it.
const MARK: char = '\0';

/// Commands that take the words of a filter.
const FILTERED: [&str; 6] = ["ls", "tail", "export", "incidents", "redrive", "archive"];

/// Marks filter words such as `-status:resolved`, which clap would take for flags. None of our flags is like that.
fn mark_excluding(mut words: Vec<OsString>) -> Vec<OsString> {
    let is_filtered = |word: &OsString| FILTERED.iter().any(|command| word == command);
    let Some(command) = words.iter().position(is_filtered) else { return words };
    for word in &mut words[command..] {
        let Some(text) = word.to_str() else { continue };
        let key = text.strip_prefix('-').and_then(|rest| rest.split_once(':')).map_or("", |(key, _)| key);
        if !key.is_empty() && key.chars().all(|c| c.is_ascii_alphabetic()) {
            *word = format!("{MARK}{text}").into();
        }
    }
    words
}

/// Takes a filter word as it was typed.
pub fn filter_word(word: &str) -> Result<String, std::convert::Infallible> {
    Ok(word.trim_start_matches(MARK).to_owned())
}

const EXAMPLES: &str = "\
Examples:
  lazaret serve                                 start on http://127.0.0.1:7070
  lazaret report failed.ndjson                  hand over letters
  lazaret ls queue:billing error:Timeout        find them
  lazaret show 019a8b1c-7e00-7000-8000-000000000000
  lazaret incidents                             what is wrong, one line a cause
  lazaret redrive plan queue:billing            what putting them back would do
  lazaret tail                                  what happens, as it happens
  lazaret jobs push invoice.make '[4711]' --dead-letter      give work to workers
  lazaret resolve --filter 'queue:billing error:Timeout' --expect 412 --reason 'gateway is back'

`lazaret COMMAND --help` has more of them.";

#[derive(Args, Debug)]
pub struct Global {
    /// Address of the server
    #[arg(
        long,
        global = true,
        env = "LAZARET_URL",
        default_value = "http://127.0.0.1:7070",
        help_heading = "Server"
    )]
    pub url: String,

    #[arg(skip)]
    pub url_from: UrlFrom,

    /// Access token; prefer the environment variable, other users can see command lines
    #[arg(long, global = true, env = "LAZARET_TOKEN", hide_env_values = true, help_heading = "Server")]
    token: Option<Secret>,

    /// Print JSON, as returned by the server
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,

    /// When to use colour; respects NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub color: ColorChoice,
}

impl Global {
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// The token, unless it is empty, as a variable that was only declared is.
    pub fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.0.trim()).filter(|token| !token.is_empty())
    }
}

/// Who named the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UrlFrom {
    /// Nobody: it is the default address.
    #[default]
    Default,
    Environment,
    Flag,
}

/// Which store a command that can do without a server works on.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// Data folder of the store to work on
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store to work on: postgres://…
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file that names the store to work on
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What a command that can do without a server works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The server that was named, and nothing else.
    Server,
    /// The store that was named, whatever server answers elsewhere.
    Store,
    /// Nothing was named: the default server, or the default store if none is reachable.
    Default,
}

impl StoreArgs {
    /// Returns what was named. A flag beats the environment; two flags that name different things are refused.
    pub fn target(&self, url: UrlFrom) -> Result<Target, Failure> {
        let names_a_store = self.data.is_some() || self.store.is_some() || self.config.is_some();
        match (names_a_store, url) {
            (true, UrlFrom::Flag) => {
                Err(Failure::misuse("--url selects a server and conflicts with --data, --store and --config")
                    .hint("use one of --url, --data, --store and --config"))
            }
            (true, UrlFrom::Environment | UrlFrom::Default) => Ok(Target::Store),
            (false, UrlFrom::Flag | UrlFrom::Environment) => Ok(Target::Server),
            (false, UrlFrom::Default) => Ok(Target::Default),
        }
    }

    /// The configuration of the store, with the data folder as an absolute path.
    pub fn load(self) -> Result<Config, Failure> {
        let store = self.store.map(Secret::into_text);
        let overrides = Overrides { data: self.data, store, ..Overrides::default() };
        let mut config = config::load(self.config, overrides)?;
        config.data = std::path::absolute(&config.data).unwrap_or(config.data);
        Ok(config)
    }
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn into_text(self) -> String {
        self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the service
    Serve(ServeArgs),
    /// Run the service with demo data
    Demo(DemoArgs),
    /// Report dead letters as JSON or NDJSON, from files or stdin
    Report(ReportArgs),
    /// List letters, newest first; pending by default
    Ls(LsArgs),
    /// Show a letter: error, attempts, lives, payload
    Show(ShowArgs),
    /// List incidents: letters grouped by cause, with counts and trend
    Incidents(IncidentsArgs),
    /// Show an incident; save its root cause and link its fix
    #[command(subcommand)]
    Incident(IncidentCommand),
    /// Redrive letters: plan, start, watch, pause, cancel
    #[command(subcommand)]
    Redrive(RedriveCommand),
    /// Retry a single letter, unchanged or edited
    Retry(RetryArgs),
    /// Follow events live
    Tail(TailArgs),
    /// Count letters by status, queue, type, error and class
    Stats(StatsArgs),
    /// Chart letters in and out over time
    Series(SeriesArgs),
    /// List values for a filter key
    Suggest(SuggestArgs),
    /// Show the ledger of captured letters; `verify` recounts it
    Ledger(LedgerArgs),
    /// Mark letters as resolved
    #[command(after_help = crate::commands::decide::EXAMPLES_RESOLVE)]
    Resolve(DecideArgs),
    /// Discard letters: never send them again
    #[command(after_help = crate::commands::decide::EXAMPLES_DISCARD)]
    Discard(DecideArgs),
    /// Reopen resolved or discarded letters
    #[command(after_help = crate::commands::decide::EXAMPLES_REOPEN)]
    Reopen(DecideArgs),
    /// Place a legal hold on letters
    #[command(after_help = crate::commands::hold::EXAMPLES)]
    Hold(HoldArgs),
    /// List, show and release holds
    Holds(HoldsArgs),
    /// Release letters from all holds
    #[command(after_help = crate::commands::decide::EXAMPLES_RELEASE)]
    Release(DecideArgs),
    /// Delete letters; they can be restored for a while
    #[command(after_help = crate::commands::decide::EXAMPLES_DELETE)]
    Delete(DecideArgs),
    /// Restore deleted and archived letters
    #[command(after_help = crate::commands::decide::EXAMPLES_RESTORE)]
    Restore(RestoreArgs),
    /// List, show and restore archived letters; verify archive files
    #[command(subcommand)]
    Archive(ArchiveCommand),
    /// Show the retention policy of each queue and the origin of each setting
    Retention(RetentionArgs),
    /// Prune letters beyond their limits, or preview pruning
    Prune(PruneArgs),
    /// Push, list, show and cancel jobs
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// List, pause and resume queues
    Queues(QueuesArgs),
    /// List workers; quiet, resume or terminate them
    Workers(WorkersArgs),
    /// List sources with their health; restore missing outbox rows
    Sources(SourcesArgs),
    /// Create an outbox table, or print its statements
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Declare the streams, consumers and retry policies of a JetStream source
    #[command(subcommand, name = "jetstream")]
    JetStream(JetStreamCommand),
    /// Declare the queues of a RabbitMQ source; discover dead-letter queues
    #[command(subcommand, name = "rabbitmq")]
    RabbitMq(RabbitMqCommand),
    /// Run health checks on the server and its sources
    Doctor(DoctorArgs),
    /// Export letters as NDJSON to a file or stdout
    Export(ExportArgs),
    /// Import letters from an export
    Import(ImportArgs),
    /// List, acknowledge and silence alerts; test notifications
    #[command(subcommand)]
    Alerts(AlertsCommand),
    /// List, enable and disable replay rules
    Rules(RulesArgs),
    /// Create, list and revoke access tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Show the audit log, newest first
    Audit(AuditArgs),
    /// Show progress of the body index and of regrouping
    Progress(ProgressArgs),
    /// Migrate a PostgreSQL store; copy a store
    #[command(subcommand)]
    Store(StoreCommand),
    /// Measure what this machine and a store can do
    Bench(BenchArgs),
    /// Check or show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print shell completions
    Completions(CompletionsArgs),
    /// Print the manual page, or write one per command
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_token_is_never_shown() {
        let cli = Cli::parse_from(["lazaret", "--token", "lzr_secret", "stats"]);
        assert_eq!(cli.global.token(), Some("lzr_secret"));
        assert!(!format!("{cli:?}").contains("lzr_secret"));
    }

    #[test]
    fn what_is_named_on_the_command_line_decides() {
        let target = |words: &[&str]| {
            let cli = Cli::read(["lazaret"].iter().chain(words).map(OsString::from));
            let Command::Token(TokenCommand::New(args)) = cli.command else { panic!("not token new") };
            args.on.target(cli.global.url_from).map_err(|refused| refused.to_string())
        };
        let new = ["token", "new", "--name", "me", "--role", "admin"];
        let with = |more: &[&str]| target(&[&new, more].concat());
        assert_eq!(with(&[]), Ok(Target::Default));
        for names_a_store in [["--data", "d"], ["--store", "postgres://h/d"], ["--config", "c.toml"]] {
            assert_eq!(with(&names_a_store), Ok(Target::Store));
            let both = with(&[&names_a_store[..], &["--url", "http://h"]].concat());
            assert!(both.is_err(), "{both:?}");
        }
        assert_eq!(with(&["--url", "http://h"]), Ok(Target::Server));
        assert_eq!(target(&[&["--url", "http://h"], &new[..]].concat()), Ok(Target::Server));
        let on = StoreArgs { data: Some("d".into()), store: None, config: None };
        assert_eq!(on.target(UrlFrom::Environment).ok(), Some(Target::Store), "a flag beats the environment");
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            let mut inner = command.get_subcommands().filter(|inner| inner.get_name() != "help").peekable();
            if inner.peek().is_none() {
                let help = command.get_after_help().map(|help| help.to_string()).unwrap_or_default();
                assert!(help.contains("Examples:\n  lazaret "), "{path} has no examples");
            }
            inner.for_each(|command| check(command, &path));
        }
        check(&Cli::command(), "");
    }

    #[test]
    fn filters_may_exclude_and_options_may_follow() {
        let read = |words: &[&str]| {
            let cli = Cli::read(["lazaret", "ls"].iter().chain(words).map(OsString::from));
            let format = cli.global.format();
            let Command::Ls(args) = cli.command else { panic!("not ls") };
            (args.filter, args.all_pages, format)
        };
        let (filter, _, format) = read(&["queue:a", "-status:resolved", "--limit", "5", "--json"]);
        assert_eq!((filter, format), (vec!["queue:a".into(), "-status:resolved".into()], Format::Json));
        let (filter, all_pages, _) = read(&["-status:resolved", "--sort", "-createdAt", "--all-pages"]);
        assert_eq!((filter, all_pages), (vec!["-status:resolved".to_owned()], true));
        let words =
            |words: &[&str]| Cli::try_parse_from(mark_excluding(words.iter().map(OsString::from).collect()));
        assert!(words(&["lazaret", "ls", "--limt", "5"]).is_err());
        assert!(words(&["lazaret", "ls", "-x"]).is_err());
    }

    #[test]
    fn a_decision_needs_exactly_one_way_to_name_letters() {
        let id = "019a8b1c-7e00-7000-8000-000000000000";
        let parse = |args: &[&str]| Cli::try_parse_from([&["lazaret", "discard"], args].concat());
        assert!(parse(&[id]).is_ok());
        assert!(parse(&["--filter", "queue:a", "--expect", "3"]).is_ok());
        assert!(parse(&["--all", "--expect", "3"]).is_ok());
        for bad in
            [&[][..], &["x"], &[id, "--all"], &[id, "--expect", "1"], &["--all", "--filter", "queue:a"]]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
