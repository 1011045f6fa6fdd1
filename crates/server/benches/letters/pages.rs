//! Pages of the dashboard as the store grows: from the request to the last byte of the answer, without a network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_core::filter::Filter;
use tower::ServiceExt;

use super::lists::{CALLS, page, report};
use super::sample::Bed;

const PAGES: [(&str, &str); 5] = [
    ("page: overview", "/"),
    ("page: incidents", "/incidents"),
    ("page: letters", "/letters"),
    ("page: letters of a type", "/letters?q=type%3Abilling.step3"),
    ("page: redrives", "/redrives"),
];

/// Loads each page so often, and reports it behind the lists.
pub async fn run(bed: &Bed, medians: &mut Vec<f64>, before: &[f64]) {
    let router = lazaret_server::api::router(Arc::clone(&bed.app));
    let letter = page(&bed.app, Filter::default(), None).await.letters.pop().expect("a letter is there");
    let of_one = [
        ("page: incident", format!("/incidents/{}", letter.incident)),
        ("page: letter", format!("/letters/{}", letter.id)),
    ];
    let all = PAGES.iter().map(|(name, address)| (*name, (*address).to_owned())).chain(of_one);
    for (name, address) in all {
        let mut waits = Vec::with_capacity(CALLS);
        let mut bytes = 0;
        for _ in 0..CALLS {
            let (wait, length) = load(&router, &address).await;
            waits.push(wait);
            bytes = length;
        }
        report(&format!("{name} ({} kB)", bytes / 1_000), waits, medians, before);
    }
}

async fn load(router: &Router, address: &str) -> (Duration, usize) {
    let request = Request::get(address).header(header::HOST, "127.0.0.1:7070");
    let request = request.body(Body::empty()).expect("a request can be made");
    let started = Instant::now();
    let answer = router.clone().oneshot(request).await.expect("a router answers");
    assert!(answer.status().is_success(), "{address}: {}", answer.status());
    let body = answer.into_body().collect().await.expect("a page comes").to_bytes();
    (started.elapsed(), body.len())
}
