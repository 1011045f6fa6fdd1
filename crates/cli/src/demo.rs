//! The invented shop behind `lazaret demo`: fourteen days of dead letters with outages, a bad deploy, a slow leak and
//! poison pills, and then a live trickle with bursts.
//!
//! Values in, values out: the same seed tells the same story. Only `feed` and `kept` know that there is a store, and only
//! `worker` that there is a server.

mod back;
mod calendar;
mod causes;
mod dice;
mod facts;
mod feed;
mod jobs;
mod kept;
mod live;
mod message;
mod nats;
mod payloads;
mod programs;
mod rabbitmq;
mod shop;
mod story;
mod text;
mod triage;
mod worker;

#[cfg(test)]
mod tests;

use lazaret_core::letter::Captured;
use lazaret_core::time::Time;
use lazaret_store::decision::Verb;

pub use back::{Receiver, write_down};
pub use feed::Feed;
pub use nats::Broker;
pub use rabbitmq::Node;
pub use worker::{Pace, Worker};

use calendar::Calendar;
use dice::Dice;
use live::Live;
use message::Message;
use story::Story;

/// The shop, made from a seed.
#[derive(Debug)]
pub struct Demo {
    dice: Dice,
    /// The end of the history, from which all deploys are counted; none before there was any.
    calendar: Option<Calendar>,
    /// Letters of the history that nobody has decided yet: the live part goes on with them.
    open: Vec<Message>,
}

/// One thing that happens in the shop, at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Moment {
    pub at: Time,
    pub what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub enum What {
    /// A message died: new, or one that died before.
    Death(Box<Captured>),
    /// Somebody decided about letters, named by their event ids. Each of them died before, and the decision is allowed.
    Decision { verb: Verb, event_ids: Vec<String>, by: String, reason: String },
}

impl Demo {
    pub fn new(seed: u64) -> Demo {
        Demo { dice: Dice::new(seed), calendar: None, open: Vec::new() }
    }

    /// The fourteen days up to `until`, in order.
    pub fn history(&mut self, until: Time) -> Vec<Moment> {
        let calendar = Calendar::new(until);
        let (moments, open) = Story::new(calendar, self.dice.fork()).tell();
        self.calendar = Some(calendar);
        self.open = open;
        moments
    }

    /// What happens from `from` on, in order and without end.
    pub fn live(&mut self, from: Time) -> impl Iterator<Item = Moment> + use<> {
        let calendar = self.calendar.unwrap_or_else(|| Calendar::new(from));
        Live::new(calendar, from, self.dice.fork(), std::mem::take(&mut self.open))
    }
}
