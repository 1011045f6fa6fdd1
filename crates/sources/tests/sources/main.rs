//! Sources against real servers.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod app;
mod capture;
mod contract;
mod crowded;
mod doctor;
mod jetstream_app;
mod jetstream_bridge;
mod jetstream_capture;
mod jetstream_clients;
mod jetstream_cluster;
mod jetstream_contract;
mod jetstream_follow_up;
mod jetstream_redrive;
mod jetstream_topology;
mod keys;
mod layouts;
mod mapping;
mod order;
mod pooler;
mod rabbitmq_app;
mod rabbitmq_broken;
mod rabbitmq_capture;
mod rabbitmq_clients;
mod rabbitmq_contract;
mod rabbitmq_redrive;
mod rabbitmq_security;
mod redrive;
mod refusals;
mod relay;
mod relay_kills;
mod silence;
mod sinks;
