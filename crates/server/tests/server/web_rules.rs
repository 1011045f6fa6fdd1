//! The pages of rules: what is in effect and where it comes from, what is switched, held and released.

use lazaret_server::operations::Progress;
use lazaret_server::replay;
use lazaret_store::sqlite::Mode;
use serde_json::{Value, json};

use super::ojs_dead_letter::dead;
use super::redrive_rig::configured;
use super::rig::TestApp;
use super::web::{Browser, between};

const DAY_MS: i64 = 86_400_000;

async fn page(app: &TestApp, path: &str) -> String {
    let answer = Browser::default().get(app, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
    Browser::text(&answer)
}

async fn letter(app: &TestApp, event: &str) -> String {
    let entry = json!({"eventId": event, "originalEvent": {"pattern": "order.created"},
                       "error": {"type": "Timeout", "message": "timed out"}});
    app.report(&entry).await
}

async fn holds(app: &TestApp) -> Vec<Value> {
    app.get("/api/v1/holds?ended=true").await.expect(200)["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn without_rules_each_tab_says_how_to_make_one() {
    let app = TestApp::new().await;
    for (view, told) in [
        ("", "[[replay_rules]]"),
        ("?view=replay", "No replay rules"),
        ("?view=retention", "Policies by queue"),
        ("?view=classes", "[[class_rules]]"),
        ("?view=classes", "[[fingerprint_rules]]"),
        ("?view=holds", "New hold"),
    ] {
        let text = page(&app, &format!("/rules{view}")).await;
        assert!(text.contains(told), "{view}: {told} in {text}");
    }
    assert_eq!(Browser::default().get(&app, "/rules?view=x").await.status, 404);
}

#[tokio::test]
async fn a_replay_rule_is_shown_with_what_it_did_and_switched() {
    let rules = "[[replay_rules]]\nname = 'connections'\nfilter = { error_type = 'ConnectionError' }\n\
                 delay = 'PT1H'\nmax_replays = 2\ncategory = 'infrastructure'\ncause = 'a <b>partner</b> sleeps'\n";
    let app = TestApp::with(configured(rules), Mode::Real).await;
    let browser = Browser::default();
    dead(&app, "q", "mail.send", "ConnectionError").await;
    let text = page(&app, "/rules").await;
    for part in ["connections", ">enabled<", "from configuration", "error:ConnectionError", "never", ">1</a>"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<b>partner"), "{text}");
    app.pass(3_600_000);
    while replay::tick(&app.app).await.unwrap() == Progress::More {}
    let text = page(&app, "/rules").await;
    assert!(
        text.contains("<td data-name=\"replayed\" class=\"number\">1</td>") && !text.contains("never"),
        "{text}"
    );
    let name = [("name", "connections")];
    let switched = browser.submit(&app, "/rules", "/rules/replay/disable", &name).await;
    let text = browser.follow(&app, &switched).await;
    assert!(text.contains("Replay rule connections is disabled.") && text.contains("set manually"), "{text}");
    let listed = app.get("/api/v1/rules/replay").await.expect(200);
    assert_eq!(listed["items"][0]["enabled"], false);
    let switched = browser.submit(&app, "/rules", "/rules/replay/enable", &name).await;
    assert!(browser.follow(&app, &switched).await.contains("is enabled."));
    let refused = browser.submit(&app, "/rules", "/rules/replay/enable", &[("name", "nobody")]).await;
    assert_eq!(refused.status, 404);
    assert!(Browser::text(&refused).contains("unknown replay rule `nobody`"));
}

#[tokio::test]
async fn a_rule_that_may_not_act_says_why() {
    let rules = "[jobs]\ngovernance = 'required'\n[[replay_rules]]\nname = 'r'\nfilter = 'error:A'\ndelay = 'PT1H'\nmax_replays = 1\ncategory = 'infrastructure'\n";
    let app = TestApp::with(configured(rules), Mode::Real).await;
    let text = page(&app, "/rules").await;
    assert!(text.contains(">inactive<") && text.contains("has no cause"), "{text}");
}

#[tokio::test]
async fn retention_shows_where_each_setting_comes_from_and_what_would_go() {
    let rules = "[retention]\nmax_age = 'P10D'\n[sources.report.retention]\nmax_count = 77\n";
    let app = TestApp::with(configured(rules), Mode::Real).await;
    let browser = Browser::default();
    letter(&app, "old").await;
    let text = page(&app, "/rules?view=retention").await;
    for part in ["10 d", "global", "77", "source", "90 d", "default", "1 pending", "Preview pruning"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        page(&app, "/rules?view=retention&preview=true").await.contains("No letters beyond their limits.")
    );
    app.pass(11 * DAY_MS);
    letter(&app, "new").await;
    let text = page(&app, "/rules?view=retention&preview=true").await;
    for part in
        ["<strong>1</strong> letters would be archived", "max_age", "Archive 1 and delete 0 letters now"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 2, "a look removes nothing");
    let pruned = browser.submit(&app, "/rules?view=retention&preview=true", "/rules/prune", &[]).await;
    let text = browser.follow(&app, &pruned).await;
    assert!(text.contains("Pruned: 1 letters archived, 0 deleted."), "{text}");
    assert_eq!(app.get("/api/v1/dead-letters").await.expect(200)["total"], 1);
    let narrowed = page(&app, "/rules?view=retention&source=nobody").await;
    assert!(narrowed.contains("No matching queue."), "{narrowed}");
    app.check().await;
}

#[tokio::test]
async fn the_operators_rules_stand_before_what_is_built_in() {
    let rules = "[[class_rules]]\nerror_type = 'Invoice<i>Locked'\nhttp_status = '5xx'\nclass = 'business'\n\
                 [[fingerprint_rules]]\nname = 'partner'\nmessage = '*partner*'\ngroup = 'down'\n\
                 [[fingerprint_rules]]\nname = 'tenants'\nsource = 'report'\nsplit_by = ['tenant', 'code']\n\
                 [fingerprint]\nin_app = ['com.acme.']\n";
    let app = TestApp::with(configured(rules), Mode::Real).await;
    letter(&app, "e").await;
    let text = page(&app, "/rules?view=classes").await;
    for part in
        ["500-599", "business", "one incident: down", "split by tenant, code", "com.acme.", "*partner*"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("Invoice<i>") && text.contains("Locked"), "{text}");
    assert!(text.contains("q=class%3Atransient+status%3Apending\">1</a>"), "{text}");
    assert!(text.find("Class rules") < text.find("Built-in classes"), "{text}");
}

#[tokio::test]
async fn a_hold_is_counted_placed_shown_and_released() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let (one, _) = (letter(&app, "a").await, letter(&app, "b").await);
    let counted = page(&app, "/rules?view=holds&q=queue%3Areport").await;
    assert!(
        counted.contains("Hold 2 letters") && counted.contains("name=\"count\" value=\"2\""),
        "{counted}"
    );
    let fields = [
        ("q", "queue:report"),
        ("count", "2"),
        ("kind", "now"),
        ("reason", "case <b>12</b>"),
        ("until", "365d"),
    ];
    let placed = browser.submit(&app, "/rules?view=holds&q=queue%3Areport", "/rules/holds", &fields).await;
    let text = browser.follow(&app, &placed).await;
    for part in ["Hold placed.", "2 held letters", &one, ">active<", "in 365 d"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<b>12"), "{text}");
    let hold = holds(&app).await[0]["id"].as_str().unwrap().to_owned();
    let listed = page(&app, "/rules?view=holds").await;
    assert!(listed.contains(&format!("/rules/holds/{hold}")) && listed.contains("queue:report"), "{listed}");
    let at = format!("/rules/holds/{hold}");
    let refused = browser.submit(&app, &at, &format!("{at}/release"), &[("reason", " ")]).await;
    assert_eq!(refused.status, 400);
    assert!(Browser::text(&refused).contains("reason required to release a hold"));
    let released = browser.submit(&app, &at, &format!("{at}/release"), &[("reason", "closed")]).await;
    let text = browser.follow(&app, &released).await;
    assert!(text.contains("Hold released.") && text.contains("already released"), "{text}");
    let again = browser.submit(&app, &at, &format!("{at}/release"), &[("reason", "kept words")]).await;
    assert_eq!(again.status, 409);
    let text = Browser::text(&again);
    assert!(text.contains("already ended") && text.contains("kept words"), "{text}");
    assert!(!page(&app, "/rules?view=holds").await.contains(&hold));
    assert!(page(&app, "/rules?view=holds&ended=true").await.contains(&hold));
    assert_eq!(browser.get(&app, "/rules/holds/nonsense").await.status, 400);
    app.check().await;
}

#[tokio::test]
async fn a_standing_hold_and_one_on_a_letter_are_placed_too() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    let one = letter(&app, "a").await;
    let from = "/rules?view=holds&q=tenant%3Aacme";
    let fields = [("q", "tenant:acme"), ("count", "0"), ("kind", "standing"), ("reason", "case")];
    let placed = browser.submit(&app, from, "/rules/holds", &fields).await;
    assert!(browser.follow(&app, &placed).await.contains("includes future matches"));
    let by_letter = page(&app, &format!("/rules?view=holds&letter={one}")).await;
    assert!(by_letter.contains(&one) && by_letter.contains("Hold 1 letter"), "{by_letter}");
    app.pass(1);
    let placed = browser.submit(&app, from, "/rules/holds", &[("letterId", &one), ("reason", "mine")]).await;
    let text = browser.follow(&app, &placed).await;
    assert!(text.contains("Hold on one letter") && text.contains(&format!("/letters/{one}")), "{text}");
    let kinds: Vec<Value> = holds(&app).await.iter().map(|hold| hold["kind"].clone()).collect();
    assert_eq!(kinds, [json!("letter"), json!("standing")]);
}

#[tokio::test]
async fn a_hold_that_is_refused_keeps_what_was_typed() {
    let (app, browser) = (TestApp::new().await, Browser::default());
    letter(&app, "a").await;
    let from = "/rules?view=holds&q=queue%3Areport";
    for (fields, status, told) in [
        (
            vec![("q", "queue:report"), ("count", "5"), ("reason", "my words")],
            409,
            "1 letters match, expected 5",
        ),
        (
            vec![("q", "queue:report"), ("count", "1"), ("until", "soon"), ("reason", "my words")],
            400,
            "neither a time nor a duration",
        ),
        (
            vec![("q", "queue:report"), ("count", "many"), ("reason", "my words")],
            400,
            "count must be an integer",
        ),
        (vec![("q", "nonsense:1"), ("count", "1"), ("reason", "my words")], 400, "nonsense"),
    ] {
        let answer = browser.submit(&app, from, "/rules/holds", &fields).await;
        let text = Browser::text(&answer);
        assert_eq!(answer.status, status, "{text}");
        assert!(text.contains(told), "{told} in {text}");
        let filter = format!("value=\"{}\"", fields[0].1);
        assert!(text.contains(&filter), "{filter} in {text}");
        if fields[0].1 != "nonsense:1" {
            assert!(text.contains("my words"), "{text}");
        }
    }
    let text = Browser::text(
        &browser
            .submit(
                &app,
                from,
                "/rules/holds",
                &[("q", "queue:report"), ("count", "1"), ("until", "soon"), ("reason", "x")],
            )
            .await,
    );
    let field = between(&text, "name=\"until\"", ">").unwrap();
    assert!(field.contains("aria-invalid=\"true\"") && field.contains("soon"), "{field}");
    assert!(holds(&app).await.is_empty());
    let bad = browser.get(&app, "/rules?view=holds&q=nonsense%3A1").await;
    assert_eq!(bad.status, 400);
    assert!(Browser::text(&bad).contains("value=\"nonsense:1\""));
}

#[tokio::test]
async fn who_only_looks_and_who_forges_change_nothing() {
    let rules = "[[replay_rules]]\nname = 'r'\nfilter = 'error:A'\ndelay = 'PT1H'\nmax_replays = 1\ncategory = 'infrastructure'\n";
    let mut app = TestApp::with(configured(rules), Mode::Real).await;
    letter(&app, "a").await;
    let placed =
        app.post("/api/v1/holds", &json!({"filter": {"tenant": "t"}, "standing": true, "reason": "r"})).await;
    let hold = placed.expect(201)["id"].as_str().unwrap().to_owned();
    let release = format!("/rules/holds/{hold}/release");
    let actions =
        ["/rules/replay/enable", "/rules/replay/disable", "/rules/prune", "/rules/holds", release.as_str()];
    let fields = [("name", "r"), ("q", "queue:report"), ("count", "1"), ("reason", "x"), ("kind", "now")];
    let forger = Browser::default();
    forger.get(&app, "/rules").await;
    for action in actions {
        let answer = forger.post(&app, action, &[("csrf", "1"), ("name", "r"), ("reason", "x")]).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("viewer").await);
    let browser = Browser::default();
    for path in [
        "/rules",
        "/rules?view=retention",
        "/rules?view=holds&q=queue%3Areport",
        &format!("/rules/holds/{hold}"),
    ] {
        let text = Browser::text(&browser.get(&app, path).await);
        assert!(text.contains("disabled title=\"not allowed for role viewer"), "{path}: {text}");
    }
    for action in actions {
        assert_eq!(browser.submit(&app, "/rules", action, &fields).await.status, 403, "{action}");
    }
    let look = browser.get(&app, "/rules?view=retention&preview=true").await;
    assert_eq!(look.status, 403);
    assert!(Browser::text(&look).contains("not allowed for role"));
    let all = holds(&app).await;
    assert_eq!((all.len(), &all[0]["state"]), (1, &json!("standing")));
    assert_eq!(app.get("/api/v1/rules/replay").await.expect(200)["items"][0]["enabled"], true);
}

#[tokio::test]
async fn a_refused_form_tells_nothing_of_what_is_masked() {
    let mut app = TestApp::with(configured("[redaction]\nsearch = false\n"), Mode::Real).await;
    letter(&app, "a").await;
    app.token = Some(app.token_of("admin").await);
    app.token = Some(app.token_of("operator").await);
    let browser = Browser::default();
    let fields = [("q", "contains:pattern"), ("count", "9"), ("reason", "x"), ("place", "archived")];
    for (from, action) in
        [("/rules?view=holds&q=queue%3Areport", "/rules/holds"), ("/jobs", "/archive/restore")]
    {
        let answer = browser.submit(&app, from, action, &fields).await;
        let text = Browser::text(&answer);
        assert_eq!(answer.status, 403, "{text}");
        assert!(
            text.contains("searching inside letters is not allowed") && !text.contains("1 letter"),
            "{text}"
        );
    }
}
