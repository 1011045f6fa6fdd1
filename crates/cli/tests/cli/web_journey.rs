//! The way from a spike to a closed incident: seen, understood, fixed, put back. With a mouse, without scripts, with the
//! keyboard alone, and on a phone.

use lazaret_browser::locator::{button, css, field, link};
use lazaret_browser::look::Look;
use serde_json::Value;

use crate::receiver::Receiver;
use crate::web::{Hands, Visitor, report};

fn go_the_whole_way(look: Look, hands: Hands) {
    let receiver = Receiver::start();
    let server = receiver.server("");
    let visitor = Visitor::at(&server, "/", look, hands);
    let browser = &visitor.browser;
    visitor.sees("No letters captured yet");

    // The spike.
    report(&server, "order.created", 12);
    visitor.awaits("TimeoutError");
    visitor.press(&link("TimeoutError"));
    visitor.sees("12 pending of 12");
    assert!(!browser.is_enabled(&button("Plan redrive of 12 letters")));

    // Its cause and its fix.
    visitor.choose(&field("Category"), "infrastructure");
    visitor.fill(&field("Root cause"), "the gateway was down");
    visitor.fill(&field("Remediation"), "it was started again");
    visitor.press(&button("Save root cause"));
    visitor.sees("Save new revision");
    visitor.sees("diagnosed");
    visitor.fill(&field("Reference"), "deploy 7");
    visitor.press(&button("Link fix"));
    visitor.sees("Link another fix");

    // What would happen, and then what does.
    visitor.press(&link("Plan redrive of 12 letters"));
    visitor.sees("12 letters selected");
    visitor.pick(&field("Default: 100/min"), &field("Unlimited"), 2);
    visitor.press(&button("Plan redrive of 12 letters"));
    visitor.sees("Redrive plan: 12 letters");
    visitor.sees("5 first");
    visitor.sees(&receiver.url);
    assert_eq!(receiver.received().len(), 0, "a plan sends nothing");
    visitor.fill(&field("Type 12"), "12");
    visitor.press(&button("Redrive 12 letters"));
    visitor.awaits("Results for 12 letters");
    visitor.sees("5 of 5 verified");
    visitor.sees("12 succeeded");
    visitor.sees("Sent per minute");
    assert_eq!(receiver.received().len(), 12);

    visitor.press(&link("TimeoutError"));
    visitor.awaits("closed");
    visitor.sees("the gateway was down");
    let seen = server.json(&["incident", "show", browser.address().rsplit('/').next().unwrap()]);
    assert_eq!(seen["state"], "closed", "{seen}");
    assert!(server.run(&["ledger", "verify"]).ok().ends_with("unaccounted: 0\n"));
}

#[test]
fn a_spike_is_understood_put_back_and_closed() {
    go_the_whole_way(Look::DESK, Hands::Mouse);
}

#[test]
fn the_same_way_without_scripts() {
    go_the_whole_way(Look::WITHOUT_SCRIPTS, Hands::Mouse);
}

#[test]
fn the_same_way_with_the_keyboard_alone() {
    go_the_whole_way(Look::DESK, Hands::Keys);
}

#[test]
fn the_same_way_on_a_phone() {
    go_the_whole_way(Look::PHONE, Hands::Mouse);
}

fn id_of(redrive: &Value) -> String {
    redrive["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_canary_that_fails_keeps_the_others_back_until_somebody_resumes() {
    let receiver = Receiver::start();
    receiver.answers(|_| 500);
    let server = receiver.server("");
    report(&server, "order.created", 8);
    let id = server.json(&["incidents"])["items"][0]["id"].as_str().unwrap().to_owned();
    crate::redrive::diagnose(&server, &id);
    crate::redrive::fix(&server, &id);
    let plan = server.json(&["redrive", "plan", "--incident", &id, "--pace", "unlimited", "--canary", "2"]);
    let visitor = Visitor::at(&server, &format!("/redrives/{}", id_of(&plan)), Look::DESK, Hands::Mouse);

    // A number that is not the plan's is refused, and what to type is said.
    visitor.browser.forgive("the server responded with a status of");
    visitor.fill(&field("Type 8"), "7");
    visitor.press(&button("Redrive 8 letters"));
    visitor.sees("8");
    assert_eq!(visitor.browser.value(&field("Type 8")), "7");
    visitor.fill(&field("Type 8"), "8");
    // Sending can be taken back for a moment, and not any more after it.
    visitor.press(&button("Redrive 8 letters"));
    visitor.awaits("Redrive 8 letters in");
    visitor.press(&button("Undo"));
    visitor.awaits("Redrive plan: 8 letters");
    assert!(!visitor.browser.has(&css(".countdown")));
    assert_eq!(server.json(&["redrive", "show", &id_of(&plan)])["state"], "planned");
    visitor.press(&button("Redrive 8 letters"));
    visitor.awaits("paused");
    visitor.awaits("canaries");
    assert!(receiver.received().len() <= 2, "only the canaries were sent");

    receiver.answers(|_| 204);
    visitor.press(&button("Cancel"));
    visitor.fill(&field("Reason").within(css("form[action$=cancel]")), "wrong fix");
    visitor.press(&button("Cancel redrive, leave"));
    visitor.awaits("Finished.");
    visitor.sees("cancelled");
}
