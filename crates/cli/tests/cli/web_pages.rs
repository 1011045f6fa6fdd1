//! Every page with data in it: no rule of accessibility is broken in either theme, and nothing is wider than a phone.

use lazaret_browser::browser::Browser;
use lazaret_browser::locator::{button, css, heading};
use lazaret_browser::look::Look;
use serde_json::json;

use crate::running::Server;
use crate::web::{at, check_accessibility, demo, report};

/// Where a link on a page leads to, by how its address begins.
fn linked(browser: &Browser, page: &str, begin: &str) -> String {
    browser.goto(page);
    let script = "return document.querySelector(`main a[href^='${arguments[0]}']`)?.getAttribute('href')";
    let address = browser.script(script, &json!([begin]));
    address.as_str().unwrap_or_else(|| panic!("{page} has no link to {begin}")).to_owned()
}

/// A plan over the letters of the bad deploy, and a run of another one that has ended.
fn redrives(server: &Server) -> [String; 2] {
    let plan = |filter: &str| {
        let plan = server.json(&["redrive", "plan", "error:KeyError", filter, "--pace", "unlimited"]);
        (plan["id"].as_str().unwrap().to_owned(), plan["count"].to_string())
    };
    let (run, count) = plan("tenant:harbour-pine-fr");
    server.run(&["redrive", "start", &run, "--expect", &count, "--watch"]).ok();
    let (planned, _) = plan("status:pending");
    [planned, run].map(|id| format!("/redrives/{id}"))
}

fn check_all(browser: &Browser, addresses: &[String]) {
    for address in addresses {
        browser.goto(address);
        check_accessibility(browser);
        let errors = browser.errors();
        assert!(errors.is_empty(), "{address}: {}", errors.join("\n"));
    }
}

fn texts(addresses: &[&str]) -> Vec<String> {
    addresses.iter().map(|&address| address.to_owned()).collect()
}

#[test]
fn incidents_letters_and_redrives_are_accessible() {
    let server = demo();
    let browser = at(&server, "/", Look::DESK);
    let mut all = texts(&["/", "/incidents", "/letters", "/redrives", "/redrives/new?q=error:KeyError"]);
    all.push(linked(&browser, "/incidents", "/incidents/"));
    let letter = linked(&browser, "/letters", "/letters/0");
    all.push(format!("{letter}/edit"));
    all.push(letter);
    all.extend(texts(&["/letters/confirm?action=discard&q=status:pending", "/letters?q=nothing:such"]));
    all.extend(redrives(&server));
    browser.forgive("status of 400");
    check_all(&browser, &all);
}

#[test]
fn jobs_rules_and_the_rest_are_accessible() {
    let server = demo();
    let browser = at(&server, "/", Look::DESK);
    let mut all = texts(&[
        "/jobs",
        "/jobs?view=jobs",
        "/jobs?view=workers",
        "/rules",
        "/rules?view=retention",
        "/rules?view=holds",
        "/rules?view=classes",
        "/sources",
        "/archive",
        "/archive?view=files",
        "/alerts",
        "/audit",
        "/settings",
        "/no-such-page",
    ]);
    all.push(linked(&browser, "/archive", "/letters/0"));
    browser.forgive("status of 404");
    check_all(&browser, &all);
}

/// Pages that one comes to by doing something.
#[test]
fn what_is_done_is_shown_accessibly() {
    let server = demo();
    let browser = at(&server, "/", Look::DESK);
    let mut all = texts(&["/sign-in", "/audit?verify=1", "/rules?view=retention&preview=true"]);
    all.push(linked(&browser, "/jobs?view=jobs", "/jobs/0"));
    server.run(&["hold", "--filter", "tenant:nobody", "--standing", "--reason", "the auditors look"]).ok();
    all.push(linked(&browser, "/rules?view=holds", "/rules/holds/"));
    check_all(&browser, &all);

    let letter = server.letter("secret-1", "card.charged");
    browser.goto(&format!("/letters/{letter}"));
    check_accessibility(&browser);
    // The letter beside its list.
    browser.goto("/letters");
    browser.strike("jo");
    browser.find_one(&css("#panel h1"));
    check_accessibility(&browser);
    // Selected letters, and what became of them.
    browser.goto("/letters?q=type:card.charged");
    browser.click(&css("tr[data-letter] input"));
    browser.click(&button("Discard 1 letter"));
    browser.find_one(&heading("Discard 1 letter?"));
    browser.click(&button("Discard 1 letter"));
    browser.see("1 letter discarded");
    check_accessibility(&browser);
}

#[test]
fn no_page_is_wider_than_a_phone() {
    let server = demo();
    let browser = at(&server, "/", Look::PHONE);
    let mut all = texts(&[
        "/",
        "/incidents",
        "/letters",
        "/redrives",
        "/redrives/new?q=error:KeyError",
        "/jobs",
        "/rules",
        "/sources",
        "/archive",
        "/alerts",
        "/audit",
        "/settings",
    ]);
    all.extend(texts(&[
        "/jobs?view=jobs",
        "/jobs?view=workers",
        "/rules?view=retention",
        "/rules?view=holds",
    ]));
    all.extend(texts(&[
        "/rules?view=classes",
        "/archive?view=files",
        "/letters/confirm?action=discard&q=status:pending",
    ]));
    all.push(linked(&browser, "/incidents", "/incidents/"));
    all.push(linked(&browser, "/archive", "/letters/0"));
    let letter = linked(&browser, "/letters", "/letters/0");
    all.extend([format!("{letter}/edit"), format!("{letter}?view=hex"), letter]);
    all.extend(redrives(&server));
    let wide: Vec<String> = all
        .into_iter()
        .filter(|address| {
            browser.goto(address);
            browser.overhang() > 0
        })
        .collect();
    assert!(wide.is_empty(), "wider than a phone: {wide:?}");
}

/// Breaks out of text, attributes and comments, turns the direction of what follows, and holds signs that are none.
const HOSTILE: &str = "\u{202e}\"'><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>--></textarea></title>\
                       <svg/onload=window.hacked=1>\u{200b}\u{2066}\u{1}\u{7}\u{1b}[31m\u{7f}";

/// A megabyte without a place to break, in what is shown of it.
#[test]
fn hostile_letters_run_nothing_and_break_no_page() {
    let server = Server::start();
    let long = "x".repeat(1 << 20);
    let text = |name: &str| format!("{name}{HOSTILE}{}", "y".repeat(200));
    let entry = json!({
        "eventId": text("event"),
        "subscriberId": text("subscriber"),
        "originalEvent": {
            "pattern": text("type"), "aggregateId": text("aggregate"), "payload": {HOSTILE: HOSTILE, "long": long},
            "metadata": {"tenantId": text("tenant")},
        },
        "error": {
            "type": text("error"), "message": format!("{HOSTILE}{long}"), "code": text("code"),
            "stackTrace": format!("at {HOSTILE}\nat com.acme.{HOSTILE}(A.java:1)\n{long}"),
        },
        "retryHistory": [{"timestamp": "2026-11-15T01:00:00Z", "error": {"type": HOSTILE, "message": HOSTILE}}],
    });
    server.run_with_input(&["report"], entry.to_string().as_bytes()).ok();
    for look in [Look::DESK, Look::PHONE] {
        let browser = at(&server, "/", look);
        let letter = linked(&browser, "/letters", "/letters/0");
        let mut all =
            texts(&["/", "/incidents", "/letters", "/letters?q=", "/redrives/new?q=source:report", "/audit"]);
        all.push(linked(&browser, "/incidents", "/incidents/"));
        all.extend(
            ["", "?view=raw", "?view=hex", "?body=whole", "/edit"].map(|rest| format!("{letter}{rest}")),
        );
        for address in all {
            browser.goto(&address);
            assert_eq!(browser.overhang(), 0, "{address} is wider than its window");
            assert!(browser.script("return window.hacked ?? null", &json!([])).is_null(), "{address}");
        }
    }
}

/// What a browser counts when a time or a number in a table grew by a digit. A bar that scripts put above something counts
/// for more, and a fifth of what still passes for good.
const SHIFT_MAX: f64 = 0.02;

/// On a server on which nothing happens: what moves there is moved by our own scripts.
#[test]
fn no_page_moves_by_itself() {
    let server = Server::start();
    report(&server, "order.created", 3);
    let browser = at(&server, "/", Look::DESK);
    let mut all = texts(&["/", "/incidents", "/letters", "/redrives", "/redrives/new?q=type:order.created"]);
    all.extend(texts(&["/jobs", "/rules", "/sources", "/archive", "/alerts", "/audit", "/settings"]));
    all.push(linked(&browser, "/incidents", "/incidents/"));
    all.push(linked(&browser, "/letters", "/letters/0"));
    for address in all {
        browser.goto(&address);
        let shift = browser.shift();
        assert!(shift < SHIFT_MAX, "{address} moves by itself: {shift}");
    }
}
