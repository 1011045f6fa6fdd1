//! The outside world: where dead letters come from, and where they go back to.
//!
//! A source captures and acknowledges, a destination sends and looks. Neither moves a letter, and neither knows the
//! store: what is captured is handed over, and acknowledged once somebody says that it was committed.

pub mod backoff;
mod connection;
mod credentials;
pub mod destination;
mod growth;
pub mod jetstream;
pub mod outbox;
pub mod rabbitmq;
mod redriven;
pub mod sink;
pub mod source;
#[cfg(feature = "testing")]
pub mod testing;

pub use backoff::Backoff;
pub use credentials::{Secret, Tls};
pub use source::{
    Arrival, Change, ChangeKind, Declare, Duty, Finding, FoundQueue, Level, Receipt, Source, SourceError,
    SourceHealth, WorkerReceipt,
};
