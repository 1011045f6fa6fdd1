//! Letters whole, out of this store and into it.

use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::filter::words::indexed_text;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::{Place, Status};
use lazaret_core::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::audit::{self, NewEntry};
use super::counters::{Counted, Flow};
use super::decisions;
use super::events::{self, NewEvent};
use super::holds;
use super::incidents::{self, Opening};
use super::insert::{ADD_KEY, ADD_LIFE, add_attempt, incident_of, latest_of_key};
use super::jobs::follow::{follow, names_a_job};
use super::letters;
use super::writer::Write;
use crate::StoreError;
use crate::audit::Actor;
use crate::packing::{PreparedAttempt, header_text, origin_text, pack, pack_attempt};
use crate::transfer::{Exported, Import, Imported};

const KEY_OF: &str = "select key from letter_keys where id = ?1";

pub(super) fn export(conn: &Connection, ids: &[LetterId]) -> Result<Vec<Exported>, StoreError> {
    let snapshot = conn.unchecked_transaction()?;
    let mut exported = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(history) = letters::history_in(conn, *id)? else { continue };
        let key: [u8; 32] = conn.prepare_cached(KEY_OF)?.query_row([id.bytes()], |row| row.get(0))?;
        let ever_sent: bool = conn
            .prepare_cached("select ever_sent or sent_at is not null from dead_letter_queue where id = ?1")?
            .query_row([id.bytes()], |row| row.get(0))?;
        let mut lives = Vec::with_capacity(history.lives.len());
        for life in history.lives {
            let Some(original) = letters::original(conn, *id, Some(life.life))? else {
                return Err(StoreError::Corrupt(format!("life {} of letter {id} has no body", life.life)));
            };
            lives.push((life, original.envelope));
        }
        exported.push(Exported {
            letter: history.letter,
            key: CaptureKey(key),
            ever_sent,
            lives,
            attempts: history.attempts,
            decisions: history.decisions,
        });
    }
    drop(snapshot);
    Ok(exported)
}

/// A letter to be imported, packed: that takes long and needs no database.
pub(super) struct Packed {
    import: Import,
    attempts: Vec<PreparedAttempt>,
    lives: Vec<PackedLife>,
}

struct PackedLife {
    headers: Option<String>,
    body: Vec<u8>,
    reported: Option<Vec<u8>>,
}

impl Packed {
    pub fn new(import: Import) -> Result<Packed, StoreError> {
        let runs: Vec<Attempt> = import.exported.attempts.iter().map(|told| told.attempt.clone()).collect();
        let attempts = runs.iter().zip(identities(&runs)).map(|(run, identity)| pack_attempt(run, identity));
        let lives = import.exported.lives.iter().map(|(life, envelope)| {
            let reported = life.reported.as_ref().map(|text| pack(text.as_bytes()));
            Ok(PackedLife { headers: header_text(envelope), body: pack(envelope.body()), reported })
        });
        let (attempts, lives) =
            (attempts.collect::<Result<_, _>>()?, lives.collect::<Result<_, StoreError>>()?);
        Ok(Packed { import, attempts, lives })
    }

    pub fn import(&self) -> &Import {
        &self.import
    }

    /// Packed in the order in which they were told.
    pub fn attempts(&self) -> &[PreparedAttempt] {
        &self.attempts
    }

    /// How many rows it takes: the writer counts a life and some attempts as much as a letter.
    pub fn weight(&self) -> usize {
        self.lives.len() + self.attempts.len() / ATTEMPTS_PER_LETTER
    }
}

/// Attempts that take as long to write as a letter does.
const ATTEMPTS_PER_LETTER: usize = 4;

/// Puts letters in as they were; one entry in the audit log stands for all of them.
pub(super) fn import(
    write: &mut Write,
    letters: &[Packed],
    by: &Actor,
    at: Time,
) -> Result<Vec<Imported>, StoreError> {
    let mut outcomes = Vec::with_capacity(letters.len());
    for packed in letters {
        outcomes.push(import_one(write, packed, by)?);
    }
    let created = outcomes.iter().filter(|outcome| **outcome == Imported::Created).count();
    if created > 0 {
        let entry = NewEntry { count: created as u64, ..NewEntry::new(by, "import", at) };
        audit::add(write, &entry)?;
    }
    Ok(outcomes)
}

fn import_one(write: &mut Write, packed: &Packed, by: &Actor) -> Result<Imported, StoreError> {
    let Packed { import, attempts, .. } = packed;
    let Exported { letter, key, decisions: past, .. } = &import.exported;
    let generation = match standing(&write.conn, letter, key)? {
        Met::Nobody { generation } => generation,
        Met::Itself => return Ok(Imported::Known),
        Met::Earlier => return Ok(Imported::Behind),
        Met::Other(other) => return Ok(Imported::Conflict(other)),
    };
    if names_a_job(&write.conn, &letter.source, &letter.event_id, key)? {
        return Ok(Imported::Conflict(letter.id));
    }
    write.conn.prepare_cached(ADD_KEY)?.execute((
        key.0,
        generation,
        letter.id.bytes(),
        Place::Live.name(),
    ))?;
    let incident = add_incidents(write, import)?;
    let row = add_letter(write, import, attempts)?;
    for ((ordinal, life), attempt) in
        import.exported.attempts.iter().map(|told| (told.ordinal, told.life)).zip(attempts)
    {
        add_attempt(write, row, ordinal, life, attempt)?;
    }
    add_lives(write, packed, row)?;
    decisions::add_past(write, letter.id, past)?;
    count(write, import);
    match status_here(letter) {
        Status::Pending => follow(write, letter.id, import.at)?,
        Status::Reprocessing | Status::Resolved | Status::Discarded => {}
    }
    let event = NewEvent {
        at: import.at,
        kind: "dead_letter.imported",
        letter: Some(letter.id),
        incident: Some(incident),
        actor: Some(&by.name),
        ..NewEvent::default()
    };
    events::add(write, &event)?;
    holds::imported(write, letter, import.at)?;
    Ok(Imported::Created)
}

/// Who stands where a letter is to be put.
enum Met {
    Nobody {
        generation: u32,
    },
    /// As far along, or further.
    Itself,
    /// The letter as it was before.
    Earlier,
    Other(LetterId),
}

const HERE: &str = "
select life, updated_at
  from dead_letter_queue
 where id = ?1";

fn standing(conn: &Connection, letter: &Letter, key: &CaptureKey) -> Result<Met, StoreError> {
    let id = letter.id;
    let under_id: Option<[u8; 32]> =
        conn.prepare_cached(KEY_OF)?.query_row([id.bytes()], |row| row.get(0)).optional()?;
    if let Some(known) = under_id {
        let here: Option<(u32, i64)> = conn
            .prepare_cached(HERE)?
            .query_row([id.bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        return Ok(match here {
            Some((life, updated_at)) if known == key.0 => {
                if (life, updated_at) >= (letter.life, letter.updated_at.ms()) {
                    Met::Itself
                } else {
                    Met::Earlier
                }
            }
            Some(_) | None => Met::Other(id),
        });
    }
    match latest_of_key(conn, key)? {
        None => Ok(Met::Nobody { generation: 1 }),
        Some((generation, _, Place::Deleted)) => Ok(Met::Nobody { generation: generation + 1 }),
        Some((_, other, Place::Live | Place::Archived)) => Ok(Met::Other(other)),
    }
}

/// Sees to the incident of each life; the last one is the letter's own.
pub(super) fn add_incidents(write: &mut Write, import: &Import) -> Result<IncidentId, StoreError> {
    let mut own = None;
    for ((life, _), (grouping, incident)) in import.exported.lives.iter().zip(&import.groupings) {
        own = incident_of(write, &grouping.fingerprint)?;
        if own.is_none() {
            let opening = Opening {
                id: *incident,
                at: life.captured_at,
                grouping,
                error_type: &import.exported.letter.error_type,
                class: life.class,
            };
            incidents::open(write, &opening)?;
            own = Some(*incident);
        }
    }
    own.ok_or_else(|| StoreError::Corrupt("a letter without a life was to be imported".into()))
}

/// A copy that was out elsewhere is not ours to follow: the letter waits here.
fn status_here(letter: &Letter) -> Status {
    match letter.status {
        Status::Pending | Status::Reprocessing => Status::Pending,
        Status::Resolved | Status::Discarded => letter.status,
    }
}

const ADD_LETTER: &str = "
insert into dead_letter_queue (id, source, event_id, subscriber_id, tenant, type, queue, aggregate, schema_version,
       error_type, error_code, error_message, class, fingerprint, retry_count, max_retries, status, place, life,
       ever_sent, held_at, held_by, hold_reason, resolution_timestamp, resolution_strategy, resolved_by,
       resolution_notes, previous, created_at, updated_at, died_at, retention_at, letter)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23,
        ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33)";

fn add_letter(write: &mut Write, import: &Import, attempts: &[PreparedAttempt]) -> Result<i64, StoreError> {
    let Exported { letter, ever_sent, lives, .. } = &import.exported;
    let fatal = lives.last().map_or(0, |(life, _)| life.fatal);
    let told = import.exported.attempts.iter().map(|told| told.ordinal).zip(attempts);
    let Some((_, fatal)) = told.into_iter().find(|(ordinal, _)| *ordinal == fatal) else {
        return Err(StoreError::Corrupt("a letter without a fatal attempt was to be imported".into()));
    };
    let (hold, resolution) = (letter.hold.as_ref(), letter.resolution.as_ref());
    let row = write.numbers.next_letter();
    write.conn.prepare_cached(ADD_LETTER)?.execute(rusqlite::params![
        letter.id.bytes(),
        letter.source,
        letter.event_id,
        letter.subscriber,
        letter.tenant,
        letter.letter_type,
        letter.queue,
        letter.aggregate,
        letter.schema_version,
        fatal.error_type,
        fatal.error_code,
        fatal.message,
        letter.class.name(),
        import.groupings.last().map(|(grouping, _)| grouping.fingerprint.as_str()),
        letter.retry_count,
        letter.max_retries,
        status_here(letter).name(),
        Place::Live.name(),
        letter.life,
        *ever_sent || letter.status == Status::Reprocessing,
        hold.map(|hold| hold.at.ms()),
        hold.map(|hold| &hold.by),
        hold.map(|hold| &hold.reason),
        resolution.map(|resolution| resolution.at.ms()),
        resolution.map(|resolution| resolution.strategy.name()),
        resolution.map(|resolution| &resolution.by),
        resolution.and_then(|resolution| resolution.notes.as_ref()),
        letter.previous.as_ref().map(LetterId::bytes),
        letter.created_at.ms(),
        letter.updated_at.ms(),
        letter.died_at.ms(),
        letter.retention_at.ms(),
        row,
    ])?;
    let words = indexed_text(&letter.letter_type, &fatal.error_type, &fatal.message);
    write
        .conn
        .prepare_cached("insert into letter_words (rowid, words) values (?1, ?2)")?
        .execute((row, words))?;
    Ok(row)
}

pub(super) fn add_lives(write: &mut Write, packed: &Packed, row: i64) -> Result<(), StoreError> {
    let import = &packed.import;
    let mut add = write.conn.prepare_cached(ADD_LIFE)?;
    let lives = import.exported.lives.iter().zip(&import.groupings).zip(&packed.lives);
    for (((life, envelope), (grouping, _)), PackedLife { headers, body, reported }) in lives {
        add.execute(rusqlite::params![
            row,
            life.life,
            life.captured_at.ms(),
            life.died_at.ms(),
            life.class.name(),
            grouping.fingerprint.as_str(),
            envelope.content_type(),
            headers,
            body,
            envelope.body().len() as i64,
            envelope.sha256(),
            life.fatal,
            life.retry_count,
            life.max_retries,
            life.redrive.as_ref().map(|redrive| redrive.bytes()),
            reported,
            write.numbers.next_life(),
            origin_text(envelope),
            envelope.body_missing(),
        ])?;
    }
    Ok(())
}

/// Counts the letter as if it had been captured and decided here, at the times when that happened.
fn count(write: &mut Write, import: &Import) {
    let letter = &import.exported.letter;
    let mut counted = Counted {
        source: letter.source.clone(),
        queue: letter.queue.clone(),
        letter_type: letter.letter_type.clone(),
        error_type: letter.error_type.clone(),
        class: letter.class.name(),
        fingerprint: String::new(),
        aggregate: letter.aggregate.clone(),
        status: status_here(letter),
    };
    for ((life, _), (grouping, _)) in import.exported.lives.iter().zip(&import.groupings) {
        counted.fingerprint = grouping.fingerprint.as_str().to_owned();
        write.tally.flow(life.captured_at.minute(), Flow::Arrived, &counted);
        write.tally.see(&counted.fingerprint, life.captured_at);
    }
    write.tally.appear(&counted);
    if let Some(resolution) = &letter.resolution {
        write.tally.flow(resolution.at.minute(), Flow::Departed, &counted);
    }
    write.tally.at(import.at);
}
