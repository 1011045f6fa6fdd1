//! Giving letters new fingerprints when the way of grouping changes, batch by batch, while capture goes on.

use async_trait::async_trait;
use lazaret_core::attempt::LetterError;
use lazaret_core::fingerprint::{Fingerprint, Grouping};
use lazaret_core::id::IncidentId;
use lazaret_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// What a store does to change how letters are grouped. Every `Store` is one.
#[async_trait]
pub trait Regroupings: Send + Sync {
    /// How far the way of grouping has come; a revision that is neither reached nor on its way is set out for.
    async fn regrouping(&self, revision: String, at: Time) -> Result<Regrouping, StoreError>;

    /// How far the way of grouping has come, without setting out.
    async fn regrouped(&self) -> Result<Regrouping, StoreError>;

    /// The next lives of the regrouping that is on its way.
    async fn old_groupings(&self, lives: usize) -> Result<Vec<OldGrouping>, StoreError>;

    /// Moves a batch of lives into their new groups, of which those that stay as they are have to be told too. Incidents
    /// keep their ids: the first new group that comes out of an old one takes its incident over.
    async fn regroup(&self, batch: RegroupBatch) -> Result<Regrouping, StoreError>;
}

/// How far regrouping to a revision has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regrouping {
    /// The revision that every life has by now.
    pub reached: String,
    /// The one that is on its way, if any.
    pub towards: Option<String>,
    /// Lives looked at on this way.
    pub done: u64,
    /// Lives there are.
    pub total: u64,
}

/// One life that may belong to another group now.
#[derive(Clone, PartialEq, Debug)]
pub struct OldGrouping {
    /// The place of the life in the order of capture.
    pub position: i64,
    pub source: String,
    pub queue: String,
    pub letter_type: String,
    pub tenant: Option<String>,
    pub error: LetterError,
    pub fingerprint: Fingerprint,
}

/// What a life's group is by the new rules.
#[derive(Clone, PartialEq, Debug)]
pub struct NewGrouping {
    pub position: i64,
    pub old: Fingerprint,
    pub grouping: Grouping,
    /// The id that an incident gets if this has to open one.
    pub incident: IncidentId,
}

/// One batch of new groupings, up to a place in the order of capture.
#[derive(Clone, PartialEq, Debug)]
pub struct RegroupBatch {
    pub revision: String,
    /// All that were looked at, changed or not.
    pub lives: Vec<NewGrouping>,
    /// How many these are.
    pub looked_at: u64,
    /// The place of the last one looked at; nothing if there are no more.
    pub up_to: Option<i64>,
    pub at: Time,
}

/// Where the work stands, kept as one value beside the letters.
#[derive(Serialize, Deserialize, Default)]
pub(crate) struct Progress {
    pub reached: String,
    pub towards: Option<String>,
    /// When it was set out.
    #[serde(default)]
    pub begun_at: i64,
    /// The last life that was looked at.
    pub position: i64,
    /// The last life to look at.
    pub bound: i64,
    pub stage: Stage,
    pub done: u64,
    /// Counts the times it was set out. The same revision may come again, and must not find the marks of last time.
    #[serde(default)]
    pub run: u64,
}

impl Progress {
    pub fn parse(text: &str) -> Result<Progress, StoreError> {
        serde_json::from_str(text)
            .map_err(|error| StoreError::Corrupt(format!("the state of regrouping cannot be read: {error}")))
    }

    /// The revision that all lives are grouped by; nothing while some are not.
    pub fn settled_revision(self) -> Option<String> {
        if self.towards.is_none() { Some(self.reached) } else { None }
    }

    /// What heirs and used fingerprints of this run are marked with.
    pub fn marks(&self, revision: &str) -> String {
        match self.run {
            // Set out by a version that did not count.
            0 => revision.to_owned(),
            run => format!("{revision} #{run}"),
        }
    }

    /// Sets out for a revision, or is there already if there are no lives.
    pub fn set_out(&self, revision: &str, lives: i64, at: Time) -> Progress {
        let next = Progress { bound: lives, begun_at: at.ms(), run: self.run + 1, ..Progress::default() };
        match lives {
            0 => Progress { reached: revision.to_owned(), ..next },
            _ => Progress { reached: self.reached.clone(), towards: Some(revision.to_owned()), ..next },
        }
    }

    /// Has regrouped every life.
    pub fn arrive(&self, revision: &str) -> Progress {
        Progress { reached: revision.to_owned(), done: self.done, run: self.run, ..Progress::default() }
    }
}

#[derive(Serialize, Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    #[default]
    Lives,
    /// What was captured by the old rules while the new ones came into force may lie behind the first bound; by the
    /// time that one is reached, such captures are over.
    Stragglers,
    /// Incidents that were left without letters.
    Emptied,
}
