//! A JSON document whose numbers keep their text, read from a letter without copying what need not be.
//!
//! The reader takes what RFC 8259 allows and nothing else, never recurses deeper than `JSON_DEPTH_MAX`, and gives up
//! on a document with more values than memory should be spent on.

use std::borrow::Cow;

use super::compare::{Look, Node};
use super::escape::escape;
use crate::limits;

/// A value of a document.
#[derive(Clone, Debug)]
pub enum Json<'a> {
    Null,
    Bool(bool),
    /// As it was written.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    Object(Members<'a>),
}

/// The members of an object by name. Of two with the same name the last counts.
#[derive(Clone, Debug)]
pub struct Members<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

/// Why a text was not read as a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotRead {
    #[error("this is not JSON")]
    NotJson,
    /// Whether it is JSON is not known.
    #[error("this is deeper or larger than what is looked into")]
    TooMuch,
}

impl<'a> Json<'a> {
    pub fn read(text: &'a str) -> Result<Json<'a>, NotRead> {
        Json::read_with(text, &mut |_| ())
    }

    /// Reads a document and hands over its names, texts and numbers on the way, in their order.
    pub fn read_with(text: &'a str, found: &mut dyn FnMut(&str)) -> Result<Json<'a>, NotRead> {
        let mut reader = Reader { text, at: 0, values: 0, found };
        reader.spaces();
        let value = reader.value(0)?;
        reader.spaces();
        if reader.at == text.len() { Ok(value) } else { Err(NotRead::NotJson) }
    }

    /// The same value, kept apart from the text it was read from.
    pub fn into_owned(self) -> Json<'static> {
        let text = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        match self {
            Json::Null => Json::Null,
            Json::Bool(truth) => Json::Bool(truth),
            Json::Number(number) => Json::Number(text(number)),
            Json::Text(value) => Json::Text(text(value)),
            Json::List(items) => Json::List(items.into_iter().map(Json::into_owned).collect()),
            Json::Object(Members(members)) => Json::Object(Members(
                members.into_iter().map(|(name, value)| (text(name), value.into_owned())).collect(),
            )),
        }
    }
}

impl<'a> Members<'a> {
    pub fn new(mut members: Vec<(Cow<'a, str>, Json<'a>)>) -> Members<'a> {
        // Sorting is stable, so among equal names the last stays last; reversed, it is the first and survives.
        members.reverse();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|(later, _), (kept, _)| later == kept);
        Members(members)
    }
}

impl Node for Json<'_> {
    fn look(&self) -> Look<'_> {
        match self {
            Json::Null => Look::Null,
            Json::Bool(truth) => Look::Bool(*truth),
            Json::Number(number) => Look::Number(Cow::Borrowed(number)),
            Json::Text(text) => Look::Text(text),
            Json::List(_) => Look::List,
            Json::Object(_) => Look::Object,
        }
    }

    fn items(&self) -> &[Self] {
        if let Json::List(items) = self { items } else { &[] }
    }

    fn size(&self) -> usize {
        match self {
            Json::List(items) => items.len(),
            Json::Object(Members(members)) => members.len(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Text(_) => 0,
        }
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members: &[(Cow<'_, str>, Self)] =
            if let Json::Object(Members(members)) = self { members } else { &[] };
        members.iter().map(|(name, value)| (name.as_ref(), value))
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Json::Object(Members(members)) = self else { return None };
        let at = members.binary_search_by(|(found, _)| found.as_ref().cmp(name)).ok()?;
        members.get(at).map(|(_, value)| value)
    }
}

struct Reader<'a, 'f> {
    text: &'a str,
    at: usize,
    values: usize,
    found: &'f mut dyn FnMut(&str),
}

impl<'a> Reader<'a, '_> {
    fn value(&mut self, depth: usize) -> Result<Json<'a>, NotRead> {
        self.values += 1;
        if self.values > limits::JSON_VALUES_MAX {
            return Err(NotRead::TooMuch);
        }
        match self.peek().ok_or(NotRead::NotJson)? {
            b'{' => self.object(self.deeper(depth)?),
            b'[' => self.list(self.deeper(depth)?),
            b'"' => self.quoted().map(Json::Text),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => Err(NotRead::NotJson),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, NotRead> {
        if depth == limits::JSON_DEPTH_MAX { Err(NotRead::TooMuch) } else { Ok(depth + 1) }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, NotRead> {
        let mut members = Vec::new();
        self.at += 1;
        self.spaces();
        if self.take(b'}') {
            return Ok(Json::Object(Members(members)));
        }
        loop {
            self.spaces();
            if self.peek() != Some(b'"') {
                return Err(NotRead::NotJson);
            }
            let name = self.quoted()?;
            self.spaces();
            self.expect(b':')?;
            self.spaces();
            members.push((name, self.value(depth)?));
            self.spaces();
            if self.take(b'}') {
                return Ok(Json::Object(Members::new(members)));
            }
            self.expect(b',')?;
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, NotRead> {
        let mut items = Vec::new();
        self.at += 1;
        self.spaces();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            self.spaces();
            items.push(self.value(depth)?);
            self.spaces();
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            self.expect(b',')?;
        }
    }

    /// Takes a text in quotes; the next byte is the opening one.
    fn quoted(&mut self) -> Result<Cow<'a, str>, NotRead> {
        self.at += 1;
        let mut text = Cow::Borrowed(self.plain());
        loop {
            if self.take(b'"') {
                (self.found)(&text);
                return Ok(text);
            }
            // Neither quote nor backslash: a control character, or the end.
            self.expect(b'\\')?;
            let escape = escape(&self.text[self.at..], '"').ok_or(NotRead::NotJson)?;
            self.at += escape.bytes;
            let text = text.to_mut();
            // Producers that cut texts leave halves of pairs behind; the rest of the letter is still worth finding.
            text.push(escape.meant.unwrap_or(char::REPLACEMENT_CHARACTER));
            text.push_str(self.plain());
        }
    }

    /// Takes what stands for itself in a quoted text.
    fn plain(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn number(&mut self) -> Result<Json<'a>, NotRead> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        let number = &self.text[start..self.at];
        (self.found)(number);
        Ok(Json::Number(Cow::Borrowed(number)))
    }

    fn digits(&mut self) -> Result<(), NotRead> {
        let rest = &self.text[self.at..];
        let count = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.at += count;
        if count == 0 { Err(NotRead::NotJson) } else { Ok(()) }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, NotRead> {
        if !self.text[self.at..].starts_with(word) {
            return Err(NotRead::NotJson);
        }
        self.at += word.len();
        Ok(value)
    }

    fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), NotRead> {
        if self.take(byte) { Ok(()) } else { Err(NotRead::NotJson) }
    }
}
