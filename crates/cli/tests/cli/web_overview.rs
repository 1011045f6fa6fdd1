//! A newcomer opens the demo and looks around.

use lazaret_browser::locator::{button, css, heading, link, text};
use lazaret_browser::look::Look;

use crate::running::Server;
use crate::web::{at, demo};

#[test]
fn a_newcomer_opens_the_demo_and_finds_every_place() {
    let server = demo();
    let browser = at(&server, "/", Look::DESK);
    browser.find_one(&heading("Overview"));
    browser.see("No access control");
    browser.see("unaccounted: 0");
    browser.see("Open incidents");
    assert!(browser.title().contains("Overview · Lazaret"), "{}", browser.title());
    for place in [
        "Incidents",
        "Letters",
        "Redrives",
        "Jobs",
        "Rules",
        "Sources",
        "Archive",
        "Alerts",
        "Audit",
        "Settings",
    ] {
        browser.click(&link(place).within(css("nav[aria-label='Main navigation']")));
        browser.find_one(&heading(place));
        assert!(browser.title().contains(&format!("{place} · Lazaret")), "{}", browser.title());
        assert_eq!(browser.address().trim_start_matches('/'), place.to_lowercase());
        let current = css("nav a[aria-current=page]");
        assert!(browser.text(&current).contains(place), "{}", browser.text(&current));
    }

    // The chart is there for those who read rather than look, too.
    browser.goto("/");
    browser.click(&button("As a table"));
    browser.see("times in UTC");
    assert!(browser.has(&css("figure table td")));
    // From the largest incident to one of its letters, and to what was in it.
    browser.click(&link("").within(css("article h2")));
    browser.find_one(&heading("Newest letters"));
    browser.click(&link("").within(css("table tr:has(a) td:nth-child(2)")));
    browser.find_one(&heading("Last error"));
    browser.find_one(&heading("Actions"));
}

#[test]
fn an_empty_server_says_how_to_begin() {
    let server = Server::start();
    let browser = at(&server, "/", Look::DESK);
    browser.find_one(&heading("Get started"));
    browser.see("curl -X POST");
    browser.see("lazaret demo");
    browser.goto("/letters");
    browser.find_one(&text("No pending letters"));
    browser.goto("/incidents");
    browser.see("No open incidents");
}
