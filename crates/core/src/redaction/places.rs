//! Where the values stand in a JSON text that paths select.
//!
//! What a path cannot be asked of within bounds is said to be too much, so that whoever masks can mask all of it.

use std::borrow::Cow;

use super::lexer::Lexer;
use super::unquoted;
use crate::json_path::{Look, Node, Query};
use crate::limits;

/// The text is deeper or larger than what is looked into, or a path takes too long on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooMuch;

/// The places at which selected values begin, in order. A text that is no JSON has none.
pub(super) fn selected(paths: &[Query], text: &str) -> Result<Vec<usize>, TooMuch> {
    let mut reader = Reader { lexer: Lexer { text, at: 0 }, values: 0, shadowed: Vec::new() };
    let Some(root) = reader.document()? else { return Ok(Vec::new()) };
    // A member that a later one of its name stands for is seen by no path, and still there to be read.
    let mut places = reader.shadowed;
    for path in paths {
        let mut note = |node: &Placed<'_>| places.push(node.start);
        path.find(&root, |node, _| {
            note(node);
            Ok(false)
        })
        .map_err(|_| TooMuch)?;
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

/// A value and where it begins.
#[derive(Debug)]
struct Placed<'a> {
    start: usize,
    value: Value<'a>,
}

#[derive(Debug)]
enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Placed<'a>>),
    /// By name, each once.
    Object(Vec<(Cow<'a, str>, Placed<'a>)>),
}

impl Node for Placed<'_> {
    fn look(&self) -> Look<'_> {
        match &self.value {
            Value::Null => Look::Null,
            Value::Bool(truth) => Look::Bool(*truth),
            Value::Number(number) => Look::Number(Cow::Borrowed(number)),
            Value::Text(text) => Look::Text(text),
            Value::List(_) => Look::List,
            Value::Object(_) => Look::Object,
        }
    }

    fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    fn size(&self) -> usize {
        match &self.value {
            Value::List(items) => items.len(),
            Value::Object(members) => members.len(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => 0,
        }
    }

    fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members: &[(Cow<'_, str>, Self)] =
            if let Value::Object(members) = &self.value { members } else { &[] };
        members.iter().map(|(name, value)| (name.as_ref(), value))
    }

    fn member(&self, name: &str) -> Option<&Self> {
        let Value::Object(members) = &self.value else { return None };
        let at = members.binary_search_by(|(found, _)| found.as_ref().cmp(name)).ok()?;
        members.get(at).map(|(_, value)| value)
    }
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    values: usize,
    shadowed: Vec<usize>,
}

/// A value, nothing where there is none, or too much of it.
type Read<T> = Result<Option<T>, TooMuch>;

impl<'a> Reader<'a> {
    fn document(&mut self) -> Read<Placed<'a>> {
        self.lexer.spaces();
        let root = self.value(0)?;
        self.lexer.spaces();
        Ok(root.filter(|_| self.lexer.is_at_end()))
    }

    fn value(&mut self, depth: usize) -> Read<Placed<'a>> {
        self.values += 1;
        if self.values > limits::JSON_VALUES_MAX || depth > limits::JSON_DEPTH_MAX {
            return Err(TooMuch);
        }
        let start = self.lexer.at;
        let value = match self.lexer.peek() {
            Some(b'{') => self.object(depth + 1)?,
            Some(b'[') => self.list(depth + 1)?,
            Some(b'"') => self.lexer.quoted().map(|raw| Value::Text(unquoted(raw))),
            Some(b't' | b'f' | b'n') => self.lexer.word().map(|word| match word {
                "null" => Value::Null,
                word => Value::Bool(word == "true"),
            }),
            Some(_) => self.lexer.number().map(Value::Number),
            None => None,
        };
        Ok(value.map(|value| Placed { start, value }))
    }

    fn list(&mut self, depth: usize) -> Read<Value<'a>> {
        let mut items = Vec::new();
        self.lexer.take(b'[');
        self.lexer.spaces();
        if self.lexer.take(b']') {
            return Ok(Some(Value::List(items)));
        }
        loop {
            self.lexer.spaces();
            let Some(item) = self.value(depth)? else { return Ok(None) };
            items.push(item);
            self.lexer.spaces();
            if self.lexer.take(b']') {
                return Ok(Some(Value::List(items)));
            }
            if !self.lexer.take(b',') {
                return Ok(None);
            }
        }
    }

    fn object(&mut self, depth: usize) -> Read<Value<'a>> {
        let mut members = Vec::new();
        self.lexer.take(b'{');
        self.lexer.spaces();
        if self.lexer.take(b'}') {
            return Ok(Some(Value::Object(members)));
        }
        loop {
            self.lexer.spaces();
            let Some(name) = self.lexer.quoted().map(unquoted) else { return Ok(None) };
            self.lexer.spaces();
            if !self.lexer.take(b':') {
                return Ok(None);
            }
            self.lexer.spaces();
            let Some(value) = self.value(depth)? else { return Ok(None) };
            members.push((name, value));
            self.lexer.spaces();
            if self.lexer.take(b'}') {
                return Ok(Some(Value::Object(self.by_name(members))));
            }
            if !self.lexer.take(b',') {
                return Ok(None);
            }
        }
    }

    /// Sorts members; of several with one name the last counts, and the others are noted.
    fn by_name(&mut self, mut members: Vec<(Cow<'a, str>, Placed<'a>)>) -> Vec<(Cow<'a, str>, Placed<'a>)> {
        members.reverse();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members.dedup_by(|(earlier, value), (kept, _)| {
            let same = earlier == kept;
            if same {
                self.shadowed.push(value.start);
            }
            same
        });
        members
    }
}
