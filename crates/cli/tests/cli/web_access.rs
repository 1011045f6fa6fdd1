//! Sign-in: without a token nothing is shown, with a wrong one neither, and who signed out is out.

use lazaret_browser::locator::{button, css, field, heading};
use lazaret_browser::look::Look;

use crate::running::{Desk, Server};
use crate::web::at;

/// A server with tokens, and one of this role.
fn closed(role: &str) -> (Server, String) {
    let desk = Desk::new();
    let made = |name: &str, role: &str| {
        let args = ["token", "new", "--name", name, "--role", role, "--data", "lazaret-data"];
        desk.run(&args).ok().trim_end().to_owned()
    };
    made("boss", "admin");
    let token = made("anna", role);
    (Server::start_on(desk), token)
}

#[test]
fn a_token_opens_the_pages_and_signing_out_closes_them() {
    let (server, token) = closed("operator");
    let browser = at(&server, "/letters?q=status:resolved", Look::DESK);
    browser.forgive("the server responded with a status of");
    browser.find_one(&heading("Sign in"));
    browser.fill(&field("Access token"), "lzr_not-this-one");
    browser.click(&button("Sign in"));
    browser.find_one(&css("[role=alert]"));
    assert_eq!(browser.value(&field("Access token")), "", "a secret is not sent back");

    browser.fill(&field("Access token"), &token);
    browser.click(&button("Sign in"));
    browser.find_one(&heading("Letters"));
    assert_eq!(browser.address(), "/letters?q=status:resolved", "where the way began");
    browser.see("anna");
    assert_eq!(
        browser.script("return document.cookie", &serde_json::json!([])),
        "lazaret_zone=0",
        "no script reads a cookie but the one that it made"
    );

    browser.click(&button("Sign out"));
    browser.find_one(&heading("Sign in"));
    browser.goto("/letters");
    browser.find_one(&heading("Sign in"));
}

#[test]
fn what_a_role_may_not_do_is_shown_with_the_reason() {
    let (server, token) = closed("viewer");
    let browser = at(&server, "/sign-in", Look::DESK);
    browser.fill(&field("Access token"), &token);
    browser.click(&button("Sign in"));
    browser.find_one(&heading("Overview"));
    browser.goto("/redrives/new?q=status:pending");
    browser.see("not allowed for role viewer");
    assert!(!browser.is_enabled(&button("Plan")));
}
