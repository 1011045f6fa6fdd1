//! Limits of RabbitMQ as a source.

/// How long one request to the broker may take. A redrive has to end well before its claim does.
pub const RABBITMQ_REQUEST_MS_MAX: u64 = 5_000;

/// How long a connection to one server may take, name resolution and TLS included.
pub const RABBITMQ_CONNECT_MS_MAX: u64 = 5_000;

/// How often broker and client tell each other that they are there: a connection that died silently is noticed after two.
pub const RABBITMQ_HEARTBEAT_S: u16 = 10;

/// Dead letters of one queue that may be out unacknowledged at one instance, where nothing else is configured. One commit of a
/// capture takes as many, which keeps the embedded store's writer for some 50 ms.
pub const RABBITMQ_PREFETCH: u16 = 500;

/// Dead letters of one queue that may be out unacknowledged at most: all of them are in memory.
pub const RABBITMQ_PREFETCH_MAX: u16 = 5_000;

/// Dead letters that one capture hands over.
pub const RABBITMQ_CAPTURE_MESSAGES_MAX: usize = 500;

/// Bytes of bodies that one capture hands over, one message at least.
pub const RABBITMQ_CAPTURE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Receipts that may be out unacknowledged.
pub const RABBITMQ_RECEIPTS_MAX: u16 = 200;

/// Redriven letters that may wait for their confirms at once, each on a channel of its own. Brokers allow 2,047 channels.
pub const RABBITMQ_PUBLISHING_MAX: usize = 64;

/// Letters that were seen taken from their queue, and messages without an id, that are remembered, some 100 bytes each.
pub const RABBITMQ_REMEMBERED_MAX: usize = 100_000;

/// How long depths of queues are trusted.
pub const RABBITMQ_INFO_MS: u64 = 10_000;

/// Bytes of a name of a queue, an exchange or a routing key.
pub const RABBITMQ_NAME_BYTES_MAX: usize = 255;

/// Dead-letter queues of one source: each has a consumer of its own.
pub const RABBITMQ_QUEUES_MAX: usize = 200;

/// How long the management API may take to answer; a node with thousands of queues needs seconds.
pub const RABBITMQ_MANAGEMENT_MS_MAX: u64 = 10_000;
