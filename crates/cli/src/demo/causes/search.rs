//! The search-indexer, in Rust: strict about what it reads.

use super::{Aggregate, Cause, Error, Event, Wire};
use crate::demo::payloads;
use crate::demo::programs::{SEARCH, STOREFRONT, WAREHOUSE};

/// How the runtime calls a handler.
const TOKIO: &str = "
   4: search_indexer::consume::Consumer::handle::{{closure}}
             at /src/consume.rs:{118}:13
   5: search_indexer::consume::Consumer::run::{{closure}}
             at /src/consume.rs:{73}:42
   6: <tracing::instrument::Instrumented<T> as core::future::future::Future>::poll
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/tracing-0.1.41/src/instrument.rs:321:15
   7: tokio::runtime::task::harness::poll_future
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/tokio-1.42.0/src/runtime/task/harness.rs:499:19
   8: tokio::runtime::scheduler::multi_thread::worker::Context::run
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/tokio-1.42.0/src/runtime/scheduler/multi_thread/worker.rs:545:35
   9: std::sys::backtrace::__rust_begin_short_backtrace
             at /rustc/90b35a6239c3d8bdabc530a6a0816f7ff89a0aaf/library/std/src/sys/backtrace.rs:154:18";

const UPDATED: Event = Event {
    pattern: "product.updated",
    version: "5.1",
    sender: &STOREFRONT,
    payload: payloads::product,
    aggregate: Aggregate::Product,
    wire: Wire::Json,
};

/// The catalogue has a new word that the index does not know.
pub(in crate::demo) static UNKNOWN_VARIANT: Cause = Cause {
    program: &SEARCH,
    queue: "search-index",
    event: Event { payload: payloads::product_for_preorder, ..UPDATED },
    error: Error {
        name: "serde_json::Error",
        code: None,
        messages: &[
            "unknown variant `pre_order`, expected one of `in_stock`, `backorder`, `sold_out` at line 1 column {column}",
        ],
        backtrace: &[
            "Error: cannot read product.updated

Caused by:
    {message}

Stack backtrace:
   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.94/src/error.rs:565:25
   1: anyhow::context::<impl anyhow::Context<T,E> for core::result::Result<T,E>>::with_context
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.94/src/context.rs:65:31
   2: search_indexer::product::Product::read
             at /src/product.rs:{64}:9
   3: search_indexer::index::apply::{{closure}}
             at /src/index.rs:{41}:24",
            TOKIO,
        ],
        context: &[("index", "products-v7"), ("sku", "{sku}")],
    },
    run_ms: (1, 5),
};

/// Somebody dropped a price list where events are expected.
pub(in crate::demo) static NOT_AN_EVENT: Cause = Cause {
    program: &SEARCH,
    queue: "search-index",
    event: Event { pattern: "catalog.imported", wire: Wire::Pdf, ..UPDATED },
    error: Error {
        name: "serde_json::Error",
        code: None,
        messages: &["expected value at line 1 column 1"],
        backtrace: &[
            "Error: cannot read catalog.imported

Caused by:
    {message}

Stack backtrace:
   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.94/src/error.rs:565:25
   1: anyhow::context::<impl anyhow::Context<T,E> for core::result::Result<T,E>>::with_context
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.94/src/context.rs:65:31
   2: search_indexer::event::Event::read
             at /src/event.rs:{29}:9
   3: search_indexer::consume::Consumer::open
             at /src/consume.rs:{97}:21",
            TOKIO,
        ],
        context: &[("contentType", "application/pdf"), ("bodyBytes", "{body_bytes}")],
    },
    run_ms: (1, 3),
};

/// The search engine's disk is full. Nobody has seen this before the live part.
pub(in crate::demo) static INDEX_READ_ONLY: Cause = Cause {
    program: &SEARCH,
    queue: "search-index",
    event: Event { pattern: "stock.changed", version: "1.0", payload: payloads::stock, sender: &WAREHOUSE, ..UPDATED },
    error: Error {
        name: "opensearch::Error",
        code: Some("429"),
        messages: &[
            "index [products-v7] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];",
        ],
        backtrace: &[
            "Error: cannot index {sku}

Caused by:
    {message}

Stack backtrace:
   0: anyhow::error::<impl core::convert::From<E> for anyhow::Error>::from
             at /usr/local/cargo/registry/src/index.crates.io-6f17d22bba15001f/anyhow-1.0.94/src/error.rs:565:25
   1: search_indexer::engine::Engine::check
             at /src/engine.rs:{152}:20
   2: search_indexer::engine::Engine::put::{{closure}}
             at /src/engine.rs:{88}:9
   3: search_indexer::index::apply::{{closure}}
             at /src/index.rs:{47}:31",
            TOKIO,
        ],
        context: &[("index", "products-v7"), ("node", "search-data-2")],
    },
    run_ms: (15, 80),
};
