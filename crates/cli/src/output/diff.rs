//! Two texts line by line: what went, what came, and a little of what stands around it.

use similar::{ChangeTag, TextDiff};

use super::{Paint, Screen, escape};

/// Lines shown around a change.
const AROUND: usize = 3;

/// The lines that differ, harmless; nothing where there are none. `-` is the old text, `+` the new one.
pub fn diff(old: &str, new: &str, screen: &Screen) -> Vec<String> {
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            lines.push(screen.paint(Paint::Dim, "  …"));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let text = escape::line(change.value().trim_end_matches(['\n', '\r']));
            lines.push(match change.tag() {
                ChangeTag::Equal => format!("  {text}"),
                ChangeTag::Delete => screen.paint(Paint::Red, &format!("- {text}")),
                ChangeTag::Insert => screen.paint(Paint::Green, &format!("+ {text}")),
            });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    fn shown(old: &str, new: &str) -> String {
        diff(old, new, &Screen::new(Format::Text, ColorChoice::Never)).join("\n")
    }

    #[test]
    fn what_changed_is_shown_with_its_neighbours_and_harmless() {
        let old = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n  \"e\": 5\n}";
        let new = old.replace("\"e\": 5", "\"e\": \"\u{1b}[2J\"");
        let expected = [
            "    \"b\": 2,",
            "    \"c\": 3,",
            "    \"d\": 4,",
            "-   \"e\": 5",
            "+   \"e\": \"\\u{1b}[2J\"",
            "  }",
        ];
        assert_eq!(shown(old, &new), expected.join("\n"));
    }

    #[test]
    fn equal_texts_do_not_differ() {
        assert_eq!(shown("a\nb\n", "a\nb\n"), "");
    }
}
