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
    /// List letters of the archive, the last removed first
    #[command(after_help = ls::EXAMPLES)]
    Ls(ls::LsArgs),
    /// Show one letter of the archive whole, as it was when it went
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Bring letters back, in the state they had
    #[command(after_help = restore::EXAMPLES)]
    Restore(restore::RestoreArgs),
    /// Read the files and check that they are what was written; exit code 1 when one is not
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// List the files, and what waits for one
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
