//! What the shop's people do about everyday letters: who decides, what, and with which words.

use lazaret_store::decision::Verb;

use super::causes::{Cause, invoices, mails, orders, payments, shipping, warehouse};
use super::message::Message;
use super::{Moment, Time, What};

/// The usual end of letters of one cause.
#[derive(Debug)]
pub(super) struct Habit {
    pub(super) cause: &'static Cause,
    verb: Verb,
    by: &'static str,
    reason: &'static str,
}

const fn habit(cause: &'static Cause, verb: Verb, by: &'static str, reason: &'static str) -> Habit {
    Habit { cause, verb, by, reason }
}

pub(super) static HABITS: [Habit; 8] = [
    habit(&payments::CARD_DECLINED, Verb::Resolve, "mara", "customer paid with another card"),
    habit(&orders::OUT_OF_STOCK, Verb::Resolve, "jonas", "customer was told and refunded"),
    habit(&mails::BAD_ADDRESS, Verb::Discard, "jonas", "no such address, customer was called instead"),
    habit(&mails::CUSTOMER_GONE, Verb::Discard, "mara", "account was erased on request, no greeting needed"),
    habit(&shipping::TOO_MANY_LABELS, Verb::Resolve, "ops-bot", "label printed with the next batch"),
    habit(&invoices::INVOICE_TWICE, Verb::Discard, "mara", "asked for twice, the invoice exists"),
    habit(&warehouse::SCANNERS_SILENT, Verb::Resolve, "ops-bot", "counted again by the nightly run"),
    habit(&payments::BAD_IBAN, Verb::Resolve, "jonas", "customer sent a correct account, refund was paid"),
];

impl Habit {
    pub(super) fn covers(&self, message: &Message) -> bool {
        std::ptr::eq(self.cause, message.cause)
    }

    pub(super) fn decide(&self, messages: &[Message], at: Time) -> Moment {
        decision(self.verb, messages, at, self.by, self.reason)
    }
}

pub(super) fn decision(verb: Verb, messages: &[Message], at: Time, by: &str, reason: &str) -> Moment {
    let event_ids = messages.iter().map(|message| message.id.clone()).collect();
    Moment { at, what: What::Decision { verb, event_ids, by: by.to_owned(), reason: reason.to_owned() } }
}
