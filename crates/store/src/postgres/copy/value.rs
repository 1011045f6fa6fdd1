//! Values of a copy as PostgreSQL keeps them, and the columns of letters that it has alone.

use std::collections::HashMap;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use lazaret_core::attempt::AttemptIdentity;
use lazaret_core::filter::words::indexed_text;
use lazaret_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::super::cell::{At, Cells, Uid};
use super::super::conn::Conn;
use super::super::extract::Extract;
use super::super::letters;
use super::uid;
use crate::StoreError;
use crate::copy::{Batch, Value};
use crate::packing::{PreparedAttempt, open_error};

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

/// The columns that PostgreSQL has alone, the one that is never null first.
const DERIVED: [&str; 5] = ["words", "original_event", "error_stack_trace", "error_context", "retry_history"];

/// The letters of a batch with all their columns. Their lives and attempts are stored already.
pub(super) async fn extracted(conn: &Conn, batch: &Batch) -> Result<Batch, StoreError> {
    let extracts = extracts(conn, batch).await?;
    let id = batch.index("id")?;
    let [letter_type, error_type, message] =
        [batch.index("type")?, batch.index("error_type")?, batch.index("error_message")?];
    let columns = batch.columns.iter().cloned().chain(DERIVED.map(str::to_owned)).collect();
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
    let nothing = Extract::default();
    let mut rows = Vec::with_capacity(batch.rows.len());
    for row in &batch.rows {
        let extract = extracts.get(&uid(&row[id])?).unwrap_or(&nothing);
        let words = indexed_text(row[letter_type].text(), row[error_type].text(), row[message].text());
        let mut row = row.clone();
        row.push(Value::Text(words));
        row.push(text(&extract.original_event));
        row.push(text(&extract.error_stack_trace));
        row.push(text(&extract.error_context));
        row.push(text(&extract.retry_history));
        rows.push(row);
    }
    Ok(Batch { table: batch.table, columns, rows })
}

/// The same letters without what PostgreSQL may not take; their words are needed.
pub(super) fn bare(mut batch: Batch) -> Result<Batch, StoreError> {
    let from = batch.index(DERIVED[0])? + 1;
    for row in &mut batch.rows {
        row[from..].fill(Value::Null);
    }
    Ok(batch)
}

async fn extracts(conn: &Conn, batch: &Batch) -> Result<HashMap<Uid, Extract>, StoreError> {
    let (lives, attempts) = match batch.table {
        "trash" => ("trash_lives", "trash_attempts"),
        _ => ("lives", "attempts"),
    };
    let (id, life) = (batch.index("id")?, batch.index("life")?);
    let ids: Vec<Uid> = batch.rows.iter().map(|row| uid(&row[id])).collect::<Result<_, _>>()?;
    let present: Vec<Option<i32>> = batch
        .rows
        .iter()
        .map(|row| match row[life] {
            Value::Integer(life) => i32::try_from(life).ok(),
            Value::Null | Value::Text(_) | Value::Bytes(_) => None,
        })
        .collect();
    let mut runs: HashMap<Uid, Vec<Run>> = HashMap::new();
    let sql = format!(
        "select letter, ordinal, identity, at, duration_ms, error_type, error_code, message, detail
           from {attempts}
          where letter = any($1)
          order by letter, ordinal"
    );
    for row in conn.query(&sql, &[&ids]).await? {
        runs.entry(Uid(row.id(0)?)).or_default().push(Run::read(&row)?);
    }
    let sql = format!(
        "select v.letter, v.fatal, v.content_type, v.headers, v.body
           from unnest($1::uuid[], $2::integer[]) as m (letter, life)
           join {lives} v on v.letter = m.letter and v.life = m.life"
    );
    let mut extracts = HashMap::with_capacity(ids.len());
    for row in conn.query(&sql, &[&ids, &present]).await? {
        let letter = Uid(row.id(0)?);
        let (fatal, runs) = (row.small(1)?, runs.remove(&letter).unwrap_or_default());
        let error = runs.iter().find(|run| run.ordinal == fatal).map(Run::error).transpose()?;
        let attempts: Vec<PreparedAttempt> = runs.into_iter().map(|run| run.attempt).collect();
        let envelope = letters::envelope(&row, 2)?;
        extracts.insert(letter, Extract::of_parts(&envelope, error.as_ref(), &attempts));
    }
    Ok(extracts)
}

/// An attempt as it is kept.
struct Run {
    ordinal: u32,
    attempt: PreparedAttempt,
}

impl Run {
    fn read(row: &Row) -> Result<Run, StoreError> {
        let attempt = PreparedAttempt {
            identity: AttemptIdentity(row.bytes(2)?),
            at: row.time_opt(3)?.map(|at| at.ms()),
            duration_ms: row.cell(4)?,
            error_type: row.cell(5)?,
            error_code: row.cell(6)?,
            message: row.cell(7)?,
            detail: row.cell(8)?,
        };
        Ok(Run { ordinal: row.small(1)?, attempt })
    }

    fn error(&self) -> Result<lazaret_core::attempt::LetterError, StoreError> {
        let PreparedAttempt { error_type, error_code, message, detail, .. } = &self.attempt;
        Ok(open_error(error_type.clone(), error_code.clone(), message.clone(), detail.as_deref())?.0)
    }
}
