//! Every status that a test gets from the API is described in its OpenAPI document.

use std::sync::OnceLock;

use http::{Method, StatusCode};
use serde_json::Value;

/// Fails if a described operation answered with a status that its description does not name.
pub fn check(method: &Method, path: &str, status: StatusCode) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document =
        DOCUMENT.get_or_init(|| serde_json::to_value(lazaret_server::api::openapi::openapi()).unwrap());
    let segments: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| -> Option<usize> {
        let parts: Vec<&str> = template.split('/').collect();
        let same = parts.len() == segments.len()
            && parts.iter().zip(&segments).all(|(part, segment)| part.starts_with('{') || part == segment);
        same.then(|| parts.iter().filter(|part| !part.starts_with('{')).count())
    };
    let method = method.as_str().to_lowercase();
    // Of several templates the one with the most fixed parts is meant.
    let described = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter_map(|(template, operations)| Some((fits(template)?, operations.get(&method)?)));
    let Some((_, operation)) = described.max_by_key(|(fixed, _)| *fixed) else { return };
    let is_described = operation["responses"].get(status.as_str()).is_some();
    assert!(is_described, "{method} {path} answered {status}, which is not described");
}
