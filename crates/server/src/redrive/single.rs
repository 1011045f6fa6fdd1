//! One letter, put back by hand, perhaps changed.

use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Action;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Pace, RedriveKind, StopRule};
use lazaret_store::StoreError;
use lazaret_store::audit::Actor;
use lazaret_store::redrive::{self as stored, Edit, GroupVerdict, Launch, Redrive};

use super::gate::{Force, ask, shut_for, shut_of};
use super::launch::launched;
use super::plan::{New, drop_plan, freeze, judged};
use super::tick::drive;
use super::{Glass, NotRedriven};
use crate::app::App;
use crate::jobs::SOURCE;

/// A letter that somebody puts back by itself.
#[derive(Clone, PartialEq, Debug)]
pub struct SingleRequest {
    /// What is sent in place of the original.
    pub edit: Option<Edited>,
    pub reason: Option<String>,
    /// Why the gate is to be passed by force.
    pub break_glass: Option<String>,
    pub glass: Glass,
    pub by: Actor,
}

/// What is changed of an original; the rest is sent as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edited {
    pub body: Option<Vec<u8>>,
    pub content_type: Option<String>,
    /// Laid over the original ones, whatever their case; nothing takes one away.
    pub headers: Vec<(String, Option<HeaderValue>)>,
    /// Another configured destination, by name.
    pub destination: Option<String>,
}

/// How letters go that somebody asked for one by one, or by a client that knows no pace: at once, whatever becomes of
/// the others.
pub(super) fn at_once() -> Options {
    Options {
        pace: Pace::Unlimited,
        batch_size: limits::REDRIVE_BATCH_MAX,
        canary: 0,
        stop: StopRule { percent: limits::STOP_PERCENT_MAX, ..StopRule::default() },
        ..Options::default()
    }
}

/// Puts one letter back. The answer often is final, for it is sent within the call.
pub async fn single(app: &App, letter: LetterId, request: SingleRequest) -> Result<Redrive, NotRedriven> {
    let SingleRequest { edit, reason, break_glass, glass, by } = request;
    let force = Force::read(break_glass.as_deref(), glass)?;
    let history = app.store.history(letter).await?.ok_or(NotRedriven::UnknownLetter(letter))?;
    let found = history.letter;
    found.standing().after(Action::Redrive)?;
    // Asked before anything is written: a refused retry leaves no trace but its answer.
    if force == Force::None
        && let Some(shut) = shut_for(app, &found).await?
    {
        return Err(NotRedriven::Shut(vec![shut]));
    }
    let present = history.lives.into_iter().find(|life| life.life == found.life);
    if let Some(why) = present.and_then(|life| life.body_missing)
        && edit.as_ref().is_none_or(|edit| edit.body.is_none())
    {
        return Err(NotRedriven::BodyMissing(letter, why));
    }
    let destination = way(app, &found, edit.as_ref())?;
    let number = match edit {
        Some(edit) => Some(keep_edit(app, &found, edit, reason.clone(), &by).await?),
        None => None,
    };
    let new = New {
        kind: RedriveKind::Single,
        selection: stored::Selection::Letters(vec![(letter, found.life)]),
        options: at_once(),
        by: by.clone(),
        reason,
        edit: number,
    };
    let frozen = freeze(app, new).await?;
    let redrive = launch_single(app, &frozen, &destination, &force, by).await?;
    Ok(sent_once(app, redrive).await?)
}

/// Where it goes: as the edit says, or else as configured.
fn way(app: &App, letter: &Letter, edit: Option<&Edited>) -> Result<String, NotRedriven> {
    if edit.is_some() && letter.source == SOURCE {
        let why = "edit a job with POST /ojs/v1/dead-letter/{id}/retry and `override`";
        return Err(NotRedriven::BadEdit(why.to_owned()));
    }
    let way = match edit.and_then(|edit| edit.destination.as_deref()) {
        Some(SOURCE) => return Err(NotRedriven::BadEdit(format!("letter {} is not a job", letter.id))),
        Some(name) => app.destinations.by_name(name),
        None => app.destinations.of(&letter.source, letter.subscriber.as_deref()),
    };
    way.map(|named| named.name).map_err(|why| NotRedriven::NoWayBack(format!("{why}; {}", why.hint())))
}

/// Keeps the changed copy beside the original.
async fn keep_edit(
    app: &App,
    letter: &Letter,
    edited: Edited,
    reason: Option<String>,
    by: &Actor,
) -> Result<u32, NotRedriven> {
    let gone = || NotRedriven::UnknownLetter(letter.id);
    let original = app.store.original(letter.id, Some(letter.life)).await?.ok_or_else(gone)?;
    let envelope = original.envelope;
    let body = edited.body.unwrap_or_else(|| envelope.body().to_vec());
    let bytes_max = app.config.limits.body_bytes_max;
    if body.len() > bytes_max {
        return Err(NotRedriven::BadEdit(format!(
            "the body has {} bytes, the maximum is {bytes_max}",
            body.len()
        )));
    }
    let edit = Edit {
        number: 0,
        life: letter.life,
        body,
        content_type: edited.content_type.unwrap_or_else(|| envelope.content_type().to_owned()),
        headers: laid_over(envelope.headers(), edited.headers),
        destination: edited.destination,
        author: by.name.clone(),
        reason,
        at: app.clock.now(),
    };
    app.store.add_edit(letter.id, edit).await?.ok_or_else(gone)
}

/// Headers with some of them set anew or taken away.
fn laid_over(headers: &[(String, HeaderValue)], changes: Vec<(String, Option<HeaderValue>)>) -> Headers {
    let mut kept = headers.to_vec();
    for (name, value) in changes {
        kept.retain(|(known, _)| !known.eq_ignore_ascii_case(&name));
        kept.extend(value.map(|value| (name, value)));
    }
    kept
}

async fn launch_single(
    app: &App,
    frozen: &Redrive,
    destination: &str,
    force: &Force,
    by: Actor,
) -> Result<Redrive, NotRedriven> {
    let id = frozen.id;
    let groups = app.store.redrive_groups(id).await?;
    let mut verdicts = Vec::with_capacity(groups.len());
    for group in &groups {
        verdicts.push((
            group.number,
            match ask(app, group, force) {
                Ok(passed) => GroupVerdict::Goes { passed, destination: destination.to_owned() },
                Err(shut) => GroupVerdict::Shut(shut),
            },
        ));
    }
    let shut = shut_of(&groups, &verdicts);
    if !shut.is_empty() {
        drop_plan(app, frozen, "redrive blocked").await?;
        return Err(NotRedriven::Shut(shut));
    }
    let planned = judged(app, id, verdicts, "{}".to_owned()).await?;
    let (count, at) = (super::goes(&planned), app.clock.now());
    let launch = Launch { count, options: planned.options, break_glass: force.reason(), by, at };
    launched(id, count, app.store.launch_redrive(id, launch).await?)
}

/// Sends it now. Whoever goes away meanwhile must not leave a letter of which nobody knows, so that is a task of its own.
async fn sent_once(app: &App, redrive: Redrive) -> Result<Redrive, StoreError> {
    let (id, its_own) = (redrive.id, app.clone());
    let sending = tokio::spawn(async move { drive(&its_own, id).await });
    match sending.await {
        Ok(Ok(_)) => {}
        // It is launched, and goes on by itself.
        Ok(Err(error)) => tracing::warn!(redrive.id = %id, error = %error, "redrive {id} continues later"),
        Err(error) => tracing::error!(redrive.id = %id, error = %error, "redrive {id} continues later"),
    }
    Ok(app.store.redrive(id).await?.unwrap_or(redrive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_set_anew_or_taken_away_whatever_their_case() {
        let text = |name: &str, value: &str| (name.to_owned(), HeaderValue::from(value));
        let typed = ("x-death".to_owned(), HeaderValue::Array(vec![HeaderValue::Int64(3)]));
        let before = [text("X-A", "1"), text("x-b", "2"), typed.clone()];
        let changes = vec![("x-a".to_owned(), Some("9".into())), ("X-B".to_owned(), None)];
        assert_eq!(laid_over(&before, changes), [typed, text("x-a", "9")]);
    }
}
