//! The chain of the audit log: each entry is linked to the one before it, with a key that is not in the database.
//!
//! Who can write to the database can change an entry, take one out or put one in, and cannot make the links fit. Linking
//! is the leader's, in the order of commits and behind them: a decision never waits for it.

mod key;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac};
use lazaret_core::id::AuditId;
use lazaret_core::limits;
use lazaret_store::audit::AuditEntry;
use lazaret_store::{Store, StoreError};
use sha2::Sha256;

use crate::app::App;
use crate::operations::Progress;

pub use key::{AuditKey, Head, KeyError, prepare};

/// What ties an entry to the one before it.
pub type Link = [u8; 32];

/// Says which way of making links this is: the first bytes of what is signed.
const FORM: &[u8] = b"lazaret-audit-1";

/// Stands where a length would, for what is not there. No text is so long.
const ABSENT: u64 = u64::MAX;

/// The link of an entry after another link; the first entry has none before it.
pub fn link(key: &AuditKey, before: Option<&Link>, entry: &AuditEntry) -> Link {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(key.secret()).expect("a key for HMAC can have any number of bytes");
    mac.update(before.unwrap_or(&[0; 32]));
    mac.update(&canonical(entry));
    mac.finalize().into_bytes().into()
}

/// The bytes of an entry: every field after its length, so that no two entries have the same.
fn canonical(entry: &AuditEntry) -> Vec<u8> {
    let AuditEntry {
        position,
        id,
        at,
        actor,
        action,
        letter,
        operation,
        filter,
        count,
        reason,
        incident,
        redrive,
    } = entry;
    let mut bytes = Vec::with_capacity(256);
    let mut add = |field: Option<&[u8]>| match field {
        Some(field) => {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        None => bytes.extend_from_slice(&ABSENT.to_be_bytes()),
    };
    add(Some(FORM));
    add(Some(&position.to_be_bytes()));
    add(Some(id.bytes()));
    add(Some(&at.ms().to_be_bytes()));
    add(Some(actor.name.as_bytes()));
    add(Some(actor.role.as_bytes()));
    add(actor.request.as_deref().map(str::as_bytes));
    add(Some(action.as_bytes()));
    add(letter.as_ref().map(|id| id.bytes().as_slice()));
    add(operation.as_ref().map(|id| id.bytes().as_slice()));
    add(filter.as_deref().map(str::as_bytes));
    add(Some(&count.to_be_bytes()));
    add(reason.as_deref().map(str::as_bytes));
    add(incident.as_ref().map(|id| id.bytes().as_slice()));
    add(redrive.as_ref().map(|id| id.bytes().as_slice()));
    bytes
}

/// Links the oldest entries that are not linked yet.
pub async fn tick(app: &App) -> Result<Progress, StoreError> {
    match &app.audit_key {
        Some(key) => link_some(app.store.as_ref(), key).await,
        None => Ok(Progress::Idle),
    }
}

/// Links all entries that are not linked yet, for as long as a start or an end may wait for it. Until an entry is linked
/// nobody can prove that it was not changed, and in a store that is stopped nobody links it.
pub async fn link_all(store: &dyn Store, key: &AuditKey) {
    let until = Instant::now() + Duration::from_millis(limits::AUDIT_LINK_ALL_MS_MAX);
    loop {
        match link_some(store, key).await {
            Ok(Progress::Idle) => return,
            Ok(Progress::More) if Instant::now() < until => {}
            Ok(Progress::More) => {
                tracing::warn!("the audit log has more entries to link than there was time for");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "entries of the audit log could not be linked");
                return;
            }
        }
    }
}

async fn link_some(store: &dyn Store, key: &AuditKey) -> Result<Progress, StoreError> {
    if !store.lead().await? {
        return Ok(Progress::Idle);
    }
    let (mut before, entries) = store.unlinked_audit(limits::AUDIT_LINKED_PER_WRITE).await?;
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(Progress::Idle) };
    // No position is signed twice: what took the place of an entry that had its link must not get one too.
    if let Some(head) = key.head().filter(|head| head.position >= first.position) {
        tracing::error!(
            "entry {} of the audit log has no link, and this server had linked up to {}: see `lazaret audit verify`",
            first.position,
            head.position
        );
        return Ok(Progress::Idle);
    }
    let mut links = Vec::with_capacity(entries.len());
    for entry in &entries {
        let next = link(key, before.as_ref(), entry);
        links.push((entry.position, next));
        before = Some(next);
    }
    let head = before.map(|link| Head { position: last.position, link });
    if !store.link_audit(links).await? {
        // Another instance was faster; there may be more.
        return Ok(Progress::More);
    }
    if let Some(head) = head {
        key.note(&head);
    }
    let more = entries.len() >= limits::AUDIT_LINKED_PER_WRITE;
    Ok(if more { Progress::More } else { Progress::Idle })
}

/// What a walk through the whole log showed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Entries that were looked at; the walk ends with the first fault.
    pub entries: u64,
    pub linked: u64,
    /// The newest ones, which are not linked yet.
    pub unlinked: u64,
    /// The newest link, for whoever wants to write it down elsewhere and compare.
    pub head: Option<Head>,
    pub fault: Option<Fault>,
}

/// The first place where the log is not what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub position: u64,
    /// The entry that stands there, if one does.
    pub id: Option<AuditId>,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FaultKind {
    /// What the entry says is not what was linked.
    Changed,
    /// There is no entry at this position, and later ones are there.
    Removed,
    /// There is no entry from this position on, and this machine had linked one.
    CutOff,
    /// It has no link, and a later one has.
    Inserted,
    /// Not even the first link fits: the key is another one, or the first entry was changed.
    OtherKey,
}

impl FaultKind {
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Changed => "changed",
            FaultKind::Removed => "removed",
            FaultKind::CutOff => "cut_off",
            FaultKind::Inserted => "inserted",
            FaultKind::OtherKey => "other_key",
        }
    }

    pub const fn told(self) -> &'static str {
        match self {
            FaultKind::Changed => "the entry was changed after it was written, or took the place of another",
            FaultKind::Removed => "an entry was removed",
            FaultKind::CutOff => {
                "entries were removed or lost their links from here on, or the database is an older copy"
            }
            FaultKind::Inserted => "the entry was put in later, or lost its link",
            FaultKind::OtherKey => {
                "the first entry does not fit its link: the key is another one, or the entry was changed"
            }
        }
    }
}

/// Walks through all entries and names the first that was changed, removed or put in. Reads only; the store need not be
/// served.
pub async fn verify(store: &dyn Store, key: &AuditKey) -> Result<Verdict, StoreError> {
    let mut walk =
        Walk { key, head: key.head(), before: None, last: 0, gap: None, verdict: Verdict::default() };
    loop {
        let page = store.audit_links(walk.last, limits::AUDIT_VERIFIED_PER_READ).await?;
        let ended = page.len() < limits::AUDIT_VERIFIED_PER_READ;
        for (entry, link) in &page {
            walk.step(entry, link.as_ref());
            if walk.verdict.fault.is_some() {
                return Ok(walk.verdict);
            }
        }
        if ended {
            return Ok(walk.ended());
        }
    }
}

/// How far the walk has come.
struct Walk<'a> {
    key: &'a AuditKey,
    head: Option<Head>,
    before: Option<Link>,
    last: u64,
    /// The first entry without a link: it is new, unless one with a link follows.
    gap: Option<(u64, AuditId)>,
    verdict: Verdict,
}

impl Walk<'_> {
    fn step(&mut self, entry: &AuditEntry, link: Option<&Link>) {
        self.verdict.entries += 1;
        let (expected, position) = (self.last + 1, entry.position);
        self.last = position;
        if position != expected {
            self.fault(expected, None, FaultKind::Removed);
            return;
        }
        let Some(link) = link else {
            self.verdict.unlinked += 1;
            self.gap.get_or_insert((position, entry.id));
            return;
        };
        if let Some((position, id)) = self.gap {
            self.fault(position, Some(id), FaultKind::Inserted);
            return;
        }
        if self::link(self.key, self.before.as_ref(), entry) != *link {
            let kind = if self.before.is_none() { FaultKind::OtherKey } else { FaultKind::Changed };
            self.fault(position, Some(entry.id), kind);
            return;
        }
        // A whole chain can be made anew by whoever has the key, but not the note that was made elsewhere.
        if self.head.as_ref().is_some_and(|head| head.position == position && head.link != *link) {
            self.fault(position, Some(entry.id), FaultKind::Changed);
            return;
        }
        self.verdict.linked += 1;
        self.verdict.head = Some(Head { position, link: *link });
        self.before = Some(*link);
    }

    fn ended(mut self) -> Verdict {
        let linked_to = self.verdict.head.as_ref().map_or(0, |head| head.position);
        if self.head.as_ref().is_some_and(|head| head.position > linked_to) {
            let id = self.gap.map(|(_, id)| id);
            self.fault(linked_to + 1, id, FaultKind::CutOff);
        }
        self.verdict
    }

    fn fault(&mut self, position: u64, id: Option<AuditId>, kind: FaultKind) {
        self.verdict.fault = Some(Fault { position, id, kind });
    }
}
