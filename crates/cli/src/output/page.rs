//! A page of text about one thing: labelled fields, headings, and blocks under them.
//!
//! `field` makes its value harmless; whoever calls `plain` or `block` has done that already.

use std::fmt::Write;

use super::table::Table;
use super::{Paint, Screen, escape, fit};

/// How far a block stands from the edge.
pub const INDENT: u16 = 2;

/// What a label takes with the gap behind it.
const LABEL_COLUMNS: usize = 12;

#[derive(Debug)]
pub struct Page<'a> {
    text: String,
    pub screen: &'a Screen,
}

impl<'a> Page<'a> {
    pub fn new(screen: &'a Screen) -> Page<'a> {
        Page { text: String::new(), screen }
    }

    pub fn into_text(self) -> String {
        self.text
    }

    pub fn field(&mut self, label: &str, value: &str) {
        self.plain(label, &escape::line(value));
    }

    pub fn maybe(&mut self, label: &str, value: &Option<String>) {
        if let Some(value) = value {
            self.field(label, value);
        }
    }

    /// A field whose value is harmless already.
    pub fn plain(&mut self, label: &str, value: &str) {
        let label = self.screen.paint(Paint::Dim, &format!("{label:<LABEL_COLUMNS$}"));
        self.push(&format!("{label}{value}"));
    }

    /// A field whose value, harmless already and without colours, goes on in further lines where it does not fit.
    pub fn wrapped(&mut self, label: &str, value: &str) {
        let Some(width) = self.screen.width() else { return self.plain(label, value) };
        let room = usize::from(width).saturating_sub(LABEL_COLUMNS).max(LABEL_COLUMNS);
        for (at, line) in fit::wrapped(value, room).iter().enumerate() {
            self.plain(if at == 0 { label } else { "" }, line);
        }
    }

    pub fn heading(&mut self, title: &str) {
        let title = self.screen.paint(Paint::Bold, title);
        self.push("");
        self.push(&title);
    }

    /// Lines under a heading, harmless already.
    pub fn block(&mut self, text: &str) {
        for line in text.lines() {
            self.push(&format!("{:indent$}{line}", "", indent = usize::from(INDENT)));
        }
    }

    /// A field under a heading.
    pub fn inner_field(&mut self, label: &str, value: &str) {
        let label = self.screen.paint(Paint::Dim, &format!("{label:<LABEL_COLUMNS$}"));
        self.block(&format!("{label}{}", escape::line(value)));
    }

    pub fn table(&mut self, table: &Table) {
        let text = self.screen.inset(table, INDENT);
        self.block(text.trim_end());
    }

    fn push(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }
}
