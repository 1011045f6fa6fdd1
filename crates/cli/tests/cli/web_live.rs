//! Pages that stay true while they are looked at, and wait while somebody is at work on them.

use lazaret_browser::browser::{Browser, Key};
use lazaret_browser::locator::{button, css, field, text};
use lazaret_browser::look::Look;
use serde_json::json;

use crate::running::Server;
use crate::web::{at, report};

/// How many letters the list shows now.
fn rows(browser: &Browser) -> u64 {
    let count = browser.script("return document.querySelectorAll('tr[data-letter]').length", &json!([]));
    count.as_u64().unwrap()
}

fn awaits_rows(browser: &Browser, wanted: u64) {
    browser.wait(&format!("{wanted} letters"), || (rows(browser) == wanted).then_some(()));
}

/// A page that has begun to hear of events: what happens from now on is news to it.
fn listening(server: &Server, path: &str) -> Browser {
    let browser = at(server, path, Look::DESK);
    browser.find_one(&css("html[data-listening]"));
    browser
}

#[test]
fn a_list_waits_while_letters_are_chosen_and_tells_what_is_new() {
    let server = Server::start();
    report(&server, "order.created", 3);
    let browser = listening(&server, "/letters");
    browser.click(&css("tr[data-letter] input"));
    browser.find_one(&button("Discard 1 letter"));
    report(&server, "mail.sent", 4);
    browser.see("new · show");
    assert_eq!(rows(&browser), 3, "nothing changed under the hand");
    browser.click(&button("show"));
    awaits_rows(&browser, 7);
    browser.find_one(&button("Discard 1 letter"));
    // Whoever lets go is not kept waiting.
    browser.click(&css("tr[data-letter] input:checked"));
    report(&server, "mail.bounced", 1);
    awaits_rows(&browser, 8);
}

#[test]
fn a_list_that_was_empty_can_do_everything_once_letters_come() {
    let server = Server::start();
    let browser = listening(&server, "/letters");
    browser.see("No pending letters.");
    assert!(!browser.shows("Selected letters"));
    report(&server, "order.created", 2);
    awaits_rows(&browser, 2);
    browser.see("All 2 letters matching");
    browser.click(&css("tr[data-letter] input"));
    browser.find_one(&button("Discard 1 letter"));
    browser.click(&css("tr[data-letter]:last-child a"));
    browser.see("Open page");
    // By the keys: what is chosen is meant, not what is open beside it.
    browser.strike("r");
    let focused = || browser.script("return document.activeElement.textContent.trim()", &json!([]));
    browser.wait("the focus on the plan", || (focused() == "Plan redrive of 1 letter").then_some(()));
    // And the whole grows with what comes.
    report(&server, "mail.sent", 1);
    browser.see("new · show");
    browser.click(&button("show"));
    awaits_rows(&browser, 3);
    browser.click(&css("tr[data-letter] input:checked"));
    browser.see("All 3 letters matching");
}

#[test]
fn clocks_are_those_of_the_reader_and_a_tap_tells_the_exact_time() {
    let server = Server::start();
    report(&server, "order.created", 1);
    let browser = at(&server, "/", Look::PHONE);
    browser.live_in("America/St_Johns");
    browser.goto("/");
    // The server knows it from the second page on. In winter they are three and a half hours behind there.
    browser.goto("/");
    browser.see("times in UTC-0");
    let id = server.json(&["incidents"])["items"][0]["id"].as_str().unwrap().to_owned();
    browser.goto(&format!("/incidents/{id}"));
    browser.see("in UTC-0");
    let time = css("#incident-head time[datetime]");
    let before = browser.text(&time);
    browser.click(&time);
    let exact = browser.text(&time);
    assert!(before != exact && exact.contains(':') && exact.contains("20"), "{before} became {exact}");
    browser.click(&time);
    assert!(!browser.text(&time).contains(':'));
}

#[test]
fn a_list_waits_while_somebody_reads_further_down() {
    let server = Server::start();
    report(&server, "order.created", 40);
    let browser = listening(&server, "/letters");
    browser.script("scrollTo(0, 900)", &json!([]));
    report(&server, "mail.sent", 1);
    browser.see("new · show");
    assert_eq!(rows(&browser), 40, "what is read does not move");
    browser.script("scrollTo(0, 0)", &json!([]));
    awaits_rows(&browser, 41);
}

#[test]
fn a_form_that_was_refused_signs_nobody_out() {
    let server = Server::start();
    report(&server, "order.created", 1);
    let id = server.json(&["incidents"])["items"][0]["id"].as_str().unwrap().to_owned();
    let browser = at(&server, &format!("/incidents/{id}"), Look::DESK);
    browser.forgive("the server responded with a status of");
    browser.fill(&field("Root cause"), "half of it");
    browser.script("document.querySelector('form[action$=rca]').noValidate = true", &json!([]));
    browser.click(&button("Save root cause"));
    browser.find_one(&css("[role=alert]"));
    browser.loaded();
    let count = "const ask = fetch; window.fetch = async (...what) => { const answer = await ask(...what); \
                 window.asked = 1; return answer; }";
    browser.script(count, &json!([]));
    report(&server, "mail.sent", 1);
    let asked = "return window.asked === 1";
    browser
        .wait("the page to be asked for again", || (browser.script(asked, &json!([])) == true).then_some(()));
    assert!(!browser.shows("Signed out"));
    browser.goto(&browser.address());
    assert_eq!(browser.address(), format!("/incidents/{id}"));
}

#[test]
fn a_list_waits_while_text_is_selected_and_goes_on_by_itself() {
    let server = Server::start();
    report(&server, "order.created", 2);
    let browser = listening(&server, "/letters");
    browser.script("getSelection().selectAllChildren(document.querySelector('tr[data-letter]'))", &json!([]));
    report(&server, "mail.sent", 1);
    browser.see("new · show");
    assert_eq!(rows(&browser), 2);
    browser.script("getSelection().removeAllRanges()", &json!([]));
    awaits_rows(&browser, 3);
    browser.see_no_more("new · show");
}

#[test]
fn a_page_that_is_paused_stays_as_it_is_until_it_goes_on() {
    let server = Server::start();
    report(&server, "order.created", 1);
    let browser = listening(&server, "/letters");
    browser.strike("p");
    browser.find_one(&button("Live: paused"));
    report(&server, "mail.sent", 1);
    browser.see("new · show");
    assert_eq!(rows(&browser), 1);
    browser.strike("p");
    awaits_rows(&browser, 2);
}

#[test]
fn what_is_focused_and_unfolded_stays_so_when_the_page_changes() {
    let server = Server::start();
    report(&server, "order.created", 2);
    let browser = listening(&server, "/letters");
    browser.strike("j");
    browser.script("window.row = document.activeElement", &json!([]));
    report(&server, "mail.sent", 1);
    awaits_rows(&browser, 3);
    assert_eq!(browser.script("return document.activeElement === window.row", &json!([])), true);
}

#[test]
fn a_letter_opens_beside_the_list_and_the_address_remembers_it() {
    let server = Server::start();
    report(&server, "order.created", 3);
    let browser = listening(&server, "/letters");
    browser.strike("jo");
    browser.find_one(&text("Last error").within(css("#panel")));
    assert_eq!(rows(&browser), 3, "the list never leaves");
    let address = browser.address();
    assert!(address.contains("/letters#letter-"), "{address}");
    browser.goto("/");
    browser.goto(&address);
    browser.find_one(&text("Last error").within(css("#panel")));
    browser.press(Key::Escape);
    browser.see_no_more("Last error");
    assert_eq!(browser.address(), "/letters");
}
