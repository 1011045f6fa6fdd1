//! Real brokers for the tests: NATS with JetStream and RabbitMQ, on loopback, on ports and in folders of their own, stopped
//! with the test.
//!
//! Starts processes and nothing else; tests connect with the client that they are about. A server that is not installed
//! fails the test with the command that installs it.

#![allow(clippy::panic, clippy::expect_used, reason = "a test that cannot have its server has failed")]

mod certificates;
pub mod nats;
mod port;
mod programs;
pub mod rabbitmq;

pub use certificates::Certificates;
pub use programs::{node_modules, python};
