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
    /// Say what putting letters back would do: how many go where, how long it takes, what is refused and why
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Put back the letters of a plan, or plan and start in one go
    #[command(after_help = start::EXAMPLES)]
    Start(start::StartArgs),
    /// Follow a redrive until it ends
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::WatchArgs),
    /// Stop sending for now; what is on its way is still verified
    #[command(after_help = steps::EXAMPLES_PAUSE)]
    Pause(steps::BecauseArgs),
    /// Go on with a redrive that is paused or has stopped
    #[command(after_help = steps::EXAMPLES_RESUME)]
    Resume(steps::RedriveArg),
    /// End a redrive; letters that were not sent wait again
    #[command(after_help = steps::EXAMPLES_CANCEL)]
    Cancel(steps::BecauseArgs),
    /// Change how many letters a minute are sent
    #[command(after_help = steps::EXAMPLES_PACE)]
    Pace(steps::PaceArgs),
    /// List redrives, newest first
    #[command(after_help = list::EXAMPLES)]
    Ls(list::LsArgs),
    /// Show one redrive: its plan, how far it is, and what became of its letters
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Decide about a letter of which nobody knows whether it was sent
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
