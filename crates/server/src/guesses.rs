//! Wrong tokens at the sign-in: who guesses has to wait.
//!
//! A token has 256 random bits and cannot be guessed. This keeps those who try all the same from costing anything, and
//! makes them visible. What is remembered is bounded, lives in memory and is each instance's own.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use lazaret_core::limits;
use lazaret_core::time::Time;

/// The wrong tokens of the last minutes, oldest first.
#[derive(Debug, Default)]
pub struct Guesses {
    wrong: Mutex<VecDeque<(Time, IpAddr)>>,
}

/// Why somebody is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judged {
    /// Their token was wrong, and they may try again.
    Wrong,
    /// Their token was wrong, and it was one too many: they have to wait so long.
    WrongOnceTooOften { wait_ms: i64 },
    /// Their token was not looked at: they have to wait so long.
    Locked { wait_ms: i64 },
}

impl Guesses {
    /// Looks at what somebody at an address brings, unless they have to wait; what is wrong is remembered.
    pub fn judge<T>(&self, from: IpAddr, now: Time, look: impl FnOnce() -> Option<T>) -> Result<T, Judged> {
        let from = household(from);
        // Held while looking: of many who come at once from one address only so many are looked at.
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was put back must not lock anybody out for longer.
        wrong.retain(|(at, _)| (0..limits::WRONG_TOKENS_WITHIN_MS).contains(&now.since(*at)));
        if let Some(wait_ms) = lock(&wrong, from, now) {
            return Err(Judged::Locked { wait_ms });
        }
        if let Some(found) = look() {
            return Ok(found);
        }
        if wrong.len() >= limits::WRONG_TOKENS_IN_ALL_MAX {
            wrong.pop_front();
        }
        wrong.push_back((now, from));
        Err(match lock(&wrong, from, now) {
            Some(wait_ms) => Judged::WrongOnceTooOften { wait_ms },
            None => Judged::Wrong,
        })
    }
}

/// How long somebody has to wait, if at all: for their own wrong tokens, or for those of everybody.
fn lock(wrong: &VecDeque<(Time, IpAddr)>, from: IpAddr, now: Time) -> Option<i64> {
    let own = || wrong.iter().filter(|(_, at)| *at == from);
    let last = if wrong.len() >= limits::WRONG_TOKENS_IN_ALL_MAX {
        wrong.back()
    } else if own().count() >= limits::WRONG_TOKENS_MAX {
        own().next_back()
    } else {
        None
    };
    last.map(|(at, _)| limits::LOCK_OUT_MS - now.since(*at)).filter(|wait_ms| *wait_ms > 0)
}

/// Addresses that one customer of a provider can choose from count as one.
fn household(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from(u128::from(six) & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    fn at(ms: i64) -> Time {
        Time::from_ms(1_000_000_000 + ms)
    }

    fn from(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn wrong(guesses: &Guesses, address: &str, ms: i64) -> Judged {
        guesses.judge(from(address), at(ms), || None::<()>).unwrap_err()
    }

    fn right(guesses: &Guesses, address: &str, ms: i64) -> Result<(), Judged> {
        guesses.judge(from(address), at(ms), || Some(()))
    }

    #[test]
    fn the_fifth_wrong_token_locks_its_address_for_a_minute_and_no_other() {
        let guesses = Guesses::default();
        for ms in 0..4 {
            assert_eq!(wrong(&guesses, "192.0.2.1", ms), Judged::Wrong);
        }
        assert_eq!(right(&guesses, "192.0.2.1", 4), Ok(()));
        assert_eq!(wrong(&guesses, "192.0.2.1", 5), Judged::WrongOnceTooOften { wait_ms: MINUTE_MS });
        assert_eq!(right(&guesses, "192.0.2.1", 10_005), Err(Judged::Locked { wait_ms: 50_000 }));
        assert_eq!(right(&guesses, "192.0.2.2", 10_005), Ok(()));
        assert_eq!(right(&guesses, "192.0.2.1", MINUTE_MS + 5), Ok(()));
        // Four more are still remembered.
        let again = wrong(&guesses, "192.0.2.1", MINUTE_MS + 6);
        assert_eq!(again, Judged::WrongOnceTooOften { wait_ms: MINUTE_MS });
    }

    #[test]
    fn wrong_tokens_are_forgotten_after_five_minutes() {
        let guesses = Guesses::default();
        for minute in 0..20 {
            assert_eq!(wrong(&guesses, "192.0.2.1", minute * 2 * MINUTE_MS), Judged::Wrong);
        }
    }

    #[test]
    fn addresses_of_one_household_count_together() {
        let guesses = Guesses::default();
        for n in 1..=4 {
            assert_eq!(wrong(&guesses, &format!("2001:db8:0:7::{n}"), 0), Judged::Wrong);
        }
        assert!(matches!(wrong(&guesses, "2001:db8:0:7:ffff::1", 0), Judged::WrongOnceTooOften { .. }));
        assert_eq!(right(&guesses, "2001:db8:0:8::1", 0), Ok(()));
        for _ in 0..4 {
            assert_eq!(wrong(&guesses, "::ffff:192.0.2.1", 0), Judged::Wrong);
        }
        assert!(matches!(wrong(&guesses, "192.0.2.1", 0), Judged::WrongOnceTooOften { .. }));
        assert_eq!(right(&guesses, "192.0.2.2", 0), Ok(()));
    }

    #[test]
    fn many_addresses_together_close_the_door_for_a_minute_and_are_not_all_remembered() {
        let guesses = Guesses::default();
        for n in 0..limits::WRONG_TOKENS_IN_ALL_MAX - 1 {
            assert_eq!(wrong(&guesses, &format!("10.0.{}.{}", n / 250, n % 250), 0), Judged::Wrong);
        }
        assert!(matches!(wrong(&guesses, "10.9.9.9", 0), Judged::WrongOnceTooOften { .. }));
        assert_eq!(right(&guesses, "192.0.2.1", 1), Err(Judged::Locked { wait_ms: MINUTE_MS - 1 }));
        assert_eq!(right(&guesses, "192.0.2.1", MINUTE_MS), Ok(()));
        assert!(matches!(wrong(&guesses, "10.9.9.8", MINUTE_MS), Judged::WrongOnceTooOften { .. }));
        assert_eq!(guesses.wrong.lock().unwrap().len(), limits::WRONG_TOKENS_IN_ALL_MAX);
    }

    #[test]
    fn a_clock_that_is_put_back_locks_nobody_out() {
        let guesses = Guesses::default();
        for _ in 0..5 {
            wrong(&guesses, "192.0.2.1", 10 * MINUTE_MS);
        }
        assert_eq!(right(&guesses, "192.0.2.1", 0), Ok(()));
    }
}
