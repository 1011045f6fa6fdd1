//! The server as its callers see it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod access;
mod backing;
mod bad_input;
mod decisions;
mod events;
mod incidents;
mod journey;
mod lists;
mod metrics;
mod ojs;
mod ojs_admin;
mod ojs_clients;
mod ojs_dead_letter;
mod ojs_governance;
mod ojs_jobs;
mod ojs_origin;
mod ojs_removal;
mod ojs_routes;
mod ojs_states;
mod ojs_workers;
mod openapi;
mod postgres;
mod reload;
mod replay;
mod rig;
mod series;
mod shared;
mod stream;
mod transfer;
mod trash;
mod wire;
