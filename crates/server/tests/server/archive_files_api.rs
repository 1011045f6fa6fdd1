//! Letters in files of the archive over the API: shown, restored, with older lives; and files that are not what they were.

use http::{Method, header};
use serde_json::{Value, json};

use super::archive_rig::{DAY_MS, Rig, cut};

/// The lines of an answer that came as NDJSON.
async fn lines(rig: &Rig, path: &str, body: &Value) -> Vec<Value> {
    let mut request = rig.test.request(Method::POST, path, body.to_string());
    request.headers_mut().insert(header::ACCEPT, "application/x-ndjson".parse().unwrap());
    let answer = rig.test.send(request).await;
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.bytes));
    let text = String::from_utf8(answer.bytes).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_letter_in_a_file_is_shown_and_restored_like_any_other() {
    let rig = Rig::new(2).await;
    let (a, b) = (rig.letter("a").await, rig.letter("b").await);
    let before = rig.test.get(&format!("/api/v1/dead-letters/{a}")).await.expect(200);
    let bytes = rig.test.get(&format!("/api/v1/dead-letters/{a}/body")).await.bytes;
    rig.archive(&[a, b]).await;
    let files = rig.settle().await;
    let listed = rig.test.get("/api/v1/archive/files").await.expect(200);
    let file = &listed["items"][0];
    assert_eq!((&file["id"], &file["letters"]), (&json!(files[0].id.to_string()), &json!(2)), "{listed}");
    assert_eq!((&file["state"], &listed["waiting"]["letters"]), (&json!("kept"), &json!(0)));
    assert!(listed["place"].as_str().unwrap().contains("archive"), "{listed}");

    let whole = rig.test.get(&format!("/api/v1/archive/{a}")).await.expect(200);
    assert_eq!(whole["archive"]["file"]["fileId"], files[0].id.to_string());
    for name in ["originalEvent", "retryHistory", "lives", "reported", "error", "status", "grouping"] {
        assert_eq!(whole[name], before[name], "{name}");
    }
    assert_eq!(rig.test.get(&format!("/api/v1/archive/{a}/body")).await.bytes, bytes);
    let inside = rig.test.get("/api/v1/archive?q=path:$.word=first&limit=1").await.expect(200);
    assert_eq!(
        (inside["items"].as_array().unwrap().len(), inside["scan"].is_object()),
        (1, true),
        "{inside}"
    );

    let restored = rig.test.post(&format!("/api/v1/archive/{a}/restore"), &json!({})).await.expect(200);
    assert_eq!((&restored["place"], &restored["status"]), (&json!("live"), &json!("pending")));
    assert_eq!(rig.test.get(&format!("/api/v1/dead-letters/{a}/body")).await.bytes, bytes);
    let told = lines(&rig, "/api/v1/archive/restore", &json!({"filter": {"eventId": "b"}, "count": 1})).await;
    assert_eq!(told, [json!({"done": 1, "of": 1}), json!({"end": {"restored": 1, "skipped": 0}})]);
    rig.test.check().await;
}

#[tokio::test]
async fn older_lives_are_named_and_fetched_when_they_are_asked_for() {
    let rig = Rig::new(1).await;
    let id = rig.letter("a").await;
    let first = rig.test.get(&format!("/api/v1/dead-letters/{id}/body")).await.bytes;
    rig.archive(&[id]).await;
    rig.settle().await;
    rig.test.pass(DAY_MS);
    assert_eq!(rig.dies("a", "second").await, id);
    let path = format!("/api/v1/dead-letters/{id}");
    let letter = rig.test.get(&path).await.expect(200);
    assert_eq!((&letter["life"], letter["lives"].as_array().unwrap().len()), (&json!(2), 1), "{letter}");
    let older = &letter["olderLives"][0];
    assert_eq!((&older["firstLife"], &older["lastLife"]), (&json!(1), &json!(1)), "{older}");
    let whole = rig.test.get(older["url"].as_str().unwrap()).await.expect(200);
    let lives: Vec<_> = whole["lives"].as_array().unwrap().iter().map(|life| life["life"].clone()).collect();
    assert_eq!(lives, [json!(1), json!(2)]);
    assert!(
        whole["retryHistory"].as_array().unwrap().len() > letter["retryHistory"].as_array().unwrap().len()
    );
    assert_eq!(rig.test.get(&format!("{path}/body?life=1")).await.bytes, first);
    rig.test.get(&format!("{path}/body?life=3")).await.problem(404, "not_found");
    rig.test.get(&format!("{path}?older=maybe")).await.problem(400, "bad_request");
    rig.test.get(&format!("{path}?old=true")).await.problem(400, "bad_request");
    rig.test.check().await;
}

#[tokio::test]
async fn a_file_that_is_damaged_or_missing_is_named_and_spoils_only_its_own_letters() {
    let rig = Rig::new(1).await;
    let mut letters = Vec::new();
    for event in ["a", "b", "c"] {
        let letter = rig.letter(event).await;
        rig.archive(&[letter]).await;
        rig.settle().await;
        letters.push(letter);
    }
    let files = rig.settle().await;
    assert_eq!(files.len(), 3);
    let told = lines(&rig, "/api/v1/archive/verify", &json!({})).await;
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!((&told[0]["done"], &told[0]["of"], &told[0]["problem"]), (&json!(1), &json!(3), &Value::Null));
    assert_eq!(told[3], json!({"end": {"files": 3, "letters": 3, "damaged": []}}));

    cut(&rig.path(&files[0]), 100);
    std::fs::remove_file(rig.path(&files[1])).unwrap();
    for (at, code) in [(0, "file_corrupt"), (1, "file_missing")] {
        for (method, path) in [(Method::GET, ""), (Method::GET, "/body"), (Method::POST, "/restore")] {
            let path = format!("/api/v1/archive/{}{path}", letters[at]);
            let problem = rig.test.send(rig.test.request(method, &path, "")).await.problem(502, code);
            assert!(problem["path"].as_str().unwrap().ends_with(&files[at].path), "{problem}");
            assert_eq!(problem["fileId"], files[at].id.to_string());
            assert!(problem["hint"].as_str().unwrap().contains("from a backup"), "{problem}");
        }
    }
    let told = lines(&rig, "/api/v1/archive/verify", &json!({})).await;
    let damaged = told[3]["end"]["damaged"].as_array().unwrap();
    let paths: Vec<_> = damaged.iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [files[0].path.as_str(), files[1].path.as_str()]);
    let one = json!({"fileId": files[1].id.to_string()});
    let told = lines(&rig, "/api/v1/archive/verify", &one).await;
    assert_eq!((told.len(), &told[1]["end"]["files"]), (2, &json!(1)), "{told:?}");
    let listed = rig.test.get("/api/v1/archive/files").await.expect(200);
    assert!(listed["items"][1]["problem"].is_string() && listed["items"][2]["problem"].is_null(), "{listed}");

    let done = rig.test.post("/api/v1/archive/restore", &json!({"all": true, "count": 3})).await.expect(200);
    assert_eq!((&done["restored"], &done["skipped"]), (&json!(1), &json!(2)), "{done}");
    assert!(done["skippedLetters"][0]["reason"].as_str().unwrap().contains("letters/2026"), "{done}");
    rig.test.get(&format!("/api/v1/dead-letters/{}", letters[2])).await.expect(200);
    rig.test.check().await;
}
