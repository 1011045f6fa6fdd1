//! Retry with backoff, then dead letter: message handlers for services that consume from RabbitMQ or NATS JetStream.
//!
//! Neither broker retries a failed message with a backoff: it comes back at once and for ever, or is silently dropped. This crate
//! wraps a handler so that
//!
//! - a failure that may pass by itself is retried with exponential backoff: on RabbitMQ after 2, 4 and 8 seconds (± 20 %), on
//!   JetStream after 1, 2, 4 and 8;
//! - a failure that will not pass, and the last of those retries, becomes a **dead letter**: it is published and confirmed first,
//!   and only then is the message taken from its queue or consumer, so nothing is lost in between. On RabbitMQ it goes to the
//!   queue `<service>-dlq`, on JetStream to the subject `dlq.<stream>.<consumer>`;
//! - other messages go on meanwhile; a panic counts as a failure; a shutdown waits for what runs.
//!
//! Lazaret captures dead letters, groups them by cause and redrives them after the fix. The crate works without it too.
//!
//! # RabbitMQ
//!
//! A message that is retried waits in a durable delay queue, not in the worker. All queues are declared at start.
//!
#![cfg_attr(feature = "rabbitmq", doc = "```no_run")]
#![cfg_attr(not(feature = "rabbitmq"), doc = "```ignore")]
//! use lazaret_worker::rabbitmq::{Delivery, Worker};
//! use lazaret_worker::{ErrorClass, Failure};
//!
//! async fn bill(order: Delivery) -> Result<(), Failure> {
//!     // Any error is a failure; rules decide by its type, code and message whether a retry can help.
//!     let amount: u32 = std::str::from_utf8(order.body())?.parse()?;
//!     if amount == 0 {
//!         // Or say it: this goes straight to the dead letters.
//!         return Err(Failure::new("EmptyOrder", "nothing to bill").with_class(ErrorClass::Validation));
//!     }
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     Worker::new("amqp://user:password@localhost:5672/%2f", "billing", "orders")
//!         .concurrency(32)
//!         .run(bill, async {
//!             tokio::signal::ctrl_c().await.ok();
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! # NATS JetStream
//!
//! Any stream on `dlq.>` keeps the dead letters. Long work is kept alive.
//!
#![cfg_attr(feature = "jetstream", doc = "```no_run")]
#![cfg_attr(not(feature = "jetstream"), doc = "```ignore")]
//! # use lazaret_worker::Failure;
//! use lazaret_worker::jetstream::{Delivery, Worker};
//!
//! # async fn bill(_: Delivery) -> Result<(), Failure> { Ok(()) }
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = async_nats::connect("nats://127.0.0.1:4222").await?;
//! let shutdown = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! Worker::new(client, "ORDERS", "billing").concurrency(32).run(bill, shutdown).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Environment
//!
//! - `MAX_RETRIES` replaces the policy's number of retries: 0 means that the first failure is the last.
//! - `SERVICE_VERSION` is written on every dead letter, so that a fix can be told from what it fixed.
//!
//! # Features
//!
//! - `rabbitmq`: the worker for RabbitMQ 3.10 and newer.
//! - `jetstream`: the worker for NATS JetStream, servers 2.9 and newer.

mod failure;
#[cfg(any(feature = "jetstream", feature = "rabbitmq"))]
mod handling;
#[cfg(feature = "jetstream")]
pub mod jetstream;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(any(feature = "jetstream", feature = "rabbitmq"))]
mod settings;

pub use failure::Failure;
pub use lazaret_core::class::{ClassRule, ClassRules, Conditions, ErrorClass, StatusRange};
pub use lazaret_core::pattern::Pattern;
pub use lazaret_core::retry::{Growth, Jitter, Preset, RetryPolicy};
#[cfg(any(feature = "jetstream", feature = "rabbitmq"))]
pub use settings::BadSettings;
