//! Files of the archive as tests have them: kept in memory, but opened, verified and put on record in the order of real
//! ones. And short ways to say what goes into the archive and comes back.

use std::collections::BTreeMap;

use lazaret_core::duration::Length;
use lazaret_core::filter::Filter;
use lazaret_core::id::{FileId, LetterId};
use lazaret_core::letter::{Captured, Outcome};
use lazaret_core::lifecycle::{Action, Place, Refused, Standing, Status};
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_core::time::Time;
use lazaret_store::archive::{ArchiveQuery, Archived, FileRow, ShelvedRow, WaitingLetter, WrittenFile};
use lazaret_store::claim::ClaimStep;
use lazaret_store::decision::{Decided, Verb};
use lazaret_store::retention::{Prunable, PrunableQuery, PruneBatch, PruneLetter, Pruned, PrunedQueue};
use lazaret_store::transfer::Exported;

use crate::rig::{Rig, at, decision, dying, envelope, error, failed, mark};
use crate::transfer::import;

/// All files that were written, by what they hold in each row.
#[derive(Default)]
pub struct Shelf {
    files: BTreeMap<FileId, Vec<WaitingLetter>>,
}

impl Shelf {
    /// Writes letters that wait, the first of them at most, into a file that is verified and not put on record yet.
    pub async fn write(&mut self, rig: &Rig, most: usize, at: Time) -> FileId {
        let id = FileId::mint(at, rig.mint());
        rig.store().open_file(id, format!("{id}.parquet"), at).await.unwrap();
        let mut letters: Vec<WaitingLetter> = Vec::new();
        while letters.len() < most {
            let after = letters.last().map(|last| last.archived.entry);
            let next = rig.store().waiting_letters(after, most - letters.len()).await.unwrap();
            if next.is_empty() {
                break;
            }
            letters.extend(next);
        }
        let died = || letters.iter().map(|letter| letter.archived.letter.died_at);
        let file = WrittenFile {
            letters: letters.len() as u64,
            bytes: 7,
            sha256: [7; 32],
            first_died_at: died().min(),
            last_died_at: died().max(),
        };
        rig.store().file_written(id, file, at).await.unwrap();
        self.files.insert(id, letters);
        id
    }

    /// The rows of a file as they are put on record.
    pub fn rows(&self, file: FileId) -> Vec<ShelvedRow> {
        let letters = self.files[&file].iter();
        letters
            .zip(0..)
            .map(|(letter, row)| {
                let lives = &letter.exported.lives;
                ShelvedRow {
                    letter: letter.archived.letter.id,
                    entry: letter.archived.entry,
                    row,
                    first_life: lives.first().unwrap().0.life,
                    last_life: lives.last().unwrap().0.life,
                }
            })
            .collect()
    }

    /// Puts a file on record; says how many letters left the store with it.
    pub async fn keep(&self, rig: &Rig, file: FileId) -> u64 {
        let shelved = rig.store().shelve(file, self.rows(file)).await.unwrap();
        rig.store().file_kept(file).await.unwrap();
        shelved
    }

    /// Everything that waits leaves the store for a file.
    pub async fn file(&mut self, rig: &Rig, at: Time) -> FileId {
        let file = self.write(rig, usize::MAX, at).await;
        self.keep(rig, file).await;
        file
    }

    pub fn read(&self, row: &FileRow) -> Exported {
        self.files[&row.file][row.row as usize].exported.clone()
    }

    /// Brings a letter back from wherever it is.
    pub async fn restore(&self, rig: &Rig, letter: LetterId, at: Time) -> Decided {
        let found = rig.store().archived_letter(letter).await.unwrap();
        match found.as_ref().and_then(|archived| archived.file.as_ref().map(|row| (archived.entry, row))) {
            Some((entry, row)) => {
                let read = import(rig, self.read(row));
                rig.store().restore_from_file(read, entry, decision(Verb::Restore, at)).await.unwrap()
            }
            None => rig.decide(letter, Verb::Restore, at).await,
        }
    }
}

/// What the archive holds in a place, the last removed first.
pub async fn archived(rig: &Rig, place: Place) -> Vec<Archived> {
    find(rig, "", Some(place)).await
}

/// What a filter in its text form finds in the archive, page by page.
pub async fn find(rig: &Rig, filter: &str, place: Option<Place>) -> Vec<Archived> {
    let mut all: Vec<Archived> = Vec::new();
    let mut before = None;
    loop {
        let filter = Filter::from_text(filter).unwrap();
        let query = ArchiveQuery { filter, place, now: at(1_000_000), before, limit: 3 };
        let page = rig.store().archived(query).await.unwrap();
        all.extend(page.letters);
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

/// A limit that pushes letters out.
#[derive(Clone, Copy)]
pub struct Push {
    pub status: Status,
    pub limit: Limit,
    pub policy: PruningPolicy,
    pub min_age_ms: i64,
}

/// Letters that wait, beyond a floor that is not there, into the archive.
pub const ARCHIVE: Push =
    Push { status: Status::Pending, limit: Limit::MaxAge, policy: PruningPolicy::Archive, min_age_ms: 0 };

/// The same for good.
pub const DELETE: Push = Push { policy: PruningPolicy::Delete, ..ARCHIVE };

/// All letters of a status that may go, in the order of going.
pub async fn prunable(rig: &Rig, status: Status, until: Time) -> Vec<Prunable> {
    let mut queues: Vec<(String, String)> = Vec::new();
    for standing in rig.store().queue_standings().await.unwrap() {
        if standing.status == status {
            queues.push((standing.source, standing.queue));
        }
    }
    let mut all: Vec<Prunable> = Vec::new();
    loop {
        let after = all.last().map(|last| last.key);
        let query = PrunableQuery { queues: queues.clone(), status, until, after, planned: None, limit: 3 };
        let page = rig.store().prunable(query).await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

pub fn batch(letters: &[Prunable], push: Push, at: Time) -> PruneBatch {
    let letters = letters.iter().map(|letter| PruneLetter {
        letter: letter.key.letter,
        retention_at: letter.key.retention_at,
        policy: push.policy,
        min_age: Length::from_ms(push.min_age_ms),
    });
    PruneBatch { letters: letters.collect(), status: push.status, limit: push.limit, at }
}

/// Takes all of a batch away, in as many commits as it takes; adds up what went.
pub async fn take(rig: &Rig, mut batch: PruneBatch) -> Vec<PrunedQueue> {
    let mut sums: BTreeMap<(String, String), PrunedQueue> = BTreeMap::new();
    while !batch.letters.is_empty() {
        let Pruned { queues, looked_at } = rig.store().prune(batch.clone()).await.unwrap();
        assert!(looked_at > 0, "each commit gets somewhere");
        batch.letters.drain(..looked_at);
        for queue in queues {
            let key = (queue.source.clone(), queue.queue.clone());
            match sums.get_mut(&key) {
                Some(sum) => {
                    sum.archived += queue.archived;
                    sum.deleted += queue.deleted;
                }
                None => {
                    sums.insert(key, queue);
                }
            }
        }
    }
    sums.into_values().collect()
}

/// Pushes out every letter of a status whose retention began by then.
pub async fn push_out(rig: &Rig, push: Push, until: Time, at: Time) -> Vec<PrunedQueue> {
    let letters = prunable(rig, push.status, until).await;
    take(rig, batch(&letters, push, at)).await
}

/// Archives one letter, whatever its status.
pub async fn archive(rig: &Rig, id: LetterId, at: Time) {
    let letter = rig.letter(id).await;
    let push = Push { status: letter.status, ..ARCHIVE };
    let letters: Vec<Prunable> =
        prunable(rig, letter.status, at).await.into_iter().filter(|may| may.key.letter == id).collect();
    let gone = take(rig, batch(&letters, push, at)).await;
    assert_eq!(gone.iter().map(|queue| (queue.archived, queue.deleted)).collect::<Vec<_>>(), [(1, 0)]);
}

/// Where an archived letter is kept.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kept {
    Waiting,
    InFile,
}

pub const EITHER: [Kept; 2] = [Kept::Waiting, Kept::InFile];

/// A letter with two lives, several attempts and a body of its own, of which a copy was out.
pub async fn lived(rig: &Rig) -> LetterId {
    let first = Captured {
        attempts: vec![failed(at(-3_000), "reset"), failed(at(-1_000), "connection refused")],
        envelope: envelope(&[0, 255, 10, 0]),
        reported: Some(r#"{"status":"x"}"#.into()),
        aggregate: Some("order-7".into()),
        ..dying("lived", at(-1_000))
    };
    let id = rig.create(first, at(0)).await;
    rig.send(id, ClaimStep::Sent, at(100)).await;
    let again = Captured {
        envelope: envelope(br#"{"kind":"quince"}"#),
        error: error("disk on fire"),
        aggregate: Some("order-7".into()),
        mark: mark(id, 1, rig.run_id()),
        ..dying("lived", at(500))
    };
    assert_eq!(rig.capture(again, at(600)).await.outcome, Outcome::Relapse);
    id
}

pub async fn put_away(rig: &Rig, shelf: &mut Shelf, id: LetterId, kept: Kept, ms: i64) {
    archive(rig, id, at(ms)).await;
    if kept == Kept::InFile {
        shelf.file(rig, at(ms)).await;
    }
}

pub async fn one(rig: &Rig, id: LetterId) -> Archived {
    rig.store().archived_letter(id).await.unwrap().expect("the archive knows it")
}

pub fn standing(status: Status, place: Place) -> Standing {
    Standing { status, place, held: false, content_kept: true }
}

pub fn refused(action: Action, standing: Standing) -> Decided {
    Decided::Refused(Refused { action, standing })
}

pub fn rows_of(dump: &str, table: &str) -> usize {
    let rows = dump.lines().skip_while(|line| *line != table).skip(1);
    rows.take_while(|line| line.starts_with(' ')).count()
}
