//! A letter changed before it is sent: what is new, what it was made from, and how the two differ.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazaret_core::limits;
use serde_json::{Map, Value, json};

use crate::editor::{self, Draft};
use crate::failure::Failure;
use crate::output::{Paint, Screen, diff, escape, json_text, moment};

/// What is changed; the rest stays as it was captured.
#[derive(Debug, Default)]
pub struct Edit {
    pub body: Option<NewBody>,
    pub headers: Vec<(String, String)>,
    pub without_headers: Vec<String>,
    pub destination: Option<String>,
}

#[derive(Debug)]
pub struct NewBody {
    captured: Vec<u8>,
    bytes: Vec<u8>,
    /// The file of the editor, so that it can be kept.
    draft: Option<Draft>,
}

impl Edit {
    pub fn json(&self) -> Value {
        let mut edit = json!({});
        if let Some(body) = &self.body {
            match std::str::from_utf8(&body.bytes) {
                Ok(text) => edit["body"] = text.into(),
                Err(_) => edit["bodyBase64"] = STANDARD.encode(&body.bytes).into(),
            }
        }
        let mut headers = Map::new();
        headers.extend(self.without_headers.iter().map(|name| (name.clone(), Value::Null)));
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        if !headers.is_empty() {
            edit["headers"] = Value::Object(headers);
        }
        if let Some(destination) = &self.destination {
            edit["destination"] = destination.as_str().into();
        }
        edit
    }

    /// What differs, in lines that are harmless.
    pub fn differences(&self, screen: &Screen) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(body) = &self.body {
            lines.extend(body.differences(screen));
        }
        let minus = |text: &str| screen.paint(Paint::Red, &format!("- {}", escape::line(text)));
        let plus = |text: &str| screen.paint(Paint::Green, &format!("+ {}", escape::line(text)));
        lines.extend(self.without_headers.iter().map(|name| minus(&format!("header {name}"))));
        lines.extend(self.headers.iter().map(|(name, value)| plus(&format!("header {name}: {value}"))));
        lines.extend(self.destination.iter().map(|name| plus(&format!("to {name}"))));
        lines
    }

    /// Leaves the edited text in its file, if somebody typed one.
    pub fn keep(self) -> Option<PathBuf> {
        self.body?.draft?.keep().ok()
    }
}

impl NewBody {
    fn differences(&self, screen: &Screen) -> Vec<String> {
        let texts = (std::str::from_utf8(&self.captured), std::str::from_utf8(&self.bytes));
        let (Ok(captured), Ok(new)) = texts else {
            let count = |bytes: &[u8]| moment::count(bytes.len() as u64);
            return vec![format!("{} bytes instead of {}", count(&self.bytes), count(&self.captured))];
        };
        diff::diff(&laid_out(captured), &laid_out(new), screen)
    }
}

/// Opens the captured body in the editor. JSON on one line is laid out for reading and joined again.
pub fn in_editor(captured: &[u8]) -> anyhow::Result<NewBody> {
    let Ok(text) = std::str::from_utf8(captured) else {
        return Err(Failure::failed("binary bodies cannot be edited in an editor")
            .hint("pass a file with --body")
            .into());
    };
    let was_json = is_json(text);
    let shown = laid_out(text);
    let draft = editor::edit(&shown, if was_json { ".json" } else { ".txt" })?;
    let edited = as_typed(&draft.text, &shown);
    if edited == shown {
        return Err(Failure::failed("no changes: nothing was sent")
            .hint("remove --edit to send the letter unchanged")
            .into());
    }
    if was_json && !is_json(&edited) {
        let path = draft.keep()?;
        return Err(Failure::failed("edited body is not valid JSON: nothing was sent")
            .hint(format!(
                "saved in {path}; correct it, or send it unchanged with --body {path}",
                path = path.display()
            ))
            .into());
    }
    let is_on_one_line = was_json && !text.trim_end().contains('\n');
    let bytes = if is_on_one_line { json_text::on_one_line(&edited) } else { edited };
    Ok(NewBody { captured: captured.to_vec(), bytes: bytes.into_bytes(), draft: Some(draft) })
}

/// Takes a file, whatever it holds.
pub fn from_file(path: &Path, captured: &[u8]) -> anyhow::Result<NewBody> {
    let (name, reader): (String, Box<dyn Read>) = match path == Path::new("-") {
        true => ("stdin".into(), Box::new(std::io::stdin())),
        false => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).with_context(|| format!("cannot open {name}"))?;
            (name, Box::new(file))
        }
    };
    let max = limits::BODY_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    reader.take(max + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > max {
        let max = moment::count(max);
        return Err(Failure::failed(format!("{name} exceeds the maximum body size of {max} bytes")).into());
    }
    Ok(NewBody { captured: captured.to_vec(), bytes, draft: None })
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

fn laid_out(text: &str) -> String {
    if is_json(text) { json_text::indented(text) } else { text.to_owned() }
}

/// Without the line break that editors put at the end of a file that had none.
fn as_typed(typed: &str, shown: &str) -> String {
    match typed.strip_suffix('\n') {
        Some(without) if !shown.ends_with('\n') => without.to_owned(),
        Some(_) | None => typed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use clap::ColorChoice;

    fn body(captured: &str, new: &[u8]) -> Option<NewBody> {
        Some(NewBody { captured: captured.into(), bytes: new.to_vec(), draft: None })
    }

    #[test]
    fn an_edit_says_what_is_new_and_nothing_else() {
        let edit = Edit {
            body: body("{}", b"{\"a\":1.00}"),
            headers: vec![("X-Tenant".into(), "acme".into())],
            without_headers: vec!["X-Old".into()],
            destination: Some("billing/ledger".into()),
        };
        let expected = json!({
            "body": "{\"a\":1.00}", "headers": {"X-Old": null, "X-Tenant": "acme"}, "destination": "billing/ledger",
        });
        assert_eq!(edit.json(), expected);
        assert_eq!(
            Edit { body: body("{}", b"\xff"), ..Edit::default() }.json(),
            json!({ "bodyBase64": "/w==" })
        );
        assert_eq!(Edit::default().json(), json!({}));
    }

    #[test]
    fn differences_are_shown_line_by_line() {
        let screen = Screen::new(Format::Text, ColorChoice::Never);
        let edit = Edit {
            body: body(r#"{"a":1,"b":2}"#, br#"{"a":1,"b":3}"#),
            headers: vec![("X-Tenant".into(), "a\u{1b}[2J".into())],
            ..Edit::default()
        };
        insta::assert_snapshot!(edit.differences(&screen).join("\n"), @r#"
          {
            "a": 1,
        -   "b": 2
        +   "b": 3
          }
        + header X-Tenant: a\u{1b}[2J
        "#);
        let binary = Edit { body: body("{}", b"\xff\xfe"), ..Edit::default() };
        assert_eq!(binary.differences(&screen), ["2 bytes instead of 2"]);
    }

    #[test]
    fn the_line_break_of_an_editor_is_no_change() {
        assert_eq!(as_typed("{}\n", "{}"), "{}");
        assert_eq!(as_typed("a\n", "a\n"), "a\n");
        assert_eq!(as_typed("a\n\n", "a"), "a\n");
    }
}
