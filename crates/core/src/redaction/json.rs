//! Masks values inside of a JSON text and leaves every other byte as it was written.
//!
//! It never recurses into the text, so that no depth can harm it, and never builds a tree.

use std::borrow::Cow;
use std::ops::Range;

use super::lexer::Lexer;
use super::{Compiled, MASK, card, places, quoted, text, unquoted};
use crate::limits;

/// The text with what is hidden masked; nothing if it is no JSON.
pub(super) fn mask<'a>(rules: &Compiled, text: &'a str, nesting: u32) -> Option<Cow<'a, str>> {
    let cuts = cuts(rules, text, nesting)?;
    if cuts.is_empty() {
        return Some(Cow::Borrowed(text));
    }
    let (mut masked, mut done) = (String::with_capacity(text.len()), 0);
    for Cut { span, with } in cuts {
        masked.push_str(&text[done..span.start]);
        masked.push_str(&with);
        done = span.end;
    }
    masked.push_str(&text[done..]);
    Some(Cow::Owned(masked))
}

const BYTE_ORDER: char = '\u{feff}';

/// A value that is not shown, and the JSON that stands in its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cut {
    pub span: Range<usize>,
    pub with: String,
}

/// Everything that is masked, in order; nothing if the text is no JSON.
pub(super) fn cuts(rules: &Compiled, text: &str, nesting: u32) -> Option<Vec<Cut>> {
    // Some programs begin a text with the mark of its byte order, which is none of JSON's signs.
    if let Some(rest) = text.strip_prefix(BYTE_ORDER) {
        let shifted = |cut: Cut| Cut {
            span: cut.span.start + BYTE_ORDER.len_utf8()..cut.span.end + BYTE_ORDER.len_utf8(),
            with: cut.with,
        };
        return Some(cuts(rules, rest, nesting)?.into_iter().map(shifted).collect());
    }
    let places = match rules.paths.as_slice() {
        [] => Vec::new(),
        paths => match places::selected(paths, text) {
            Ok(places) => places,
            // What a path would have selected is not known: nothing of it is shown.
            Err(places::TooMuch) => return Some(vec![Cut { span: 0..text.len(), with: quoted(MASK) }]),
        },
    };
    let lexer = Lexer { text, at: 0 };
    let mut scan =
        Scan { rules, nesting, places: &places, lexer, levels: Vec::new(), hidden: None, cuts: Vec::new() };
    scan.document()?;
    Some(scan.cuts)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Object,
    List,
}

/// A value that is masked as a whole, while the scan passes through it.
#[derive(Clone, Copy)]
struct Hidden {
    start: usize,
    /// How many levels were open around it.
    depth: usize,
}

struct Scan<'a, 'r> {
    rules: &'r Compiled,
    nesting: u32,
    /// Where values begin that paths select, in order.
    places: &'r [usize],
    lexer: Lexer<'a>,
    levels: Vec<Level>,
    hidden: Option<Hidden>,
    cuts: Vec<Cut>,
}

impl<'a> Scan<'a, '_> {
    fn document(&mut self) -> Option<()> {
        self.lexer.spaces();
        let mut by_key = false;
        loop {
            let taken = self.value(by_key)?;
            match self.next_value(taken)? {
                Next::Member { hides } => by_key = hides,
                Next::Item => by_key = false,
                Next::End => return Some(()),
            }
        }
    }

    /// Takes a value, or the beginning of one that holds others.
    fn value(&mut self, by_key: bool) -> Option<Taken> {
        let start = self.lexer.at;
        let hides = self.hidden.is_none() && (by_key || self.places.binary_search(&start).is_ok());
        match self.lexer.peek()? {
            open @ (b'{' | b'[') => {
                self.lexer.at += 1;
                if hides {
                    self.hidden = Some(Hidden { start, depth: self.levels.len() });
                }
                self.levels.push(if open == b'{' { Level::Object } else { Level::List });
                return Some(Taken::Beginning);
            }
            b'"' => {
                let raw = self.lexer.quoted()?;
                match hides {
                    // An empty text says nothing.
                    true if raw.len() > 2 => self.replace(start, &quoted(MASK)),
                    true => {}
                    false if self.hidden.is_none() => self.text(start, raw),
                    false => {}
                }
            }
            // Neither do these.
            b't' | b'f' | b'n' => drop(self.lexer.word()?),
            _ => {
                let raw = self.lexer.number()?;
                if hides {
                    self.replace(start, &quoted(MASK));
                } else if self.hidden.is_none() && self.rules.card_numbers && is_card(raw) {
                    self.replace(start, &quoted(&card::masked(raw.as_bytes())));
                }
            }
        }
        Some(Taken::Whole)
    }

    /// Goes on to the next value, past what ends before it.
    fn next_value(&mut self, taken: Taken) -> Option<Next> {
        // Behind an opening bracket no comma is due.
        let mut opened = taken == Taken::Beginning;
        loop {
            self.lexer.spaces();
            let Some(level) = self.levels.last().copied() else {
                return self.lexer.is_at_end().then_some(Next::End);
            };
            let closing = if level == Level::Object { b'}' } else { b']' };
            if self.lexer.take(closing) {
                self.levels.pop();
                self.leave();
                opened = false;
                continue;
            }
            if !opened && !self.lexer.take(b',') {
                return None;
            }
            self.lexer.spaces();
            return match level {
                Level::List => Some(Next::Item),
                Level::Object => self.name(),
            };
        }
    }

    /// Takes the name of a member, and says whether it hides what is behind it.
    fn name(&mut self) -> Option<Next> {
        let start = self.lexer.at;
        let name = self.lexer.quoted()?;
        if self.hidden.is_none() && self.rules.card_numbers {
            self.name_of_digits(start, name);
        }
        let hides = self.hidden.is_none() && self.rules.keys.has(&unquoted(name));
        self.lexer.spaces();
        if !self.lexer.take(b':') {
            return None;
        }
        self.lexer.spaces();
        Some(Next::Member { hides })
    }

    /// Masks numbers of cards in a name.
    fn name_of_digits(&mut self, start: usize, name: &str) {
        let digits = name.bytes().filter(u8::is_ascii_digit).count();
        if digits < card::DIGITS_MIN {
            return;
        }
        let meant = unquoted(name);
        let mut spans = Vec::new();
        card::find(&meant, |span, shown| spans.push((span, Cow::Owned(shown))));
        if let Cow::Owned(masked) = text::put(&meant, spans) {
            self.replace(start, &quoted(&masked));
        }
    }

    /// Masks what was hidden, once it is passed.
    fn leave(&mut self) {
        if let Some(hidden) = self.hidden.filter(|hidden| hidden.depth == self.levels.len()) {
            self.hidden = None;
            self.replace(hidden.start, &quoted(MASK));
        }
    }

    /// Masks what a text holds, be it JSON again or words. JSON nested beyond the bound is masked whole.
    fn text(&mut self, start: usize, raw: &'a str) {
        let meant = unquoted(raw);
        let inner = self.nesting + 1;
        let may_be_json = meant.trim_start().starts_with(['{', '[']);
        if may_be_json && inner >= limits::REDACTION_NESTING_MAX && meant.contains('"') {
            return self.replace(start, &quoted(MASK));
        }
        let masked = match may_be_json.then(|| mask(self.rules, &meant, inner)).flatten() {
            Some(masked) => masked,
            None => self.rules.words(&meant),
        };
        if let Cow::Owned(masked) = masked {
            self.replace(start, &quoted(&masked));
        }
    }

    /// Puts a text in the place of what was taken since `start`.
    fn replace(&mut self, start: usize, with: &str) {
        let span = start..self.lexer.at;
        // What is masked already stays as it is.
        if self.lexer.text[span.clone()] != *with {
            self.cuts.push(Cut { span, with: with.to_owned() });
        }
    }
}

/// What was taken of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Whole,
    Beginning,
}

/// What comes behind a value.
enum Next {
    Member { hides: bool },
    Item,
    End,
}

fn is_card(number: &str) -> bool {
    number.bytes().all(|byte| byte.is_ascii_digit()) && card::is_card(number.as_bytes())
}
