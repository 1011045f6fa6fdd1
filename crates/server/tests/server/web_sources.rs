//! The page of sources: how each stands, what a look finds, and rows that are put back.

use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::outbox::Shop;
use super::redrive_rig::configured;
use super::rig::TestApp;
use super::web::Browser;

async fn page(app: &TestApp, path: &str) -> String {
    let answer = Browser::default().get(app, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
    Browser::text(&answer)
}

#[tokio::test]
async fn a_bare_server_says_how_to_configure_a_source() {
    let app = TestApp::new().await;
    let text = page(&app, "/sources").await;
    for part in ["No other sources configured", "[sources.orders]", "kind = \"outbox\"", "ready", "jobs"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[tokio::test]
async fn a_source_is_shown_with_its_letters_and_its_addresses_without_their_secrets() {
    let config = "[sources.orders]\nkind = 'report'\ngovernance = 'optional'\n\
                  [sources.orders.destination]\nurl = 'https://me:hidden-1@orders.example.org/events?key=hidden-2'\n\
                  secret = 'hidden-3-hidden-3-hidden-3'\n\
                  [sources.orders.subscribers.ledger]\nurl = 'https://me:hidden-4@ledger.example.org/in'\n\
                  [sources.orders.retention]\nmax_count = 4321\n";
    let app = TestApp::with(configured(config), Mode::Real).await;
    for event in ["a", "b"] {
        let entry = json!({"eventId": event, "originalEvent": {}, "error": {"type": "T", "message": "m"}});
        app.post("/api/v1/dead-letters?source=orders", &entry).await.expect(200);
    }
    let text = page(&app, "/sources").await;
    for part in [
        "orders.example.org",
        "ledger.example.org",
        "subscriber ledger",
        "2 letters",
        "of 2 stored",
        "optional",
        "4,321",
        "/rules?view=retention&amp;source=orders",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("hidden-"), "{text}");
    assert!(!text.contains("No other sources configured"), "{text}");
    let checked = page(&app, "/sources?check=orders").await;
    assert!(
        checked.contains("Health check of orders") && checked.contains("no connection to check"),
        "{checked}"
    );
    let unknown = Browser::default().get(&app, "/sources?check=%3Cscript%3Ealert(1)").await;
    assert_eq!(unknown.status, 404);
    let text = Browser::text(&unknown);
    assert!(text.contains("is not configured") && !text.contains("<script>alert"), "{text}");
}

#[tokio::test]
async fn a_table_shows_how_it_stands_and_what_is_wrong_with_it() {
    let mut shop = Shop::open().await;
    shop.dead_order("o-1").await;
    assert_eq!(shop.capture().await, 1);
    let text = page(&shop.app, "/sources").await;
    for part in ["public.outbox", "connected", "Captured</dt><dd>1", "retry policy outbox", "Lag"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let checked = page(&shop.app, "/sources?check=shop").await;
    assert!(
        checked.contains("Health check of shop") && !checked.contains("<span class=\"state bad\">error"),
        "{checked}"
    );
    shop.database.batch_execute("alter table outbox rename column last_error to mishap").await.unwrap();
    let checked = page(&shop.app, "/sources?check=shop").await;
    assert!(
        checked.contains("<span class=\"state bad\">error") && checked.contains("last_error"),
        "{checked}"
    );
}

#[tokio::test]
async fn a_vanished_row_is_put_back_from_the_page() {
    let mut shop = Shop::open().await;
    let browser = Browser::default();
    shop.dead_order("o-1").await;
    assert_eq!(shop.capture().await, 1);
    shop.database.execute("delete from outbox", &[]).await.unwrap();
    shop.look().await;
    let letter = shop.letters().await[0]["id"].as_str().unwrap().to_owned();
    let text = page(&shop.app, "/sources").await;
    assert!(
        text.contains("1 missing row") && text.contains("missing rows") && text.contains(&letter),
        "{text}"
    );
    let forged = browser.post(&shop.app, "/sources/put-back", &[("csrf", "1"), ("letter", &letter)]).await;
    assert_eq!(forged.status, 403);
    let rows = shop.database.query_one("select count(*) from outbox", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 0);
    let fields = [("letter", letter.as_str())];
    let back = browser.submit(&shop.app, "/sources", "/sources/put-back", &fields).await;
    assert!(browser.follow(&shop.app, &back).await.contains("Row restored"));
    let rows = shop.database.query_one("select count(*) from outbox", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 1);
    let back = browser.submit(&shop.app, "/sources", "/sources/put-back", &fields).await;
    assert!(browser.follow(&shop.app, &back).await.contains("Row already exists"));
    let entry = json!({"eventId": "e", "originalEvent": {}, "error": {"type": "A", "message": "b"}});
    let own = shop.app.report(&entry).await;
    let refused = browser.submit(&shop.app, "/sources", "/sources/put-back", &[("letter", &own)]).await;
    assert_eq!(refused.status, 409);
    assert!(Browser::text(&refused).contains("have no outbox rows"));
}

#[tokio::test]
async fn who_only_looks_puts_nothing_back() {
    let mut app = TestApp::new().await;
    let letter = app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("viewer").await);
    let browser = Browser::default();
    assert_eq!(browser.get(&app, "/sources?check=report").await.status, 200);
    let refused = browser.submit(&app, "/sources", "/sources/put-back", &[("letter", &letter)]).await;
    assert_eq!(refused.status, 403);
}
