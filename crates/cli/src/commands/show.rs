//! `lazaret show`: one letter, whole, for a person; or its exact bytes.

mod held;
mod page;
mod sent;

use clap::Args;
use lazaret_core::id::LetterId;

use crate::answers::{LetterRest, LetterSummary};
use crate::client::{Answer, Client, ClientError};
use crate::failure::{Failure, Outcome};
use crate::output::escape::is_harmful;
use crate::output::{Format, Screen, moment};
pub use page::{Layout, Payload, page};

const EXAMPLES: &str = "\
Examples:
  lazaret show 019a8b1c-7e00-7000-8000-000000000000
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --life 1
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --older      include archived lives
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --body > event.json
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --json | jq .retryHistory
  lazaret show 019a8b1c-7e00-7000-8000-000000000000 --reveal --reason 'ticket 7: which card was charged'

Masked values are shown as [redacted]; the stored letter is not changed, and redrives send the original.";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ShowArgs {
    /// Letter id
    #[arg(value_parser = LetterId::parse)]
    id: LetterId,

    /// Write only the captured body, byte for byte unless masked
    #[arg(long)]
    body: bool,

    /// Only attempts and payload of this life
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    life: Option<u32>,

    /// Include archived lives and attempts
    #[arg(long, conflicts_with = "body")]
    older: bool,

    /// Do not indent the payload; with --body, write control characters to a terminal
    #[arg(long)]
    raw: bool,

    /// Reveal masked values; requires role approver or admin, and --reason
    #[arg(long, requires = "reason")]
    reveal: bool,

    /// Reason for --reveal, at least 10 characters; recorded in the audit log
    #[arg(long, value_name = "TEXT", requires = "reveal")]
    reason: Option<String>,
}

impl ShowArgs {
    fn reveal(&self) -> impl Iterator<Item = (&str, &str)> {
        self.reason.iter().filter(|_| self.reveal).map(|reason| ("reveal", reason.as_str()))
    }
}

pub async fn run(args: ShowArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    if args.body {
        if screen.format == Format::Json {
            return Err(Failure::misuse("--body conflicts with --json").hint("remove --json").into());
        }
        let answer = body(&id, &args, client).await?;
        return write_body(args.raw, &answer, screen);
    }
    let mut query: Vec<(&str, &str)> = args.reveal().collect();
    if args.older {
        query.push(("older", "true"));
    }
    let answer = client.get(&["dead-letters", &id], &query).await?;
    if screen.format == Format::Json {
        screen.json(answer.text()?)?;
        return Ok(Outcome::Done);
    }
    let letter: LetterSummary = answer.read()?;
    let mut rest: LetterRest = answer.read()?;
    let payload = match args.life {
        None => Payload::present(&rest),
        Some(life) => {
            rest.retry_history.retain(|run| run.life.is_none_or(|of| of == u64::from(life)));
            rest.lives.retain(|of| of.life == u64::from(life));
            rest.redrives.retain(|of| of.life == u64::from(life));
            rest.edits.retain(|of| of.life == u64::from(life));
            rest.headers = rest.headers.filter(|_| letter.life == u64::from(life));
            match body(&id, &args, client).await {
                Ok(body) => Payload::of(&body),
                Err(error) if is_withheld(&error) => {
                    Payload::Text("withheld: binary body cannot be masked".into())
                }
                Err(error) => match body_missing(&error) {
                    Some(why) => Payload::Text(why),
                    None => return Err(error),
                },
            }
        }
    };
    let layout = if args.raw { Layout::AsCaptured } else { Layout::Indented };
    let text = page(&letter, &rest, &payload.text(layout), screen, moment::now());
    screen.write(text.as_bytes())?;
    tell_masked(&rest, &format!("lazaret show {id}"), screen);
    Ok(Outcome::Done)
}

/// Says how to see what is masked, if anything is.
pub fn tell_masked(rest: &LetterRest, command: &str, screen: &Screen) {
    if rest.redacted {
        screen.note(&format!("some values are masked; reveal them with {command} --reveal --reason TEXT"));
    }
}

/// Whether the server keeps a body back because it cannot mask it.
fn is_withheld(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(ClientError::Refused(problem)) if problem.code == "withheld")
}

/// What the server says of a letter whose body is missing.
fn body_missing(error: &anyhow::Error) -> Option<String> {
    match error.downcast_ref() {
        Some(ClientError::Refused(problem)) if problem.code == "body_missing" => {
            Some(problem.message.clone())
        }
        _ => None,
    }
}

async fn body(id: &str, args: &ShowArgs, client: &Client) -> anyhow::Result<Answer> {
    let life = args.life.map(|life| life.to_string());
    let life = life.iter().map(|life| ("life", life.as_str()));
    let query: Vec<(&str, &str)> = life.chain(args.reveal()).collect();
    Ok(client.get(&["dead-letters", id, "body"], &query).await?)
}

/// Writes exact bytes, to a terminal only if they are harmless or `raw` is said.
pub fn write_body(raw: bool, answer: &Answer, screen: &mut Screen) -> anyhow::Result<Outcome> {
    if screen.is_terminal() && !raw && !is_harmless(&answer.bytes) {
        let bytes = moment::count(answer.bytes.len() as u64);
        return Err(Failure::failed(format!("the {bytes} bytes contain control characters"))
            .hint("redirect the output, or pass --raw")
            .into());
    }
    screen.write(&answer.bytes)?;
    Ok(Outcome::Done)
}

fn is_harmless(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(text) => !text.chars().any(|c| is_harmful(c) && c != '\n' && c != '\t'),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_text_goes_to_a_terminal_unasked() {
        assert!(is_harmless("{\n\t\"größe\": 1\n}".as_bytes()));
        for bad in [&b"\x1b[2J"[..], b"\xff\xfe", b"a\0b", b"a\rb"] {
            assert!(!is_harmless(bad), "{bad:?}");
        }
    }
}
