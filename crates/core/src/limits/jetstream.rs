//! Limits of NATS JetStream as a source.

/// How long one request to the server may take. A redrive has to end well before its claim does.
pub const JETSTREAM_REQUEST_MS_MAX: u64 = 5_000;

/// How long a redriven message is published again while nobody knows whether it was stored. Its last request ends before the
/// send is given up.
pub const JETSTREAM_SEND_MS_MAX: u64 = 30_000;

const _: () = assert!(JETSTREAM_SEND_MS_MAX + JETSTREAM_REQUEST_MS_MAX < super::DESTINATION_MS_MAX);

/// How long a connection may take, name resolution and TLS included.
pub const JETSTREAM_CONNECT_MS_MAX: u64 = 5_000;

/// How often the server is asked whether it is still there: a connection that died silently is noticed after two.
pub const JETSTREAM_PING_MS: u64 = 10_000;

/// Advisories, receipts or metrics that one pull asks for.
pub const JETSTREAM_MESSAGES_MAX: usize = 200;

/// Dead letters that one pull asks for: one commit of a capture, which keeps the embedded store's writer for some 50 ms.
pub const JETSTREAM_CAPTURE_MESSAGES_MAX: usize = 500;

/// Bytes that one pull asks for.
pub const JETSTREAM_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How long a dead letter may wait for its acknowledgement before the server offers it again, to any instance.
pub const JETSTREAM_ACK_WAIT_MS: u64 = 30_000;

/// Dead letters and advisories that may be out unacknowledged, over all instances. Beyond, the server waits.
pub const JETSTREAM_ACK_PENDING_MAX: u64 = 5_000;

/// Advisories that are worked on at once.
pub const JETSTREAM_BRIDGE_CONCURRENCY: usize = 32;

/// Deliveries of one advisory before it becomes a dead letter itself: it fails for a reason that does not pass.
pub const JETSTREAM_ADVISORY_DELIVERIES_MAX: u64 = 20;

/// How long a published message is recognised again by its id: a copy by a worker and one by the bridge are one. The server keeps
/// some hundred bytes per message for it.
pub const JETSTREAM_DUPLICATE_WINDOW_MS: u64 = 3_600_000;

/// Deliveries before a message is dead, where nothing else is configured.
pub const JETSTREAM_MAX_DELIVER: u32 = 5;

/// How long information on streams is trusted: their creation time, retention and consumers.
pub const JETSTREAM_INFO_MS: u64 = 10_000;

/// How long acknowledgements and metrics of them are kept at the server, and how many bytes of them.
pub const JETSTREAM_METRICS_AGE_MS: u64 = 3_600_000;
pub const JETSTREAM_METRICS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Acknowledgements that are remembered for verification, some 100 bytes each.
pub const JETSTREAM_ACKS_REMEMBERED_MAX: usize = 100_000;

/// How long after the last send the sampling of acknowledgements stays on.
pub const JETSTREAM_SAMPLING_MS: u64 = 180_000;

/// How often the sweep looks at the watched consumers.
pub const JETSTREAM_SWEEP_MS: u64 = 30_000;

/// Exhausted messages that are followed up at a time, over all instances. Beyond, the server waits.
pub const JETSTREAM_FOLLOWED_MAX: u64 = 10_000;

/// How long after its death an acknowledgement of a message is looked for: longer than most handlers run, and well within
/// the time that acknowledgements are kept.
pub const JETSTREAM_LATE_ACK_MS: i64 = 900_000;
