//! `lazaret config`: the configuration that `serve` would use, checked and shown without starting anything.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lazaret_server::config::{self, Checked, Config, ConfigError, ConfigProblem, DEFAULT_FILE, Overrides};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen};

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Check the configuration and report all problems
    #[command(after_help = EXAMPLES_CHECK)]
    Check(ConfigArgs),
    /// Print the effective configuration as TOML, with secrets masked
    #[command(after_help = EXAMPLES_SHOW)]
    Show(ConfigArgs),
}

const EXAMPLES_CHECK: &str = "\
Examples:
  lazaret config check                          ./lazaret.toml, LAZARET_* variables
  lazaret config check --config /etc/lazaret.toml

  lazaret config check --json | jq -r '.problems[] | [.severity, .place, .key, .message] | @tsv'

Exit code 1 on errors; 0 if there are only warnings.";

const EXAMPLES_SHOW: &str = "\
Examples:
  lazaret config show
  LAZARET_LOG__LEVEL=debug lazaret config show --json | jq .log";

#[derive(Args, Debug)]
pub struct ConfigArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(command: ConfigCommand, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        ConfigCommand::Check(args) => check(args, screen),
        ConfigCommand::Show(args) => {
            let toml = load(args.config, Overrides::default())?.to_toml();
            match screen.format {
                Format::Text => screen.line(toml.trim_end())?,
                Format::Json => {
                    let table: toml::Table = toml::from_str(&toml)?;
                    screen.json(&serde_json::to_string(&table)?)?;
                }
            }
            Ok(Outcome::Done)
        }
    }
}

fn check(args: ConfigArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let Checked { config, warnings } = read(args.config.as_deref(), Overrides::default());
    if screen.format == Format::Json {
        let errors = config.as_ref().err().map_or(&[][..], |error| &error.problems);
        let problems: Vec<_> = errors.iter().chain(&warnings).map(as_json).collect();
        screen.json(&json!({ "ok": config.is_ok(), "problems": problems }).to_string())?;
        return Ok(if config.is_ok() { Outcome::Done } else { Outcome::Incomplete });
    }
    for warning in &warnings {
        screen.note(&format!("warning: {warning}"));
    }
    let config = config.map_err(failed)?;
    let from = match &args.config {
        Some(file) => file.display().to_string(),
        None if Path::new(DEFAULT_FILE).exists() => DEFAULT_FILE.into(),
        None => format!("defaults (no {DEFAULT_FILE} found)"),
    };
    let kept = config.kept_in();
    screen.line(&format!("ok: {from}: listen {}, store {kept}", config.listen))?;
    Ok(Outcome::Done)
}

/// A problem for programs: line and column only where it is in the file.
fn as_json(problem: &ConfigProblem) -> serde_json::Value {
    let ConfigProblem { severity, place, at, key, message, hint } = problem;
    json!({
        "severity": severity.name(), "place": place, "line": at.map(|(line, _)| line),
        "column": at.map(|(_, column)| column), "key": key, "message": message, "hint": hint,
    })
}

/// Loads the configuration from file, environment and flags.
pub fn load(file: Option<PathBuf>, overrides: Overrides) -> Result<Config, Failure> {
    read(file.as_deref(), overrides).config.map_err(failed)
}

pub fn failed(error: ConfigError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Reads the configuration for those who deal with what is wrong themselves.
pub fn read(file: Option<&Path>, overrides: Overrides) -> Checked {
    // A variable that is no text cannot be ours, and `vars` would panic on it.
    let env = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("LAZARET_"))?;
        Some((name, value.into_string().ok()?))
    });
    config::check(file, env, overrides)
}
