//! The worker against real NATS servers, the main cases on both versions.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod crashes;
mod dead_letters;
mod outcomes;
mod rig;
mod running;
