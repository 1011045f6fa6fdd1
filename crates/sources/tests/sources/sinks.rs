//! Receivers that do what a test says.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use async_trait::async_trait;
use lazaret_core::attempt::LetterError;
use lazaret_sources::sink::{Delivery, Sink, Sunk};

/// Answers as told, by aggregate or by id, and takes whatever it was told nothing of.
#[derive(Debug, Default)]
pub struct Scripted {
    answers: Mutex<BTreeMap<String, VecDeque<Sunk>>>,
    always: Mutex<BTreeMap<String, Sunk>>,
    got: Mutex<Vec<Delivery>>,
}

impl Scripted {
    pub fn next(&self, of: &str, sunk: Sunk) {
        self.answers.lock().unwrap().entry(of.to_owned()).or_default().push_back(sunk);
    }

    pub fn always(&self, of: &str, sunk: Sunk) {
        self.always.lock().unwrap().insert(of.to_owned(), sunk);
    }

    pub fn got(&self) -> Vec<Delivery> {
        self.got.lock().unwrap().clone()
    }

    /// The ids in the order in which they came.
    pub fn keys(&self) -> Vec<String> {
        self.got().into_iter().map(|delivery| delivery.idempotency_key).collect()
    }
}

/// An answer over HTTP that means no.
pub fn answered(status: u16) -> Sunk {
    Sunk::Failed(Box::new(LetterError {
        error_type: "HttpAnswer".to_owned(),
        code: Some(status.to_string()),
        message: format!("http://shop answered {status}"),
        ..LetterError::default()
    }))
}

#[async_trait]
impl Sink for Scripted {
    fn name(&self) -> &str {
        "shop"
    }

    fn address(&self) -> String {
        "http://shop/".to_owned()
    }

    async fn deliver(&self, delivery: &Delivery) -> Sunk {
        self.got.lock().unwrap().push(delivery.clone());
        let mut answers = self.answers.lock().unwrap();
        let always = self.always.lock().unwrap();
        let names = [Some(&delivery.idempotency_key), delivery.aggregate_id.as_ref()];
        for name in names.into_iter().flatten() {
            if let Some(sunk) = answers.get_mut(name).and_then(VecDeque::pop_front) {
                return sunk;
            }
            if let Some(sunk) = always.get(name) {
                return sunk.clone();
            }
        }
        Sunk::Delivered
    }
}
