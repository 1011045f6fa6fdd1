//! What is one failure and what is two.

use super::*;

fn error(error_type: &str, code: Option<&str>, message: &str, backtrace: &str) -> LetterError {
    LetterError {
        error_type: error_type.into(),
        code: code.map(String::from),
        message: message.into(),
        backtrace: (!backtrace.is_empty()).then(|| backtrace.to_string()),
        ..LetterError::default()
    }
}

fn grouped(letter_type: &str, error: &LetterError) -> Grouping {
    let subject = Subject { source: "jobs", queue: "default", letter_type, tenant: None, error };
    group(subject, &FingerprintRules::default())
}

#[track_caller]
fn one(left: LetterError, right: LetterError) {
    let (left, right) = (grouped("order.paid", &left), grouped("order.paid", &right));
    assert_eq!(left.fingerprint, right.fingerprint, "{:#?}\n{:#?}", left.parts, right.parts);
}

#[track_caller]
fn two(left: LetterError, right: LetterError) {
    let (left, right) = (grouped("order.paid", &left), grouped("order.paid", &right));
    assert_ne!(left.fingerprint, right.fingerprint, "{:#?}", left.parts);
}

#[test]
fn the_text_form_is_versioned_and_the_letters_type_takes_part() {
    let error = error("Timeout", None, "no answer", "");
    let paid = grouped("order.paid", &error).fingerprint;
    assert_eq!(paid.as_str().len(), 35);
    assert!(paid.as_str().starts_with("v2:"));
    assert_eq!(paid, grouped("order.paid", &error).fingerprint);
    assert_ne!(paid, grouped("order.refunded", &error).fingerprint);
}

#[test]
fn a_deploy_and_another_host_change_nothing() {
    let trace = |path: &str, line: u32| {
        format!(
            "Traceback (most recent call last):\n  File \"{path}/orders/gateway.py\", line {line}, in charge\n    x()\nTimeoutError: no answer from 10.0.0.{line}"
        )
    };
    one(
        error("TimeoutError", None, "no answer from 10.0.0.7", &trace("/srv/releases/20260101", 7)),
        error("builtins.TimeoutError", None, "TimeoutError: no answer from 10.0.0.9", &trace("/app", 9)),
    );
}

#[test]
fn one_place_fails_in_two_ways() {
    let trace = "Error\n    at Gateway.charge (/app/gateway.js:1:1)";
    let fails = |message: &str, code| error("AxiosError", code, message, trace);
    two(
        fails("Request failed with status code 401", None),
        fails("Request failed with status code 503", None),
    );
    two(fails("missing field 'sku'", None), fails("missing field 'total'", None));
    two(fails("declined", Some("card_declined")), fails("declined", Some("expired_card")));
    one(fails("declined", Some("8f3kd9-1234567")), fails("declined", Some("9a3kd1-7654321")));
    one(fails("failed with status code 503", Some("503")), fails("failed with status code 503", None));
}

#[test]
fn one_library_fails_for_two_places() {
    let trace = |function: &str| {
        format!(
            "java.net.SocketTimeoutException: Read timed out\n\tat java.net.Socket.read(Socket.java:1)\n\tat com.acme.{function}(A.java:3)"
        )
    };
    let fails =
        |function: &str| error("java.net.SocketTimeoutException", None, "Read timed out", &trace(function));
    two(fails("Gateway.charge"), fails("Mailer.send"));
    one(fails("Gateway.charge"), fails("Gateway.lambda$charge$7"));
}

#[test]
fn wrapping_changes_nothing() {
    one(
        error("*errors.errorString", None, "load order 7: sql: no rows in result set", ""),
        error(
            "*fmt.wrapError",
            None,
            "attempt 3 failed: handle event: load order 9: sql: no rows in result set",
            "",
        ),
    );
    two(
        error("*fmt.wrapError", None, "load order 7: sql: no rows in result set", ""),
        error("*fmt.wrapError", None, "load customer 7: sql: no rows in result set", ""),
    );
}

#[test]
fn codes_that_are_ids_do_not_count() {
    assert_eq!(stable_code("ECONNREFUSED").as_deref(), Some("econnrefused"));
    assert_eq!(stable_code(" 23505 ").as_deref(), Some("23505"));
    assert_eq!(stable_code("req-8812345-77"), None);
    assert_eq!(stable_code(""), None);
    assert_eq!(stable_code("some words"), None);
}

#[test]
fn a_dry_pool_is_one_failure_wherever_it_strikes() {
    let fails = |function: &str| {
        let message = "HikariPool-1 - Connection is not available, request timed out after 30001ms.";
        let trace = format!(
            "java.sql.SQLTransientConnectionException: {message}\n\tat com.acme.{function}(A.java:3)"
        );
        error("java.sql.SQLTransientConnectionException", None, message, &trace)
    };
    one(fails("Orders.load"), fails("Customers.store"));
}

#[test]
fn the_layers_of_one_network_failure_are_one() {
    let frame = "  File \"/app/carrier.py\", line 71, in book\n";
    let inner = "Traceback (most recent call last):\n  File \"/usr/lib/python3.12/ssl.py\", line 1, in read\n\
        TimeoutError: The read operation timed out\n\nDuring handling of the above exception, another exception occurred:\n\n";
    let outer = format!(
        "Traceback (most recent call last):\n{frame}requests.exceptions.ReadTimeout: Read timed out."
    );
    one(
        error("requests.exceptions.ReadTimeout", None, "Read timed out.", &format!("{inner}{outer}")),
        error("ReadTimeout", None, "Read timed out.", &outer),
    );
    let refused = format!("Traceback (most recent call last):\n{frame}ConnectionError: Connection refused");
    two(
        error("ReadTimeout", None, "Read timed out.", &outer),
        error("ConnectionError", None, "Connection refused", &refused),
    );
}

#[test]
fn the_body_of_a_refusal_does_not_matter_and_that_of_a_complaint_does() {
    let trace = "Error\n    at Gateway.charge (/app/gateway.js:1:1)";
    let fails = |message: &str| error("HttpError", None, message, trace);
    one(fails("401 Unauthorized: [no body]"), fails("401 Unauthorized: {\"error\":\"bad_key\",\"id\":7}"));
    two(fails("422 returned: {\"field\":\"phone\"}"), fails("422 returned: {\"field\":\"email\"}"));
}

#[test]
fn the_field_that_a_library_tells_around_its_own_error_tells_the_cause() {
    let fails = |field: &str| {
        let outer =
            format!("System.Text.Json.JsonException: The JSON value could not be converted. Path: $.{field}");
        let trace = format!(
            "{outer}\n ---> System.InvalidOperationException: Cannot get the value of a token type 'String' as a number.\n   \
             at System.Text.Json.Reader.Get()\n   --- End of inner exception stack trace ---\n   \
             at System.Text.Json.Serializer.Read()\n   at Acme.Reader.Read(String body) in /src/Reader.cs:line 22"
        );
        error("System.Text.Json.JsonException", None, &outer, &trace)
    };
    two(fails("weightKg"), fails("lengthMm"));
    one(fails("weightKg"), fails("weightKg"));
}

#[test]
fn an_error_that_a_database_names_is_told_by_its_constraint() {
    let fails = |name: &str, code, constraint: &str| {
        error(name, code, &format!("duplicate key value violates unique constraint \"{constraint}\""), "")
    };
    one(fails("DatabaseError", Some("23505"), "orders_pkey"), fails("QueryFailedError", None, "orders_pkey"));
    two(fails("DatabaseError", None, "orders_pkey"), fails("DatabaseError", None, "orders_ref_key"));
}

#[test]
fn a_wrapper_of_spring_that_adds_the_constraint_tells_the_cause() {
    let fails = |constraint: &str| {
        let message = format!(
            "could not execute statement; SQL [n/a]; constraint [{constraint}]; nested exception is \
             org.hibernate.exception.ConstraintViolationException: could not execute statement"
        );
        error("org.springframework.dao.DataIntegrityViolationException", None, &message, "")
    };
    two(fails("uk_number"), fails("fk_zone"));
    one(fails("uk_number"), fails("uk_number"));
}

#[test]
fn a_deadlock_is_one_failure_in_whichever_table() {
    let fails = |message: &str| error("DatabaseError", Some("1213"), message, "");
    let bare = "Deadlock found when trying to get lock; try restarting transaction";
    one(fails(bare), fails(&format!("update seat_holds: Error 1213 (40001): {bare}")));
    one(fails(bare), fails("Deadlock found on table 'seat_log'; try restarting transaction"));
    two(fails(bare), fails("Lock wait timeout exceeded; try restarting transaction"));
}

#[test]
fn a_quoted_subject_in_a_chain_does_not_matter() {
    let chain = |context: &str, root: &str| {
        error(
            "anyhow::Error",
            None,
            context,
            &format!("Error: {context}\n\nCaused by:\n    0: line 7\n    1: {root}"),
        )
    };
    for subject in [" `night`", " \"night\"", " 'night_a'"] {
        let quoted = format!("read tariff{subject}");
        one(chain(&quoted, "invalid digit"), chain("read tariff", "invalid digit"));
        two(chain(&quoted, "invalid digit"), chain("read tariff", "empty string"));
        let line = |context: &str| error("anyhow::Error", None, &format!("{context}: invalid digit"), "");
        one(line(&quoted), line("read tariff"));
    }
}

#[test]
fn an_id_in_prose_does_not_matter_whatever_it_looks_like() {
    let fails = |message: &str| error("ConflictError", None, message, "");
    for id in ["100482", "W-90217", "QRST-LMNO", "#2026/77", "SHP/26/NO", "web_xkqzvbtw", "kmoe2", "A7"] {
        one(
            fails("Order ORD-2026-5833 cannot be cancelled"),
            fails(&format!("Order {id} cannot be cancelled")),
        );
    }
    two(fails("Order 7 cannot be cancelled"), fails("Order 7 cannot be returned"));
    two(fails("Column address1 is missing"), fails("Column address2 is missing"));
    two(fails("ORA-00060: failed"), fails("ORA-00942: failed"));
}

#[test]
fn a_type_that_says_nothing_gives_way_to_the_one_that_is_told() {
    let trace = "TypeError: x is undefined\n    at load (/app/a.js:1:1)";
    for nothing in ["handler_error", "job_failed", "Error", "ExecutionFailed", ""] {
        one(
            error("TypeError", None, "x is undefined", trace),
            error(nothing, Some(nothing), "x is undefined", trace),
        );
        one(
            error("TypeError", None, "x is undefined", ""),
            error(nothing, Some(nothing), "TypeError: x is undefined", ""),
        );
    }
    two(error("NoMethodError", None, "x", ""), error("NotFoundError", None, "x", ""));
}

#[test]
fn a_backtrace_that_is_the_message_is_read() {
    let text = "GenServer #PID<0.5.0> terminating\n** (KeyError) key :sku not found in: %{id: 1}\n    \
        (shop 0.1.0) lib/shop/total.ex:3: Shop.Total.sum/1\nLast message: :tick";
    one(
        error("", None, text, ""),
        error(
            "KeyError",
            None,
            "key :sku not found in: %{id: 7, note: \"x\"}",
            &text.replace("total.ex:3", "total.ex:9"),
        ),
    );
}
