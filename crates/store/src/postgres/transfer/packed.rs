//! A letter to be imported, packed: that takes long and needs no database.

use lazaret_core::attempt::{Attempt, identities};
use lazaret_core::filter::words::indexed_text;
use lazaret_core::letter::Letter;
use lazaret_core::lifecycle::Status;

use super::super::cell::clean;
use super::super::extract::Extract;
use super::super::retention::restore::Revived;
use crate::StoreError;
use crate::packing::{PreparedAttempt, header_text, pack, pack_attempt};
use crate::transfer::Import;

/// Which columns of a letter are filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Columns {
    All,
    /// Without what is taken out for people who ask the database: PostgreSQL did not take it.
    Bare,
}

pub(in super::super) struct Packed {
    pub(super) import: Import,
    pub(super) attempts: Vec<PreparedAttempt>,
    pub(super) lives: Vec<PackedLife>,
    pub(super) extract: Extract,
    /// Where in the attempts the one is that ended the present life.
    fatal: Option<usize>,
}

pub(super) struct PackedLife {
    pub headers: Option<String>,
    pub body: Vec<u8>,
    pub reported: Option<Vec<u8>>,
}

impl Packed {
    pub fn new(mut import: Import) -> Result<Packed, StoreError> {
        make_clean(&mut import.exported.letter);
        let exported = &import.exported;
        let runs: Vec<Attempt> = exported.attempts.iter().map(|told| told.attempt.clone()).collect();
        let attempts: Vec<PreparedAttempt> = runs
            .iter()
            .zip(identities(&runs))
            .map(|(run, identity)| pack_attempt(run, identity))
            .collect::<Result<_, _>>()?;
        let lives = exported
            .lives
            .iter()
            .map(|(life, envelope)| {
                let reported = life.reported.as_ref().map(|text| pack(text.as_bytes()));
                Ok(PackedLife { headers: header_text(envelope), body: pack(envelope.body()), reported })
            })
            .collect::<Result<_, StoreError>>()?;
        let present = exported.lives.last();
        let fatal = present
            .and_then(|(life, _)| exported.attempts.iter().position(|told| told.ordinal == life.fatal));
        let extract = match present {
            Some((life, envelope)) => {
                let parts = exported.letter.event_parts(envelope, life.reported.as_deref());
                let told: Vec<&Attempt> = runs.iter().collect();
                Extract::of_parts(parts, fatal.map(|at| &runs[at].error), &told)
            }
            None => Extract::default(),
        };
        Ok(Packed { import, attempts, lives, extract, fatal })
    }

    pub fn letter(&self) -> &Letter {
        &self.import.exported.letter
    }

    /// The attempt that ended the present life.
    pub(super) fn fatal(&self) -> Result<&PreparedAttempt, StoreError> {
        self.fatal
            .and_then(|at| self.attempts.get(at))
            .ok_or_else(|| StoreError::Corrupt("a letter without a fatal attempt was to be imported".into()))
    }

    /// The lives of it that are here.
    pub fn lives(&self) -> Vec<u32> {
        self.import.exported.lives.iter().map(|(life, _)| life.life).collect()
    }

    /// What its row holds beside what the archive says of it.
    pub fn revived(&self, columns: Columns) -> Result<Revived<'_>, StoreError> {
        let bare =
            Revived { fingerprint: Some(self.fingerprint()?), words: self.words()?, ..Revived::default() };
        Ok(match columns {
            Columns::Bare => bare,
            Columns::All => Revived {
                original_event: self.extract.original_event.as_deref(),
                error_stack_trace: self.extract.error_stack_trace.as_deref(),
                error_context: self.extract.error_context.as_deref(),
                retry_history: self.extract.retry_history.as_deref(),
                ..bare
            },
        })
    }

    /// The fingerprint of the present life by the rules that hold here.
    pub fn fingerprint(&self) -> Result<&str, StoreError> {
        self.import
            .groupings
            .last()
            .map(|(grouping, _)| grouping.fingerprint.as_str())
            .ok_or_else(|| StoreError::Corrupt("a letter without a life was to be imported".into()))
    }

    /// A copy that was out elsewhere is not ours to follow: the letter waits here.
    pub(super) fn status_here(&self) -> Status {
        match self.letter().status {
            Status::Pending | Status::Reprocessing => Status::Pending,
            status @ (Status::Resolved | Status::Discarded) => status,
        }
    }

    /// The words it is found by.
    pub(super) fn words(&self) -> Result<String, StoreError> {
        let fatal = self.fatal()?;
        Ok(indexed_text(&self.letter().letter_type, &fatal.error_type, &fatal.message))
    }
}

/// Makes the texts of a letter fit for their columns. Those of ours are, but anyone can write a file.
fn make_clean(letter: &mut Letter) {
    let texts = [&mut letter.source, &mut letter.event_id, &mut letter.letter_type, &mut letter.queue];
    let hold = letter.hold.iter_mut().flat_map(|hold| [&mut hold.by, &mut hold.reason]);
    let named =
        [&mut letter.subscriber, &mut letter.tenant, &mut letter.aggregate, &mut letter.schema_version];
    let resolution =
        letter.resolution.iter_mut().flat_map(|one| std::iter::once(&mut one.by).chain(&mut one.notes));
    for text in texts.into_iter().chain(named.into_iter().flatten()).chain(hold).chain(resolution) {
        if text.contains('\0') {
            *text = clean(text).into_owned();
        }
    }
}
