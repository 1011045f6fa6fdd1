//! The dead letter, and its way in: `Captured` by a source, `admit`ted by pure rules, then stored.

use crate::attempt::{Attempt, LetterError};
use crate::class::{ClassRules, ErrorClass};
use crate::death::Evidence;
use crate::envelope::Envelope;
use crate::fingerprint::{Fingerprint, FingerprintRules, Grouping, Subject, group};
use crate::id::{IncidentId, LetterId, RedriveId};
use crate::key::CaptureKey;
use crate::lifecycle::{Place, Standing, Status};
use crate::limits;
use crate::original_event::EventParts;
use crate::time::Time;

/// One dead letter as lists and filters see it. The envelope and the attempts are fetched by themselves.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Letter {
    pub id: LetterId,
    pub source: String,
    /// The message's own id at its source.
    pub event_id: String,
    pub letter_type: String,
    pub queue: String,
    pub subscriber: Option<String>,
    pub tenant: Option<String>,
    /// The order key: letters of one aggregate go back one after the other.
    pub aggregate: Option<String>,
    pub schema_version: Option<String>,
    pub error_type: String,
    pub error_code: Option<String>,
    /// The last error's message, cut for lists.
    pub error_message: String,
    pub class: ErrorClass,
    pub fingerprint: Fingerprint,
    pub incident: IncidentId,
    pub retry_count: u32,
    pub max_retries: Option<u32>,
    pub status: Status,
    pub place: Place,
    pub life: u32,
    pub hold: Option<Hold>,
    pub resolution: Option<Resolution>,
    /// The letter that stood under the same key before and was deleted.
    pub previous: Option<LetterId>,
    /// When it was captured; exactly the millisecond of its id.
    pub created_at: Time,
    pub updated_at: Time,
    /// Its last death.
    pub died_at: Time,
    /// From when its retention is counted.
    pub retention_at: Time,
}

impl Letter {
    pub fn standing(&self) -> Standing {
        Standing { status: self.status, place: self.place, held: self.hold.is_some(), content_kept: true }
    }

    /// What the original event of a life is made from.
    pub fn event_parts<'a>(&'a self, envelope: &'a Envelope, reported: Option<&'a str>) -> EventParts<'a> {
        EventParts {
            source: &self.source,
            event_id: &self.event_id,
            letter_type: &self.letter_type,
            queue: &self.queue,
            schema_version: self.schema_version.as_deref(),
            body: envelope.body(),
            reported,
        }
    }
}

/// A legal hold: nothing may remove the letter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Hold {
    pub at: Time,
    pub by: String,
    pub reason: String,
}

/// How a letter came to its end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Resolution {
    pub at: Time,
    pub strategy: Strategy,
    pub by: String,
    pub notes: Option<String>,
}

/// The way in which a letter was resolved or discarded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Strategy {
    AutomaticRetry,
    ManualRetry,
    ManualResolution,
    Discard,
}

impl Strategy {
    pub const ALL: [Strategy; 4] =
        [Strategy::AutomaticRetry, Strategy::ManualRetry, Strategy::ManualResolution, Strategy::Discard];

    pub const fn name(self) -> &'static str {
        match self {
            Strategy::AutomaticRetry => "automatic_retry",
            Strategy::ManualRetry => "manual_retry",
            Strategy::ManualResolution => "manual_resolution",
            Strategy::Discard => "discard",
        }
    }

    pub fn parse(text: &str) -> Option<Strategy> {
        Strategy::ALL.into_iter().find(|strategy| strategy.name() == text)
    }
}

/// What a source hands over: the message, and what is known of its failures.
#[derive(Clone, PartialEq, Debug)]
pub struct Captured {
    pub source: String,
    pub message_id: String,
    pub letter_type: String,
    pub queue: String,
    pub subscriber: Option<String>,
    pub tenant: Option<String>,
    pub aggregate: Option<String>,
    pub schema_version: Option<String>,
    pub envelope: Envelope,
    /// The error that made it a dead letter.
    pub error: LetterError,
    /// Failed runs, oldest first; the last may be the same as `error`.
    pub attempts: Vec<Attempt>,
    pub retry_count: u32,
    pub max_retries: Option<u32>,
    /// When it died, as far as the source can tell.
    pub died_at: Option<Time>,
    /// The redrive of ours that this message came back from.
    pub mark: Option<RedriveMark>,
    /// What the source itself knows about whether this is a new death.
    pub word: SourceWord,
    /// JSON text of an object with everything that was reported and not obeyed, verbatim.
    pub reported: Option<String>,
}

impl Captured {
    /// What the fingerprint is made from.
    pub fn subject(&self) -> Subject<'_> {
        Subject {
            source: &self.source,
            queue: &self.queue,
            letter_type: &self.letter_type,
            tenant: self.tenant.as_deref(),
            error: &self.error,
        }
    }

    /// What the original event is made from.
    pub fn event_parts(&self) -> EventParts<'_> {
        EventParts {
            source: &self.source,
            event_id: &self.message_id,
            letter_type: &self.letter_type,
            queue: &self.queue,
            schema_version: self.schema_version.as_deref(),
            body: self.envelope.body(),
            reported: self.reported.as_deref(),
        }
    }
}

/// Our own letter, life and redrive, carried by a message that we put back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedriveMark {
    pub letter: LetterId,
    pub life: u32,
    pub redrive: RedriveId,
}

/// Whether a source can tell a new death from a repeated report of the old one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceWord {
    /// It cannot tell.
    Silent,
    NewDeath,
    SameDeath,
}

/// A captured message after the pure rules: ready to be stored.
#[derive(Clone, PartialEq, Debug)]
pub struct Admitted {
    /// The id it gets if it is a new letter.
    pub id: LetterId,
    pub key: CaptureKey,
    pub class: ErrorClass,
    pub grouping: Grouping,
    /// The id its incident gets if it is the first of its fingerprint.
    pub incident: IncidentId,
    pub captured_at: Time,
    /// The stated death, never later than the capture; the capture if none was stated.
    pub died_at: Time,
    /// The message; its attempts now end with the run that killed it.
    pub captured: Captured,
}

impl Admitted {
    /// What this arrival says about whether it is a new death of a known letter. Whether its mark holds the store knows.
    pub fn evidence(&self, attempt_known: bool) -> Evidence {
        Evidence {
            mark: self.captured.mark,
            mark_sent: false,
            word: self.captured.word,
            failed_at: self.captured.died_at,
            captured_at: self.captured_at,
            attempt_known,
        }
    }
}

/// Decides everything about a captured message that needs no store. `random` feeds the two ids.
pub fn admit(
    mut captured: Captured,
    now: Time,
    random: [[u8; 10]; 2],
    classes: &ClassRules,
    groups: &FingerprintRules,
) -> Admitted {
    let tenant = captured.tenant.as_deref().unwrap_or("");
    let subscriber = captured.subscriber.as_deref().unwrap_or("");
    let key = CaptureKey::of(&captured.source, tenant, subscriber, &captured.message_id);
    let class = classes.classify(&captured.source, &captured.error);
    let died_at = captured.died_at.map_or(now, |stated| stated.min(now));
    // The key is made of the whole values; what indexes and lists hold is cut and cleaned.
    for name in
        [&mut captured.source, &mut captured.letter_type, &mut captured.queue, &mut captured.message_id]
    {
        *name = listed(name, limits::NAME_BYTES_MAX);
    }
    for name in [
        &mut captured.subscriber,
        &mut captured.tenant,
        &mut captured.aggregate,
        &mut captured.schema_version,
    ]
    .into_iter()
    .flatten()
    {
        *name = listed(name, limits::NAME_BYTES_MAX);
    }
    // After the cut: a life is grouped again from what is kept, and has to come out the same.
    let grouping = group(captured.subject(), groups);
    captured.attempts = failed_runs(&mut captured.attempts, &captured.error, captured.died_at);
    Admitted {
        id: LetterId::mint(now, random[0]),
        key,
        class,
        grouping,
        incident: IncidentId::mint(now, random[1]),
        captured_at: now,
        died_at,
        captured,
    }
}

/// All failed runs with the fatal one last. Reporters tell the last failure twice, once in the history and once as the
/// letter's error with its backtrace; that is one run, not two.
fn failed_runs(history: &mut Vec<Attempt>, fatal: &LetterError, died_at: Option<Time>) -> Vec<Attempt> {
    let mut runs = std::mem::take(history);
    if let Some(last) = runs.last_mut() {
        let told = &mut last.error;
        let same =
            told.error_type == fatal.error_type && told.code == fatal.code && told.message == fatal.message;
        let adds = |old: &Option<String>, new: &Option<String>| old.is_none() || new.is_none() || old == new;
        if same
            && adds(&told.backtrace, &fatal.backtrace)
            && adds(&told.context, &fatal.context)
            && adds(&told.extra, &fatal.extra)
        {
            let LetterError { backtrace, context, extra, .. } = fatal.clone();
            told.backtrace = told.backtrace.take().or(backtrace);
            told.context = told.context.take().or(context);
            told.extra = told.extra.take().or(extra);
            return runs;
        }
    }
    runs.push(Attempt { at: died_at, duration_ms: None, error: fatal.clone(), extra: None });
    runs
}

/// The copy of a text that stands in a column: without NUL, which databases do not take in a text, and cut.
pub fn listed(text: &str, bytes: usize) -> String {
    let mut copy = text.replace('\0', "\u{fffd}");
    cut(&mut copy, bytes);
    copy
}

/// Shortens a text to at most `bytes`, at a character's edge.
pub fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
    }
}

/// What became of one captured message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    pub letter: LetterId,
    pub outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    Created,
    /// Known already; attempts not yet stored were added, nothing moved.
    Duplicate,
    /// A known letter died again without a redrive of ours.
    Recurred,
    /// A letter that we had put back died again.
    Relapse,
}

impl Outcome {
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Created => "created",
            Outcome::Duplicate => "duplicate",
            Outcome::Recurred => "recurred",
            Outcome::Relapse => "relapse",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn captured() -> Captured {
        Captured {
            source: "report".into(),
            message_id: "e1".into(),
            letter_type: "order.created".into(),
            queue: "report".into(),
            subscriber: Some("billing".into()),
            tenant: None,
            aggregate: None,
            schema_version: None,
            envelope: Envelope::seal(Bytes::from_static(b"{}"), "application/json", Vec::new()),
            error: LetterError {
                message: "boom".into(),
                backtrace: Some("at x".into()),
                ..LetterError::default()
            },
            attempts: Vec::new(),
            retry_count: 0,
            max_retries: None,
            died_at: None,
            mark: None,
            word: SourceWord::Silent,
            reported: None,
        }
    }

    fn admitted(captured: Captured) -> Admitted {
        let (classes, groups) = (ClassRules::default(), FingerprintRules::default());
        admit(captured, Time::from_ms(5_000), [[1; 10], [2; 10]], &classes, &groups)
    }

    fn run(ms: i64, message: &str) -> Attempt {
        let error = LetterError { message: message.into(), ..LetterError::default() };
        Attempt { at: Some(Time::from_ms(ms)), duration_ms: Some(7), error, extra: None }
    }

    #[test]
    fn a_death_is_never_later_than_its_capture() {
        assert_eq!(admitted(captured()).died_at.ms(), 5_000);
        let future = Captured { died_at: Some(Time::from_ms(9_000)), ..captured() };
        assert_eq!(admitted(future).died_at.ms(), 5_000);
        let past = Captured { died_at: Some(Time::from_ms(4_000)), ..captured() };
        assert_eq!(admitted(past).died_at.ms(), 4_000);
        assert_eq!(admitted(captured()).id.at().ms(), 5_000);
    }

    #[test]
    fn the_last_failure_told_twice_is_one_run() {
        let told = Captured { attempts: vec![run(1, "first"), run(2, "boom")], ..captured() };
        let runs = admitted(told).captured.attempts;
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[1].error.backtrace.as_deref(), Some("at x"));
        assert_eq!(runs[1].duration_ms, Some(7));
        let other = Captured { attempts: vec![run(1, "first")], ..captured() };
        assert_eq!(admitted(other).captured.attempts.len(), 2);
    }

    #[test]
    fn names_are_cut_at_a_character_and_the_key_is_not() {
        let long = "ü".repeat(1_000);
        let one = admitted(Captured { message_id: format!("{long}1"), queue: long.clone(), ..captured() });
        let two = admitted(Captured { message_id: format!("{long}2"), queue: long, ..captured() });
        assert_ne!(one.key, two.key);
        assert_eq!(one.captured.queue.len(), 512);
    }
}
