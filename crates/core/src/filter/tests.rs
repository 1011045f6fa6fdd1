//! Filters by example: what is typed, what it means in canonical text and JSON, and what is refused with which words.

use serde_json::json;

use super::{Died, Filter, FilterError};
use crate::lifecycle::Action;
use crate::limits;
use crate::time::Time;

const INCIDENT: &str = "019a8b1c-7e00-7000-8000-000000000000";

#[test]
fn a_filter_reads_the_same_in_every_form() {
    let mut listing = String::new();
    for text in [
        "",
        r#"queue:billing type:invoice.* error:Timeout since:24h -status:resolved "connection refused" retries:>=3"#,
        "queue:b,a queue:b -queue:c -queue:*test*",
        r#"queue:"my queue","a,b","say \"hi\" \\ bye","" -tenant:"" "#,
        r"error:App\Jobs\SendMail code:E:42",
        "class:transient,not_found status:pending,reprocessing",
        "source:outbox subscriber:mail aggregate:order-* tenant:acme event:evt-1",
        "incident:019A8B1C-7E00-7000-8000-000000000000",
        "held:yes",
        "held:no",
        "since:2026-11-15T03:00:00+02:00 until:90m",
        "age:>7d",
        "age:<24h",
        "age:>1d age:<1w",
        "age:36h..7d",
        "retries:3",
        "retries:>2 retries:<5",
        "retries:1..5",
        "retries:<=5",
        r#"Refused text:"Connection (os error 111)" refused"#,
        "queue:\"a\u{0}\n\"",
        "  queue:-x\t-error:-y  ",
        r#"body:acme body:"ACME Corp, 4711" body:x"#,
        r#"contains:cust_123 contains:"Ann, \"Lee\"" contains:a,b"#,
        "path:$.items[?@.sku=='A-1'] path:$.customer.id=4711 -path:$.test path:$.a[0,1]",
        r#"path:"$.name=\"Ann Lee\"" headerPath:"$['x-tenant'] = acme" -headerPath:$.retry=3"#,
        r#"path:"$.items[?@.price > 10 && @.name == \"x\"]=1,5""#,
    ] {
        let filter = Filter::from_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let canonical = filter.to_string();
        let json = filter.to_json();
        assert_eq!(Filter::from_text(&canonical).as_ref(), Ok(&filter), "{text}");
        assert_eq!(Filter::from_json(&json).as_ref(), Ok(&filter), "{text}");
        assert_eq!(Filter::from_query([("q", text)]).as_ref(), Ok(&filter), "{text}");
        listing.push_str(&format!("{text:?}\n  {canonical:?}\n  {json}\n"));
    }
    insta::assert_snapshot!("texts", listing);
}

#[test]
fn a_text_that_is_refused_says_how_to_mend_it() {
    let mut listing = String::new();
    for text in [
        "quue:billing",
        "Queue:billing",
        "errorType:Timeout",
        "http://example.org/x",
        "Net::ReadTimeout",
        ":x",
        "message:\u{1b}[2J",
        "queue:",
        "queue:a,,b",
        "queue:a, b",
        "queue:\"a",
        "queue:\"a\\",
        "queue:a\"b\"",
        "queue:\"a\"b",
        "\"a\"b",
        "5\"",
        "queue:\"App\\Jobs\"",
        "status:pendign",
        "status:open",
        "class:Transient",
        "incident:42",
        "held:maybe",
        "-held:yes",
        "-since:24h",
        "-timeout",
        "-\"connection refused\"",
        "since:2026-11-15",
        "since:2026-11-15T03:00:00",
        "until:yesterday",
        "since:1h,2h",
        "since:1h since:2h",
        "age:7d",
        "age:>soon",
        "age:>4000000d",
        "age:7d..1d",
        "age:>1d age:>2d",
        "age:>=7d",
        "since:24h until:7d",
        "since:2026-11-15T03:00:00Z until:2026-11-15T03:00:00Z",
        "retries:many",
        "retries:+3",
        "retries:<0",
        "retries:>4294967295",
        "retries:5..1",
        "text:a,b",
        "\"?!\"",
        "queue:x -",
        "body:a,b",
        "body:…",
        "-body:a",
        "contains:",
        "contains:\"\"",
        "-contains:x",
        "contains:a\"b",
        "path:",
        "path:x",
        "path:$.a[?",
        "path:$.a[?@.b > 1]",
        "path:$.a,$.b",
        "path:\"$.a\",\"$.b\"",
        "path:$.a=\"x y\"",
        "path:$.a==1",
        "path:$.a=",
        "path:\"$.a=\\\"x\"",
        "path:$..a..b",
        "headerPath:$[?@[?@.a]]",
        "-headerPath:$\u{1b}",
    ] {
        listing.push_str(&format!("{text:?}\n  {}\n", refusal(Filter::from_text(text))));
    }
    insta::assert_snapshot!("refused_texts", listing);
}

#[test]
fn a_query_string_has_one_parameter_for_each_key() {
    let cases: [(&[(&str, &str)], &str); 10] = [
        (&[], ""),
        (&[("q", "")], ""),
        (
            &[("queue", "my queue, b"), ("status", "pending"), ("status", "resolved")],
            r#"queue:b,"my queue" status:pending,resolved"#,
        ),
        (&[("queue", r#""a,b", " c " "#)], r#"queue:" c ","a,b""#),
        (
            &[("errorType", "T"), ("eventId", "e"), ("retryCount", ">=3"), ("held", "true")],
            "error:T event:e held:yes retries:>=3",
        ),
        (&[("text", "connection, \"refused"), ("q", "refused os queue:a")], "queue:a connection refused os"),
        (&[("status", "pending"), ("q", "status:pending -queue:x")], "-queue:x status:pending"),
        (
            &[
                ("body", "\"acme, corp"),
                ("contains", "a, \"b\""),
                ("path", "$.a[0,1]"),
                ("path", r#"$["b c"]="d, e""#),
                ("q", "path:$.x body:y"),
            ],
            r#"body:"acme corp y" contains:"a, \"b\"" path:"$.a[0,1]" path:$.x path:"$[\"b c\"]=\"d, e\"""#,
        ),
        (&[("path", "\"$.a=b\""), ("q", "path:$.a=b")], "path:$.a=b"),
        (
            &[("queue", "-x"), ("age", "<1d"), ("since", "2026-11-15T03:00:00Z")],
            "queue:-x since:2026-11-15T03:00:00.000Z age:<P1D",
        ),
    ];
    for (pairs, expected) in cases {
        let filter = Filter::from_query(pairs.iter().copied());
        assert_eq!(filter.map(|filter| filter.to_string()).as_deref(), Ok(expected), "{pairs:?}");
    }
    let mut listing = String::new();
    let refused: [&[(&str, &str)]; 7] = [
        &[("error", "Timeout")],
        &[("limit", "50")],
        &[("queue", "")],
        &[("queue", "a"), ("q", "queue:b")],
        &[("since", "1h"), ("since", "2h")],
        &[("retryCount", "x")],
        &[("text", "…")],
    ];
    for pairs in refused {
        listing.push_str(&format!("{pairs:?}\n  {}\n", refusal(Filter::from_query(pairs.iter().copied()))));
    }
    insta::assert_snapshot!("refused_queries", listing);
}

#[test]
fn json_takes_a_value_or_a_list() {
    let cases = [
        (json!({}), ""),
        (json!({"queue": "a,b", "type": ["invoice.*", "order.*"]}), r#"queue:"a,b" type:invoice.*,order.*"#),
        (
            json!({"incident": INCIDENT, "not": {"queue": "x", "errorType": ["A", "B"]}}),
            &format!("-queue:x -error:A,B incident:{INCIDENT}"),
        ),
        (
            json!({"age": {"min": "1d", "max": "7d"}, "retryCount": {"min": 1}, "held": false}),
            "held:no age:P1D..P7D retries:>=1",
        ),
        (
            json!({"retryCount": 3, "since": "24h", "until": "2026-11-15T03:00:00Z"}),
            "since:P1D until:2026-11-15T03:00:00.000Z retries:3",
        ),
        (json!({"text": "connection refused"}), "connection refused"),
        (json!({"contains": ["b c", "a"]}), r#"contains:a contains:"b c""#),
        (
            json!({"body": "acme corp", "path": "$.a", "headerPath": ["$.b=1", "$.c"], "not": {"path": ["$.d"]}}),
            r#"body:"acme corp" path:$.a -path:$.d headerPath:$.b=1 headerPath:$.c"#,
        ),
        // DLQ's filter criteria, as its document has them.
        (
            json!({
                "errorTypes": ["NetworkError", "ServiceUnavailableError"],
                "maxAge": "24h",
                "minRetryCount": 1,
                "maxRetryCount": 5,
                "eventPatterns": ["payment.*", "order.created"]
            }),
            "type:order.created,payment.* error:NetworkError,ServiceUnavailableError age:<P1D retries:1..5",
        ),
    ];
    for (value, expected) in cases {
        let filter = Filter::from_json(&value);
        assert_eq!(filter.map(|filter| filter.to_string()).as_deref(), Ok(expected), "{value}");
    }
}

#[test]
fn json_of_the_wrong_shape_is_refused_by_key() {
    let mut listing = String::new();
    for value in [
        json!("queue:a"),
        json!({"quue": "a"}),
        json!({"error": "a"}),
        json!({"queue": null}),
        json!({"queue": []}),
        json!({"queue": ["a", 1]}),
        json!({"status": {"in": ["pending"]}}),
        json!({"since": 24}),
        json!({"held": "yes"}),
        json!({"age": "7d"}),
        json!({"age": {}}),
        json!({"age": {"min": 7}}),
        json!({"age": {"from": "7d"}}),
        json!({"age": {"min": "7d", "max": "24h"}}),
        json!({"maxAge": "soon"}),
        json!({"retryCount": "3"}),
        json!({"retryCount": -1}),
        json!({"retryCount": {"min": 1.5}}),
        json!({"retryCount": {"min": 1}, "minRetryCount": 2}),
        json!({"maxRetryCount": 4_294_967_296_u64}),
        json!({"not": "x"}),
        json!({"not": {}}),
        json!({"not": {"queue": 1}}),
        json!({"not": {"text": "x"}}),
        json!({"not": {"not": {}}}),
        json!({"path": 4711}),
        json!({"path": "$.a["}),
        json!({"contains": ""}),
        json!({"contains": []}),
        json!({"not": {"contains": "x"}}),
        json!({"not": {"body": "x"}}),
    ] {
        listing.push_str(&format!("{value}\n  {}\n", refusal(Filter::from_json(&value))));
    }
    insta::assert_snapshot!("refused_json", listing);
}

#[test]
fn a_filter_has_limits() {
    let listed = |count: usize| {
        let values: Vec<String> = (0..count).map(|n| format!("q{n}")).collect();
        values.join(",")
    };
    assert!(Filter::from_text(&format!("queue:{}", listed(limits::FILTER_VALUES_MAX))).is_ok());
    let error = Filter::from_text(&format!("queue:{} -queue:x", listed(limits::FILTER_VALUES_MAX)));
    assert_eq!(error, Err(FilterError::TooManyValues { key: "queue" }));
    assert_eq!(refusal(error), "`queue` has more than 50 values; use a pattern with `*`, or several filters");
    let error = Filter::from_text(&listed(limits::FILTER_VALUES_MAX + 1));
    assert_eq!(error, Err(FilterError::TooManyValues { key: "text" }));

    let paths = |count: usize| (0..count).map(|n| format!("path:$.a{n} ")).collect::<String>();
    assert!(Filter::from_text(&paths(limits::FILTER_PATHS_MAX)).is_ok());
    let error = Filter::from_text(&paths(limits::FILTER_PATHS_MAX + 1));
    assert_eq!(
        refusal(error),
        "`path` has more than 10 conditions; one path can hold several, such as $[?@.a==1 && @.b==2]"
    );

    let texts = |count: usize| (0..count).map(|n| format!("contains:a{n} ")).collect::<String>();
    assert!(Filter::from_text(&texts(limits::FILTER_PARTS_MAX)).is_ok());
    let error = Filter::from_text(&texts(limits::FILTER_PARTS_MAX + 1));
    assert_eq!(refusal(error), "`contains` has more than 10 texts");

    let long = "x".repeat(limits::FILTER_BYTES_MAX);
    assert_eq!(Filter::from_text(&format!(" {long}")), Err(FilterError::TooLong { bytes: 4_097 }));
    assert_eq!(Filter::from_query([("queue", long.as_str())]), Err(FilterError::TooLong { bytes: 4_102 }));
    let error = Filter::from_json(&json!({"queue": long}));
    assert_eq!(refusal(error), "the filter has 4102 bytes as text; at most 4096 are allowed");
}

#[test]
fn times_and_ages_become_one_range() {
    let now = Time::parse("2026-11-15T12:00:00Z").unwrap();
    let cases = [
        ("", None, None),
        ("since:24h", Some("2026-11-14T12:00:00.000Z"), None),
        ("age:<24h", Some("2026-11-14T12:00:00.000Z"), None),
        ("until:7d", None, Some("2026-11-08T12:00:00.000Z")),
        ("age:>7d", None, Some("2026-11-08T12:00:00.000Z")),
        ("since:2026-11-14T00:00:00Z age:<24h", Some("2026-11-14T12:00:00.000Z"), None),
        ("since:2026-11-15T00:00:00Z age:<24h", Some("2026-11-15T00:00:00.000Z"), None),
        (
            "until:2026-11-14T00:00:00Z age:1h..2d",
            Some("2026-11-13T12:00:00.000Z"),
            Some("2026-11-14T00:00:00.000Z"),
        ),
        ("since:3652425d", Some("0000-01-01T00:00:00.000Z"), None),
    ];
    for (text, from, until) in cases {
        let Died { from: died_from, until: died_until } = Filter::from_text(text).unwrap().died(now);
        assert_eq!(died_from.map(|time| time.to_string()).as_deref(), from, "{text}");
        assert_eq!(died_until.map(|time| time.to_string()).as_deref(), until, "{text}");
    }
}

#[test]
fn the_hash_tells_filters_apart_and_not_their_spelling() {
    let hash = |text: &str| Filter::from_text(text).unwrap().hash();
    assert_eq!(hash("queue:a,b since:24h"), hash("since:1d queue:b queue:\"a\""));
    assert_ne!(hash("queue:a"), hash("-queue:a"));
    // Cursors in the hands of clients hold it, so it must never change.
    assert_eq!(hash("queue:billing"), [0x2f, 0x31, 0xa5, 0x9b, 0xeb, 0xa7, 0xda, 0x10]);
}

#[test]
fn every_query_key_is_named_once() {
    let keys = "queue type errorType class code status source incident subscriber aggregate tenant eventId held \
                since until age retryCount text body contains path headerPath q";
    assert_eq!(Filter::QUERY_KEYS.join(" "), keys);
}

fn refusal(result: Result<Filter, FilterError>) -> String {
    match result {
        Ok(filter) => panic!("not refused: {:?} {}", filter.to_string(), filter.to_json()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn filters_that_spare_nothing_count_as_none() {
    let now = Time::parse("2026-11-15T03:00:00Z").unwrap();
    let spares_nothing = |text: &str, action| Filter::from_text(text).unwrap().spares_nothing(action, now);
    let statuses = "status:pending,reprocessing,resolved,discarded";
    for all in [
        "",
        "type:*",
        "queue:**",
        "type:*,a.b",
        "error:* source:*",
        "tenant:*",
        "code:*",
        "event:*",
        "held:no",
        "retries:>=0",
        "since:1970-01-01T00:00:00Z",
        "age:<40000d",
        "until:2026-11-16T00:00:00Z",
        statuses,
    ] {
        for action in [Action::Discard, Action::Redrive, Action::Delete, Action::Restore, Action::Hold] {
            assert!(spares_nothing(all, action), "{all} {action}");
        }
    }
    assert!(spares_nothing("status:pending type:*", Action::Discard));
    assert!(spares_nothing("status:pending", Action::Redrive));
    assert!(spares_nothing("-status:pending", Action::Reopen));
    for some in [
        "type:a*",
        "-type:*",
        "-queue:a",
        "source:report",
        "class:transient",
        "held:yes",
        "retries:1",
        "since:24h",
        "until:24h",
        "age:>1d",
        "timeout",
        "path:$.a=1",
        "contains:x",
        "body:x",
        "incident:019a8b1c-7e00-7000-8000-000000000000",
    ] {
        assert!(!spares_nothing(some, Action::Discard), "{some}");
        assert!(!spares_nothing(&format!("{some} tenant:* status:pending"), Action::Redrive), "{some}");
    }
    assert!(!spares_nothing("status:pending", Action::Delete));
    assert!(!spares_nothing("status:discarded", Action::Restore));
}
