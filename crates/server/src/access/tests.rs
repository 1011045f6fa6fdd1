//! Tests of roles and permissions.

use super::*;

#[test]
fn the_table_in_the_docs_is_this_one() {
    let docs = include_str!("../../../../docs/reference/access.md");
    assert!(docs.contains(&table()), "docs/reference/access.md should hold:\n{}", table());
}

#[test]
fn a_route_is_listed_once() {
    for (at, (method, route, _)) in PERMISSIONS.iter().enumerate() {
        assert!(PERMISSIONS[..at].iter().all(|(m, r, _)| (m, r) != (method, route)), "{method} {route}");
    }
}
