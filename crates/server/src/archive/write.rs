//! Writes an archive file in memory, one row group at a time, so that only compressed rows add up.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::attempt::LetterError;
use lazaret_core::envelope::Envelope;
use lazaret_core::header::headers_to_json;
use lazaret_core::id::FileId;
use lazaret_core::letter::{Hold, Letter, Resolution};
use lazaret_core::limits;
use lazaret_core::origin::Origin;
use lazaret_core::time::Time;
use lazaret_store::archive::{ShelvedRow, WrittenFile};
use lazaret_store::page::LifeAttempt;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, TypePtr};
use sha2::{Digest, Sha256};

use super::row::Row;
use super::schema::{
    BODY_PATH, Column, FILE_KEY, VERSION, VERSION_KEY, bytes, entry, flag, hex, list, long, long_or_null,
    message, number, number_or_null, text, text_or_null, time, time_or_null,
};

/// A file that is being made.
pub(super) struct Writer {
    parquet: SerializedFileWriter<Vec<u8>>,
    rows: Vec<WrittenRow>,
    /// Rows of the group that is not written yet.
    waiting: Vec<Row>,
    waiting_bytes: usize,
    body_bytes: u64,
    died: Option<(Time, Time)>,
}

/// What has to be found again when the file is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenRow {
    pub shelved: ShelvedRow,
    pub digest: [u8; 32],
}

/// A file, complete, and what is in it.
pub(super) struct Made {
    pub content: Bytes,
    pub rows: Vec<WrittenRow>,
    pub written: WrittenFile,
}

impl Writer {
    pub(super) fn new(file: FileId) -> Result<Writer, ParquetError> {
        let told = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
        let metadata = vec![told(VERSION_KEY, VERSION.to_owned()), told(FILE_KEY, file.to_string())];
        let properties = WriterProperties::builder()
            .set_created_by(concat!("lazaret ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_dictionary_enabled(ColumnPath::new(BODY_PATH.map(str::to_owned).to_vec()), false)
            .set_key_value_metadata(Some(metadata))
            .build();
        let parquet = SerializedFileWriter::new(Vec::new(), schema()?, Arc::new(properties))?;
        let (rows, waiting) = (Vec::new(), Vec::new());
        Ok(Writer { parquet, rows, waiting, waiting_bytes: 0, body_bytes: 0, died: None })
    }

    pub(super) fn add(&mut self, rows: Vec<Row>) -> Result<(), ParquetError> {
        for row in rows {
            let died_at = row.exported.letter.died_at;
            self.died = Some(match self.died {
                Some((first, last)) => (first.min(died_at), last.max(died_at)),
                None => (died_at, died_at),
            });
            self.body_bytes += row.body_bytes();
            let shelved = row.shelved(self.rows.len() as u64);
            self.rows.push(WrittenRow { shelved, digest: row.digest() });
            self.waiting_bytes += row.size();
            self.waiting.push(row);
            if self.waiting_bytes >= limits::ARCHIVE_ROW_GROUP_BYTES {
                self.write_group()?;
            }
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let mut group = self.parquet.next_row_group()?;
        for column in columns(&self.waiting) {
            column.write(&mut group)?;
        }
        group.close()?;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    pub(super) fn letters(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Bytes of originals so far.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    pub(super) fn finish(mut self) -> Result<Made, ParquetError> {
        self.write_group()?;
        let content = Bytes::from(self.parquet.into_inner()?);
        let written = WrittenFile {
            letters: self.rows.len() as u64,
            bytes: content.len() as u64,
            sha256: Sha256::digest(&content).into(),
            first_died_at: self.died.map(|(first, _)| first),
            last_died_at: self.died.map(|(_, last)| last),
        };
        Ok(Made { content, rows: self.rows, written })
    }
}

/// The schema of every file.
pub(super) fn schema() -> Result<TypePtr, ParquetError> {
    message(&columns(&[]))
}

fn columns(rows: &[Row]) -> Vec<Column> {
    let mut columns = letters(rows);
    columns.push(list("lives", lives(rows), rows.iter().map(|row| row.exported.lives.len())));
    columns.push(list("attempts", attempts(rows), rows.iter().map(|row| row.exported.attempts.len())));
    columns.push(list("decisions", decisions(rows), rows.iter().map(|row| row.exported.decisions.len())));
    columns
}

fn letters(rows: &[Row]) -> Vec<Column> {
    let of = || rows.iter().map(|row| &row.exported.letter);
    let name = |name, get: fn(&Letter) -> &str| text(name, of().map(get));
    let optional =
        |name, get: fn(&Letter) -> &Option<String>| text_or_null(name, of().map(|it| get(it).as_deref()));
    let moment = |name, get: fn(&Letter) -> Time| time(name, of().map(get));
    let mut columns = vec![
        text("id", of().map(|letter| letter.id.to_string())),
        text("key", rows.iter().map(|row| hex(&row.exported.key.0))),
        entry("entry", rows.iter().map(|row| row.entry)),
        name("source", |letter| &letter.source),
        name("event_id", |letter| &letter.event_id),
        name("type", |letter| &letter.letter_type),
        name("queue", |letter| &letter.queue),
        optional("subscriber_id", |letter| &letter.subscriber),
        optional("tenant", |letter| &letter.tenant),
        optional("aggregate", |letter| &letter.aggregate),
        optional("schema_version", |letter| &letter.schema_version),
        name("error_type", |letter| &letter.error_type),
        optional("error_code", |letter| &letter.error_code),
        name("error_message", |letter| &letter.error_message),
        name("class", |letter| letter.class.name()),
        name("fingerprint", |letter| letter.fingerprint.as_str()),
        text("incident_id", of().map(|letter| letter.incident.to_string())),
        number("retry_count", of().map(|letter| letter.retry_count)),
        number_or_null("max_retries", of().map(|letter| letter.max_retries)),
        name("status", |letter| letter.status.name()),
        name("place", |letter| letter.place.name()),
        number("life", of().map(|letter| letter.life)),
        flag("ever_sent", rows.iter().map(|row| row.exported.ever_sent)),
        text_or_null("previous", of().map(|letter| letter.previous.map(|id| id.to_string()))),
        moment("created_at", |letter| letter.created_at),
        moment("updated_at", |letter| letter.updated_at),
        moment("died_at", |letter| letter.died_at),
        moment("retention_at", |letter| letter.retention_at),
    ];
    columns.extend(marks(rows));
    columns
}

/// Holds, resolutions and why the letter went.
fn marks(rows: &[Row]) -> Vec<Column> {
    let hold = || rows.iter().map(|row| row.exported.letter.hold.as_ref());
    let held = |name, get: fn(&Hold) -> &str| text_or_null(name, hold().map(|hold| hold.map(get)));
    let resolution = || rows.iter().map(|row| row.exported.letter.resolution.as_ref());
    let resolved = |name, get: fn(&Resolution) -> &str| {
        text_or_null(name, resolution().map(|resolution| resolution.map(get)))
    };
    vec![
        time_or_null("held_at", hold().map(|hold| hold.map(|hold| hold.at))),
        held("held_by", |hold| &hold.by),
        held("hold_reason", |hold| &hold.reason),
        time_or_null("resolution_timestamp", resolution().map(|it| it.map(|it| it.at))),
        resolved("resolution_strategy", |resolution| resolution.strategy.name()),
        resolved("resolved_by", |resolution| &resolution.by),
        text_or_null("resolution_notes", resolution().map(|it| it.and_then(|it| it.notes.as_deref()))),
        time("removed_at", rows.iter().map(|row| row.removed_at)),
        text("removed_by", rows.iter().map(|row| &row.removed_by)),
        text("removed_reason", rows.iter().map(|row| &row.reason)),
    ]
}

fn lives(rows: &[Row]) -> Vec<Column> {
    let life = || rows.iter().flat_map(|row| &row.exported.lives).map(|(life, _)| life);
    let envelope = || rows.iter().flat_map(|row| &row.exported.lives).map(|(_, envelope)| envelope);
    let headers = envelope().map(|envelope| headers_to_json(envelope.headers()));
    vec![
        number("life", life().map(|life| life.life)),
        time("captured_at", life().map(|life| life.captured_at)),
        time("died_at", life().map(|life| life.died_at)),
        text("class", life().map(|life| life.class.name())),
        text("fingerprint", life().map(|life| life.fingerprint.as_str())),
        text("content_type", envelope().map(|envelope| envelope.content_type())),
        text("headers", headers),
        bytes("body", envelope().map(Envelope::body)),
        long("body_bytes", envelope().map(|envelope| envelope.body().len() as u64)),
        text("sha256", envelope().map(|envelope| hex(envelope.sha256()))),
        number("fatal", life().map(|life| life.fatal)),
        number("retry_count", life().map(|life| life.retry_count)),
        number_or_null("max_retries", life().map(|life| life.max_retries)),
        text_or_null("redrive_id", life().map(|life| life.redrive.map(|id| id.to_string()))),
        text_or_null("reported", life().map(|life| life.reported.as_deref())),
        text_or_null("origin", envelope().map(|envelope| envelope.origin().map(Origin::to_json))),
        text_or_null("body_missing", envelope().map(|envelope| envelope.body_missing())),
    ]
}

fn attempts(rows: &[Row]) -> Vec<Column> {
    let of = || rows.iter().flat_map(|row| &row.exported.attempts);
    let optional = |name, get: fn(&LetterError) -> &Option<String>| {
        text_or_null(name, of().map(|it: &LifeAttempt| get(&it.attempt.error).as_deref()))
    };
    vec![
        number("ordinal", of().map(|attempt| attempt.ordinal)),
        number("life", of().map(|attempt| attempt.life)),
        time_or_null("at", of().map(|attempt| attempt.attempt.at)),
        long_or_null("duration_ms", of().map(|attempt| attempt.attempt.duration_ms)),
        text("error_type", of().map(|attempt| &attempt.attempt.error.error_type)),
        optional("error_code", |error| &error.code),
        text("error_message", of().map(|attempt| &attempt.attempt.error.message)),
        optional("backtrace", |error| &error.backtrace),
        optional("context", |error| &error.context),
        optional("error_extra", |error| &error.extra),
        text_or_null("extra", of().map(|attempt| attempt.attempt.extra.as_deref())),
    ]
}

fn decisions(rows: &[Row]) -> Vec<Column> {
    let of = || rows.iter().flat_map(|row| &row.exported.decisions);
    vec![
        time("at", of().map(|decision| decision.at)),
        text("action", of().map(|decision| &decision.action)),
        text("actor", of().map(|decision| &decision.actor)),
        text("role", of().map(|decision| &decision.role)),
        text_or_null("reason", of().map(|decision| decision.reason.as_deref())),
        text_or_null("operation_id", of().map(|decision| decision.operation.map(|id| id.to_string()))),
        flag("imported", of().map(|decision| decision.imported)),
    ]
}
