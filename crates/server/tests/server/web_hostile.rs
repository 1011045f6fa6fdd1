//! Hostile content: whatever strangers sent and people typed holds markup, scripts, quotes, signs that turn the reading
//! direction, and a megabyte. Every page that is in the table of routes is walked, also those that come later.

use lazaret_server::access::PERMISSIONS;
use lazaret_server::config::Success;
use serde_json::{Value, json};

use super::redriving::serving;
use super::rig::TestApp;
use super::web::Browser;

/// Breaks out of text, of attributes in either quotes and of comments, and turns the direction of what follows.
const HOSTILE: &str = "h0st1le\u{202e}\"'><script>alert('h0st1le')</script><img src=x onerror=alert(1)>--><!--</textarea></title>\
                       <svg/onload=alert(1)>\u{200b}\u{2066}\u{1}\u{7}\u{1b}[31m\u{7f}&lt;b&gt;{{7*7}}javascript:alert(1)";

/// Larger than what any page shows of a letter; what strangers send must not fill a browser.
const PAGE_BYTES_MAX: usize = 600 * 1024;

/// Addresses that programs ask.
const PROGRAMS: [&str; 6] = ["/api/", "/ojs/", "/health/", "/metrics", "/test/", "/assets/"];

/// Elements of ours; anything else came out of what a stranger sent.
const ELEMENTS: &str = "html head meta title link script body a header svg path details summary nav span b div form input \
    button main p strong code h1 h2 h3 h4 section article aside table caption thead tbody tfoot tr th td time ul ol li dl dt \
    dd label select option optgroup textarea pre small i em progress datalist fieldset legend rect line text g polyline \
    circle figure figcaption abbr br hr kbd ins del mark output blockquote desc polygon";

/// A value that breaks out wherever it is not escaped.
fn entry(event: &str, long: &str) -> Value {
    let text = |name: &str| format!("{name} {HOSTILE}");
    json!({
        "id": text("reported id"),
        "eventId": format!("{event} {HOSTILE}"),
        "subscriberId": text("subscriber"),
        "originalEvent": {
            "eventId": event,
            "pattern": text("type"),
            "aggregateId": text("aggregate"),
            "payload": {HOSTILE: [HOSTILE, {"deep": HOSTILE}], "long": long},
            "metadata": {"tenantId": text("tenant"), "traceId": text("trace"), HOSTILE: HOSTILE},
        },
        "error": {
            "type": text("error"),
            "message": format!("message {HOSTILE}{long}"),
            "code": text("code"),
            "stackTrace": format!("at {HOSTILE}\nat com.acme.{HOSTILE}(A.java:1)\n{long}"),
            "context": {HOSTILE: HOSTILE},
        },
        "retryHistory": [{"timestamp": "2026-11-15T01:00:00Z", "error": {"type": HOSTILE, "message": HOSTILE}, HOSTILE: HOSTILE}],
        HOSTILE: HOSTILE,
    })
}

/// Everything that has a page of its own, by the beginning of its address.
struct World {
    app: TestApp,
    pages: Vec<(&'static str, String)>,
}

fn id(body: &Value) -> String {
    body["id"].as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

async fn world() -> World {
    let (app, _receiver) = serving(Success::Response).await;
    let long = format!("{}<b>h0st1le</b>", "m ".repeat(500_000));
    let letter = app.report(&entry("one", "short")).await;
    let (held, gone) = (app.report(&entry("two", "short")).await, app.report(&entry("three", "short")).await);
    let large = app.report(&entry("four", &long)).await;
    let shown = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    let incident = shown["incidentId"].as_str().unwrap().to_owned();
    let steps = format!("/api/v1/incidents/{incident}");
    let analysis = json!({"category": "infrastructure", "rootCause": HOSTILE, "remediation": HOSTILE});
    app.post(&format!("{steps}/rca"), &analysis).await.expect(200);
    app.post(&format!("{steps}/fix"), &json!({"reference": HOSTILE})).await.expect(200);
    app.post(&format!("{steps}/notes"), &json!({"text": HOSTILE})).await.expect(200);
    app.post(&format!("{steps}/assign"), &json!({"assignee": format!("a {HOSTILE}")})).await.expect(200);
    let hold = json!({"filter": {"tenant": format!("*{}*", "tenant")}, "standing": true, "reason": HOSTILE});
    let wish = json!({"filter": {"source": "report"}, "pace": "unlimited", "canary": 0, "reason": HOSTILE});
    let plan = app.post("/api/v1/redrives/plan", &wish).await.expect(201);
    app.post(&format!("/api/v1/dead-letters/{gone}/delete"), &json!({"reason": HOSTILE})).await.expect(200);
    let hold = app.post("/api/v1/holds", &hold).await.expect(201);
    app.post(&format!("/api/v1/dead-letters/{held}/hold"), &json!({"reason": HOSTILE})).await.expect(200);
    let many = json!({"filter": {"source": "report"}, "expectedCount": 3, "reason": HOSTILE});
    let operation = app.post("/api/v1/dead-letters/release", &many).await.expect(200);
    let job = json!({"type": "mail.send", "args": [HOSTILE, {HOSTILE: HOSTILE}], "meta": {"note": HOSTILE}});
    let job = app.post("/ojs/v1/jobs", &job).await.expect(201);
    let pages = vec![
        ("/letters/", letter),
        ("/letters/", large),
        ("/letters/", held),
        ("/incidents/", incident),
        ("/operations/", id(&operation)),
        ("/jobs/", id(&job["job"])),
        ("/rules/holds/", id(&hold)),
        ("/archive/", gone),
        ("/redrives/", id(&plan)),
    ];
    World { app, pages }
}

/// Every page of the table, with everything that stands in its place for `{…}`.
fn addresses(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for (method, route, _) in PERMISSIONS {
        if *method != "GET" || PROGRAMS.iter().any(|program| route.starts_with(program.trim_end_matches('/')))
        {
            continue;
        }
        let Some((before, rest)) = route.split_once('{') else {
            all.push((*route).to_owned());
            continue;
        };
        let after = rest.split_once('}').map_or("", |(_, after)| after);
        let known: Vec<_> = world.pages.iter().filter(|(prefix, _)| *prefix == before).collect();
        assert!(!known.is_empty(), "`world` has nothing for {route}: make it there");
        all.extend(known.iter().map(|(_, id)| format!("{before}{id}{after}")));
        all.push(format!("{before}{}{after}", encoded(HOSTILE)));
    }
    all
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// One tag as a browser reads it.
#[derive(Debug)]
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

/// The tags of a page, and the text between them. Comments, and markup that does not end, are no part of our pages.
fn read(page: &str) -> (Vec<Tag>, String) {
    let (mut found, mut text) = (Vec::new(), String::new());
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.starts_with("!doctype html>") {
            continue;
        }
        let (tag, behind) = tag(rest);
        rest = behind;
        // What stands in these is text until they end, and in a field it stays as it was sent.
        if let Some(end) = ["textarea", "title", "script"].iter().find(|name| tag.name == **name) {
            let close = format!("</{end}");
            let at = rest.find(&close).unwrap_or_else(|| panic!("<{end}> does not end"));
            if *end == "title" {
                text.push_str(&rest[..at]);
            }
            rest = &rest[at..];
        }
        found.push(tag);
    }
    text.push_str(rest);
    (found, text)
}

fn tag(text: &str) -> (Tag, &str) {
    let name_end = text.find(|sign: char| sign.is_ascii_whitespace() || sign == '>').unwrap_or(text.len());
    let name = text[..name_end].trim_end_matches('/').to_owned();
    let mut rest = &text[name_end..];
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|sign: char| sign.is_ascii_whitespace() || sign == '/');
        if let Some(behind) = rest.strip_prefix('>') {
            return (Tag { name, attributes }, behind);
        }
        let end = rest
            .find(|sign: char| sign.is_ascii_whitespace() || matches!(sign, '=' | '>'))
            .unwrap_or_else(|| panic!("a tag does not end: <{}", &text[..text.len().min(80)]));
        let key = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(behind) = rest.strip_prefix('=') {
            let behind = behind.strip_prefix('"').unwrap_or_else(|| panic!("{name} {key} is not in quotes"));
            let (inside, behind) =
                behind.split_once('"').unwrap_or_else(|| panic!("{name} {key} has no end"));
            value = inside.to_owned();
            rest = behind;
        }
        attributes.push((key, value));
    }
}

/// Fails if a text that is read holds signs that nobody sees or that turn what follows.
#[track_caller]
fn signs(address: &str, text: &str) {
    for sign in text.chars() {
        let is_hidden = matches!(sign, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' | '\u{feff}');
        let is_control = sign.is_control() && !matches!(sign, '\n' | '\r' | '\t');
        assert!(!is_hidden && !is_control, "{address} holds the sign {:04X} in {text}", u32::from(sign));
    }
}

/// Fails if anything of a page is not ours.
#[track_caller]
fn check(address: &str, page: &str) {
    assert!(page.len() <= PAGE_BYTES_MAX, "{address} has {} bytes", page.len());
    let (tags, text) = read(page);
    signs(address, &text);
    let ours: Vec<&str> = ELEMENTS.split_whitespace().collect();
    for tag in tags {
        let name = tag.name.trim_start_matches('/');
        assert!(ours.contains(&name), "{address}: <{}>", tag.name);
        for (key, value) in &tag.attributes {
            let is_plain = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            assert!(is_plain && !key.starts_with("on") && key != "style", "{address}: {name} {key}");
            // What is sent back or copied has to be what it was.
            if !["value", "data-copy"].contains(&key.as_str()) {
                signs(address, value);
            }
            if ["href", "src", "action", "formaction"].contains(&key.as_str()) {
                assert!(
                    value.starts_with(['/', '#', '?']) && !value.starts_with("//"),
                    "{address}: {name} {key}={value}"
                );
            }
        }
        let is_loaded = tag.attributes.iter().any(|(key, _)| key == "src");
        assert!(tag.name != "script" || is_loaded, "{address}: a script stands in the page");
    }
}

#[tokio::test]
async fn nothing_that_strangers_send_becomes_part_of_a_page() {
    let world = world().await;
    let (mut shown, mut hostile) = (0, 0);
    for address in addresses(&world) {
        let answer = Browser::default().get(&world.app, &address).await;
        assert!(answer.status.as_u16() < 500, "{address}: {}", answer.status);
        let page = Browser::text(&answer);
        check(&address, &page);
        shown += usize::from(answer.status == 200);
        hostile += usize::from(page.contains("h0st1le"));
    }
    // Otherwise the walk would prove nothing.
    assert!(shown >= 20 && hostile >= 10, "{shown} pages were shown, {hostile} of them held what was sent");
}

#[tokio::test]
async fn nothing_that_is_asked_for_becomes_part_of_a_page() {
    let world = world().await;
    let mut repeated = 0;
    for address in addresses(&world) {
        for key in ["q", "text", "state", "sort", "cursor", "view", "outcome", "action", "next", HOSTILE] {
            let address = format!("{address}?{}={}", encoded(key), encoded(HOSTILE));
            let answer = Browser::default().get(&world.app, &address).await;
            assert!(answer.status.as_u16() < 500, "{address}: {}", answer.status);
            let page = Browser::text(&answer);
            check(&address, &page);
            repeated += usize::from(page.contains("h0st1le"));
        }
    }
    assert!(repeated >= 10, "only {repeated} pages repeat what was asked");
}

#[tokio::test]
async fn letters_and_incidents_are_shown_in_lists_however_they_are_named() {
    let world = world().await;
    for address in ["/letters?q=", "/incidents?state=all", "/", "/audit", "/archive", "/redrives"] {
        let page = Browser::text(&Browser::default().get(&world.app, address).await);
        assert!(page.contains("h0st1le") && page.contains("U+202E"), "{address}: {page}");
    }
}

#[test]
fn the_walk_notices_what_it_looks_for() {
    for bad in [
        "<p><script>alert(1)</script></p>",
        "<img src=\"/x\">",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\"//elsewhere\">x</a>",
        "<p onclick=\"x()\">x</p>",
        "<p style=\"color:red\">x</p>",
        "<p title=\"\" h0st1le\"'>x</p>",
        "<p>\u{202e}</p>",
        "<p>\u{0}</p>",
        "<p title=\"\u{202e}\">x</p>",
        "<!-- --><p>x</p>",
    ] {
        assert!(std::panic::catch_unwind(|| check("here", bad)).is_err(), "{bad}");
    }
    check("here", "<!doctype html><p title=\"&lt;b&gt;\" hidden>a &lt; b<br/></p><a href=\"/x?y#z\">x</a>");
}
