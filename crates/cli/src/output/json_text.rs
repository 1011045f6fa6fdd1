//! JSON as text, laid out anew without being read as values: numbers, escapes and the order of keys stay exactly as
//! they were written. Reading `12345678901234567890.10` as a number and writing it back would change it.

use super::escape::is_harmful;

/// Deeper levels are not indented further; a letter of ten thousand brackets must not become gigabytes of spaces.
const INDENT_LEVELS_MAX: usize = 40;

/// Valid JSON, indented by two spaces. What could harm a terminal inside strings becomes a `\u` escape, which is the
/// same JSON.
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.trim().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                out.push('"');
                copy_string(&mut rest, &mut out);
            }
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                let close = if c == '{' { '}' } else { ']' };
                if rest.next_if_eq(&close).is_some() {
                    out.push(close);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => push_safe(&mut out, c),
        }
    }
    out
}

/// Valid JSON on one line; harmless as above.
pub fn on_one_line(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json.chars();
    while let Some(c) = rest.next() {
        if c == '"' {
            out.push('"');
            copy_string(&mut rest, &mut out);
        } else if !c.is_ascii_whitespace() {
            push_safe(&mut out, c);
        }
    }
    out
}

/// Copies the rest of a string with its closing quote.
fn copy_string(rest: &mut impl Iterator<Item = char>, out: &mut String) {
    while let Some(c) = rest.next() {
        push_safe(out, c);
        match c {
            '"' => return,
            '\\' => {
                if let Some(escaped) = rest.next() {
                    push_safe(out, escaped);
                }
            }
            _ => {}
        }
    }
}

fn push_safe(out: &mut String, c: char) {
    if is_harmful(c) {
        // All of them lie in the basic plane, so that one escape is enough.
        out.push_str(&format!("\\u{:04x}", u32::from(c)));
    } else {
        out.push(c);
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth.min(INDENT_LEVELS_MAX) {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_escapes_and_order_stay_as_written() {
        let json = r#"{"z":12345678901234567890.10, "a" : [ 1e400,-0.0, "x\"{\\u0041\n" ],"e":{ },"l":[]}"#;
        insta::assert_snapshot!(indented(json), @r#"
        {
          "z": 12345678901234567890.10,
          "a": [
            1e400,
            -0.0,
            "x\"{\\u0041\n"
          ],
          "e": {},
          "l": []
        }
        "#);
    }

    #[test]
    fn laying_out_keeps_the_value() {
        let json = r#" {"a":[1,{"b":"c, d: [e] \\"},null],"":"\u00e9 é"} "#;
        let before: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&indented(json)).unwrap(), before);
        assert_eq!(on_one_line(&indented(json)), r#"{"a":[1,{"b":"c, d: [e] \\"},null],"":"\u00e9 é"}"#);
    }

    #[test]
    fn what_harms_a_terminal_becomes_an_escape_of_the_same_json() {
        let json = "\"a\u{9b}31m\u{202e}\u{7f}\"";
        assert_eq!(indented(json), r#""a\u009b31m\u202e\u007f""#);
        assert_eq!(on_one_line(json), indented(json));
        let value: String = serde_json::from_str(&indented(json)).unwrap();
        assert_eq!(value, "a\u{9b}31m\u{202e}\u{7f}");
    }

    #[test]
    fn deep_json_does_not_grow_by_its_square() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(indented(&deep).len() < 2_000_000);
    }

    #[test]
    fn broken_json_is_shown_and_not_refused() {
        assert_eq!(indented("{\"a"), "{\n  \"a");
        assert_eq!(indented("]"), "\n]");
    }
}
