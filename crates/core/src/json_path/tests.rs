//! JSON paths by example: what every selector, comparison and function selects, and what is refused with which words.

use serde_json::{Value, json};

use super::{Extra, Json, Node, NotRead, OutOfSteps, PathError, Query};
use crate::limits;

/// All that a query selects, in order, asked of both kinds of documents.
fn selected(query: &str, document: &Value) -> Value {
    let query = Query::parse(query).unwrap_or_else(|error| panic!("{query} {error}"));
    let values = all(&query, document).into_iter().cloned().collect();
    let text = document.to_string();
    let json = Json::read(&text).unwrap();
    let same: Vec<Value> = all(&query, &json).into_iter().map(as_value).collect();
    assert_eq!(Value::Array(same), values, "{}", query.text());
    values
}

fn all<'n, N: Node>(query: &Query, document: &'n N) -> Vec<&'n N> {
    let mut nodes = Vec::new();
    let found = query.find(document, |node, _| {
        nodes.push(node);
        Ok(false)
    });
    assert!(matches!(found, Ok(None)));
    nodes
}

fn as_value(json: &Json<'_>) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => json!(truth),
        Json::Number(number) => serde_json::from_str(number).unwrap(),
        Json::Text(text) => json!(text),
        Json::List(items) => items.iter().map(as_value).collect(),
        Json::Object(_) => json.members().map(|(name, value)| (name.to_owned(), as_value(value))).collect(),
    }
}

fn refusal(query: &str) -> String {
    match Query::parse(query) {
        Ok(_) => panic!("not refused: {query}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_selector_selects_what_the_rfc_says() {
    let letter = json!({
        "o": {"j j": 1, "k.k": {"a": 3}, "'": "quote", "\"": "double", "é": "e", "_1": "low"},
        "a": [0, 1, 2, 3, 4, 5, 6],
        "n": null,
    });
    let cases = [
        ("$.n", json!([null])),
        ("$.o['j j']", json!([1])),
        ("$.o[\"k.k\"]['a']", json!([3])),
        (r#"$.o["'"]"#, json!(["quote"])),
        (r"$.o['\'']", json!(["quote"])),
        (r#"$.o['"']"#, json!(["double"])),
        (r"$.o['\u00e9']", json!(["e"])),
        ("$.o.é", json!(["e"])),
        ("$.o._1", json!(["low"])),
        ("$ .o ['j j']", json!([1])),
        ("$\n.o\t[ 'j j' ]", json!([1])),
        ("$.missing", json!([])),
        ("$.a.o", json!([])),
        ("$.o[0]", json!([])),
        ("$.a['0']", json!([])),
        ("$.a[1]", json!([1])),
        ("$.a[-1]", json!([6])),
        ("$.a[7]", json!([])),
        ("$.a[-8]", json!([])),
        ("$.a[0, 0, -1]", json!([0, 0, 6])),
        ("$.a[*]", json!([0, 1, 2, 3, 4, 5, 6])),
        ("$.n.*", json!([])),
        ("$.a[1:3]", json!([1, 2])),
        ("$.a[5:]", json!([5, 6])),
        ("$.a[:2]", json!([0, 1])),
        ("$.a[:]", json!([0, 1, 2, 3, 4, 5, 6])),
        ("$.a[1:5:2]", json!([1, 3])),
        ("$.a[5:1:-2]", json!([5, 3])),
        ("$.a[::-1]", json!([6, 5, 4, 3, 2, 1, 0])),
        ("$.a[::0]", json!([])),
        ("$.a[-2:]", json!([5, 6])),
        ("$.a[:-5]", json!([0, 1])),
        ("$.a[-100:100]", json!([0, 1, 2, 3, 4, 5, 6])),
        ("$.a[100:-100:-3]", json!([6, 3, 0])),
        ("$.a[3:3]", json!([])),
        ("$.a[ 1 : 5 : 2 ]", json!([1, 3])),
        ("$.a[9007199254740991:0:-9007199254740991]", json!([6])),
        ("$.o[1:2]", json!([])),
        ("$.a[0, 5:, 'x']", json!([0, 5, 6])),
        ("$..a", json!([[0, 1, 2, 3, 4, 5, 6], 3])),
        ("$..[1]", json!([1])),
        ("$.o..*", json!(["double", "quote", "low", 1, {"a": 3}, "e", 3])),
    ];
    for (query, expected) in cases {
        assert_eq!(selected(query, &letter), expected, "{query}");
    }
    assert_eq!(selected("$", &letter), json!([letter]));
}

#[test]
fn a_descendant_is_every_value_once() {
    let document = json!([[[1], 2], {"a": [3]}]);
    assert_eq!(selected("$..*", &document).as_array().unwrap().len(), 7);
    assert_eq!(selected("$..[0]", &document), json!([[[1], 2], [1], 1, 3]));
    assert_eq!(selected("$..a[*]", &document), json!([3]));
}

#[test]
fn filters_test_and_compare() {
    let letter = json!({
        "items": [
            {"sku": "A-1", "price": 5, "tags": ["x", "y"]},
            {"sku": "B-2", "price": 12.5, "gift": null},
            {"sku": "C-3", "price": 40, "gift": false, "tags": []},
        ],
        "limit": 12.50,
    });
    let cases = [
        ("@.gift", "B C"),
        ("!@.gift", "A"),
        ("@.tags[*]", "A"),
        ("@..[1]", "A"),
        ("@.price > 5", "B C"),
        ("@.price>=$.limit", "B C"),
        ("@.price == $.limit", "B"),
        ("@.sku == 'A-1' || @.sku=='C-3'", "A C"),
        ("@.price < 20 && @.sku > 'A-1'", "B"),
        ("@.sku=='A-1' || @.price>5 && @.price<20", "A B"),
        ("(@.sku=='A-1' || @.price>5) && @.price<20", "A B"),
        ("(@.sku=='A-1' || @.price>5) && !(@.price<20)", "C"),
        ("!(@.price == 5)", "B C"),
        ("! @.gift && ( @.price == 5 )", "A"),
        ("@.gift == null", "B"),
        ("@.gift == false", "C"),
        ("@.none == @.nothing", "A B C"),
        ("@.gift == @.none", "A"),
        ("@.tags == $.items[0].tags", "A"),
        ("@['sku'] != \"A-1\"", "B C"),
        ("length(@.sku) == 3", "A B C"),
        ("length(@.tags) == 0", "C"),
        ("length(@) == 4", "C"),
        ("length(@.price) == @.none", "A B C"),
        ("count(@.tags[*]) == 2", "A"),
        ("count(@.*) >= 3", "A B C"),
        ("count(@['sku','sku']) == 2", "A B C"),
        ("value(@..[1]) == 'y'", "A"),
        ("value(@.*) == @.none", "A B C"),
        ("match(@.sku, '[AB]-.')", "A B"),
        ("match(@.sku, 'A')", ""),
        ("search(@.sku, '-3')", "C"),
        ("!search(@.sku, \"^C\")", "A B"),
        ("match(@.price, '5')", ""),
        ("search($.items[0].sku, @.sku)", "A"),
        ("search(@.sku, $.limit)", ""),
        ("length('häß') == 3", "A B C"),
        ("length(value(@.tags)) == 2", "A"),
    ];
    for (filter, expected) in cases {
        let found = selected(&format!("$.items[?{filter}].sku"), &letter);
        let found: Vec<&str> =
            found.as_array().unwrap().iter().map(|sku| &sku.as_str().unwrap()[..1]).collect();
        assert_eq!(found.join(" "), expected, "{filter}");
    }
    assert_eq!(selected("$[?@ == 12.5]", &letter), json!([12.5]));
    assert_eq!(selected("$.items[?@.price<6, ?@.price<6].price", &letter), json!([5, 5]));
}

#[test]
fn values_compare_as_the_table_says() {
    let values = [
        ("none", "$.x"),
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("1", "1"),
        ("1.0", "1.0"),
        ("2", "2"),
        ("big", "12345678901234567890"),
        ("bigger", "12345678901234567891"),
        ("text", "'a'"),
        ("later", "'b'"),
        ("list", "$.list"),
        ("object", "$.object"),
    ];
    let document = json!({"go": [0], "list": [1, {"b": 2}], "object": {"c": 3}});
    let holds = |one: &str, relation: &str, other: &str| {
        !selected(&format!("$.go[?{one} {relation} {other}]"), &document).as_array().unwrap().is_empty()
    };
    let less = [("1", "2"), ("1.0", "2"), ("1", "big"), ("1.0", "big"), ("2", "big"), ("1", "bigger")];
    let less: Vec<(&str, &str)> = less
        .into_iter()
        .chain([("1.0", "bigger"), ("2", "bigger"), ("big", "bigger"), ("text", "later")])
        .collect();
    for (one_name, one) in values {
        for (other_name, other) in values {
            let equal =
                one_name == other_name || matches!((one_name, other_name), ("1", "1.0") | ("1.0", "1"));
            let less_than = less.contains(&(one_name, other_name));
            let greater_than = less.contains(&(other_name, one_name));
            let expected = [
                ("==", equal),
                ("!=", !equal),
                ("<", less_than),
                (">", greater_than),
                ("<=", less_than || equal),
                (">=", greater_than || equal),
            ];
            for (relation, expected) in expected {
                assert_eq!(holds(one, relation, other), expected, "{one_name} {relation} {other_name}");
            }
        }
    }
}

#[test]
fn objects_are_equal_in_any_order_and_lists_only_in_theirs() {
    let document = json!([
        {"a": {"x": 1, "y": [1, 2]}, "b": {"y": [1.0, 2], "x": 1e0}},
        {"a": {"x": 1}, "b": {"x": 1, "y": 2}},
        {"a": {"x": 1}, "b": {"y": 1}},
        {"a": [1, 2], "b": [2, 1]},
        {"a": [1], "b": [1, 1]},
    ]);
    assert_eq!(selected("$[?@.a == @.b].a", &document), json!([{"x": 1, "y": [1, 2]}]));
}

#[test]
fn a_query_that_is_refused_says_where_and_why() {
    let long = format!("$.{}", "a".repeat(limits::JSON_PATH_BYTES_MAX));
    let nested = format!("$[?{}@{}]", "(".repeat(17), ")".repeat(17));
    let mut listing = String::new();
    for query in [
        "",
        "a",
        "@.a",
        " $.a",
        "$.a ",
        "$.",
        "$..",
        "$.1",
        "$. a",
        "$.a.",
        "$.a-b",
        "$.a[",
        "$[]",
        "$[a]",
        "$[0",
        "$[0,]",
        "$[01]",
        "$[-0]",
        "$[1.0]",
        "$[-]",
        "$[9007199254740992]",
        "$[0:1:2:3]",
        "$['a",
        "$['\\x']",
        "$['\\ud800']",
        "$['\\\"']",
        "$[\"\\'\"]",
        "$['\u{1}']",
        "$..a..b",
        "$..a[?@..b]",
        "$[?]",
        "$.a[?",
        "$[?@.a",
        "$[?@.a=1]",
        "$[?@.a==]",
        "$[?@.a==x]",
        "$[?1]",
        "$[?'a']",
        "$[?true && @.a]",
        "$[?@.* == 1]",
        "$[?@..a == 1]",
        "$[?@[0:1] == 1]",
        "$[?!@.a == 1]",
        "$[?@.a == 1 == 2]",
        "$[?@.a &&]",
        "$[?(@.a]",
        "$[?@.a == -]",
        "$[?@.a == 01]",
        "$[?@.a == 1.]",
        "$[?@.a == 1e]",
        "$[?@[?@.b]]",
        "$[?length(@)]",
        "$[?length(@.*) == 1]",
        "$[?length() == 1]",
        "$[?length(@.a, @.b) == 1]",
        "$[?count(1) == 1]",
        "$[?value('a') == 1]",
        "$[?match(@.a) ]",
        "$[?match(@.a, 'x') == true]",
        "$[?match(@.a, '(')]",
        "$[?search(@.a, 'x{9999}{9999}')]",
        "$[?length(match(@.a, 'x')) == 1]",
        "$[?size(@) == 1]",
        "$[?length (@) == 1]",
        "$[?count(@.a == 1]",
    ] {
        listing.push_str(&format!("{query:?}\n  {}\n", refusal(query)));
    }
    insta::assert_snapshot!("refused_queries", listing);
    assert_eq!(refusal(&long), "is longer than 1024 bytes at 1025");
    assert_eq!(refusal(&nested), "nests parentheses deeper than 16 at 20");
    assert_eq!(
        Query::parse("$é.[").map_err(|PathError { at, .. }| at),
        Err(2),
        "characters are counted, not bytes"
    );
}

#[test]
fn a_query_knows_whether_it_only_names_values() {
    for (query, extra) in [
        ("$", None),
        ("$.a['b'][0][*]..c", None),
        ("$.a[?@.b]", Some(Extra::Filter)),
        ("$[1:2]", Some(Extra::Slice)),
        ("$[0,1][?@]", Some(Extra::List)),
    ] {
        assert_eq!(Query::parse(query).unwrap().extra(), extra, "{query}");
    }
    assert!(Query::parse("$").unwrap().is_root());
    assert_eq!(Query::parse("$..a").unwrap().first(&json!({"b": {"a": 7}})), Ok(Some(&json!(7))));
    assert_eq!(Query::parse("$..a").unwrap().first(&json!({"b": 7})), Ok(None::<&Value>));
}

#[test]
fn a_document_is_read_as_json_is_defined() {
    let read = |text: &str| Json::read(text).map(|json| as_value(&json));
    for text in [
        "null",
        " true ",
        "-0.5e+3",
        "\"\\u00e9\\n\\/\"",
        "[]",
        "{}",
        "[1,[2,{}]]",
        "{\"a\":{\"b\":[null,false]}}",
        "\t{ \"a\" : 1 , \"b\" : 2 }\r\n",
    ] {
        assert_eq!(read(text), Ok(serde_json::from_str(text).unwrap()), "{text}");
    }
    for text in [
        "",
        " ",
        "nul",
        "truex",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "NaN",
        "'a'",
        "\"a",
        "\"\u{1}\"",
        "\"\\x\"",
        "[1,]",
        "[1 2]",
        "[",
        "{",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":1,}",
        "{\"a\":1",
        "1 2",
        "\u{feff}1",
        "[1]]",
    ] {
        assert_eq!(read(text), Err(NotRead::NotJson), "{text}");
    }
    assert_eq!(read("{\"a\":1,\"b\":2,\"a\":3}"), Ok(json!({"a": 3, "b": 2})), "the last of a name counts");
    assert_eq!(read("\"x\\ud800y\""), Ok(json!("x\u{fffd}y")), "half a pair is no reason to give up");
}

#[test]
fn a_document_is_read_up_to_its_bounds() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Json::read(&deep(limits::JSON_DEPTH_MAX)).is_ok());
    assert_eq!(Json::read(&deep(limits::JSON_DEPTH_MAX + 1)).err(), Some(NotRead::TooMuch));
    assert_eq!(Json::read(&"[".repeat(1_000_000)).err(), Some(NotRead::TooMuch));
    let wide = |count: usize| format!("[{}1]", "1,".repeat(count - 1));
    assert!(Json::read(&wide(limits::JSON_VALUES_MAX - 1)).is_ok());
    assert_eq!(Json::read(&wide(limits::JSON_VALUES_MAX)).err(), Some(NotRead::TooMuch));
}

#[test]
fn names_texts_and_numbers_are_handed_over_in_their_order() {
    let mut found = Vec::new();
    let text = r#"{"b": ["x\ty", -1.50, true], "a": null, "b": {"é": ""}}"#;
    Json::read_with(text, &mut |text| found.push(text.to_owned())).unwrap();
    assert_eq!(found, ["b", "x\ty", "-1.50", "a", "b", "é", ""]);
}

#[test]
fn an_evaluation_ends_whatever_the_document_is() {
    let ones = format!("[{}1]", "1,".repeat(limits::JSON_VALUES_MAX - 2));
    let long = "a".repeat(1_000_000);
    let twins = format!("{{\"a\":\"{long}b\",\"b\":\"{long}c\",\"go\":[{}0]}}", "0,".repeat(100_000));
    let big = format!("[{}0]", "0,".repeat(1_000));
    let lists = format!("{{\"a\":{big},\"b\":{big},\"go\":[{}0]}}", "0,".repeat(10_000));
    let patterns = format!("[{}\"x\"]", "\"(a|b|c){10}\",".repeat(10_000));
    for (query, document) in [
        ("$[?count($[*])==0]", &ones),
        ("$..[?$[-1]==$[0] && $[0]==2 || count($[0:9])==1 && $[1]==$[2] && $[3]==7]", &ones),
        ("$.go[?$.a==$.b]", &twins),
        ("$.go[?$.a<$.b && $.b<$.a]", &twins),
        ("$.go[?length($.a)==1]", &twins),
        ("$.go[?search($.a, '(x+x+)+y')]", &twins),
        ("$.go[?$.a==$.b && @==1]", &lists),
        ("$[?search('x', @)]", &patterns),
    ] {
        let document = Json::read(document).unwrap();
        assert_eq!(Query::parse(query).unwrap().first(&document).err(), Some(OutOfSteps), "{query}");
    }
    // Twice as many values on each level, which differ in the last of them alone.
    let tree = (0..14).fold(("0".to_owned(), "1".to_owned()), |(same, other), _| {
        (format!("{{\"a\":{same},\"b\":{same}}}"), format!("{{\"a\":{same},\"b\":{other}}}"))
    });
    let tree = format!("{{\"a\":{},\"b\":{}}}", tree.0, tree.1);
    let tree = Json::read(&tree).unwrap();
    assert!(matches!(Query::parse("$..[?@.a==@.b]").unwrap().first(&tree), Ok(Some(_))));
    assert!(matches!(Query::parse("$..[?@.a!=@.b && @.c]").unwrap().first(&tree), Ok(None)));
    let deep = "[".repeat(limits::JSON_DEPTH_MAX) + &"]".repeat(limits::JSON_DEPTH_MAX);
    let deep = Json::read(&deep).unwrap();
    assert!(matches!(Query::parse("$..[?@.a==@.b && @[0]==1]").unwrap().first(&deep), Ok(None)));
    // What is large but not hostile is answered.
    let document = Json::read(&ones).unwrap();
    for query in ["$[?@==2]", "$..[?@.a]", "$..a", "$[999999]", "$[*].a"] {
        assert!(matches!(Query::parse(query).unwrap().first(&document), Ok(None)), "{query}");
    }
}
