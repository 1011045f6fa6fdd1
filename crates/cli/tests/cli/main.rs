//! The binary as a person uses it: the real commands against a real server.

mod access;
mod configuration;
mod decisions;
mod failures;
mod letters;
mod running;
