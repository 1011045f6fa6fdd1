//! The tokens of JSON as they are written, checked as RFC 8259 has them.

/// A place in a text.
#[derive(Debug)]
pub(super) struct Lexer<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Lexer<'a> {
    pub fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    pub fn spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Takes a text with its quotes. What its escapes mean is not looked at, but that they are such.
    pub fn quoted(&mut self) -> Option<&'a str> {
        let start = self.at;
        if !self.take(b'"') {
            return None;
        }
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at..];
            self.at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
            match bytes[self.at] {
                b'"' => {
                    self.at += 1;
                    return Some(&self.text[start..self.at]);
                }
                b'\\' => self.at += 1 + escape_bytes(&bytes[self.at + 1..])?,
                _ => return None,
            }
        }
    }

    pub fn number(&mut self) -> Option<&'a str> {
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
        Some(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Takes `true`, `false` or `null`.
    pub fn word(&mut self) -> Option<&'a str> {
        let rest = &self.text.as_bytes()[self.at..];
        let word = ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word.as_bytes()))?;
        self.at += word.len();
        Some(word)
    }
}

/// The length of an escape behind its backslash.
fn escape_bytes(rest: &[u8]) -> Option<usize> {
    match rest.first()? {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(1),
        b'u' if rest.get(1..5)?.iter().all(u8::is_ascii_hexdigit) => Some(5),
        _ => None,
    }
}
