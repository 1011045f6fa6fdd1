//! `lazaret archive …`: letters that a limit pushed out or that were deleted, and the files they are in.

mod files;
mod lines;
mod ls;
mod restore;
mod show;
mod verify;

use clap::Subcommand;

use crate::client::Client;
use crate::failure::Outcome;
use crate::output::Screen;

#[derive(Subcommand, Debug)]
pub enum ArchiveCommand {
    /// List archived letters, last removed first
    #[command(after_help = ls::EXAMPLES)]
    Ls(ls::LsArgs),
    /// Show an archived letter
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Restore letters in their previous state
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::RestoreArgs),
    /// Verify the integrity of archive files; exit code 1 on a damaged file
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// List archive files and queued letters
    #[command(after_help = files::EXAMPLES)]
    Files(files::FilesArgs),
}

pub async fn run(command: ArchiveCommand, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    match command {
        ArchiveCommand::Ls(args) => ls::run(args, client, screen).await,
        ArchiveCommand::Show(args) => show::run(args, client, screen).await,
        ArchiveCommand::Restore(args) => restore::run(args, client, screen).await,
        ArchiveCommand::Verify(args) => verify::run(args, client, screen).await,
        ArchiveCommand::Files(args) => files::run(args, client, screen).await,
    }
}
