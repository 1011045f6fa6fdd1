//! The contract that every source has to keep, as cases over a rig. Each source brings a rig and runs them all.

#![allow(clippy::panic, clippy::expect_used, reason = "a case that does not hold has failed")]

pub mod suite;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use lazaret_core::origin::Origin;

use crate::Source;
use crate::destination::Destination;

/// A message as an application has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub event_type: String,
    pub aggregate: String,
    /// JSON, because every source takes it.
    pub body: String,
    pub error: String,
    pub retry_count: u32,
}

impl Message {
    /// One of many that are alike.
    pub fn numbered(number: usize) -> Message {
        Message {
            event_type: "OrderCreated".to_owned(),
            aggregate: format!("order-{number}"),
            body: format!("{{\"number\": {number}}}"),
            error: "TimeoutError: the warehouse did not answer".to_owned(),
            retry_count: 5,
        }
    }
}

/// What the application got back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    pub message_id: String,
    pub body: Bytes,
}

/// A real server of one kind with an application beside it.
#[async_trait]
pub trait Rig: Send + Sync {
    /// Opens the source anew, as a process that starts does.
    fn source(&self) -> Arc<dyn Source>;

    /// The way back of the same source.
    fn destination(&self) -> Arc<dyn Destination>;

    /// Lets a message die at the application; gives its id.
    async fn put_dead(&self, message: &Message) -> String;

    /// Where such a message comes from, as its letter keeps it; nothing where a destination does not route by it.
    fn origin(&self, _: &Message) -> Option<Origin> {
        None
    }

    /// Takes what was put back as the application does, and processes it with success.
    async fn take(&self) -> Vec<Taken>;

    /// Cuts the server off: whatever is connected is lost, and nobody can connect.
    async fn cut(&self);

    /// Undoes the cut.
    async fn heal(&self);
}

/// Makes a test of each case. `$rig` is an async function that starts a rig.
#[macro_export]
macro_rules! source_contract {
    ($rig:path) => {
        $crate::source_contract!($rig:
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
            a_check_tells_what_is_wrong,
        );
    };
    ($rig:path: $($case:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            $crate::testing::suite::$case(&$rig().await).await;
        })*
    };
}
