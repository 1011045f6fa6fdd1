//! Bringing archived letters back, in the state they had. A letter may go from the store into a file while it is looked at:
//! then it is looked for again.

use std::collections::BTreeMap;
use std::sync::Arc;

use lazaret_core::attempt::LetterError;
use lazaret_core::fingerprint::{FingerprintRules, Subject, group};
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::lifecycle::Place;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::StoreError;
use lazaret_store::archive::Archived;
use lazaret_store::decision::{Decided, Decision};
use lazaret_store::entropy::Entropy;
use lazaret_store::transfer::{Exported, Import};

use super::ArchiveError;
use super::read::{Opened, Read, blocking, by_file, spoil};
use super::row::Row;
use crate::app::App;
use crate::kill;

/// Brings one letter back from wherever it is.
pub async fn restore(app: &App, letter: LetterId, decision: Decision) -> Result<Decided, ArchiveError> {
    let mut answer = Decided::Unknown;
    for _ in 0..limits::ARCHIVE_LOOKS_MAX {
        let found = app.store.archived_letter(letter).await?;
        answer = match &found {
            Some(archived) if archived.file.is_some() => {
                restore_from(app, &mut Opened::default(), &[archived], &decision)
                    .await?
                    .pop()
                    .map_or_else(|| Ok(Decided::Unknown), |(_, restored)| restored)?
            }
            // One that nobody archived is refused by the store, with the reason.
            Some(_) | None => app.store.decide(letter, decision.clone()).await?,
        };
        let moved = |now: Option<Archived>| {
            let place = |of: &Option<Archived>| of.as_ref().map(|it| (it.entry, it.file.clone()));
            place(&now) != place(&found)
        };
        if answer == Decided::Done || !moved(app.store.archived_letter(letter).await?) {
            return Ok(answer);
        }
    }
    Ok(answer)
}

/// Brings letters back that an index tells of, each file read once. A file that is missing or damaged keeps its own letters
/// only.
pub async fn restore_many(
    app: &App,
    letters: Vec<Archived>,
    decision: Decision,
) -> Result<Read<Decided>, ArchiveError> {
    let mut opened = Opened::default();
    let mut done: BTreeMap<LetterId, Result<Decided, ArchiveError>> = BTreeMap::new();
    for wanted in by_file(&letters).into_values() {
        for chunk in wanted.chunks(limits::ARCHIVE_LETTERS_PER_READ) {
            match restore_from(app, &mut opened, chunk, &decision).await {
                Ok(restored) => done.extend(restored),
                Err(error) => spoil(&mut done, chunk, error)?,
            }
        }
    }
    for archived in &letters {
        let letter = archived.letter.id;
        // What waited when the index was asked, and what moved since.
        let again = match done.get(&letter) {
            None => true,
            Some(Ok(Decided::Done)) | Some(Err(_)) => false,
            Some(Ok(_)) => true,
        };
        if again {
            match restore(app, letter, decision.clone()).await {
                Err(ArchiveError::Store(error)) => return Err(error.into()),
                answer => done.insert(letter, answer),
            };
        }
    }
    let in_order = letters.iter().map(|archived| archived.letter.id);
    Ok(in_order.filter_map(|id| done.remove(&id).map(|answer| (id, answer))).collect())
}

/// Brings letters of one file back, one commit for each.
async fn restore_from(
    app: &App,
    opened: &mut Opened,
    wanted: &[&Archived],
    decision: &Decision,
) -> Result<Read<Decided>, ArchiveError> {
    let Some(file) = wanted.iter().find_map(|archived| archived.file.as_ref()).map(|at| at.file) else {
        return Ok(Vec::new());
    };
    let rows = opened.rows(app, file, wanted).await?;
    let (groups, entropy, at) = (app.groups(), Arc::clone(&app.entropy), decision.at);
    let prepared = blocking(move || {
        let mut prepared = Vec::with_capacity(rows.len());
        for (letter, row) in rows {
            let row = match row {
                Ok(Row { entry, exported, .. }) => Ok((entry, import(exported, &groups, &entropy, at)?)),
                Err(error) => Err(error),
            };
            prepared.push((letter, row));
        }
        Ok::<_, StoreError>(prepared)
    });
    let mut done = Vec::new();
    for (letter, row) in prepared.await?? {
        let answer = match row {
            Ok((entry, import)) => {
                kill::reach(app, "restore_read");
                let decided = app.store.restore_from_file(import, entry, decision.clone()).await?;
                kill::reach(app, "restore_done");
                Ok(decided)
            }
            Err(error) => Err(error),
        };
        done.push((letter, answer));
    }
    Ok(done)
}

/// What the store takes in: the letter as it was, grouped by the rules of today.
fn import(
    mut exported: Exported,
    groups: &FingerprintRules,
    entropy: &Entropy,
    at: Time,
) -> Result<Import, StoreError> {
    let mut groupings = Vec::with_capacity(exported.lives.len());
    for (life, _) in &mut exported.lives {
        let letter = &exported.letter;
        let fatal = exported.attempts.iter().find(|attempt| attempt.ordinal == life.fatal);
        // The attempt that ended a life may stand with an earlier one, in another file: then there is what lists show.
        let listed = LetterError {
            error_type: letter.error_type.clone(),
            code: letter.error_code.clone(),
            message: letter.error_message.clone(),
            ..LetterError::default()
        };
        let subject = Subject {
            source: &letter.source,
            queue: &letter.queue,
            letter_type: &letter.letter_type,
            tenant: letter.tenant.as_deref(),
            error: fatal.map_or(&listed, |attempt| &attempt.attempt.error),
        };
        let grouping = group(subject, groups);
        life.fingerprint = grouping.fingerprint.clone();
        groupings.push((grouping, IncidentId::mint(at, entropy.take()?)));
    }
    exported.letter.place = Place::Live;
    if let Some((grouping, incident)) = groupings.last() {
        exported.letter.fingerprint = grouping.fingerprint.clone();
        exported.letter.incident = *incident;
    }
    Ok(Import { exported, groupings, at })
}
