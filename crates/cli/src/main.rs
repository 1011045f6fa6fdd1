//! The binary: `lazaret serve` is the service, every other command talks to one.
//!
//! Data goes to stdout, talk to stderr. Exit 0 is done, 1 failed, 2 misused.

mod answers;
mod args;
mod bench;
mod client;
mod commands;
mod demo;
mod editor;
mod failure;
mod filter;
mod gate;
mod output;
mod prompt;
mod transfer;

use std::process::ExitCode;

use anyhow::Context;

use args::Cli;
use failure::{Exit, Outcome, explain};
use output::Screen;

fn main() -> ExitCode {
    let cli = Cli::read(std::env::args_os());
    let mut screen = Screen::new(cli.global.format(), cli.global.color);
    match run(cli, &mut screen) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Incomplete) => ExitCode::from(Exit::Failed.code()),
        Err(error) => {
            let explained = explain(&error);
            screen.error(&explained.message, explained.hint.as_deref());
            ExitCode::from(explained.exit.code())
        }
    }
}

fn run(cli: Cli, screen: &mut Screen) -> anyhow::Result<Outcome> {
    // Fails only when there is a provider already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start worker threads")?;
    runtime.block_on(commands::run(cli, screen))
}
