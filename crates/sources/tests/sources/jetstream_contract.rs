//! JetStream keeps the contract of all sources, on both versions of the server.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::AckKind;
use async_trait::async_trait;
use lazaret_brokers::nats::Version;
use lazaret_core::attempt::LetterError;
use lazaret_core::broker::{BrokerDeath, DeathReason, HEADER_BYTES_MAX, MESSAGE_ID};
use lazaret_core::origin::{JetStreamOrigin, Origin};
use lazaret_sources::Source;
use lazaret_sources::destination::Destination;
use lazaret_sources::testing::{Message, Rig, Taken};

use crate::jetstream_app::NatsApp;

/// An application whose worker copies what it gives up into the dead-letter stream and terminates it then.
struct NatsRig(NatsApp);

impl NatsRig {
    /// A redriven message is received under the id of its letter.
    fn taken(message: &async_nats::jetstream::Message) -> Taken {
        let headers = message.headers.as_ref().unwrap();
        Taken {
            message_id: headers.get("Lazaret-Event-Id").unwrap().to_string(),
            body: message.payload.clone(),
        }
    }
}

#[async_trait]
impl Rig for NatsRig {
    fn source(&self) -> Arc<dyn Source> {
        self.0.source()
    }

    fn destination(&self) -> Arc<dyn Destination> {
        self.0.source()
    }

    async fn put_dead(&self, message: &Message) -> String {
        let mut headers = HeaderMap::new();
        headers.insert("Aggregate", message.aggregate.as_str());
        let sequence = self.0.publish(&message.event_type, headers.clone(), &message.body).await;
        let (error_type, text) = message.error.split_once(": ").unwrap();
        let origin = self.0.origin(sequence);
        let death = BrokerDeath {
            origin: Some(origin.clone()),
            original_subject: Some(message.event_type.clone()),
            deliveries: Some(u64::from(message.retry_count)),
            reason: Some(DeathReason::Exhausted),
            error: Some(LetterError {
                error_type: error_type.to_owned(),
                message: text.to_owned(),
                ..LetterError::default()
            }),
            ..BrokerDeath::default()
        };
        for (name, value) in death.headers(HEADER_BYTES_MAX) {
            headers.insert(name, value.as_str());
        }
        headers.insert(MESSAGE_ID, origin.message_id().as_str());
        self.0.publish(&origin.dead_letter_subject(), headers, &message.body).await;
        for taken in self.0.pull(1, Duration::from_secs(5)).await {
            taken.double_ack_with(AckKind::Term).await.unwrap();
        }
        self.0.message_id(sequence)
    }

    fn origin(&self, message: &Message) -> Option<Origin> {
        Some(Origin::JetStream(JetStreamOrigin {
            stream: Some("ORDERS".to_owned()),
            subject: message.event_type.clone(),
            consumer: Some("worker".to_owned()),
            ..JetStreamOrigin::default()
        }))
    }

    async fn take(&self) -> Vec<Taken> {
        let messages = self.0.pull(100, Duration::from_millis(500)).await;
        for message in &messages {
            message.double_ack().await.unwrap();
        }
        messages.iter().map(NatsRig::taken).collect()
    }

    async fn cut(&self) {
        self.0.kill().await;
    }

    async fn heal(&self) {
        self.0.start_again().await;
    }
}

mod current {
    use super::{NatsApp, NatsRig, Version};

    async fn rig() -> NatsRig {
        NatsRig(NatsApp::start(Version::Current).await)
    }

    lazaret_sources::source_contract!(rig);
}

mod debian {
    use super::{NatsApp, NatsRig, Version};

    async fn rig() -> NatsRig {
        NatsRig(NatsApp::start(Version::Debian).await)
    }

    // All but the check, which warns of this version.
    lazaret_sources::source_contract!(rig:
        a_dead_message_is_handed_over_whole,
        what_is_not_acknowledged_comes_again_to_the_next_process,
        what_is_acknowledged_does_not_come_again,
        what_is_released_comes_again,
        what_is_released_comes_again_only_after_a_pause,
        each_of_many_is_handed_over,
        what_dies_while_somebody_waits_is_handed_over,
        a_cut_is_told_and_nothing_is_lost_by_it,
        stopping_in_the_middle_loses_nothing,
        a_letter_goes_back_and_is_verified,
        a_letter_that_is_sent_twice_is_taken_once,
        an_edited_letter_goes_back_as_edited,
    );
}
