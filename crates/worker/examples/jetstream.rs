//! A worker for orders, from an empty server to a dead letter. Needs a NATS server with JetStream:
//!
//! ```sh
//! nats-server -js &
//! cargo run --example jetstream --features jetstream
//! ```
//!
//! In another terminal, with the `nats` command: `nats pub orders.new 12` is billed, `nats pub orders.new nonsense` becomes a
//! dead letter at once, and `nats pub orders.new 13` becomes one after its retries. `nats sub 'dlq.>'` shows them.

use std::time::Duration;

use async_nats::jetstream::{self, consumer, stream};
use lazaret_worker::Failure;
use lazaret_worker::jetstream::{Delivery, Worker};

async fn bill(order: Delivery) -> Result<(), Failure> {
    // Neither error passes by itself, and the rules know that: the message is dead at once.
    let amount: u32 = std::str::from_utf8(order.payload())?.trim().parse()?;
    if amount == 13 {
        // This one may pass: it is retried after 1, 2, 4 and 8 seconds.
        return Err(
            Failure::new("BankUnavailable", "connection to the bank timed out").with_code("ETIMEDOUT")
        );
    }
    println!("billed {amount} for message {} (delivery {})", order.sequence(), order.number());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), async_nats::Error> {
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".to_owned());
    let client = async_nats::connect(url).await?;
    create_streams(&client).await?;
    Worker::new(client, "ORDERS", "billing")
        .concurrency(32)
        .run(bill, async {
            tokio::signal::ctrl_c().await.ok();
        })
        .await?;
    Ok(())
}

/// The stream of orders with its consumer, and the one that keeps all dead letters. Usually `lazaret jetstream apply` or an
/// operator creates them.
async fn create_streams(client: &async_nats::Client) -> Result<(), async_nats::Error> {
    let context = jetstream::new(client.clone());
    context
        .get_or_create_stream(stream::Config {
            name: "DLQ".to_owned(),
            subjects: vec!["dlq.>".to_owned()],
            // A dead letter that is published twice within this time is kept once.
            duplicate_window: Duration::from_secs(3_600),
            ..stream::Config::default()
        })
        .await?;
    let orders = context
        .get_or_create_stream(stream::Config {
            name: "ORDERS".to_owned(),
            subjects: vec!["orders.>".to_owned()],
            ..stream::Config::default()
        })
        .await?;
    orders
        .get_or_create_consumer(
            "billing",
            consumer::pull::Config {
                durable_name: Some("billing".to_owned()),
                max_deliver: 5,
                ..consumer::pull::Config::default()
            },
        )
        .await?;
    Ok(())
}
