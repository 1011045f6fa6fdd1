//! The pure domain of Lazaret: values in, values out.
//!
//! Nothing here does IO, asks for the time, draws randomness, or knows SQL, HTTP or async; whatever a decision needs
//! is passed in. The types are not serialisable on purpose: the API and the stores own their shapes and convert.

pub mod alert;
pub mod attempt;
pub mod broker;
pub mod class;
mod class_builtin;
pub mod cursor;
pub mod death;
pub mod duration;
pub mod envelope;
pub mod filter;
pub mod fingerprint;
pub mod gate;
pub mod header;
pub mod id;
pub mod incident;
pub mod job;
pub mod json_path;
pub mod key;
pub mod letter;
pub mod lifecycle;
pub mod limits;
pub mod origin;
pub mod original_event;
pub mod pattern;
pub mod rca;
pub mod redaction;
pub mod redrive;
pub mod replay;
pub mod retention;
pub mod retry;
pub mod surrogates;
pub mod time;
