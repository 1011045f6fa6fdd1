//! The audit log: one entry per decision, with who, why, on what and how many.

use async_trait::async_trait;
use lazaret_core::id::{AuditId, IncidentId, LetterId, OperationId, RedriveId};
use lazaret_core::time::Time;

use crate::StoreError;

/// The hash by which an entry is linked to the one before it.
pub type Link = [u8; 32];

/// What a store does for the audit log. Every `Store` is one.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// The audit log, newest first, before a position.
    async fn audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError>;

    /// Puts an act on record that changes nothing here. Whether the letter is there is not asked.
    async fn note_act(&self, act: Act, by: Actor, at: Time) -> Result<(), StoreError>;

    /// The oldest audit entries that are not linked yet, and the link of the one before them.
    async fn unlinked_audit(&self, limit: usize) -> Result<(Option<Link>, Vec<AuditEntry>), StoreError>;

    /// Writes links down, in the order of positions; nothing is written if another instance did already.
    async fn link_audit(&self, links: Vec<(u64, Link)>) -> Result<bool, StoreError>;

    /// Entries after a position in order, with their links where they have one.
    async fn audit_links(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(AuditEntry, Option<Link>)>, StoreError>;
}

/// Who decides, for the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Actor {
    pub name: String,
    pub role: String,
    /// The request it came with.
    pub request: Option<String>,
}

/// A page of the log, newest first; what is left empty is not asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditQuery {
    /// The position of the last entry of the page before.
    pub before: Option<u64>,
    pub limit: usize,
    pub letter: Option<LetterId>,
    pub incident: Option<IncidentId>,
    pub redrive: Option<RedriveId>,
    /// A name, whole.
    pub actor: Option<String>,
    /// Of `AuditEntry::action`, whole.
    pub action: Option<String>,
}

impl AuditQuery {
    /// The newest entries, whatever they tell.
    pub const fn newest(limit: usize) -> AuditQuery {
        AuditQuery {
            before: None,
            limit,
            letter: None,
            incident: None,
            redrive: None,
            actor: None,
            action: None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    pub position: u64,
    pub id: AuditId,
    pub at: Time,
    pub actor: Actor,
    /// A decision such as `resolve`, or an act of administration such as `token_created`.
    pub action: String,
    pub letter: Option<LetterId>,
    pub operation: Option<OperationId>,
    pub incident: Option<IncidentId>,
    pub redrive: Option<RedriveId>,
    /// The filter in its text form.
    pub filter: Option<String>,
    pub count: u64,
    pub reason: Option<String>,
}

/// Something that a person does and that changes no letter here, for the audit log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// One letter, shown as it is.
    Reveal { letter: LetterId, reason: String },
    /// All letters of a filter, given out whole; the filter in its text form.
    Export { filter: String },
    /// The row of a letter is about to be written into the application's table again.
    PutBack { letter: LetterId },
    /// It was not written after all, and why.
    PutBackRefused { letter: LetterId, why: String },
    /// The topology of a source is about to be made as configured.
    ApplyTopology { source: String },
}

impl Act {
    /// What the audit log calls it.
    pub const fn action(&self) -> &'static str {
        match self {
            Act::Reveal { .. } => "letter.revealed",
            Act::Export { .. } => "letters.exported",
            Act::PutBack { .. } => "row.put_back",
            Act::PutBackRefused { .. } => "row.put_back.refused",
            Act::ApplyTopology { .. } => "source.topology_applied",
        }
    }

    pub(crate) const fn letter(&self) -> Option<LetterId> {
        match self {
            Act::Reveal { letter, .. } | Act::PutBack { letter } | Act::PutBackRefused { letter, .. } => {
                Some(*letter)
            }
            Act::Export { .. } | Act::ApplyTopology { .. } => None,
        }
    }

    pub(crate) fn filter(&self) -> Option<&str> {
        match self {
            Act::Export { filter } => Some(filter),
            Act::Reveal { .. }
            | Act::PutBack { .. }
            | Act::PutBackRefused { .. }
            | Act::ApplyTopology { .. } => None,
        }
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Act::Reveal { reason, .. }
            | Act::PutBackRefused { why: reason, .. }
            | Act::ApplyTopology { source: reason } => Some(reason),
            Act::Export { .. } | Act::PutBack { .. } => None,
        }
    }
}

/// An entry that is about to be written; it gets its id there.
pub(crate) struct NewEntry<'a> {
    pub at: Time,
    pub actor: &'a Actor,
    pub action: &'a str,
    pub letter: Option<LetterId>,
    pub operation: Option<OperationId>,
    pub incident: Option<IncidentId>,
    pub redrive: Option<RedriveId>,
    pub filter: Option<&'a str>,
    pub count: u64,
    pub reason: Option<&'a str>,
}

impl<'a> NewEntry<'a> {
    /// An entry that names nothing but who did what and when.
    pub fn new(actor: &'a Actor, action: &'a str, at: Time) -> NewEntry<'a> {
        NewEntry {
            at,
            actor,
            action,
            letter: None,
            operation: None,
            incident: None,
            redrive: None,
            filter: None,
            count: 1,
            reason: None,
        }
    }
}
