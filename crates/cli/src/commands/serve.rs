//! `lazaret serve`: the service itself, until a signal ends it.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use lazaret_server::config::{Checked, ConfigProblem, DEFAULT_FILE, LogConfig, LogFormat, Overrides};
use lazaret_server::reload::{LogSetter, Reloading};
use lazaret_server::serve::ServeError;
use lazaret_store::sqlite::Mode;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, reload};

use super::config;
use crate::args::Secret;
use crate::failure::{Failure, Outcome};
use crate::output::{Format, Screen, tell};

const EXAMPLES: &str = "\
Examples:
  lazaret serve                                 http://127.0.0.1:7070, letters in ./lazaret-data
  lazaret serve --listen 127.0.0.1:0            random port, printed on the first line of stdout
  lazaret serve --data /var/lib/lazaret --config /etc/lazaret.toml
  lazaret serve --store postgres://lazaret@db.example.org/lazaret

Precedence: flags, LAZARET_* variables, configuration file, defaults; \
`lazaret config show` prints them.
Non-loopback addresses require a token: `lazaret token new --name me --role admin`.
Logs go to stderr, as JSON with `--json`.
The configuration is reloaded on SIGHUP; settings that need a restart are logged.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Listen address; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Data folder; created if missing
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store URL instead of the embedded store: postgres://…; prefer LAZARET_STORE for a URL with a password
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file; default: ./lazaret.toml if present
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Test mode: allow clearing the store over HTTP
    #[arg(long)]
    test_mode: bool,
}

pub async fn run(args: ServeArgs, screen: &Screen) -> anyhow::Result<Outcome> {
    let overrides =
        Overrides { listen: args.listen, data: args.data, store: args.store.map(Secret::into_text) };
    // A default file that was read must be there at the next reload too: without it the defaults would come into force.
    let default = Path::new(DEFAULT_FILE);
    let file = args.config.or_else(|| default.exists().then(|| default.to_owned()));
    let Checked { config, warnings } = config::read(file.as_deref(), overrides.clone());
    let config = config.map_err(config::failed)?;
    let set_log_level = start_log(&config.log, screen)?;
    log_warnings(&warnings);
    let load = move || {
        let Checked { config, warnings } = config::read(file.as_deref(), overrides.clone());
        log_warnings(&warnings);
        config
    };
    let reloading = Reloading { load: Arc::new(load), set_log_level };
    let mode = if args.test_mode { Mode::Test } else { Mode::Real };
    lazaret_server::serve::serve(config, mode, Some(reloading), async |_| (), announce)
        .await
        .map_err(failed)?;
    Ok(Outcome::Done)
}

fn log_warnings(warnings: &[ConfigProblem]) {
    for warning in warnings {
        tracing::warn!("{warning}");
    }
}

pub(super) fn failed(error: ServeError) -> Failure {
    let hint = error.hint();
    let failure = Failure::failed(format!("{:#}", anyhow::Error::from(error)));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// The line that scripts wait for.
pub(super) fn announce(address: SocketAddr) {
    let mut stdout = io::stdout().lock();
    if let Err(error) = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush()) {
        tell(&format!("warning: cannot write to stdout ({error}); listening on http://{address}"));
    }
}

/// Starts the log and gives back what changes its level.
pub(super) fn start_log(log: &LogConfig, screen: &Screen) -> anyhow::Result<Arc<LogSetter>> {
    let filter = log_filter(&log.level).map_err(|error| {
        Failure::failed(format!("`{}` is not a log level: {error}", log.level))
            .hint("use error, warn, info, debug or trace, or `info,lazaret_server=debug`")
    })?;
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(screen.colours_stderr() && io::stderr().is_terminal());
    let json = screen.format == Format::Json || matches!(log.format, LogFormat::Json);
    let lines = if json { lines.json().boxed() } else { lines.boxed() };
    let started = tracing_subscriber::registry().with(filter).with(lines).try_init();
    started.context("cannot start the log")?;
    Ok(Arc::new(move |level: &str| {
        let filter = log_filter(level).map_err(|error| error.to_string())?;
        handle.reload(filter).map_err(|error| error.to_string())
    }))
}

/// What is logged at a level, whatever it is: nothing of the AMQP client, which logs messages that a broker returned with their
/// bodies. What its errors mean is logged by whoever handles them.
fn log_filter(level: &str) -> Result<EnvFilter, ParseError> {
    Ok(EnvFilter::try_new(level)?.add_directive("lapin=off".parse()?))
}
