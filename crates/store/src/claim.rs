//! Claims: at most one copy of a letter is out at a time.

use lazaret_core::id::{LetterId, RedriveId};
use lazaret_core::lifecycle::Refused;
use lazaret_core::time::Time;

/// A letter taken to be put back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    pub letter: LetterId,
    pub life: u32,
    pub run: RedriveId,
    pub step: ClaimStep,
    /// Until when the holder has to act; a sent letter has no lease.
    pub lease_until: Option<Time>,
    pub idempotency_key: String,
}

/// One holder's right to a claim. Whoever takes an expired claim over renews it, and from then on the fence of the holder
/// before neither begins nor settles anything. The idempotency key names the claim: its number grows with every claim.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClaimFence {
    pub letter: LetterId,
    pub idempotency_key: String,
    /// How often the claim had been taken over when this holder got it.
    pub renewals: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ClaimStep {
    Claimed,
    /// Committed before the publish: from here on the outcome may be unknown.
    Sending,
    Sent,
}

impl ClaimStep {
    pub const ALL: [ClaimStep; 3] = [ClaimStep::Claimed, ClaimStep::Sending, ClaimStep::Sent];

    pub const fn name(self) -> &'static str {
        match self {
            ClaimStep::Claimed => "claimed",
            ClaimStep::Sending => "sending",
            ClaimStep::Sent => "sent",
        }
    }

    pub fn parse(text: &str) -> Option<ClaimStep> {
        ClaimStep::ALL.into_iter().find(|step| step.name() == text)
    }
}

/// Which letter a run wants to take, and until when it promises to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimRequest {
    pub letter: LetterId,
    pub life: u32,
    pub run: RedriveId,
    pub lease_until: Time,
}

/// How a claim ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Settlement {
    /// The work succeeded, on this evidence (`acked`, `processed`, `delivered`, `receipt`, `quiet_window`).
    Confirmed { evidence: String, by: String },
    /// It was definitely not published.
    Unclaimed,
    /// Its job ended without a dead letter.
    Ended { evidence: String, by: String },
}

/// Why a claim could not be taken or moved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClaimRefused {
    #[error(transparent)]
    State(#[from] Refused),
    #[error("letter {0} is in another life by now")]
    OtherLife(LetterId),
    #[error("letter {0} does not exist")]
    Unknown(LetterId),
    #[error("letter {0} is not claimed by this run in a step that allows this")]
    NotClaimed(LetterId),
}
