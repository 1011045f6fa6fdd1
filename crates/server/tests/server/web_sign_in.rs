//! Signing in with a token and out again, and what a session opens.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, header};
use lazaret_server::config::Config;
use lazaret_server::sessions;
use lazaret_store::Access;
use lazaret_store::sqlite::Mode;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::rig::{Answer, TestApp};
use super::web::{Browser, between};

const SESSION: &str = "lazaret_session";
const HOURS_12_MS: i64 = 12 * 3_600_000;

/// A server with an admin's token and an operator's, which come back in this order.
async fn guarded() -> (TestApp, String, String) {
    guarded_with(Config::default()).await
}

async fn guarded_with(config: Config) -> (TestApp, String, String) {
    let mut app = TestApp::with(config, Mode::Real).await;
    let admin = app.first_token().await;
    app.token = Some(admin.clone());
    let operator = app.token_of("operator").await;
    app.token = None;
    (app, admin, operator)
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", String::from_utf8_lossy(&answer.bytes));
    answer.headers[header::LOCATION].to_str().unwrap()
}

/// What was said about the cookie of the session.
fn session_set(answer: &Answer) -> Option<String> {
    let all = answer.headers.get_all(header::SET_COOKIE).iter().map(|set| set.to_str().unwrap().to_owned());
    all.into_iter().find(|set| set.starts_with(SESSION))
}

/// What a page says once somebody came there by a cookie that is only known to the test.
async fn by_cookie(app: &TestApp, path: &str, cookie: &str) -> Answer {
    let mut request = app.request(Method::GET, path, Body::empty());
    request.headers_mut().insert(header::COOKIE, format!("{SESSION}={cookie}").parse().unwrap());
    app.send(request).await
}

#[tokio::test]
async fn a_page_leads_to_the_sign_in_and_the_sign_in_to_the_page() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    let sent_away = browser.get(&app, "/audit?before=900").await;
    assert_eq!(location(&sent_away), "/sign-in?next=%2Faudit%3Fbefore%3D900");
    let fields = [("token", operator.as_str()), ("next", "/audit?before=900")];
    let entered = browser.submit(&app, location(&sent_away), "/sign-in", &fields).await;
    assert_eq!(location(&entered), "/audit?before=900");
    let set = session_set(&entered).unwrap();
    for said in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(set.split("; ").any(|part| part == said), "{said} in {set}");
    }
    assert!(!set.contains("Secure"), "this machine needs no encryption: {set}");
    assert_eq!(browser.cookie(SESSION).unwrap().len(), 43, "32 bytes");
    let page = browser.follow(&app, &entered).await;
    assert!(page.contains("Signed in as the operator, operator."), "{page}");
    assert_eq!(location(&browser.get(&app, "/sign-in?next=/settings").await), "/settings");
}

#[tokio::test]
async fn the_sign_in_page_hands_the_place_on_in_its_form() {
    let (app, _, _) = guarded().await;
    let page =
        Browser::text(&Browser::default().get(&app, "/sign-in?next=/letters%3Fq%3D%22%3E%3Cb%3E").await);
    assert!(page.contains("name=\"next\" value=\"/letters?q=&#34;&#62;&#60;b&#62;\""), "{page}");
    assert!(page.contains("class=\"alone\"") && !page.contains("<nav"), "it stands alone");
}

#[tokio::test]
async fn nobody_is_led_to_another_host() {
    let (app, _, operator) = guarded().await;
    for next in ["//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "evil"] {
        let browser = Browser::default();
        let fields = [("token", operator.as_str()), ("next", next)];
        assert_eq!(location(&browser.submit(&app, "/sign-in", "/sign-in", &fields).await), "/", "{next}");
    }
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_nobody_is_signed_in() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    let wrong = format!("{operator}x");
    for token in [wrong.as_str(), "", "lzr_", &"x".repeat(5_000)] {
        let answer =
            browser.submit(&app, "/sign-in", "/sign-in", &[("token", token), ("next", "/audit")]).await;
        // Five of them would be one too many.
        app.pass(300_000);
        assert_eq!(answer.status, 401);
        let text = Browser::text(&answer);
        assert!(text.contains("unknown or revoked token"), "{text}");
        assert!(!text.contains(&wrong), "what was typed is not shown again");
        assert!(text.contains("name=\"next\" value=\"/audit\""), "{text}");
        assert_eq!(session_set(&answer), None);
    }
    assert_eq!(browser.get(&app, "/").await.status, 303);
}

#[tokio::test]
async fn a_revoked_token_ends_its_sessions_at_once() {
    let (mut app, admin, operator) = guarded().await;
    let (his, hers) = (Browser::default(), Browser::default());
    his.sign_in(&app, &operator).await;
    hers.sign_in(&app, &admin).await;
    assert_eq!(his.get(&app, "/").await.status, 200);
    app.token = Some(admin);
    let tokens = app.get("/api/v1/tokens").await.expect(200);
    let his_token = tokens["items"].as_array().unwrap().iter().find(|token| token["role"] == "operator");
    let id = his_token.unwrap()["id"].as_str().unwrap().to_owned();
    app.delete(&format!("/api/v1/tokens/{id}")).await.expect(204);
    app.token = None;
    assert_eq!(location(&his.get(&app, "/").await), "/sign-in?next=%2F");
    his.get(&app, "/api/v1/me").await.problem(401, "unauthorized");
    assert_eq!(hers.get(&app, "/").await.status, 200);
}

#[tokio::test]
async fn who_signs_out_is_out_also_with_the_old_cookie() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &operator).await;
    let cookie = browser.cookie(SESSION).unwrap();
    assert_eq!(by_cookie(&app, "/", &cookie).await.status, 200);
    let left = browser.submit(&app, "/", "/sign-out", &[]).await;
    assert_eq!(location(&left), "/sign-in");
    assert_eq!(browser.cookie(SESSION), None);
    assert!(browser.follow(&app, &left).await.contains("Signed out."));
    assert_eq!(by_cookie(&app, "/", &cookie).await.status, 303);
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_session_of_the_token_and_no_other() {
    let (app, admin, operator) = guarded().await;
    let browsers = [(); 3].map(|()| Browser::default());
    let [desk, phone, hers] = &browsers;
    desk.sign_in(&app, &operator).await;
    phone.sign_in(&app, &operator).await;
    hers.sign_in(&app, &admin).await;
    let left = desk.submit(&app, "/settings", "/sign-out-everywhere", &[]).await;
    assert!(desk.follow(&app, &left).await.contains("2 sessions ended"));
    assert_eq!(phone.get(&app, "/").await.status, 303);
    assert_eq!(hers.get(&app, "/").await.status, 200);
    phone.sign_in(&app, &operator).await;
    assert_eq!(phone.get(&app, "/").await.status, 200, "the token is as good as before");
}

#[tokio::test]
async fn a_session_lasts_twelve_hours_and_is_then_forgotten() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &operator).await;
    let hash: [u8; 32] = Sha256::digest(browser.cookie(SESSION).unwrap()).into();
    let kept = async || app.store.session(hash).await.unwrap().is_some();
    app.pass(HOURS_12_MS - 1);
    assert_eq!(browser.get(&app, "/").await.status, 200);
    sessions::tick(&app.app).await.unwrap();
    assert!(kept().await);
    app.pass(1);
    assert_eq!(browser.get(&app, "/").await.status, 303);
    sessions::tick(&app.app).await.unwrap();
    assert!(!kept().await);
}

#[tokio::test]
async fn a_session_reads_from_the_api_and_changes_nothing_there() {
    let (app, admin, _) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &admin).await;
    let ask = async |method: Method, path: &str| browser.send(&app, app.request(method, path, "")).await;
    assert_eq!(ask(Method::GET, "/api/v1/me").await.expect(200)["actor"], "the admin");
    assert_eq!(ask(Method::HEAD, "/api/v1/stats").await.status, 200);
    assert_eq!(ask(Method::GET, "/api/v1/tokens").await.status, 200);
    for (method, path) in [
        (Method::POST, "/api/v1/dead-letters/count"),
        (Method::POST, "/api/v1/tokens"),
        (Method::DELETE, "/api/v1/tokens/019a8b1c-7e00-7000-8000-000000000000"),
    ] {
        ask(method, path).await.problem(401, "unauthorized");
    }
    assert_eq!(ask(Method::GET, "/ojs/v1/queues").await.status, 401);
    assert_eq!(ask(Method::GET, "/metrics").await.status, 401);
    // Whoever shows a token is judged by it.
    let mut request = app.request(Method::GET, "/api/v1/me", "");
    request.headers_mut().insert(header::AUTHORIZATION, "Bearer lzr_wrong".parse().unwrap());
    browser.send(&app, request).await.problem(401, "unauthorized");
}

#[tokio::test]
async fn a_producer_is_told_that_pages_are_not_for_programs() {
    let (mut app, admin, _) = guarded().await;
    app.token = Some(admin);
    let producer = app.token_of("producer").await;
    app.token = None;
    let browser = Browser::default();
    let answer = browser.submit(&app, "/sign-in", "/sign-in", &[("token", &producer)]).await;
    assert_eq!(answer.status, 403);
    assert!(Browser::text(&answer).contains("no dashboard access"), "{}", Browser::text(&answer));
    assert_eq!(session_set(&answer), None);
    app.token = Some(producer);
    let page = app.get("/").await;
    assert_eq!(page.status, 403);
    assert!(Browser::text(&page).contains("not allowed for role producer"));
}

/// Sends the form of the sign-in from an address.
async fn guess(app: &TestApp, from: &str, token: &str) -> Answer {
    let browser = Browser::default();
    let page = Browser::text(&browser.get(app, "/sign-in").await);
    let csrf = between(&page, "name=\"csrf\" value=\"", "\"").unwrap();
    let fields = [("csrf", csrf.as_str()), ("token", token)];
    let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let mut request = app.request(Method::POST, "/sign-in", body);
    let form = "application/x-www-form-urlencoded".parse().unwrap();
    request.headers_mut().insert(header::CONTENT_TYPE, form);
    let peer: SocketAddr = format!("{from}:40000").parse().unwrap();
    request.extensions_mut().insert(ConnectInfo(peer));
    browser.send(app, request).await
}

#[tokio::test]
async fn who_guesses_has_to_wait_and_nobody_else() {
    let (app, _, operator) = guarded().await;
    for _ in 0..4 {
        assert_eq!(guess(&app, "192.0.2.7", "lzr_wrong").await.status, 401);
    }
    for token in ["lzr_wrong", operator.as_str()] {
        let locked = guess(&app, "192.0.2.7", token).await;
        assert_eq!(locked.status, 429);
        assert_eq!(locked.headers[header::RETRY_AFTER], "60");
        let text = Browser::text(&locked);
        assert!(text.contains("too many invalid tokens") && text.contains("retry in 60 seconds"), "{text}");
        assert_eq!(session_set(&locked), None);
    }
    assert_eq!(guess(&app, "192.0.2.8", &operator).await.status, 303);
    app.pass(59_000);
    assert_eq!(guess(&app, "192.0.2.7", &operator).await.headers[header::RETRY_AFTER], "1");
    app.pass(1_000);
    assert_eq!(guess(&app, "192.0.2.7", &operator).await.status, 303);
}

#[tokio::test]
async fn without_tokens_nobody_signs_in() {
    let app = TestApp::new().await;
    let browser = Browser::default();
    assert_eq!(location(&browser.get(&app, "/sign-in?next=/audit").await), "/audit");
    let page = Browser::text(&browser.get(&app, "/").await);
    assert!(page.contains("anyone on this machine has full access"), "{page}");
    assert!(!page.contains("action=\"/sign-out\""));
}

#[tokio::test]
async fn a_cookie_that_was_planted_is_worth_nothing_and_does_not_stay() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    browser.plant(SESSION, "planted");
    assert_eq!(browser.get(&app, "/").await.status, 303);
    browser.sign_in(&app, &operator).await;
    let first = browser.cookie(SESSION).unwrap();
    assert_ne!(first, "planted");
    assert_eq!(by_cookie(&app, "/", "planted").await.status, 303);
    // Signing in once more while signed in leaves one session, and not the old one.
    let csrf = between(&Browser::text(&browser.get(&app, "/settings").await), "name=\"csrf\" value=\"", "\"");
    let fields = [("csrf", csrf.as_deref().unwrap()), ("token", operator.as_str())];
    assert_eq!(browser.post(&app, "/sign-in", &fields).await.status, 303);
    assert_ne!(browser.cookie(SESSION).unwrap(), first);
    assert_eq!(by_cookie(&app, "/", &first).await.status, 303);
    assert_eq!(browser.get(&app, "/").await.status, 200);
}

#[tokio::test]
async fn a_form_is_believed_only_from_the_same_session() {
    let (app, admin, operator) = guarded().await;
    let browser = Browser::default();
    let before = Browser::text(&browser.get(&app, "/sign-in").await);
    let before = between(&before, "name=\"csrf\" value=\"", "\"").unwrap();
    assert_eq!(browser.post(&app, "/sign-in", &[("token", &operator)]).await.status, 403);
    browser.sign_in(&app, &operator).await;
    let other = Browser::default();
    other.sign_in(&app, &admin).await;
    let others = Browser::text(&other.get(&app, "/settings").await);
    let others = between(&others, "name=\"csrf\" value=\"", "\"").unwrap();
    for csrf in [before.as_str(), others.as_str(), ""] {
        let refused = browser.post(&app, "/sign-out", &[("csrf", csrf)]).await;
        assert_eq!(refused.status, 403, "{csrf}");
        assert!(Browser::text(&refused).contains("form does not belong to this session"));
    }
    assert_eq!(browser.get(&app, "/").await.status, 200);
}

#[tokio::test]
async fn from_another_machine_the_cookie_goes_over_encrypted_lines_only() {
    let config = Config { allowed_hosts: vec!["letters.example".into()], ..Config::default() };
    let (app, _, operator) = guarded_with(config).await;
    let ask = async |origin: Option<&str>| {
        let browser = Browser::default();
        let page = Browser::text(&browser.get(&app, "/sign-in").await);
        let csrf = between(&page, "name=\"csrf\" value=\"", "\"").unwrap();
        let fields = [("csrf", csrf.as_str()), ("token", &operator)];
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut request = app.request(Method::POST, "/sign-in", body);
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
        headers.insert(header::HOST, "letters.example".parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        browser.send(&app, request).await
    };
    for origin in [None, Some("https://letters.example")] {
        let entered = ask(origin).await;
        assert_eq!(location(&entered), "/");
        assert!(session_set(&entered).unwrap().ends_with("; Secure"));
    }
    let refused = ask(Some("http://letters.example")).await;
    assert_eq!(refused.status, 400);
    assert!(Browser::text(&refused).contains("requires HTTPS"));
    assert_eq!(session_set(&refused), None);
}

#[tokio::test]
async fn a_form_that_comes_too_late_is_not_done_and_says_so() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &operator).await;
    app.pass(HOURS_12_MS);
    let body = "csrf=x&theme=dark";
    let mut request = app.request(Method::POST, "/settings/theme", body);
    let headers = request.headers_mut();
    headers.insert(header::CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap());
    headers.insert(header::REFERER, "http://127.0.0.1:7070/settings?a=b".parse().unwrap());
    let answer = browser.send(&app, request).await;
    assert_eq!(location(&answer), "/sign-in?next=%2Fsettings%3Fa%3Db&lost=1");
    let page = browser.follow(&app, &answer).await;
    assert!(page.contains("the form was not submitted"), "{page}");
}

#[tokio::test]
async fn a_link_from_elsewhere_finds_whoever_is_signed_in() {
    let (app, _, operator) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &operator).await;
    // The browser keeps the cookie back when it comes from another site.
    let mut request = app.request(Method::GET, "/audit?before=9", "");
    request.headers_mut().insert("sec-fetch-site", "cross-site".parse().unwrap());
    let answer = app.send(request).await;
    assert_eq!(answer.status, 200);
    let text = Browser::text(&answer);
    let to = between(&text, "content=\"0; url=", "\"").unwrap();
    assert_eq!(to, "/sign-in?next=%2Faudit%3Fbefore%3D9");
    assert_eq!(location(&browser.get(&app, &to).await), "/audit?before=9");
    assert_eq!(Browser::default().get(&app, &to).await.status, 200, "whoever is not signed in is asked to");
}

#[tokio::test]
async fn who_signs_in_and_out_is_on_record() {
    let (mut app, admin, operator) = guarded().await;
    let browser = Browser::default();
    browser.sign_in(&app, &operator).await;
    browser.submit(&app, "/", "/sign-out", &[]).await;
    browser.sign_in(&app, &operator).await;
    browser.submit(&app, "/", "/sign-out-everywhere", &[]).await;
    app.token = Some(admin);
    let log = app.get("/api/v1/audit?limit=4").await.expect(200);
    let told = log["items"].as_array().unwrap().iter().rev();
    let told: Vec<_> = told.map(|entry| (entry["actor"].clone(), entry["action"].clone())).collect();
    let by = |action: &str| (json!("the operator"), json!(action));
    assert_eq!(told, [by("signed_in"), by("signed_out"), by("signed_in"), by("signed_out_everywhere")]);
    let dump = lazaret_store::Store::dump(app.store.as_ref()).await.unwrap();
    assert!(!dump.contains(&operator), "no token is kept in clear");
}
