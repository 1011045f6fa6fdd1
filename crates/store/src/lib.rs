//! Where letters are kept: one trait, and the stores that implement it.
//!
//! This is the only crate that knows SQL. It never asks for the time of a decision and never decides a policy: times,
//! ids and rules are bound in, and what is allowed comes from `lazaret_core::lifecycle`.

pub mod access;
pub mod alert_store;
pub mod archive;
pub mod audit;
pub mod claim;
pub mod copy;
pub mod decision;
mod engine;
pub mod entropy;
pub mod error;
pub mod event;
pub mod failure;
pub mod folder;
mod health;
pub mod hold;
pub mod incident;
pub mod job;
pub mod job_store;
pub mod moves;
mod packing;
pub mod page;
pub mod postgres;
pub mod redrive;
pub mod redrive_store;
pub mod regroup;
pub mod replay;
pub mod retention;
pub mod retention_store;
#[allow(dead_code, reason = "operations move over the seam one by one, and need its parts one by one")]
mod seam;
pub mod search;
pub mod series;
pub mod source_store;
pub mod sqlite;
pub mod stats;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
pub mod token;
pub mod transfer;
pub mod worker;

pub use access::Access;
pub use alert_store::AlertStore;
pub use archive::Archive;
pub use audit::AuditLog;
pub use copy::CopyStore;
pub use decision::Operations;
pub use error::{DAMAGED_HINT, StoreError};
pub use hold::Holds;
pub use incident::Incidents;
pub use job_store::JobStore;
pub use redrive_store::{RedriveStore, Redrives};
pub use regroup::Regroupings;
pub use replay::Replays;
pub use retention_store::RetentionStore;
pub use source_store::SourceStore;
pub use stats::Numbers;
pub use store::Store;
pub use worker::Workers;
