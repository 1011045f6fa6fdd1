//! What a filter asks of the inside of a letter, which no column holds: words and JSON paths of body and headers.
//!
//! It reads the envelope and nothing else, and it takes bounded time on whatever a stranger has sent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::Filter;
use super::words::{body_json, content_words_and_json};
use crate::envelope::Envelope;
use crate::json_path::{Json, Members, NotRead};

impl Filter {
    /// Whether the columns of a letter are not enough to tell whether it matches.
    pub fn needs_content(&self) -> bool {
        !self.body.is_empty() || !self.path.is_empty() || !self.header_path.is_empty()
    }

    /// Whether body and headers are what the filter asks for. The other half of `matches`: both have to hold.
    ///
    /// A body that is no JSON is selected by no path. One that is deeper or larger than what is looked into, or on which
    /// a path takes too long, meets neither a path nor its exclusion.
    pub fn matches_content(&self, envelope: &Envelope) -> bool {
        self.header_path_allows(envelope) && self.body_allows(envelope)
    }

    fn header_path_allows(&self, envelope: &Envelope) -> bool {
        self.header_path.is_empty() || self.header_path.allow(&Ok(headers_json(envelope)))
    }

    fn body_allows(&self, envelope: &Envelope) -> bool {
        if self.body.is_empty() {
            return self.path.is_empty() || self.path.allow(&body_json(envelope, &mut |_| ()));
        }
        let (words, document): (Vec<String>, Result<Json<'_>, NotRead>) = content_words_and_json(envelope);
        self.body.begin_each_a_word(words.iter().map(String::as_str)) && self.path.allow(&document)
    }
}

/// An object of the headers as they are spelled: a text each, or a list of texts for a name that stands there again.
fn headers_json(envelope: &Envelope) -> Json<'_> {
    let mut by_name: BTreeMap<&str, Vec<Json<'_>>> = BTreeMap::new();
    for (name, value) in envelope.headers() {
        by_name.entry(name).or_default().push(Json::Text(Cow::Borrowed(value)));
    }
    let members = by_name.into_iter().map(|(name, values)| {
        let value = match <[Json<'_>; 1]>::try_from(values) {
            Ok([only]) => only,
            Err(values) => Json::List(values),
        };
        (Cow::Borrowed(name), value)
    });
    Json::Object(Members::new(members.collect()))
}
