//! The commands, one file for each. They decide nothing about letters; the server does.

pub mod alerts;
pub mod archive;
pub mod audit;
pub mod bench;
pub mod broker;
pub mod completions;
pub mod config;
pub mod decide;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod grouping;
pub mod hold;
pub mod holds;
pub mod import;
pub mod incident;
pub mod incidents;
pub mod jobs;
pub mod ledger;
pub mod ls;
pub mod man;
pub mod outbox;
pub mod paged;
pub mod progress;
pub mod prune;
pub mod queues;
pub mod redrive;
pub mod report;
pub mod retention;
pub mod retry;
pub mod rules;
pub mod series;
pub mod serve;
pub mod show;
pub mod sources;
pub mod stats;
pub mod store;
pub mod suggest;
pub mod tail;
pub mod token;
pub mod workers;

use lazaret_core::lifecycle::Action;

use crate::args::{Cli, Command};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::Screen;

pub async fn run(cli: Cli, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let client = || Client::new(&cli.global.url, cli.global.token());
    match cli.command {
        Command::Serve(args) => serve::run(args, screen).await,
        Command::Demo(args) => demo::run(args, screen).await,
        Command::Report(args) => report::run(args, client()?, screen).await,
        Command::Ls(args) => ls::run(args, &client()?, screen).await,
        Command::Show(args) => show::run(args, &client()?, screen).await,
        Command::Incidents(args) => incidents::run(args, &client()?, screen).await,
        Command::Incident(command) => incident::run(command, &client()?, screen).await,
        Command::Redrive(command) => redrive::run(command, &client()?, screen).await,
        Command::Retry(args) => retry::run(args, &client()?, screen).await,
        Command::Tail(args) => tail::run(args, &client()?, screen).await,
        Command::Stats(args) => stats::run(args, &client()?, screen).await,
        Command::Series(args) => series::run(args, &client()?, screen).await,
        Command::Suggest(args) => suggest::run(args, &client()?, screen).await,
        Command::Ledger(args) => ledger::run(args, &client()?, screen).await,
        Command::Resolve(args) => decide::run(Action::Resolve, args, &client()?, screen).await,
        Command::Discard(args) => decide::run(Action::Discard, args, &client()?, screen).await,
        Command::Reopen(args) => decide::run(Action::Reopen, args, &client()?, screen).await,
        Command::Hold(args) => hold::run(args, &client()?, screen).await,
        Command::Holds(args) => holds::run(args, &client()?, screen).await,
        Command::Release(args) => decide::run(Action::Release, args, &client()?, screen).await,
        Command::Delete(args) => decide::run(Action::Delete, args, &client()?, screen).await,
        Command::Restore(args) => decide::restore(args, &client()?, screen).await,
        Command::Archive(command) => archive::run(command, &client()?, screen).await,
        Command::Retention(args) => retention::run(args, &client()?, screen).await,
        Command::Prune(args) => prune::run(args, &client()?, screen).await,
        Command::Jobs(command) => jobs::run(command, &client()?, screen).await,
        Command::Queues(args) => queues::run(args, &client()?, screen).await,
        Command::Workers(args) => workers::run(args, &client()?, screen).await,
        Command::Sources(args) => sources::run(args, &client()?, screen).await,
        Command::Outbox(command) => outbox::run(command, screen).await,
        Command::JetStream(command) => broker::run_jetstream(command, screen).await,
        Command::RabbitMq(command) => broker::run_rabbitmq(command, screen).await,
        Command::Doctor(args) => doctor::run(args, &client()?, screen).await,
        Command::Export(args) => export::run(args, &client()?, screen).await,
        Command::Import(args) => import::run(args, &client()?, screen).await,
        Command::Token(command) => token::run(command, cli.global.url_from, &client()?, screen).await,
        Command::Audit(args) => audit::run(args, cli.global.url_from, &client()?, screen).await,
        Command::Alerts(command) => alerts::run(command, &client()?, screen).await,
        Command::Rules(args) => rules::run(args, &client()?, screen).await,
        Command::Progress(args) => progress::run(args, &client()?, screen).await,
        Command::Store(command) => store::run(command, screen).await,
        Command::Bench(args) => bench::run(args, &cli.global, screen).await,
        Command::Config(command) => config::run(command, screen),
        Command::Completions(args) => completions::run(&args, screen),
        Command::Man(args) => man::run(&args, screen),
    }
}
