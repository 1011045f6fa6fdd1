//! Who is let in: tokens, roles, hosts, origins.

use http::{Method, header};
use lazaret_server::access::{PERMISSIONS, Permission, Role};
use lazaret_server::config::Config;
use lazaret_store::sqlite::Mode;
use serde_json::json;

use super::rig::{Answer, TestApp};
use super::web::{Browser, between};

const ID: &str = "019a8b1c-7e00-7000-8000-000000000000";

async fn token(app: &TestApp, role: Role) -> String {
    let wish = json!({"name": format!("a {}", role.name()), "role": role.name()});
    let made = app.post("/api/v1/tokens", &wish).await.expect(201);
    made["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_route_lets_in_exactly_the_roles_of_the_table() {
    let mut app = TestApp::with(Config::default(), Mode::Test).await;
    let admin = token(&app, Role::Admin).await;
    app.token = Some(admin.clone());
    let mut tokens = vec![(Role::Admin, admin)];
    for role in [Role::Producer, Role::Viewer, Role::Operator, Role::Approver] {
        tokens.push((role, token(&app, role).await));
    }
    let front = Browser::text(&app.get("/").await);
    let file = between(&front, "href=\"/assets/", "\"").unwrap();
    for (method, route, permission) in PERMISSIONS {
        let path = route.replace("{id}", ID).replace("{name}", ID).replace("{letter}", ID);
        let path = path.replace("{file}", &file);
        let method: Method = method.parse().unwrap();
        app.token = None;
        let answer = app.send(app.request(method.clone(), &path, "")).await;
        match permission {
            Permission::Open => assert_ne!(answer.status, 401, "{method} {route}"),
            // Whoever looks at a page is shown where to sign in.
            _ if is_page(route) => {
                let to = answer.headers[header::LOCATION].to_str().unwrap();
                assert!(
                    answer.status == 303 && to.starts_with("/sign-in?next="),
                    "{method} {route}: {answer:?}"
                );
            }
            _ => refused(&answer, route, 401, "unauthorized"),
        }
        // The reset would take the tokens' effects with it; the other roles come first.
        for (role, token) in tokens.iter().rev() {
            app.token = Some(token.clone());
            let answer = app.send(app.request(method.clone(), &path, "")).await;
            if role.may(*permission) {
                assert!(
                    ![401, 403, 404, 405].contains(&answer.status.as_u16()) || reason(&answer).contains(ID),
                    "{method} {route} as {}: {answer:?}",
                    role.name()
                );
            } else {
                refused(&answer, route, 403, "forbidden");
            }
        }
    }
}

/// Each door refuses in its own words.
#[track_caller]
fn refused(answer: &Answer, route: &str, status: u16, code: &str) {
    if is_page(route) {
        let text = Browser::text(answer);
        assert_eq!(answer.status, status, "{route}: {text}");
        assert!(text.contains("not allowed for role"), "{route}: {text}");
    } else if route.starts_with("/ojs/") {
        let body = answer.expect(status);
        assert_eq!(body["error"]["code"], code, "{route}: {body}");
    } else {
        answer.problem(status, code);
    }
}

/// Whether it is for people.
fn is_page(route: &str) -> bool {
    !["/api/", "/ojs/", "/health/", "/metrics", "/test/", "/assets/"].iter().any(|of| route.starts_with(of))
}

fn reason(answer: &Answer) -> String {
    if answer.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/html") {
        return Browser::text(answer);
    }
    let body = answer.json();
    let told = [&body["detail"], &body["error"]["message"]].into_iter().find_map(|text| text.as_str());
    told.unwrap_or_else(|| panic!("{body}")).to_owned()
}

#[tokio::test]
async fn without_tokens_everyone_on_this_machine_is_let_in_and_told_so() {
    let app = TestApp::new().await;
    let me = app.get("/api/v1/me").await.expect(200);
    assert_eq!((&me["open"], &me["role"]), (&json!(true), &json!("admin")));
}

#[tokio::test]
async fn the_first_token_closes_the_door_and_must_be_an_admins() {
    let mut app = TestApp::new().await;
    app.post("/api/v1/tokens", &json!({"name": "x", "role": "viewer"})).await.problem(400, "bad_request");
    let admin = token(&app, Role::Admin).await;
    assert!(admin.starts_with("lzr_") && admin.len() == 47, "{admin}");
    app.get("/api/v1/stats").await.problem(401, "unauthorized");
    app.token = Some(format!("{admin}x"));
    app.get("/api/v1/stats").await.problem(401, "unauthorized");
    app.token = Some(admin.clone());
    let list = app.get("/api/v1/tokens").await.expect(200);
    assert!(!list.to_string().contains(&admin), "the token's text is nowhere to be had again");
    let dump = lazaret_store::Store::dump(app.store.as_ref()).await.unwrap();
    assert!(!dump.contains(&admin));
    let id = list["items"][0]["id"].as_str().unwrap().to_owned();
    app.delete(&format!("/api/v1/tokens/{id}")).await.expect(204);
    app.get("/api/v1/me").await.problem(401, "unauthorized");
    // Revoking the last token does not open the door again: it was shut on purpose.
    app.token = None;
    let told = app.get("/api/v1/me").await.problem(401, "unauthorized");
    assert!(
        told["hint"].as_str().unwrap().contains("lazaret token new --name me --role admin --data"),
        "{told}"
    );
    let page = Browser::text(&app.get("/sign-in").await);
    assert!(page.contains("lazaret token new --name me --role admin --data"), "{page}");
}

#[tokio::test]
async fn behind_a_proxy_nobody_is_let_in_without_a_token() {
    let stats = |app: &TestApp, host: &str, more: Option<(&'static str, &str)>| {
        let mut request = app.request(Method::GET, "/api/v1/stats", "");
        request.headers_mut().insert(header::HOST, host.parse().unwrap());
        if let Some((name, value)) = more {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request
    };
    // A proxy is named: who asks may be anybody, also by a loopback name.
    let config = Config { allowed_hosts: vec!["letters.example.org".into()], ..Config::default() };
    let app = TestApp::with(config, Mode::Real).await;
    for host in ["letters.example.org", "127.0.0.1:7070", "localhost"] {
        app.send(stats(&app, host, None)).await.problem(401, "unauthorized");
    }
    app.post("/api/v1/tokens", &json!({"name": "x", "role": "admin"})).await.problem(401, "unauthorized");
    // Names of this machine are no proxy's.
    let config = Config { allowed_hosts: vec!["localhost:7071".into()], ..Config::default() };
    let app = TestApp::with(config, Mode::Real).await;
    app.send(stats(&app, "localhost:7071", None)).await.expect(200);
    // A proxy that nobody named leaves traces.
    for (name, value) in [
        ("forwarded", "for=192.0.2.60"),
        ("x-forwarded-for", "192.0.2.60"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "letters.example.org"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "192.0.2.60"),
        ("via", "1.1 proxy"),
    ] {
        let answer = app.send(stats(&app, "localhost:7071", Some((name, value)))).await;
        answer.problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn a_server_that_others_can_reach_shuts_when_the_last_token_is_revoked() {
    let config = Config { listen: "0.0.0.0:7070".into(), ..Config::default() };
    let mut app = TestApp::with(config, Mode::Real).await;
    app.get("/api/v1/stats").await.problem(401, "unauthorized");
    app.token = Some(app.first_token().await);
    assert_eq!(app.get("/api/v1/me").await.expect(200)["open"], false);
    let tokens = app.get("/api/v1/tokens").await.expect(200);
    let id = tokens["items"][0]["id"].as_str().unwrap();
    app.delete(&format!("/api/v1/tokens/{id}")).await.expect(204);
    app.get("/api/v1/stats").await.problem(401, "unauthorized");
    app.token = None;
    app.get("/api/v1/stats").await.problem(401, "unauthorized");
    app.get("/health/live").await.expect(200);
}

#[tokio::test]
async fn a_request_for_another_host_is_misdirected() {
    let config = Config { allowed_hosts: vec!["letters.example.org".into()], ..Config::default() };
    let app = TestApp::with(config, Mode::Real).await;
    for (host, served) in [
        ("127.0.0.1:7070", true),
        ("localhost", true),
        ("[::1]:7070", true),
        ("letters.example.org", true),
        ("LETTERS.example.org:443", true),
        ("evil.example.org", false),
        ("127.0.0.1.evil.example.org", false),
        ("", false),
    ] {
        let mut request = app.request(Method::GET, "/health/live", "");
        request.headers_mut().insert(header::HOST, host.parse().unwrap());
        let answer = app.send(request).await;
        if served {
            answer.expect(200);
        } else {
            answer.problem(421, "misdirected");
        }
    }
    let mut request = app.request(Method::GET, "/health/live", "");
    request.headers_mut().remove(header::HOST);
    app.send(request).await.problem(421, "misdirected");
    let mut request = app.request(Method::GET, "/health/live", "");
    request.headers_mut().append(header::HOST, "letters.example.org".parse().unwrap());
    app.send(request).await.problem(400, "bad_request");
}

#[tokio::test]
async fn a_foreign_page_changes_nothing() {
    let app = TestApp::new().await;
    for (origin, let_in) in [
        ("http://127.0.0.1:7070", true),
        ("http://evil.example.org", false),
        ("null", false),
        ("http://127.0.0.1:7071", false),
        ("http://127.0.0.1:7070.evil.example.org", false),
    ] {
        let mut request = app.request(Method::POST, "/api/v1/dead-letters/count", "{}");
        request.headers_mut().insert(header::CONTENT_TYPE, "application/json".parse().unwrap());
        request.headers_mut().insert(header::ORIGIN, origin.parse().unwrap());
        let answer = app.send(request).await;
        if let_in {
            answer.expect(200);
        } else {
            answer.problem(403, "foreign_origin");
        }
        assert!(!answer.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    }
}

#[tokio::test]
async fn a_store_for_real_use_cannot_be_reset() {
    let app = TestApp::new().await;
    app.post("/test/reset", &json!({})).await.problem(404, "not_found");
    let app = TestApp::with(Config::default(), Mode::Test).await;
    app.report(&json!({"eventId": "e", "originalEvent": {}})).await;
    app.post("/test/reset", &json!({})).await.expect(204);
    assert_eq!(app.get("/api/v1/ledger?recount=true").await.expect(200)["captured"], 0);
}
