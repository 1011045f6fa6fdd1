//! What was pushed out comes back.

use lazaret_browser::locator::{button, css, field, heading, link};
use lazaret_browser::look::Look;

use crate::web::{at, demo};

#[test]
fn a_letter_comes_back_from_the_archive() {
    let server = demo();
    let browser = at(&server, "/archive", Look::DESK);
    browser.find_one(&heading("Archive"));
    browser.click(&link("").within(css("main table tbody tr")));
    browser.see("Archived by");
    let id = browser.address().rsplit('/').next().unwrap().to_owned();
    server.run(&["show", &id]).fails(1);
    browser.fill(&field("Reason").within(css("form[action$=restore]")), "asked for by the customer");
    browser.click(&button("Restore letter"));
    browser.find_one(&css("[role=status]"));
    assert_eq!(server.json(&["show", &id])["status"], "discarded");
    browser.goto(&format!("/letters/{id}"));
    browser.find_one(&heading("Last error"));
}
