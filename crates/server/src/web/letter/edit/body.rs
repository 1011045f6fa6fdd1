//! The body of a letter in a text field: what stands there, and the body that is meant by what is typed.

use std::sync::Arc;

use lazaret_core::limits;
use lazaret_core::redaction::Draft;

use super::super::Found;
use super::super::payload::Hidden;
use crate::api::archive;
use crate::api::fields::bad;
use crate::api::problem::{Code, Problem};
use crate::app::App;
use crate::web::format::escaped;

/// How a body can be changed on a page.
pub(super) enum Field {
    /// As it is.
    Plain(String),
    /// With stand-ins for what is hidden.
    Draft(Draft),
    /// Not without changing more than is meant; says why.
    Fixed(String),
}

impl Field {
    pub async fn of(app: &App, found: &Found) -> Result<Field, Problem> {
        let field = match found.shown.hidden {
            Hidden::Nothing => String::from_utf8(found.shown.body.to_vec()).ok().map(Field::Plain),
            Hidden::Some => match draft(app, found).await? {
                Some(draft) => Some(Field::Draft(draft)),
                None => return Ok(fixed("Parts of the body are masked, and it is no JSON")),
            },
            Hidden::All => None,
        };
        let Some(field) = field else { return Ok(fixed("The body is not text")) };
        let text = field.text().unwrap_or_default();
        // Browsers replace these, or make one end of a line of all kinds.
        let is_torn = text.contains('\0') || text.replace("\r\n", "").contains('\r');
        Ok(match () {
            () if escaped(text).len() > limits::WEB_EDIT_BYTES_MAX => {
                fixed("The body is too large for a page")
            }
            () if is_torn => fixed("The body holds signs that a text field does not keep"),
            () => field,
        })
    }

    /// What stands in the field; nothing if there is none.
    pub fn text(&self) -> Option<&str> {
        match self {
            Field::Plain(text) => Some(text),
            Field::Draft(draft) => Some(&draft.text),
            Field::Fixed(_) => None,
        }
    }

    pub fn why_fixed(&self) -> Option<String> {
        match self {
            Field::Fixed(why) => Some(why.clone()),
            Field::Plain(_) | Field::Draft(_) => None,
        }
    }

    /// Whether some of it are stand-ins.
    pub fn has_stand_ins(&self) -> bool {
        matches!(self, Field::Draft(_))
    }

    /// The body that is meant.
    pub fn filled(&self, typed: &str) -> Result<String, Problem> {
        match self {
            Field::Plain(_) | Field::Fixed(_) => Ok(typed.to_owned()),
            Field::Draft(draft) => draft.fill(typed).map_err(|why| {
                bad("body", why.to_string()).hint(
                    "leave each ⟦hidden …⟧ as it is, with its quotes, under a name that hides it too; or put another \
                     value in its place",
                )
            }),
        }
    }
}

fn fixed(why: &str) -> Field {
    let how = "change it with `lazaret retry --body FILE` or POST /api/v1/dead-letters/{id}/retry";
    Field::Fixed(format!("{why}: {how}."))
}

async fn draft(app: &App, found: &Found) -> Result<Option<Draft>, Problem> {
    let original = match found.removal {
        None => archive::whole_original(app, found.id, Some(found.entry.summary.life)).await?,
        Some(_) => None,
    };
    let Some(original) = original else { return Ok(None) };
    let redactor = Arc::clone(&app.redactor);
    let drafting = tokio::task::spawn_blocking(move || {
        std::str::from_utf8(original.envelope.body()).ok().and_then(|text| redactor.draft(text))
    });
    drafting.await.map_err(|_| Problem::new(Code::Internal, "the body could not be masked"))
}
