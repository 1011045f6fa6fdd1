//! What filters find inside of letters, by example and against a naive model.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::json;

use super::Filter;
use super::words::content_words;
use crate::envelope::Envelope;
use crate::header::HeaderValue;
use crate::limits;

fn envelope(body: impl Into<Vec<u8>>, headers: &[(&str, &str)]) -> Envelope {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    Envelope::seal(Bytes::from(body.into()), "application/json", headers)
}

fn matches(filter: &str, envelope: &Envelope) -> bool {
    let filter = Filter::from_text(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    assert!(filter.needs_content());
    filter.matches_content(envelope)
}

fn order() -> Envelope {
    let body = r#"{"customer": {"id": 4711, "name": "Ann Lee", "vip": false, "ref": "4711"}, "status": "paid",
                   "items": [{"sku": "A-1", "price": 12.50}, {"sku": "B-2", "price": 1e2}], "none": null,
                   "big": 12345678901234567890, "note": "Grüße\nACME-Corp"}"#;
    envelope(body, &[("x-tenant", "acme"), ("Trace", "0af7-651"), ("Trace", "zz9"), ("retry", "3")])
}

#[test]
fn a_text_is_found_as_it_is_written_or_as_it_is_meant() {
    let cases = [
        ("contains:ACME-Corp", true),
        ("contains:acme-corp", false),
        ("contains:CME", true),
        (r#"contains:"Ann Lee""#, true),
        (r#"contains:"\"vip\": false""#, true),
        (r#"contains:"\"vip\":false""#, false),
        ("contains:12.50", true),
        ("contains:A-1 contains:B-2", true),
        ("contains:A-1 contains:C-3", false),
        ("contains:A-1 path:$.status=open", false),
        ("contains:zz9", false),
        ("contains:Grüße", true),
    ];
    for (filter, expected) in cases {
        assert_eq!(matches(filter, &order()), expected, "{filter}");
    }
    let escaped = envelope(r#"["Gr\u00fc\u00dfe", {"a\nb": 1}]"#, &[("h", "Grüße")]);
    for (filter, expected) in [
        ("contains:Grüße", true),
        (r"contains:\u00fc", true),
        ("contains:\"a\nb\"", true),
        ("contains:Grüsse", false),
        (r#"contains:"Grüße\", {\"a""#, false),
    ] {
        assert_eq!(matches(filter, &escaped), expected, "{filter}");
    }
    let header = envelope("{}", &[("h", "Grüße")]);
    assert!(!matches("contains:Grüße", &header), "headers are not the body");
    assert!(matches("contains:plain", &envelope("a plain text", &[])));
    assert!(!matches("contains:Grüße", &envelope(r#"["Gr\u00fc\u00dfe""#, &[])), "no JSON, so no escapes");
    assert!(!matches("contains:a", &envelope(vec![b'a', 0xff], &[])), "bytes that are no text hold none");
}

#[test]
fn typed_headers_are_found_by_their_words_and_paths() {
    let death = HeaderValue::Table(vec![
        ("queue".to_owned(), HeaderValue::ShortText("billing".to_owned())),
        ("count".to_owned(), HeaderValue::Int64(3)),
        ("reasons".to_owned(), HeaderValue::Array(vec![HeaderValue::from("rejected")])),
    ]);
    let headers = vec![
        ("x-death".to_owned(), HeaderValue::Array(vec![death])),
        ("n".to_owned(), HeaderValue::Int64(-4711)),
        ("price".to_owned(), HeaderValue::Decimal { scale: 2, unscaled: 1250 }),
        ("flag".to_owned(), HeaderValue::Boolean(true)),
    ];
    let letter = Envelope::seal(Bytes::from_static(b"{}"), "application/json", headers);
    for (filter, expected) in [
        ("headerPath:$['x-death'][0].queue=billing", true),
        ("headerPath:$['x-death'][?@.count>=3]", true),
        ("headerPath:$['x-death'][?@.count>3]", false),
        ("headerPath:$.n=-4711", true),
        ("headerPath:$.price=12.5", true),
        ("headerPath:$.flag=true", true),
        ("body:rejected", true),
        ("body:4711", true),
        ("body:refused", false),
    ] {
        assert_eq!(matches(filter, &letter), expected, "{filter}");
    }
}

#[test]
fn a_path_matches_what_it_selects_or_equals() {
    let cases = [
        ("path:$.customer.vip", true),
        ("path:$.customer.age", false),
        ("path:$.none", true),
        ("path:$.none=null", true),
        ("path:$.items[?@.sku=='A-1']", true),
        ("path:$.items[?@.sku=='A-2']", false),
        ("path:$.customer.id=4711", true),
        ("path:$.customer.id=4711.0", true),
        ("path:$.customer.id=4712", false),
        (r#"path:"$.customer.id=\"4711\"""#, false),
        ("path:$.customer.ref=4711", true),
        ("path:$.customer.ref=4711.0", false),
        (r#"path:"$.customer.ref=\"4711\"""#, true),
        ("path:$.status=paid", true),
        ("path:$.status=Paid", false),
        (r#"path:"$.customer.name=\"Ann Lee\"""#, true),
        (r#"path:"$.customer.name=Ann Lee""#, true),
        (r#"path:"$.customer.name = Ann Lee ""#, true),
        ("path:$.customer.vip=false", true),
        ("path:$.items[*].price=100", true),
        ("path:$.items[*].price=12.5", true),
        ("path:$.items[*].price=12.51", false),
        ("path:$.big=12345678901234567890", true),
        ("path:$.big=12345678901234567891", false),
        ("path:$.big=12345678901234567889", false),
        ("path:$..sku=B-2", true),
        (r#"path:"$.items[0]={\"price\": 12.5, \"sku\": \"A-1\"}""#, true),
        ("path:$.items[?@.price>=100].sku=B-2", true),
        ("path:$.items[?@.price>=100].sku=A-1", false),
        ("path:$.status=paid path:$.customer.id=4711", true),
        ("path:$.status=paid path:$.customer.id=1", false),
        ("-path:$.status=paid", false),
        ("-path:$.status=open", true),
        ("path:$.status -path:$.customer.age", true),
        ("headerPath:$['x-tenant']=acme", true),
        ("headerPath:$['X-Tenant']", false),
        ("headerPath:$.retry=3", true),
        ("headerPath:$.Trace[1]=zz9", true),
        ("headerPath:$.Trace=zz9", false),
        ("headerPath:$..*=zz9", true),
        ("-headerPath:$.retry", false),
        ("-headerPath:$.redrive path:$.status=paid body:acme", true),
    ];
    for (filter, expected) in cases {
        assert_eq!(matches(filter, &order()), expected, "{filter}");
    }
}

#[test]
fn words_are_found_in_body_and_header_values() {
    let cases = [
        ("body:acme", true),
        ("body:ACM", true),
        ("body:cme", false),
        (r#"body:"acme corp""#, true),
        (r#"body:"corp ann""#, true),
        (r#"body:"corp bob""#, false),
        ("body:ann body:lee body:bob", false),
        ("body:grüße", true),
        ("body:customer", true),
        ("body:12345678901234567890", true),
        ("body:12.50", true),
        ("body:zz9", true),
        ("body:trace", false),
        // Neither name, text nor number.
        ("body:false", false),
        ("body:null", false),
    ];
    for (filter, expected) in cases {
        assert_eq!(matches(filter, &order()), expected, "{filter}");
    }
}

#[test]
fn a_body_that_is_no_json_has_words_and_no_paths() {
    let text = envelope("order=4711, {name: Ann}\\n", &[("a", "head")]);
    assert_eq!(content_words(&text).join(" "), "4711 ann head n name order");
    assert!(matches("body:4711", &text));
    assert!(!matches("path:$", &text));
    assert!(matches("-path:$.name", &text));
    assert!(matches("headerPath:$.a=head", &text));
    for body in [&b"order \xff\xfe 4711"[..], b""] {
        let binary = envelope(body, &[("a", "head")]);
        assert_eq!(content_words(&binary), ["head"]);
        assert!(!matches("path:$", &binary));
        assert!(!matches("body:order", &binary));
    }
}

#[test]
fn what_cannot_be_looked_into_is_on_neither_side() {
    let deep = "[".repeat(limits::JSON_DEPTH_MAX + 1) + "\"x\"" + &"]".repeat(limits::JSON_DEPTH_MAX + 1);
    let large = format!("\"x\"{}", " ".repeat(limits::JSON_BODY_BYTES_MAX));
    let slow = format!("[{}\"x\"]", "0,".repeat(10_000));
    for (body, path) in [(deep, "$.a"), (large, "$.a"), (slow, "$[?count($[*])==0]")] {
        let envelope = envelope(body, &[]);
        assert!(!matches(&format!("path:{path}"), &envelope));
        assert!(!matches(&format!("-path:{path}"), &envelope));
        assert!(matches("body:x", &envelope));
    }
}

#[test]
fn content_words_are_bounded() {
    let many: String = (0..3_000).map(|n| format!("w{n} ")).collect();
    assert_eq!(content_words(&envelope(many.clone(), &[])).len(), limits::CONTENT_WORDS_MAX);
    assert_eq!(content_words(&envelope(json!([many]).to_string(), &[])).len(), limits::CONTENT_WORDS_MAX);

    let far = format!("{} found", " ".repeat(limits::CONTENT_TEXT_BYTES_MAX - 4));
    assert_eq!(content_words(&envelope(far.clone(), &[])), ["fou"]);
    assert_eq!(content_words(&envelope(json!([far, "x"]).to_string(), &[("a", "h")])), ["fo", "h"]);
    let wide = "é".repeat(limits::CONTENT_TEXT_BYTES_MAX);
    assert_eq!(
        content_words(&envelope(format!("a{wide}"), &[]))[0].len(),
        limits::INDEXED_WORD_BYTES_MAX - 1
    );
}

#[test]
fn a_filter_without_words_or_paths_needs_no_content() {
    let filter = Filter::from_text("queue:a timeout").unwrap();
    assert!(!filter.needs_content());
    assert!(filter.matches_content(&envelope("", &[])));
}

proptest! {
    #[test]
    fn body_words_mean_that_a_content_word_begins_with_them(
        body in body(),
        header in ".{0,8}",
        wanted in prop_oneof![select(vec!["a", "b", "ab", "é", "1", "n"]).prop_map(str::to_owned), ".{1,3}"],
    ) {
        let envelope = envelope(body, &[("x", &header)]);
        let words = content_words(&envelope);
        if let Ok(filter) = Filter::from_query([("body", wanted.as_str())]) {
            let expected = filter.body.iter().all(|wanted| words.iter().any(|word| word.starts_with(wanted)));
            prop_assert_eq!(filter.matches_content(&envelope), expected, "{} {:?}", filter, words);
        }
        prop_assert!(words.is_sorted_by(|one, next| one < next), "{:?}", words);
        prop_assert!(words.iter().all(|word| super::words::words(word).eq([word.clone()])), "{:?}", words);
    }

    #[test]
    fn a_condition_and_its_exclusion_part_the_letters(
        body in body(),
        path in select(vec!["$", "$.a", "$.a=1", "$..b=ab", "$[?@.a==1]", "$[0]", "$.*=null", "$[?@>'a' || @<1]"]),
    ) {
        let envelope = envelope(body, &[]);
        let holds = |sign: &str| matches(&format!("{sign}path:\"{path}\""), &envelope);
        prop_assert!(holds("") != holds("-"), "{}", path);
    }
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"ab b\"",
        "\"b\\u00e9\"",
        "1",
        "null",
        " ",
        "{\"a\":1}",
        "[{\"b\":\"ab\"}]",
        "[{\"a\":1.0},2]",
        "Ab é",
    ]);
    prop_oneof![
        4 => vec(piece, 0..4).prop_map(|pieces| pieces.concat().into_bytes()),
        1 => vec(any::<u8>(), 0..8),
    ]
}
