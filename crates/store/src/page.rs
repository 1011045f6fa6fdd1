//! Pages of letters: what is asked, and what comes back.

use std::time::Duration;

use lazaret_core::attempt::Attempt;
use lazaret_core::class::ErrorClass;
use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::envelope::Envelope;
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::Fingerprint;
use lazaret_core::id::RedriveId;
use lazaret_core::letter::Letter;
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;

use crate::search::Scan;
use crate::transfer::DecisionRecord;

/// One page of a list. Relative times in the filter are counted from `now`.
#[derive(Clone, Debug)]
pub struct PageQuery {
    pub filter: Filter,
    pub now: Time,
    pub sort: Sort,
    pub limit: usize,
    pub after: Option<LastKey>,
    /// How long letters may be looked into one by one, if the filter asks for their content.
    pub scan_max: Duration,
}

impl PageQuery {
    /// How long a page looks into letters unless its caller has reasons of its own.
    pub const SCAN_MAX: Duration = Duration::from_millis(limits::SCAN_MS_MAX);
}

#[derive(Clone, Debug)]
pub struct LetterPage {
    pub letters: Vec<Letter>,
    pub total: Total,
    /// The last row, if there are more behind it.
    pub next: Option<LastKey>,
    /// What had to be looked at letter by letter; nothing if indexes answered.
    pub scan: Option<Scan>,
}

/// How many letters match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Total {
    Exact(u64),
    /// Counting stopped here.
    AtLeast(u64),
}

/// One letter with everything that is kept of it.
#[derive(Clone, Debug)]
pub struct LetterHistory {
    pub letter: Letter,
    /// Oldest first.
    pub lives: Vec<Life>,
    /// Oldest first, over all lives.
    pub attempts: Vec<LifeAttempt>,
    /// Oldest first: what was decided on it and by whom.
    pub decisions: Vec<DecisionRecord>,
}

/// One life: what arrived, and how it was judged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Life {
    pub life: u32,
    pub captured_at: Time,
    pub died_at: Time,
    pub class: ErrorClass,
    pub fingerprint: Fingerprint,
    pub content_type: String,
    pub body_bytes: u64,
    pub sha256: [u8; 32],
    /// The ordinal of the attempt that ended it.
    pub fatal: u32,
    pub retry_count: u32,
    pub max_retries: Option<u32>,
    /// The redrive it came back from.
    pub redrive: Option<RedriveId>,
    /// JSON text of what was reported and not obeyed.
    pub reported: Option<String>,
    /// Where the message came from at its broker.
    pub origin: Option<Origin>,
    /// Why there is no body, if there is none.
    pub body_missing: Option<String>,
}

/// One failed run and the life it belongs to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LifeAttempt {
    pub life: u32,
    pub ordinal: u32,
    pub attempt: Attempt,
}

/// The original of one life, opened.
#[derive(Clone, Debug)]
pub struct Original {
    pub life: u32,
    pub envelope: Envelope,
}
