//! Everything that can come from outside, to every route: always an answer with a reason, never a 5xx.

use axum::body::Body;
use http::{Method, header};
use lazaret_server::access::PERMISSIONS;
use lazaret_server::config::Config;
use lazaret_store::sqlite::Mode;

use super::rig::{Answer, TestApp};

/// Bodies that no route can take, or that only a careful one can.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, close: &str| (open.repeat(50_000) + &close.repeat(50_000)).into_bytes();
    vec![
        ("empty", Vec::new()),
        ("blank", b" \n ".to_vec()),
        ("text", b"hello".to_vec()),
        ("half", b"{\"eventId\":\"e\",\"origin".to_vec()),
        ("null", b"null".to_vec()),
        ("number", b"1e999".to_vec()),
        ("string", b"\"x\"".to_vec()),
        ("list", b"[]".to_vec()),
        ("list of nonsense", b"[1,null,[],{}]".to_vec()),
        ("invalid UTF-8", b"{\"eventId\":\"\xff\xfe\"}".to_vec()),
        ("NUL", b"{\"eventId\":\"a\\u0000b\",\"originalEvent\":{\"pattern\":\"a\\u0000\"},\"error\":\"\\u0000\"}".to_vec()),
        ("raw NUL", b"\0\0\0".to_vec()),
        ("lone surrogates", b"{\"eventId\":\"\\ud800\",\"reason\":\"\\udc00\",\"filter\":{\"q\":\"\\ud800\"},\"name\":\"\\ud800\"}".to_vec()),
        ("huge numbers", b"{\"eventId\":\"n\",\"originalEvent\":{},\"retryCount\":1e400,\"expectedCount\":99999999999999999999}".to_vec()),
        ("negative", b"{\"eventId\":\"n\",\"originalEvent\":{},\"retryCount\":-1,\"expectedCount\":-1}".to_vec()),
        ("duplicate keys", b"{\"eventId\":\"a\",\"eventId\":\"b\",\"originalEvent\":{},\"filter\":{},\"filter\":{}}".to_vec()),
        ("wrong types", b"{\"eventId\":7,\"originalEvent\":7,\"error\":[],\"retryHistory\":{},\"filter\":[],\"expectedCount\":\"3\",\"reason\":{},\"name\":[],\"role\":1,\"all\":\"yes\"}".to_vec()),
        ("wrong inner types", b"{\"eventId\":\"e\",\"originalEvent\":{\"pattern\":[]},\"retryHistory\":[{\"timestamp\":1}],\"filter\":{\"queue\":[1]}}".to_vec()),
        ("bad times", b"{\"eventId\":\"e\",\"originalEvent\":{},\"createdAt\":\"yesterday\",\"filter\":{\"since\":\"soon\"},\"expectedCount\":1}".to_vec()),
        ("deep lists", deep("[", "]")),
        ("deep objects", deep("{\"a\":", "1}")),
        ("2 MiB", format!("{{\"eventId\":\"big\",\"originalEvent\":\"{}\"}}", "x".repeat(2 << 20)).into_bytes()),
        ("17 MiB", vec![b' '; 17 << 20]),
        ("form", b"a=b&c=d".to_vec()),
        ("a letter without its hash", b"{\"sha256\":\"00\",\"letter\":{\"format\":1}}\n".to_vec()),
        ("a letter that is none", b"{\"sha256\":\"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\",\"letter\":{}}".to_vec()),
        ("an end of nothing", b"{\"sha256\":\"\",\"end\":{\"letters\":18446744073709551615}}\n\n\r\n{\"sha256\":".to_vec()),
        ("many keys", format!("{{{}\"z\":1}}", (0..20_000).map(|n| format!("\"k{n}\":1,")).collect::<String>()).into_bytes()),
    ]
}

#[track_caller]
fn assert_sane(answer: &Answer, what: &str) {
    assert!(
        answer.status.as_u16() < 500,
        "{what}: {} {}",
        answer.status,
        String::from_utf8_lossy(&answer.bytes)
    );
    let is_page =
        answer.headers.get(header::CONTENT_TYPE).is_some_and(|it| it.as_bytes().starts_with(b"text/html"));
    if is_page {
        assert!(String::from_utf8_lossy(&answer.bytes).contains("</html>"), "{what}: a page is whole");
    } else if answer.status.is_client_error() {
        let body = answer.json();
        let (code, detail) = match body.get("error") {
            Some(error) => (&error["code"], &error["message"]),
            None => (&body["code"], &body["detail"]),
        };
        assert!(
            code.is_string() && detail.as_str().is_some_and(|detail| !detail.is_empty()),
            "{what}: {body}"
        );
    }
    assert!(answer.headers.contains_key("x-request-id"), "{what}");
}

#[tokio::test]
async fn no_body_breaks_a_route() {
    let app = TestApp::with(Config::default(), Mode::Test).await;
    let letter = app.report(&serde_json::json!({"eventId": "kept", "originalEvent": {}})).await;
    let types = ["application/json", "application/x-ndjson", "text/plain", ""];
    for (method, route, _) in PERMISSIONS.iter().filter(|(_, route, _)| *route != "/test/reset") {
        let path = route.replace("{id}", &letter).replace("{name}", "default").replace("{letter}", &letter);
        for (name, body) in bodies() {
            for content_type in types {
                let mut request =
                    app.request(method.parse::<Method>().unwrap(), &path, Body::from(body.clone()));
                if !content_type.is_empty() {
                    request.headers_mut().insert(header::CONTENT_TYPE, content_type.parse().unwrap());
                }
                let answer = app.send(request).await;
                assert_sane(&answer, &format!("{method} {path} {name} as {content_type:?}"));
            }
        }
    }
    app.check().await;
}

#[tokio::test]
async fn no_path_or_query_breaks_a_route() {
    let app = TestApp::new().await;
    let ids = [
        "x",
        "%00",
        "%ff%fe",
        "..",
        "%2e%2e%2f",
        "019a8b1c-7e00-7000-8000-00000000000g",
        "019A8B1C-7E00-7000-8000-000000000000",
        "-",
        "%F0%9F%98%80",
    ];
    for (method, route, _) in PERMISSIONS.iter().filter(|(_, route, _)| route.contains("{id}")) {
        for id in ids {
            let answer = app
                .send(app.request(method.parse::<Method>().unwrap(), &route.replace("{id}", id), "{}"))
                .await;
            assert_sane(&answer, &format!("{method} {route} {id}"));
            assert!(answer.status.is_client_error(), "{method} {route} {id}");
        }
    }
    let long = "x".repeat(50_000);
    let queries = [
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=99999999999999999999999",
        "cursor=%00",
        "sort=up",
        "sort=",
        "q=%ff",
        "q=%22",
        "q=nokey:1",
        "q=queue:",
        "since=never",
        "until=2026-11-15",
        "age=old",
        "retryCount=many",
        "status=dead",
        "class=x",
        "incident=7",
        "held=perhaps",
        "queue=a&queue=b",
        "colour=red",
        "=",
        "&&&",
        "text=!!!",
        "%00=%00",
        "life=0",
        "life=-1",
        "life=x",
        "before=-1",
        "before=x",
        "recount=maybe",
        "source=",
        "state=dead",
        "state=open,,",
        "errorType=%00",
        "text=%20",
        "sort=-count&sort=-count",
        "by=colour",
        "by=queue&incident=019a8b1c-7e00-7000-8000-000000000000",
        "value=a",
        "by=queue&value=%00&value=",
        "step=second",
        "step=minute&since=0000-01-01T00:00:00Z",
        "since=9999-12-30T23:00:00Z&until=9999-12-31T00:00:00Z",
        "since=1h&until=2h",
        "key=colour",
        "key=queue&prefix=%00",
        "key=error&prefix=%25_%27",
        "key=tenant&limit=0",
        "type=**********************************************a",
    ];
    for (method, route, _) in PERMISSIONS.iter().filter(|(method, _, _)| *method == "GET") {
        let path = route.replace("{id}", "019a8b1c-7e00-7000-8000-000000000000");
        for query in
            queries.iter().copied().chain([format!("q={long}").as_str(), format!("cursor={long}").as_str()])
        {
            let answer = app
                .send(app.request(method.parse::<Method>().unwrap(), &format!("{path}?{query}"), ""))
                .await;
            assert_sane(&answer, &format!("{method} {path}?{query}"));
        }
    }
    for path in ["/api", "/api/v1", "/api/v2/stats", "/api/v1/dead-letters/"] {
        app.get(path).await.problem(404, "not_found");
    }
    for path in ["/nope/%00", "//"] {
        let answer = app.get(path).await;
        assert_sane(&answer, path);
        assert_eq!(answer.status, 404, "{path}");
    }
    app.send(app.request(Method::PUT, "/api/v1/stats", "")).await.problem(405, "method_not_allowed");
    app.send(app.request(Method::DELETE, "/api/v1/dead-letters", ""))
        .await
        .problem(405, "method_not_allowed");
}

#[tokio::test]
async fn what_is_not_json_is_told_so() {
    let app = TestApp::new().await;
    for (name, body) in bodies() {
        let json = std::str::from_utf8(&body).is_ok_and(|text| {
            // Only whether the text is JSON at all; depth is no error of its own.
            serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok()
        });
        if json {
            continue;
        }
        let answer = app.post_text("/api/v1/dead-letters", "application/json", body).await;
        assert!(answer.status.is_client_error(), "{name}: {}", answer.status);
    }
    app.post_text("/api/v1/dead-letters", "text/plain", "{}").await.problem(415, "unsupported_media_type");
    app.post_text("/api/v1/dead-letters", "application/json", vec![b' '; 17 << 20])
        .await
        .problem(413, "too_large");
    let large = format!("{{\"eventId\":\"e\",\"originalEvent\":\"{}\"}}", "x".repeat(5 << 20));
    app.post_text("/api/v1/dead-letters", "application/json", large).await.problem(422, "unprocessable");
    let many: Vec<u8> = format!("{{\"items\":[{}0]}}", "0,".repeat(1_000)).into_bytes();
    app.post_text("/api/v1/dead-letters", "application/json", many).await.problem(413, "too_large");
}

#[tokio::test]
async fn a_request_id_is_taken_over_if_it_is_one() {
    let app = TestApp::new().await;
    for (given, kept) in
        [("abc-123", true), ("with space", false), ("<script>", false), (&*"x".repeat(65), false)]
    {
        let mut request = app.request(Method::GET, "/health/live", "");
        request.headers_mut().insert("x-request-id", given.parse().unwrap());
        let answer = app.send(request).await;
        assert_eq!(answer.headers["x-request-id"] == given, kept, "{given}");
    }
}
