//! Waits until it is known what became of a letter that was put back.

use std::time::Duration;

use crate::answers::redrive::{Redrive, RedriveLetterPage};
use crate::client::Client;
use crate::failure::Outcome;
use crate::output::{Format, Paint, Screen, WAITING, escape};

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Looks at a redrive of one until it ends, and tells what proves how.
pub async fn for_end(
    letter: &str,
    redrive: &str,
    client: &Client,
    screen: &mut Screen,
) -> anyhow::Result<Outcome> {
    let run = escape::line(redrive);
    let ended = tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            screen.note(&format!("in flight; follow: lazaret redrive watch {run}"));
            return Ok(Outcome::Incomplete);
        }
        ended = end(redrive, client, screen) => ended?,
    };
    let succeeded = ended.letters.good() > 0;
    if screen.format == Format::Json {
        let answer = client.get(&["redrives", redrive], &[]).await?;
        screen.json(answer.text()?)?;
        return Ok(if succeeded { Outcome::Done } else { Outcome::Incomplete });
    }
    let page: RedriveLetterPage =
        client.get(&["redrives", redrive, "letters"], &[("limit", "1")]).await?.read()?;
    let (outcome, evidence) = match page.items.first() {
        Some(found) => (escape::line(&found.outcome), found.evidence.as_deref().map(escape::line)),
        None => (escape::line(&ended.state), ended.why.as_deref().map(escape::line)),
    };
    let painted = Paint::of_run(&outcome).map_or(outcome.clone(), |paint| screen.paint(paint, &outcome));
    let evidence = evidence.map(|evidence| format!(": {evidence}")).unwrap_or_default();
    screen.line(&format!("{letter} {painted}{evidence}"))?;
    if outcome == "unknown" {
        screen.note(&format!("settle: lazaret redrive settle {run} {letter} sent|unclaim"));
    }
    Ok(if succeeded { Outcome::Done } else { Outcome::Incomplete })
}

async fn end(redrive: &str, client: &Client, screen: &Screen) -> anyhow::Result<Redrive> {
    let bar = screen.bar(None, WAITING);
    bar.set_message("in flight");
    loop {
        let seen: Redrive = client.get(&["redrives", redrive], &[]).await?.read()?;
        bar.tick();
        let is_over = matches!(seen.state.as_str(), "done" | "stopped" | "cancelled" | "paused");
        // An unknown one waits for a person, not for time.
        if is_over || seen.letters.waiting.saturating_add(seen.letters.under_way()) == 0 {
            bar.finish_and_clear();
            return Ok(seen);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
