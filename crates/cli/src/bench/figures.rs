//! What was measured, as numbers per operation.

use std::time::Duration;

use serde::Serialize;

use super::Usage;

/// How long single requests took, in no order.
#[derive(Clone, Debug, Default)]
pub struct Waits(pub Vec<Duration>);

impl Waits {
    /// Milliseconds that this share of the waits did not exceed.
    fn at(&self, share: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = ((self.0.len() as f64 * share).ceil() as usize).saturating_sub(1).min(last);
        Some(self.0[place].as_secs_f64() * 1e3)
    }
}

/// A workload that was run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub operations: u64,
    pub took: Duration,
    pub waits: Waits,
}

/// Rounded for people and comparable for programs. What cannot be known is absent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub workload: &'static str,
    pub what: &'static str,
    pub operations: u64,
    pub seconds: f64,
    pub per_second: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub p999_ms: Option<f64>,
    /// Microseconds of processor time of the server per operation.
    pub cpu_us: Option<f64>,
    /// Bytes written per operation: by the server to its store, or by PostgreSQL to its write-ahead log.
    pub bytes_written: Option<f64>,
    pub resident_mib: Option<f64>,
    /// Operations a second of a server that only answers, under the same load.
    pub null_per_second: Option<f64>,
}

impl Figures {
    pub fn new(workload: &'static str, what: &'static str, measured: Measured) -> Figures {
        let Measured { operations, took, mut waits } = measured;
        waits.0.sort_unstable();
        let at = |share| waits.at(share).map(round);
        Figures {
            workload,
            what,
            operations,
            seconds: round(took.as_secs_f64()),
            per_second: round(operations as f64 / took.as_secs_f64().max(1e-9)),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            cpu_us: None,
            bytes_written: None,
            resident_mib: None,
            null_per_second: None,
        }
    }

    /// Adds what the server used between two moments.
    pub fn with_usage(self, before: Option<Usage>, after: Option<Usage>) -> Figures {
        let (Some(before), Some(after)) = (before, after) else { return self };
        let operations = self.operations.max(1) as f64;
        let cpu = after.cpu.saturating_sub(before.cpu);
        Figures {
            cpu_us: Some(round(cpu.as_secs_f64() * 1e6 / operations)),
            bytes_written: Some(round(after.written.saturating_sub(before.written) as f64 / operations)),
            resident_mib: Some(round(after.resident as f64 / 1_048_576.0)),
            ..self
        }
    }
}

/// Three digits are all that such figures are worth.
fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_waits_are_taken_from_the_top() {
        let waits = Waits((1..=1_000).map(Duration::from_millis).collect());
        assert_eq!((waits.at(0.5), waits.at(0.99), waits.at(0.999)), (Some(500.0), Some(990.0), Some(999.0)));
        assert_eq!(Waits(vec![Duration::from_millis(3)]).at(0.999), Some(3.0));
        assert_eq!(Waits::default().at(0.5), None);
    }

    #[test]
    fn figures_have_three_digits() {
        for (value, rounded) in [(12_345.6, 12_300.0), (0.012_345, 0.0123), (1.0, 1.0), (0.0, 0.0)] {
            assert_eq!(round(value), rounded);
        }
    }
}
