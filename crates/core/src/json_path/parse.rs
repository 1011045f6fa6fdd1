//! Reads queries: segments and selectors. What stands inside of a filter is read beside.

use super::error::{PathError, PathProblem};
use super::escape::escape;
use super::syntax::{Reach, Segment, Selector, Slice};
use crate::limits;

/// The largest whole number that every JSON reader agrees on, which the RFC asks for.
const INTEGER_MAX: i64 = (1 << 53) - 1;

pub(super) const BRACKETS: &str = "brackets";
pub(super) const FILTER: &str = "a filter";
const QUOTES: &str = "quotes";

/// Reads a whole query.
pub(super) fn segments(text: &str) -> Result<Vec<Segment>, PathError> {
    let mut parser = Parser { text, at: 0, descents: 0, nesting: 0, in_filter: false };
    parser.query().map_err(|(at, problem)| PathError { at: text[..at].chars().count() + 1, problem })
}

/// A problem at a byte.
pub(super) type Parsed<T> = Result<T, (usize, PathProblem)>;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// How often `..` was met, filters included.
    descents: usize,
    /// Parentheses and functions that are open.
    pub(super) nesting: usize,
    in_filter: bool,
}

impl Parser<'_> {
    fn query(&mut self) -> Parsed<Vec<Segment>> {
        if self.text.len() > limits::JSON_PATH_BYTES_MAX {
            let at = self.text.floor_char_boundary(limits::JSON_PATH_BYTES_MAX);
            return Err((at, PathProblem::TooLong));
        }
        self.expect('$', "a query", "`$`")?;
        let segments = self.segments()?;
        match self.peek() {
            Some(_) => self.unexpected("a query", "`.`, `[` or the end"),
            None => Ok(segments),
        }
    }

    pub(super) fn segments(&mut self) -> Parsed<Vec<Segment>> {
        let mut segments = Vec::new();
        loop {
            // Spaces that no segment follows belong to whatever comes next.
            let before = self.at;
            self.spaces();
            match self.segment()? {
                Some(segment) => segments.push(segment),
                None => {
                    self.at = before;
                    return Ok(segments);
                }
            }
        }
    }

    fn segment(&mut self) -> Parsed<Option<Segment>> {
        let start = self.at;
        let reach = if self.take("..") {
            self.descents += 1;
            if self.descents > 1 {
                return Err((start, PathProblem::DescendsTwice));
            }
            Reach::Descendant
        } else if self.peek() == Some('[') || self.take(".") {
            Reach::Child
        } else {
            return Ok(None);
        };
        let bracketed = self.peek() == Some('[') && (reach == Reach::Descendant || self.at == start);
        let selectors = if bracketed { self.bracketed()? } else { vec![self.dotted(reach)?] };
        Ok(Some(Segment { reach, selectors }))
    }

    /// What stands behind dots without brackets.
    fn dotted(&mut self, reach: Reach) -> Parsed<Selector> {
        if self.take("*") {
            return Ok(Selector::Any);
        }
        let rest = &self.text[self.at..];
        let first = |c: char| c.is_ascii_alphabetic() || c == '_' || !c.is_ascii();
        if !rest.starts_with(first) {
            let expected = match reach {
                Reach::Child => "a name or `*`",
                Reach::Descendant => "a name, `*` or `[`",
            };
            return self.unexpected("a name", expected);
        }
        let end = rest.find(|c: char| !first(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        Ok(Selector::Name(rest[..end].to_owned()))
    }

    fn bracketed(&mut self) -> Parsed<Vec<Selector>> {
        let mut selectors = Vec::new();
        self.at += 1;
        loop {
            self.spaces();
            selectors.push(self.selector()?);
            self.spaces();
            if self.take("]") {
                return Ok(selectors);
            }
            let (inside, expected) = match selectors.last() {
                Some(Selector::Filter(_)) => (FILTER, "`&&`, `||`, `,` or `]`"),
                _ => (BRACKETS, "`,` or `]`"),
            };
            self.expect(',', inside, expected)?;
        }
    }

    fn selector(&mut self) -> Parsed<Selector> {
        match self.peek() {
            Some('\'' | '"') => Ok(Selector::Name(self.quoted()?)),
            Some('*') => {
                self.at += 1;
                Ok(Selector::Any)
            }
            Some('?') if self.in_filter => Err((self.at, PathProblem::NestedFilter)),
            Some('?') => {
                self.at += 1;
                self.spaces();
                self.in_filter = true;
                let logical = self.any()?;
                self.in_filter = false;
                Ok(Selector::Filter(logical))
            }
            Some('-' | '0'..='9' | ':') => self.index_or_slice(),
            Some(_) | None => {
                self.unexpected(BRACKETS, "a name in quotes, a whole number, a slice, `*` or `?`")
            }
        }
    }

    fn index_or_slice(&mut self) -> Parsed<Selector> {
        let start = self.bound()?;
        let before = self.at;
        self.spaces();
        if !self.take(":") {
            self.at = before;
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => self.unexpected(BRACKETS, "a whole number or `:`"),
            };
        }
        self.spaces();
        let end = self.bound()?;
        self.spaces();
        let mut step = None;
        if self.take(":") {
            self.spaces();
            step = self.bound()?;
        }
        Ok(Selector::Slice(Slice { start, end, step: step.unwrap_or(1) }))
    }

    /// A whole number, if one stands here.
    fn bound(&mut self) -> Parsed<Option<i64>> {
        if !matches!(self.peek(), Some('-' | '0'..='9')) {
            return Ok(None);
        }
        let start = self.at;
        let negative = self.take("-");
        let digits = self.digits();
        let odd = digits.is_empty()
            || (digits.len() > 1 && digits.starts_with('0'))
            || (negative && digits.starts_with('0'));
        match digits.parse::<i64>() {
            Ok(number) if !odd && number <= INTEGER_MAX => Ok(Some(if negative { -number } else { number })),
            Ok(_) | Err(_) => Err((start, PathProblem::BadInteger)),
        }
    }

    /// Takes the digits that stand here, of which there may be none.
    pub(super) fn digits(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Takes a text in quotes; the next character is the opening one.
    pub(super) fn quoted(&mut self) -> Parsed<String> {
        let quote = if self.peek() == Some('"') { '"' } else { '\'' };
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            match self.peek() {
                None => return Err((start, PathProblem::Ends { inside: QUOTES })),
                Some('\\') => {
                    let escape = escape(&self.text[start + 1..], quote);
                    let Some((meant, bytes)) = escape.and_then(|escape| Some((escape.meant?, escape.bytes)))
                    else {
                        return Err((start, PathProblem::BadEscape));
                    };
                    text.push(meant);
                    self.at += 1 + bytes;
                }
                Some('\0'..='\x1f') => return self.unexpected(QUOTES, "a character or an escape"),
                Some(c) => {
                    self.at += c.len_utf8();
                    if c == quote {
                        return Ok(text);
                    }
                    text.push(c);
                }
            }
        }
    }

    pub(super) fn spaces(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\n' | '\r')) {
            self.at += 1;
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let there = self.text[self.at..].starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    pub(super) fn expect(
        &mut self,
        wanted: char,
        inside: &'static str,
        expected: &'static str,
    ) -> Parsed<()> {
        if self.peek() != Some(wanted) {
            return self.unexpected(inside, expected);
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    /// Refuses what stands here, or that nothing does.
    pub(super) fn unexpected<T>(&self, inside: &'static str, expected: &'static str) -> Parsed<T> {
        Err((
            self.at,
            match self.peek() {
                Some(found) => PathProblem::Unexpected { found, expected },
                None if self.in_filter => PathProblem::Ends { inside: FILTER },
                None => PathProblem::Ends { inside },
            },
        ))
    }
}
