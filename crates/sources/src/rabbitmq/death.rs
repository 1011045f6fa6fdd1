//! Why and where a message died, as its headers tell: those of RabbitMQ itself (`x-death`), of our worker library, and of
//! frameworks. Names are compared as they are spelled; what makes no sense is left out.

use lazaret_core::attempt::LetterError;
use lazaret_core::broker::{self, BrokerDeath, rabbitmq};
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::time::Time;

/// RabbitMQ's own history of a dead message: a table for each queue and reason, the newest first.
const X_DEATH: &str = "x-death";

/// What RabbitMQ adds when it dead-letters, and when it counts deliveries of a quorum queue.
const OF_BROKER: [&str; 10] = [
    X_DEATH,
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
    DELIVERY_COUNT,
    "x-acquired-count",
    "x-opt-deaths",
];

/// Routing keys beside the one that a message is published with: whoever publishes it so reaches their queues as well.
pub(super) const CC: &str = "CC";

/// How often a quorum queue delivered a message before; it grows with each delivery.
const DELIVERY_COUNT: &str = "x-delivery-count";

/// What frameworks add when they give a message up, by the beginning of the name.
const OF_FRAMEWORKS: [&str; 8] = [
    "x-exception-",
    "x-original-routingKey",
    "MT-Fault-",
    "MT-Reason",
    "NServiceBus.ExceptionInfo.",
    "NServiceBus.FailedQ",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.DelayedRetries",
];

/// Headers by name.
#[derive(Clone, Copy)]
pub(super) struct Named<'a>(pub &'a Headers);

/// What the headers of a message say about its death.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Death {
    pub error: Option<LetterError>,
    pub at: Option<Time>,
    pub retry_count: Option<u32>,
    /// The queue that it died in.
    pub queue: Option<String>,
    /// Where it was published first.
    pub exchange: Option<String>,
    pub routing_key: Option<String>,
    pub service: Option<String>,
    /// The message's type as a framework names it.
    pub message_type: Option<String>,
    /// The `expiration` that it was published with, which RabbitMQ takes away when it dead-letters.
    pub expiration: Option<String>,
    /// Who told it, for the letter's data.
    pub told_by: Option<&'static str>,
}

impl<'a> Named<'a> {
    pub fn value(self, name: &str) -> Option<&'a HeaderValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A text that is not empty.
    pub fn text(self, name: &str) -> Option<&'a str> {
        let text = match self.value(name)? {
            HeaderValue::Text(text) | HeaderValue::ShortText(text) => text.as_str(),
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    fn owned(self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub fn number(self, name: &str) -> Option<i64> {
        self.value(name)?.simple_text()?.parse().ok()
    }

    fn count(self, name: &str) -> Option<u32> {
        self.number(name).and_then(|count| u32::try_from(count).ok())
    }
}

impl Death {
    /// Reads the headers of a message that lies in the dead-letter queue `dead_letter_queue`.
    pub fn read(headers: Named<'_>, dead_letter_queue: &str) -> Death {
        let worker = of_worker(headers);
        let framework = spring(headers)
            .or_else(|| mass_transit(headers))
            .or_else(|| nservicebus(headers))
            .or_else(|| celery(headers))
            .unwrap_or_default();
        worker.or(framework).or(of_broker(headers, dead_letter_queue))
    }

    /// What is known here, and of the rest what the other knows.
    pub fn or(self, other: Death) -> Death {
        Death {
            error: self.error.or(other.error),
            at: self.at.or(other.at),
            retry_count: self.retry_count.or(other.retry_count),
            queue: self.queue.or(other.queue),
            exchange: self.exchange.or(other.exchange),
            routing_key: self.routing_key.or(other.routing_key),
            service: self.service.or(other.service),
            message_type: self.message_type.or(other.message_type),
            expiration: self.expiration.or(other.expiration),
            told_by: self.told_by.or(other.told_by),
        }
    }
}

/// Returns true for a header that was added because the message failed: a redrive leaves it out, so that the next failure is
/// counted from the beginning.
pub(super) fn is_added_at_death(name: &str) -> bool {
    OF_BROKER.contains(&name)
        || rabbitmq::RETRY_HEADERS.contains(&name)
        || OF_FRAMEWORKS.iter().any(|prefix| name.starts_with(prefix))
        || is_of_worker(name)
}

/// Returns true for a header that changes from one delivery of a message to the next.
pub(super) fn is_of_delivery(name: &str) -> bool {
    name == DELIVERY_COUNT || name == "x-acquired-count"
}

/// Returns true for a header that our worker library adds to a dead message.
pub(super) fn is_of_worker(name: &str) -> bool {
    rabbitmq::RETRY_HEADERS.contains(&name)
        || [
            broker::ATTEMPTS,
            broker::REASON,
            broker::ERROR_TYPE,
            broker::ERROR_MESSAGE,
            broker::ERROR_CODE,
            broker::ERROR_CLASS,
            broker::BACKTRACE,
            broker::FIRST_ATTEMPT_AT,
            broker::LAST_ATTEMPT_AT,
            broker::SERVICE_VERSION,
            broker::DELIVERIES,
        ]
        .contains(&name)
}

/// The headers of our worker library, which programs without it may set as well.
fn of_worker(headers: Named<'_>) -> Death {
    let told = BrokerDeath::read(|name| headers.text(name));
    let seconds = headers.number(rabbitmq::LAST_ATTEMPT_TIMESTAMP);
    let last_at = told.attempts.last().and_then(|attempt| attempt.at).or(told.last_attempt_at);
    Death {
        error: told.error,
        at: last_at.or_else(|| seconds.map(|seconds| Time::from_ms(seconds.saturating_mul(1_000)))),
        retry_count: headers.count(rabbitmq::RETRY_COUNT),
        queue: headers.owned(rabbitmq::ORIGINAL_QUEUE),
        // The default exchange has an empty name.
        exchange: headers
            .value(rabbitmq::ORIGINAL_EXCHANGE)
            .and_then(HeaderValue::as_text)
            .map(str::to_owned),
        routing_key: headers.owned(rabbitmq::ORIGINAL_ROUTING_KEY),
        ..Death::default()
    }
}

/// Spring AMQP's `RepublishMessageRecoverer`.
fn spring(headers: Named<'_>) -> Option<Death> {
    let (message, trace) = (headers.owned("x-exception-message"), headers.owned("x-exception-stacktrace"));
    if message.is_none() && trace.is_none() {
        return None;
    }
    // The innermost exception is the last `Caused by:`; the message is that of the cause.
    let first_line = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let caused = trace.as_deref().and_then(|trace| trace.rsplit("\nCaused by: ").next()).map(first_line);
    let error_type = caused.map(|line| line.split(':').next().unwrap_or_default().trim().to_owned());
    Some(Death {
        error: Some(LetterError {
            error_type: error_type.filter(|name| is_name(name)).unwrap_or_default(),
            message: message.unwrap_or_default(),
            backtrace: trace,
            ..LetterError::default()
        }),
        exchange: headers
            .value(rabbitmq::ORIGINAL_EXCHANGE)
            .and_then(HeaderValue::as_text)
            .map(str::to_owned),
        routing_key: headers.owned("x-original-routingKey"),
        message_type: headers.owned("__TypeId__"),
        told_by: Some("spring"),
        ..Death::default()
    })
}

/// MassTransit's error queues.
fn mass_transit(headers: Named<'_>) -> Option<Death> {
    let error_type = headers.owned("MT-Fault-ExceptionType");
    let message = headers.owned("MT-Fault-Message");
    if error_type.is_none() && message.is_none() {
        return None;
    }
    let queue = headers.text("MT-Fault-InputAddress").and_then(|address| {
        let path = address.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next().filter(|queue| !queue.is_empty()).map(str::to_owned)
    });
    Some(Death {
        error: Some(LetterError {
            error_type: error_type.unwrap_or_default(),
            message: message.unwrap_or_default(),
            backtrace: headers.owned("MT-Fault-StackTrace"),
            ..LetterError::default()
        }),
        at: headers.text("MT-Fault-Timestamp").and_then(|at| Time::parse(at).ok()),
        retry_count: headers.count("MT-Fault-RetryCount"),
        queue,
        service: headers.owned("MT-Fault-ConsumerType"),
        message_type: headers.owned("MT-Fault-MessageType"),
        told_by: Some("masstransit"),
        ..Death::default()
    })
}

/// NServiceBus' error queues.
fn nservicebus(headers: Named<'_>) -> Option<Death> {
    let error_type = headers.owned("NServiceBus.ExceptionInfo.ExceptionType");
    let message = headers.owned("NServiceBus.ExceptionInfo.Message");
    if error_type.is_none() && message.is_none() {
        return None;
    }
    let types = headers.text("NServiceBus.EnclosedMessageTypes");
    Some(Death {
        error: Some(LetterError {
            error_type: error_type.unwrap_or_default(),
            message: message.unwrap_or_default(),
            backtrace: headers.owned("NServiceBus.ExceptionInfo.StackTrace"),
            ..LetterError::default()
        }),
        at: headers.text("NServiceBus.TimeOfFailure").and_then(nservicebus_time),
        retry_count: headers.count("NServiceBus.DelayedRetries"),
        // `queue@machine` on some transports.
        queue: headers.text("NServiceBus.FailedQ").and_then(|it| it.split('@').next()).map(str::to_owned),
        service: headers.owned("NServiceBus.ProcessingEndpoint"),
        message_type: types.and_then(|it| it.split([',', ';']).next()).map(|it| it.trim().to_owned()),
        told_by: Some("nservicebus"),
        ..Death::default()
    })
}

/// `2014-11-11 02:26:58:000462 Z`.
fn nservicebus_time(text: &str) -> Option<Time> {
    let (day, rest) = text.trim().split_once(' ')?;
    let (time, micros) = rest.trim_end_matches(" Z").rsplit_once(':')?;
    Time::parse(&format!("{day}T{time}.{micros}Z")).ok()
}

/// Celery's task messages: they tell the task and its retries, RabbitMQ tells why they died.
fn celery(headers: Named<'_>) -> Option<Death> {
    let task = headers.owned("task")?;
    headers.text("id").filter(|_| headers.text("lang").is_some())?;
    let retry_count = headers.count("retries");
    Some(Death { message_type: Some(task), retry_count, told_by: Some("celery"), ..Death::default() })
}

/// What RabbitMQ itself wrote.
fn of_broker(headers: Named<'_>, dead_letter_queue: &str) -> Death {
    let Some(HeaderValue::Array(entries)) = headers.value(X_DEATH) else { return Death::default() };
    let entries: Vec<&Headers> = entries
        .iter()
        .filter_map(|entry| match entry {
            HeaderValue::Table(entry) => Some(entry),
            _ => None,
        })
        .collect();
    // A message that passed through the dead-letter queue before did not die there.
    let newest = entries.iter().find(|entry| Named(entry).text("queue") != Some(dead_letter_queue));
    let Some(newest) = newest.map(|entry| Named(entry)) else { return Death::default() };
    let first = entries.last().map_or(newest, |entry| Named(entry));
    let queue = newest.text("queue").unwrap_or_default();
    let routing_key = match first.value("routing-keys") {
        Some(HeaderValue::Array(keys)) => keys.first().and_then(HeaderValue::as_text).map(str::to_owned),
        _ => None,
    };
    let at = match newest.value("time") {
        Some(HeaderValue::Timestamp(seconds)) => i64::try_from(*seconds).ok(),
        _ => None,
    };
    Death {
        error: newest.text("reason").map(|reason| broker_error(reason, queue)),
        at: at.map(|seconds| Time::from_ms(seconds.saturating_mul(1_000))),
        // Each time but the first was a retry.
        retry_count: newest.count("count").map(|count| count.saturating_sub(1)),
        queue: (!queue.is_empty()).then(|| queue.to_owned()),
        exchange: first.value("exchange").and_then(HeaderValue::as_text).map(str::to_owned),
        routing_key,
        expiration: entries.iter().rev().find_map(|entry| Named(entry).owned("original-expiration")),
        told_by: Some("x-death"),
        ..Death::default()
    }
}

/// The reason of a dead-lettering as an error.
fn broker_error(reason: &str, queue: &str) -> LetterError {
    let message = match reason {
        "rejected" => format!("rejected by a consumer of queue {queue} without requeueing"),
        "expired" => format!("expired in queue {queue}: the message or the queue has a TTL"),
        "maxlen" => format!("dropped from queue {queue}: the queue is at its maximum length"),
        "delivery_limit" => format!("returned to queue {queue} more often than its delivery limit allows"),
        other => format!("dead-lettered from queue {queue}: {other}"),
    };
    LetterError { error_type: reason.to_owned(), message, ..LetterError::default() }
}

/// Returns true for what looks like the name of a type, not like a sentence.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str, value: &str) -> (String, HeaderValue) {
        (name.to_owned(), HeaderValue::from(value))
    }

    fn entry(queue: &str, reason: &str, count: i64, exchange: &str, key: &str, seconds: u64) -> HeaderValue {
        HeaderValue::Table(vec![
            ("count".to_owned(), HeaderValue::Int64(count)),
            text("exchange", exchange),
            text("queue", queue),
            text("reason", reason),
            ("routing-keys".to_owned(), HeaderValue::Array(vec![HeaderValue::from(key)])),
            ("time".to_owned(), HeaderValue::Timestamp(seconds)),
        ])
    }

    #[test]
    fn the_newest_entry_tells_the_death_and_the_oldest_the_origin() {
        let deaths = HeaderValue::Array(vec![
            entry("orders-dlq", "expired", 1, "dlx", "dead", 400),
            entry("orders", "rejected", 3, "retry", "orders", 300),
            entry("orders.delay", "expired", 2, "shop", "order.created", 200),
        ]);
        let headers = vec![(X_DEATH.to_owned(), deaths)];
        let death = Death::read(Named(&headers), "orders-dlq");
        let error = death.error.clone().unwrap();
        assert_eq!(
            (error.error_type.as_str(), error.message.as_str()),
            ("rejected", "rejected by a consumer of queue orders without requeueing")
        );
        assert_eq!((death.at, death.retry_count), (Some(Time::from_ms(300_000)), Some(2)));
        let origin = (death.queue.as_deref(), death.exchange.as_deref(), death.routing_key.as_deref());
        assert_eq!(origin, (Some("orders"), Some("shop"), Some("order.created")));
    }

    #[test]
    fn what_is_no_history_of_deaths_is_left_out() {
        for value in [
            HeaderValue::from("x"),
            HeaderValue::Array(vec![]),
            HeaderValue::Array(vec![HeaderValue::Void, HeaderValue::Table(vec![])]),
        ] {
            let headers = vec![(X_DEATH.to_owned(), value)];
            let death = Death::read(Named(&headers), "dlq");
            assert_eq!((death.error, death.queue, death.at), (None, None, None));
        }
    }

    #[test]
    fn frameworks_are_understood() {
        let spring = vec![
            text("x-exception-message", "no answer"),
            text(
                "x-exception-stacktrace",
                "org.spring.ListenerException: failed\n\tat a.B.c(B.java:1)\nCaused by: java.net.SocketTimeoutException: \
                 no answer\n\tat d.E.f(E.java:2)",
            ),
            text("x-original-exchange", ""),
            text("x-original-routingKey", "order.created"),
        ];
        let death = Death::read(Named(&spring), "dlq");
        let error = death.error.unwrap();
        assert_eq!(
            (error.error_type.as_str(), error.message.as_str()),
            ("java.net.SocketTimeoutException", "no answer")
        );
        assert!(error.backtrace.unwrap().starts_with("org.spring"));
        assert_eq!(
            (death.exchange.as_deref(), death.routing_key.as_deref()),
            (Some(""), Some("order.created"))
        );

        let masstransit = vec![
            text("MT-Fault-ExceptionType", "System.TimeoutException"),
            text("MT-Fault-Message", "late"),
            text("MT-Fault-StackTrace", "at A.B()"),
            text("MT-Fault-Timestamp", "2026-11-15T03:00:00.5000000Z"),
            text("MT-Fault-InputAddress", "rabbitmq://host/shop/submit-order?durable=true"),
            text("MT-Fault-ConsumerType", "Shop.SubmitOrderConsumer"),
        ];
        let death = Death::read(Named(&masstransit), "submit-order_error");
        assert_eq!(death.error.unwrap().error_type, "System.TimeoutException");
        assert_eq!(death.at.unwrap().to_string(), "2026-11-15T03:00:00.500Z");
        assert_eq!((death.queue.as_deref(), death.told_by), (Some("submit-order"), Some("masstransit")));

        let nservicebus = vec![
            text("NServiceBus.ExceptionInfo.ExceptionType", "System.Exception"),
            text("NServiceBus.ExceptionInfo.Message", "bad"),
            text("NServiceBus.FailedQ", "sales@machine"),
            text("NServiceBus.TimeOfFailure", "2014-11-11 02:26:58:000462 Z"),
            text("NServiceBus.EnclosedMessageTypes", "Sales.PlaceOrder, Sales, Version=1.0"),
        ];
        let death = Death::read(Named(&nservicebus), "error");
        assert_eq!(
            (death.queue.as_deref(), death.message_type.as_deref()),
            (Some("sales"), Some("Sales.PlaceOrder"))
        );
        assert_eq!(death.at.unwrap().to_string(), "2014-11-11T02:26:58.000Z");

        let celery = vec![
            text("lang", "py"),
            text("task", "shop.tasks.charge"),
            text("id", "1f0c"),
            ("retries".to_owned(), HeaderValue::Int32(3)),
            (
                X_DEATH.to_owned(),
                HeaderValue::Array(vec![entry("celery", "rejected", 1, "celery", "celery", 1)]),
            ),
        ];
        let death = Death::read(Named(&celery), "celery-dlq");
        assert_eq!((death.message_type.as_deref(), death.retry_count), (Some("shop.tasks.charge"), Some(3)));
        assert_eq!(death.error.unwrap().error_type, "rejected");
    }

    #[test]
    fn what_was_added_at_death_is_known_by_name() {
        for name in
            ["x-death", "x-first-death-queue", "x-retry-count", "x-exception-message", "MT-Fault-Message"]
        {
            assert!(is_added_at_death(name), "{name}");
        }
        for name in
            ["traceparent", "x-my-header", "Lazaret-Letter-Id", "NServiceBus.MessageId", "task", "retries"]
        {
            assert!(!is_added_at_death(name), "{name}");
        }
    }
}
