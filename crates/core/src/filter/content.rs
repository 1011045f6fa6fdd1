//! What a filter asks of the inside of a letter, which no column holds: words, texts and JSON paths of body and headers.
//!
//! It reads the envelope and nothing else, and it takes bounded time on whatever a stranger has sent.

use super::Filter;
use super::words::{body_json, content_words_and_json};
use crate::envelope::Envelope;
use crate::header::headers_document;
use crate::json_path::{Json, NotRead};

impl Filter {
    /// Whether the columns of a letter are not enough to tell whether it matches.
    pub fn needs_content(&self) -> bool {
        !self.body.is_empty()
            || !self.contains.is_empty()
            || !self.path.is_empty()
            || !self.header_path.is_empty()
    }

    /// Whether body and headers are what the filter asks for. The other half of `matches`: both have to hold.
    ///
    /// A body that is no JSON is selected by no path. One that is deeper or larger than what is looked into, or on which
    /// a path takes too long, meets neither a path nor its exclusion.
    pub fn matches_content(&self, envelope: &Envelope) -> bool {
        self.header_path_allows(envelope) && self.is_contained(envelope) && self.body_allows(envelope)
    }

    fn header_path_allows(&self, envelope: &Envelope) -> bool {
        self.header_path.is_empty() || self.header_path.allow(&Ok(headers_document(envelope.headers())))
    }

    /// Whether every text is in the body, or in one of the names, texts and numbers of a JSON body, whose characters may
    /// be written as escapes. Bytes that are no text hold none.
    fn is_contained(&self, envelope: &Envelope) -> bool {
        if self.contains.is_empty() {
            return true;
        }
        let Ok(body) = str::from_utf8(envelope.body()) else { return false };
        let mut missing: Vec<&str> =
            self.contains.iter().map(String::as_str).filter(|part| !body.contains(part)).collect();
        if !missing.is_empty() && body.contains('\\') {
            let found = &mut |text: &str| missing.retain(|part| !text.contains(part));
            if body_json(envelope, found).is_err() {
                // What was found on the way belongs to no document.
                return false;
            }
        }
        missing.is_empty()
    }

    fn body_allows(&self, envelope: &Envelope) -> bool {
        if self.body.is_empty() {
            return self.path.is_empty() || self.path.allow(&body_json(envelope, &mut |_| ()));
        }
        let (words, document): (Vec<String>, Result<Json<'_>, NotRead>) = content_words_and_json(envelope);
        self.body.begin_each_a_word(words.iter().map(String::as_str)) && self.path.allow(&document)
    }
}
