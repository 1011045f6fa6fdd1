//! A body whose sender may pause for only so long. The clock is asked only when nothing has come yet: most bodies are
//! there with the head of their request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::Sleep;

/// The sender paused for too long.
#[derive(Debug, thiserror::Error)]
#[error("the body came too slowly")]
pub(crate) struct TooSlow;

/// A body that fails with `TooSlow` when nothing comes for as long as `pause`.
#[derive(Debug)]
pub(crate) struct PatientBody {
    body: Body,
    pause: Duration,
    /// Runs while nothing comes.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl PatientBody {
    pub(crate) fn new(body: Body, pause: Duration) -> PatientBody {
        PatientBody { body, pause, waiting: None }
    }
}

impl HttpBody for PatientBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let pause = self.pause;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        waiting.as_mut().poll(context).map(|()| Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
