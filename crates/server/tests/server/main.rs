//! The server as its callers see it.

mod access;
mod bad_input;
mod decisions;
mod journey;
mod lists;
mod openapi;
mod rig;
mod stream;
mod wire;
