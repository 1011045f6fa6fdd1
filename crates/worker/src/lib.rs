//! Retry with backoff, then dead letter: message handlers for services that consume from NATS JetStream.
//!
//! NATS JetStream has no dead-letter queue. A message that fails is delivered again at once and, if its consumer sets no limit,
//! for ever; with a limit it is silently never delivered again. This crate wraps a handler so that
//!
//! - a failure that may pass by itself is retried with exponential backoff: after 1, 2, 4 and 8 seconds, five deliveries in all;
//! - a failure that will not pass, and the last of those deliveries, becomes a **dead letter**: the message, its headers and its
//!   error are published to `dlq.<stream>.<consumer>` first, and only then is the message taken from the consumer, so nothing is
//!   lost in between;
//! - other messages go on meanwhile; long work is kept alive; a panic counts as a failure; a shutdown waits for what runs.
//!
//! Lazaret captures `dlq.>`, groups the dead letters by cause and redrives them after the fix. The crate works without it too:
//! any stream on `dlq.>` keeps the dead letters.
//!
//! ```no_run
//! use lazaret_worker::jetstream::{Delivery, Worker};
//! use lazaret_worker::{ErrorClass, Failure};
//!
//! async fn bill(order: Delivery) -> Result<(), Failure> {
//!     // Any error is a failure; rules decide by its type, code and message whether a retry can help.
//!     let amount: u32 = std::str::from_utf8(order.payload())?.parse()?;
//!     if amount == 0 {
//!         // Or say it: this goes straight to the dead letters.
//!         return Err(Failure::new("EmptyOrder", "nothing to bill").with_class(ErrorClass::Validation));
//!     }
//!     Ok(())
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = async_nats::connect("nats://127.0.0.1:4222").await?;
//!     Worker::new(client, "ORDERS", "billing")
//!         .concurrency(32)
//!         .run(bill, async {
//!             tokio::signal::ctrl_c().await.ok();
//!         })
//!         .await?;
//!     Ok(())
//! }
//! ```
//!
//! # Environment
//!
//! - `MAX_RETRIES` replaces the policy's number of retries: 0 means that the first failure is the last.
//! - `SERVICE_VERSION` is written on every dead letter, so that a fix can be told from what it fixed.
//!
//! # Features
//!
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
