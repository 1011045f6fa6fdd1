//! The fourteen days, told episode by episode. Each episode kills its letters and lets people decide about them; a
//! decision comes only after the deaths that it is about.

use lazaret_core::time::Time;
use lazaret_store::decision::Verb;

use super::calendar::{Calendar, DAY, HOUR, MINUTE, Window};
use super::causes::{Cause, invoices, mails, orders, payments, search, shipping, warehouse};
use super::dice::Dice;
use super::message::Message;
use super::programs::{BAD_DEPLOY_AGO, ROLLBACK_AGO};
use super::triage::{HABITS, decision};
use super::{Moment, What};

/// A message tries for some minutes before it is dead: an outage's first letters come this much later.
const FIRST_DEATHS_AFTER: i64 = 5 * MINUTE;

/// When the card gateway was away, and for how long.
pub(super) const GATEWAY_AWAY: (i64, i64) = (9 * DAY, 3 * HOUR);

/// When the database failed over, and for how long.
pub(super) const DATABASE_AWAY: (i64, i64) = (3 * DAY, 70 * MINUTE);

/// When the carrier's key was replaced there, and how long until it was replaced here.
const KEY_REVOKED: (i64, i64) = (6 * DAY, 40 * MINUTE);

/// What goes wrong every day: the cause, its letters in these days, and since when it is there.
static EVERYDAY: [(&Cause, i64, i64); 13] = [
    (&payments::CARD_DECLINED, 260, 14 * DAY),
    (&orders::OUT_OF_STOCK, 240, 14 * DAY),
    (&mails::BAD_ADDRESS, 140, 14 * DAY),
    (&mails::CUSTOMER_GONE, 90, 14 * DAY),
    (&shipping::TOO_MANY_LABELS, 150, 14 * DAY),
    (&shipping::NO_STREET, 110, 12 * DAY),
    (&search::UNKNOWN_VARIANT, 130, 5 * DAY),
    (&invoices::INVOICE_TWICE, 70, 14 * DAY),
    (&payments::BAD_IBAN, 60, 14 * DAY),
    (&warehouse::SCANNERS_SILENT, 120, 14 * DAY),
    (&warehouse::SHELF_CHANGED, 40, 14 * DAY),
    (&payments::GATEWAY_SILENT, 24, 14 * DAY),
    (&payments::GATEWAY_UNAVAILABLE, 8, 14 * DAY),
];

/// Messages that no program can read, and how many of each there are.
static PILLS: [(&Cause, i64); 3] =
    [(&orders::CUT_SHORT, 4), (&invoices::NOT_UTF8, 3), (&search::NOT_AN_EVENT, 2)];

/// Everyday letters that nobody has looked at yet: people are two days behind.
const BACKLOG: i64 = 2 * DAY;

/// The story while it is told.
#[derive(Debug)]
pub(super) struct Story {
    calendar: Calendar,
    dice: Dice,
    moments: Vec<Moment>,
    /// Everyday letters that nobody has decided, with their first death.
    open: Vec<(Time, Message)>,
}

impl Story {
    pub(super) fn new(calendar: Calendar, dice: Dice) -> Story {
        Story { calendar, dice, moments: Vec::new(), open: Vec::new() }
    }

    /// All moments in order, and the letters that are left for the days to come.
    pub(super) fn tell(mut self) -> (Vec<Moment>, Vec<Message>) {
        self.gateway_outage();
        self.key_rotation();
        self.dispute();
        self.failover();
        self.bad_deploy();
        self.slow_leak();
        self.poison_pills();
        self.everyday();
        self.triage();
        // Stable, so that a decision that shares its millisecond with a death stays behind it.
        self.moments.sort_by_key(|moment| moment.at);
        (self.moments, self.open.into_iter().map(|(_, message)| message).collect())
    }

    fn gateway_outage(&mut self) {
        let window = self.outage(GATEWAY_AWAY);
        let (mut silent, mut unavailable) = (Vec::new(), Vec::new());
        for _ in 0..self.dice.between(860, 940) {
            let at = window.moment(&mut self.dice);
            if self.dice.chance(72) {
                silent.push(self.kill(&payments::GATEWAY_SILENT, at));
            } else {
                unavailable.push(self.kill(&payments::GATEWAY_UNAVAILABLE, at));
            }
        }
        let settled =
            "gateway was down (INC-2107); authorised on its side, checked against the settlement file";
        self.decide(Verb::Resolve, &silent, GATEWAY_AWAY.0 - 6 * HOUR, "mara", settled);
        let repeated = "gateway was down (INC-2107); authorised again from the checkout's own retries";
        self.decide(Verb::Resolve, &unavailable, GATEWAY_AWAY.0 - 7 * HOUR, "mara", repeated);
        let differs = "amount differs from the settlement file, look again";
        let doubtful = &unavailable[..unavailable.len().min(4)];
        self.decide(Verb::Reopen, doubtful, GATEWAY_AWAY.0 - 26 * HOUR, "jonas", differs);
    }

    fn key_rotation(&mut self) {
        let window = self.outage(KEY_REVOKED);
        let letters = self.dice.between(50, 64);
        let revoked = self.kill_many(&shipping::KEY_REVOKED, letters, window);
        let printed = "key replaced, labels printed from the carrier's portal";
        self.decide(Verb::Resolve, &revoked, KEY_REVOKED.0 - 5 * HOUR, "jonas", printed);
        let missing = "the label was never printed, parcel is still on the shelf";
        let missed = &revoked[..revoked.len().min(3)];
        self.decide(Verb::Reopen, missed, KEY_REVOKED.0 - 22 * HOUR, "mara", missing);
    }

    fn dispute(&mut self) {
        let ago = self.calendar.window(4 * DAY, 3 * HOUR);
        let disputed = self.kill_many(&payments::DISPUTED_REFUND, 2, ago);
        let reason = "dispute of both orders is with the lawyers: keep as evidence, case HP/114";
        self.decide(Verb::Hold, &disputed, 4 * DAY - 5 * HOUR, "legal", reason);
    }

    fn failover(&mut self) {
        let window = self.outage(DATABASE_AWAY);
        for (cause, letters) in [
            (&orders::DATABASE_GONE, 165),
            (&invoices::DATABASE_REFUSED, 170),
            (&shipping::DATABASE_REFUSED, 120),
        ] {
            let letters = self.about(letters);
            self.kill_many(cause, letters, window);
        }
    }

    fn bad_deploy(&mut self) {
        let window = self.outage((BAD_DEPLOY_AGO, BAD_DEPLOY_AGO - ROLLBACK_AGO));
        let letters = self.dice.between(670, 740);
        self.kill_many(&invoices::CURRENCY_MISSING, letters, window);
    }

    /// The mail-service leaks since its release of ten days ago; by now it kills a few letters per hour.
    fn slow_leak(&mut self) {
        let window = self.calendar.last(10 * DAY);
        for _ in 0..self.about(320) {
            let at = window.late_moment(&mut self.dice);
            let full = self.dice.chance(30);
            self.kill(if full { &mails::POOL_EXHAUSTED } else { &mails::NO_SOCKETS_LEFT }, at);
        }
    }

    /// Each pill is handed out again and again until somebody throws it away.
    fn poison_pills(&mut self) {
        let end = self.calendar.history().end();
        for (cause, pills) in PILLS {
            for pill in 0..pills {
                let mut at = self.calendar.window(13 * DAY, 7 * DAY).moment(&mut self.dice);
                let message = self.kill(cause, at);
                for _ in 0..self.dice.between(3, 7) {
                    let next = at.plus_ms(self.dice.between(7 * HOUR, 30 * HOUR));
                    if next >= end {
                        break;
                    }
                    at = next;
                    self.kill_again(&message, at);
                }
                if pill % 2 == 0 {
                    let thrown_at = at.plus_ms(self.dice.between(HOUR, 9 * HOUR));
                    self.discard_pill(&message, thrown_at, end);
                }
            }
        }
    }

    fn discard_pill(&mut self, message: &Message, at: Time, end: Time) {
        if at >= end {
            return;
        }
        let reason = "poison pill: no program can read it, the sender was told";
        let pill = std::slice::from_ref(message);
        self.moments.push(decision(Verb::Discard, pill, at, "jonas", reason));
    }

    fn everyday(&mut self) {
        let history = self.calendar.history();
        for (cause, letters, since) in EVERYDAY {
            let from = self.calendar.ago(since).max(history.from);
            let window = Window { from, length: history.end().since(from) };
            for _ in 0..self.about(letters) {
                let at = window.busy_moment(&mut self.dice);
                let message = self.kill(cause, at);
                self.recur(&message, at, history.end());
                self.open.push((at, message));
            }
        }
    }

    /// Some messages come back by themselves and die of the same cause again.
    fn recur(&mut self, message: &Message, died_at: Time, end: Time) {
        let mut at = died_at;
        while self.dice.chance(6) {
            at = at.plus_ms(self.dice.between(2 * HOUR, 40 * HOUR));
            if at >= end {
                break;
            }
            self.kill_again(message, at);
        }
    }

    /// Each morning people work off some of what is older than a night, cause by cause.
    fn triage(&mut self) {
        self.open.sort_by_key(|(died_at, _)| *died_at);
        for days_ago in (BACKLOG / DAY..13).rev() {
            let at = self.calendar.day_of(days_ago * DAY).plus_ms(self.dice.between(8 * HOUR, 11 * HOUR));
            for habit in &HABITS {
                let (mut decided, mut left) = (Vec::new(), Vec::new());
                for (died_at, message) in std::mem::take(&mut self.open) {
                    let due = habit.covers(&message) && at.since(died_at) > 10 * HOUR;
                    if due && self.dice.chance(40) {
                        decided.push(message);
                    } else {
                        left.push((died_at, message));
                    }
                }
                self.open = left;
                if !decided.is_empty() {
                    let at = at.plus_ms(self.dice.between(0, 20 * MINUTE));
                    self.moments.push(habit.decide(&decided, at));
                }
            }
        }
    }

    fn outage(&self, (ago, length): (i64, i64)) -> Window {
        self.calendar.window(ago - FIRST_DEATHS_AFTER, length - FIRST_DEATHS_AFTER)
    }

    /// A number that lies within a tenth of the given one.
    fn about(&mut self, number: i64) -> i64 {
        self.dice.between(number * 9 / 10, number * 11 / 10)
    }

    fn kill_many(&mut self, cause: &'static Cause, letters: i64, window: Window) -> Vec<Message> {
        let mut killed = Vec::new();
        for _ in 0..letters {
            let at = window.moment(&mut self.dice);
            killed.push(self.kill(cause, at));
        }
        killed
    }

    fn kill(&mut self, cause: &'static Cause, at: Time) -> Message {
        let message = Message::new(cause, at, self.calendar, &mut self.dice);
        self.kill_again(&message, at);
        message
    }

    fn kill_again(&mut self, message: &Message, at: Time) {
        let captured = message.death(at, self.calendar, &mut self.dice);
        self.moments.push(Moment { at, what: What::Death(Box::new(captured)) });
    }

    fn decide(&mut self, verb: Verb, messages: &[Message], ago: i64, by: &str, reason: &str) {
        let at = self.calendar.ago(ago).plus_ms(self.dice.between(0, 20 * MINUTE));
        self.moments.push(decision(verb, messages, at, by, reason));
    }
}
