//! What holds for every query and document: nothing panics, nothing takes too long, and both readers agree.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;
use serde_json::Value;

use super::{Json, Look, Node, Query, Steps, equal, number};

proptest! {
    #[test]
    fn any_query_is_read_or_refused(text in prop_oneof![any::<String>(), soup()], document in document()) {
        match Query::parse(&text) {
            Ok(query) => {
                let json = document.to_string();
                let json = Json::read(&json).unwrap();
                let (one, other) = (query.first(&document).unwrap(), query.first(&json).unwrap());
                prop_assert_eq!(one.is_some(), other.is_some(), "{}", text);
                if let (Some(one), Some(other)) = (one, other) {
                    prop_assert_eq!(equal(one, other, &Steps::all()), Ok(true), "{}", text);
                }
            }
            Err(error) => {
                prop_assert!(!error.to_string().contains(char::is_control), "{:?}", text);
                prop_assert!(error.at <= text.chars().count() + 1, "{:?} {}", text, error);
            }
        }
    }

    #[test]
    fn any_text_is_json_for_both_readers_or_for_none(text in prop_oneof![any::<String>(), json_soup()]) {
        let theirs = serde_json::from_str::<Value>(&text);
        match (Json::read(&text), theirs) {
            (Ok(ours), Ok(theirs)) => prop_assert_eq!(equal(&ours, &theirs, &Steps::all()), Ok(true), "{:?}", text),
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?}", text),
        }
    }

    #[test]
    fn a_document_equals_itself_and_no_other(one in document(), other in document()) {
        prop_assert_eq!(equal(&one, &one, &Steps::all()), Ok(true));
        let text = other.to_string();
        prop_assert_eq!(equal(&one, &Json::read(&text).unwrap(), &Steps::all()), Ok(one == other));
    }

    #[test]
    fn numbers_are_ordered_as_integers_are(one in any::<i128>(), other in any::<i128>(), zeros in 0..5_usize) {
        let written = format!("{other}{}e-{zeros}", "0".repeat(zeros));
        prop_assert_eq!(number::compare(&one.to_string(), &written), Some(one.cmp(&other)));
    }

    #[test]
    fn a_number_is_itself_in_every_notation(digits in "[1-9][0-9]{0,30}", point in 0..30_usize, power in -40..40_i64) {
        let (whole, fraction) = digits.split_at(point.min(digits.len()));
        let one = format!("0{whole}.{fraction}0e{power}");
        let exponent = power - i64::try_from(fraction.len()).unwrap();
        let other = format!("{digits}E{exponent:+}");
        prop_assert_eq!(number::compare(&one, &other), Some(std::cmp::Ordering::Equal), "{} {}", one, other);
    }

    #[test]
    fn a_descendant_query_finds_every_leaf(document in document()) {
        let mut leaves = 0;
        let query = Query::parse("$..*").unwrap();
        query.find(&document, |node, _| {
            leaves += usize::from(!matches!(node.look(), Look::List | Look::Object));
            Ok(false)
        }).unwrap();
        let root = usize::from(document.size() == 0 && !document.is_array() && !document.is_object());
        prop_assert_eq!(leaves + root, count_leaves(&document));
    }
}

fn count_leaves(document: &Value) -> usize {
    match document {
        Value::Array(items) => items.iter().map(count_leaves).sum(),
        Value::Object(members) => members.values().map(count_leaves).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..3_i64).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        select(vec!["a", "b", "A-1", "", "é"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(vec!["a", "b", "c"]), inner), 0..4).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

/// Pieces of queries in any order, of which some make one.
fn soup() -> impl Strategy<Value = String> {
    let piece = select(vec![
        ".a",
        ".b",
        "['a']",
        "[\"b\"]",
        "[*]",
        ".*",
        "..",
        "[0]",
        "[-1]",
        "[0:2]",
        "[::-1]",
        "[",
        "]",
        "?",
        "@",
        "$",
        "(",
        ")",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "!",
        " ",
        ",",
        "1",
        "'a'",
        "null",
        "true",
        "length(@)",
        "count(@.*)",
        "value(@..a)",
        "match(@,'a.*')",
        "search(@.a,\"b\")",
        "[?@.a]",
        "[?@>0]",
        "[?@.a==@.b]",
        "\\",
        "'",
        "é",
    ]);
    vec(piece, 0..8).prop_map(|pieces| format!("${}", pieces.concat()))
}

fn json_soup() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\n\"",
        "\"\\u0041\"",
        "1",
        "0",
        "-",
        ".",
        "5",
        "e",
        "+",
        "true",
        "null",
        " ",
        "\n",
        "{\"a\":",
        "[1,",
        "é",
    ]);
    vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}
