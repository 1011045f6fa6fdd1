//! What runs: capture, decisions, operations, and the doors to them.
//!
//! This is the only crate that knows HTTP. It holds no SQL and no copy of progress in memory: the store is the
//! progress, and what is allowed comes from `lazaret_core`.

pub mod access;
pub mod api;
pub mod app;
pub mod audit;
pub mod capture;
pub mod clock;
pub mod config;
pub mod destination;
pub mod events;
pub mod jobs;
pub mod metrics;
mod net;
mod ojs;
pub mod operations;
mod raw_json;
pub mod redrive;
pub mod regroup;
pub mod reload;
pub mod replay;
pub mod report;
mod run;
pub mod search;
pub mod serve;
pub mod stores;
pub mod tokens;
pub mod trash;
