//! `lazaret redrive watch`: follows a redrive until it ends; a picture on a terminal, lines elsewhere.
//!
//! It only looks. The run is the server's: leaving, or losing sight of it, changes nothing.

mod speed;
mod view;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use lazaret_core::id::RedriveId;
use lazaret_core::time::Time;

use crate::answers::redrive::{Outcomes, Redrive};
use crate::client::{Answer, Client, ClientError};
use crate::failure::Outcome;
use crate::output::{Format, PICTURE, Screen, escape, json_text, moment};
use speed::Speed;

pub const EXAMPLES: &str = "\
Examples:
  lazaret redrive watch 019a8b1c-7e00-7000-8000-000000000007
  lazaret redrive watch 019a8b1c-7e00-7000-8000-000000000007 && ./notify 'redrive finished'
  lazaret redrive watch 019a8b1c-7e00-7000-8000-000000000007 --json | jq -c '[.state, .letters.succeeded]'

Ctrl-C stops following; the redrive continues. Exit code 1 if the redrive stops, is cancelled, or has failed, \
relapsed or unknown letters; without a terminal also if it is paused.";

/// How often the run is looked at, and how long the server may be away meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOKS_FAILED_MAX: u32 = 60;

/// Lines for a program or a log come no more often than this while nothing but numbers change.
const LINE_EVERY_MS: i64 = 10_000;

#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Redrive id
    #[arg(value_name = "ID", value_parser = RedriveId::parse)]
    id: RedriveId,
}

pub async fn run(args: WatchArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    to_the_end(&args.id.to_string(), client, screen).await
}

/// How the watching ended.
#[derive(Debug)]
enum End {
    /// Nothing more happens to the run by itself.
    Over(Box<Redrive>),
    /// Somebody has to resume it, and nobody watches who could.
    Paused(Box<Redrive>),
    /// Nobody has started it.
    Unstarted,
    /// The person left; the run goes on.
    Left,
}

/// Follows a redrive and tells how it ended.
pub async fn to_the_end(id: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let safe = escape::line(id);
    let redrive = match follow(id, client, screen).await? {
        End::Left => {
            screen.note(&format!("the redrive continues; follow again: lazaret redrive watch {safe}"));
            return Ok(Outcome::Incomplete);
        }
        End::Paused(redrive) => {
            screen.note(&format!("paused; resume: lazaret redrive resume {safe}"));
            tell(&redrive, screen)?;
            return Ok(Outcome::Incomplete);
        }
        End::Unstarted => {
            screen.note(&format!("not started; start: lazaret redrive start {safe} --expect N"));
            return Ok(Outcome::Incomplete);
        }
        End::Over(redrive) => redrive,
    };
    tell(&redrive, screen)
}

/// The last words, and whether everything went well.
fn tell(redrive: &Redrive, screen: &mut Screen) -> anyhow::Result<Outcome> {
    if screen.format == Format::Text {
        screen.line(&view::summary(redrive, screen))?;
        let id = escape::line(&redrive.id);
        let Outcomes { failed, relapsed, unknown, .. } = redrive.letters;
        for (outcome, count) in [("failed", failed), ("relapsed", relapsed), ("unknown", unknown)] {
            if count > 0 {
                screen.note(&format!("which {outcome}: lazaret redrive show {id} --outcome {outcome}"));
            }
        }
        if unknown > 0 {
            screen.note(&format!("settle: lazaret redrive settle {id} LETTER sent|unclaim"));
        }
    }
    let is_well = redrive.state == "done" && redrive.letters.bad() == 0;
    Ok(if is_well { Outcome::Done } else { Outcome::Incomplete })
}

/// Looks at a redrive until it ends, showing how far it is.
async fn follow(id: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<End> {
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok(End::Left)
        }
        ended = look(id, client, screen) => ended,
    }
}

async fn look(id: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<End> {
    let is_live = screen.format == Format::Text && screen.is_terminal() && io::stderr().is_terminal();
    let picture = screen.bar(None, PICTURE);
    let mut speed = Speed::default();
    let mut lines = Lines::default();
    let mut looks_failed = 0;
    loop {
        let answer = match client.get(&["redrives", id], &[]).await {
            Ok(answer) => answer,
            Err(ClientError::Lost { .. } | ClientError::Silent { .. } | ClientError::Unreachable { .. })
                if lines.any() && looks_failed < LOOKS_FAILED_MAX =>
            {
                looks_failed += 1;
                if looks_failed == 1 {
                    picture.suspend(|| screen.note("server not reachable; retrying"));
                }
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            Err(error) => {
                picture.finish_and_clear();
                return Err(anyhow::Error::from(error)
                    .context(format!("lost connection while following redrive {}", escape::line(id))));
            }
        };
        looks_failed = 0;
        let redrive: Redrive = answer.read()?;
        let now = moment::now();
        speed.look(&redrive, now);
        if is_live {
            lines.seen(&redrive, now);
            picture.set_message(view::picture(&redrive, &speed, screen, now));
        } else {
            lines.tell(&redrive, &answer, &speed, screen, now)?;
        }
        let end = match redrive.state.as_str() {
            "done" | "stopped" | "cancelled" => Some(End::Over(Box::new(redrive))),
            "planned" => Some(End::Unstarted),
            "paused" if !is_live => Some(End::Paused(Box::new(redrive))),
            _ if screen.is_reader_gone() => Some(End::Left),
            _ => None,
        };
        if let Some(end) = end {
            picture.finish_and_clear();
            return Ok(end);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Lines for whoever is no person at a terminal: at every change of state, and now and then.
#[derive(Debug, Default)]
struct Lines {
    last: Option<(String, Outcomes, Time)>,
}

impl Lines {
    /// Whether the redrive was ever seen: before that, a wrong address is more likely than a server that is away.
    fn any(&self) -> bool {
        self.last.is_some()
    }

    fn seen(&mut self, redrive: &Redrive, now: Time) {
        self.last = Some((phase(redrive), redrive.letters, now));
    }

    fn tell(
        &mut self,
        redrive: &Redrive,
        answer: &Answer,
        speed: &Speed,
        screen: &mut Screen,
        now: Time,
    ) -> anyhow::Result<()> {
        if !self.is_due(redrive, now) {
            return Ok(());
        }
        self.seen(redrive, now);
        match screen.format {
            Format::Json => screen.line(&json_text::on_one_line(answer.text()?))?,
            Format::Text => screen.line(&view::line(redrive, speed, now))?,
        }
        Ok(())
    }

    fn is_due(&self, redrive: &Redrive, now: Time) -> bool {
        let Some((phase_before, letters, at)) = &self.last else { return true };
        let is_moved = *letters != redrive.letters;
        *phase_before != phase(redrive) || (is_moved && now.since(*at) >= LINE_EVERY_MS)
    }
}

/// What a person would call another situation.
fn phase(redrive: &Redrive) -> String {
    format!("{} {} {}", redrive.state, redrive.canary_passed, redrive.why.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_with_every_change_and_otherwise_now_and_then() {
        let mut redrive: Redrive = serde_json::from_str(include_str!("run.json")).unwrap();
        let (start, mut lines) = (Time::from_ms(0), Lines::default());
        assert!(!lines.any() && lines.is_due(&redrive, start));
        lines.seen(&redrive, start);
        assert!(!lines.is_due(&redrive, start.plus_ms(60_000)), "nothing has changed");
        redrive.letters.succeeded += 1;
        assert!(!lines.is_due(&redrive, start.plus_ms(LINE_EVERY_MS - 1)));
        assert!(lines.is_due(&redrive, start.plus_ms(LINE_EVERY_MS)));
        redrive.state = "paused".into();
        assert!(lines.is_due(&redrive, start.plus_ms(1)));
    }
}
