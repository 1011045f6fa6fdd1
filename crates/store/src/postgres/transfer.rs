//! Letters whole, out of this store and into it.

mod packed;
mod standing;
mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::time::Time;

use super::audit::{self, NewEntry};
use super::cell::{At, Cells, Uid};
use super::conn::Conn;
use super::counters::{Counted, Flow};
use super::decisions;
use super::events::{self, NewEvent};
use super::failure::{Kind, kind_of};
use super::holds::standing::{Arrived, catch};
use super::incidents::Opening;
use super::insert::{NewAttempt, add_attempts, find_or_open};
use super::jobs::follow::follow;
use super::letters;
use super::writer::Write;
use super::{PostgresStore, off_thread};
use crate::StoreError;
use crate::audit::Actor;
use crate::engine::holds::add_imported;
use crate::job::SOURCE;
use crate::transfer::{Exported, Import, Imported};

pub(super) use packed::{Columns, Packed};

/// Asked within a snapshot. Letters are asked for at once: nobody waits for the answer to the one before.
pub(super) async fn export(conn: &Conn, ids: &[LetterId]) -> Result<Vec<Exported>, StoreError> {
    let found = try_join_all(ids.iter().map(|id| export_one(conn, *id))).await?;
    Ok(found.into_iter().flatten().collect())
}

const KEPT: &str = "
select k.key, l.ever_sent or l.sent_at is not null
  from dead_letter_queue l
  join letter_keys k on k.id = l.id
 where l.id = $1
   and l.created_at = $2";

async fn export_one(conn: &Conn, id: LetterId) -> Result<Option<Exported>, StoreError> {
    let Some(history) = letters::history(conn, id).await? else { return Ok(None) };
    let kept = conn.query_one(KEPT, &[&Uid(*id.bytes()), &At(id.at())]).await?;
    let originals = history.lives.iter().map(|life| letters::original(conn, id, Some(life.life)));
    let mut lives = Vec::with_capacity(history.lives.len());
    for (original, life) in try_join_all(originals).await?.into_iter().zip(history.lives) {
        let Some(original) = original else {
            return Err(StoreError::Corrupt(format!("life {} of letter {id} has no body", life.life)));
        };
        lives.push((life, original.envelope));
    }
    Ok(Some(Exported {
        letter: history.letter,
        key: CaptureKey(kept.bytes(0)?),
        ever_sent: kept.cell(1)?,
        lives,
        attempts: history.attempts,
        decisions: history.decisions,
    }))
}

/// Puts letters in that come from elsewhere.
pub(super) async fn bring_in(
    store: &PostgresStore,
    letters: Vec<Import>,
    by: Actor,
    at: Time,
) -> Result<Vec<Imported>, StoreError> {
    let packed = off_thread(|| letters.into_iter().map(Packed::new).collect()).await?;
    let asked = Arc::new((packed, by, at));
    match try_in(store, &asked, Columns::All).await {
        Err(error) if kind_of(&error) == Kind::Value => try_in(store, &asked, Columns::Bare).await,
        // An empty month was taken away just now: it is made again.
        Err(error) if kind_of(&error) == Kind::NoMonth => try_in(store, &asked, Columns::All).await,
        result => result,
    }
}

/// Packed letters, who brings them in, and when.
type Brought = Arc<(Vec<Packed>, Actor, Time)>;

async fn try_in(
    store: &PostgresStore,
    asked: &Brought,
    columns: Columns,
) -> Result<Vec<Imported>, StoreError> {
    let letters = &asked.0;
    store.months.ensure(&store.lanes, letters.iter().map(|packed| packed.letter().id.at())).await?;
    let input = (Arc::clone(asked), columns);
    // Nobody joins its commit: each takes its keys in order, but two after each other do not.
    let weight = limits::COMMIT_LETTERS_MAX;
    // Somebody may enqueue a job of the same id now, and there is no row yet that either could hold the other up by.
    let imported = if letters.iter().any(|packed| standing::job_of(packed).is_some()) {
        store
            .writer
            .write_alone(weight, input, |write, (asked, columns)| {
                Box::pin(import(write, &asked.0, *columns, &asked.1, asked.2))
            })
            .await
    } else {
        store
            .writer
            .write_long(weight, input, |write, (asked, columns)| {
                Box::pin(import(write, &asked.0, *columns, &asked.1, asked.2))
            })
            .await
    };
    store.months.after(imported)
}

/// Puts letters in as they were; one entry in the audit log stands for all of them.
async fn import(
    write: &mut Write,
    letters: &[Packed],
    columns: Columns,
    by: &Actor,
    at: Time,
) -> Result<Vec<Imported>, StoreError> {
    let outcomes = standing::take_keys(write, letters).await?;
    let created: Vec<&Packed> = letters
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| **outcome == Imported::Created)
        .map(|(packed, _)| packed)
        .collect();
    if created.is_empty() {
        return Ok(outcomes);
    }
    put_in(write, &created, columns, by).await?;
    let entry = NewEntry { count: created.len() as u64, ..NewEntry::new(by, "import", at) };
    audit::add(write, &entry)?;
    Ok(outcomes)
}

/// Stores letters whose keys are taken, each kind of row by one statement.
async fn put_in(
    write: &mut Write,
    created: &[&Packed],
    columns: Columns,
    by: &Actor,
) -> Result<(), StoreError> {
    let mut incidents = find_or_open(write, openings(created)).await?;
    stored::add_letters(write, created, columns).await?;
    let held: Vec<_> = created
        .iter()
        .filter_map(|packed| Some((packed.letter().id, packed.letter().hold.as_ref()?)))
        .collect();
    add_imported(write, &held).await?;
    stored::add_lives(write, created).await?;
    let attempts: Vec<NewAttempt<'_>> = created.iter().flat_map(|packed| attempts(packed)).collect();
    add_attempts(&write.conn, &attempts).await?;
    let past: Vec<_> = created
        .iter()
        .map(|packed| (packed.letter().id, packed.import.exported.decisions.as_slice()))
        .collect();
    decisions::add_past(write, &past).await?;
    let mut arrived = Vec::with_capacity(created.len());
    for packed in created {
        let mut incident = None;
        for (grouping, _) in &packed.import.groupings {
            incident = Some(incidents.tell_of(write, grouping.fingerprint.as_str())?);
        }
        count(write, packed)?;
        let event = NewEvent {
            at: packed.import.at,
            kind: events::IMPORTED,
            letter: Some(packed.letter().id),
            incident,
            actor: Some(&by.name),
            ..NewEvent::default()
        };
        events::add(write, &event)?;
        match packed.status_here() {
            Status::Pending if packed.letter().source == SOURCE => {
                follow(write, packed.letter().id, packed.import.at).await?;
            }
            Status::Pending | Status::Reprocessing | Status::Resolved | Status::Discarded => {}
        }
        arrived.extend(incident.map(|incident| (*packed, incident)));
    }
    let arrived = arrived.iter().filter_map(|(packed, incident)| arrived_here(packed, *incident));
    catch(write, arrived).await
}

/// A letter as it stands here, for the standing holds.
fn arrived_here(packed: &Packed, incident: IncidentId) -> Option<Arrived<'_>> {
    let (_, envelope) = packed.import.exported.lives.last()?;
    let letter = Letter { incident, status: packed.status_here(), ..packed.letter().clone() };
    Some(Arrived { letter, envelope, at: packed.import.at })
}

/// Stores the lives and attempts of a letter that comes out of a file of the archive, and whose row stands already.
pub(super) async fn bring_lives(write: &mut Write, packed: &Packed) -> Result<(), StoreError> {
    let letters = [packed];
    let mut incidents = find_or_open(write, openings(&letters)).await?;
    stored::add_lives(write, &letters).await?;
    let attempts: Vec<NewAttempt<'_>> = attempts(packed).collect();
    add_attempts(&write.conn, &attempts).await?;
    for (grouping, _) in &packed.import.groupings {
        incidents.tell_of(write, grouping.fingerprint.as_str())?;
    }
    Ok(())
}

/// What is opened if nobody has: an incident for each life, by the first life that has its fingerprint.
fn openings<'a>(created: &[&'a Packed]) -> BTreeMap<&'a str, Opening<'a>> {
    let mut openings = BTreeMap::new();
    for packed in created {
        let import = &packed.import;
        for ((life, _), (grouping, incident)) in import.exported.lives.iter().zip(&import.groupings) {
            openings.entry(grouping.fingerprint.as_str()).or_insert(Opening {
                id: *incident,
                at: life.captured_at,
                grouping,
                error_type: &import.exported.letter.error_type,
                class: life.class,
            });
        }
    }
    openings
}

fn attempts(packed: &Packed) -> impl Iterator<Item = NewAttempt<'_>> {
    let letter = packed.letter().id;
    packed.import.exported.attempts.iter().zip(&packed.attempts).map(move |(told, attempt)| NewAttempt {
        letter,
        ordinal: told.ordinal,
        life: told.life,
        attempt,
    })
}

/// Counts the letter as if it had been captured and decided here, at the times when that happened.
fn count(write: &mut Write, packed: &Packed) -> Result<(), StoreError> {
    let (import, letter) = (&packed.import, packed.letter());
    let mut counted = Counted {
        source: letter.source.clone(),
        queue: letter.queue.clone(),
        letter_type: letter.letter_type.clone(),
        error_type: packed.fatal()?.error_type.clone(),
        class: letter.class.name(),
        fingerprint: String::new(),
        aggregate: letter.aggregate.clone(),
        status: packed.status_here(),
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
    Ok(())
}
