//! Pages of other origins: those that the operator named may call the job routes, others nothing.

use http::{Method, header};
use lazaret_server::config::Config;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::ojs::error;
use super::rig::{Answer, TestApp};

const PAGE: &str = "https://jobs.example.org";

async fn served() -> TestApp {
    let mut config = Config::default();
    config.jobs.allowed_origins = vec![PAGE.to_owned()];
    TestApp::with(config, Mode::Real).await
}

async fn call(app: &TestApp, method: Method, path: &str, origin: &str, body: &str) -> Answer {
    let mut request = app.request(method, path, body.to_owned());
    let headers = request.headers_mut();
    headers.insert(header::ORIGIN, origin.parse().unwrap());
    headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, "POST".parse().unwrap());
    app.send(request).await
}

#[tokio::test]
async fn a_named_origin_may_ask_and_call_and_read_the_answer() {
    let app = served().await;
    let asked = call(&app, Method::OPTIONS, "/ojs/v1/dead-letter/retry", PAGE, "").await;
    asked.expect(204);
    assert_eq!(asked.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
    assert!(asked.headers[header::ACCESS_CONTROL_ALLOW_METHODS].to_str().unwrap().contains("DELETE"));
    assert!(asked.headers[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap().contains("Authorization"));
    assert!(!asked.headers.contains_key(header::ACCESS_CONTROL_ALLOW_CREDENTIALS));
    assert_eq!(asked.headers["ojs-version"], "1.0");
    assert!(asked.headers.contains_key("x-request-id"));

    let job = json!({"type": "t", "args": []}).to_string();
    let made = call(&app, Method::POST, "/ojs/v1/jobs", PAGE, &job).await;
    made.expect(201);
    let missing = call(&app, Method::GET, "/ojs/v1/jobs/none", PAGE, "").await;
    error(&missing, 404, "not_found");
    for answer in [made, missing] {
        assert_eq!(answer.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], PAGE);
        let exposed = answer.headers[header::ACCESS_CONTROL_EXPOSE_HEADERS].to_str().unwrap();
        for name in ["X-Request-Id", "OJS-Version", "Retry-After"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        assert!(answer.headers.get_all(header::VARY).iter().any(|value| value == "Origin"));
    }
}

#[tokio::test]
async fn other_origins_and_other_routes_are_as_shut_as_before() {
    let app = served().await;
    let job = json!({"type": "t", "args": []}).to_string();
    for origin in
        ["https://evil.example.org", "http://jobs.example.org", "https://jobs.example.org:8443", "null"]
    {
        let asked = call(&app, Method::OPTIONS, "/ojs/v1/jobs", origin, "").await;
        error(&asked, 405, "method_not_allowed");
        let refused = call(&app, Method::POST, "/ojs/v1/jobs", origin, &job).await;
        let told = error(&refused, 403, "forbidden");
        assert!(told["hint"].as_str().unwrap().contains("jobs.allowed_origins"), "{told}");
        for answer in [asked, refused] {
            assert!(!answer.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), "{origin}");
        }
    }
    let other = call(&app, Method::POST, "/api/v1/dead-letters", PAGE, "{}").await;
    other.problem(403, "foreign_origin");
    let plain = TestApp::new().await;
    let shut = call(&plain, Method::POST, "/ojs/v1/jobs", PAGE, &job).await;
    error(&shut, 403, "forbidden");
    assert!(!shut.headers.contains_key(header::VARY));
}
