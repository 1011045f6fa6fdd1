//! The rows of imported letters and their lives, many at once.

use lazaret_core::envelope::Envelope;
use lazaret_core::id::LetterId;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::limits;

use super::super::cell::{At, Uid, clean, clean_opt};
use super::super::extract::Extract;
use super::super::insert::{ADD_LIVES, chunks, column};
use super::super::writer::Write;
use super::packed::{Columns, Packed, PackedLife};
use crate::StoreError;
use crate::packing::{PreparedAttempt, origin_text};
use crate::page::Life;

const ADD_LETTERS: &str = "
insert into dead_letter_queue (id, event_id, subscriber_id, original_event, error_message, error_type, error_code,
       error_stack_trace, error_context, retry_history, retry_count, max_retries, status, resolution_timestamp,
       resolution_strategy, resolved_by, resolution_notes, created_at, updated_at, source, tenant, type, queue,
       aggregate, schema_version, class, fingerprint, place, life, ever_sent, held_at, held_by, hold_reason, previous,
       died_at, retention_at, words)
select l.id, l.event_id, l.subscriber_id, l.original_event::jsonb, l.error_message, l.error_type, l.error_code,
       l.error_stack_trace, l.error_context::jsonb, l.retry_history::jsonb, l.retry_count, l.max_retries, l.status,
       l.resolution_timestamp, l.resolution_strategy, l.resolved_by, l.resolution_notes, l.created_at, l.updated_at,
       l.source, l.tenant, l.type, l.queue, l.aggregate, l.schema_version, l.class, l.fingerprint, $1, l.life,
       l.ever_sent, l.held_at, l.held_by, l.hold_reason, l.previous, l.died_at, l.retention_at,
       array_to_tsvector(string_to_array(l.words, ' '))
  from unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
              $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::timestamptz[], $16::text[],
              $17::text[], $18::text[], $19::timestamptz[], $20::timestamptz[], $21::text[], $22::text[], $23::text[],
              $24::text[], $25::text[], $26::text[], $27::text[], $28::text[], $29::integer[], $30::boolean[],
              $31::timestamptz[], $32::text[], $33::text[], $34::uuid[], $35::timestamptz[], $36::timestamptz[],
              $37::text[])
    as l (id, event_id, subscriber_id, original_event, error_message, error_type, error_code, error_stack_trace,
          error_context, retry_history, retry_count, max_retries, status, resolution_timestamp, resolution_strategy,
          resolved_by, resolution_notes, created_at, updated_at, source, tenant, type, queue, aggregate,
          schema_version, class, fingerprint, life, ever_sent, held_at, held_by, hold_reason, previous, died_at,
          retention_at, words)";

/// A letter with what its columns hold beside its own fields.
struct Row<'a> {
    letter: &'a Letter,
    fatal: &'a PreparedAttempt,
    extract: &'a Extract,
    fingerprint: &'a str,
    status: Status,
    ever_sent: bool,
    words: String,
}

pub(super) async fn add_letters(
    write: &Write,
    created: &[&Packed],
    columns: Columns,
) -> Result<(), StoreError> {
    let nothing = Extract::default();
    let mut rows = Vec::with_capacity(created.len());
    for packed in created {
        let letter = packed.letter();
        rows.push(Row {
            letter,
            fatal: packed.fatal()?,
            extract: match columns {
                Columns::All => &packed.extract,
                Columns::Bare => &nothing,
            },
            fingerprint: packed.fingerprint()?,
            status: packed.status_here(),
            ever_sent: packed.import.exported.ever_sent || letter.status == Status::Reprocessing,
            words: packed.words()?,
        });
    }
    let bytes = |row: &Row<'_>| row.extract.bytes() + row.words.len() + limits::MESSAGE_BYTES_LISTED;
    for chunk in chunks(&rows, bytes) {
        add_letters_at_once(write, chunk).await?;
    }
    Ok(())
}

async fn add_letters_at_once(write: &Write, rows: &[Row<'_>]) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            ADD_LETTERS,
            &[
                &Place::Live.name(),
                &column(rows, |row| Uid(*row.letter.id.bytes())),
                &column(rows, |row| row.letter.event_id.as_str()),
                &column(rows, |row| row.letter.subscriber.as_deref()),
                &column(rows, |row| row.extract.original_event.as_deref()),
                &column(rows, |row| row.fatal.message.as_str()),
                &column(rows, |row| row.fatal.error_type.as_str()),
                &column(rows, |row| row.fatal.error_code.as_deref()),
                &column(rows, |row| row.extract.error_stack_trace.as_deref()),
                &column(rows, |row| row.extract.error_context.as_deref()),
                &column(rows, |row| row.extract.retry_history.as_deref()),
                &column(rows, |row| i64::from(row.letter.retry_count)),
                &column(rows, |row| row.letter.max_retries.map(i64::from)),
                &column(rows, |row| row.status.name()),
                &column(rows, |row| row.letter.resolution.as_ref().map(|one| At(one.at))),
                &column(rows, |row| row.letter.resolution.as_ref().map(|one| one.strategy.name())),
                &column(rows, |row| row.letter.resolution.as_ref().map(|one| one.by.as_str())),
                &column(rows, |row| row.letter.resolution.as_ref().and_then(|one| one.notes.as_deref())),
                // The time of the id, and not what the letter says: it names the partition.
                &column(rows, |row| At(row.letter.id.at())),
                &column(rows, |row| At(row.letter.updated_at)),
                &column(rows, |row| row.letter.source.as_str()),
                &column(rows, |row| row.letter.tenant.as_deref()),
                &column(rows, |row| row.letter.letter_type.as_str()),
                &column(rows, |row| row.letter.queue.as_str()),
                &column(rows, |row| row.letter.aggregate.as_deref()),
                &column(rows, |row| row.letter.schema_version.as_deref()),
                &column(rows, |row| row.letter.class.name()),
                &column(rows, |row| row.fingerprint),
                &column(rows, |row| row.letter.life as i32),
                &column(rows, |row| row.ever_sent),
                &column(rows, |row| row.letter.hold.as_ref().map(|hold| At(hold.at))),
                &column(rows, |row| row.letter.hold.as_ref().map(|hold| hold.by.as_str())),
                &column(rows, |row| row.letter.hold.as_ref().map(|hold| hold.reason.as_str())),
                &column(rows, |row| row.letter.previous.map(|id| Uid(*id.bytes()))),
                &column(rows, |row| At(row.letter.died_at)),
                &column(rows, |row| At(row.letter.retention_at)),
                &column(rows, |row| row.words.as_str()),
            ],
        )
        .await?;
    Ok(())
}

/// A life as it was elsewhere, with its fingerprint by the rules that hold here.
struct LifeRow<'a> {
    letter: LetterId,
    life: &'a Life,
    envelope: &'a Envelope,
    fingerprint: &'a str,
    packed: &'a PackedLife,
}

/// Stores the lives of letters; each gets its place in the order of capture at the commit.
pub(super) async fn add_lives(write: &mut Write, created: &[&Packed]) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for packed in created {
        let import = &packed.import;
        let lives = import.exported.lives.iter().zip(&import.groupings).zip(&packed.lives);
        rows.extend(lives.map(|(((life, envelope), (grouping, _)), packed)| LifeRow {
            letter: import.exported.letter.id,
            life,
            envelope,
            fingerprint: grouping.fingerprint.as_str(),
            packed,
        }));
    }
    let bytes = |row: &LifeRow<'_>| {
        let LifeRow { packed: PackedLife { headers, body, reported }, .. } = row;
        body.len() + headers.as_ref().map_or(0, String::len) + reported.as_ref().map_or(0, Vec::len)
    };
    for chunk in chunks(&rows, bytes) {
        add_lives_at_once(write, chunk).await?;
    }
    write.told.lives.extend(rows.iter().map(|row| (row.letter, row.life.life)));
    Ok(())
}

async fn add_lives_at_once(write: &Write, rows: &[LifeRow<'_>]) -> Result<(), StoreError> {
    write
        .conn
        .execute(
            ADD_LIVES,
            &[
                &column(rows, |row| Uid(*row.letter.bytes())),
                &column(rows, |row| row.life.life as i32),
                &column(rows, |row| At(row.life.captured_at)),
                &column(rows, |row| At(row.life.died_at)),
                &column(rows, |row| row.life.class.name()),
                &column(rows, |row| row.fingerprint),
                &column(rows, |row| clean(row.envelope.content_type())),
                &column(rows, |row| row.packed.headers.as_deref()),
                &column(rows, |row| row.packed.body.as_slice()),
                &column(rows, |row| row.envelope.body().len() as i64),
                &column(rows, |row| row.envelope.sha256().as_slice()),
                &column(rows, |row| row.life.fatal as i32),
                &column(rows, |row| i64::from(row.life.retry_count)),
                &column(rows, |row| row.life.max_retries.map(i64::from)),
                &column(rows, |row| row.life.redrive.map(|id| Uid(*id.bytes()))),
                &column(rows, |row| row.packed.reported.as_deref()),
                &column(rows, |row| origin_text(row.envelope)),
                &column(rows, |row| clean_opt(row.envelope.body_missing())),
            ],
        )
        .await?;
    Ok(())
}
