//! Values on their way to PostgreSQL and back: ids as `uuid`, times as `timestamptz(3)`, texts without what it cannot
//! hold.

use std::borrow::Cow;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use lazaret_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::StoreError;

/// What is bound to a statement.
pub(super) type Bind<'a> = &'a (dyn ToSql + Sync);

/// An id of ours in a `uuid` column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Uid(pub [u8; 16]);

impl ToSql for Uid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Uid, Box<dyn Error + Sync + Send>> {
        Ok(Uid(raw.try_into()?))
    }

    accepts!(UUID);
}

/// A time of ours in a `timestamptz(3)` column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct At(pub Time);

/// PostgreSQL counts microseconds from here: 2000-01-01.
const EPOCH_MS: i64 = 946_684_800_000;

impl ToSql for At {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // Our times lie between the years 0 and 9999, and theirs go further at both ends.
        out.put_i64((self.0.ms() - EPOCH_MS) * 1_000);
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for At {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<At, Box<dyn Error + Sync + Send>> {
        let us = i64::from_be_bytes(raw.try_into()?);
        Ok(At(Time::from_ms(us.div_euclid(1_000) + EPOCH_MS)))
    }

    accepts!(TIMESTAMPTZ);
}

/// Reads columns of a row; one that does not hold what it should is a contradiction in the store.
pub(super) trait Cells {
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, StoreError>;

    fn time(&self, at: usize) -> Result<Time, StoreError> {
        Ok(self.cell::<At>(at)?.0)
    }

    fn time_opt(&self, at: usize) -> Result<Option<Time>, StoreError> {
        Ok(self.cell::<Option<At>>(at)?.map(|at| at.0))
    }

    /// The bytes of an id.
    fn id(&self, at: usize) -> Result<[u8; 16], StoreError> {
        Ok(self.cell::<Uid>(at)?.0)
    }

    fn id_opt(&self, at: usize) -> Result<Option<[u8; 16]>, StoreError> {
        Ok(self.cell::<Option<Uid>>(at)?.map(|id| id.0))
    }

    /// A number that is never negative and fits.
    fn count(&self, at: usize) -> Result<u64, StoreError> {
        Ok(self.cell::<i64>(at)?.max(0) as u64)
    }

    /// A small number that is never negative, from an `integer` column.
    fn small(&self, at: usize) -> Result<u32, StoreError> {
        Ok(self.cell::<i32>(at)?.max(0) as u32)
    }

    /// Bytes of one length.
    fn bytes<const N: usize>(&self, at: usize) -> Result<[u8; N], StoreError> {
        let bytes: &[u8] = self.cell(at)?;
        bytes.try_into().map_err(|_| StoreError::Corrupt(format!("{} bytes where {N} belong", bytes.len())))
    }
}

impl Cells for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, at: usize) -> Result<T, StoreError> {
        self.try_get(at)
            .map_err(|error| StoreError::Corrupt(format!("a column does not hold what it should: {error}")))
    }
}

/// The text as a column can hold it: PostgreSQL knows no NUL.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

pub(super) fn clean_opt(text: Option<&str>) -> Option<Cow<'_, str>> {
    text.map(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_to_the_millisecond() {
        for ms in [0, -1, 1, 946_684_799_999, 1_763_175_600_123, i64::MIN, i64::MAX] {
            let time = Time::from_ms(ms);
            let mut out = BytesMut::new();
            At(time).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
            assert_eq!(At::from_sql(&Type::TIMESTAMPTZ, &out).unwrap(), At(time));
        }
    }

    #[test]
    fn a_clean_text_is_not_copied() {
        assert!(matches!(clean("ab"), Cow::Borrowed("ab")));
        assert_eq!(clean("a\0b"), "a\u{fffd}b");
    }
}
