//! A letter that is about to be sent: its original or its edit, read, with the destination it goes to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use lazaret_core::attempt::{Attempt, LetterError};
use lazaret_core::envelope::Envelope;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;
use lazaret_sources::outbox;
use lazaret_store::StoreError;
use lazaret_store::claim::ClaimFence;
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

/// How long a claim lasts. It is twice the configured lease: a letter is begun in the first half only, so that the second
/// is there to send it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub until: Time,
    /// Asked before the commit that begins a send.
    pub begin_before: Time,
    /// By the machine's own clock, which nobody sets. Asked last before the send, so that a process that was stopped after
    /// that commit sends nothing.
    pub start_by: Instant,
}

impl Lease {
    pub(super) fn from_now(app: &App) -> Lease {
        let (now, lease_ms) = (app.clock.now(), app.config.redrive.lease_ms);
        Lease {
            until: now.plus_ms(2 * lease_ms.cast_signed()),
            begin_before: now.plus_ms(lease_ms.cast_signed()),
            start_by: Instant::now() + Duration::from_millis(lease_ms + limits::CLAIM_SLACK_MS),
        }
    }
}

/// Claimed and read: it can be sent.
pub(super) struct Ready {
    pub outgoing: Outgoing,
    pub lease: Lease,
    renewals: u32,
    send_ms_max: u64,
    destination: Arc<dyn Destination>,
}

impl Ready {
    pub(super) fn fence(&self) -> ClaimFence {
        let Outgoing { letter, idempotency_key, .. } = &self.outgoing;
        ClaimFence { letter: *letter, idempotency_key: idempotency_key.clone(), renewals: self.renewals }
    }

    /// Sends it once, and says what came of it.
    pub(super) async fn send(self, clock: Clock) -> Back {
        let (fence, started) = (self.fence(), Instant::now());
        if started > self.lease.start_by {
            return Back { settled: (fence, SendOutcome::Unsent), unfit: None };
        }
        let sending = self.destination.send(&self.outgoing);
        let sent = match tokio::time::timeout(Duration::from_millis(self.send_ms_max), sending).await {
            Ok(sent) => sent,
            Err(_) => Sent::Unknown("destination timed out".to_owned()),
        };
        let unfit = match &sent {
            Sent::Unfit(why) => Some(why.clone()),
            _ => None,
        };
        let duration_ms = u64::try_from(started.elapsed().as_millis()).ok();
        Back { settled: (fence, destination::outcome(sent, clock.now(), duration_ms)), unfit }
    }
}

/// A letter whose send has come to an end.
#[derive(Debug, PartialEq)]
pub(super) struct Back {
    pub settled: Settled,
    /// Why nothing can be sent to its destination, until somebody has changed that.
    pub unfit: Option<String>,
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
        origin: envelope.origin().cloned(),
    }
}

/// Reads what was taken. What cannot be sent comes back settled; a run whose destination is gone is paused.
pub(super) async fn load(
    app: &App,
    run: RedriveId,
    edit: Option<u32>,
    taken: Vec<Taken>,
    lease: Lease,
) -> Result<(Vec<Ready>, Vec<Settled>), StoreError> {
    let send_ms_max = SEND_MS_MAX.min(app.config.redrive.lease_ms.saturating_sub(limits::CLAIM_SLACK_MS));
    let (mut ready, mut unfit) = (Vec::with_capacity(taken.len()), Vec::new());
    let reads = stream::iter(taken).map(|taken| async move {
        let (fence, letter) = (taken.fence(), taken.letter);
        read(app, run, edit, taken).await.map(|read| (fence, letter, read))
    });
    let mut reads = reads.buffered(READS);
    let mut bytes = 0;
    while let Some(read) = reads.next().await {
        let (fence, letter, read) = read?;
        match read {
            // Nothing is lost: its turn comes again.
            Read::Ready { .. } if bytes > BYTES_MAX => unfit.push((fence, SendOutcome::Unsent)),
            Read::Ready { outgoing, destination } => {
                bytes += outgoing.body.len();
                let renewals = fence.renewals;
                ready.push(Ready { outgoing: *outgoing, destination, lease, renewals, send_ms_max });
            }
            Read::Unreadable(why) => {
                tracing::error!(letter.id = %letter, redrive.id = %run, "letter {letter} cannot be sent: {why}");
                unfit.push((fence, unreadable(why, app.clock.now())));
            }
            Read::NoWay(why) => {
                pause(app, run, why).await?;
                unfit.push((fence, SendOutcome::Unsent));
            }
        }
    }
    Ok((ready, unfit))
}

enum Read {
    Ready { outgoing: Box<Outgoing>, destination: Arc<dyn Destination> },
    Unreadable(String),
    NoWay(String),
}

async fn read(app: &App, run: RedriveId, edit: Option<u32>, taken: Taken) -> Result<Read, StoreError> {
    let Taken { letter, life, idempotency_key, destination, .. } = taken;
    let destination = match app.destinations.by_name(&destination) {
        Ok(Named { way: Way::Out(destination), .. }) => destination,
        Ok(Named { way: Way::Jobs, name }) => {
            return Ok(Read::NoWay(format!("{name} are re-enqueued by the store, not sent")));
        }
        Err(why) => return Ok(Read::NoWay(why.to_string())),
    };
    let outgoing = match edit {
        Some(number) => {
            let edits = app.store.edits(letter).await?;
            let edit = edits.into_iter().find(|edit| edit.number == number && edit.life == life);
            match edit {
                Some(edit) => {
                    let origin = origin(app, letter, life).await?;
                    Some(edited(run, letter, idempotency_key, edit, origin))
                }
                None => None,
            }
        }
        None => match app.store.original(letter, Some(life)).await {
            Ok(Some(original)) if original.envelope.body_missing().is_some() => {
                let why = original.envelope.body_missing().unwrap_or_default();
                return Ok(Read::Unreadable(format!("body missing: {why}")));
            }
            Ok(original) => {
                original.map(|original| outgoing(run, letter, life, idempotency_key, &original.envelope))
            }
            Err(StoreError::Corrupt(why)) => return Ok(Read::Unreadable(why)),
            Err(error) => return Err(error),
        },
    };
    Ok(match outgoing {
        Some(mut outgoing) => {
            if destination.by_message_id() {
                outgoing.message_id = message_id(app, letter).await?;
            }
            Read::Ready { outgoing: Box::new(outgoing), destination }
        }
        None => Read::Unreadable("its content is gone".to_owned()),
    })
}

/// The id that a letter's message has at its source.
async fn message_id(app: &App, letter: LetterId) -> Result<String, StoreError> {
    let Some(history) = app.store.history(letter).await? else { return Ok(String::new()) };
    full_message_id(app, letter, &history.letter.event_id).await
}

/// The id that a letter's message has at its source, in full where lists show it cut.
pub(crate) async fn full_message_id(app: &App, letter: LetterId, listed: &str) -> Result<String, StoreError> {
    // A text is cut at the edge of a character.
    if listed.len() + char::MAX.len_utf8() <= limits::NAME_BYTES_MAX {
        return Ok(listed.to_owned());
    }
    let history = app.store.history(letter).await?;
    let reported = history.and_then(|mut history| history.lives.pop()?.reported);
    let full = reported.and_then(|reported| outbox::full_message_id(&reported));
    Ok(full.unwrap_or_else(|| listed.to_owned()))
}

/// Where the message of a life came from.
pub(super) async fn origin(app: &App, letter: LetterId, life: u32) -> Result<Option<Origin>, StoreError> {
    let lives = app.store.history(letter).await?.map(|history| history.lives).unwrap_or_default();
    Ok(lives.into_iter().find(|known| known.life == life).and_then(|life| life.origin))
}

fn edited(
    run: RedriveId,
    letter: LetterId,
    idempotency_key: String,
    edit: Edit,
    origin: Option<Origin>,
) -> Outgoing {
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
        origin,
    }
}

pub(super) async fn pause(app: &App, run: RedriveId, why: String) -> Result<(), StoreError> {
    tracing::warn!(redrive.id = %run, "redrive {run} is paused: {why}");
    let by = super::ourselves();
    // A run that is not going any more needs no pause.
    app.store.step_redrive(run, RunStep::Pause(why), by, app.clock.now()).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lazaret_store::redrive::SendOutcome;

    use super::*;
    use crate::destination::{Route, SentCopy, Verified};

    /// Must not be sent to.
    #[derive(Debug)]
    struct Closed;

    #[async_trait::async_trait]
    impl Destination for Closed {
        fn address(&self) -> String {
            "closed".to_owned()
        }

        fn deduplicates(&self) -> bool {
            false
        }

        async fn route(&self, _: &Outgoing) -> Result<Route, String> {
            Err("closed".to_owned())
        }

        async fn send(&self, outgoing: &Outgoing) -> Sent {
            panic!("letter {} was sent", outgoing.letter);
        }

        async fn verify(&self, _: &[SentCopy]) -> Vec<Verified> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn a_process_that_was_stopped_after_it_began_to_send_does_not_send() {
        let outgoing = Outgoing {
            letter: LetterId::from_bytes([1; 16]),
            life: 1,
            redrive: RedriveId::from_bytes([2; 16]),
            message_id: String::new(),
            idempotency_key: "a:1:1".to_owned(),
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: Bytes::from_static(b"{}"),
            content: Content::Original,
            origin: None,
        };
        let clock = Clock::fixed(Time::from_ms(0));
        let start_by = Instant::now() - Duration::from_millis(1);
        // By the clock of the leases there is time enough: somebody set it back.
        let lease = Lease { until: Time::from_ms(120_000), begin_before: Time::from_ms(60_000), start_by };
        let destination: Arc<dyn Destination> = Arc::new(Closed);
        let ready = Ready { outgoing, lease, renewals: 3, send_ms_max: 1_000, destination };
        let fence = ready.fence();
        assert_eq!(fence.renewals, 3);
        assert_eq!(ready.send(clock).await.settled, (fence, SendOutcome::Unsent));
    }
}
