//! What happens while somebody watches: a trickle, a burst every few minutes, now and then a cause that nobody has
//! seen before, now and then a decision. Made a minute at a time, and never more than that ahead.

use std::collections::VecDeque;

use lazaret_core::time::Time;

use super::calendar::{Calendar, MINUTE, SECOND, Window};
use super::causes::{Cause, invoices, mails, orders, payments, search, shipping, warehouse};
use super::dice::Dice;
use super::message::Message;
use super::triage::HABITS;
use super::{Moment, What};

/// Deaths of one minute outside of bursts, at least and at most.
const TRICKLE: (i64, i64) = (6, 11);

/// Letters of one burst, and the pause until the next one.
const BURST: (i64, i64) = (20, 60);
const BURST_PAUSE: (i64, i64) = (3 * MINUTE, 8 * MINUTE);

/// A newcomer is there after so many minutes, and the next ones after as many again.
const NEWCOMER_MINUTES: u64 = 7;

/// Of the letters that could be decided or die again, so many are remembered: the part has no end.
const OPEN_MAX: usize = 400;

/// The causes of the trickle. The leak goes on, so it stands there more than once.
static USUAL: [&Cause; 14] = [
    &mails::NO_SOCKETS_LEFT,
    &mails::NO_SOCKETS_LEFT,
    &mails::POOL_EXHAUSTED,
    &payments::CARD_DECLINED,
    &payments::CARD_DECLINED,
    &orders::OUT_OF_STOCK,
    &orders::OUT_OF_STOCK,
    &mails::BAD_ADDRESS,
    &shipping::TOO_MANY_LABELS,
    &shipping::NO_STREET,
    &search::UNKNOWN_VARIANT,
    &invoices::INVOICE_TWICE,
    &payments::BAD_IBAN,
    &warehouse::SCANNERS_SILENT,
];

static BURSTING: [&Cause; 6] = [
    &payments::GATEWAY_SILENT,
    &payments::GATEWAY_UNAVAILABLE,
    &shipping::TOO_MANY_LABELS,
    &warehouse::SCANNERS_SILENT,
    &orders::DATABASE_GONE,
    &search::UNKNOWN_VARIANT,
];

/// In the order in which they turn up.
static NEWCOMERS: [&Cause; 3] =
    [&search::INDEX_READ_ONLY, &invoices::TAX_REGISTER_UNTRUSTED, &mails::TEMPLATE_BROKEN];

#[derive(Debug)]
pub(super) struct Live {
    calendar: Calendar,
    dice: Dice,
    /// The minute that comes next.
    minute: Time,
    minutes_gone: u64,
    next_burst: Time,
    /// What is made and not yet handed out, in order.
    ahead: VecDeque<Moment>,
    /// Letters that nobody has decided.
    open: VecDeque<Message>,
}

impl Live {
    pub(super) fn new(calendar: Calendar, from: Time, mut dice: Dice, open: Vec<Message>) -> Live {
        // The first one comes soon: whoever looks for the first time should not have to wait for it.
        let next_burst = from.plus_ms(dice.between(MINUTE, 2 * MINUTE));
        let (ahead, open) = (VecDeque::new(), VecDeque::from(open));
        Live { calendar, dice, minute: from, minutes_gone: 0, next_burst, ahead, open }
    }

    fn make_minute(&mut self) {
        let window = Window { from: self.minute, length: MINUTE - 1 };
        let mut moments = Vec::new();
        // Decisions first: they are about letters of the minutes before.
        if self.dice.chance(35) {
            moments.extend(self.decision(window));
        }
        let known = self.open.len();
        for _ in 0..self.dice.between(TRICKLE.0, TRICKLE.1) {
            moments.push(self.usual_death(window, known));
        }
        if self.minutes_gone % NEWCOMER_MINUTES == NEWCOMER_MINUTES - 1 {
            moments.extend(self.newcomer(window));
        }
        if self.next_burst <= window.end() {
            moments.extend(self.burst(window));
            let pause = self.dice.between(BURST_PAUSE.0, BURST_PAUSE.1);
            self.next_burst = self.next_burst.plus_ms(pause);
        }
        moments.sort_by_key(|moment| moment.at);
        self.ahead.extend(moments);
        self.minute = self.minute.plus_ms(MINUTE);
        self.minutes_gone += 1;
        let forgotten = self.open.len().saturating_sub(OPEN_MAX);
        self.open.drain(..forgotten);
    }

    /// A new letter, or one of the `known` first ones again: those died before this minute.
    fn usual_death(&mut self, window: Window, known: usize) -> Moment {
        let at = window.moment(&mut self.dice);
        if self.dice.chance(6) && known > 0 {
            let again = self.dice.below(known as u64) as usize;
            let captured = self.open[again].death(at, self.calendar, &mut self.dice);
            return Moment { at, what: What::Death(Box::new(captured)) };
        }
        let seen = (self.minutes_gone / NEWCOMER_MINUTES) as usize;
        let newcomers = &NEWCOMERS[..seen.min(NEWCOMERS.len())];
        let cause = if !newcomers.is_empty() && self.dice.chance(12) {
            self.dice.pick(newcomers)
        } else {
            self.dice.pick(&USUAL)
        };
        self.kill(cause, at)
    }

    /// The first letters of a cause that was not there before, as long as there are such causes.
    fn newcomer(&mut self, window: Window) -> Vec<Moment> {
        let Some(cause) = NEWCOMERS.get((self.minutes_gone / NEWCOMER_MINUTES) as usize) else {
            return Vec::new();
        };
        let letters = self.dice.between(3, 7);
        self.kill_many(cause, letters, window)
    }

    fn burst(&mut self, window: Window) -> Vec<Moment> {
        let cause = self.dice.pick(&BURSTING);
        let letters = self.dice.between(BURST.0, BURST.1);
        // Within the minute, so that nothing of the next one has to come before it.
        let from = window.from.plus_ms(self.dice.between(0, 15 * SECOND));
        self.kill_many(cause, letters, Window { from, length: 40 * SECOND })
    }

    /// Somebody works off a few letters of one cause, if there are such letters.
    fn decision(&mut self, window: Window) -> Option<Moment> {
        let habit = &HABITS[self.dice.below(HABITS.len() as u64) as usize];
        let letters = self.dice.between(1, 8) as usize;
        let (mut decided, mut left) = (Vec::new(), VecDeque::new());
        for message in std::mem::take(&mut self.open) {
            if habit.covers(&message) && decided.len() < letters {
                decided.push(message);
            } else {
                left.push_back(message);
            }
        }
        self.open = left;
        if decided.is_empty() {
            return None;
        }
        Some(habit.decide(&decided, window.moment(&mut self.dice)))
    }

    fn kill_many(&mut self, cause: &'static Cause, letters: i64, window: Window) -> Vec<Moment> {
        let mut moments = Vec::new();
        for _ in 0..letters {
            let at = window.moment(&mut self.dice);
            moments.push(self.kill(cause, at));
        }
        moments
    }

    fn kill(&mut self, cause: &'static Cause, at: Time) -> Moment {
        let message = Message::new(cause, at, self.calendar, &mut self.dice);
        let captured = message.death(at, self.calendar, &mut self.dice);
        self.open.push_back(message);
        Moment { at, what: What::Death(Box::new(captured)) }
    }
}

impl Iterator for Live {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        // A minute has deaths in any case, so this ends.
        while self.ahead.is_empty() {
            self.make_minute();
        }
        self.ahead.pop_front()
    }
}
