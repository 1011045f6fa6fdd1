//! The settings: who one is, colours, tokens and sessions.

use http::header;

use super::rig::{Answer, TestApp};
use super::web::{Browser, between};

/// A server with an admin who is signed in.
async fn admins() -> (TestApp, Browser) {
    let app = TestApp::new().await;
    let admin = app.token_of("admin").await;
    let browser = Browser::default();
    browser.sign_in(&app, &admin).await;
    (app, browser)
}

/// The text of a page that must have this status.
#[track_caller]
fn shown(answer: &Answer, status: u16) -> String {
    let text = Browser::text(answer);
    assert_eq!(answer.status, status, "{text}");
    text
}

#[tokio::test]
async fn the_settings_tell_who_one_is_and_how_the_server_is_set_up() {
    let (app, browser) = admins().await;
    let page = shown(&browser.get(&app, "/settings").await, 200);
    for told in [
        "the admin",
        "<dd>admin</dd>",
        env!("CARGO_PKG_VERSION"),
        "embedded (SQLite)",
        "listen = ",
        "<strong>this browser</strong>",
        "/api/openapi.json",
        "data-keyboard",
    ] {
        assert!(page.contains(told), "{told} in {page}");
    }
    let open = TestApp::new().await;
    let page = shown(&Browser::default().get(&open, "/settings").await, 200);
    assert!(page.contains("access control is off until the first token exists"), "{page}");
    assert!(!page.contains("id=\"sessions\">Sessions"));
}

#[tokio::test]
async fn colours_are_kept_by_the_browser() {
    let (app, browser) = admins().await;
    assert!(shown(&browser.get(&app, "/settings").await, 200).contains("data-theme=\"system\""));
    let done = browser.submit(&app, "/settings", "/settings/theme", &[("theme", "dark")]).await;
    let set = done.headers.get_all(header::SET_COOKIE).iter().map(|set| set.to_str().unwrap());
    assert!(
        set.into_iter().any(|set| set.starts_with("lazaret_theme=dark;") && set.contains("Max-Age=31536000"))
    );
    let page = browser.follow(&app, &done).await;
    assert!(
        page.contains("data-theme=\"dark\"") && page.contains("value=\"dark\" class=\"primary\""),
        "{page}"
    );
    let refused = browser.submit(&app, "/settings", "/settings/theme", &[("theme", "pink")]).await;
    assert!(shown(&refused, 400).contains("theme must be system, light or dark"));
    let elsewhere = [("theme", "light"), ("next", "//evil.example")];
    let done = browser.submit(&app, "/settings", "/settings/theme", &elsewhere).await;
    assert_eq!(done.headers[header::LOCATION], "/");
}

#[tokio::test]
async fn a_token_is_shown_once_and_lets_in() {
    let (app, browser) = admins().await;
    let fields = [("name", " ana "), ("role", "operator")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 201);
    let token = between(&page, "id=\"secret\" data-copy>", "<").unwrap();
    assert!(token.starts_with("lzr_") && token.len() == 47, "{token}");
    assert!(page.contains("Token ana (operator)"), "{page}");
    assert!(!page.contains("Access control is on"));
    let again = shown(&browser.get(&app, "/settings").await, 200);
    assert!(again.contains("Revoke token ana") && !again.contains(&token), "{again}");
    let hers = Browser::default();
    hers.sign_in(&app, &token).await;
    assert!(shown(&hers.get(&app, "/settings").await, 200).contains("<dd>ana</dd>"));
}

#[tokio::test]
async fn the_first_token_closes_the_door_and_the_page_says_so() {
    let app = TestApp::new().await;
    let browser = Browser::default();
    let fields = [("name", "bo"), ("role", "viewer")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 400);
    assert!(page.contains("the first token must be an admin&#39;s"), "{page}");
    assert!(page.contains("value=\"bo\"") && page.contains("<option value=\"viewer\" selected>"), "{page}");
    let fields = [("name", "bo"), ("role", "admin")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 201);
    assert!(page.contains("Access control is on"), "{page}");
    assert!(!page.contains("No access control"), "{page}");
    let token = between(&page, "id=\"secret\" data-copy>", "<").unwrap();
    assert_eq!(browser.get(&app, "/settings").await.status, 303);
    browser.sign_in(&app, &token).await;
    assert!(shown(&browser.get(&app, "/settings").await, 200).contains("class=\"tag\">yours<"));
}

#[tokio::test]
async fn a_token_that_cannot_be_made_keeps_what_was_typed() {
    let (app, browser) = admins().await;
    let fields = [("name", "  "), ("role", "approver")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 400);
    assert!(page.contains("the name must have 1 to 512 bytes"), "{page}");
    assert!(page.contains("<option value=\"approver\" selected>"), "{page}");
    let fields = [("name", "ana"), ("role", "king")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 400);
    assert!(page.contains("the role `king` is unknown") && page.contains("value=\"ana\""), "{page}");
    let wrong = [("csrf", "x"), ("name", "ana"), ("role", "admin")];
    assert_eq!(browser.post(&app, "/settings/tokens", &wrong).await.status, 403);
    assert!(!shown(&browser.get(&app, "/settings").await, 200).contains("Revoke token ana"));
}

#[tokio::test]
async fn a_revoked_token_is_out_at_once_and_stays_listed() {
    let (app, browser) = admins().await;
    let fields = [("name", "ana"), ("role", "operator")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 201);
    let token = between(&page, "id=\"secret\" data-copy>", "<").unwrap();
    let hers = Browser::default();
    hers.sign_in(&app, &token).await;
    let list = shown(&browser.get(&app, "/settings").await, 200);
    let (before, _) = list.split_once(">Revoke token ana<").unwrap();
    let (_, form) = before.rsplit_once("action=\"").unwrap();
    let action = form.split('"').next().unwrap().to_owned();
    let done = browser.submit(&app, "/settings", &action, &[("name", "ana")]).await;
    let page = browser.follow(&app, &done).await;
    assert!(page.contains("Token ana revoked") && page.contains("1 revoked"), "{page}");
    assert_eq!(hers.get(&app, "/").await.status, 303);
    let again = browser.submit(&app, "/settings", &action, &[]).await;
    assert!(shown(&again, 404).contains("there is no token"), "and the page is still there");
    // One's own is the last thing that one revokes, and then nobody is let in until one is made on the machine.
    let list = shown(&browser.get(&app, "/settings").await, 200);
    let action = between(&list, "action=\"/settings/tokens/", "\"").unwrap();
    let done = browser.submit(&app, "/settings", &format!("/settings/tokens/{action}"), &[]).await;
    let page = browser.get(&app, done.headers[http::header::LOCATION].to_str().unwrap()).await;
    assert_eq!(page.status, 303, "{page:?}");
    let page = Browser::text(&browser.get(&app, "/sign-in").await);
    assert!(page.contains("lazaret token new --name me --role admin --data"), "{page}");
}

#[tokio::test]
async fn the_last_admin_is_warned() {
    let (app, browser) = admins().await;
    let page = shown(&browser.get(&app, "/settings").await, 200);
    assert_eq!(page.matches("Last admin token").count(), 1, "without it nobody is let in: {page}");
    browser.submit(&app, "/settings", "/settings/tokens", &[("name", "v"), ("role", "viewer")]).await;
    let page = shown(&browser.get(&app, "/settings").await, 200);
    assert_eq!(page.matches("Last admin token").count(), 1, "{page}");
}

#[tokio::test]
async fn whoever_may_not_administer_sees_why() {
    let (mut app, browser) = admins().await;
    let page =
        browser.submit(&app, "/settings", "/settings/tokens", &[("name", "v"), ("role", "viewer")]).await;
    let token = between(&shown(&page, 201), "id=\"secret\" data-copy>", "<").unwrap();
    let his = Browser::default();
    his.sign_in(&app, &token).await;
    let page = shown(&his.get(&app, "/settings").await, 200);
    assert!(page.contains("not allowed for role viewer: requires `administer`"), "{page}");
    assert!(!page.contains("the admin"), "tokens are listed for administrators only: {page}");
    let refused =
        his.submit(&app, "/settings", "/settings/tokens", &[("name", "x"), ("role", "admin")]).await;
    assert!(shown(&refused, 403).contains("not allowed for role viewer"));
    app.token = Some(token);
    assert!(app.get("/settings").await.status == 200, "a token will do as well");
}

#[tokio::test]
async fn names_are_shown_and_never_obeyed() {
    let (app, browser) = admins().await;
    let name = "<script>alert(1)</script>\" onfocus=\"x\u{202e}gpj";
    let fields = [("name", name), ("role", "operator")];
    let page = shown(&browser.submit(&app, "/settings", "/settings/tokens", &fields).await, 201);
    let token = between(&page, "id=\"secret\" data-copy>", "<").unwrap();
    let hers = Browser::default();
    hers.sign_in(&app, &token).await;
    for page in [
        page,
        shown(&hers.get(&app, "/settings").await, 200),
        shown(&browser.get(&app, "/settings").await, 200),
    ] {
        assert!(page.contains("&#60;script&#62;alert(1)"), "{page}");
        assert!(page.contains("⟨U+202E⟩gpj"), "{page}");
        for bad in ["<script>alert", "\" onfocus=\"", "\u{202e}"] {
            assert!(!page.contains(bad), "{bad} in {page}");
        }
    }
}
