//! A subscriber as redrives meet it: a real HTTP server that writes down what it gets and answers as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use lazaret_server::config::{Config, DestinationConfig, DestinationUrl, Success};

/// One request.
#[derive(Clone, Debug)]
pub struct Got {
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Clone, Default)]
struct Desk {
    got: Arc<Mutex<Vec<Got>>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
}

pub struct Receiver {
    url: String,
    desk: Desk,
}

impl Receiver {
    pub async fn start() -> Receiver {
        let desk = Desk::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(desk.clone());
        // It ends with the test's runtime.
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Receiver { url, desk }
    }

    /// Answers with these, in order, and with 200 from then on.
    pub fn answers(&self, statuses: &[u16]) {
        self.desk.answers.lock().unwrap().extend(statuses);
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn got(&self) -> Vec<Got> {
        self.desk.got.lock().unwrap().clone()
    }

    /// A configuration in which letters of `report` go back here.
    pub fn config(&self, success: Success) -> Config {
        let mut config = Config::default();
        let report = config.sources.get_mut("report").unwrap();
        report.destination = Some(DestinationConfig {
            allow_private: true,
            success,
            ..DestinationConfig::new(DestinationUrl::parse(&self.url).unwrap())
        });
        config
    }
}

async fn take(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> StatusCode {
    desk.got.lock().unwrap().push(Got { headers, body });
    let next = desk.answers.lock().unwrap().pop_front();
    StatusCode::from_u16(next.unwrap_or(200)).unwrap()
}
