//! Questions to a person: only where one sits at the terminal, and no answer is a no.

use std::io::{self, IsTerminal, Write};

use crate::failure::Failure;

/// Whether somebody is there to be asked: stdin to type at, stderr to read from.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question, already harmless, that is answered by y or n.
pub fn yes(question: &str) -> anyhow::Result<bool> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} [y/N] ")?;
    stderr.flush()?;
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    Ok(is_yes(&typed))
}

/// What a command ends with when the answer was no.
pub fn not_confirmed() -> Failure {
    Failure::failed("not confirmed: nothing was changed")
}

fn is_yes(typed: &str) -> bool {
    matches!(typed.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_one() {
        for yes in ["y\n", "Y", " yes \n", "YES"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n", "no", "yep", "j", "412"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
