//! `lazaret config`: the configuration that `serve` would use, checked and shown without starting anything.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lazaret_server::config::{self, Config, ConfigError, DEFAULT_FILE, Overrides};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen};

#[derive(Subcommand, Debug)]
pub enum ConfigCommand {
    /// Say whether the configuration is right, and what is wrong with it
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

Exit code 1 when something is wrong.";

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
    let given = args.config.clone();
    let loaded = load(args.config, Overrides::default());
    if screen.format == Format::Json {
        let verdict = match &loaded {
            Ok(_) => json!({ "ok": true }),
            Err(failure) => json!({ "ok": false, "error": failure.to_string() }),
        };
        screen.json(&verdict.to_string())?;
    }
    let config = loaded?;
    if screen.format == Format::Text {
        let from = match &given {
            Some(file) => file.display().to_string(),
            None if Path::new(DEFAULT_FILE).exists() => DEFAULT_FILE.into(),
            None => format!("the defaults, as there is no {DEFAULT_FILE} here"),
        };
        let kept = config.kept_in();
        screen.line(&format!("ok: {from}: listens on {}, keeps letters in {kept}", config.listen))?;
    }
    Ok(Outcome::Done)
}

/// Loads the configuration from file, environment and flags.
pub fn load(file: Option<PathBuf>, overrides: Overrides) -> Result<Config, Failure> {
    read(file.as_deref(), overrides).map_err(|error| {
        let failure = Failure::failed(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })
}

/// The same for those who deal with what is wrong themselves.
pub fn read(file: Option<&Path>, overrides: Overrides) -> Result<Config, ConfigError> {
    // A variable that is no text cannot be ours, and `vars` would panic on it.
    let env = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("LAZARET_"))?;
        Some((name, value.into_string().ok()?))
    });
    config::load(file, env, overrides)
}
