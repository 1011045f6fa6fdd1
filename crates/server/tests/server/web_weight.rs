//! How much a newcomer's browser has to fetch before it shows the first page.

use axum::body::Body;
use http::{Method, header};
use serde_json::json;

use super::rig::TestApp;
use super::web::Browser;

/// What the first page and everything it loads may weigh on the wire, in bytes.
const FIRST_PAGE_BYTES_MAX: usize = 100_000;

/// The addresses under `/assets/` that a text names in quotes.
fn assets(text: &str) -> Vec<String> {
    text.split('"').filter(|part| part.starts_with("/assets/")).map(str::to_owned).collect()
}

/// The bytes of an asset as a browser gets them, and its text.
async fn load(app: &TestApp, address: &str) -> (usize, String) {
    let mut request = app.request(Method::GET, address, Body::empty());
    request.headers_mut().insert(header::ACCEPT_ENCODING, "gzip, deflate, br".parse().unwrap());
    let compressed = app.send(request).await;
    assert_eq!(compressed.headers[header::CONTENT_ENCODING], "gzip", "{address}");
    let plain = app.get(address).await;
    assert_eq!(plain.status, 200, "{address}");
    assert!(!plain.headers.contains_key(header::CONTENT_ENCODING), "{address}");
    assert!(compressed.bytes.len() < plain.bytes.len(), "{address}");
    (compressed.bytes.len(), Browser::text(&plain))
}

#[tokio::test]
async fn the_first_page_comes_over_a_thin_line() {
    let app = TestApp::new().await;
    for n in 0..400 {
        let entry = json!({
            "eventId": format!("e{n}"),
            "originalEvent": {"pattern": format!("order.step{}", n % 40), "payload": {"total": n}},
            "error": {"type": format!("Error{}", n % 40), "message": "connection to the warehouse refused after 30 s"},
        });
        app.report(&entry).await;
        app.pass(300_000);
    }
    let page = Browser::default().get(&app, "/").await;
    assert_eq!(page.status, 200);
    let mut sum = page.bytes.len();
    let mut loaded = assets(&Browser::text(&page));
    let mut at = 0;
    while let Some(address) = loaded.get(at).cloned() {
        at += 1;
        let (bytes, text) = load(&app, &address).await;
        sum += bytes;
        for more in assets(&text) {
            if !loaded.contains(&more) {
                loaded.push(more);
            }
        }
    }
    assert!(loaded.len() > 15, "{loaded:?}");
    assert!(sum < FIRST_PAGE_BYTES_MAX, "{sum} bytes, {} of them the page", page.bytes.len());
}
