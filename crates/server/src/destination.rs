//! Where a letter goes back to: the receivers over HTTP, and the registry of what is configured.
//!
//! The seam itself is `lazaret_sources::destination`.

pub(crate) mod address;
mod headers;
mod http;
mod registry;
pub mod signature;

use lazaret_core::time::Time;
use lazaret_store::redrive::SendOutcome;

pub(crate) use headers::is_passed_on;
pub use http::{HttpDestination, Tls};
pub use lazaret_sources::destination::{
    Content, Destination, Outgoing, Refusal, Route, Sent, Silence, Verified,
};
pub use registry::{Destinations, JOBS, Named, NoWayBack, Way};

/// What became of a send, as the store takes it. `at` is when the letter was sent, and `duration_ms` how long that took.
pub fn outcome(sent: Sent, at: Time, duration_ms: Option<u64>) -> SendOutcome {
    match sent {
        Sent::Delivered { evidence, handle } => SendOutcome::Delivered { evidence, handle },
        Sent::Taken { handle } => SendOutcome::Sent { handle },
        Sent::Refused(refusal) => {
            let why = refusal.error.message.clone();
            SendOutcome::Failed { attempt: Box::new(refusal.attempt(at, duration_ms)), why }
        }
        Sent::Unknown(why) => SendOutcome::Unknown { why },
        Sent::Unsent(_) => SendOutcome::Unsent,
    }
}
