//! The rows of letters, lives and attempts, many at once: each column is bound as one list.

use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::super::cell::{At, Uid, clean, clean_opt};
use super::super::conn::Conn;
use super::super::extract::Extract;
use super::super::writer::Write;
use super::New;
use crate::StoreError;
use crate::packing::{Prepared, PreparedAttempt, origin_text};

/// One column of many rows.
pub(in super::super) fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// Splits rows so that no statement grows beyond what a message may hold.
pub(in super::super) fn chunks<R>(mut rows: &[R], bytes: impl Fn(&R) -> usize) -> Vec<&[R]> {
    let mut chunks = Vec::new();
    while !rows.is_empty() {
        let mut sum = 0;
        let fits = |row: &&R| {
            sum += bytes(row);
            sum <= limits::STATEMENT_BYTES_MAX
        };
        let count = rows.iter().take_while(fits).count().max(1);
        let (chunk, rest) = rows.split_at(count);
        chunks.push(chunk);
        rows = rest;
    }
    chunks
}

pub(super) const ADD_LETTERS: &str = "
insert into dead_letter_queue (id, event_id, subscriber_id, original_event, error_message, error_type, error_code,
       error_stack_trace, error_context, retry_history, retry_count, max_retries, status, created_at, updated_at,
       source, tenant, type, queue, aggregate, schema_version, class, fingerprint, place, life, previous, died_at,
       retention_at, words)
select l.id, l.event_id, l.subscriber_id, l.original_event::jsonb, l.error_message, l.error_type, l.error_code,
       l.error_stack_trace, l.error_context::jsonb, l.retry_history::jsonb, l.retry_count, l.max_retries, $1,
       l.created_at, l.created_at, l.source, l.tenant, l.type, l.queue, l.aggregate, l.schema_version, l.class,
       l.fingerprint, $2, 1, l.previous, l.died_at, l.created_at, array_to_tsvector(string_to_array(l.words, ' '))
  from unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
              $11::text[], $12::text[], $13::bigint[], $14::bigint[], $15::timestamptz[], $16::text[], $17::text[],
              $18::text[], $19::text[], $20::text[], $21::text[], $22::text[], $23::text[], $24::uuid[],
              $25::timestamptz[], $26::text[])
    as l (id, event_id, subscriber_id, original_event, error_message, error_type, error_code, error_stack_trace,
          error_context, retry_history, retry_count, max_retries, created_at, source, tenant, type, queue, aggregate,
          schema_version, class, fingerprint, previous, died_at, words)";

pub(super) async fn add_letters(conn: &Conn, new: &[New<'_>]) -> Result<(), StoreError> {
    let bytes = |new: &New<'_>| {
        let extract = new.incoming.extract().map_or(0, Extract::bytes);
        extract + new.prepared().words.len() + limits::MESSAGE_BYTES_LISTED
    };
    for chunk in chunks(new, bytes) {
        add_letters_at_once(conn, chunk).await?;
    }
    Ok(())
}

async fn add_letters_at_once(conn: &Conn, new: &[New<'_>]) -> Result<(), StoreError> {
    let nothing = Extract::default();
    let extract: Vec<&Extract> = column(new, |new: &New<'_>| new.incoming.extract().unwrap_or(&nothing));
    let prepared: Vec<&Prepared> = column(new, |new| new.prepared());
    conn.execute(
        ADD_LETTERS,
        &[
            &Status::Pending.name(),
            &Place::Live.name(),
            &column(&prepared, |one| Uid(*one.admitted.id.bytes())),
            &column(&prepared, |one| one.admitted.captured.message_id.as_str()),
            &column(&prepared, |one| one.admitted.captured.subscriber.as_deref()),
            &column(&extract, |one| one.original_event.as_deref()),
            &column(&prepared, |one| one.fatal().message.as_str()),
            &column(&prepared, |one| one.fatal().error_type.as_str()),
            &column(&prepared, |one| one.fatal().error_code.as_deref()),
            &column(&extract, |one| one.error_stack_trace.as_deref()),
            &column(&extract, |one| one.error_context.as_deref()),
            &column(&extract, |one| one.retry_history.as_deref()),
            &column(&prepared, |one| i64::from(one.admitted.captured.retry_count)),
            &column(&prepared, |one| one.admitted.captured.max_retries.map(i64::from)),
            &column(&prepared, |one| At(one.admitted.captured_at)),
            &column(&prepared, |one| one.admitted.captured.source.as_str()),
            &column(&prepared, |one| one.admitted.captured.tenant.as_deref()),
            &column(&prepared, |one| one.admitted.captured.letter_type.as_str()),
            &column(&prepared, |one| one.admitted.captured.queue.as_str()),
            &column(&prepared, |one| one.admitted.captured.aggregate.as_deref()),
            &column(&prepared, |one| one.admitted.captured.schema_version.as_deref()),
            &column(&prepared, |one| one.admitted.class.name()),
            &column(&prepared, |one| one.admitted.grouping.fingerprint.as_str()),
            &column(new, |new| new.previous.map(|id| Uid(*id.bytes()))),
            &column(&prepared, |one| At(one.admitted.died_at)),
            &column(&prepared, |one| one.words.as_str()),
        ],
    )
    .await?;
    Ok(())
}

/// One life as it arrives; `fatal` is the ordinal of the attempt that ended it.
pub(in super::super) struct NewLife<'a> {
    pub letter: LetterId,
    pub life: u32,
    pub fatal: u32,
    pub prepared: &'a Prepared,
}

pub(in super::super) const ADD_LIVES: &str = "
insert into lives (letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body, body_bytes,
       sha256, fatal, retry_count, max_retries, redrive, reported, origin, body_missing)
select v.letter, v.life, v.captured_at, v.died_at, v.class, v.fingerprint, v.content_type, v.headers, v.body,
       v.body_bytes, v.sha256, v.fatal, v.retry_count, v.max_retries, v.redrive, v.reported, v.origin,
       v.body_missing
  from unnest($1::uuid[], $2::integer[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[], $7::text[],
              $8::text[], $9::bytea[], $10::bigint[], $11::bytea[], $12::integer[], $13::bigint[], $14::bigint[],
              $15::uuid[], $16::bytea[], $17::text[], $18::text[])
    as v (letter, life, captured_at, died_at, class, fingerprint, content_type, headers, body, body_bytes, sha256,
          fatal, retry_count, max_retries, redrive, reported, origin, body_missing)";

/// Stores lives; each gets its place in the order of capture at the commit.
pub(in super::super) async fn add_lives(write: &mut Write, lives: &[NewLife<'_>]) -> Result<(), StoreError> {
    put_lives(&write.conn, lives).await?;
    tell_lives(write, lives);
    Ok(())
}

/// Keeps lives in mind for the commit, which gives each its place in the order of capture.
pub(super) fn tell_lives(write: &mut Write, lives: &[NewLife<'_>]) {
    write.told.lives.extend(lives.iter().map(|life| (life.letter, life.life)));
}

/// Stores the rows alone.
pub(super) async fn put_lives(conn: &Conn, lives: &[NewLife<'_>]) -> Result<(), StoreError> {
    let bytes = |life: &NewLife<'_>| {
        let reported = life.prepared.reported.as_ref().map_or(0, Vec::len);
        life.prepared.body.len() + life.prepared.headers.as_ref().map_or(0, String::len) + reported
    };
    for chunk in chunks(lives, bytes) {
        add_lives_at_once(conn, chunk).await?;
    }
    Ok(())
}

async fn add_lives_at_once(conn: &Conn, lives: &[NewLife<'_>]) -> Result<(), StoreError> {
    conn.execute(
        ADD_LIVES,
        &[
            &column(lives, |life| Uid(*life.letter.bytes())),
            &column(lives, |life| life.life as i32),
            &column(lives, |life| At(life.prepared.admitted.captured_at)),
            &column(lives, |life| At(life.prepared.admitted.died_at)),
            &column(lives, |life| life.prepared.admitted.class.name()),
            &column(lives, |life| life.prepared.admitted.grouping.fingerprint.as_str()),
            &column(lives, |life| clean(life.prepared.admitted.captured.envelope.content_type())),
            &column(lives, |life| life.prepared.headers.as_deref()),
            &column(lives, |life| life.prepared.body.as_slice()),
            &column(lives, |life| life.prepared.admitted.captured.envelope.body().len() as i64),
            &column(lives, |life| life.prepared.admitted.captured.envelope.sha256().as_slice()),
            &column(lives, |life| life.fatal as i32),
            &column(lives, |life| i64::from(life.prepared.admitted.captured.retry_count)),
            &column(lives, |life| life.prepared.admitted.captured.max_retries.map(i64::from)),
            &column(lives, |life| {
                life.prepared.admitted.captured.mark.map(|mark| Uid(*mark.redrive.bytes()))
            }),
            &column(lives, |life| life.prepared.reported.as_deref()),
            &column(lives, |life| origin_text(&life.prepared.admitted.captured.envelope)),
            &column(lives, |life| clean_opt(life.prepared.admitted.captured.envelope.body_missing())),
        ],
    )
    .await?;
    Ok(())
}

/// One failed run of a letter.
pub(in super::super) struct NewAttempt<'a> {
    pub letter: LetterId,
    pub ordinal: u32,
    pub life: u32,
    pub attempt: &'a PreparedAttempt,
}

pub(super) const ADD_ATTEMPTS: &str = "
insert into attempts (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)
select a.letter, a.ordinal, a.life, a.identity, a.at, a.duration_ms, a.error_type, a.error_code, a.message, a.detail
  from unnest($1::uuid[], $2::integer[], $3::integer[], $4::bytea[], $5::timestamptz[], $6::bigint[], $7::text[],
              $8::text[], $9::text[], $10::bytea[])
    as a (letter, ordinal, life, identity, at, duration_ms, error_type, error_code, message, detail)";

pub(in super::super) async fn add_attempts(
    conn: &Conn,
    attempts: &[NewAttempt<'_>],
) -> Result<(), StoreError> {
    let bytes =
        |new: &NewAttempt<'_>| new.attempt.message.len() + new.attempt.detail.as_ref().map_or(0, Vec::len);
    for chunk in chunks(attempts, bytes) {
        conn.execute(
            ADD_ATTEMPTS,
            &[
                &column(chunk, |new| Uid(*new.letter.bytes())),
                &column(chunk, |new| new.ordinal as i32),
                &column(chunk, |new| new.life as i32),
                &column(chunk, |new| new.attempt.identity.0.as_slice()),
                &column(chunk, |new| new.attempt.at.map(|ms| At(Time::from_ms(ms)))),
                &column(chunk, |new| new.attempt.duration_ms),
                &column(chunk, |new| new.attempt.error_type.as_str()),
                &column(chunk, |new| new.attempt.error_code.as_deref()),
                &column(chunk, |new| new.attempt.message.as_str()),
                &column(chunk, |new| new.attempt.detail.as_deref()),
            ],
        )
        .await?;
    }
    Ok(())
}
