//! Letters: one is edited and put back, many are discarded, some are held; what is refused says why; what is new appears.

use lazaret_browser::locator::{button, css, field, heading, link, text};
use lazaret_browser::look::Look;
use serde_json::json;

use crate::receiver::Receiver;
use crate::running::Server;
use crate::web::{at, report};

#[test]
fn one_letter_is_edited_and_retried() {
    let receiver = Receiver::start();
    receiver.answers(|request| if request.body.contains("order.fixed") { 204 } else { 422 });
    let server = receiver.server("governance = \"optional\"");
    let letter = server.letter("e-1", "order.broken");
    let browser = at(&server, &format!("/letters/{letter}"), Look::DESK);
    browser.click(&button("Retry letter"));
    browser.see("422");

    browser.wait("the letter to be pending again", || {
        browser.goto(&format!("/letters/{letter}"));
        browser.has(&link("Edit and retry")).then_some(())
    });
    browser.click(&link("Edit and retry"));
    let body = browser.value(&field("Body"));
    assert!(body.contains("order.broken") && body.contains("12345678901234567890.10"), "{body}");
    browser.fill(&field("Body"), &body.replace("order.broken", "order.fixed"));
    browser.click(&button("Preview changes"));
    browser.find_one(&heading("Changes"));
    browser.see("order.fixed");
    assert_eq!(receiver.received().len(), 1, "nothing is sent before it was seen");
    browser.click(&button("Send edited letter"));
    browser.find_one(&text("resolved").within(css(".head")));

    let sent = receiver.received().pop().unwrap();
    assert!(sent.body.contains("order.fixed") && sent.body.contains("12345678901234567890.10"), "{sent:?}");
    // The original is as it was.
    assert!(server.run(&["show", &letter, "--body"]).ok().contains("order.broken"));
    browser.find_one(&heading("Edits"));
}

#[test]
fn all_that_match_are_discarded_by_their_number() {
    let server = Server::start();
    report(&server, "order.created", 60);
    report(&server, "mail.sent", 1);
    let browser = at(&server, "/letters", Look::DESK);
    browser.fill(&field("Filter"), "type:order.* status:pending");
    browser.click(&button("Filter").within(css("form.filter")));
    browser.see("60 letters");
    browser.click(&button("Discard 60 letters"));
    browser.find_one(&heading("Discard 60 letters?"));
    browser.fill(&field("Reason"), "test orders");
    browser.fill(&field("to confirm"), "59");
    browser.forgive("the server responded with a status of");
    browser.click(&button("Discard 60 letters"));
    // Refused: nothing is done, and what was typed is kept.
    browser.find_one(&css("[role=alert]"));
    assert_eq!(browser.value(&field("Reason")), "test orders");
    assert_eq!(server.json(&["ls", "status:pending"])["total"], 61);

    browser.fill(&field("to confirm"), "60");
    browser.click(&button("Discard 60 letters"));
    browser.see("60 letters discarded");
    assert_eq!(server.json(&["ls", "status:discarded", "type:order.created"])["total"], 60);
    assert_eq!(server.json(&["ls", "status:pending"])["total"], 1);
    let reasons = server.run(&["audit"]).ok();
    assert!(reasons.contains("test orders"), "{reasons}");
}

#[test]
fn a_letter_is_held_and_released_and_what_is_held_cannot_be_discarded() {
    let server = Server::start();
    let letter = server.letter("e-1", "refund.requested");
    let browser = at(&server, &format!("/letters/{letter}"), Look::DESK);
    browser.click(&button("Hold").within(css("#letter-actions")));
    browser.fill(&field("Reason").within(css("form[action$=hold]")), "evidence, case 114");
    browser.click(&button("Hold letter"));
    browser.see("Letter held");
    browser.see("evidence, case 114");

    browser.click(&button("Discard").within(css("#letter-actions")));
    let discard = button("Discard letter");
    assert!(!browser.is_enabled(&discard));
    browser.find_one(&text("hold").within(css("form[action$=discard]")));

    browser.goto(&format!("/letters/{letter}"));
    browser.click(&button("Release").within(css("#letter-actions")));
    browser.click(&button("Release letter"));
    browser.see("Letter released");
    browser.click(&button("Discard").within(css("#letter-actions")));
    browser.fill(&field("Reason").within(css("form[action$=discard]")), "settled");
    browser.click(&button("Discard letter"));
    browser.see("Letter discarded");
    assert_eq!(server.json(&["show", &letter])["status"], "discarded");
}

#[test]
fn a_gate_that_is_shut_says_what_is_missing() {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let letter = server.letter("e-1", "order.created");
    let browser = at(&server, &format!("/letters/{letter}"), Look::DESK);
    browser.see("Redrive blocked");
    browser.click(&link("Open incident").within(css("#letter-actions")));
    browser.find_one(&heading("Root-cause analysis"));
    assert_eq!(receiver.received().len(), 0);
}

#[test]
fn a_letter_that_comes_in_appears_and_the_tab_tells_it() {
    let server = Server::start();
    report(&server, "order.created", 1);
    let browser = at(&server, "/letters", Look::DESK);
    browser.see("order.created");
    assert!(browser.title().starts_with("(1) "), "{}", browser.title());
    browser.script("document.title += ' unloaded'; window.still = 'here'", &json!([]));
    let entry = r#"{"eventId":"m-1","originalEvent":{"pattern":"mail.bounced"},"error":{"type":"SmtpError","message":"no such box"}}"#;
    server.run_with_input(&["report"], entry.as_bytes()).ok();
    browser.see("mail.bounced");
    assert_eq!(browser.script("return window.still", &json!([])), "here", "the page was not loaded again");
}
