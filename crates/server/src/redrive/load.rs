//! A letter that is about to be sent: its original or its edit, read, with the destination it goes to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::redrive::{Edit, RunStep, SendOutcome, Taken};

use super::send::Settled;
use crate::app::App;
use crate::clock::Clock;
use crate::destination::{self, Content, Destination, Named, Outgoing, Sent, Way};

/// Originals that are read at once.
const READS: usize = 8;

/// Bytes of bodies that are held for one batch of a run: the rest waits for the next.
const BYTES_MAX: usize = 32 * 1024 * 1024;

/// How long a send is waited for at most, and never longer than the lease. A destination has a limit of its own below it.
const SEND_MS_MAX: u64 = limits::DESTINATION_MS_MAX + limits::DESTINATION_WAIT_MS;

/// Claimed and read: it can be sent.
pub(super) struct Ready {
    pub outgoing: Outgoing,
    /// Later its lease would not last.
    pub begin_before: Time,
    send_ms_max: u64,
    destination: Arc<dyn Destination>,
}

impl Ready {
    /// Sends it once, and says what came of it.
    pub(super) async fn send(self, clock: Clock) -> Settled {
        let started = Instant::now();
        let sending = self.destination.send(&self.outgoing);
        let sent = match tokio::time::timeout(Duration::from_millis(self.send_ms_max), sending).await {
            Ok(sent) => sent,
            Err(_) => Sent::Unknown("the destination did not come to an end in time".to_owned()),
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
        let now = clock.now();
        let outcome = match destination::outcome(sent, now, duration_ms) {
            // Whoever took the claim over may be sending it, and only they can say that it was not sent.
            SendOutcome::Failed { .. } | SendOutcome::Unsent
                if now.since(self.begin_before) > self.send_ms_max.cast_signed() =>
            {
                SendOutcome::Unknown { why: "the answer came when the claim was over".to_owned() }
            }
            outcome => outcome,
        };
        (self.outgoing.letter, outcome)
    }
}

fn unreadable(why: String, at: Time) -> SendOutcome {
    let error =
        LetterError { error_type: "Unreadable".to_owned(), message: why.clone(), ..LetterError::default() };
    let attempt = Attempt { at: Some(at), duration_ms: None, error, extra: None };
    SendOutcome::Failed { attempt: Box::new(attempt), why }
}

/// What is sent of an original.
pub(super) fn outgoing(
    redrive: RedriveId,
    letter: LetterId,
    life: u32,
    idempotency_key: String,
    envelope: &Envelope,
) -> Outgoing {
    Outgoing {
        letter,
        life,
        redrive,
        message_id: String::new(),
        idempotency_key,
        content_type: envelope.content_type().to_owned(),
        headers: envelope.headers().to_vec(),
        body: envelope.body().clone(),
        content: Content::Original,
    }
}

/// Reads what was taken. What cannot be sent comes back settled; a run whose destination is gone is paused.
pub(super) async fn load(
    app: &App,
    run: RedriveId,
    edit: Option<u32>,
    taken: Vec<Taken>,
    begin_before: Time,
) -> Result<(Vec<Ready>, Vec<Settled>), StoreError> {
    let send_ms_max = SEND_MS_MAX.min(app.config.redrive.lease_ms.saturating_sub(limits::CLAIM_SLACK_MS));
    let (mut ready, mut unfit) = (Vec::with_capacity(taken.len()), Vec::new());
    let mut reads = stream::iter(taken).map(|taken| read(app, run, edit, taken)).buffered(READS);
    let mut bytes = 0;
    while let Some(read) = reads.next().await {
        match read? {
            // Nothing is lost: its turn comes again.
            Read::Ready { outgoing, .. } if bytes > BYTES_MAX => {
                unfit.push((outgoing.letter, SendOutcome::Unsent));
            }
            Read::Ready { outgoing, destination } => {
                bytes += outgoing.body.len();
                ready.push(Ready { outgoing, destination, begin_before, send_ms_max });
            }
            Read::Unreadable(letter, why) => {
                tracing::error!(letter.id = %letter, redrive.id = %run, "letter {letter} cannot be sent: {why}");
                unfit.push((letter, unreadable(why, app.clock.now())));
            }
            Read::NoWay(letter, why) => {
                pause(app, run, why).await?;
                unfit.push((letter, SendOutcome::Unsent));
            }
        }
    }
    Ok((ready, unfit))
}

enum Read {
    Ready { outgoing: Outgoing, destination: Arc<dyn Destination> },
    Unreadable(LetterId, String),
    NoWay(LetterId, String),
}

async fn read(app: &App, run: RedriveId, edit: Option<u32>, taken: Taken) -> Result<Read, StoreError> {
    let Taken { letter, life, idempotency_key, destination, .. } = taken;
    let destination = match app.destinations.by_name(&destination) {
        Ok(Named { way: Way::Out(destination), .. }) => destination,
        Ok(Named { way: Way::Jobs, name }) => {
            return Ok(Read::NoWay(letter, format!("{name} are put back by the store, not sent")));
        }
        Err(why) => return Ok(Read::NoWay(letter, why.to_string())),
    };
    let outgoing = match edit {
        Some(number) => {
            let edits = app.store.edits(letter).await?;
            let edit = edits.into_iter().find(|edit| edit.number == number && edit.life == life);
            edit.map(|edit| edited(run, letter, idempotency_key, edit))
        }
        None => match app.store.original(letter, Some(life)).await {
            Ok(original) => {
                original.map(|original| outgoing(run, letter, life, idempotency_key, &original.envelope))
            }
            Err(StoreError::Corrupt(why)) => return Ok(Read::Unreadable(letter, why)),
            Err(error) => return Err(error),
        },
    };
    Ok(match outgoing {
        Some(mut outgoing) => {
            if destination.by_message_id() {
                outgoing.message_id = message_id(app, letter).await?;
            }
            Read::Ready { outgoing, destination }
        }
        None => Read::Unreadable(letter, "its content is gone".to_owned()),
    })
}

/// The id that a letter's message has at its source.
pub(super) async fn message_id(app: &App, letter: LetterId) -> Result<String, StoreError> {
    let history = app.store.history(letter).await?;
    Ok(history.map(|history| history.letter.event_id).unwrap_or_default())
}

fn edited(run: RedriveId, letter: LetterId, idempotency_key: String, edit: Edit) -> Outgoing {
    Outgoing {
        letter,
        life: edit.life,
        redrive: run,
        message_id: String::new(),
        idempotency_key,
        content_type: edit.content_type,
        headers: edit.headers,
        body: edit.body.into(),
        content: Content::Edited,
    }
}

async fn pause(app: &App, run: RedriveId, why: String) -> Result<(), StoreError> {
    tracing::warn!(redrive.id = %run, "redrive {run} is paused: {why}");
    let by = super::ourselves();
    // A run that is not going any more needs no pause.
    app.store.step_redrive(run, RunStep::Pause(why), by, app.clock.now()).await.map(|_| ())
}
