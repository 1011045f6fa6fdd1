//! What happened, as the server streams it.

use serde::Deserialize;

/// One event. A letter may be gone by the time it is read, so that everything about it may be absent.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    pub at: String,
    pub kind: String,
    pub letter_id: Option<String>,
    pub incident_id: Option<String>,
    pub operation_id: Option<String>,
    pub job_id: Option<String>,
    pub actor: Option<String>,
    pub letter: Option<EventLetter>,
    #[serde(default)]
    pub detail: EventDetail,
}

#[derive(Deserialize, Debug, Default)]
pub struct EventDetail {
    /// Of the incident that the event is about.
    pub title: Option<String>,
    /// Of the job or the worker.
    pub job_type: Option<String>,
    pub queue: Option<String>,
    pub attempt: Option<u64>,
    pub worker_id: Option<String>,
    pub error: Option<super::LetterError>,
    /// Of letters that a limit pushed out: which limit, and how many went where.
    pub reason: Option<String>,
    pub archived: Option<u64>,
    pub deleted: Option<u64>,
}

#[derive(Deserialize, Debug)]
pub struct EventLetter {
    #[serde(rename = "type")]
    pub letter_type: String,
    pub queue: String,
    pub error: super::LetterError,
}

/// Where a reader stands who has read nothing yet.
#[derive(Deserialize, Debug)]
pub struct EventPage {
    pub next: u64,
}

/// A place that is no longer kept.
#[derive(Deserialize, Debug)]
pub struct EventsLost {
    pub reason: String,
    pub asked: u64,
    pub oldest: u64,
}

/// The server gave up on a reader that did not read.
#[derive(Deserialize, Debug)]
pub struct ReaderDropped {
    pub reason: String,
}
