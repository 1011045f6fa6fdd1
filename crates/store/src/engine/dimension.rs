//! Dimensions: what letters are counted by.

use lazaret_core::class::ErrorClass;
use lazaret_core::lifecycle::Status;

use crate::StoreError;
use crate::job::SOURCE;
use crate::seam::Row;

/// What letters are counted by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Dimension {
    /// All letters; the only value is the empty one.
    All,
    Source,
    Queue,
    Type,
    ErrorType,
    Class,
    Fingerprint,
    Aggregate,
    /// Queue, type and error type of letters of jobs alone.
    JobQueue,
    JobType,
    JobErrorType,
}

impl Dimension {
    pub const ALL: [Dimension; 11] = [
        Dimension::All,
        Dimension::Source,
        Dimension::Queue,
        Dimension::Type,
        Dimension::ErrorType,
        Dimension::Class,
        Dimension::Fingerprint,
        Dimension::Aggregate,
        Dimension::JobQueue,
        Dimension::JobType,
        Dimension::JobErrorType,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Dimension::All => "all",
            Dimension::Source => "source",
            Dimension::Queue => "queue",
            Dimension::Type => "type",
            Dimension::ErrorType => "error_type",
            Dimension::Class => "class",
            Dimension::Fingerprint => "fingerprint",
            Dimension::Aggregate => "aggregate",
            Dimension::JobQueue => "job_queue",
            Dimension::JobType => "job_type",
            Dimension::JobErrorType => "job_error_type",
        }
    }

    /// Whether its values are followed over time.
    pub const fn has_line(self) -> bool {
        match self {
            Dimension::All
            | Dimension::Source
            | Dimension::Queue
            | Dimension::Type
            | Dimension::Fingerprint => true,
            Dimension::ErrorType
            | Dimension::Class
            | Dimension::Aggregate
            | Dimension::JobQueue
            | Dimension::JobType
            | Dimension::JobErrorType => false,
        }
    }

    /// What gives its value, null for letters that have none; all letters have the same value of `All`.
    pub const fn column(self) -> &'static str {
        match self {
            Dimension::All => "''",
            Dimension::Source
            | Dimension::Queue
            | Dimension::Type
            | Dimension::ErrorType
            | Dimension::Class
            | Dimension::Fingerprint
            | Dimension::Aggregate => self.name(),
            Dimension::JobQueue => "case when source = 'jobs' then queue end",
            Dimension::JobType => "case when source = 'jobs' then type end",
            Dimension::JobErrorType => "case when source = 'jobs' then error_type end",
        }
    }
}

/// What a letter counts under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    pub error_type: String,
    pub class: &'static str,
    pub fingerprint: String,
    pub aggregate: Option<String>,
    pub status: Status,
}

impl Counted {
    /// Reads the columns of a letter that have the names of its dimensions.
    pub fn read(row: &Row<'_>) -> Result<Counted, StoreError> {
        Ok(Counted {
            source: row.get("source")?,
            queue: row.get("queue")?,
            letter_type: row.get("type")?,
            error_type: row.get("error_type")?,
            class: row.get::<ErrorClass>("class")?.name(),
            fingerprint: row.get("fingerprint")?,
            aggregate: row.get("aggregate")?,
            status: row.get("status")?,
        })
    }

    /// The values it counts under, of the dimensions in which it has one.
    pub fn values(&self) -> impl Iterator<Item = (Dimension, &str)> {
        let of_job = |value| (self.source == SOURCE).then_some(value);
        [
            (Dimension::All, Some("")),
            (Dimension::Source, Some(self.source.as_str())),
            (Dimension::Queue, Some(self.queue.as_str())),
            (Dimension::Type, Some(self.letter_type.as_str())),
            (Dimension::ErrorType, Some(self.error_type.as_str())),
            (Dimension::Class, Some(self.class)),
            (Dimension::Fingerprint, Some(self.fingerprint.as_str())),
            (Dimension::Aggregate, self.aggregate.as_deref()),
            (Dimension::JobQueue, of_job(self.queue.as_str())),
            (Dimension::JobType, of_job(self.letter_type.as_str())),
            (Dimension::JobErrorType, of_job(self.error_type.as_str())),
        ]
        .into_iter()
        .filter_map(|(dimension, value)| Some((dimension, value?)))
    }
}
