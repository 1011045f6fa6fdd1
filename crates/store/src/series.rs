//! What came in and what went out, per minute and per hour.

use lazaret_core::id::IncidentId;
use lazaret_core::time::Time;

/// The width of one point.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    Minute,
    Hour,
}

impl Step {
    pub const ALL: [Step; 2] = [Step::Minute, Step::Hour];

    pub const fn name(self) -> &'static str {
        match self {
            Step::Minute => "minute",
            Step::Hour => "hour",
        }
    }

    pub fn parse(text: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.name() == text)
    }

    pub const fn minutes(self) -> i64 {
        match self {
            Step::Minute => 1,
            Step::Hour => 60,
        }
    }

    pub const fn ms(self) -> i64 {
        self.minutes() * 60_000
    }

    /// The minute in which the step begins that this minute lies in.
    pub const fn floor(self, minute: i64) -> i64 {
        minute - minute.rem_euclid(self.minutes())
    }
}

/// What the points are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeriesBy {
    Source,
    Queue,
    Type,
}

impl SeriesBy {
    pub const ALL: [SeriesBy; 3] = [SeriesBy::Source, SeriesBy::Queue, SeriesBy::Type];

    pub const fn name(self) -> &'static str {
        match self {
            SeriesBy::Source => "source",
            SeriesBy::Queue => "queue",
            SeriesBy::Type => "type",
        }
    }

    pub fn parse(text: &str) -> Option<SeriesBy> {
        SeriesBy::ALL.into_iter().find(|by| by.name() == text)
    }
}

/// Which lines to draw.
#[derive(Clone, Debug)]
pub enum SeriesOf {
    /// Everything in one line.
    All,
    /// These values, in this order.
    Values(SeriesBy, Vec<String>),
    /// The values with the most inflow between the two times.
    Largest(SeriesBy, usize),
    /// One line an incident, in this order.
    Incidents(Vec<IncidentId>),
}

/// Lines between two times, the first included, the last not. Minutes are kept for some days, hours for good.
#[derive(Clone, Debug)]
pub struct SeriesQuery {
    pub of: SeriesOf,
    pub step: Step,
    pub from: Time,
    pub until: Time,
}

/// One line; steps in which nothing moved are left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The value, the incident's id, or empty for everything.
    pub value: String,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// The beginning of the step.
    pub at: Time,
    /// Deaths captured.
    pub arrived: u64,
    /// Letters resolved or discarded.
    pub departed: u64,
}
