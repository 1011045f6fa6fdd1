//! The server as its callers see it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod access;
mod bad_input;
mod decisions;
mod events;
mod incidents;
mod journey;
mod lists;
mod ojs;
mod ojs_dead_letter;
mod ojs_jobs;
mod ojs_workers;
mod openapi;
mod reload;
mod rig;
mod series;
mod stream;
mod transfer;
mod wire;
