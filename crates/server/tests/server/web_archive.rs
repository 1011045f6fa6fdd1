//! The pages of the archive: letters that are found and brought back, files that are verified.

use super::archive_rig::{Rig, flip};
use super::rig::TestApp;
use super::web::{Browser, between};
use super::web_jobs::next;

async fn page(app: &TestApp, path: &str) -> String {
    let answer = Browser::default().get(app, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.bytes));
    Browser::text(&answer)
}

async fn total(app: &TestApp) -> u64 {
    app.get("/api/v1/dead-letters").await.expect(200)["total"].as_u64().unwrap()
}

#[tokio::test]
async fn an_empty_archive_says_what_comes_there() {
    let app = TestApp::new().await;
    assert!(page(&app, "/archive").await.contains("The archive is empty"));
    assert!(page(&app, "/archive?q=queue%3Aa").await.contains("No matching archived letters"));
    assert!(page(&app, "/archive?view=files").await.contains("No archive files"));
    let bad = Browser::default().get(&app, "/archive?q=nonsense%3A%22%3Cb%3E").await;
    assert_eq!(bad.status, 400);
    let text = Browser::text(&bad);
    assert!(
        text.contains("Correct the filter above") && text.contains("value=\"nonsense:&#34;&#60;b&#62;\""),
        "{text}"
    );
    assert_eq!(Browser::default().get(&app, "/archive?view=x").await.status, 404);
}

#[tokio::test]
async fn archived_letters_are_found_by_columns_and_by_content() {
    let rig = Rig::new(2).await;
    let (one, two) = (rig.letter("e1").await, rig.letter("e2").await);
    rig.archive(&[one, two]).await;
    rig.settle().await;
    let three = rig.letter("e3").await;
    rig.decide(three, "delete").await;
    let app = &rig.test;
    let all = page(app, "/archive").await;
    for letter in [one, two, three] {
        assert!(all.contains(&format!("href=\"/letters/{letter}\"")), "{letter} in {all}");
    }
    assert!(all.contains("not yet in a file") && all.contains("max age"), "{all}");
    let deleted = page(app, "/archive?place=deleted").await;
    assert!(deleted.contains(&three.to_string()) && !deleted.contains(&one.to_string()), "{deleted}");
    let by_content = page(app, "/archive?q=contains%3Afirst+event%3Ae1").await;
    assert!(
        by_content.contains("Full scan: ") && by_content.contains("letters read from the store"),
        "{by_content}"
    );
    assert!(by_content.contains(&one.to_string()) && !by_content.contains(&two.to_string()), "{by_content}");
}

#[tokio::test]
async fn one_letter_is_shown_held_and_brought_back() {
    let (rig, browser) = (Rig::new(1).await, Browser::default());
    let one = rig.dies("e1", "<script>alert(1)</script>\u{202e}").await;
    rig.archive(&[one]).await;
    rig.settle().await;
    let (app, at) = (&rig.test, format!("/letters/{one}"));
    let old = browser.get(app, &format!("/archive/{one}")).await;
    assert_eq!((old.status.as_u16(), old.headers["location"].to_str().unwrap()), (303, at.as_str()));
    let text = page(app, &at).await;
    for part in ["order.created", "no answer to e1", "Life 1", "12345678901234567890", "row 0", "max age"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<script>alert") && text.contains("U+202E"), "{text}");
    let refused = browser.submit(app, &at, &format!("{at}/hold"), &[("reason", ""), ("until", "9d")]).await;
    assert_eq!(refused.status, 400);
    let text = Browser::text(&refused);
    assert!(text.contains("reason required") && text.contains("value=\"9d\""), "{text}");
    let held =
        browser.submit(app, &at, &format!("{at}/hold"), &[("reason", "case 7"), ("until", "9d")]).await;
    let text = browser.follow(app, &held).await;
    assert!(
        text.contains("Letter held.") && text.contains("case 7") && text.contains("/rules/holds/"),
        "{text}"
    );
    let back = browser.submit(app, &at, &format!("{at}/restore"), &[("reason", "needed")]).await;
    assert_eq!(back.status, 303);
    assert_eq!(back.headers["location"].to_str().unwrap(), format!("/letters/{one}"));
    assert_eq!(rig.place(one).await, "live");
    let again =
        browser.submit(app, "/rules?view=holds&q=queue%3Areport", &format!("{at}/restore"), &[]).await;
    assert_eq!(again.status, 409);
    assert!(Browser::text(&again).contains("class=\"trouble\""));
    assert_eq!(browser.get(app, "/archive/nonsense").await.status, 400);
    app.check().await;
}

#[tokio::test]
async fn many_come_back_when_their_number_is_typed_right() {
    let (rig, browser) = (Rig::new(2).await, Browser::default());
    let mut letters = Vec::new();
    for n in 0..3 {
        letters.push(rig.letter(&format!("e{n}")).await);
    }
    rig.archive(&letters).await;
    rig.settle().await;
    let app = &rig.test;
    assert!(page(app, "/archive").await.contains("Choose a place first"));
    let from = "/archive?q=queue%3Areport&place=archived";
    assert!(page(app, from).await.contains("Restore 3 letters"));
    let fields = [("q", "queue:report"), ("place", "archived"), ("reason", "my words")];
    for (count, status, told) in [
        ("2", 409, "3 archived letters match, expected 2"),
        ("", 400, "count is missing"),
        ("three", 400, "count must be an integer"),
    ] {
        let answer =
            browser.submit(app, from, "/archive/restore", &[&fields[..], &[("count", count)]].concat()).await;
        let text = Browser::text(&answer);
        assert_eq!(answer.status, status, "{text}");
        assert!(text.contains(told) && text.contains("value=\"my words\""), "{told} in {text}");
        let field = between(&text, "<input name=\"count\"", ">").unwrap();
        assert!(field.contains(&format!("value=\"{count}\"")), "{field}");
    }
    assert_eq!(total(app).await, 0);
    let back =
        browser.submit(app, from, "/archive/restore", &[&fields[..], &[("count", "3")]].concat()).await;
    assert!(browser.follow(app, &back).await.contains("3 letters restored."));
    assert_eq!(total(app).await, 3);
    app.check().await;
}

#[tokio::test]
async fn a_long_list_is_counted_before_it_is_brought_back() {
    let rig = Rig::new(1_000).await;
    let mut letters = Vec::new();
    for n in 0..51 {
        letters.push(rig.letter(&format!("e{n}")).await);
    }
    rig.archive(&letters).await;
    let app = &rig.test;
    let first = page(app, "/archive?place=archived").await;
    assert!(first.contains("Count matching letters") && first.contains("rel=\"next\""), "{first}");
    let counted = page(app, "/archive?place=archived&count=true").await;
    assert!(counted.contains("Restore 51 letters"), "{counted}");
    let second = page(app, &next(&first)).await;
    assert!(
        second.contains(&letters[0].to_string()) && !second.contains(&letters[50].to_string()),
        "{second}"
    );
    let back = Browser::default();
    let fields = [("place", "archived"), ("count", "51")];
    let answer = back.submit(app, "/archive?place=archived&count=true", "/archive/restore", &fields).await;
    assert!(back.follow(app, &answer).await.contains("51 letters restored."), "an empty filter means all");
}

#[tokio::test]
async fn files_are_listed_and_verified_one_by_one_or_all() {
    let (rig, browser) = (Rig::new(1).await, Browser::default());
    let letters = [rig.letter("e1").await, rig.letter("e2").await];
    for letter in letters {
        rig.archive(&[letter]).await;
        rig.settle().await;
    }
    let (app, files) = (&rig.test, rig.settle().await);
    let text = page(app, "/archive?view=files").await;
    assert!(files.len() == 2 && files.iter().all(|file| text.contains(&file.path)), "{text}");
    rig.test.pass(3_600_000);
    let from = "/archive?view=files";
    let checked = browser.submit(app, from, "/archive/verify", &[]).await;
    let text = browser.follow(app, &checked).await;
    assert!(text.contains("2 files with 2 letters verified."), "{text}");
    let one = files[0].id.to_string();
    let mut inside = letters[0];
    if !page(app, &format!("/letters/{inside}")).await.contains(&one) {
        inside = letters[1];
    }
    flip(&rig.path(&files[0]), 100);
    let checked = browser.submit(app, from, "/archive/verify", &[("fileId", &one)]).await;
    let text = browser.follow(app, &checked).await;
    assert!(
        text.contains("1 of 1 files missing or damaged") && text.contains("state bad\">damaged"),
        "{text}"
    );
    assert!(text.contains("Restore them from a backup"), "{text}");
    let broken = browser.get(app, &format!("/letters/{inside}")).await;
    assert_eq!(broken.status, 502);
    assert!(Browser::text(&broken).contains("is damaged"));
    for (id, status) in [("nonsense", 400), ("019a8b1c-7e00-7000-8000-000000000000", 404)] {
        let refused = browser.submit(app, from, "/archive/verify", &[("fileId", id)]).await;
        assert_eq!(refused.status, status);
        assert!(Browser::text(&refused).contains(&files[1].path), "the list stays");
    }
}

#[tokio::test]
async fn who_only_looks_and_who_forges_bring_nothing_back() {
    let mut rig = Rig::new(1).await;
    let one = rig.letter("e1").await;
    rig.archive(&[one]).await;
    rig.settle().await;
    let (restore, hold) = (format!("/letters/{one}/restore"), format!("/letters/{one}/hold"));
    let actions = ["/archive/verify", "/archive/restore", restore.as_str(), hold.as_str()];
    let fields = [("place", "archived"), ("count", "1"), ("why", "x")];
    let forger = Browser::default();
    forger.get(&rig.test, "/archive").await;
    for action in actions {
        let answer = forger.post(&rig.test, action, &[&fields[..], &[("csrf", "1")]].concat()).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    rig.test.token = Some(rig.test.token_of("admin").await);
    rig.test.token = Some(rig.test.token_of("viewer").await);
    let (app, browser) = (&rig.test, Browser::default());
    for path in ["/archive?place=archived", "/archive?view=files", &format!("/letters/{one}")] {
        let text = Browser::text(&browser.get(app, path).await);
        assert!(text.contains("disabled title=\"not allowed for role viewer"), "{path}: {text}");
    }
    for action in actions {
        let answer = browser.submit(app, "/archive?place=archived", action, &fields).await;
        assert_eq!(answer.status, 403, "{action}");
    }
    assert_eq!(rig.place(one).await, "file");
    assert_eq!(app.get("/api/v1/holds").await.expect(200)["items"].as_array().unwrap().len(), 0);
}
