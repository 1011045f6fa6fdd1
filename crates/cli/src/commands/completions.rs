//! `lazaret completions`: what a shell needs to complete our commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::Outcome;
use crate::output::Screen;

const EXAMPLES: &str = "\
Examples:
  lazaret completions bash > /etc/bash_completion.d/lazaret
  lazaret completions zsh > \"${fpath[1]}/_lazaret\"
  lazaret completions fish > ~/.config/fish/completions/lazaret.fish";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell to complete for
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, screen: &mut Screen) -> anyhow::Result<Outcome> {
    // Generated into memory, because the generator panics when its reader leaves.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "lazaret", &mut script);
    screen.write(&script)?;
    Ok(Outcome::Done)
}
