//! The browser itself: what the journeys rely on works, and what has to fail a test does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod site;

use std::time::{Duration, Instant};

use lazaret_browser::browser::{Browser, Extent, Key};
use lazaret_browser::locator::{button, css, field, link, part};
use lazaret_browser::look::{Look, Scheme};

use crate::site::Site;

const FORM: &str = r#"<!doctype html><html lang="en"><head><title>Form</title>
<style>@media (prefers-color-scheme: dark) { #scheme::after { content: "night" } } :focus { outline: 2px solid }</style>
</head><body><main><h1>A form</h1><p id="scheme"></p>
<form action="/sent"><label>Reason <input name="reason"></label>
<label for="kind">Kind</label><select id="kind" name="kind"><option>bug</option><option>poison pill</option></select>
<button hidden>Send it</button><button>Send it</button></form>
<ul><li>first <a href="/first">open</a></li><li>second <a href="/second">open</a></li></ul>
<p id="scripted">no script</p><script>document.getElementById("scripted").textContent = "a script ran"</script>
</main></body></html>"#;

#[test]
fn a_person_fills_in_and_sends() {
    let site = Site::start(FORM);
    let browser = Browser::start(&site.url, Look::DESK);
    browser.goto("/");
    browser.see("a script ran");
    browser.fill(&field("Reason"), "typo");
    browser.choose(&field("Kind"), "Poison pill");
    assert_eq!(browser.value(&field("reason")), "typo");
    browser.click(&button("Send it"));
    browser.wait("the address", || (browser.address() == "/sent?reason=typo&kind=poison+pill").then_some(()));
    browser.click(&link("open").within(part("second")));
    assert_eq!(browser.address(), "/second");
    assert!(!browser.has(&button("No such")) && !browser.has(&css("#none")));
    browser.tab_to(&field("Reason"));
    browser.strike("by hand");
    browser.press(Key::Enter);
    browser.wait("the address", || browser.address().starts_with("/sent?reason=by+hand").then_some(()));
    assert!(browser.picture(Extent::Page).starts_with(b"\x89PNG"));
}

#[test]
fn pages_are_told_what_is_wished_for() {
    let site = Site::start(FORM);
    let browser = Browser::start(&site.url, Look { scheme: Scheme::Dark, ..Look::PHONE });
    browser.goto("/");
    let night = "return [getComputedStyle(document.getElementById('scheme'), '::after').content, innerWidth,
        matchMedia('(prefers-reduced-motion: reduce)').matches]";
    let asked = || browser.script(night, &serde_json::json!([])).to_string();
    assert_eq!(asked(), r#"["\"night\"",980,true]"#, "a page without a viewport is as wide as a desk");
    browser.wear(Scheme::Light);
    assert_eq!(asked(), r#"["none",980,true]"#);
}

#[test]
fn scripts_can_be_switched_off_and_forms_still_work() {
    let site = Site::start(FORM);
    let browser = Browser::start(&site.url, Look::WITHOUT_SCRIPTS);
    browser.goto("/");
    browser.see("no script");
    browser.fill(&field("Reason"), "typo");
    browser.click(&button("Send it"));
    browser.wait("the address", || browser.address().starts_with("/sent?reason=typo").then_some(()));
}

/// Whether a test with this page in it fails, with what was said.
fn failure(page: &'static str) -> String {
    let said = std::thread::spawn(move || {
        let site = Site::start(page);
        let browser = Browser::start(&site.url, Look::DESK);
        browser.goto("/");
        drop(browser);
    })
    .join()
    .expect_err("it has to fail");
    said.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn an_error_in_the_console_fails_the_test() {
    assert!(failure("<script>throw new Error('broken script')</script>").contains("broken script"));
}

#[test]
fn a_breach_of_the_policy_fails_the_test() {
    let said = failure("<p style='color: red'>a style that the policy forbids</p>");
    assert!(said.contains("Content Security Policy"), "{said}");
}

#[test]
fn what_is_not_accessible_is_told() {
    let site =
        Site::start("<!doctype html><title>Bad</title><main><h1>Bad</h1><img src='data:,'><input></main>");
    let browser = Browser::start(&site.url, Look::DESK);
    browser.goto("/");
    let violations = browser.violations().join("\n");
    for rule in ["html-has-lang", "image-alt", "label"] {
        assert!(violations.contains(rule), "{rule} is missing in\n{violations}");
    }
}

#[test]
fn nothing_is_left_of_a_browser() {
    let site = Site::start(FORM);
    let browser = Browser::start(&site.url, Look::DESK);
    browser.goto("/");
    let folder = browser.folder().to_owned();
    let mine = || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        let name = folder.to_str().unwrap();
        lines.filter(|line| String::from_utf8_lossy(line).contains(name)).count()
    };
    assert!(mine() > 0 && folder.exists());
    // As a test that fails: the browser is dropped while its thread unwinds.
    std::thread::spawn(move || {
        let _browser = browser;
        panic!("on purpose");
    })
    .join()
    .unwrap_err();
    let until = Instant::now() + Duration::from_secs(30);
    while mine() > 0 {
        assert!(Instant::now() < until, "{} processes are left", mine());
        std::thread::yield_now();
    }
    assert!(!folder.exists());
}
