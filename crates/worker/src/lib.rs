//! Retry with backoff, then dead letter: handlers of messages for services that consume from a broker.
