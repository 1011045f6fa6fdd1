//! Forms: what a page sends back, believed only if it carries the proof that we made it.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Map, Value};

use super::viewer::csrf;
use crate::api::problem::{Code, Problem};
use crate::app::App;

/// The fields of a form in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// What stands in a field; empty if it is not there.
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// The same without what people type around it; nothing if nothing is left.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(self.get(name).trim()).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn is_checked(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// A whole number; nothing if nothing was typed.
    pub fn count(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // People type 12,431 as they read it.
        let digits: String =
            text.chars().filter(|c| !matches!(c, ',' | '.' | ' ' | '\'' | '\u{a0}')).collect();
        digits.parse().map(Some).map_err(|_| {
            Problem::new(Code::BadRequest, format!("{name} must be an integer")).with("field", name)
        })
    }

    /// The named fields as texts of a JSON object, the empty ones left out: what a handler of the API reads.
    pub fn texts(&self, names: &[&str]) -> Map<String, Value> {
        let field = |name: &&str| self.text(name).map(|text| ((*name).to_owned(), Value::String(text)));
        names.iter().filter_map(field).collect()
    }
}

/// An object as the body of a request.
pub(crate) fn body(object: Map<String, Value>) -> Bytes {
    Bytes::from(Value::Object(object).to_string())
}

impl FromRequest<Arc<App>> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Form, Problem> {
        let (parts, body) = request.into_parts();
        check_type(&parts.headers)?;
        let expected = csrf(&parts);
        let bytes = Bytes::from_request(Request::from_parts(parts, body), app).await?;
        let form = Form(form_urlencoded::parse(&bytes).into_owned().collect());
        if !same(form.get("csrf"), &expected) {
            return Err(Problem::new(Code::Forbidden, "form does not belong to this session")
                .hint("reload the page and submit it again; your input was not saved"));
        }
        Ok(form)
    }
}

/// Forms are sent as forms: anything else was not sent by one of our pages.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    match given.split(';').next().map(str::trim) {
        Some("application/x-www-form-urlencoded") => Ok(()),
        Some(_) | None => {
            Err(Problem::new(Code::UnsupportedMediaType, "this address accepts form submissions only")
                .hint("use the API instead: /api/openapi.json"))
        }
    }
}

/// Compares without telling by the time it takes how much was right.
pub(crate) fn same(given: &str, expected: &str) -> bool {
    let (given, expected) = (given.as_bytes(), expected.as_bytes());
    let differing = given.iter().zip(expected).fold(0, |differing, (a, b)| differing | (a ^ b));
    given.len() == expected.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_the_same_only_if_all_of_it_is() {
        assert!(same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!same(other, "abc"), "{other}");
        }
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let form = Form(vec![("count".into(), " 12,431 ".into()), ("bad".into(), "twelve".into())]);
        assert_eq!(form.count("count").ok(), Some(Some(12_431)));
        assert_eq!(form.count("none").ok(), Some(None));
        assert!(form.count("bad").is_err());
    }
}
