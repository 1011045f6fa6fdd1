//! RabbitMQ keeps the contract of all sources.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use lazaret_core::broker::rabbitmq::{self, DlqMessage};
use lazaret_core::origin::{Origin, RabbitMqOrigin};
use lazaret_core::time::Time;
use lazaret_sources::Source;
use lazaret_sources::destination::Destination;
use lazaret_sources::testing::{Message, Rig, Taken};

use crate::rabbitmq_app::{DLQ, QUEUE, RabbitApp, header};

/// An application whose worker publishes what it gives up to the dead-letter queue.
struct RabbitRig {
    app: RabbitApp,
    next: AtomicU32,
}

#[async_trait]
impl Rig for RabbitRig {
    fn source(&self) -> Arc<dyn Source> {
        self.app.source()
    }

    fn destination(&self) -> Arc<dyn Destination> {
        self.app.source()
    }

    async fn put_dead(&self, message: &Message) -> String {
        let id = format!("message-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (error_type, text) = message.error.split_once(": ").unwrap();
        let at = Some(Time::from_ms(1_763_175_600_000));
        let dead = DlqMessage {
            error_type: error_type.to_owned(),
            error_message: text.to_owned(),
            retry_count: message.retry_count,
            first_attempt_at: at,
            last_attempt_at: at,
            dlq_at: at,
            service: "orders".to_owned(),
            ..DlqMessage::new(Bytes::from(message.body.clone()))
        };
        let mut headers = FieldTable::default();
        for (name, value) in [
            (rabbitmq::ORIGINAL_QUEUE, QUEUE),
            (rabbitmq::ORIGINAL_EXCHANGE, ""),
            (rabbitmq::ORIGINAL_ROUTING_KEY, QUEUE),
            (rabbitmq::ORIGINAL_CONTENT_TYPE, "application/json"),
            ("x-aggregate", message.aggregate.as_str()),
        ] {
            headers.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let properties = BasicProperties::default()
            .with_message_id(id.as_str().into())
            .with_type(message.event_type.as_str().into())
            .with_delivery_mode(2)
            .with_headers(headers);
        self.app.publish(DLQ, properties, &dead.to_json()).await;
        id
    }

    fn origin(&self, _: &Message) -> Option<Origin> {
        Some(Origin::RabbitMq(RabbitMqOrigin {
            vhost: self.app.vhost.name.clone(),
            exchange: String::new(),
            routing_key: QUEUE.to_owned(),
            queue: Some(QUEUE.to_owned()),
        }))
    }

    async fn take(&self) -> Vec<Taken> {
        let taken = self.app.take().await.into_iter().map(|delivery| Taken {
            message_id: header(&delivery, "Lazaret-Event-Id").unwrap(),
            body: Bytes::from(delivery.data),
        });
        taken.collect()
    }

    async fn cut(&self) {
        self.app.cable.cut().await;
    }

    async fn heal(&self) {
        self.app.cable.heal().await;
    }
}

async fn rig() -> RabbitRig {
    RabbitRig { app: RabbitApp::start().await, next: AtomicU32::new(1) }
}

lazaret_sources::source_contract!(rig);
