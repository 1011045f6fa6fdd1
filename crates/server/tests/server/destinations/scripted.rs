//! A destination in memory that does as it is told.

use std::sync::Mutex;

use async_trait::async_trait;
use lazaret_core::attempt::LetterError;
use lazaret_server::destination::{Destination, Outgoing, Refusal, Route, Sent, Silence, Verified};

/// What it does with the next letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    Accepts,
    Refuses,
    /// Nobody knows what became of them.
    Loses,
}

#[derive(Debug)]
pub struct Scripted {
    mood: Mutex<Mood>,
    received: Mutex<Vec<Outgoing>>,
}

impl Scripted {
    pub fn new() -> Scripted {
        Scripted { mood: Mutex::new(Mood::Accepts), received: Mutex::default() }
    }

    pub fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn received(&self) -> Vec<Outgoing> {
        self.received.lock().unwrap().clone()
    }
}

#[async_trait]
impl Destination for Scripted {
    fn address(&self) -> String {
        "memory".to_owned()
    }

    fn deduplicates(&self) -> bool {
        false
    }

    async fn route(&self, _: &Outgoing) -> Result<Route, String> {
        Ok(Route { address: self.address(), also_reaches: Vec::new() })
    }

    async fn send(&self, outgoing: &Outgoing) -> Sent {
        self.received.lock().unwrap().push(outgoing.clone());
        match *self.mood.lock().unwrap() {
            Mood::Accepts => Sent::Delivered { evidence: "delivered", handle: None },
            Mood::Refuses => {
                let (error_type, message) = ("Scripted".to_owned(), "told to refuse".to_owned());
                let error = LetterError { error_type, message, ..LetterError::default() };
                Sent::Refused(Box::new(Refusal { status: None, error }))
            }
            Mood::Loses => Sent::Unknown("told to lose it".to_owned()),
        }
    }

    async fn verify(&self, _: &Outgoing) -> Verified {
        Verified::Taken(Silence::Succeeds { after_ms: 60_000 })
    }
}
