//! `/metrics`: valid text, true numbers, and every metric that the reference lists.

use std::collections::{BTreeMap, BTreeSet};

use http::header;
use lazaret_server::alerts;
use lazaret_server::config::{self, Config, Overrides};
use lazaret_server::operations::Progress;
use lazaret_server::replay;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::ojs::{fetch, id, nack, push, tick};
use super::redriving::entry;
use super::rig::TestApp;

pub const REFERENCE: &str = include_str!("../../../../docs/reference/metrics.md");

/// One scrape, read strictly.
#[derive(Debug, Default)]
struct Scrape {
    /// By name.
    kinds: BTreeMap<String, String>,
    /// By name and labels as they stand in the text.
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    async fn of(app: &TestApp) -> Scrape {
        let answer = app.get("/metrics").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
        Scrape::read(&String::from_utf8(answer.bytes).unwrap())
    }

    fn read(text: &str) -> Scrape {
        let mut scrape = Scrape::default();
        let mut helped = BTreeSet::new();
        let mut family = String::new();
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(helped.contains(name), "{line} has no help before it");
                assert!(
                    scrape.kinds.insert(name.to_owned(), kind.to_owned()).is_none(),
                    "{line} comes twice"
                );
                family = name.to_owned();
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                let suffix =
                    name.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("{line} in {family}"));
                let suffixes: &[&str] = match scrape.kinds[&family].as_str() {
                    "histogram" => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(suffixes.contains(&suffix), "{line} in {family}");
                labels(&series[name.len()..]);
                let value: f64 = value.parse().unwrap();
                assert!(scrape.samples.insert(series.to_owned(), value).is_none(), "{line} comes twice");
            }
        }
        scrape
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        *self.samples.get(series).unwrap_or_else(|| panic!("{series} is not in {:#?}", self.samples))
    }
}

/// Reads `{name="value",…}` or nothing, character by character.
fn labels(text: &str) {
    let Some(mut rest) = text.strip_prefix('{') else {
        assert_eq!(text, "");
        return;
    };
    loop {
        let (name, value) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(!name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{text}");
        let mut escaped = false;
        let end = value.find(|c| match (escaped, c) {
            (true, 'n' | '"' | '\\') => {
                escaped = false;
                false
            }
            (true, _) => panic!("{text}"),
            (false, '\\') => {
                escaped = true;
                false
            }
            (false, c) => c == '"',
        });
        rest = &value[end.unwrap_or_else(|| panic!("{text}")) + 1..];
        match rest.strip_prefix(',') {
            Some(next) => rest = next,
            None => break,
        }
    }
    assert_eq!(rest, "}");
}

fn rules() -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lazaret.toml");
    let rule = "[[replay_rules]]\nname = 'r'\nfilter = 'queue:replayed'\ndelay = '0s'\nmax_replays = 1\ncategory = 'infrastructure'\n";
    std::fs::write(&path, rule).unwrap();
    config::load(Some(&path), [], Overrides::default()).unwrap()
}

async fn job(app: &TestApp, queue: &str, attempts: u32) -> String {
    let retry = json!({"max_attempts": attempts, "on_exhaustion": "dead_letter"});
    id(&push(app, json!({"type": "t.a", "args": [], "options": {"queue": queue, "retry": retry}})).await)
}

async fn fail(app: &TestApp, queue: &str) {
    app.pass(200);
    for job in fetch(app, queue).await {
        app.pass(300);
        nack(app, &id(&job), json!({"code": "x", "message": "m"})).await;
    }
}

/// A server that has done a bit of everything.
async fn busy() -> TestApp {
    let app = TestApp::with(rules(), Mode::Real).await;
    let done = job(&app, "q", 1).await;
    fetch(&app, "q").await;
    app.post("/ojs/v1/workers/ack", &json!({"job_id": done})).await.expect(200);
    let cancelled = job(&app, "q", 1).await;
    app.delete(&format!("/ojs/v1/jobs/{cancelled}")).await.expect(200);
    job(&app, "retried", 2).await;
    fail(&app, "retried").await;
    let dead = job(&app, "dead", 1).await;
    fail(&app, "dead").await;
    app.post(&format!("/ojs/v1/dead-letter/{dead}/retry"), &json!({})).await.expect(200);
    fail(&app, "dead").await;
    for _ in 0..3 {
        job(&app, "bulk", 1).await;
    }
    fail(&app, "bulk").await;
    let bulk = json!({"filter": {"queue": "bulk"}, "confirm": true});
    app.post("/ojs/v1/dead-letter/retry", &bulk).await.expect(200);
    job(&app, "replayed", 1).await;
    fail(&app, "replayed").await;
    while replay::tick(&app.app).await.unwrap() == Progress::More {}
    for queue in ["fetched", "ticked"] {
        let options = json!({"queue": queue, "expires_at": "+PT1S"});
        push(&app, json!({"type": "t.x", "args": [], "options": options})).await;
    }
    app.pass(2_000);
    assert!(fetch(&app, "fetched").await.is_empty());
    tick(&app).await;
    for (event, at) in [("e", "01"), ("e", "01"), ("e", "02")] {
        let error = json!({"type": "E", "message": "m"});
        let entry = json!({
            "eventId": event, "originalEvent": {}, "error": error,
            "retryHistory": [{"timestamp": format!("2026-11-15T02:00:{at}Z"), "error": error}],
        });
        app.report(&entry).await;
    }
    app.get("/nowhere").await;
    app
}

#[tokio::test]
async fn the_numbers_are_those_of_what_was_done() {
    let app = busy().await;
    let scrape = Scrape::of(&app).await;
    for (series, expected) in [
        ("ojs_job_enqueued_total{queue=\"q\",type=\"t.a\"}", 2.0),
        ("ojs_job_completed_total{queue=\"q\",type=\"t.a\"}", 1.0),
        ("ojs_job_cancelled_total{queue=\"q\",type=\"t.a\"}", 1.0),
        ("ojs_job_failed_total{queue=\"dead\",type=\"t.a\"}", 2.0),
        ("ojs_job_failed_total{queue=\"retried\",type=\"t.a\"}", 1.0),
        ("ojs_job_retried_total{queue=\"retried\",type=\"t.a\"}", 1.0),
        ("ojs_job_expired_total{queue=\"fetched\",type=\"t.x\"}", 1.0),
        ("ojs_job_expired_total{queue=\"ticked\",type=\"t.x\"}", 1.0),
        ("ojs_job_duration_seconds_count{queue=\"dead\",type=\"t.a\",state=\"discarded\"}", 2.0),
        ("ojs_job_duration_seconds_sum{queue=\"dead\",type=\"t.a\",state=\"discarded\"}", 0.6),
        ("ojs_job_duration_seconds_count{queue=\"retried\",type=\"t.a\",state=\"retryable\"}", 1.0),
        ("ojs_job_queue_time_seconds_count{queue=\"dead\",type=\"t.a\"}", 2.0),
        ("ojs_job_queue_time_seconds_bucket{le=\"0.1\",queue=\"dead\",type=\"t.a\"}", 0.0),
        ("ojs_job_queue_time_seconds_bucket{le=\"0.25\",queue=\"dead\",type=\"t.a\"}", 2.0),
        ("ojs_dead_letter_added_total{queue=\"dead\",type=\"t.a\"}", 2.0),
        ("ojs_dead_letter_retried_total{queue=\"dead\"}", 1.0),
        ("ojs_dead_letter_retried_total{queue=\"bulk\"}", 3.0),
        ("ojs_dead_letter_retried_total{queue=\"replayed\"}", 0.0),
        ("ojs_dead_letter_replayed_total{queue=\"replayed\",rule=\"r\"}", 1.0),
        ("ojs_dead_letter_pruned_total{queue=\"dead\"}", 0.0),
        ("ojs_dead_letter_total{queue=\"dead\"}", 1.0),
        ("ojs_dead_letter_total{queue=\"replayed\"}", 0.0),
        ("ojs_queue_depth{queue=\"replayed\",state=\"available\"}", 1.0),
        ("ojs_queue_depth{queue=\"q\",state=\"cancelled\"}", 1.0),
        ("lazaret_letters{source=\"jobs\",status=\"pending\"}", 1.0),
        ("lazaret_letters{source=\"report\",status=\"pending\"}", 1.0),
        ("lazaret_captured_total{source=\"jobs\"}", 5.0),
        ("lazaret_captured_total{source=\"report\"}", 1.0),
        ("lazaret_lives_total{source=\"jobs\"}", 1.0),
        ("lazaret_lives_total{source=\"report\"}", 1.0),
        ("lazaret_duplicates_total{source=\"report\"}", 1.0),
        ("lazaret_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}", 1.0),
        ("lazaret_http_requests_total{method=\"POST\",route=\"/ojs/v1/workers/ack\",status=\"200\"}", 1.0),
        ("lazaret_http_request_duration_seconds_count{method=\"POST\",route=\"/ojs/v1/workers/ack\"}", 1.0),
        ("lazaret_start_time_seconds", 1_794_711_600.0),
        (concat!("lazaret_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), 1.0),
    ] {
        assert_eq!(scrape.value(series), expected, "{series}");
    }
    app.check().await;
}

#[tokio::test]
async fn the_reference_lists_every_metric_with_its_kind_and_labels() {
    let app = busy().await;
    app.post("/api/v1/prune", &json!({})).await.expect(200);
    alerts::tick(&app.app).await.unwrap();
    app.report(&entry("alerting")).await;
    for _ in 0..2 {
        alerts::tick(&app.app).await.unwrap();
        app.pass(30_000);
    }
    alerts::deliver(&app.app).await.unwrap();
    let scrape = Scrape::of(&app).await;
    let mut listed: BTreeMap<String, _> = BTreeMap::new();
    for line in REFERENCE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        listed.insert(cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), cells[3].to_owned()));
    }
    // Those of sources that live elsewhere are shown where there is one: `jetstream` looks at them.
    listed.retain(|name, _| !name.starts_with("lazaret_source_"));
    let mut shown = BTreeMap::new();
    for (name, kind) in &scrape.kinds {
        let series = scrape.samples.keys().find(|series| {
            let own = series.split('{').next().unwrap();
            own == name || (kind == "histogram" && own == format!("{name}_sum"))
        });
        let labels: Vec<String> = series
            .and_then(|series| series.split_once('{'))
            .map(|(_, labels)| {
                labels.split("=\"").filter_map(|part| part.rsplit(['{', ',']).next()).collect()
            })
            .map(|names: Vec<&str>| {
                names.iter().filter(|name| !name.contains('"')).map(|name| format!("`{name}`")).collect()
            })
            .unwrap_or_default();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        shown.insert(name.clone(), (kind.clone(), labels));
    }
    assert_eq!(listed, shown);
}

#[tokio::test]
async fn no_id_no_message_and_no_argument_is_shown() {
    let app = TestApp::new().await;
    let wish = json!({"type": "t", "args": ["secret-arg"], "meta": {"m": "secret-meta"}});
    let one = id(&push(&app, wish).await);
    fetch(&app, "default").await;
    nack(&app, &one, json!({"code": "secret_code", "type": "SecretType", "message": "secret-message"})).await;
    app.get(&format!("/ojs/v1/jobs/{one}")).await.expect(200);
    let text = String::from_utf8(app.get("/metrics").await.bytes).unwrap();
    assert!(!text.to_lowercase().contains("secret") && !text.contains(&one), "{text}");
}

#[tokio::test]
async fn counters_stay_over_a_reload() {
    let app = TestApp::new().await;
    job(&app, "q", 1).await;
    let live = lazaret_server::reload::Live::new(std::sync::Arc::clone(&app.app));
    live.take(rules());
    let text = lazaret_server::metrics::text(&live.app()).await.unwrap();
    assert_eq!(Scrape::read(&text).value("ojs_job_enqueued_total{queue=\"q\",type=\"t.a\"}"), 1.0);
}
