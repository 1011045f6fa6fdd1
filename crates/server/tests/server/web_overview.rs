//! The first page: calm when all is well, loud when not, and a way in for those who have just begun.

use lazaret_server::config::Success;
use serde_json::json;

use super::redriving::{drive, entry, fixed, launch_of, plan, serving};
use super::rig::TestApp;
use super::web::{Browser, between};

async fn overview(app: &TestApp) -> String {
    let page = Browser::default().get(app, "/").await;
    assert_eq!(page.status, 200, "{}", String::from_utf8_lossy(&page.bytes));
    Browser::text(&page)
}

#[tokio::test]
async fn a_new_installation_says_how_to_begin() {
    let app = TestApp::new().await;
    let page = overview(&app).await;
    assert!(page.contains("unaccounted: 0"), "{page}");
    for way in ["curl -X POST http://127.0.0.1:7070/api/v1/dead-letters", "/ojs/v1/jobs", "lazaret demo"] {
        assert!(page.contains(way), "{way} in {page}");
    }
    // Nobody needs a token yet.
    assert!(!page.contains("LAZARET_TOKEN"), "{page}");
    assert!(!page.contains("class=\"tile"), "there is nothing to count: {page}");
    // What is shown there works: the example is taken as it stands.
    let body = between(&page, "-d '", "'</pre>").unwrap();
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    app.post("/api/v1/dead-letters", &told).await.expect(200);
    assert!(!overview(&app).await.contains("id=\"start\""));
}

#[tokio::test]
async fn tiles_lead_to_what_they_count() {
    let app = TestApp::new().await;
    let letter = app.report(&entry("a")).await;
    app.report(&entry("b")).await;
    app.post(&format!("/api/v1/dead-letters/{letter}/resolve"), &json!({})).await.expect(200);
    let page = overview(&app).await;
    for (href, count, name) in [
        ("/letters?q=status:pending", "1", "pending"),
        ("/letters?q=status:reprocessing", "0", "reprocessing"),
        ("/incidents", "1", "open incidents"),
        ("/redrives", "0", "running redrives"),
        ("/letters?q=status:resolved", "1", "resolved"),
    ] {
        let tile = between(&page, &format!("href=\"{href}\"><b>"), "</a>")
            .unwrap_or_else(|| panic!("{href}: {page}"));
        assert!(tile.starts_with(&format!("{count}</b>")) && tile.contains(name), "{tile}");
    }
    assert!(page.contains("2 letters captured, all accounted for"), "{page}");
    assert!(page.contains("Open incidents, most unresolved first") && !page.contains("All clear"), "{page}");
}

#[tokio::test]
async fn all_is_well_when_nothing_waits() {
    let app = TestApp::new().await;
    let letter = app.report(&entry("a")).await;
    app.post(&format!("/api/v1/dead-letters/{letter}/resolve"), &json!({})).await.expect(200);
    let page = overview(&app).await;
    assert!(page.contains("All clear") && page.contains("data-mood=\"calm\""), "{page}");
    assert!(!page.contains("Open incidents, most unresolved first"), "{page}");
}

#[tokio::test]
async fn the_chart_has_every_hour_a_name_and_a_table() {
    let app = TestApp::new().await;
    app.report(&entry("a")).await;
    app.pass(3 * 3_600_000);
    app.report(&entry("b")).await;
    app.report(&entry("c")).await;
    let page = overview(&app).await;
    let svg = between(&page, "<svg class=\"flow\"", "<figcaption").unwrap();
    assert_eq!(svg.matches("<title>").count(), 48, "{svg}");
    assert!(
        svg.contains(
            "aria-label=\"Letters in and out over the last 48 hours: 3 in, 0 out; peak per hour: 2,"
        )
    );
    assert!(svg.contains(">15 Nov</text>") && svg.contains(">12:00</text>"), "{svg}");
    let table = between(&page, "id=\"flow-table\"", "</details>").unwrap();
    assert_eq!(table.matches("<tr>").count(), 49, "{table}");
    assert!(table.contains("<td>Sun 15 Nov 03:00</td><td class=\"number\">1</td>"), "{table}");
    assert!(table.contains("<td>Sun 15 Nov 06:00</td><td class=\"number\">2</td>"), "{table}");
}

#[tokio::test]
async fn a_running_redrive_is_a_bar() {
    let (app, _receiver) = serving(Success::Response).await;
    fixed(&app, 3).await;
    let planned = plan(&app).await;
    assert!(!overview(&app).await.contains("Running redrives"), "a plan does not run");
    app.post("/api/v1/redrives", &launch_of(&planned)).await.expect(202);
    let page = overview(&app).await;
    let run = between(&page, "Running redrives", "</section>").unwrap_or_else(|| panic!("{page}"));
    assert!(run.contains(&format!("/redrives/{}", planned["id"].as_str().unwrap())), "{run}");
    assert!(run.contains("class=\"state running\"") && run.contains("0 of 3"), "{run}");
    assert!(run.contains("aria-label=\"0 of 3 letters processed: 0 succeeded"), "{run}");
    drive(&app).await;
    assert!(!overview(&app).await.contains("Running redrives"));
}

#[tokio::test]
async fn sources_and_their_health_are_there() {
    let app = TestApp::new().await;
    app.report(&entry("a")).await;
    let page = overview(&app).await;
    let sources = between(&page, "id=\"overview-sources\"", "</section>").unwrap();
    for part in ["/letters?q=source%3Areport", "/letters?q=source%3Ajobs", "reports over HTTP"] {
        assert!(sources.contains(part), "{part}: {sources}");
    }
}

#[tokio::test]
async fn who_may_not_read_sees_no_page() {
    let mut app = TestApp::new().await;
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("producer").await);
    for path in ["/", "/incidents"] {
        assert_eq!(Browser::default().get(&app, path).await.status, 403, "{path}");
    }
}
