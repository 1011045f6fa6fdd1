//! How a PostgreSQL is reached: its address, read once, and TLS over the one TLS library that everything uses.
//!
//! Stores and sources never see each other, and both connect alike: so this is apart. It touches no table.

mod address;
mod sessions;
mod tls;

pub use address::{Address, place};
pub use sessions::{NoSession, require_sessions};
pub use tls::Tls;

/// Why an address cannot be used. Never holds a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(pub String);
