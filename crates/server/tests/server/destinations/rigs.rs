//! The two kinds of destination, each with the other side in the test's hand.

use std::sync::Arc;

use lazaret_core::time::Time;
use lazaret_server::clock::Clock;
use lazaret_server::config::{DestinationConfig, DestinationUrl, Secret};
use lazaret_server::destination::{Destination, HttpDestination, Tls};

use super::receiver::{Reaction, Receiver};
use super::scripted::{Mood, Scripted};

/// What the other side got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    pub letter: String,
    pub life: String,
    pub redrive: String,
    pub idempotency_key: String,
    pub content_type: String,
    pub body: Vec<u8>,
}

/// A destination whose other side takes what comes and does as it is told. At first it accepts.
pub trait Rig: Send + Sync {
    fn destination(&self) -> Arc<dyn Destination>;
    /// The work succeeds.
    fn accept(&self);
    /// It is said that the work failed.
    fn refuse(&self);
    /// Nothing is said.
    fn hang(&self);
    /// The connection breaks before anything is said.
    fn cut(&self);
    fn heal(&self) {
        self.accept();
    }
    fn received(&self) -> Vec<Received>;
}

pub struct ScriptedRig(Arc<Scripted>);

impl ScriptedRig {
    pub fn new() -> ScriptedRig {
        ScriptedRig(Arc::new(Scripted::new()))
    }
}

impl Rig for ScriptedRig {
    fn destination(&self) -> Arc<dyn Destination> {
        Arc::clone(&self.0) as Arc<dyn Destination>
    }

    fn accept(&self) {
        self.0.be(Mood::Accepts);
    }

    fn refuse(&self) {
        self.0.be(Mood::Refuses);
    }

    fn hang(&self) {
        self.0.be(Mood::Loses);
    }

    fn cut(&self) {
        self.0.be(Mood::Loses);
    }

    fn received(&self) -> Vec<Received> {
        let seen = self.0.received().into_iter().map(|outgoing| Received {
            letter: outgoing.letter.to_string(),
            life: outgoing.life.to_string(),
            redrive: outgoing.redrive.to_string(),
            idempotency_key: outgoing.idempotency_key,
            content_type: outgoing.content_type,
            body: outgoing.body.to_vec(),
        });
        seen.collect()
    }
}

pub struct HttpRig {
    pub receiver: Receiver,
    destination: Arc<HttpDestination>,
}

/// What the receiver and the destination share.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// How long a destination of these tests waits for an answer that never comes. Half of it is for the connection, which a
/// busy machine must make in time.
const SILENCE_MS: u64 = 2_000;

/// A destination at this address that may be on this machine.
pub fn config(url: &str) -> DestinationConfig {
    let mut config = DestinationConfig::new(DestinationUrl::parse(url).unwrap());
    config.allow_private = true;
    config.secret = Some(Secret::parse(SECRET).unwrap());
    config
}

pub fn open(config: DestinationConfig) -> Arc<HttpDestination> {
    let clock = Clock::fixed(Time::parse(crate::rig::START).unwrap());
    Arc::new(HttpDestination::new(config, &Tls::of_the_machine(), clock).unwrap())
}

impl HttpRig {
    pub async fn new() -> HttpRig {
        HttpRig::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut DestinationConfig)) -> HttpRig {
        let receiver = Receiver::new().await;
        let mut config = config(&receiver.url());
        change(&mut config);
        HttpRig { receiver, destination: open(config) }
    }

    /// The same receiver for a destination that soon loses patience.
    fn impatient(&self) -> Arc<HttpDestination> {
        let mut config = config(&self.receiver.url());
        config.timeout_ms = SILENCE_MS;
        open(config)
    }
}

impl Rig for HttpRig {
    fn destination(&self) -> Arc<dyn Destination> {
        match self.receiver.reaction() {
            Reaction::Hang => self.impatient(),
            Reaction::Say(_)
            | Reaction::SayAndClose(_)
            | Reaction::Drip(_)
            | Reaction::Reset
            | Reaction::Hold(_) => Arc::clone(&self.destination) as Arc<dyn Destination>,
        }
    }

    fn accept(&self) {
        self.receiver.react(Reaction::answer("204 No Content", ""));
    }

    fn refuse(&self) {
        self.receiver.react(Reaction::answer("422 Unprocessable Content", "no such order"));
    }

    fn hang(&self) {
        self.receiver.react(Reaction::Hang);
    }

    fn cut(&self) {
        self.receiver.react(Reaction::Reset);
    }

    fn received(&self) -> Vec<Received> {
        let seen = self.receiver.requests().into_iter().map(|request| Received {
            letter: request.header("lazaret-letter-id"),
            life: request.header("lazaret-life"),
            redrive: request.header("lazaret-redrive-id"),
            idempotency_key: request.header("idempotency-key"),
            content_type: request.header("content-type"),
            body: request.body,
        });
        seen.collect()
    }
}
