//! `lazaret redrive …`: letters are put back by a plan that says beforehand what will happen, and watched while they go.

mod choices;
mod list;
mod page;
mod plan;
mod show;
mod start;
mod steps;
mod watch;

use clap::Subcommand;

use crate::client::Client;
use crate::failure::Outcome;
use crate::output::Screen;

#[derive(Subcommand, Debug)]
pub enum RedriveCommand {
    /// Plan a redrive (dry run): destinations, duration, blocked letters
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Start a plan, or plan and start in one step
    #[command(after_help = start::EXAMPLES)]
    Start(start::StartArgs),
    /// Follow a redrive until it finishes
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::WatchArgs),
    /// Pause a redrive; letters in flight are still verified
    #[command(after_help = steps::EXAMPLES_PAUSE)]
    Pause(steps::BecauseArgs),
    /// Resume a paused or stopped redrive
    #[command(after_help = steps::EXAMPLES_RESUME)]
    Resume(steps::RedriveArg),
    /// Cancel a redrive; unsent letters return to pending
    #[command(after_help = steps::EXAMPLES_CANCEL)]
    Cancel(steps::BecauseArgs),
    /// Change the rate
    #[command(after_help = steps::EXAMPLES_PACE)]
    Pace(steps::PaceArgs),
    /// List redrives, newest first
    #[command(after_help = list::EXAMPLES)]
    Ls(list::LsArgs),
    /// Show a redrive: plan, progress and outcomes
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Settle a letter with an unknown outcome
    #[command(after_help = steps::EXAMPLES_SETTLE)]
    Settle(steps::SettleArgs),
}

pub async fn run(command: RedriveCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        RedriveCommand::Plan(args) => plan::run(args, client, screen).await,
        RedriveCommand::Start(args) => start::run(args, client, screen).await,
        RedriveCommand::Watch(args) => watch::run(args, client, screen).await,
        RedriveCommand::Pause(args) => steps::pause(args, client, screen).await,
        RedriveCommand::Resume(args) => steps::resume(args, client, screen).await,
        RedriveCommand::Cancel(args) => steps::cancel(args, client, screen).await,
        RedriveCommand::Pace(args) => steps::pace(args, client, screen).await,
        RedriveCommand::Ls(args) => list::run(args, client, screen).await,
        RedriveCommand::Show(args) => show::run(args, client, screen).await,
        RedriveCommand::Settle(args) => steps::settle(args, client, screen).await,
    }
}
