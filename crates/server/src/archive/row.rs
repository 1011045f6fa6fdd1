//! A row of a file of the archive: one letter with everything that is kept of it.

use std::hash::{Hash, Hasher};

use lazaret_core::time::Time;
use lazaret_store::archive::{Entry, ShelvedRow, WaitingLetter};
use lazaret_store::transfer::Exported;
use sha2::{Digest, Sha256};

/// A letter as it stands in a file.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Row {
    /// Which archiving of the letter it is.
    pub entry: Entry,
    /// As it was when it went, in its place in the archive. Its lives are those that were not in a file before.
    pub exported: Exported,
    pub removed_at: Time,
    pub removed_by: String,
    pub reason: String,
}

impl Row {
    pub(super) fn of(waiting: WaitingLetter) -> Row {
        let WaitingLetter { archived, mut exported } = waiting;
        exported.letter.place = archived.letter.place;
        exported.letter.hold = archived.letter.hold;
        Row {
            entry: archived.entry,
            exported,
            removed_at: archived.removed_at,
            removed_by: archived.removed_by,
            reason: archived.reason,
        }
    }

    /// The first and the last life that stand in this row.
    pub(super) fn lives(&self) -> (u32, u32) {
        let lives = &self.exported.lives;
        let first = lives.first().map_or(self.exported.letter.life, |(life, _)| life.life);
        let last = lives.last().map_or(self.exported.letter.life, |(life, _)| life.life);
        (first, last)
    }

    /// Bytes of its originals.
    pub(super) fn body_bytes(&self) -> u64 {
        self.exported.lives.iter().map(|(_, envelope)| envelope.body().len() as u64).sum()
    }

    /// About how many bytes it takes in a file, unpacked.
    pub(super) fn size(&self) -> usize {
        let attempts = self.exported.attempts.iter().map(|it| {
            let error = &it.attempt.error;
            error.message.len() + error.backtrace.as_ref().map_or(0, String::len)
        });
        self.exported.lives.iter().map(|(_, envelope)| envelope.body().len()).sum::<usize>()
            + attempts.sum::<usize>()
    }

    /// What the store is told of it.
    pub(super) fn shelved(&self, row: u64) -> ShelvedRow {
        let (first_life, last_life) = self.lives();
        ShelvedRow { letter: self.exported.letter.id, entry: self.entry, row, first_life, last_life }
    }

    /// A hash over everything in it, to compare what was read with what was written. Only within one process: how values
    /// are hashed is nobody's promise.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256Hasher(Sha256::new());
        self.hash(&mut hasher);
        hasher.0.finalize().into()
    }
}

struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks for the short hash.
    fn finish(&self) -> u64 {
        0
    }
}
