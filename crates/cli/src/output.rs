//! The terminal: data to stdout, talk to stderr, colour only where it is wanted.
//!
//! Texts from a server are escaped before they come here (`escape`), because a letter may hold anything. A reader who
//! leaves (`| head`) is no failure: writing goes silent and the command ends as it would have.

pub mod chart;
pub mod diff;
pub mod escape;
pub mod fit;
pub mod json_text;
pub mod moment;
pub mod page;
pub mod table;

use std::io::{self, ErrorKind, IsTerminal, Write};

use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a command prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Text,
    Json,
}

/// Whether text may be coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    On,
    Off,
}

/// How a piece of text stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Red => "31",
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Cyan => "36",
        }
    }

    /// The colour of a letter's status; the word itself always stands beside it.
    pub fn of_status(status: &str) -> Option<Paint> {
        match status {
            "pending" => Some(Paint::Yellow),
            "reprocessing" => Some(Paint::Cyan),
            "resolved" => Some(Paint::Green),
            "discarded" => Some(Paint::Dim),
            _ => None,
        }
    }

    /// The colour of a job's state; the word itself always stands beside it.
    pub fn of_job(state: &str) -> Option<Paint> {
        match state {
            "available" | "scheduled" | "pending" => Some(Paint::Yellow),
            "active" => Some(Paint::Cyan),
            "completed" => Some(Paint::Green),
            "retryable" | "discarded" => Some(Paint::Red),
            "cancelled" => Some(Paint::Dim),
            _ => None,
        }
    }

    /// The colour of a redrive's state or of a letter's outcome in it; the word itself always stands beside it.
    pub fn of_run(word: &str) -> Option<Paint> {
        match word {
            "planning" | "planned" | "waiting" | "paused" | "unknown" => Some(Paint::Yellow),
            "canary" | "running" | "verifying" | "out" | "sent" => Some(Paint::Cyan),
            "done" | "succeeded" | "assumed" => Some(Paint::Green),
            "stopped" | "failed" | "relapsed" | "lane_blocked" => Some(Paint::Red),
            "cancelled" | "skipped" | "ended" => Some(Paint::Dim),
            _ => None,
        }
    }

    /// The colour of a hold's state; the word itself always stands beside it.
    pub fn of_hold(state: &str) -> Option<Paint> {
        match state {
            "standing" => Some(Paint::Yellow),
            "placing" | "releasing" => Some(Paint::Cyan),
            "released" => Some(Paint::Dim),
            _ => None,
        }
    }

    /// The colour of an incident's state; the word itself always stands beside it.
    pub fn of_state(state: &str) -> Option<Paint> {
        match state {
            "open" => Some(Paint::Yellow),
            "regressed" => Some(Paint::Red),
            "diagnosed" | "fixed" | "redriving" | "verifying" => Some(Paint::Cyan),
            "closed" => Some(Paint::Dim),
            _ => None,
        }
    }
}

/// Where a command prints, and how.
#[derive(Debug)]
pub struct Screen {
    pub format: Format,
    terminal: bool,
    colour: Colour,
    stderr_colour: Colour,
    width: Option<u16>,
    reader_gone: bool,
}

impl Screen {
    pub fn new(format: Format, choice: ColorChoice) -> Screen {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colour = |terminal: bool| match choice {
            ColorChoice::Always => Colour::On,
            ColorChoice::Auto if terminal && !no_color => Colour::On,
            ColorChoice::Auto | ColorChoice::Never => Colour::Off,
        };
        let terminal = io::stdout().is_terminal();
        Screen {
            format,
            terminal,
            colour: colour(terminal),
            stderr_colour: colour(io::stderr().is_terminal()),
            width: comfy_table::Table::new().width(),
            reader_gone: false,
        }
    }

    #[cfg(test)]
    pub fn of_width(self, width: u16) -> Screen {
        Screen { width: Some(width), ..self }
    }

    #[cfg(test)]
    pub fn without_width(self) -> Screen {
        Screen { width: None, ..self }
    }

    /// Whether a person reads stdout, rather than a program.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub fn colours_stderr(&self) -> bool {
        self.stderr_colour == Colour::On
    }

    /// The columns of the terminal; nothing where there is none and nothing has to be cut.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// Nobody reads stdout any more, so that there is no use in fetching more of what only is to be shown.
    pub fn is_reader_gone(&self) -> bool {
        self.reader_gone
    }

    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.write(format!("{text}\n").as_bytes())
    }

    pub fn table(&mut self, table: &table::Table) -> io::Result<()> {
        let text = table.render(self.width, self.colour);
        self.write(text.as_bytes())
    }

    /// A table to stand inside a text, so many columns from its edge.
    pub fn inset(&self, table: &table::Table, columns: u16) -> String {
        table.render(self.width.map(|width| width.saturating_sub(columns)), self.colour)
    }

    /// Prints JSON as it came, indented for a person.
    pub fn json(&mut self, text: &str) -> io::Result<()> {
        let text = if self.terminal { json_text::indented(text) } else { text.trim().to_owned() };
        self.line(&text)
    }

    /// Writes bytes exactly.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.reader_gone {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                Ok(())
            }
            Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// Text that stands out on stdout, if it may.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        painted(self.colour, paint, text)
    }

    pub fn note(&self, text: &str) {
        tell(&escape::lines(text));
    }

    pub fn error(&self, message: &str, hint: Option<&str>) {
        // Messages may quote what a stranger sent; lines are kept because configuration errors have several.
        let message = escape::lines(message);
        tell(&format!("{} {message}", painted(self.stderr_colour, Paint::Red, "error:")));
        if let Some(hint) = hint {
            let hint = escape::lines(hint);
            tell(&format!("{} {hint}", painted(self.stderr_colour, Paint::Cyan, "hint:")));
        }
    }

    /// A bar on stderr that counts up to `len`; it is hidden unless a person watches.
    pub fn bar(&self, len: Option<u64>, template: &'static str) -> ProgressBar {
        let style = ProgressStyle::with_template(template).expect("the templates are ours and tested");
        let bar = ProgressBar::with_draw_target(len, ProgressDrawTarget::stderr());
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        bar
    }
}

pub const BAR_OF_LETTERS: &str = "{bar:30} {human_pos}/{human_len} letters {msg}";
pub const BAR_OF_BYTES: &str = "{bar:30} {binary_bytes}/{binary_total_bytes} {msg} {eta}";
pub const BAR_OF_JOBS: &str = "{bar:30} {human_pos}/{human_len} {msg}";
pub const BAR_OF_FILES: &str = "{bar:30} {human_pos}/{human_len} files {msg}";
pub const COUNTER: &str = "{spinner} {human_pos} letters {msg}";
pub const COUNTER_OF_ROWS: &str = "{spinner} {human_pos} rows {msg}";
pub const SPINNER: &str = "{spinner} {binary_bytes} {msg}";
pub const WAITING: &str = "{spinner} {msg}";
pub const PICTURE: &str = "{msg}";

fn painted(colour: Colour, paint: Paint, text: &str) -> String {
    match colour {
        Colour::On => format!("\u{1b}[{}m{text}\u{1b}[0m", paint.code()),
        Colour::Off => text.to_owned(),
    }
}

/// Says something on stderr.
pub fn tell(text: &str) {
    // If even stderr is closed there is nobody left to tell, and the exit code still says how it ended.
    io::stderr().lock().write_all(format!("{text}\n").as_bytes()).ok();
}

/// Quotes a word for a shell, so that what is shown can be pasted.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", escape::line(word).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_shell_when_they_need_it() {
        let cases = [
            ("queue:billing", "queue:billing"),
            ("type:invoice.*", "'type:invoice.*'"),
            ("it's", "'it'\\''s'"),
            ("age:>7d", "'age:>7d'"),
            ("", "''"),
        ];
        for (word, quoted) in cases {
            assert_eq!(shell_word(word), quoted);
        }
    }

    #[test]
    fn colour_is_left_out_unless_wanted() {
        assert_eq!(painted(Colour::Off, Paint::Red, "x"), "x");
        assert_eq!(painted(Colour::On, Paint::Red, "x"), "\u{1b}[31mx\u{1b}[0m");
    }

    #[test]
    fn every_template_of_a_bar_is_one() {
        for template in [
            BAR_OF_LETTERS,
            BAR_OF_BYTES,
            BAR_OF_JOBS,
            BAR_OF_FILES,
            COUNTER,
            COUNTER_OF_ROWS,
            SPINNER,
            WAITING,
            PICTURE,
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
