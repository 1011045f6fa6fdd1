//! The analysis as a page shows it: the little Markdown that the document is made of, as HTML.
//!
//! What people wrote stands in the document, so nothing of it may become markup but what is named here: headings, lists,
//! tables, and within a line bold, italics and code.

use super::super::format::{escaped, visible};

/// Headings of the document stand below those of the page.
const DEEPER: usize = 1;

/// The document as HTML in which everything foreign is escaped.
pub(super) fn html(markdown: &str) -> String {
    let mut out = String::new();
    let mut open = Block::None;
    for line in markdown.lines() {
        let line = line.trim_end();
        let kind = Block::of(line);
        if kind != open {
            out.push_str(open.end());
            out.push_str(kind.start());
            open = kind;
        }
        match kind {
            Block::None => out.push_str(&alone(line)),
            Block::List => out.push_str(&format!("<li>{}</li>", inline(line[2..].trim()))),
            Block::Table => out.push_str(&row(line)),
        }
    }
    out.push_str(open.end());
    out
}

/// What lines belong to together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    None,
    List,
    Table,
}

impl Block {
    fn of(line: &str) -> Block {
        match line {
            line if line.starts_with("- ") || line.starts_with("* ") => Block::List,
            line if line.len() > 1 && line.starts_with('|') && line.ends_with('|') => Block::Table,
            _ => Block::None,
        }
    }

    const fn start(self) -> &'static str {
        match self {
            Block::None => "",
            Block::List => "<ul>",
            Block::Table => "<table>",
        }
    }

    const fn end(self) -> &'static str {
        match self {
            Block::None => "",
            Block::List => "</ul>",
            Block::Table => "</table>",
        }
    }
}

/// A heading, a paragraph of one line, or nothing.
fn alone(line: &str) -> String {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    match line[marks..].strip_prefix(' ') {
        Some(title) if (1..=6).contains(&marks) => {
            let level = (marks + DEEPER).min(6);
            format!("<h{level}>{}</h{level}>", inline(title.trim()))
        }
        _ if line.trim().is_empty() => String::new(),
        _ => format!("<p>{}</p>", inline(line)),
    }
}

fn row(line: &str) -> String {
    let cells: Vec<&str> = line[1..line.len() - 1].split('|').map(str::trim).collect();
    let is_rule = |cell: &&str| !cell.is_empty() && cell.bytes().all(|byte| matches!(byte, b'-' | b':'));
    if cells.iter().all(is_rule) {
        return String::new();
    }
    let cells: String = cells.into_iter().map(|cell| format!("<td>{}</td>", inline(cell))).collect();
    format!("<tr>{cells}</tr>")
}

/// Marks within a line, by what stands before and after: the longer first.
const MARKS: [(&str, &str); 3] = [("**", "strong"), ("`", "code"), ("_", "em")];

fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((at, mark, tag)) = first_mark(rest) {
        let inner = &rest[at + mark.len()..];
        let Some(end) = inner.find(mark).filter(|end| *end > 0) else {
            // A mark that nothing ends is a sign like any other.
            out.push_str(&shown(&rest[..at + mark.len()]));
            rest = inner;
            continue;
        };
        out.push_str(&shown(&rest[..at]));
        out.push_str(&format!("<{tag}>{}</{tag}>", shown(&inner[..end])));
        rest = &inner[end + mark.len()..];
    }
    out.push_str(&shown(rest));
    out
}

/// The first mark that begins something: an underscore within a word is part of it.
fn first_mark(text: &str) -> Option<(usize, &'static str, &'static str)> {
    let begins = |at: usize, mark: &str| {
        mark != "_" || !text[..at].ends_with(|sign: char| sign.is_alphanumeric() || sign == '_')
    };
    let places = MARKS.into_iter().flat_map(|(mark, tag)| {
        text.match_indices(mark).find(|(at, _)| begins(*at, mark)).map(|(at, _)| (at, mark, tag))
    });
    places.min_by_key(|(at, mark, _)| (*at, std::cmp::Reverse(mark.len())))
}

fn shown(text: &str) -> String {
    escaped(&visible(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_becomes_a_heading_and_a_list() {
        let text = "## DLE Incident: order.created\n- **Date**: 2026-11-15\n- **Fix Applied**: _not yet_\n\nA `line`.\n";
        assert_eq!(
            html(text),
            "<h3>DLE Incident: order.created</h3><ul><li><strong>Date</strong>: 2026-11-15</li>\
             <li><strong>Fix Applied</strong>: <em>not yet</em></li></ul><p>A <code>line</code>.</p>"
        );
    }

    #[test]
    fn nothing_foreign_becomes_markup() {
        let text = "- **Error**: <script>alert(1)</script> &lt;b> [x](javascript:1) \u{202e}\n<img onerror=x>\n# \"'<i>";
        let shown = html(text);
        assert!(shown.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt;b&gt;"), "{shown}");
        assert!(shown.contains("⟨U+202E⟩") && shown.contains("<p>&lt;img onerror=x&gt;</p>"), "{shown}");
        for tag in ["<script", "<img", "<i>", "<a", "<b>"] {
            assert!(!shown.contains(tag), "{tag} in {shown}");
        }
    }

    #[test]
    fn marks_that_mark_nothing_stay() {
        for text in ["a ** b", "snake_case_name", "`", "____", "2 * 3 * 4", "|", "#no", "**"] {
            let shown = html(text);
            assert!(shown.contains(text), "{text}: {shown}");
        }
        assert_eq!(html("order_id **was_null**"), "<p>order_id <strong>was_null</strong></p>");
    }

    #[test]
    fn a_table_has_rows() {
        let rows = "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td></td></tr></table>";
        assert_eq!(html("| a | b |\n|---|---|\n| 1 | |"), rows);
    }
}
