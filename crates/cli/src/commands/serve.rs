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
  lazaret serve --listen 127.0.0.1:0            a free port; the first line of stdout says which
  lazaret serve --data /var/lib/lazaret --config /etc/lazaret.toml
  lazaret serve --store postgres://lazaret@db.example.org/lazaret

Settings come from flags, then LAZARET_* variables, then the file, then defaults; \
`lazaret config show` prints them.
Addresses that are not loopback need a token first: `lazaret token new --name me --role admin`.
Logs go to stderr; `--json` makes them JSON.
SIGHUP takes the configuration anew; what needs a restart is told in the log.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Folder for the letters; made if need be
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Store to use instead of the embedded one in the data folder: postgres://…; if there is a password in it, the
    /// variable LAZARET_STORE is the safer place
    #[arg(long, value_name = "URL")]
    store: Option<Secret>,
    /// Configuration file; without it ./lazaret.toml, if it is there
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Let tests empty the store over HTTP; such a store is never used for real
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
        tell(&format!("note: cannot write to stdout ({error}); listening on http://{address}"));
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
