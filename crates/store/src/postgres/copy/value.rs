//! Values of a copy as PostgreSQL keeps them, and the search words that it keeps with letters.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use lazaret_core::filter::words::indexed_text;
use lazaret_core::time::Time;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::super::cell::At;
use crate::StoreError;
use crate::copy::{Batch, Value};

impl<'a> FromSql<'a> for Value {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Value, Box<dyn Error + Sync + Send>> {
        Ok(match *of {
            Type::INT4 => Value::Integer(i64::from(i32::from_sql(of, raw)?)),
            Type::INT8 => Value::Integer(i64::from_sql(of, raw)?),
            Type::BOOL => Value::Integer(i64::from(bool::from_sql(of, raw)?)),
            Type::TIMESTAMPTZ => Value::Integer(At::from_sql(of, raw)?.0.ms()),
            Type::UUID | Type::BYTEA => Value::Bytes(raw.to_vec()),
            _ => Value::Text(String::from_sql(of, raw)?),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Value, Box<dyn Error + Sync + Send>> {
        Ok(Value::Null)
    }

    fn accepts(of: &Type) -> bool {
        matches!(
            *of,
            Type::INT4
                | Type::INT8
                | Type::BOOL
                | Type::TIMESTAMPTZ
                | Type::UUID
                | Type::BYTEA
                | Type::TEXT
                | Type::JSONB
                | Type::TS_VECTOR
        )
    }
}

impl ToSql for Value {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self, of) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT4) => out.put_i32(i32::try_from(*number)?),
            (Value::Integer(number), &Type::INT8) => out.put_i64(*number),
            (Value::Integer(number), &Type::BOOL) => out.put_u8(u8::from(*number != 0)),
            (Value::Integer(number), &Type::TIMESTAMPTZ) => {
                return At(Time::from_ms(*number)).to_sql(of, out);
            }
            (Value::Bytes(bytes), &Type::UUID | &Type::BYTEA) => out.put_slice(bytes),
            (Value::Text(text), &Type::TEXT) => out.put_slice(text.as_bytes()),
            (Value::Text(text), &Type::JSONB) => {
                // The version of the form, then the text.
                out.put_u8(1);
                out.put_slice(text.as_bytes());
            }
            (Value::Text(words), &Type::TS_VECTOR) => put_words(words, out)?,
            _ => return Err(format!("a column of type {of} does not hold such a value").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(of: &Type) -> bool {
        <Value as FromSql<'_>>::accepts(of)
    }

    to_sql_checked!();
}

/// Words without positions: how many, then each with a NUL at its end and no positions.
fn put_words(words: &str, out: &mut BytesMut) -> Result<(), Box<dyn Error + Sync + Send>> {
    let mut words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words.dedup();
    out.put_i32(i32::try_from(words.len())?);
    for word in words {
        out.put_slice(word.as_bytes());
        out.put_u8(0);
        out.put_u16(0);
    }
    Ok(())
}

/// The letters of a batch with their search words. What people ask the database for is taken out of them later, by `refill`.
pub(super) fn with_words(batch: &Batch) -> Result<Batch, StoreError> {
    let [letter_type, error_type, message] =
        [batch.index("type")?, batch.index("error_type")?, batch.index("error_message")?];
    let columns = batch.columns.iter().cloned().chain(["words".to_owned()]).collect();
    let mut rows = Vec::with_capacity(batch.rows.len());
    for row in &batch.rows {
        let words = indexed_text(row[letter_type].text(), row[error_type].text(), row[message].text());
        let mut row = row.clone();
        row.push(Value::Text(words));
        rows.push(row);
    }
    Ok(Batch { table: batch.table, columns, rows })
}
