//! NATS servers with JetStream, alone or as a cluster of three.

mod accounts;
mod cluster;
mod server;

pub use crate::certificates::Certificates;
pub use crate::programs::{Version, node_modules, python};
pub use cluster::Cluster;
pub use server::{Access, Options, Server};
