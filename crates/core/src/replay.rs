//! Replay rules: letters that are put back by themselves once they have lain for a while. A rule is a standing analysis of a
//! cause: it names what fails, and waiting is the fix.
//!
//! Decides which letters a rule is about and when; how often a letter was put back is for the store to know.

use crate::class::Category;
use crate::duration::Length;
use crate::filter::{Choice, Filter, Patterns, When};
use crate::lifecycle::Status;
use crate::limits;
use crate::pattern::Pattern;
use crate::time::Time;

/// One rule, as it was configured. What `check` has let through is never about every letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayRule {
    pub name: String,
    pub filter: Filter,
    /// How long a letter lies before it is put back, from its last death.
    pub delay: Length,
    /// How often the rule puts one letter back, over all its lives.
    pub max_replays: u32,
    pub enabled: bool,
    /// What fails; where an analysis is required, a rule without one does nothing.
    pub cause: Option<String>,
    /// What kind of failure the rule says it is.
    pub category: Category,
}

/// Why letters cannot be replayed by a filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreplayable {
    #[error(
        "matches every letter there is; say which ones, such as \"error:ConnectionError\" or \"queue:*\""
    )]
    Everything,
    #[error("asks for a status that is not pending, and only pending letters are put back")]
    NotPending,
    #[error("asks for a source other than jobs, and only letters of jobs can be put back")]
    NoWayBack,
}

/// The sources whose letters have a way back.
const SOURCE: &str = "jobs";

impl ReplayRule {
    /// Says why a rule cannot have this filter.
    pub fn check(filter: &Filter) -> Result<(), Unreplayable> {
        if !filter.status.allows(&Status::Pending) {
            return Err(Unreplayable::NotPending);
        }
        if !filter.source.allow(Some(SOURCE)) {
            return Err(Unreplayable::NoWayBack);
        }
        let about = Filter { status: Choice::default(), source: Patterns::default(), ..filter.clone() };
        if about.is_empty() { Err(Unreplayable::Everything) } else { Ok(()) }
    }

    /// Says why a rule cannot have this name.
    pub fn check_name(name: &str) -> Result<(), String> {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let max = limits::RULE_NAME_CHARS_MAX;
        if name.is_empty() || name.len() > max || !name.bytes().all(is_plain) {
            return Err(format!("is not a name for a rule; use 1 to {max} of a-z, 0-9, _ and -"));
        }
        Ok(())
    }

    /// The letters that lie in wait for this rule, due or not.
    pub fn waiting(&self) -> Filter {
        Filter {
            status: Choice { include: [Status::Pending].into_iter().collect(), ..Choice::default() },
            source: Patterns { include: [Pattern::new(SOURCE)].into_iter().collect(), ..Patterns::default() },
            ..self.filter.clone()
        }
    }

    /// Those that have lain long enough by now.
    pub fn due(&self, now: Time) -> Filter {
        let mut filter = self.waiting();
        // The end of a filter's range is not in it, and a letter is due in the very millisecond.
        let until = self.oldest_undue(now);
        let own = filter.until.map(|when| when.resolve(now));
        filter.until = Some(When::At(own.map_or(until, |own| own.min(until))));
        filter
    }

    /// Those that have not; the one that died first is due first.
    pub fn undue(&self, now: Time) -> Filter {
        let mut filter = self.waiting();
        let since = self.oldest_undue(now);
        let own = filter.since.map(|when| when.resolve(now));
        filter.since = Some(When::At(own.map_or(since, |own| own.max(since))));
        filter
    }

    /// When a letter that died then is due.
    pub fn due_at(&self, died_at: Time) -> Time {
        died_at.plus_ms(self.delay.ms())
    }

    /// The earliest death that is not due by now.
    fn oldest_undue(&self, now: Time) -> Time {
        now.plus_ms(self.delay.ms().saturating_neg().saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(filter: &str, delay: &str) -> ReplayRule {
        ReplayRule {
            name: "r".into(),
            filter: Filter::from_text(filter).unwrap(),
            delay: Length::parse(delay).unwrap(),
            max_replays: 1,
            enabled: true,
            cause: None,
            category: Category::Infrastructure,
        }
    }

    #[test]
    fn a_letter_is_due_in_the_millisecond_in_which_its_delay_has_passed() {
        let rule = rule("queue:q", "1h");
        let died = Time::from_ms(10_000_000);
        for (later_ms, is_due) in [(0, false), (3_599_999, false), (3_600_000, true), (9_000_000, true)] {
            let now = died.plus_ms(later_ms);
            assert_eq!(rule.due(now).died(now).contains(died), is_due, "{later_ms}");
            assert_eq!(rule.undue(now).died(now).contains(died), !is_due, "{later_ms}");
            assert_eq!(rule.due_at(died) <= now, is_due, "{later_ms}");
        }
    }

    #[test]
    fn the_delay_narrows_the_times_that_the_filter_asks_for() {
        let now = Time::from_ms(100_000_000);
        let ago = |length: &str| now.plus_ms(-Length::parse(length).unwrap().ms());
        let died = rule("queue:q until:3h since:9h", "1h").due(now).died(now);
        assert_eq!((died.from, died.until), (Some(ago("9h")), Some(ago("3h"))));
        let died = rule("queue:q until:10m", "1h").due(now).died(now);
        assert_eq!(died.until, Some(ago("1h").plus_ms(1)));
        let died = rule("queue:q since:30m", "1h").undue(now).died(now);
        assert_eq!(died.from, Some(ago("30m")));
    }

    #[test]
    fn a_rule_is_about_pending_letters_of_jobs() {
        let filter = rule("queue:q", "0s").due(Time::from_ms(0));
        assert_eq!(filter.to_string(), "queue:q status:pending source:jobs until:1970-01-01T00:00:00.001Z");
    }

    #[test]
    fn a_filter_for_everything_or_for_what_cannot_be_is_refused() {
        let check = |text: &str| ReplayRule::check(&Filter::from_text(text).unwrap());
        for good in
            ["queue:q", "error:Conn*", "queue:q status:pending source:jobs", "queue:*", "body:x", "age:>1h"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for all in ["", "status:pending", "source:jobs", "source:j* status:pending,resolved"] {
            assert_eq!(check(all), Err(Unreplayable::Everything), "{all}");
        }
        assert_eq!(check("queue:q status:resolved"), Err(Unreplayable::NotPending));
        assert_eq!(check("queue:q -status:pending"), Err(Unreplayable::NotPending));
        assert_eq!(check("queue:q source:report"), Err(Unreplayable::NoWayBack));
    }

    #[test]
    fn names_are_plain() {
        for good in ["a", "retry-connection_errors2", &"x".repeat(64)] {
            assert_eq!(ReplayRule::check_name(good), Ok(()));
        }
        for bad in ["", "A", "a b", "a:b", "ü", "a.b", &"x".repeat(65)] {
            assert!(ReplayRule::check_name(bad).is_err(), "{bad}");
        }
    }
}
