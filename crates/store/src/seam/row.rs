//! Rows, read by the names of their columns.

use std::cell;

use lazaret_core::alert::{AlertState, RuleKind, Scope, Severity};
use lazaret_core::class::{Category, ErrorClass};
use lazaret_core::gate::Shut;
use lazaret_core::incident::{AgainstFix, IncidentState};
use lazaret_core::letter::Strategy;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::rca::FixKind;
use lazaret_core::redrive::{Direction, OrderBy, Outcome, RedriveKind, RunState};
use lazaret_core::time::Time;
use rusqlite::types::ValueRef;

use crate::StoreError;
use crate::alert_store::NotificationState;
use crate::archive::FileState;
use crate::claim::ClaimStep;
use crate::decision::{OperationState, Verb};
use crate::hold::HoldState;
use crate::worker::Wish;

/// A row of either database.
pub(crate) struct Row<'a> {
    of: Of<'a>,
    /// The column behind the one that was read last: whoever reads columns in order finds each at once.
    next: cell::Cell<usize>,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'a> {
    Null,
    Flag(bool),
    Number(i64),
    Real(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Id([u8; 16]),
    Time(Time),
}

/// What can be read from a column.
pub(crate) trait Cell: Sized {
    fn read(raw: Raw<'_>) -> Result<Self, StoreError>;
}

impl<'a> Row<'a> {
    pub fn of_sqlite(row: &'a rusqlite::Row<'a>) -> Row<'a> {
        Row { of: Of::Sqlite(row), next: cell::Cell::new(0) }
    }

    pub fn of_postgres(row: &'a tokio_postgres::Row) -> Row<'a> {
        Row { of: Of::Postgres(row), next: cell::Cell::new(0) }
    }

    /// Reads a column; one that is not there, or does not hold what it should, is a contradiction in the store.
    pub fn get<T: Cell>(&self, name: &str) -> Result<T, StoreError> {
        let at = self.find(name)?;
        self.next.set(at + 1);
        let raw = self.raw(at).and_then(T::read);
        raw.map_err(|error| match error {
            StoreError::Corrupt(why) => StoreError::Corrupt(format!("the {name} {why}")),
            error => error,
        })
    }

    fn find(&self, name: &str) -> Result<usize, StoreError> {
        let next = self.next.get();
        if self.name(next) == Some(name) {
            return Ok(next);
        }
        let count = match self.of {
            Of::Sqlite(row) => row.as_ref().column_count(),
            Of::Postgres(row) => row.len(),
        };
        let missing = || StoreError::Corrupt(format!("a statement returns no column {name}"));
        (0..count).find(|at| self.name(*at) == Some(name)).ok_or_else(missing)
    }

    fn name(&self, at: usize) -> Option<&str> {
        match self.of {
            Of::Sqlite(row) => row.as_ref().column_name(at).ok(),
            Of::Postgres(row) => row.columns().get(at).map(|column| column.name()),
        }
    }

    fn raw(&self, at: usize) -> Result<Raw<'_>, StoreError> {
        match self.of {
            Of::Sqlite(row) => Ok(match row.get_ref(at)? {
                ValueRef::Null => Raw::Null,
                ValueRef::Integer(number) => Raw::Number(number),
                ValueRef::Real(real) => Raw::Real(real),
                ValueRef::Text(text) => Raw::Text(str::from_utf8(text).map_err(|_| unlike("a text"))?),
                ValueRef::Blob(bytes) => Raw::Bytes(bytes),
            }),
            Of::Postgres(row) => Ok(row.try_get(at)?),
        }
    }
}

fn unlike(wanted: &str) -> StoreError {
    StoreError::Corrupt(format!("is not {wanted}"))
}

impl<T: Cell> Cell for Option<T> {
    fn read(raw: Raw<'_>) -> Result<Option<T>, StoreError> {
        match raw {
            Raw::Null => Ok(None),
            raw => T::read(raw).map(Some),
        }
    }
}

impl Cell for i64 {
    fn read(raw: Raw<'_>) -> Result<i64, StoreError> {
        match raw {
            Raw::Number(number) => Ok(number),
            _ => Err(unlike("a number")),
        }
    }
}

/// A number that is never negative.
impl Cell for u64 {
    fn read(raw: Raw<'_>) -> Result<u64, StoreError> {
        Ok(i64::read(raw)?.max(0) as u64)
    }
}

/// A small number that is never negative.
impl Cell for u32 {
    fn read(raw: Raw<'_>) -> Result<u32, StoreError> {
        u32::try_from(u64::read(raw)?).map_err(|_| unlike("a small number"))
    }
}

impl Cell for bool {
    fn read(raw: Raw<'_>) -> Result<bool, StoreError> {
        match raw {
            Raw::Flag(flag) => Ok(flag),
            Raw::Number(number) => Ok(number != 0),
            _ => Err(unlike("a flag")),
        }
    }
}

impl Cell for f64 {
    fn read(raw: Raw<'_>) -> Result<f64, StoreError> {
        match raw {
            Raw::Real(real) => Ok(real),
            Raw::Number(number) => Ok(number as f64),
            _ => Err(unlike("a number")),
        }
    }
}

impl Cell for String {
    fn read(raw: Raw<'_>) -> Result<String, StoreError> {
        match raw {
            Raw::Text(text) => Ok(text.to_owned()),
            _ => Err(unlike("a text")),
        }
    }
}

impl Cell for Vec<u8> {
    fn read(raw: Raw<'_>) -> Result<Vec<u8>, StoreError> {
        match raw {
            Raw::Bytes(bytes) => Ok(bytes.to_vec()),
            _ => Err(unlike("bytes")),
        }
    }
}

/// Bytes of one length: an id or a hash.
impl<const N: usize> Cell for [u8; N] {
    fn read(raw: Raw<'_>) -> Result<[u8; N], StoreError> {
        let bytes = match &raw {
            Raw::Bytes(bytes) => bytes,
            Raw::Id(id) => id.as_slice(),
            _ => return Err(unlike("bytes")),
        };
        bytes.try_into().map_err(|_| unlike(&format!("{N} bytes")))
    }
}

impl Cell for Time {
    fn read(raw: Raw<'_>) -> Result<Time, StoreError> {
        match raw {
            Raw::Time(time) => Ok(time),
            Raw::Number(ms) => Ok(Time::from_ms(ms)),
            _ => Err(unlike("a time")),
        }
    }
}

/// Enums are kept by their names.
macro_rules! named {
    ($($of:ty),+ $(,)?) => {$(
        impl<'a> From<$of> for super::Value<'a> {
            fn from(value: $of) -> super::Value<'a> {
                value.name().into()
            }
        }

        impl Cell for $of {
            fn read(raw: Raw<'_>) -> Result<$of, StoreError> {
                let name = String::read(raw)?;
                <$of>::parse(&name).ok_or_else(|| StoreError::Corrupt(format!("`{name}` is unknown")))
            }
        }
    )+};
}

named!(
    AgainstFix,
    AlertState,
    Category,
    ClaimStep,
    Direction,
    ErrorClass,
    FileState,
    FixKind,
    HoldState,
    IncidentState,
    NotificationState,
    OperationState,
    OrderBy,
    Outcome,
    Place,
    RedriveKind,
    RuleKind,
    RunState,
    Scope,
    Severity,
    Shut,
    Status,
    Strategy,
    Verb,
    Wish,
);
