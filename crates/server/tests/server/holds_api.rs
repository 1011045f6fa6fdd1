//! Holds over the API: placed on a letter, by a filter or standing; what they prevent; how they end.

use lazaret_server::holds;
use lazaret_server::operations::Progress;
use serde_json::{Value, json};

use super::rig::TestApp;

const HOUR_MS: i64 = 3_600_000;
const NOBODY: &str = "019a8b1c-7e00-7000-8000-000000000000";
const HOLDS: &str = "/api/v1/holds";

async fn letter(app: &TestApp, event: &str, tenant: &str) -> String {
    let entry = json!({
        "eventId": event,
        "originalEvent": {"pattern": "order.created", "customer": tenant, "metadata": {"tenantId": tenant}},
        "error": {"type": "Timeout", "message": "timed out"},
    });
    let id = app.report(&entry).await;
    app.pass(1_000);
    id
}

async fn place(app: &TestApp, body: Value) -> Value {
    app.post(HOLDS, &body).await.expect(201)
}

fn id(hold: &Value) -> &str {
    hold["id"].as_str().unwrap_or_else(|| panic!("{hold}"))
}

async fn is_held(app: &TestApp, letter: &str) -> bool {
    app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200)["hold"].is_object()
}

async fn actions(app: &TestApp) -> Vec<String> {
    let audit = app.get("/api/v1/audit").await.expect(200);
    let entries = audit["items"].as_array().unwrap();
    entries.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_letter_is_free_when_the_last_of_its_holds_is_released() {
    let app = TestApp::new().await;
    let letter = letter(&app, "a", "acme").await;
    let first = place(&app, json!({"letterId": letter, "reason": "case 12"})).await;
    let expected = json!({
        "id": id(&first), "state": "standing", "kind": "letter", "letterId": letter, "reason": "case 12",
        "by": "local", "at": "2026-11-15T03:00:01.000Z", "until": null, "letters": 1,
    });
    assert_eq!(first, expected);
    app.pass(1_000);
    let second = place(&app, json!({"letterId": letter, "reason": "case 13", "until": "365d"})).await;
    assert_eq!(second["until"], "2027-11-15T03:00:02.000Z");
    let entry = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    assert_eq!((&entry["hold"]["reason"], entry["holds"].as_array().unwrap().len()), (&json!("case 12"), 2));

    for action in ["discard", "delete"] {
        let refused = app.post(&format!("/api/v1/dead-letters/{letter}/{action}"), &json!({})).await;
        let refused = refused.problem(409, "not_allowed");
        assert_eq!(refused["held"], true);
        assert!(refused["hint"].as_str().unwrap().contains("release the hold"), "{refused}");
    }
    let release = format!("{HOLDS}/{}/release", id(&first));
    app.post(&release, &json!({})).await.problem(400, "reason_required");
    let released = app.post(&release, &json!({"reason": "closed"})).await.expect(200);
    assert_eq!(
        (&released["state"], &released["releaseReason"], &released["letters"]),
        (&json!("released"), &json!("closed"), &json!(0))
    );
    app.post(&release, &json!({"reason": "again"})).await.problem(409, "hold_ended");
    let entry = app.get(&format!("/api/v1/dead-letters/{letter}")).await.expect(200);
    assert_eq!(entry["hold"]["reason"], "case 13");
    app.post(&format!("{HOLDS}/{}/release", id(&second)), &json!({"reason": "closed"})).await.expect(200);
    assert!(!is_held(&app, &letter).await);
    app.post(&format!("/api/v1/dead-letters/{letter}/discard"), &json!({})).await.expect(200);
    assert_eq!(actions(&app).await, ["discard", "release_hold", "release_hold", "hold", "hold"]);
    app.check().await;
}

#[tokio::test]
async fn by_filter_the_count_has_to_be_right_and_letters_to_come_are_free() {
    let app = TestApp::new().await;
    let (a, b) = (letter(&app, "a", "acme").await, letter(&app, "b", "acme").await);
    let other = letter(&app, "c", "other").await;
    let wish = |count: u64| json!({"filter": {"tenant": "acme"}, "count": count, "reason": "case 12"});
    let wrong = app.post(HOLDS, &wish(3)).await.problem(409, "count_mismatch");
    assert_eq!((&wrong["count"], &wrong["expectedCount"]), (&json!(2), &json!(3)));
    assert!(!is_held(&app, &a).await);
    assert_eq!(app.get(HOLDS).await.expect(200)["items"], json!([]));

    let answer = app.post(HOLDS, &wish(2)).await;
    let hold = answer.expect(201);
    assert_eq!(
        (&hold["kind"], &hold["filter"], &hold["letters"]),
        (&json!("filter"), &json!("tenant:acme"), &json!(2))
    );
    assert_eq!(answer.headers["location"], format!("{HOLDS}/{}", id(&hold)));
    let later = letter(&app, "d", "acme").await;
    for (letter, held) in [(&a, true), (&b, true), (&other, false), (&later, false)] {
        assert_eq!(is_held(&app, letter).await, held, "{letter}");
    }
    let shown = app.get(&format!("{HOLDS}/{}?limit=1", id(&hold))).await.expect(200);
    assert_eq!((&shown["items"][0]["id"], shown["items"].as_array().unwrap().len()), (&json!(a), 1));
    let cursor = shown["nextCursor"].as_str().unwrap();
    let rest = app.get(&format!("{HOLDS}/{}?cursor={cursor}", id(&hold))).await.expect(200);
    assert_eq!((&rest["items"][0]["id"], &rest["nextCursor"]), (&json!(b), &Value::Null));
    app.check().await;
}

#[tokio::test]
async fn a_standing_hold_catches_letters_to_come() {
    let app = TestApp::new().await;
    let before = letter(&app, "a", "acme").await;
    let wish = json!({"filter": {"q": "path:$.customer=acme"}, "standing": true, "reason": "case 12"});
    let hold = place(&app, wish).await;
    assert_eq!((&hold["kind"], &hold["state"]), (&json!("standing"), &json!("standing")));
    let (after, other) = (letter(&app, "b", "acme").await, letter(&app, "c", "other").await);
    for (letter, held) in [(&before, true), (&after, true), (&other, false)] {
        assert_eq!(is_held(&app, letter).await, held, "{letter}");
    }
    assert_eq!(app.get(&format!("{HOLDS}/{}", id(&hold))).await.expect(200)["letters"], 2);
    let refused = app.post(&format!("/api/v1/dead-letters/{after}/delete"), &json!({})).await;
    assert_eq!(refused.problem(409, "not_allowed")["held"], true);
    app.post(&format!("{HOLDS}/{}/release", id(&hold)), &json!({"reason": "closed"})).await.expect(200);
    let free = letter(&app, "d", "acme").await;
    for letter in [&before, &after, &free] {
        assert!(!is_held(&app, letter).await, "{letter}");
    }
    app.check().await;
}

#[tokio::test]
async fn a_hold_ends_by_itself_and_the_audit_says_so() {
    let app = TestApp::new().await;
    let letter = letter(&app, "a", "acme").await;
    let until = "2026-11-15T05:00:00+01:00";
    let hold = place(&app, json!({"letterId": letter, "reason": "look again", "until": until})).await;
    assert_eq!(hold["until"], "2026-11-15T04:00:00.000Z");
    assert_eq!(holds::tick(&app.app).await.unwrap(), Progress::Idle);
    assert!(is_held(&app, &letter).await);
    app.pass(HOUR_MS);
    while holds::tick(&app.app).await.unwrap() == Progress::More {}
    assert!(!is_held(&app, &letter).await);
    assert_eq!(app.get(HOLDS).await.expect(200)["items"], json!([]));
    let ended = app.get(&format!("{HOLDS}?ended=true")).await.expect(200);
    assert_eq!(
        (&ended["items"][0]["state"], &ended["items"][0]["releasedBy"]),
        (&json!("released"), &json!("lazaret"))
    );
    assert_eq!(actions(&app).await, ["hold_expired", "hold"]);
    app.check().await;
}

#[tokio::test]
async fn the_doors_of_one_letter_and_of_many_make_holds_too() {
    let app = TestApp::new().await;
    let (a, b) = (letter(&app, "a", "acme").await, letter(&app, "b", "acme").await);
    app.post(&format!("/api/v1/dead-letters/{a}/hold"), &json!({"reason": "one"})).await.expect(200);
    app.pass(1_000);
    let many = json!({"filter": {"tenant": "acme"}, "expectedCount": 2, "reason": "many"});
    let done = app.post("/api/v1/dead-letters/hold", &many).await.expect(200);
    assert_eq!(done["done"], 2, "{done}");
    let holds = app.get(HOLDS).await.expect(200);
    let holds = holds["items"].as_array().unwrap();
    let kinds: Vec<_> = holds
        .iter()
        .map(|hold| (hold["kind"].as_str().unwrap(), hold["letters"].as_u64().unwrap()))
        .collect();
    assert_eq!(kinds, [("filter", 2), ("letter", 1)], "{holds:?}");
    // A letter is freed from all that hold it; the others stay held.
    app.post(&format!("/api/v1/dead-letters/{a}/release"), &json!({})).await.expect(200);
    assert!(!is_held(&app, &a).await && is_held(&app, &b).await);
    app.check().await;
}

#[tokio::test]
async fn holds_are_turned_over_by_cursor() {
    let app = TestApp::new().await;
    let letter = letter(&app, "a", "acme").await;
    let mut expected = Vec::new();
    for n in 0..5 {
        let hold = place(&app, json!({"letterId": letter, "reason": format!("case {n}")})).await;
        expected.insert(0, id(&hold).to_owned());
        app.pass(1_000);
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = app.get(&format!("{HOLDS}?limit=2&cursor={cursor}")).await.expect(200);
        found.extend(page["items"].as_array().unwrap().iter().map(|hold| id(hold).to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(found, expected);
    app.get(&format!("{HOLDS}?ended=true&cursor={cursor}")).await.problem(400, "bad_cursor");
    app.check().await;
}

#[tokio::test]
async fn a_bad_wish_is_refused_with_what_is_right() {
    let app = TestApp::new().await;
    let letter = letter(&app, "a", "acme").await;
    let refused = async |body: Value, status: u16, code: &str, part: &str| {
        let problem = app.post(HOLDS, &body).await.problem(status, code);
        let text = problem.to_string();
        assert!(text.contains(part), "{part} is missing in {text}");
    };
    refused(json!({"reason": "x"}), 400, "filter_required", "standing").await;
    refused(json!({"filter": {}, "count": 1, "reason": "x"}), 400, "filter_required", "filter").await;
    let every = json!({"filter": {"type": "*"}, "standing": true, "reason": "x"});
    refused(every, 400, "filter_required", "filter").await;
    refused(json!({"filter": {"quue": "a"}, "count": 1, "reason": "x"}), 400, "bad_filter", "queue").await;
    refused(json!({"filter": {"queue": "a"}, "reason": "x"}), 400, "bad_request", "count").await;
    refused(
        json!({"filter": {"queue": "a"}, "count": 1, "standing": true, "reason": "x"}),
        400,
        "bad_request",
        "conflicts",
    )
    .await;
    refused(
        json!({"all": true, "filter": {"queue": "a"}, "count": 1, "reason": "x"}),
        400,
        "bad_request",
        "conflicts",
    )
    .await;
    refused(
        json!({"letterId": letter, "count": 1, "reason": "x"}),
        400,
        "bad_request",
        "conflicts with filter",
    )
    .await;
    refused(json!({"letterId": "x", "reason": "x"}), 400, "bad_id", "letterId").await;
    refused(json!({"letterId": NOBODY, "reason": "x"}), 404, "not_found", NOBODY).await;
    refused(json!({"letterId": letter}), 400, "reason_required", "reason").await;
    refused(json!({"letterId": letter, "reason": "  "}), 400, "reason_required", "reason").await;
    refused(json!({"letterId": letter, "reason": "x".repeat(2_001)}), 400, "bad_request", "2000").await;
    refused(json!({"letterId": letter, "reason": "a\u{0}b"}), 400, "bad_request", "NUL").await;
    refused(json!({"letterId": letter, "reason": "x", "until": "P1Y"}), 400, "bad_request", "365d").await;
    refused(
        json!({"letterId": letter, "reason": "x", "until": "2026-11-15T03:00:00"}),
        400,
        "bad_request",
        "until",
    )
    .await;
    refused(
        json!({"letterId": letter, "reason": "x", "until": "2020-01-01T00:00:00Z"}),
        400,
        "bad_request",
        "in the past",
    )
    .await;
    refused(json!({"letterId": letter, "reason": "x", "until": "0s"}), 400, "bad_request", "in the past")
        .await;
    refused(json!({"letterId": letter, "reason": "x", "for": "1d"}), 400, "bad_request", "unknown").await;
    app.post_text(HOLDS, "application/json", "[]").await.problem(400, "bad_json");
    app.get(&format!("{HOLDS}?ended=yes")).await.problem(400, "bad_request");
    app.get(&format!("{HOLDS}?state=standing")).await.problem(400, "bad_request");
    app.get(&format!("{HOLDS}/x")).await.problem(400, "bad_id");
    app.get(&format!("{HOLDS}/{NOBODY}")).await.problem(404, "not_found");
    app.post(&format!("{HOLDS}/{NOBODY}/release"), &json!({"reason": "x"})).await.problem(404, "not_found");
    assert!(!is_held(&app, &letter).await);
    app.check().await;
}
