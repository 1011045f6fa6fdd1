//! The keyboard, the palette, and choosing many letters at once.

use lazaret_browser::browser::{Browser, Key};
use lazaret_browser::locator::{button, css, field, heading};
use lazaret_browser::look::Look;
use serde_json::{Value, json};

use crate::running::Server;
use crate::web::{at, check_accessibility, report};

const CONTROL_K: &str = "document.body.dispatchEvent(new KeyboardEvent('keydown', \
                         {key: 'k', ctrlKey: true, bubbles: true, cancelable: true}))";

/// Presses the n-th check box with Shift.
const SHIFT_CLICK: &str = "document.querySelectorAll('tr[data-letter] input')[arguments[0]]\
                           .dispatchEvent(new MouseEvent('click', {shiftKey: true, bubbles: true, cancelable: true}))";

fn chosen(browser: &Browser) -> Value {
    let script = "return [...document.querySelectorAll('tr[data-letter] input')].map((box) => Number(box.checked)).join('')";
    browser.script(script, &json!([]))
}

#[test]
fn keys_go_where_they_say_and_never_act_while_somebody_types() {
    let server = Server::start();
    report(&server, "order.created", 3);
    let browser = at(&server, "/", Look::DESK);
    browser.strike("?");
    browser.find_one(&heading("Keyboard shortcuts"));
    check_accessibility(&browser);
    browser.press(Key::Escape);
    browser.strike("gl");
    browser.wait("the letters", || browser.address().starts_with("/letters").then_some(()));
    browser.find_one(&css("tr[data-letter]"));
    browser.strike("jjx");
    browser.wait("the second letter", || (chosen(&browser) == "010").then_some(()));
    browser.strike("x");
    browser.strike("/");
    browser.strike("gi?jx");
    assert_eq!(browser.value(&field("Filter")), "gi?jx");
    assert_eq!(chosen(&browser), "000");
    assert!(browser.address().starts_with("/letters"));
}

#[test]
fn single_keys_can_be_switched_off() {
    let server = Server::start();
    let browser = at(&server, "/settings", Look::DESK);
    browser.click(&field("Keyboard shortcuts (j"));
    browser.goto("/");
    browser.strike("gl");
    browser.strike("?");
    assert!(!browser.has(&heading("Keyboard shortcuts")));
    assert_eq!(browser.address(), "/");
}

#[test]
fn the_palette_finds_places_letters_and_incidents() {
    let server = Server::start();
    let letter = server.letter("e-1", "order.created");
    let browser = at(&server, "/", Look::DESK);
    let palette = field("Command palette");
    browser.script(CONTROL_K, &json!([]));
    browser.find_one(&palette);
    check_accessibility(&browser);
    browser.strike("audit");
    browser.find_one(&css(
        "#palette-options li:only-child, #palette-options li:first-child[aria-selected=true]",
    ));
    browser.wait("the audit log to be the first", || {
        browser.text(&css("#palette-options li")).starts_with("Audit").then_some(())
    });
    browser.press(Key::Enter);
    browser.wait("the audit log", || (browser.address() == "/audit").then_some(()));

    // Two of the three kinds of things do not have this id.
    browser.forgive("the server responded with a status of 404");
    browser.loaded();
    browser.script(CONTROL_K, &json!([]));
    browser.find_one(&palette);
    browser.strike(&letter);
    browser.see(&format!("Open letter {letter}"));
    browser.press(Key::Enter);
    browser.wait("the letter", || (browser.address() == format!("/letters/{letter}")).then_some(()));
}

#[test]
fn a_range_a_page_and_everything_that_matches_are_chosen() {
    let server = Server::start();
    report(&server, "order.created", 70);
    let browser = at(&server, "/letters?q=type:order.*", Look::DESK);
    browser.click(&css("tr[data-letter] input"));
    browser.script(SHIFT_CLICK, &json!([4]));
    browser.find_one(&button("Discard 5 letters"));
    browser.click(&css("[data-check-all]"));
    browser.find_one(&button("Discard 50 letters"));
    assert!(!browser.has(&button("Discard 70 letters")), "only one number at a time");
    browser.click(&button("Select all 70 letters matching"));
    browser.click(&button("Discard 70 letters"));
    browser.find_one(&heading("Discard 70 letters?"));
}

#[test]
fn the_filter_suggests_what_letters_really_have() {
    let server = Server::start();
    report(&server, "order.created", 2);
    let browser = at(&server, "/letters", Look::DESK);
    browser.fill(&field("Filter"), "");
    browser.strike("typ");
    browser.find_one(&css("#suggestions li"));
    browser.press(Key::Down);
    browser.press(Key::Enter);
    browser.wait("the type", || browser.text(&css("#suggestions")).contains("order.created").then_some(()));
    browser.press(Key::Down);
    browser.press(Key::Enter);
    assert_eq!(browser.value(&field("Filter")), "type:order.created ");
    browser.press(Key::Escape);
    check_accessibility(&browser);
}
