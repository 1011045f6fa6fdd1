//! A PostgreSQL whose connections stay open and answer nothing: readiness says so within seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode, header};
use lazaret_server::app::App;
use lazaret_server::clock::Clock;
use lazaret_server::config::Config;
use lazaret_store::Store;
use lazaret_store::postgres::PostgresStore;
use lazaret_store::sqlite::Mode;
use lazaret_store::testing::TestDatabase;
use lazaret_store::testing::proxy::Proxy;
use tower::ServiceExt;

/// How long those who ask usually wait.
const ANSWER_MAX: Duration = Duration::from_secs(10);

async fn status(router: &Router, path: &str) -> StatusCode {
    let request = Request::get(path).header(header::HOST, "127.0.0.1:7070").body(Body::empty()).unwrap();
    let begun = Instant::now();
    let answer = router.clone().oneshot(request).await.unwrap();
    assert!(begun.elapsed() < ANSWER_MAX, "{path}: {:?}", begun.elapsed());
    answer.status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_not_ready_until_it_answers_again() {
    let database = TestDatabase::new();
    let proxy = Proxy::start(&database.url()).await;
    let store = Arc::new(PostgresStore::open(proxy.url(), Mode::Test).await.unwrap());
    let app = App::new(store.clone(), Config::default(), Clock::System, true).await.unwrap();
    let router = lazaret_server::api::router(app);
    assert_eq!(status(&router, "/health/ready").await, StatusCode::OK);
    proxy.fall_silent();
    for _ in 0..2 {
        assert_eq!(status(&router, "/health/ready").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&router, "/ojs/v1/health").await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&router, "/health/live").await, StatusCode::OK);
    }
    proxy.answer_again();
    assert_eq!(status(&router, "/health/ready").await, StatusCode::OK);
    store.close().await.unwrap();
}
