//! What stays of a message and what goes.

use super::*;

#[track_caller]
fn check(message: &str, expected: &str) {
    assert_eq!(Template::of(message).text(), expected, "{message}");
}

#[track_caller]
fn alike(one: &str, other: &str) {
    let words = |text| Template::of(text).words(HasFrames::No);
    assert_eq!(words(one), words(other), "{one} | {other}");
}

#[track_caller]
fn apart(one: &str, other: &str) {
    let words = |text| Template::of(text).words(HasFrames::Yes);
    assert_ne!(words(one), words(other), "{one} | {other}");
}

#[test]
fn values_become_placeholders() {
    check("Read timed out after 5000 ms", "Read timed out after <number>");
    check("order 3f2504e0-4f89-11d3-9a0c-0305e82c3301 not found", "order <uuid> not found");
    check("connect ECONNREFUSED 10.0.0.1:5432", "connect ECONNREFUSED <ip>");
    check("mail to a.b@example.com bounced", "mail to <email> bounced");
    check("open /var/data/x.csv: no such file", "open <path>: no such file");
    check("invoice inv_8f3kd9 of ORD-2024-000123", "invoice <id> of <id>");
    check("at 2026-01-02T10:00:00Z", "at <time>");
    check("pointer 0xc0000123 is bad", "pointer <hex> is bad");
    check("lookup db-1.internal: no such host", "lookup <host>: no such host");
    check("No such customer: 'cus_1'", "No such customer: '<quoted>'");
    check("ids 1, 2, 3, 4 are gone", "ids <number> are gone");
}

#[test]
fn names_of_parts_stay() {
    for message in [
        "violates unique constraint \"orders_pkey\"",
        "null value in column \"email\"",
        "missing required field 'customerId'",
        "'sku'",
        "Cannot read properties of undefined (reading 'id')",
        "undefined method `foo' for nil",
        "'NoneType' object has no attribute 'foo'",
        "Environment variable STRIPE_API_KEY is not set",
        "Cannot deserialize value of type `java.time.LocalDate`",
        "Table 'shop.orders' doesn't exist",
        "missing field `customer_id`",
        "fields 'a', 'b' and 'c' are required",
    ] {
        check(message, message);
    }
}

#[test]
fn codes_stay() {
    apart("Request failed with status code 401", "Request failed with status code 503");
    apart("server returned 401", "server returned 503");
    apart("HTTP 404", "HTTP 410");
    apart("401 Unauthorized for url", "403 Forbidden for url");
    apart(
        "Response status code does not indicate success: 404 (Not Found).",
        "Response status code does not indicate success: 410 (Gone).",
    );
    apart("ORA-00001: failed", "ORA-01400: failed");
    apart("exit code 137", "exit code 1");
    apart("SQLSTATE[23000]: x", "SQLSTATE[42000]: x");
    apart("(SQLSTATE 23505)", "(SQLSTATE 23503)");
    apart("connection refused (os error 111)", "connection refused (os error 104)");
    apart("E11000 failed", "E11001 failed");
}

#[test]
fn counts_units_and_lists_do_not_matter() {
    alike("1 item is missing", "3 items are missing");
    alike("timed out after 5 seconds", "timed out after 500ms");
    alike("timed out after 5s", "timed out after 1 minute");
    alike("charged 12.50 EUR too much", "charged 3 USD too much");
    alike("ids 'a1', 'b2' unknown", "ids 'c3' unknown");
    alike("worker7 died", "worker12 died");
    alike("order 12 failed", "order abc-12 failed");
    alike("hosts db-1.internal:5432 down", "hosts 10.0.0.3:5432 down");
}

#[test]
fn telling_parts_of_dumps_stay() {
    apart("failed: {\"error\":\"invalid_grant\",\"id\":1}", "failed: {\"error\":\"invalid_scope\",\"id\":2}");
    alike(
        "failed: {\"error\":\"invalid_grant\",\"id\":1}",
        "failed: {\"error\":\"invalid_grant\",\"id\":\"x y\"}",
    );
    apart("[{\"code\":\"a\",\"path\":[\"id\"]}]", "[{\"code\":\"a\",\"path\":[\"sku\"]}]");
    alike("cannot insert Order(id=1, tenant=acme)", "cannot insert Order(id=2, tenant=umbrella)");
    apart("Os { code: 2, kind: NotFound }", "Os { code: 13, kind: PermissionDenied }");
}

#[test]
fn names_of_people_and_things_go() {
    alike("delivery to Alice Smith in Berlin Mitte failed", "delivery to Bob Jones in Hamburg Altona failed");
    alike("could not bill customer Alice today", "could not bill customer Bob today");
    apart("the Email field is required", "the Amount field is required");
}

#[test]
fn statements_go() {
    alike("failed: SELECT a FROM b WHERE c = 1", "failed: SELECT x, y FROM b WHERE c = 'z'");
}

#[test]
fn a_status_is_told_by_its_number() {
    alike("HTTP 404 Not Found: {\"code\":\"a_b\"}", "404 Not Found: {\"code\":\"a_b\"}");
    alike("status code 503 (Service Unavailable)", "503 Service Unavailable");
    apart("HTTP 404 Not Found", "HTTP 410 Gone");
    apart(
        "422 Unprocessable Entity: {\"code\":\"iban_invalid\"}",
        "422 Unprocessable Entity: {\"code\":\"limit\"}",
    );
}

#[test]
fn ids_and_codes_without_digits_go() {
    alike("refund rfd_xyuwdkugupet refused", "refund rfd_kwqhzvtrnb refused");
    alike("no stock for BLK-LIN-SD", "no stock for THR-WOL-GR");
    alike("token hqzkwvxjtp is used up", "token vbnqkdfwxz is used up");
    alike("carrier nordpost has no rate", "carrier swift-parcel has no rate");
    alike("unsupported pair EUR/XAU", "unsupported pair USD/BTC");
    alike("cannot parse orders.csv", "cannot parse returns-final.csv");
    alike("failed, HostID: k+z", "failed, HostID: Q/b9");
    alike("read failed (request id: 77-a)", "read failed");
    apart("user not found", "user disabled");
    apart("cache is READ-ONLY", "cache is WRITE-ONLY");
    apart("customer balance too low", "customer limit too low");
    apart("cannot read settings.toml", "cannot read secrets.toml");
}

#[test]
fn names_joined_by_dots_stay() {
    apart(
        "cannot insert NULL into (\"FIN\".\"ENTRIES\".\"PERIOD\")",
        "cannot insert NULL into (\"FIN\".\"ENTRIES\".\"NOTE\")",
    );
    alike("Duplicate entry 'WINTER-1' for key 'code'", "Duplicate entry 'x7' for key 'code'");
    alike("The given key 'DE-BY' was not present", "The given key 'AT-9' was not present");
}

#[test]
fn a_statement_in_brackets_ends_with_them() {
    apart(
        "SQL [insert into a (b) values (?)]; no such table: a",
        "SQL [insert into a (b) values (?)]; disk full",
    );
}
