//! What a person wants otherwise than by default, checked against the limits.

use lazaret_core::limits;
use lazaret_core::redrive::{Options, Pace, Prioritization, StopRule};

use super::NotRedriven;

/// Each part of the options that somebody stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    pub pace: Option<Pace>,
    pub batch_size: Option<u32>,
    pub concurrency: Option<u32>,
    /// Only when it is planned.
    pub prioritization: Option<Prioritization>,
    /// 0 for none.
    pub canary: Option<u32>,
    pub canary_ms: Option<i64>,
    pub canary_assumed: Option<bool>,
    pub stop_percent: Option<u32>,
    pub stop_of: Option<u32>,
    pub quiet_ms: Option<i64>,
}

impl Wanted {
    /// These options with what is wanted in place of theirs.
    pub(super) fn over(&self, options: Options) -> Result<Options, NotRedriven> {
        Ok(Options {
            pace: self.pace.unwrap_or(options.pace),
            batch_size: within(
                "batchSize",
                self.batch_size.unwrap_or(options.batch_size),
                1,
                limits::REDRIVE_BATCH_MAX,
            )?,
            concurrency: within(
                "concurrency",
                self.concurrency.unwrap_or(options.concurrency),
                1,
                limits::REDRIVE_CONCURRENCY_MAX,
            )?,
            prioritization: self.prioritization.unwrap_or(options.prioritization),
            canary: within("canary", self.canary.unwrap_or(options.canary), 0, limits::CANARY_LETTERS_MAX)?,
            canary_ms: length("canaryTimeout", self.canary_ms.unwrap_or(options.canary_ms))?,
            canary_assumed: self.canary_assumed.unwrap_or(options.canary_assumed),
            stop: StopRule {
                percent: within(
                    "stopPercent",
                    self.stop_percent.unwrap_or(options.stop.percent),
                    0,
                    limits::STOP_PERCENT_MAX,
                )?,
                of: within("stopOf", self.stop_of.unwrap_or(options.stop.of), 1, limits::STOP_OUTCOMES_MAX)?,
            },
            quiet_ms: length("quiet", self.quiet_ms.unwrap_or(options.quiet_ms))?,
        })
    }
}

fn within(field: &'static str, value: u32, least: u32, most: u32) -> Result<u32, NotRedriven> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(NotRedriven::BadOption { field, problem: format!("{value} is not between {least} and {most}") })
}

/// A time that a run may wait: shorter ones would call a slow receiver dead.
fn length(field: &'static str, ms: i64) -> Result<i64, NotRedriven> {
    if (limits::CANARY_MS_MIN..=limits::CANARY_MS_MAX).contains(&ms) {
        return Ok(ms);
    }
    let (least, most) = (limits::CANARY_MS_MIN / 60_000, limits::CANARY_MS_MAX / 3_600_000);
    Err(NotRedriven::BadOption {
        field,
        problem: format!("it must be between {least} minutes and {most} hours"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_wanted_stays_and_what_is_out_of_bounds_is_named() {
        let options = Options::default();
        assert_eq!(Wanted::default().over(options).unwrap(), options);
        let wanted = Wanted { pace: Some(Pace::Unlimited), canary: Some(0), ..Wanted::default() };
        let changed = wanted.over(options).unwrap();
        assert_eq!(changed, Options { pace: Pace::Unlimited, canary: 0, ..options });
        for (bad, name) in [
            (Wanted { batch_size: Some(0), ..Wanted::default() }, "batchSize"),
            (Wanted { concurrency: Some(100_000), ..Wanted::default() }, "concurrency"),
            (Wanted { canary: Some(101), ..Wanted::default() }, "canary"),
            (Wanted { canary_ms: Some(1), ..Wanted::default() }, "canaryTimeout"),
            (Wanted { stop_percent: Some(101), ..Wanted::default() }, "stopPercent"),
            (Wanted { stop_of: Some(0), ..Wanted::default() }, "stopOf"),
        ] {
            match bad.over(options) {
                Err(NotRedriven::BadOption { field, .. }) => assert_eq!(field, name),
                other => unreachable!("{other:?}"),
            }
        }
    }
}
