//! The servers themselves.

mod nats;
mod rabbitmq;
