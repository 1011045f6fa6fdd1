//! Dimensions: what letters are counted by.

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
