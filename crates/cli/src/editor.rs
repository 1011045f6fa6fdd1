//! The person's own editor, for texts that are longer than a command line.
//!
//! What was typed is never thrown away by a mistake: `Draft` lies in a file until somebody drops it, and can be kept.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::failure::Failure;

/// What a person made of a text, and the file it lies in.
#[derive(Debug)]
pub struct Draft {
    pub text: String,
    file: tempfile::NamedTempFile,
}

impl Draft {
    /// Leaves the file where it is and says where that is.
    pub fn keep(self) -> anyhow::Result<PathBuf> {
        let (_, path) = self.file.keep().context("cannot save the edited text")?;
        Ok(path)
    }
}

/// Opens the editor on a text, in a file whose name ends so, and waits until it is closed.
pub fn edit(text: &str, suffix: &str) -> anyhow::Result<Draft> {
    let mut file = tempfile::Builder::new()
        .prefix("lazaret-")
        .suffix(suffix)
        .tempfile()
        .context("cannot create a temporary file")?;
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).context("cannot write the temporary file")?;
    let editor = chosen(std::env::var_os("VISUAL"), std::env::var_os("EDITOR"));
    // By a shell, because people write `code --wait` there; the file is an argument and no part of the script.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(file.path())
        .status()
        .with_context(|| format!("cannot run the editor `{editor}`"))?;
    if !status.success() {
        return Err(Failure::failed(format!("editor `{editor}` failed: nothing was changed"))
            .hint("set EDITOR, such as EDITOR=nano or EDITOR='code --wait'")
            .into());
    }
    // By its name and not by the file that is open: editors write a new one and put it in the old one's place.
    let text = std::fs::read_to_string(file.path()).context("cannot read the edited file")?;
    Ok(Draft { text, file })
}

/// The editor by the rule of the house of Unix: VISUAL, then EDITOR, then what is always there.
fn chosen(visual: Option<OsString>, editor: Option<OsString>) -> String {
    let text = |value: Option<OsString>| value.and_then(|value| value.into_string().ok());
    let said = |value: &String| !value.trim().is_empty();
    text(visual).filter(said).or(text(editor).filter(said)).unwrap_or_else(|| "vi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_editor_is_the_one_that_was_chosen() {
        let chosen = |visual: &str, editor: &str| chosen(Some(visual.into()), Some(editor.into()));
        assert_eq!(chosen("code --wait", "nano"), "code --wait");
        assert_eq!(chosen(" ", "nano"), "nano");
        assert_eq!(chosen("", ""), "vi");
    }
}
