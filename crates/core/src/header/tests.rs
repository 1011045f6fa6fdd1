//! Every value survives its JSON form, and what is not the form is refused.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn scalar() -> impl Strategy<Value = HeaderValue> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    let whole = prop_oneof![
        any::<i8>().prop_map(HeaderValue::Int8),
        any::<i16>().prop_map(HeaderValue::Int16),
        any::<i32>().prop_map(HeaderValue::Int32),
        any::<i64>().prop_map(HeaderValue::Int64),
        any::<u8>().prop_map(HeaderValue::UInt8),
        any::<u16>().prop_map(HeaderValue::UInt16),
        any::<u32>().prop_map(HeaderValue::UInt32),
        any::<u64>().prop_map(HeaderValue::Timestamp),
        (any::<u8>(), any::<u32>()).prop_map(|(scale, unscaled)| HeaderValue::Decimal { scale, unscaled }),
    ];
    prop_oneof![
        any::<String>().prop_map(HeaderValue::Text),
        Just(HeaderValue::Text(r#"{"type":"void","value":null}"#.to_owned())),
        any::<String>().prop_map(HeaderValue::ShortText),
        whole,
        any::<bool>().prop_map(HeaderValue::Boolean),
        any::<u32>().prop_map(HeaderValue::Float32),
        any::<u64>().prop_map(HeaderValue::Float64),
        bytes().prop_map(HeaderValue::Bytes),
        bytes().prop_map(HeaderValue::long_string),
        Just(HeaderValue::Void),
    ]
}

fn value() -> impl Strategy<Value = HeaderValue> {
    scalar().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(HeaderValue::Array),
            prop::collection::vec(("[ab]{0,2}", inner), 0..6).prop_map(HeaderValue::Table),
        ]
    })
}

proptest! {
    #[test]
    fn the_json_form_reads_back_exactly(headers in prop::collection::vec(("[a-c]{0,2}", value()), 0..6)) {
        let json = headers_to_json(&headers);
        prop_assert_eq!(headers_from_json(&json).unwrap(), headers.clone());
        // The form is the same whichever program wrote the JSON again.
        let again = serde_json::from_str::<serde_json::Value>(&json).unwrap().to_string();
        prop_assert_eq!(headers_from_json(&again).unwrap(), headers);
    }

    #[test]
    fn whatever_is_read_is_written_the_same(json in "\\[(\\[\"a\",(\"x\"|\\{\"type\":\"(int8|int64|void|float64|bytes)\",\"value\":(\"?1?\"?|null)\\})\\])?\\]") {
        if let Ok(headers) = headers_from_json(&json) {
            let written = headers_to_json(&headers);
            prop_assert_eq!(headers_from_json(&written).unwrap(), headers);
        }
    }
}

#[test]
fn texts_stay_plain_and_typed_values_say_their_type() {
    let headers = vec![
        ("trace".to_owned(), HeaderValue::from("7")),
        ("trace".to_owned(), HeaderValue::Int64(-9_007_199_254_740_993)),
        ("at".to_owned(), HeaderValue::Timestamp(1_763_175_600)),
        ("price".to_owned(), HeaderValue::Decimal { scale: 2, unscaled: 1999 }),
        ("raw".to_owned(), HeaderValue::long_string(Bytes::from_static(b"\xff"))),
        ("share".to_owned(), HeaderValue::float64(0.1)),
        ("none".to_owned(), HeaderValue::float64(f64::NEG_INFINITY)),
        (
            "x-death".to_owned(),
            HeaderValue::Array(vec![HeaderValue::Table(vec![("count".to_owned(), HeaderValue::UInt32(3))])]),
        ),
    ];
    assert_eq!(
        headers_to_json(&headers),
        r#"[["trace","7"],["trace",{"type":"int64","value":"-9007199254740993"}],["at",{"type":"timestamp","value":"1763175600"}],["price",{"type":"decimal","value":{"scale":2,"unscaled":1999}}],["raw",{"type":"rawText","value":"/w=="}],["share",{"type":"float64","value":"0.1"}],["none",{"type":"float64","value":"-inf"}],["x-death",{"type":"array","value":[{"type":"table","value":[["count",{"type":"uint32","value":3}]]}]}]]"#
    );
    let shown: Vec<_> = headers.iter().map(|(_, value)| value.shown().into_owned()).collect();
    assert_eq!(
        shown,
        [
            "7",
            "-9007199254740993",
            "2025-11-15T03:00:00Z",
            "19.99",
            "\u{fffd}",
            "0.1",
            "-inf",
            "[{count: 3}]"
        ]
    );
}

#[test]
fn every_nan_survives() {
    for bits in [0x7ff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 0xfff8_0000_0000_0001_u64] {
        let value = HeaderValue::Float64(bits);
        assert_eq!(HeaderValue::from_json(value.to_json()), Ok(value));
    }
    let signalling = HeaderValue::Float32(0x7f80_0001);
    assert_eq!(HeaderValue::from_json(signalling.to_json()), Ok(signalling));
}

#[test]
fn what_is_not_the_form_is_refused() {
    for (json, expected) in [
        (r#"[["a"]]"#, "not JSON"),
        (r#"{"a":"b"}"#, "not JSON"),
        (r#"[["a",7]]"#, "a string or an object"),
        (r#"[["a",{"type":"int8"}]]"#, "a string or an object"),
        (r#"[["a",{"type":"int8","value":1,"more":2}]]"#, "a string or an object"),
        (r#"[["a",{"type":"int8","value":128}]]"#, "whole number"),
        (r#"[["a",{"type":"int64","value":7}]]"#, "a string"),
        (r#"[["a",{"type":"int64","value":"07"}]]"#, "whole number"),
        (r#"[["a",{"type":"float64","value":"NaN"}]]"#, "a float64"),
        (r#"[["a",{"type":"float64","value":"nan:0"}]]"#, "a float64"),
        (r#"[["a",{"type":"bytes","value":"?"}]]"#, "base64"),
        (r#"[["a",{"type":"rawText","value":"YQ=="}]]"#, "not UTF-8"),
        (r#"[["a",{"type":"table","value":[["a"]]}]]"#, "pairs"),
        (r#"[["a",{"type":"money","value":"1"}]]"#, "`money`"),
    ] {
        let error = headers_from_json(json).unwrap_err().to_string();
        assert!(error.contains(expected), "{json}: {error}");
    }
}

fn nested(levels: usize) -> HeaderValue {
    (0..levels).fold(HeaderValue::Int8(1), |inner, _| HeaderValue::Array(vec![inner]))
}

#[test]
fn depth_is_bounded() {
    let deepest = nested(limits::HEADER_DEPTH_MAX);
    assert_eq!(deepest.clone().bounded(), deepest);
    assert_eq!(HeaderValue::from_json(deepest.to_json()), Ok(deepest));
    let deeper = nested(limits::HEADER_DEPTH_MAX + 1);
    assert_eq!(HeaderValue::from_json(deeper.to_json()), Err(HeaderError::TooDeep));
    // The innermost array is kept as the text of its form.
    let mut kept = deeper.bounded();
    while let HeaderValue::Array(mut values) = kept {
        kept = values.remove(0);
    }
    assert_eq!(kept, HeaderValue::from(r#"{"type":"array","value":[{"type":"int8","value":1}]}"#));
}

#[test]
fn a_bottomless_value_is_bounded_without_recursion() {
    let table =
        |inner| HeaderValue::Table(vec![("a".to_owned(), inner), ("b".to_owned(), HeaderValue::Void)]);
    let bottomless = (0..200_000).fold(HeaderValue::Void, |inner, _| table(inner));
    let bounded = bottomless.bounded();
    assert!(headers_from_json(&headers_to_json(&[("h".to_owned(), bounded)])).is_ok());
}

#[test]
fn texts_of_typed_values_are_found() {
    let table = HeaderValue::Table(vec![
        ("queue".to_owned(), HeaderValue::from("orders")),
        ("counts".to_owned(), HeaderValue::Array(vec![HeaderValue::Int64(41), HeaderValue::Boolean(true)])),
        ("picture".to_owned(), HeaderValue::Bytes(Bytes::from_static(b"secret"))),
    ]);
    let mut found = Vec::new();
    table.each_text(&mut |text| found.push(text.to_owned()));
    assert_eq!(found, ["queue", "orders", "counts", "41", "true", "picture"]);
}
