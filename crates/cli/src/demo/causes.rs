//! The ways in which the shop's work fails, one file per program. Data only: what an error looks like stands here as
//! the real runtime would print it, with places for the facts; when it happens is told by the story.

use serde_json::Value;

use super::facts::Facts;
use super::programs::Program;

pub(super) mod invoices;
pub(super) mod mails;
pub(super) mod orders;
pub(super) mod payments;
pub(super) mod search;
pub(super) mod shipping;
pub(super) mod warehouse;

/// One way to fail.
#[derive(Debug)]
pub(super) struct Cause {
    /// The program that fails.
    pub(super) program: &'static Program,
    pub(super) queue: &'static str,
    pub(super) event: Event,
    pub(super) error: Error,
    /// How long a failing run takes, at least and at most.
    pub(super) run_ms: (i64, i64),
}

/// The event that the program cannot handle.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) pattern: &'static str,
    pub(super) version: &'static str,
    pub(super) sender: &'static Program,
    pub(super) payload: fn(&Facts) -> Value,
    pub(super) aggregate: Aggregate,
    pub(super) wire: Wire,
}

/// What events of one thing are kept in order by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aggregate {
    Order,
    Customer,
    Product,
}

/// What the event looks like when it arrives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire {
    Json,
    /// JSON that ends in the middle.
    CutShort,
    /// JSON whose names were written in Latin-1 and declared as UTF-8.
    Latin1,
    /// Somebody posted a document.
    Pdf,
}

/// The error as the program reports it. Messages, context and backtrace are texts to be filled.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) name: &'static str,
    pub(super) code: Option<&'static str>,
    /// One of them, always the same one for the same letter.
    pub(super) messages: &'static [&'static str],
    /// Joined without anything between.
    pub(super) backtrace: &'static [&'static str],
    pub(super) context: &'static [(&'static str, &'static str)],
}

impl Aggregate {
    pub(super) fn of(self, facts: &Facts) -> String {
        match self {
            Aggregate::Order => facts.order(),
            Aggregate::Customer => facts.customer(),
            Aggregate::Product => facts.product().sku.to_owned(),
        }
    }
}
