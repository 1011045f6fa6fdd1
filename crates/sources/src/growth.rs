//! How a dead-letter queue grows: its sizes over the last minutes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use lazaret_core::limits;

/// How many messages a queue had at some moments.
#[derive(Default)]
pub(crate) struct Sizes(VecDeque<(Instant, u64)>);

impl Sizes {
    pub fn add(&mut self, size: u64) {
        self.add_at(Instant::now(), size);
    }

    fn add_at(&mut self, at: Instant, size: u64) {
        let span = Duration::from_millis(limits::SOURCE_GROWTH_MS);
        while self.0.front().is_some_and(|(first, _)| at.duration_since(*first) > span) {
            self.0.pop_front();
        }
        self.0.push_back((at, size));
    }

    pub fn is_newer_than(&self, age: Duration) -> bool {
        self.0.back().is_some_and(|(at, _)| at.elapsed() < age)
    }

    /// Messages per minute between the first and the last size.
    pub fn growth_per_min(&self) -> Option<f64> {
        let ((first_at, first), (last_at, last)) = (self.0.front()?, self.0.back()?);
        let minutes = last_at.duration_since(*first_at).as_secs_f64() / 60.0;
        (minutes > 0.0).then(|| (*last as f64 - *first as f64) / minutes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_per_minute_and_may_be_negative() {
        let start = Instant::now();
        let growth = |sizes: &[(u64, u64)]| {
            let mut all = Sizes::default();
            for (seconds, size) in sizes {
                all.add_at(start + Duration::from_secs(*seconds), *size);
            }
            all.growth_per_min()
        };
        assert_eq!(growth(&[(0, 100), (120, 160)]), Some(30.0));
        assert_eq!(growth(&[(0, 100), (120, 40)]), Some(-30.0));
        assert_eq!(growth(&[(0, 100)]), None);
        // What is too old does not count.
        assert_eq!(growth(&[(0, 9_000), (600, 100), (660, 130)]), Some(30.0));
    }
}
