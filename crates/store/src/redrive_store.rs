//! What stores do for redrives: plans, runs, edits. One method is one commit, times and ids are bound in.

use async_trait::async_trait;
use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::redrive::Outcome;
use lazaret_core::time::Time;

use crate::StoreError;
use crate::audit::Actor;
use crate::claim::ClaimFence;
use crate::redrive::{
    ByPerson, Edit, Expired, Group, GroupVerdict, Launch, Launched, LetterCause, NewRedrive, Next,
    PlanCounts, Proof, Proved, Redrive, RedriveLetter, RedriveQuery, RunLine, RunPoint, RunStep, SendOutcome,
    SentLetter, Stepped, Taken,
};

/// What a store does for whoever puts letters back. Every `Store` is one.
#[async_trait]
pub trait RedriveStore: Send + Sync {
    /// Opens a redrive in state `planning`; named letters are taken down at once.
    async fn open_redrive(&self, redrive: NewRedrive) -> Result<(), StoreError>;

    /// Takes down one chunk of a redrive's list: pending letters captured before it was opened that match its filter.
    /// True once the list is complete.
    async fn freeze_redrive(&self, id: RedriveId) -> Result<bool, StoreError>;

    /// Takes the next letters of a run, as many as its pace allows and at most `limit`: heads of lanes in the order of the
    /// run, canaries only while it is in `canary`. Jobs are put back in the same commit. A letter in another state or
    /// life is skipped with the reason.
    async fn take_letters(
        &self,
        id: RedriveId,
        limit: u32,
        lease_until: Time,
        at: Time,
    ) -> Result<Next, StoreError>;

    /// Moves claims from `claimed` to `sending`, and answers which: the others are no longer the caller's to send.
    async fn begin_sending(
        &self,
        id: RedriveId,
        claims: Vec<ClaimFence>,
        at: Time,
    ) -> Result<Vec<LetterId>, StoreError>;

    /// Settles letters by what sending them came to. Answers for each whether it was: a claim that somebody else took over
    /// is not the caller's to settle.
    async fn settle_letters(
        &self,
        id: RedriveId,
        outcomes: Vec<(ClaimFence, SendOutcome)>,
        at: Time,
    ) -> Result<Vec<bool>, StoreError>;
}

/// What a store does for plans and runs, and for who looks at them. Every `Store` is one.
#[async_trait]
pub trait Redrives: Send + Sync {
    /// A live letter as the gate sees it.
    async fn letter_cause(&self, letter: LetterId) -> Result<Option<LetterCause>, StoreError>;

    /// What a plan shows of a complete list; reads only.
    async fn plan_counts(&self, id: RedriveId) -> Result<PlanCounts, StoreError>;

    /// Claims of all runs whose lease is over, oldest first.
    async fn expired_claims(&self, at: Time, limit: usize) -> Result<Vec<Expired>, StoreError>;

    /// Takes an expired claim over with a new lease, under the same key. Nothing if its holder or another instance moved it
    /// since it was found expired.
    async fn renew_claim(
        &self,
        expired: Expired,
        lease_until: Time,
        at: Time,
    ) -> Result<Option<Taken>, StoreError>;

    /// Settles a letter of which nobody knew, by a person's word, with the audit entry; false if it is not unknown.
    async fn settle_unknown(
        &self,
        id: RedriveId,
        letter: LetterId,
        word: ByPerson,
        by: Actor,
        at: Time,
    ) -> Result<bool, StoreError>;

    /// Resolves a letter by what its subscriber says: one that is out, or one that is pending, in the name of its source.
    async fn prove(&self, proof: Proof) -> Result<Proved, StoreError>;

    /// The groups of a list, in the order in which they were met, each with its cause as it stands now.
    async fn redrive_groups(&self, id: RedriveId) -> Result<Vec<Group>, StoreError>;

    /// What a run did, step by step, oldest first; steps in which it did nothing are left out.
    async fn run_line(&self, asked: RunLine) -> Result<Vec<RunPoint>, StoreError>;

    /// Writes down what becomes of each group and the plan as it is shown; the redrive is `planned`.
    async fn plan_redrive(
        &self,
        id: RedriveId,
        verdicts: Vec<(u32, GroupVerdict)>,
        plan: String,
        at: Time,
    ) -> Result<Option<Redrive>, StoreError>;

    /// Launches a plan if its count is the expected one and the gate is as it was planned; chooses the canaries, moves
    /// governed incidents to `redriving`, and writes the audit entry.
    async fn launch_redrive(&self, id: RedriveId, launch: Launch) -> Result<Launched, StoreError>;

    /// Pauses, resumes, cancels or paces a run, and writes the audit entry.
    async fn step_redrive(
        &self,
        id: RedriveId,
        step: RunStep,
        by: Actor,
        at: Time,
    ) -> Result<Stepped, StoreError>;

    /// Moves a run on by what became of its letters: judges the canaries, stops it by its bound or when the gate has shut,
    /// finds that all were sent, ends it, and moves its incidents. Answers how it stands.
    async fn tend_redrive(&self, id: RedriveId, at: Time) -> Result<Option<Redrive>, StoreError>;

    async fn redrive(&self, id: RedriveId) -> Result<Option<Redrive>, StoreError>;

    async fn redrives(&self, query: RedriveQuery) -> Result<Vec<Redrive>, StoreError>;

    /// Launched redrives that have not ended, oldest first.
    async fn unfinished_redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError>;

    /// Letters of a redrive after an ordinal, in order, with this outcome if one is given.
    async fn redrive_letters(
        &self,
        id: RedriveId,
        outcome: Option<Outcome>,
        after: u64,
        limit: usize,
    ) -> Result<Vec<RedriveLetter>, StoreError>;

    /// Letters of a redrive after an ordinal, in order, that were sent and are not settled. Jobs are not among them: their
    /// workers tell what became of them.
    async fn sent_letters(
        &self,
        id: RedriveId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SentLetter>, StoreError>;

    /// What every redrive made of a letter, newest first, at most `limits::PAGE_ROWS`.
    async fn redrives_of(&self, letter: LetterId) -> Result<Vec<(Redrive, RedriveLetter)>, StoreError>;

    /// Ends plans that were opened before then and never launched; says how many.
    async fn drop_plans(&self, opened_before: Time) -> Result<u64, StoreError>;

    /// Keeps a changed copy of a letter, with the next number; nothing if there is no such letter or life.
    async fn add_edit(&self, letter: LetterId, edit: Edit) -> Result<Option<u32>, StoreError>;

    /// All changed copies of a letter, oldest first.
    async fn edits(&self, letter: LetterId) -> Result<Vec<Edit>, StoreError>;
}
