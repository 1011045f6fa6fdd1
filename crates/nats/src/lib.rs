//! Real NATS servers with JetStream for the tests: on loopback, on ports and in folders of their own, stopped with the test.
//!
//! Starts processes and nothing else; tests connect with the client that they are about. A server that is not installed
//! fails the test with the command that installs it.

#![allow(clippy::panic, clippy::expect_used, reason = "a test that cannot have its server has failed")]

mod accounts;
mod certificates;
mod cluster;
mod programs;
mod server;

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use programs::{Version, node_modules, python};
pub use server::{Access, Options, Server};
