//! Copies one store into another: tokens, letters whole, then queues and jobs. What is there already is left as it is,
//! so that a copy that was broken off goes on when it is begun again.
//!
//! Not copied: events, the audit log, incidents (the other store opens its own), the archive, holds, operations, workers, what
//! replay rules have done, lines over time, and who is signed in. What says how a letter came to be where it is goes along with it.

use std::collections::{HashMap, HashSet};

use futures_util::future::try_join_all;
use lazaret_core::cursor::{LastKey, Sort};
use lazaret_core::filter::Filter;
use lazaret_core::fingerprint::{self, FingerprintRules, Subject};
use lazaret_core::id::{IncidentId, JobId, LetterId};
use lazaret_core::job::Job;
use lazaret_core::limits;
use lazaret_core::time::Time;
use lazaret_store::audit::Actor;
use lazaret_store::entropy::Entropy;
use lazaret_store::job::JobQuery;
use lazaret_store::page::PageQuery;
use lazaret_store::stats::{LedgerBy, StatsOf};
use lazaret_store::transfer::{Exported, Import, Imported};
use lazaret_store::{Store, StoreError};
use sha2::{Digest, Sha256};

use crate::access::Role;
use crate::api::transfer::letter::{self, Door, NotTaken};
use crate::clock::Clock;

/// What is copied, and by which rules letters are grouped where they arrive.
#[derive(Clone, Copy, Debug)]
pub struct Copy<'a> {
    pub from: &'a dyn Store,
    pub to: &'a dyn Store,
    pub groups: &'a FingerprintRules,
}

/// How far it has come, for whoever watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Copying { letters: u64 },
    Verifying { letters: u64 },
    Jobs { jobs: u64 },
}

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    pub tokens: u64,
    pub letters: u64,
    /// Letters that were there already, as far along or further.
    pub letters_known: u64,
    /// Letters that could not be put in, with the reason; only the first are kept.
    pub troubles: Vec<(LetterId, String)>,
    pub troubled: u64,
    pub jobs: u64,
    pub jobs_known: u64,
    /// Jobs that were not put in because their letters stand for them.
    pub jobs_in_letters: u64,
    pub queues_paused: u64,
    /// Letters that were compared by the hash of all that is kept of them.
    pub verified: u64,
}

/// Troubles that are told one by one: who has more looks at the first.
const TROUBLES_TOLD_MAX: usize = 20;

/// Jobs that are read and put in at once.
const JOBS_PER_WRITE: usize = 100;

/// Why a copy ended early.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the store that is copied cannot be read")]
    From(#[source] StoreError),
    #[error("the store that is copied into does not take it")]
    To(#[source] StoreError),
    #[error("{0} letters differ after the copy, the first is {1}")]
    Differs(u64, LetterId),
    #[error("{expected} letters were to be there after the copy, and there are {found}")]
    Missing { expected: u64, found: u64 },
    #[error("the books of the store that was copied into do not agree after the copy")]
    Books,
}

impl Copy<'_> {
    /// How many letters there are to copy.
    pub async fn letters(&self) -> Result<u64, CopyError> {
        Ok(self.from.stats(StatsOf::All).await.map_err(CopyError::From)?.total)
    }

    /// Copies everything, then reads it again on both sides.
    pub async fn run(&self, tell: &mut (dyn FnMut(Step) + Send)) -> Result<Copied, CopyError> {
        let mut copied = Copied { tokens: self.tokens().await?, ..Copied::default() };
        let entropy = Entropy::default();
        let mut troubled = HashSet::new();
        let mut page = Pages::default();
        while let Some(ids) = page.next(self.from).await.map_err(CopyError::From)? {
            for ids in ids.chunks(limits::EXPORT_LETTERS_PER_READ) {
                self.put_in(ids, &entropy, &mut copied, &mut troubled).await?;
                tell(Step::Copying { letters: copied.letters + copied.letters_known + copied.troubled });
            }
        }
        self.jobs(&mut copied, tell).await?;
        self.queues(&mut copied).await?;
        self.verify(&mut copied, &troubled, tell).await?;
        Ok(copied)
    }

    async fn tokens(&self) -> Result<u64, CopyError> {
        let there: HashSet<_> =
            self.to.tokens().await.map_err(CopyError::To)?.into_iter().map(|token| token.id).collect();
        let mut copied = 0;
        for token in self.from.tokens().await.map_err(CopyError::From)? {
            if there.contains(&token.id) {
                continue;
            }
            let (id, revoked_at) = (token.id, token.revoked_at);
            self.to.add_token(token, by()).await.map_err(CopyError::To)?;
            if let Some(at) = revoked_at {
                self.to.revoke_token(id, by(), at).await.map_err(CopyError::To)?;
            }
            copied += 1;
        }
        Ok(copied)
    }

    async fn put_in(
        &self,
        ids: &[LetterId],
        entropy: &Entropy,
        copied: &mut Copied,
        troubled: &mut HashSet<LetterId>,
    ) -> Result<(), CopyError> {
        let now = Clock::System.now();
        let mut trouble = |copied: &mut Copied, id: LetterId, detail: String| {
            copied.troubled += 1;
            troubled.insert(id);
            if copied.troubles.len() < TROUBLES_TOLD_MAX {
                copied.troubles.push((id, detail));
            }
        };
        let mut imports = Vec::with_capacity(ids.len());
        for exported in self.from.export(ids.to_vec()).await.map_err(CopyError::From)? {
            match self.as_it_arrives(&exported, entropy, now) {
                Ok(import) => imports.push(import),
                Err(NotTaken::Wrong(detail)) => trouble(copied, exported.letter.id, detail),
                Err(NotTaken::Store(error)) => return Err(CopyError::From(error)),
            }
        }
        let arriving: Vec<LetterId> = imports.iter().map(|import| import.exported.letter.id).collect();
        let outcomes = self.to.import(imports, by(), now).await.map_err(CopyError::To)?;
        for (id, outcome) in arriving.into_iter().zip(outcomes) {
            match outcome {
                Imported::Created => copied.letters += 1,
                Imported::Known => copied.letters_known += 1,
                Imported::Behind => trouble(
                    copied,
                    id,
                    "it is there already, but not as far along; what came since is not taken in".into(),
                ),
                Imported::Conflict(other) if other == id => {
                    trouble(copied, id, "it was there and was deleted, or its job is there".into());
                }
                Imported::Conflict(other) => {
                    trouble(copied, id, format!("letter {other} stands there under its key"));
                }
            }
        }
        Ok(())
    }

    /// The letter as an import takes it in. One that was under way waits again: nobody will say what became of it.
    fn as_it_arrives(&self, exported: &Exported, entropy: &Entropy, now: Time) -> Result<Import, NotTaken> {
        let group = |subject: Subject<'_>| {
            let incident = IncidentId::mint(now, entropy.take()?);
            Ok((fingerprint::group(subject, self.groups), incident))
        };
        // What one store holds the other one takes, however large.
        let door = Door { now, body_bytes_max: usize::MAX, group: &group };
        letter::read(&letter::write(exported), &door)
    }

    /// Oldest first, so that they are fetched in the order they were.
    async fn jobs(&self, copied: &mut Copied, tell: &mut (dyn FnMut(Step) + Send)) -> Result<(), CopyError> {
        let mut ids = self.job_ids().await?;
        ids.reverse();
        for ids in ids.chunks(JOBS_PER_WRITE) {
            let read = ids.iter().map(|id| self.from.job(*id));
            let jobs = try_join_all(read).await.map_err(CopyError::From)?;
            let there = ids.iter().map(|id| self.to.job(*id));
            let there = try_join_all(there).await.map_err(CopyError::To)?;
            let mut new: Vec<Job> = Vec::with_capacity(ids.len());
            for (job, there) in jobs.into_iter().zip(there) {
                match (job, there) {
                    (Some(stored), None) => new.push(stored.job),
                    (Some(_), Some(_)) => copied.jobs_known += 1,
                    (None, _) => {}
                }
            }
            self.enqueue(new, copied).await?;
            tell(Step::Jobs { jobs: copied.jobs + copied.jobs_known + copied.jobs_in_letters });
        }
        Ok(())
    }

    async fn job_ids(&self) -> Result<Vec<JobId>, CopyError> {
        let (mut ids, mut before) = (Vec::new(), None);
        loop {
            let query = JobQuery {
                queue: None,
                state: None,
                job_type: None,
                worker: None,
                before,
                limit: JOBS_PER_WRITE,
            };
            let page = self.from.jobs(query).await.map_err(CopyError::From)?;
            ids.extend(page.jobs.iter().filter(|job| !job.in_dead_letter).map(|job| job.id));
            match page.next {
                Some(next) => before = Some(next),
                None => return Ok(ids),
            }
        }
    }

    /// Puts in all of them but those whose letters stand for them.
    async fn enqueue(&self, mut jobs: Vec<Job>, copied: &mut Copied) -> Result<(), CopyError> {
        while !jobs.is_empty() {
            let batch = jobs.iter().map(|job| (job.clone(), Vec::new())).collect();
            match self.to.enqueue_jobs(batch, Clock::System.now()).await.map_err(CopyError::To)? {
                Ok(()) => {
                    copied.jobs += jobs.len() as u64;
                    return Ok(());
                }
                Err(refused) => {
                    jobs.retain(|job| job.id != refused);
                    copied.jobs_in_letters += 1;
                }
            }
        }
        Ok(())
    }

    async fn queues(&self, copied: &mut Copied) -> Result<(), CopyError> {
        let there = self.to.queues().await.map_err(CopyError::To)?;
        let paused: HashSet<&str> =
            there.iter().filter(|queue| queue.paused).map(|queue| queue.name.as_str()).collect();
        for queue in self.from.queues().await.map_err(CopyError::From)? {
            if queue.paused && !paused.contains(queue.name.as_str()) {
                let now = Clock::System.now();
                self.to.pause_queue(queue.name, true, by(), now).await.map_err(CopyError::To)?;
                copied.queues_paused += 1;
            }
        }
        Ok(())
    }

    /// Compares every letter by the hash of all that is kept of it, and lets the other store count anew.
    async fn verify(
        &self,
        copied: &mut Copied,
        troubled: &HashSet<LetterId>,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<(), CopyError> {
        let entropy = Entropy::default();
        let (mut differing, mut first) = (0, None);
        let mut page = Pages::default();
        while let Some(ids) = page.next(self.from).await.map_err(CopyError::From)? {
            for ids in ids.chunks(limits::EXPORT_LETTERS_PER_READ) {
                let ids: Vec<LetterId> = ids.iter().filter(|id| !troubled.contains(id)).copied().collect();
                let here = self.from.export(ids.clone()).await.map_err(CopyError::From)?;
                let there = self.to.export(ids).await.map_err(CopyError::To)?;
                let hashes: HashMap<LetterId, [u8; 32]> =
                    there.iter().map(|exported| (exported.letter.id, hash(exported))).collect();
                for exported in &here {
                    let id = exported.letter.id;
                    let now = Clock::System.now();
                    let expected = self.as_it_arrives(exported, &entropy, now);
                    match expected.as_ref().map(|import| hash(&import.exported)) {
                        Ok(expected) if hashes.get(&id) == Some(&expected) => copied.verified += 1,
                        Ok(_) | Err(_) => {
                            differing += 1;
                            first.get_or_insert(id);
                        }
                    }
                }
                tell(Step::Verifying { letters: copied.verified });
            }
        }
        if let Some(first) = first {
            return Err(CopyError::Differs(differing, first));
        }
        let expected = copied.letters + copied.letters_known;
        if copied.verified != expected {
            return Err(CopyError::Missing { expected, found: copied.verified });
        }
        let books = self.to.ledger(LedgerBy::Recount).await.map_err(CopyError::To)?;
        if books.difference() != 0 || books.wrong_counters != 0 {
            return Err(CopyError::Books);
        }
        Ok(())
    }
}

fn hash(exported: &Exported) -> [u8; 32] {
    Sha256::digest(letter::write(exported)).into()
}

fn by() -> Actor {
    Actor { name: "store copy".into(), role: Role::Admin.name().into(), request: None }
}

/// All letters of a store, page by page, the longest dead first.
#[derive(Default)]
struct Pages {
    after: Option<LastKey>,
    ended: bool,
}

impl Pages {
    async fn next(&mut self, store: &dyn Store) -> Result<Option<Vec<LetterId>>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let query = PageQuery {
            filter: Filter::default(),
            now: Clock::System.now(),
            sort: Sort::DiedAtAsc,
            limit: limits::EXPORT_LETTERS_PER_PAGE,
            after: self.after.take(),
            scan_max: PageQuery::SCAN_MAX,
        };
        let page = store.list(query).await?;
        self.ended = page.next.is_none();
        self.after = page.next;
        Ok(Some(page.letters.into_iter().map(|letter| letter.id).collect()))
    }
}
