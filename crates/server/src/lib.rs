//! What runs: capture, decisions, operations, and the doors to them.
//!
//! This is the only crate that knows HTTP. It holds no SQL and no copy of progress in memory: the store is the
//! progress, and what is allowed comes from `lazaret_core`.

pub mod access;
pub mod alerts;
pub mod api;
pub mod app;
pub mod archive;
pub mod audit;
pub mod books;
pub mod capture;
pub mod clock;
pub mod config;
pub mod destination;
pub mod events;
pub mod guesses;
pub mod holds;
pub mod jobs;
mod kill;
pub mod metrics;
pub mod months;
mod net;
mod ojs;
pub mod operations;
mod raw_json;
mod redaction;
pub mod redrive;
pub mod regroup;
pub mod reload;
pub mod replay;
pub mod report;
pub mod retention;
mod run;
pub mod search;
pub mod serve;
pub mod sessions;
pub mod sources;
pub mod stores;
pub mod tokens;
mod web;
