//! Claims: at most one copy of a letter is out at a time.

use lazaret_core::id::LetterId;

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
