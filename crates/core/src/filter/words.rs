//! Words: what the text search compares. Stores index exactly what `indexed_text` and `content_words` give, so that
//! all agree.

use std::collections::{BTreeSet, HashSet};

use crate::envelope::Envelope;
use crate::json_path::{Json, NotRead};
use crate::letter::cut;
use crate::limits;

/// The words somebody searches for: normal form, each once, in the order given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words(Vec<String>);

impl Words {
    pub fn of(text: &str) -> Words {
        let mut found = Words::default();
        found.add(text);
        found
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, text: &str) {
        for word in words(text) {
            if !self.0.contains(&word) {
                self.0.push(word);
            }
        }
    }

    /// Whether every one of these begins some indexed word of such a letter.
    pub(super) fn begin_words_of(&self, letter_type: &str, error_type: &str, message: &str) -> bool {
        if self.0.is_empty() {
            return true;
        }
        self.begin_each_a_word(indexed_text(letter_type, error_type, message).split(' '))
    }

    /// Whether every one of these begins some of the words.
    pub(super) fn begin_each_a_word<'a>(&self, words: impl Iterator<Item = &'a str> + Clone) -> bool {
        self.0.iter().all(|wanted| words.clone().any(|word| word.starts_with(wanted.as_str())))
    }
}

/// The words of a text: lower case, split at everything that is neither letter nor digit, cut to what is indexed.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    // Lower case first: the lower case of `İ` holds a mark that is no letter, and a word must stay what it is when it
    // is taken for a text again.
    let mut letters = text.chars().flat_map(char::to_lowercase).peekable();
    std::iter::from_fn(move || {
        while letters.next_if(|c| !c.is_alphanumeric()).is_some() {}
        let mut word = String::new();
        while let Some(letter) = letters.next_if(|c| c.is_alphanumeric()) {
            word.push(letter);
        }
        cut(&mut word, limits::INDEXED_WORD_BYTES_MAX);
        if word.is_empty() { None } else { Some(word) }
    })
}

/// What the text search knows of a letter: its distinct words in their order, between single spaces.
pub fn indexed_text(letter_type: &str, error_type: &str, message: &str) -> String {
    let mut seen = HashSet::new();
    let mut text = String::new();
    for word in [letter_type, error_type, message].into_iter().flat_map(words) {
        if seen.len() == limits::INDEXED_WORDS_MAX {
            break;
        }
        if seen.contains(&word) {
            continue;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(&word);
        seen.insert(word);
    }
    text
}

/// The words that a letter is found by with `body`, each once and sorted: of its header values and of its body.
///
/// Of a JSON body these are the words of all names, texts and numbers, of another text its words, and of bytes that are
/// no text none. Only so many words are taken, and only from so much text, that of the headers first.
pub fn content_words(envelope: &Envelope) -> Vec<String> {
    content_words_and_json(envelope).0
}

/// The same words, and the body as JSON where it is, because it was read for them anyway.
pub(super) fn content_words_and_json(envelope: &Envelope) -> (Vec<String>, Result<Json<'_>, NotRead>) {
    let mut headers = Found::nothing();
    for (_, value) in envelope.headers() {
        value.each_text(&mut |text| headers.add(text));
    }
    let mut body = headers.clone();
    let document = body_json(envelope, &mut |text| body.add(text));
    if document.is_err() {
        // What was found on the way belongs to no document.
        body = headers;
        if let Ok(text) = str::from_utf8(envelope.body()) {
            body.add(text);
        }
    }
    (body.words.into_iter().collect(), document)
}

/// The body as JSON; hands over its names, texts and numbers on the way.
pub(super) fn body_json<'a>(
    envelope: &'a Envelope,
    found: &mut dyn FnMut(&str),
) -> Result<Json<'a>, NotRead> {
    let body = envelope.body();
    if body.len() > limits::JSON_BODY_BYTES_MAX {
        return Err(NotRead::TooMuch);
    }
    Json::read_with(str::from_utf8(body).map_err(|_| NotRead::NotJson)?, found)
}

/// Words of a letter, as many as are looked at, and from as much text.
#[derive(Clone)]
struct Found {
    words: BTreeSet<String>,
    bytes_left: usize,
}

impl Found {
    fn nothing() -> Found {
        Found { words: BTreeSet::new(), bytes_left: limits::CONTENT_TEXT_BYTES_MAX }
    }

    fn add(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(self.bytes_left)];
        self.bytes_left -= text.len();
        for word in words(text) {
            if self.words.len() == limits::CONTENT_WORDS_MAX {
                // Nothing can be added any more, so nothing is read any more.
                self.bytes_left = 0;
                return;
            }
            self.words.insert(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_runs_of_letters_and_digits() {
        let cases = [
            ("Connection REFUSED (os error 111)", "connection refused os error 111"),
            ("Zahlung.zurück-gebucht", "zahlung zurück gebucht"),
            ("App\\Jobs\\SendMail", "app jobs sendmail"),
            ("İstanbul", "i stanbul"),
            ("時間切れ: 30秒", "時間切れ 30秒"),
            ("\0\t--", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text).collect::<Vec<_>>().join(" "), expected, "{text:?}");
        }
    }

    #[test]
    fn a_letter_is_indexed_by_its_first_distinct_words() {
        assert_eq!(
            indexed_text("order.created", "Timeout", "order: timeout after 3s"),
            "order created timeout after 3s"
        );
        assert_eq!(indexed_text("", "", "?!"), "");
        let many: String = (0..1_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(indexed_text("t", "e", &many).split(' ').count(), limits::INDEXED_WORDS_MAX);
    }

    #[test]
    fn a_word_longer_than_the_index_holds_still_finds_its_letter() {
        let long = "é".repeat(100);
        assert!(Words::of(&long).begin_words_of("", "", &long));
        assert!(Words::of(&"é".repeat(40)).begin_words_of("", "", &long));
        assert_eq!(indexed_text("", "", &long).len(), limits::INDEXED_WORD_BYTES_MAX);
        let odd = format!("a{long}");
        assert!(Words::of(&odd).begin_words_of("", "", &odd));
    }

    #[test]
    fn every_word_has_to_begin_a_word() {
        let has =
            |text: &str| Words::of(text).begin_words_of("order.created", "Timeout", "connection refused");
        assert!(has("conn ORDER time"));
        assert!(has("refused connection"));
        assert!(!has("onnection"));
        assert!(!has("connection reset"));
    }
}
