//! What is masked and what stays, case by case.

use bytes::Bytes;

use super::*;
use crate::header::Headers;

fn redactor() -> Redactor {
    Redactor::new(Rules::default())
}

#[track_caller]
fn check_json(text: &str, expected: &str) {
    assert_eq!(redactor().json_text(text), expected, "{text}");
    serde_json::from_str::<&serde_json::value::RawValue>(expected).unwrap();
}

#[test]
fn values_under_hidden_keys_are_masked_and_the_rest_stays_to_the_byte() {
    check_json(
        r#" { "id" : 1e400, "password":"hunter2", "z":[ 1.50, {"accessToken" : 12.5} ],"a":"\u00e9" } "#,
        r#" { "id" : 1e400, "password":"[redacted]", "z":[ 1.50, {"accessToken" : "[redacted]"} ],"a":"\u00e9" } "#,
    );
    check_json(
        r#"{"credentials":{"user":"u","keys":[1,{"a":2}]},"n":1}"#,
        r#"{"credentials":"[redacted]","n":1}"#,
    );
    check_json(r#"{"token":["a","b"],"x":[]}"#, r#"{"token":"[redacted]","x":[]}"#);
    check_json(r#"{"pass\u0077ord":"hunter2"}"#, r#"{"pass\u0077ord":"[redacted]"}"#);
    check_json(r#"{"secret":"a","secret":"b"}"#, r#"{"secret":"[redacted]","secret":"[redacted]"}"#);
}

#[test]
fn what_says_nothing_under_a_hidden_key_stays() {
    for text in
        [r#"{"password":null}"#, r#"{"hasToken":true,"token":false}"#, r#"{"secret":""}"#, r#"{"token":{}}"#]
    {
        let expected = text.replace("{}", "\"[redacted]\"");
        check_json(text, &expected);
    }
}

#[test]
fn texts_inside_of_json_are_looked_into() {
    check_json(r#"{"url":"https://u:hunter2@h/x"}"#, r#"{"url":"https://u:[redacted]@h/x"}"#);
    check_json(r#"{"note":"password=hunter2"}"#, r#"{"note":"password=[redacted]"}"#);
    check_json(
        r#"{"data":"{\"password\":{\"a\":\"hunter2\"},\"n\":1.0}"}"#,
        r#"{"data":"{\"password\":\"[redacted]\",\"n\":1.0}"}"#,
    );
    check_json(
        r#"["4242 4242 4242 4242",4242424242424242,4242424242424241]"#,
        r#"["•••• 4242","•••• 4242",4242424242424241]"#,
    );
    check_json(r#""\ud800 password=hunter2""#, "\"\u{fffd} password=[redacted]\"");
}

#[test]
fn paths_select_what_no_name_tells() {
    let paths =
        ["$.customer.ssn", "$.rows[*][1]", "$..iban"].map(|path| Query::parse(path).unwrap()).to_vec();
    let redactor = Redactor::new(Rules { paths, ..Rules::default() });
    let masked = |text: &str| redactor.json_text(text).into_owned();
    assert_eq!(
        masked(
            r#"{"customer": {"ssn": 1, "name": "n"}, "rows": [[1, 2], [3,{"a":4}]], "x": {"iban":"DE1"}}"#
        ),
        r#"{"customer": {"ssn": "[redacted]", "name": "n"}, "rows": [[1, "[redacted]"], [3,"[redacted]"]], "x": {"iban":"[redacted]"}}"#
    );
    // A path sees the last of two; the first is there to be read all the same.
    assert_eq!(
        masked(r#"{"customer":{"ssn":1},"customer":{"ssn":2}}"#),
        r#"{"customer":"[redacted]","customer":{"ssn":"[redacted]"}}"#
    );
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(masked(&deep), "\"[redacted]\"");
}

#[track_caller]
fn check_text(text: &str, expected: &str) {
    assert_eq!(redactor().text(text), expected, "{text}");
}

#[test]
fn credentials_in_words_are_masked() {
    for (text, expected) in [
        ("login failed for password=hunter2&x=1", "login failed for password=[redacted]&x=1"),
        ("token: abc.def-123, retry", "token: [redacted], retry"),
        ("{\"password\":\"hunter2\",\"a\":1", "{\"password\":\"[redacted]\",\"a\":1"),
        (r#"body {\"password\":\"hunter2\"}"#, r#"body {\"password\":\"[redacted]\"}"#),
        ("'client_secret' => 'hunter 2'", "'client_secret' => '[redacted]'"),
        ("spring.datasource.password=hunter2", "spring.datasource.password=[redacted]"),
        ("User{name=u, password=hunter2}", "User{name=u, password=[redacted]"),
        ("Authorization: Bearer abc.def", "Authorization: [redacted]"),
        ("Cookie: a=b; c=d\nHost: h", "Cookie: [redacted]\nHost: h"),
        ("sent Bearer s3cr3t here", "sent Bearer [redacted] here"),
        ("Basic dXNlcjpwYXNz", "Basic [redacted]"),
        ("postgres://app:hunter2@db:5432/x", "postgres://app:[redacted]@db:5432/x"),
        ("GET /x?access_token=abc&page=2", "GET /x?access_token=[redacted]&page=2"),
        ("<user><Password>hunter2</Password></user>", "<user><Password>[redacted]</Password></user>"),
        ("<ns:token a=\"1\">hunter2</ns:token>", "<ns:token a=\"1\">[redacted]</ns:token>"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "jwt [redacted]"),
        ("user[password]=hunter2", "user[password]=[redacted]"),
        ("card 4242424242424242 declined", "card •••• 4242 declined"),
        ("password = \"unclosed", "password = \"[redacted]"),
        ("pässword_Token=hunter2", "pässword_Token=[redacted]"),
        ("Authorization: Token token=\"abc123\", x", "Authorization: [redacted]"),
        ("Cookie: a=\"x\"; session=s3cret\nHost: h", "Cookie: [redacted]\nHost: h"),
        ("curl -H 'Authorization: Bearer abc' https://h", "curl -H 'Authorization: [redacted]' https://h"),
        ("{\"credentials\":{\"a\":{\"b\":1},\"pin\":\"9}9\"},\"n\":1", "{\"credentials\":[redacted],\"n\":1"),
        ("got \"credentials\": {\n \"pin\": \"9999\"\n} there", "got \"credentials\": [redacted] there"),
        ("token=[abc, def] x", "token=[redacted] x"),
        ("Unexpected token: { at 3\n  at next (line)", "Unexpected token: [redacted]\n  at next (line)"),
    ] {
        check_text(text, expected);
    }
}

#[test]
fn half_a_secret_at_the_end_of_a_cut_text_is_left_out() {
    for (text, expected) in [
        ("declined 4242 4242 4242", "declined…"),
        ("declined 42424242424", "declined…"),
        ("cannot reach postgres://app:hunter2", "cannot reach…"),
        ("got <user><password>hunter two", "got <user>…"),
        ("got <b>x</b> and then some", "got <b>x</b> and then…"),
        ("jwt eyJhbGciOiJI.eyJz", "jwt…"),
        ("password=hunter2 was wro", "password=[redacted] was…"),
        ("", "…"),
    ] {
        assert_eq!(redactor().text_cut(text), expected, "{text}");
    }
    assert_eq!(redactor().text_cut(&"x".repeat(1_000)).len(), 1_000 - 256 + "…".len());
    assert_eq!(Redactor::off().text_cut("postgres://app:hunter2"), "postgres://app:hunter2");
}

#[test]
fn lines_of_json_are_json() {
    let redactor = Redactor::new(Rules { paths: vec![Query::parse("$.ssn").unwrap()], ..Rules::default() });
    let shown = |text: &str| match redactor.body("text/plain", text.as_bytes()) {
        Shown::Masked(masked) => masked,
        Shown::Whole(_) => text.to_owned(),
        Shown::Withheld => "withheld".to_owned(),
    };
    assert_eq!(
        shown("{\"credentials\":{\"a\":{\"b\":1},\"pin\":\"9\"}}\n{\"ssn\":1,\"n\":2}\r\nnone password=x\n"),
        "{\"credentials\":\"[redacted]\"}\n{\"ssn\":\"[redacted]\",\"n\":2}\r\nnone password=[redacted]\n"
    );
    assert_eq!(shown("{\"a\":1}\n{\"b\":2}\n"), "{\"a\":1}\n{\"b\":2}\n");
    assert_eq!(
        shown("\u{feff}{\"ssn\":1,\"token\":\"t\"}"),
        "\u{feff}{\"ssn\":\"[redacted]\",\"token\":\"[redacted]\"}"
    );
    assert_eq!(shown("{\"4242424242424242\":{\"a\":1}}"), "{\"•••• 4242\":{\"a\":1}}");
}

#[test]
fn forms_hide_in_names_and_bare_fields_too() {
    let shown = |text: &str| form::mask(redactor().0.as_ref().unwrap(), text).into_owned();
    assert_eq!(
        shown("password[]=x&token[0]=y&credentials[pin]=1&a=2"),
        "password[]=[redacted]&token[0]=[redacted]&credentials[pin]=[redacted]&a=2"
    );
    assert_eq!(shown("password: hunter2"), "password:+[redacted]");
    assert_eq!(shown("a&b=1&&c="), "a&b=1&&c=");
}

#[test]
fn masks_are_counted() {
    assert_eq!(masks(b"a [redacted] b"), 1);
    assert_eq!(masks("•••• 4242, [redacted][redacted]".as_bytes()), 3);
    assert_eq!(masks(b""), 0);
}

#[test]
fn words_that_tell_what_is_wrong_stay() {
    for text in [
        "",
        "Invalid token: expired",
        "password: must be at least 8 characters",
        "Unexpected token < in JSON at position 0",
        "Bearer token is missing",
        "Basic authentication required",
        "at auth::token::verify (src/token.rs:12)",
        "lib/token.rb:12:in `token'",
        "com.acme.TokenService.token(TokenService.java:42)",
        "user.password.reset: failed",
        "connect ECONNREFUSED 127.0.0.1:5432",
        "see https://example.org:8080/a:b",
        "took 1731628800000 ms, id 1763175600000000000",
        "password=",
        "token:\nnext",
    ] {
        check_text(text, text);
    }
}

#[test]
fn headers_go_by_their_names() {
    let headers: Headers = [
        ("Authorization", "Bearer x"),
        ("X-Api-Key", "k"),
        ("traceparent", "00-a"),
        ("X-Url", "https://u:p@h"),
        ("Set-Cookie", ""),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .to_vec();
    let shown: Vec<_> =
        redactor().headers(&headers).into_iter().map(|(_, value)| value.into_owned()).collect();
    let expected = ["[redacted]", "[redacted]", "00-a", "https://u:[redacted]@h", ""].map(HeaderValue::from);
    assert_eq!(shown, expected);
}

#[test]
fn typed_headers_are_masked_inside_tables_and_arrays() {
    let table = |entries: Vec<(&str, HeaderValue)>| {
        HeaderValue::Table(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let inner = |token: HeaderValue, url: &str, card: HeaderValue| {
        HeaderValue::Array(vec![table(vec![
            ("count", HeaderValue::Int64(3)),
            ("api-key", token),
            ("reply", HeaderValue::from(url)),
            ("card", card),
            ("nothing", HeaderValue::Void),
        ])])
    };
    let mask = || HeaderValue::from(MASK);
    let bytes = |bytes: &'static [u8]| HeaderValue::Bytes(Bytes::from_static(bytes));
    let cases = [
        (
            "x-death",
            inner(HeaderValue::Int32(7), "https://u:p@h", HeaderValue::Int64(4_111_111_111_111_111)),
            inner(mask(), "https://u:[redacted]@h", HeaderValue::from("•••• 1111")),
        ),
        ("Cookie", table(vec![("a", HeaderValue::Int8(1))]), mask()),
        ("Authorization", HeaderValue::ShortText("Bearer x".to_owned()), mask()),
        ("trace", bytes(b"0af7"), bytes(b"0af7")),
        ("trace", bytes(b"\xff\x00"), mask()),
        ("trace", HeaderValue::RawText(Bytes::from_static(b"\xff")), mask()),
        ("at", HeaderValue::Timestamp(1_763_175_600), HeaderValue::Timestamp(1_763_175_600)),
    ];
    for (name, value, expected) in cases {
        assert_eq!(*redactor().header_value(name, &value), expected, "{name}");
        assert_eq!(*Redactor::off().header_value(name, &value), value, "{name}");
    }
}

#[test]
fn a_body_is_shown_by_what_it_is() {
    let redactor = redactor();
    let masked = |text: &str| Shown::Masked(text.to_owned());
    assert_eq!(redactor.body("text/plain", br#"{"token":"x"}"#), masked(r#"{"token":"[redacted]"}"#));
    assert_eq!(
        redactor.body(
            "application/x-www-form-urlencoded; charset=utf-8",
            b"a=1&user%5Bpassword%5D=hunter2%20&card=4242+4242+4242+4242"
        ),
        masked("a=1&user%5Bpassword%5D=[redacted]&card=••••+4242")
    );
    assert_eq!(redactor.body("text/plain", b"all is well"), Shown::Whole(b"all is well"));
    assert_eq!(redactor.body("application/json", b"\xff\x00"), Shown::Withheld);
    assert_eq!(Redactor::off().body("application/json", b"\xff\x00"), Shown::Whole(b"\xff\x00"));
    assert_eq!(Redactor::off().text("password=hunter2"), "password=hunter2");
}

#[test]
fn without_the_defaults_only_what_is_named_is_masked() {
    let rules =
        Rules { defaults: false, keys: vec!["birth*".into()], card_numbers: false, ..Rules::default() };
    let redactor = Redactor::new(rules);
    let text = r#"{"password":"hunter2","birthDate":"1970","c":"4242424242424242 Bearer abc1"}"#;
    assert_eq!(redactor.json_text(text), text.replace("1970", MASK));
    assert_eq!(redactor.header("Birth-Date", "1970"), MASK);
    assert_eq!(redactor.header("Authorization", "Bearer x1"), "Bearer x1");
}

#[test]
fn a_filter_that_asks_for_what_is_masked_is_known() {
    let paths = vec![Query::parse("$.customer.ssn").unwrap()];
    let redactor = Redactor::new(Rules { paths, ..Rules::default() });
    let asked = |text: &str| {
        let filter = Filter::from_text(text).unwrap();
        redactor.asked_by(&filter).map(str::to_owned)
    };
    assert_eq!(asked("path:$.user.password=hunter2").as_deref(), Some("$.user.password=hunter2"));
    assert_eq!(asked("-path:$.customer.ssn=1").as_deref(), Some("$.customer.ssn=1"));
    assert_eq!(asked("headerPath:$.Authorization").as_deref(), Some("$.Authorization"));
    assert!(asked(r#"path:"$.a={\"password\":1}""#).is_some());
    assert_eq!(asked("path:$.items[*].sku=1 contains:password"), None);
    assert_eq!(Redactor::off().asked_by(&Filter::from_text("path:$.password").unwrap()), None);
}

#[test]
fn hostile_texts_are_passed_in_one_go() {
    let redactor = redactor();
    let deep = format!("{}{{\"password\":1}}{}", "[".repeat(500_000), "]".repeat(500_000));
    assert!(redactor.json_text(&deep).contains("{\"password\":\"[redacted]\"}"));
    let open = "[{\"a\":".repeat(200_000);
    assert_eq!(redactor.json_text(&open), open);
    let hidden = format!("{{\"token\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(redactor.json_text(&hidden), r#"{"token":"[redacted]"}"#);
    for part in [
        "a",
        ":",
        "=",
        "password=",
        "password=\"",
        "password=\\\"",
        "pwd=a ",
        "pwd=- ",
        "pwd={ ",
        "pwd=[\"",
        "pwd={\"a\":",
        "token: expired ",
        "token: {x\n",
        "cookie: \"",
        "'authorization: x' ",
        "\\",
        "4",
        "4 ",
        "://a:",
        "bearer ",
        "<token>",
        "eyJ",
        "]",
        "'",
    ] {
        let long = part.repeat(200_000 / part.len());
        redactor.text(&long);
        redactor.json_text(&quoted(&long));
    }
}
