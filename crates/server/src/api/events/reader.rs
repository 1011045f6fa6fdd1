//! One reader: a task that looks into the store and fills a small queue, and the body that empties it.
//!
//! The store is never held up: who leaves the queue full is dropped with a reason and the place to come back to.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use lazaret_core::limits;
use lazaret_store::StoreError;
use lazaret_store::access::StoredSession;
use lazaret_store::event::Event;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::message;
use crate::access::Caller;
use crate::app::App;
use crate::events::{Lost, Selection, TooManyReaders, lost};
use crate::sessions;

/// How long to wait after the store could not be read.
const AWAY: Duration = Duration::from_secs(1);

/// Begins to follow events after `place`, if one more may.
pub(crate) fn follow(
    app: &Arc<App>,
    caller: Caller,
    session: Option<StoredSession>,
    selection: Selection,
    place: u64,
) -> Result<EventBody, TooManyReaders> {
    let (queue, queued) = mpsc::channel(limits::EVENT_BATCHES_QUEUED);
    let (words, last_words) = oneshot::channel();
    let reader = Reader {
        app: Arc::clone(app),
        caller,
        session,
        selection,
        queue,
        place,
        told: place,
        beat_at: Instant::now() + app.readers.bounds.beat,
    };
    let name = reader.caller.name.clone();
    app.readers.admit(&name, reader.run(words))?;
    Ok(EventBody { greeting: Some(message::greeting(place).into()), queued, last_words })
}

/// What the connection sends: the greeting, what is queued, and at the end why it ended.
#[derive(Debug)]
pub(crate) struct EventBody {
    greeting: Option<Bytes>,
    queued: mpsc::Receiver<Bytes>,
    last_words: oneshot::Receiver<Bytes>,
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(Ok(Frame::data(greeting))));
        }
        let bytes = match ready!(self.queued.poll_recv(context)) {
            Some(bytes) => Some(bytes),
            // They were said before the queue was closed.
            None => self.last_words.try_recv().ok(),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Why a reader's task ends.
enum End {
    /// The connection is gone.
    Left,
    Stopping,
    Dropped(String),
}

/// What a look found.
enum Found {
    /// There may be more behind it.
    Full,
    Everything,
    StoreAway,
}

struct Reader {
    app: Arc<App>,
    caller: Caller,
    /// By which they were let in, if not by the token itself.
    session: Option<StoredSession>,
    selection: Selection,
    queue: mpsc::Sender<Bytes>,
    /// The last event looked at.
    place: u64,
    /// The place that the reader has been told, as far as it is queued.
    told: u64,
    beat_at: Instant,
}

impl Reader {
    async fn run(mut self, last_words: oneshot::Sender<Bytes>) {
        let mut stopping = self.app.stopping();
        let queue = self.queue.clone();
        let end = tokio::select! {
            end = self.feed() => end,
            () = queue.closed() => End::Left,
            _ = stopping.wait_for(|stopping| *stopping) => End::Stopping,
        };
        if let End::Dropped(reason) = end {
            let (reader, place) = (&self.caller.name, self.told);
            tracing::warn!(reader, place, "event reader disconnected at {place}: {reason}");
            // Nobody listens if the connection went in the meantime, and then nobody misses it.
            last_words.send(message::dropped(&reason, place).into()).ok();
        }
    }

    async fn feed(&mut self) -> End {
        let mut changes = self.app.store.changes();
        let mut away = false;
        loop {
            // Seen before looking, or what is committed in between waits for the next look.
            changes.mark_unchanged();
            let found = match self.look().await {
                Ok(found) => found,
                Err(end) => return end,
            };
            if let Err(end) = self.beat().await {
                return end;
            }
            match found {
                Found::Full => {}
                Found::Everything => self.rest(&mut changes).await,
                Found::StoreAway => sleep(AWAY).await,
            }
            let is_away = matches!(found, Found::StoreAway);
            if is_away && !away {
                tracing::warn!(reader = self.caller.name, "events cannot be read, retrying");
            }
            away = is_away;
        }
    }

    /// Reads the next events and queues those that are wanted.
    async fn look(&mut self) -> Result<Found, End> {
        let (events, lost) = match read(&self.app, self.place).await {
            Ok(read) => read,
            Err(error) => {
                tracing::debug!(%error, "events could not be read");
                return Ok(Found::StoreAway);
            }
        };
        if let Some(lost) = lost {
            self.send(message::lost(&lost), lost.oldest.saturating_sub(1)).await?;
            self.place = self.told;
            if events.is_empty() {
                return Ok(Found::Full);
            }
        }
        let now = self.app.clock.now();
        let (mut text, mut sent) = (String::new(), self.told);
        for event in events.iter().filter(|event| self.selection.takes(event, now)) {
            message::event(&mut text, event, &self.app.redactor);
            sent = event.position;
        }
        if let Some(last) = events.last() {
            self.place = last.position;
        }
        if !text.is_empty() {
            // Asked before every send: whoever lost their token reads nothing more.
            self.check_access().await?;
            self.send(text, sent).await?;
        }
        if self.place.saturating_sub(self.told) >= limits::EVENTS_LEFT_OUT_MAX {
            self.send(message::moved(self.place), self.place).await?;
        }
        let is_full = events.len() == limits::EVENTS_PER_READ;
        Ok(if is_full { Found::Full } else { Found::Everything })
    }

    /// Queues a text after which the reader is at `place`, and waits a while if the queue is full.
    async fn send(&mut self, text: String, place: u64) -> Result<(), End> {
        let stall = self.app.readers.bounds.stall;
        match self.queue.send_timeout(text.into(), stall).await {
            Ok(()) => {
                self.told = place;
                Ok(())
            }
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err(End::Left),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(End::Dropped(format!("reader stalled for {} ms", stall.as_millis())))
            }
        }
    }

    /// Says now and then that the connection stands, and looks whether the reader may still read.
    async fn beat(&mut self) -> Result<(), End> {
        if Instant::now() < self.beat_at {
            return Ok(());
        }
        self.beat_at = Instant::now() + self.app.readers.bounds.beat;
        self.check_access().await?;
        match self.queue.try_send(message::beat(self.place).into()) {
            Ok(()) => self.told = self.place,
            // It has something to read, or is gone, which is noticed elsewhere.
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {}
        }
        Ok(())
    }

    /// Whether the reader may still read. A store that is away is told of elsewhere, and asked again the next time.
    async fn check_access(&self) -> Result<(), End> {
        if !self.app.access.still_admits(&self.caller) {
            return Err(End::Dropped("the token was revoked".to_owned()));
        }
        if let Some(session) = &self.session
            && matches!(sessions::stands(&self.app, session).await, Ok(false))
        {
            return Err(End::Dropped("session expired".to_owned()));
        }
        Ok(())
    }

    /// Waits until there may be something new.
    async fn rest(&self, changes: &mut watch::Receiver<u64>) {
        sleep(Duration::from_millis(limits::EVENT_REST_MS)).await;
        let look_at = Instant::now() + Duration::from_millis(limits::EVENT_LOOK_MS_MAX);
        tokio::select! {
            _ = changes.changed() => {}
            () = sleep_until(look_at.min(self.beat_at)) => {}
        }
    }
}

/// The next events after a place, and whether some before them are gone. Without events, those that there are instead
/// begin at what it says.
pub(crate) async fn read(app: &App, place: u64) -> Result<(Vec<Event>, Option<Lost>), StoreError> {
    let events = app.store.events(place, limits::EVENTS_PER_READ).await?;
    let first = events.first().map(|event| event.position);
    if first.is_some() && first == place.checked_add(1) {
        return Ok((events, None));
    }
    // Asked after reading: what is pruned in between must not go unnoticed.
    let lost = lost(place, app.store.events_kept().await?);
    let lost = lost.map(|lost| Lost { oldest: first.unwrap_or(lost.oldest), ..lost });
    Ok((events, lost))
}
