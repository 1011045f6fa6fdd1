//! Alert rules for Prometheus and a dashboard for Grafana, made from one table each. The files in `docs/prometheus` hold them.

use serde_json::{Value, json};

/// One alert on metrics.
struct MetricRule {
    name: &'static str,
    expr: &'static str,
    hold: &'static str,
    severity: &'static str,
    summary: &'static str,
}

const fn rule(
    name: &'static str,
    expr: &'static str,
    hold: &'static str,
    severity: &'static str,
    summary: &'static str,
) -> MetricRule {
    MetricRule { name, expr, hold, severity, summary }
}

const RULES: &[MetricRule] = &[
    rule("LazaretDown", "up{job=\"lazaret\"} == 0", "1m", "critical", "Lazaret cannot be scraped"),
    rule(
        "LazaretAlertFiring",
        "sum by (rule, severity) (lazaret_alerts{state=\"firing\"}) > 0",
        "0s",
        "warning",
        "Alerts of rule {{ $labels.rule }} fire in Lazaret",
    ),
    rule(
        "LazaretLetterSpike",
        "sum by (source) (increase(lazaret_captured_total[5m])) > 20 \
         and sum by (source) (increase(lazaret_captured_total[5m])) \
         > 10 * sum by (source) (increase(lazaret_captured_total[1d] offset 5m)) / 288",
        "0s",
        "critical",
        "Source {{ $labels.source }} has more than 10 times its usual dead letters",
    ),
    rule(
        "LazaretBacklogGrows",
        "sum by (source) (delta(lazaret_letters{status=\"pending\"}[15m])) > 10",
        "5m",
        "warning",
        "Pending letters of source {{ $labels.source }} grow",
    ),
    rule(
        "LazaretSourceDisconnected",
        "lazaret_source_connected == 0",
        "1m",
        "critical",
        "Source {{ $labels.source }} is disconnected",
    ),
    rule(
        "LazaretQueueGrows",
        "lazaret_source_growth_per_minute > 0",
        "5m",
        "warning",
        "The dead-letter queue of source {{ $labels.source }} grows",
    ),
    rule(
        "LazaretNotificationsFail",
        "sum by (receiver) (increase(lazaret_notifications_total{outcome!=\"delivered\"}[15m])) > 3",
        "0s",
        "warning",
        "Notifications to {{ $labels.receiver }} fail",
    ),
];

/// A graph of the dashboard: its title, its unit, and its lines with their names.
type Panel = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PANELS: &[Panel] = &[
    ("Firing alerts", "short", &[("sum by (severity) (lazaret_alerts{state=\"firing\"})", "{{severity}}")]),
    ("Pending letters", "short", &[("sum by (source) (lazaret_letters{status=\"pending\"})", "{{source}}")]),
    (
        "Captured letters per minute",
        "short",
        &[("sum by (source) (rate(lazaret_captured_total[5m])) * 60", "{{source}}")],
    ),
    (
        "Further deaths per minute",
        "short",
        &[("sum by (source) (rate(lazaret_lives_total[5m])) * 60", "{{source}}")],
    ),
    ("Capture lag", "ms", &[("lazaret_source_lag_ms", "{{source}}")]),
    ("Sources connected", "short", &[("lazaret_source_connected", "{{source}}")]),
    (
        "Notifications per minute",
        "short",
        &[(
            "sum by (receiver, outcome) (rate(lazaret_notifications_total[5m])) * 60",
            "{{receiver}} {{outcome}}",
        )],
    ),
    (
        "Requests, 99th percentile",
        "s",
        &[(
            "histogram_quantile(0.99, sum by (le, route) (rate(lazaret_http_request_duration_seconds_bucket[5m])))",
            "{{route}}",
        )],
    ),
];

/// The rules as a file for Prometheus.
pub fn prometheus_rules() -> String {
    let mut text = String::from(
        "# Generated from the code of Lazaret; see docs/guide/alerts.md.\ngroups:\n  - name: lazaret\n    rules:\n",
    );
    for rule in RULES {
        // A JSON text is a YAML text.
        let quoted = |text: &str| Value::from(text).to_string();
        text.push_str(&format!(
            "      - alert: {}\n        expr: {}\n        for: {}\n        labels:\n          severity: {}\n        annotations:\n          summary: {}\n",
            rule.name,
            quoted(rule.expr),
            rule.hold,
            rule.severity,
            quoted(rule.summary)
        ));
    }
    text
}

/// The dashboard as a file for Grafana.
pub fn grafana_dashboard() -> String {
    let panel = |(index, (title, unit, lines)): (usize, &Panel)| {
        let target = |(line, (expr, legend)): (usize, &(&str, &str))| json!({"expr": expr, "legendFormat": legend, "refId": char::from(b'A' + line as u8).to_string()});
        json!({
            "id": index + 1,
            "title": title,
            "type": "timeseries",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"h": 8, "w": 12, "x": 12 * (index % 2), "y": 8 * (index / 2)},
            "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
            "targets": lines.iter().enumerate().map(target).collect::<Vec<Value>>(),
        })
    };
    let dashboard = json!({
        "title": "Lazaret",
        "uid": "lazaret",
        "tags": ["lazaret"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": PANELS.iter().enumerate().map(panel).collect::<Vec<Value>>(),
    });
    format!("{dashboard:#}\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    const REFERENCE: &str = include_str!("../../../../docs/reference/metrics.md");

    /// The generated file is the one in the tree; `LAZARET_TORTURE_WRITE_DOCS=1` writes it.
    fn same(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/prometheus").join(name);
        if std::env::var_os("LAZARET_TORTURE_WRITE_DOCS").is_some() {
            std::fs::write(&path, text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "{name} is not what the code generates");
    }

    #[test]
    fn the_generated_files_are_those_in_the_tree() {
        same("lazaret.rules.yml", &prometheus_rules());
        same("lazaret.dashboard.json", &grafana_dashboard());
    }

    #[test]
    fn every_metric_that_is_asked_for_is_documented() {
        let exprs = RULES.iter().map(|rule| rule.expr);
        let lines = PANELS.iter().flat_map(|(_, _, lines)| lines.iter().map(|(expr, _)| *expr));
        for expr in exprs.chain(lines) {
            let names = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for name in names.filter(|name| name.starts_with("lazaret_")) {
                let name = name.trim_end_matches("_bucket");
                assert!(REFERENCE.contains(&format!("`{name}`")), "{name}");
            }
        }
    }

    #[test]
    fn the_rules_pass_promtool() {
        let file = tempfile::NamedTempFile::with_suffix(".yml").unwrap();
        std::fs::write(file.path(), prometheus_rules()).unwrap();
        let checked = Command::new("promtool").args(["check", "rules"]).arg(file.path()).output().unwrap();
        let said =
            String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success() && said.contains(&format!("{} rules found", RULES.len())), "{said}");
    }
}
