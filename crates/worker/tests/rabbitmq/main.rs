//! The worker against real RabbitMQ nodes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod acceptance;
mod categories;
mod example;
mod kills;
mod publishes;
mod restarts;
mod rig;
mod running;
mod topology;
