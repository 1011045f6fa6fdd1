//! The body of a letter in a text field: what stands there, and the body that is meant by what is typed.

use std::sync::Arc;

use lazaret_core::limits;
use lazaret_core::redaction::Draft;
use serde_json::value::RawValue;

use super::super::Found;
use super::super::payload::Hidden;
use super::lines_like;
use crate::api::archive;
use crate::api::fields::bad;
use crate::api::problem::{Code, Problem};
use crate::api::wire::edit::laid_out;
use crate::app::App;
use crate::web::format::escaped;

/// How a body can be changed on a page.
pub(super) enum Field {
    Open(Box<Open>),
    /// Not without changing more than is meant; says why.
    Fixed(String),
}

pub(super) struct Open {
    /// What stands in the field: JSON of one line in lines, and what is hidden by stand-ins.
    text: String,
    original: String,
    draft: Option<Draft>,
}

impl Field {
    pub async fn of(app: &App, found: &Found) -> Result<Field, Problem> {
        let open = match found.shown.hidden {
            Hidden::Nothing => String::from_utf8(found.shown.body.to_vec()).ok().map(|original| Open {
                text: in_lines(&original),
                original,
                draft: None,
            }),
            Hidden::Some => match drafted(app, found).await? {
                Some(open) => Some(open),
                None => return Ok(fixed("Masked body that is not JSON")),
            },
            Hidden::All => None,
        };
        let Some(open) = open else { return Ok(fixed("Binary body")) };
        // Browsers replace these, or make one end of a line of all kinds.
        let is_torn = open.text.contains('\0') || open.text.replace("\r\n", "").contains('\r');
        Ok(match () {
            () if escaped(&open.text).len() > limits::WEB_EDIT_BYTES_MAX => {
                fixed("Body too large for this page")
            }
            () if is_torn => fixed("Body with characters that a text field cannot keep"),
            () => Field::Open(Box::new(open)),
        })
    }

    /// What stands in the field; nothing if there is none.
    pub fn text(&self) -> Option<&str> {
        match self {
            Field::Open(open) => Some(&open.text),
            Field::Fixed(_) => None,
        }
    }

    pub fn why_fixed(&self) -> Option<String> {
        match self {
            Field::Fixed(why) => Some(why.clone()),
            Field::Open(_) => None,
        }
    }

    /// Whether some of it are stand-ins.
    pub fn has_stand_ins(&self) -> bool {
        matches!(self, Field::Open(open) if open.draft.is_some())
    }

    /// What was typed, and the body that is meant by it; nothing if that is the one that it was.
    pub fn changed(&self, typed: &str) -> Result<Option<(String, String)>, Problem> {
        let Field::Open(open) = self else { return Ok(None) };
        let typed = lines_like(typed, &open.text);
        if typed == open.text {
            return Ok(None);
        }
        let meant = match &open.draft {
            None => typed.clone(),
            Some(draft) => draft.fill(&typed).map_err(|why| {
                bad("body", why.to_string()).hint(
                    "keep each ⟦hidden …⟧ placeholder unchanged, with its quotes, under a masked name; or replace it",
                )
            })?,
        };
        // What was one line stays one.
        let meant = if is_one_line(&open.original) { in_one_line(meant) } else { meant };
        Ok(Some((typed, meant)).filter(|(_, meant)| *meant != open.original))
    }
}

/// A shorter text is read at a glance.
const LINE_CHARS: usize = 60;

fn is_one_line(text: &str) -> bool {
    !text.trim().contains('\n') && text.len() > LINE_CHARS && is_json(text)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn in_lines(text: &str) -> String {
    if is_one_line(text) { laid_out(text).trim_end().to_owned() } else { text.to_owned() }
}

/// JSON without the spaces between its parts; anything else as it is.
fn in_one_line(text: String) -> String {
    if !is_json(&text) {
        return text;
    }
    let (mut line, mut in_text, mut escaped) = (String::with_capacity(text.len()), false, false);
    for c in text.chars() {
        if !in_text && c.is_whitespace() {
            continue;
        }
        line.push(c);
        in_text = if in_text { escaped || c != '"' } else { c == '"' };
        escaped = in_text && !escaped && c == '\\';
    }
    line
}

fn fixed(why: &str) -> Field {
    let how = "edit it with `lazaret retry --body FILE` or POST /api/v1/dead-letters/{id}/retry";
    Field::Fixed(format!("{why}: {how}."))
}

async fn drafted(app: &App, found: &Found) -> Result<Option<Open>, Problem> {
    let original = match found.removal {
        None => archive::whole_original(app, found.id, Some(found.entry.summary.life)).await?,
        Some(_) => None,
    };
    let Some(original) = original else { return Ok(None) };
    let redactor = Arc::clone(&app.redactor);
    let drafting = tokio::task::spawn_blocking(move || {
        let original = std::str::from_utf8(original.envelope.body()).ok()?.to_owned();
        let draft = redactor.draft(&original)?;
        let text = if is_one_line(&original) { in_lines(&draft.text) } else { draft.text.clone() };
        Some(Open { text, original, draft: Some(draft) })
    });
    drafting.await.map_err(|_| Problem::new(Code::Internal, "body could not be masked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_becomes_lines_and_one_line_again() {
        let line = r#"{"a":[1.50,{"b":"two words, \"quoted\" \\"}],"c":null,"d":"x y z and a little more to be long"}"#;
        let lines = in_lines(line);
        assert!(lines.lines().count() > 5, "{lines}");
        assert_eq!(in_one_line(lines), line);
        for kept in
            ["[1, 2]", "no json at all, however long it may become in the end, is laid out", "{\n\"a\": 1}"]
        {
            assert_eq!(in_lines(kept), kept);
        }
        assert_eq!(in_one_line("{\"a\": ".into()), "{\"a\": ");
    }
}
