//! A server with an archive in a folder of its own, and letters that go there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lazaret_core::duration::Length;
use lazaret_core::id::LetterId;
use lazaret_core::lifecycle::Place;
use lazaret_core::retention::{Limit, PruningPolicy};
use lazaret_server::app::App;
use lazaret_server::archive;
use lazaret_server::config::{ArchiveUrl, Config};
use lazaret_server::operations::Progress;
use lazaret_store::archive::{ArchiveFile, ArchiveQuery, Archived};
use lazaret_store::audit::Actor;
use lazaret_store::decision::{Decided, Decision, Verb};
use lazaret_store::retention::{PruneBatch, PruneLetter};
use lazaret_store::sqlite::Mode;
use lazaret_store::transfer::Exported;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::rig::TestApp;

pub const DAY_MS: i64 = 86_400_000;

pub struct Rig {
    pub test: TestApp,
    pub app: Arc<App>,
    pub folder: TempDir,
}

impl Rig {
    /// Files are written as soon as so many letters wait.
    pub async fn new(file_letters: u64) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.archive.url = Some(ArchiveUrl::Folder(folder.path().join("archive")));
        config.archive.file_letters = file_letters;
        let test = TestApp::with(config, Mode::Real).await;
        Rig { app: Arc::clone(&test.app), test, folder }
    }

    /// Reports a letter with everything that a report can have.
    pub async fn letter(&self, event: &str) -> LetterId {
        self.dies(event, "first").await
    }

    pub async fn dies(&self, event: &str, word: &str) -> LetterId {
        self.test.pass(1_000);
        let at = self.app.clock.now().to_string();
        let entry = json!({
            "eventId": event,
            "subscriberId": "billing",
            "retryCount": 3,
            "originalEvent": {
                "pattern": "order.created", "version": "2", "n": 12345678901234567890_u64, "word": word,
                "text": "ünï\u{1f4ec}\u{0}", "metadata": {"tenantId": "acme"},
            },
            "error": {"type": "Timeout", "code": "504", "message": format!("no answer to {event}"),
                      "stack": "at a\nat b"},
            "retryHistory": [
                {"attempt": 1, "timestamp": "2026-11-14T00:00:00Z", "error": {"message": "refused"}},
                {"attempt": 2, "timestamp": at, "error": {"type": "Timeout", "message": word}},
            ],
            "unknownField": {"kept": [1, 2.50]},
        });
        LetterId::parse(&self.test.report(&entry).await).unwrap()
    }

    pub async fn decide(&self, letter: LetterId, verb: &str) {
        let path = format!("/api/v1/dead-letters/{letter}/{verb}");
        self.test.post(&path, &json!({"reason": "because"})).await.expect(200);
    }

    pub async fn exported(&self, letter: LetterId) -> Exported {
        self.app.store.export(vec![letter]).await.unwrap().pop().expect("the letter is live")
    }

    /// Pushes letters out into the archive, as a limit does.
    pub async fn archive(&self, letters: &[LetterId]) {
        for letter in letters {
            let found = self.app.store.history(*letter).await.unwrap().unwrap().letter;
            let gone = PruneLetter {
                letter: *letter,
                retention_at: found.retention_at,
                policy: PruningPolicy::Archive,
                min_age: Length::from_ms(90 * DAY_MS),
            };
            let batch = PruneBatch {
                letters: vec![gone],
                status: found.status,
                limit: Limit::MaxAge,
                at: self.app.clock.now(),
            };
            let pruned = self.app.store.prune(batch).await.unwrap();
            assert_eq!(pruned.queues.iter().map(|queue| queue.archived).sum::<u64>(), 1, "{pruned:?}");
        }
    }

    /// Works until there is nothing to do; gives the files that there are.
    pub async fn settle(&self) -> Vec<ArchiveFile> {
        while archive::tick(&self.app).await.unwrap() == Progress::More {}
        self.app.store.files(None, 100).await.unwrap()
    }

    pub async fn archived(&self, letter: LetterId) -> Archived {
        self.app.store.archived_letter(letter).await.unwrap().expect("the letter is archived")
    }

    pub async fn all_archived(&self) -> Vec<Archived> {
        self.app.store.archived(self.query("", 100)).await.unwrap().letters
    }

    pub fn query(&self, filter: &str, limit: usize) -> ArchiveQuery {
        let filter = lazaret_core::filter::Filter::from_text(filter).unwrap();
        ArchiveQuery { filter, place: None, now: self.app.clock.now(), before: None, limit }
    }

    pub fn path(&self, file: &ArchiveFile) -> PathBuf {
        self.folder.path().join("archive").join(&file.path)
    }

    pub fn wish(&self) -> Decision {
        Decision {
            verb: Verb::Restore,
            actor: Actor { name: "tester".into(), role: "admin".into(), request: None },
            reason: Some("needed".into()),
            at: self.app.clock.now(),
            from: None,
            floor_ms: None,
        }
    }

    pub async fn restore(&self, letter: LetterId) -> Result<Decided, archive::ArchiveError> {
        archive::restore(&self.app, letter, self.wish()).await
    }

    /// Where a letter is, whatever anything else says: in exactly one place.
    pub async fn place(&self, letter: LetterId) -> &'static str {
        let live = self.app.store.history(letter).await.unwrap().is_some();
        let archived = self.app.store.archived_letter(letter).await.unwrap();
        let waiting = self.app.store.waiting_letter(letter).await.unwrap().is_some();
        match (live, archived.map(|archived| archived.file.is_some()), waiting) {
            (true, None, false) => "live",
            (false, Some(false), true) => "waiting",
            (false, Some(true), false) => "file",
            found => panic!("letter {letter}: live, in a file, waiting: {found:?}"),
        }
    }
}

/// What stays the same on the way through the archive: all but where it is, since when, and how it is grouped.
pub fn essence(mut exported: Exported) -> Exported {
    let letter = &mut exported.letter;
    letter.place = Place::Live;
    letter.retention_at = letter.created_at;
    letter.updated_at = letter.created_at;
    exported.decisions.retain(|decision| decision.action != "restore");
    exported
}

pub fn cut(path: &Path, bytes: usize) {
    let whole = std::fs::read(path).unwrap();
    std::fs::write(path, &whole[..bytes]).unwrap();
}

pub fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The fields of a row as another reader sees them.
pub fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name}: {row}"))
}
