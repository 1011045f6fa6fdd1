//! The description of the API is complete and says what the table says.

use std::collections::BTreeSet;

use lazaret_server::access::PERMISSIONS;

use super::rig::TestApp;

#[tokio::test]
async fn every_route_is_described_and_nothing_else() {
    let app = TestApp::new().await;
    let document = app.get("/api/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            described.insert((method.to_uppercase(), path.clone()));
            assert!(operation["responses"].as_object().is_some_and(|r| !r.is_empty()), "{method} {path}");
        }
    }
    // The routes of the Open Job Specification are described by it, and pages by themselves.
    let is_described =
        |route: &str| ["/api/", "/health/", "/metrics", "/test/"].iter().any(|of| route.starts_with(of));
    let table: BTreeSet<_> = PERMISSIONS
        .iter()
        .filter(|(_, route, _)| is_described(route))
        .map(|(method, route, _)| ((*method).to_owned(), (*route).to_owned()))
        .collect();
    assert_eq!(described, table);
}

#[tokio::test]
async fn references_lead_somewhere() {
    let app = TestApp::new().await;
    let text = String::from_utf8(app.get("/api/openapi.json").await.bytes).unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    for part in text.split("\"$ref\":\"#").skip(1) {
        let pointer = part.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
}
