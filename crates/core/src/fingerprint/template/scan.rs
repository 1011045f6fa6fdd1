//! The pass over a message: finds where pieces begin and hands them to those who know their kind.

use super::{Kind, Piece, fragment, quoted, vocabulary, word};
use crate::limits;

/// What the pass has read so far. Pieces lie in order and never overlap.
pub(super) struct Scan<'a> {
    pub source: &'a str,
    pub bytes: &'a [u8],
    pub at: usize,
    pub pieces: Vec<Piece>,
    /// Openings that had no end.
    pub unbalanced: usize,
}

pub(super) fn pieces(source: &str) -> Vec<Piece> {
    let mut scan = Scan { source, bytes: source.as_bytes(), at: 0, pieces: Vec::new(), unbalanced: 0 };
    while scan.at < scan.bytes.len() {
        let before = scan.at;
        scan.step();
        // Whatever a step did not understand is passed over as a whole character.
        if scan.at == before {
            scan.at += 1;
            while !source.is_char_boundary(scan.at) {
                scan.at += 1;
            }
        }
    }
    scan.pieces
}

impl<'a> Scan<'a> {
    fn step(&mut self) {
        match self.bytes[self.at] {
            b'"' | b'\'' | b'`' => quoted::read(self),
            // A tuple of Elixir names its parts by atoms.
            b'{' if self.bytes.get(self.at + 1) == Some(&b':') => self.at += 1,
            b'{' => fragment::read(self),
            b'(' | b'[' if self.begins_statement() => self.skip_rest("<sql>"),
            b'[' if self.after_value_word() => fragment::read(self),
            b'[' if self.source[self.at + 1..].trim_start().starts_with('{') => fragment::read(self),
            b'(' if self.at > 0 && self.bytes[self.at - 1] == b'=' => fragment::read(self),
            b'(' if self.before(1) == "value" && matches!(self.before(0), "is" | "was") => {
                fragment::read(self)
            }
            b'#' if self.bytes.get(self.at + 1) == Some(&b'<') => self.object(),
            // Typographic quotes: `“x”` and `‘x’`.
            0xE2 if self.source[self.at..].starts_with(['\u{201c}', '\u{2018}']) => {
                quoted::read_typographic(self)
            }
            b' ' | b'\n' | b'\t' | b',' | b';' => self.at += 1,
            _ => word::read(self),
        }
    }

    /// `(SQL: insert …)`, `[SQL: …]`, `(Connection: mysql, SQL: …)`: nothing behind it tells the cause.
    fn begins_statement(&self) -> bool {
        let rest = &self.source[self.at + 1..];
        let window = crate::fingerprint::excerpt::beginning(rest, limits::QUOTED_BYTES_MAX);
        // `(java.lang.String and java.lang.Integer are in module java.base of loader 'bootstrap')`.
        let inside = window.split(')').next().unwrap_or(window);
        inside.contains(" in module ")
            || inside.contains(" in unnamed module")
            || ["SQL: ", "SQL:", "Connection: ", "Background on this error", "WHERE ", "parameters: "]
                .iter()
                .any(|start| rest.starts_with(start))
    }

    fn skip_rest(&mut self, placeholder: &'static str) {
        self.push(self.at, self.bytes.len(), Kind::Value(placeholder));
        self.at = self.bytes.len();
    }

    /// The key of a value that goes does not tell anything either.
    pub fn hide_key(&mut self) {
        if let Some(last) = self.pieces.last_mut()
            && last.kind == Kind::Word
        {
            last.kind = Kind::Shown;
        }
    }

    /// `#<Order:0x00007f id: 1>` and `#PID<0.1.2>`: the class stays.
    fn object(&mut self) {
        let start = self.at + 2;
        let end = run(self.bytes, start, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':');
        let class = self.source[start..end].split(":0x").next().unwrap_or("").trim_end_matches(':');
        let close = self.bytes[end..].iter().take(limits::FRAGMENT_BYTES_MAX).position(|byte| *byte == b'>');
        let stop = close.map_or(end, |at| end + at);
        self.push(start, start + class.len(), Kind::Kept);
        self.push(start + class.len(), stop, Kind::Value("<object>"));
        self.at = stop;
    }

    pub fn push(&mut self, start: usize, end: usize, kind: Kind) {
        if end > start {
            self.pieces.push(Piece { start, end, kind });
        }
    }

    /// The last word but `back`, if it is one.
    pub fn before(&self, back: usize) -> &'a str {
        let piece = self.pieces.len().checked_sub(back + 1).and_then(|at| self.pieces.get(at));
        match piece {
            Some(Piece { start, end, kind: Kind::Word | Kind::Kept | Kind::Shown }) => {
                &self.source[*start..*end]
            }
            Some(_) | None => "",
        }
    }

    /// The word behind `from`, `skip` others left out, as far as it stands in the same sentence.
    pub fn after(&self, from: usize, skip: usize) -> &'a str {
        let mut at = from;
        for remaining in (0..=skip).rev() {
            // Whatever the text holds, only a few bytes ahead are looked at.
            let near = &self.bytes[..self.bytes.len().min(at + limits::LOOKAHEAD_BYTES_MAX)];
            let start =
                run(near, at, |byte| matches!(byte, b' ' | b'(' | b'"' | b'\'' | b'`' | b')' | b':' | b'['));
            let end = run(near, start, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if end == start {
                return "";
            }
            if remaining == 0 {
                return &self.source[start..end];
            }
            at = end;
        }
        ""
    }

    /// Whether what begins here is the value of a `key=`.
    pub fn key_of_value(&self, start: usize) -> Option<&'a str> {
        let last = self.pieces.last()?;
        let gap = &self.bytes[last.end..start];
        (gap == b"=" || gap == b"='" || gap == b"=\"").then_some(match last.kind {
            Kind::Word | Kind::Kept | Kind::Shown => &self.source[last.start..last.end],
            Kind::Hint | Kind::Value(_) => "",
        })
    }

    fn after_value_word(&self) -> bool {
        let word = self.before(0);
        [
            "value",
            "was",
            "actual",
            "received",
            "input",
            "values",
            "parameters",
            "row",
            "body",
            "payload",
            "content",
        ]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(word))
            && self
                .pieces
                .last()
                .is_some_and(|last| self.source[last.end..self.at].trim_matches([' ', ':', '=']).is_empty())
    }

    /// Whether the current piece only goes on listing names of parts: `fields 'a', 'b' and 'c'`.
    pub fn continues_names(&self) -> bool {
        let last = self.pieces.len();
        let kept =
            |at: Option<usize>| at.and_then(|at| self.pieces.get(at)).is_some_and(|it| it.kind == Kind::Kept);
        let joined = ["and", "or"].contains(&self.before(0));
        let near = last.checked_sub(1);
        let quoted = |at: Option<usize>| {
            at.and_then(|at| self.pieces.get(at))
                .is_some_and(|it| matches!(self.bytes.get(it.end), Some(b'\'' | b'"' | b'`')))
        };
        if joined {
            let earlier = last.checked_sub(2);
            return kept(earlier) && quoted(earlier);
        }
        kept(near)
            && quoted(near)
            && self.pieces.last().is_some_and(|it| {
                self.source[it.end..self.at].chars().all(|c| matches!(c, ',' | ' ' | '\'' | '"' | '`'))
            })
    }
}

/// The end of the run of bytes from `start` that are all of one kind.
pub(super) fn run(bytes: &[u8], start: usize, is: impl Fn(u8) -> bool) -> usize {
    let mut end = start.min(bytes.len());
    while end < bytes.len() && is(bytes[end]) {
        end += 1;
    }
    end
}

/// Whether a value in `key=value` or behind a naming word is a name rather than a value.
pub(super) fn is_identifier(text: &str) -> bool {
    let name = text.strip_suffix("()").unwrap_or(text);
    let name = name.strip_suffix("[]").unwrap_or(name).trim_start_matches([':', '$', '@']);
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let trailing = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    !name.is_empty()
        && name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && digits == trailing
        && (digits <= 1 || vocabulary::is_technical(name))
        && name.bytes().all(|byte| {
            byte.is_ascii_alphanumeric()
                || matches!(byte, b'_' | b'.' | b'-' | b':' | b'[' | b']' | b'\\' | b'$' | b'#' | b'/')
        })
}
