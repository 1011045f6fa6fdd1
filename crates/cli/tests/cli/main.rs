//! The binary as a person uses it: the real commands against a real server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod access;
mod configuration;
mod decisions;
mod failures;
mod incidents;
mod letters;
mod man;
mod reload;
mod running;
mod scripted;
mod tail;
mod torture;
mod transfer;
