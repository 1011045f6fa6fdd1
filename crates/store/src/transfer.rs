//! Letters on their way out of one store and into another, with everything that is kept of them.

use lazaret_core::envelope::Envelope;
use lazaret_core::fingerprint::Grouping;
use lazaret_core::id::{IncidentId, LetterId, OperationId};
use lazaret_core::key::CaptureKey;
use lazaret_core::letter::Letter;
use lazaret_core::time::Time;

use crate::page::{Life, LifeAttempt};

/// One letter, whole.
#[derive(Clone, PartialEq, Hash, Debug)]
pub struct Exported {
    pub letter: Letter,
    pub key: CaptureKey,
    pub ever_sent: bool,
    /// Oldest first; each with its original.
    pub lives: Vec<(Life, Envelope)>,
    /// Oldest first, over all lives.
    pub attempts: Vec<LifeAttempt>,
    pub decisions: Vec<DecisionRecord>,
}

/// A decision that was taken on a letter, by itself or as one of many.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DecisionRecord {
    pub at: Time,
    pub action: String,
    pub actor: String,
    pub role: String,
    pub reason: Option<String>,
    pub operation: Option<OperationId>,
    /// Whether it was taken in another store and came with the letter.
    pub imported: bool,
}

/// A letter to be put in as it was elsewhere. The grouping is worked out anew by the rules that hold here.
#[derive(Clone, Debug)]
pub struct Import {
    pub exported: Exported,
    /// One for each life, in order, with the id that its incident gets if it has to be opened.
    pub groupings: Vec<(Grouping, IncidentId)>,
    pub at: Time,
}

/// What became of a letter that was to be imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Imported {
    Created,
    /// The very same letter is here already, as far along or further.
    Known,
    /// The same letter is here, but not as far along: what came since is not taken in.
    Behind,
    /// Another letter stands under its key or its id, or it was deleted here, or the job that it is of is here.
    Conflict(LetterId),
}
