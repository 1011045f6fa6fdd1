//! One metric: its series by their labels, of which there are never more than so many.
//!
//! The text is Prometheus's (version 0.0.4), where a counter's family has the name of its samples, `_total` and all.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use lazaret_core::limits;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// What all series beyond the bound are counted under.
const OTHER: &str = "other";

/// A value of a series.
pub(super) trait Sample: Clone + fmt::Debug + Send + Sync + 'static {
    const KIND: MetricType;

    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result;
}

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Total(Arc<AtomicU64>);

impl Total {
    pub(super) fn add(&self, times: u64) {
        self.0.fetch_add(times, Ordering::Relaxed);
    }
}

impl Sample for Total {
    const KIND: MetricType = MetricType::Counter;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        // As a counter it would get a `_total` that its family does not have.
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }
}

/// A number as it is at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Level(Arc<AtomicU64>);

impl Level {
    pub(super) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }
}

impl Sample for Level {
    const KIND: MetricType = MetricType::Gauge;

    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_gauge(&self.0.load(Ordering::Relaxed))
    }
}

impl Sample for Histogram {
    const KIND: MetricType = MetricType::Histogram;

    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        EncodeMetric::encode(self, encoder)
    }
}

/// Values of labels with what is counted under them, in the order of the values.
type Series<const N: usize, M> = Vec<([String; N], M)>;

/// The series of one metric, told apart by `N` labels.
#[derive(Clone, Debug)]
pub(super) struct Family<const N: usize, M> {
    labels: [&'static str; N],
    begin: fn() -> M,
    /// Ordered, so that a series is found without a copy of its labels: every request counts in several.
    series: Arc<RwLock<Series<N, M>>>,
}

impl<const N: usize, M: Sample> Family<N, M> {
    /// A new metric under `name`, with nothing counted yet.
    pub(super) fn register(
        registry: &mut Registry,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        begin: fn() -> M,
    ) -> Family<N, M> {
        let family = Family { labels, begin, series: Arc::default() };
        registry.register(name, help, family.clone());
        family
    }

    /// The series with these values, or the one for all others if there are too many. The values come from outside.
    pub(super) fn of(&self, values: [&str; N]) -> M {
        let values = values.map(cut);
        let read = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if let Ok(at) = place(&read, &values) {
            return read[at].1.clone();
        }
        drop(read);
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let full = series.len() >= limits::METRIC_SERIES_MAX && place(&series, &values).is_err();
        let values = if full { [OTHER; N] } else { values };
        let at = match place(&series, &values) {
            Ok(at) => at,
            Err(at) => {
                series.insert(at, (values.map(str::to_owned), (self.begin)()));
                at
            }
        };
        series[at].1.clone()
    }
}

/// Where the series of these values is, or belongs.
fn place<const N: usize, M>(series: &[([String; N], M)], values: &[&str; N]) -> Result<usize, usize> {
    series.binary_search_by(|(known, _)| known.iter().map(String::as_str).cmp(values.iter().copied()))
}

fn cut(value: &str) -> &str {
    &value[..value.floor_char_boundary(limits::METRIC_LABEL_BYTES_MAX)]
}

impl<const N: usize, M: Sample> EncodeMetric for Family<N, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner).clone();
        if N == 0 {
            // Without labels there is one series, and no braces.
            return series.first().map_or(Ok(()), |(_, only)| only.encode(encoder));
        }
        for (values, sample) in &series {
            let labels: Vec<(&str, &str)> =
                self.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            sample.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::KIND
    }

    /// A metric without series has no lines, not even those that describe it.
    fn is_empty(&self) -> bool {
        self.series.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode_registry;

    use super::*;

    #[test]
    fn hostile_names_are_escaped() {
        let mut registry = Registry::default();
        let family = Family::register(&mut registry, "x_total", "Help", ["queue"], Total::default);
        family.of(["a\"b\\c\nd} 1\n# TYPE"]).add(2);
        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();
        assert_eq!(
            text,
            "# HELP x_total Help.\n# TYPE x_total counter\nx_total{queue=\"a\\\"b\\\\c\\nd} 1\\n# TYPE\"} 2\n"
        );
    }

    #[test]
    fn series_beyond_the_bound_are_one() {
        let mut registry = Registry::default();
        let family = Family::register(&mut registry, "x_total", "Help", ["a", "b"], Total::default);
        let many = limits::METRIC_SERIES_MAX + 50;
        for n in 0..many {
            family.of([&format!("q{n}"), "t"]).add(1);
        }
        family.of(["q0", "t"]).add(1);
        let series = family.series.read().unwrap();
        assert_eq!(series.len(), limits::METRIC_SERIES_MAX + 1);
        let times = |a: &str, b: &str| series[place(&series, &[a, b]).unwrap()].1.0.load(Ordering::Relaxed);
        assert_eq!((times("other", "other"), times("q0", "t")), (50, 2));
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = "ü".repeat(limits::METRIC_LABEL_BYTES_MAX);
        assert!(cut(&long).len() <= limits::METRIC_LABEL_BYTES_MAX);
        assert_eq!(cut("short"), "short");
    }
}
