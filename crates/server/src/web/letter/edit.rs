//! A letter changed before it is sent: first what is different, then the sending of exactly that.

mod body;
mod job;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use lazaret_core::header::{HeaderValue, Headers};
use lazaret_core::limits;
use lazaret_store::redrive::Edit;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use self::body::Field;
use super::actions::{Doors, told};
use super::room::{Fitted, Room};
use super::{Asked, Found, filters, find};
use crate::api::fields::bad;
use crate::api::problem::Problem;
use crate::api::retry;
use crate::api::wire::edit::{Bodies, EditBody};
use crate::api::wire::hex;
use crate::app::App;
use crate::destination::JOBS;
use crate::jobs::SOURCE;
use crate::web::form::{self, Form};
use crate::web::format::escaped;
use crate::web::frame::{Page, done};
use crate::web::shell::Shell;
use crate::web::viewer::{Theme, Viewer};

/// An edit that was made, or is about to be.
#[derive(Clone, Debug)]
pub(crate) struct EditRow {
    pub number: u32,
    pub life: u32,
    pub author: String,
    pub reason: Option<String>,
    pub at: String,
    pub destination: Option<String>,
    /// Nothing if the two cannot be compared.
    pub diff: Option<Vec<DiffLine>>,
    pub cut: bool,
    /// Name, what it was, what it is.
    pub headers: Vec<(Fitted, Option<Fitted>, Option<Fitted>)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DiffLine {
    /// in, out, at or same
    pub class: &'static str,
    pub text: String,
}

/// The edits of a letter, the newest first, as far as there is room for their diffs.
pub(super) fn rows(edits: &[EditBody]) -> Vec<EditRow> {
    let mut room = Room::new(limits::WEB_DIFFS_MARKUP_BYTES);
    edits.iter().rev().take(super::ROWS).map(|edit| EditRow::new(edit, &mut room)).collect()
}

impl EditRow {
    fn new(edit: &EditBody, room: &mut Room) -> EditRow {
        let (mut diff, mut cut) = (None, false);
        if let Some(text) = &edit.diff {
            let mut lines = Vec::new();
            // The names of the two sides say nothing here.
            for line in text.lines().skip_while(|line| line.starts_with("---") || line.starts_with("+++")) {
                let fitted = room.fit(line, limits::WEB_HEADER_MARKUP_BYTES);
                cut |= fitted.cut;
                if !room.take(30) {
                    cut = true;
                    break;
                }
                lines.push(DiffLine { class: class(line), text: fitted.text });
            }
            diff = Some(lines);
        }
        let mut headers = Vec::new();
        for (name, [was, is]) in &edit.headers_changed {
            if !room.take(100) {
                cut = true;
                break;
            }
            let mut fit = |text: &String| room.fit(text, limits::WEB_HEADER_MARKUP_BYTES / 4);
            headers.push((fit(name), was.as_ref().map(&mut fit), is.as_ref().map(&mut fit)));
        }
        EditRow {
            number: edit.number,
            life: edit.life,
            author: edit.author.clone(),
            reason: edit.reason.clone(),
            at: edit.at.clone(),
            destination: edit.destination.clone(),
            diff,
            cut,
            headers,
        }
    }
}

fn class(line: &str) -> &'static str {
    match line.as_bytes().first() {
        Some(b'+') => "in",
        Some(b'-') => "out",
        Some(b'@') => "at",
        Some(_) | None => "same",
    }
}

#[derive(Template)]
#[template(path = "letter_edit.html")]
struct EditPage {
    shell: Shell,
    id: String,
    letter_type: String,
    /// Why the body is not to be changed here.
    fixed: Option<String>,
    body: String,
    /// Whether hidden values have stand-ins in the body.
    drafted: bool,
    /// Nothing if it is too long for a text field, or holds what such a field does not keep.
    content_type: Option<String>,
    /// Nothing if they are too many for a text field.
    headers: Option<String>,
    /// Headers that cannot be written in lines.
    typed_headers: usize,
    destinations: Vec<Choice>,
    reason: String,
    break_glass: String,
    doors: Doors,
    preview: Option<EditRow>,
    /// The mark of what is previewed: nothing else is sent.
    seen: String,
}

struct Choice {
    name: String,
    label: String,
    chosen: bool,
}

pub(crate) async fn show(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let found = find(&app, &id, Asked::default()).await?;
    if is_job(&found) {
        return job::show(&app, &viewer, found).await;
    }
    let field = Field::of(&app, &found).await?;
    render(&app, &viewer, (found, field), None, None, None).await
}

/// Shows what is different; sends it once that has been seen.
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    id: Result<Path<String>, PathRejection>,
    form: Form,
) -> Result<Response, Problem> {
    let Path(id) = id?;
    let found = find(&app, &id, Asked::default()).await?;
    if is_job(&found) {
        return job::submit(&app, &viewer, found, &form).await;
    }
    let field = Field::of(&app, &found).await?;
    let wish = match Wish::read(&form, &found, &field) {
        Ok(wish) => wish,
        Err(problem) => return render(&app, &viewer, (found, field), Some(&form), Some(problem), None).await,
    };
    if !form.is_checked("send") || form.get("seen") != wish.mark {
        return render(&app, &viewer, (found, field), Some(&form), None, Some(wish)).await;
    }
    let mut body = form.texts(&["reason", "breakGlass"]);
    body.insert("edit".into(), Value::Object(wish.edit.clone()));
    let (caller, request) = (Extension(viewer.caller.clone()), Extension(viewer.request.clone()));
    let path = Ok(Path(id.clone()));
    match retry::retry(State(Arc::clone(&app)), caller, request, path, Ok(form::body(body))).await {
        Ok((_, _, redrive)) => Ok(done(&format!("/letters/{id}"), told(&redrive))),
        Err(problem) => render(&app, &viewer, (found, field), Some(&form), Some(problem), Some(wish)).await,
    }
}

fn is_job(found: &Found) -> bool {
    found.entry.summary.source == SOURCE
}

/// What is to be changed, as the API reads it, and as it will be.
#[derive(Clone, Debug)]
struct Wish {
    edit: Map<String, Value>,
    body: Vec<u8>,
    content_type: String,
    headers: Headers,
    destination: Option<String>,
    /// Tells whether what is sent is what was seen.
    mark: String,
}

impl Wish {
    /// Compares what was typed with what was shown; only what differs is changed.
    fn read(form: &Form, found: &Found, field: &Field) -> Result<Wish, Problem> {
        let shown = &found.shown;
        let mut edit = Map::new();
        let mut body = shown.body.to_vec();
        let mut meant = None;
        if form.is_checked("body")
            && let Some((typed, filled)) = field.changed(form.get("body"))?
        {
            body = filled.clone().into_bytes();
            meant = Some(filled);
            edit.insert("body".into(), Value::String(typed));
        }
        let mut content_type = shown.content_type.clone();
        if let Some(typed) = form.text("contentType").filter(|typed| *typed != shown.content_type) {
            content_type.clone_from(&typed);
            edit.insert("contentType".into(), Value::String(typed));
        }
        let (texts, typed) = texts_and_typed(&shown.headers);
        let mut headers = match form.is_checked("headers") {
            true => read_headers(form.get("headers"))?,
            false => texts.clone(),
        };
        let changed = changed_headers(&joined(&texts), &joined(&headers));
        let is_replaced = |name: &str| changed.contains_key(&name.to_ascii_lowercase());
        headers.extend(typed.into_iter().filter(|(name, _)| !is_replaced(name)));
        if !changed.is_empty() {
            edit.insert("headers".into(), Value::Object(changed));
        }
        let destination = form.text("destination");
        if let Some(name) = &destination {
            edit.insert("destination".into(), Value::String(name.clone()));
        }
        if edit.is_empty() {
            return Err(bad("edit", "changes nothing").hint("to send the letter unchanged, use Retry letter"));
        }
        // Of what was typed: a digest of hidden values would let them be guessed. They are those of this life.
        let life = found.entry.summary.life;
        let mark = hex(&Sha256::digest(format!("{life} {}", Value::Object(edit.clone()))));
        if let Some(meant) = meant {
            edit.insert("body".into(), Value::String(meant));
        }
        Ok(Wish { edit, body, content_type, headers, destination, mark })
    }

    /// The edit as it will stand in the letter's history.
    fn row(&self, found: &Found, author: &str, app: &App) -> EditRow {
        let summary = &found.entry.summary;
        let edit = Edit {
            number: u32::try_from(found.entry.edits.len()).unwrap_or(u32::MAX).saturating_add(1),
            life: summary.life,
            body: self.body.clone(),
            content_type: self.content_type.clone(),
            headers: self.headers.clone(),
            destination: self.destination.clone(),
            author: author.to_owned(),
            reason: None,
            at: app.clock.now(),
        };
        preview_of(edit, found, app)
    }
}

/// An edit that was not made yet, beside what it changes.
fn preview_of(edit: Edit, found: &Found, app: &App) -> EditRow {
    let body = EditBody::new(edit, Some(&found.shown.envelope()), Bodies::LeftOut, &app.redactor);
    EditRow::new(&body, &mut Room::new(2 * limits::WEB_DIFFS_MARKUP_BYTES))
}

/// Whether a field of one line gives back what was put into it.
fn is_typable(text: &str) -> bool {
    text.len() <= limits::NAME_BYTES_MAX && !text.contains(char::is_control)
}

/// A text field ends every line in two signs, whatever was in it: gives the ends that the original has.
fn lines_like(typed: &str, original: &str) -> String {
    let lines = typed.replace("\r\n", "\n");
    if lines == original.replace("\r\n", "\n") {
        return original.to_owned();
    }
    if original.contains("\r\n") { lines.replace('\n', "\r\n") } else { lines }
}

/// `name: value`, one to a line.
fn read_headers(text: &str) -> Result<Headers, Problem> {
    let mut headers = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':').filter(|(name, _)| !name.trim().is_empty()) else {
            let line = crate::raw_json::shown(line);
            return Err(
                bad("headers", format!("invalid header line `{line}`")).hint("write one as `name: value`")
            );
        };
        headers.push((name.trim().to_owned(), value.trim().into()));
    }
    Ok(headers)
}

/// Headers that can be written in lines, and those of names that have a typed value, which stay as they are.
fn texts_and_typed(headers: &[(String, HeaderValue)]) -> (Headers, Headers) {
    let typed = headers.iter().filter(|(_, value)| value.as_text().is_none());
    let typed: BTreeSet<String> = typed.map(|(name, _)| name.to_ascii_lowercase()).collect();
    headers.iter().cloned().partition(|(name, _)| !typed.contains(&name.to_ascii_lowercase()))
}

/// By their names, whose case does not matter; values of one name stand together.
fn joined(headers: &[(String, HeaderValue)]) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = value.as_text().unwrap_or_default();
        let value = value.split(['\r', '\n']).map(str::trim).collect::<Vec<_>>().join(" ");
        all.entry(name.trim().to_ascii_lowercase())
            .and_modify(|before| before.push_str(&format!(", {value}")))
            .or_insert(value);
    }
    all
}

/// What has to be said to make the one of the other: null takes a header away.
fn changed_headers(was: &BTreeMap<String, String>, is: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = was.keys().filter(|name| !is.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let new = is.iter().filter(|(name, value)| was.get(*name).map(|was| was.trim()) != Some(value.trim()));
    gone.chain(new.map(|(name, value)| (name.clone(), Value::String(value.clone())))).collect()
}

async fn render(
    app: &Arc<App>,
    viewer: &Viewer,
    (found, field): (Found, Field),
    form: Option<&Form>,
    problem: Option<Problem>,
    wish: Option<Wish>,
) -> Result<Response, Problem> {
    let status = problem.as_ref().map_or(StatusCode::OK, Problem::status);
    let shell = Shell::new(app, viewer, "Edit a letter", "/letters").await?.with(problem.as_ref());
    let doors = Doors::of(app, viewer, &found).await?;
    let typed = |name: &str| form.map(|form| form.get(name).to_owned());
    let chosen = typed("destination").unwrap_or_default();
    let (texts, typed_headers) = texts_and_typed(&found.shown.headers);
    let lines: String = texts.iter().map(|(name, value)| format!("{name}: {}\n", value.shown())).collect();
    let is_fit = escaped(&lines).len() <= limits::WEB_EDIT_BYTES_MAX;
    let destinations = app.destinations.names().filter(|name| *name != JOBS).map(|name| Choice {
        label: app.destinations.by_name(name).map_or_else(
            |_| format!("{name} (unavailable)"),
            |named| format!("{name} ({})", named.address()),
        ),
        chosen: name == chosen.as_str(),
        name: name.to_owned(),
    });
    let page = EditPage {
        shell,
        id: found.id.to_string(),
        letter_type: found.entry.summary.letter_type.clone(),
        body: match field.text() {
            None => String::new(),
            Some(original) => typed("body").unwrap_or_else(|| original.to_owned()),
        },
        fixed: field.why_fixed(),
        drafted: field.has_stand_ins(),
        content_type: is_typable(&found.shown.content_type)
            .then(|| typed("contentType").unwrap_or_else(|| found.shown.content_type.clone())),
        headers: is_fit.then(|| typed("headers").unwrap_or(lines)),
        typed_headers: typed_headers.len(),
        destinations: destinations.collect(),
        reason: typed("reason").unwrap_or_default(),
        break_glass: typed("breakGlass").unwrap_or_default(),
        seen: wish.as_ref().map(|wish| wish.mark.clone()).unwrap_or_default(),
        preview: wish.map(|wish| wish.row(&found, &viewer.caller.name, app)),
        doors,
    };
    Ok((status, Page(page)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_field_does_not_change_the_ends_of_lines() {
        assert_eq!(lines_like("a\r\nb", "a\nb"), "a\nb");
        assert_eq!(lines_like("a\r\nc", "a\nb"), "a\nc");
        assert_eq!(lines_like("a\r\nc", "a\r\nb"), "a\r\nc");
        assert_eq!(lines_like("a\r\nb", "a\r\nb"), "a\r\nb");
    }

    #[test]
    fn names_with_a_typed_value_are_not_written_in_lines() {
        let headers = [
            ("a".to_owned(), HeaderValue::from("1")),
            ("B".to_owned(), "2".into()),
            ("b".to_owned(), HeaderValue::Int64(2)),
        ];
        let (texts, typed) = texts_and_typed(&headers);
        assert_eq!((texts.as_slice(), typed.as_slice()), (&headers[..1], &headers[1..]));
    }

    #[test]
    fn only_changed_headers_are_said() {
        let was = [
            ("Trace".into(), "a".into()),
            ("gone".into(), "1".into()),
            ("two".into(), "x".into()),
            ("two".into(), "y".into()),
        ];
        let is = read_headers("trace: b\r\ntwo: x\ntwo: y\n\nnew: a: b\n").unwrap_or_default();
        let changed = changed_headers(&joined(&was), &joined(&is));
        assert_eq!(Value::Object(changed).to_string(), r#"{"gone":null,"new":"a: b","trace":"b"}"#);
        assert!(read_headers("no header").is_err());
        assert!(read_headers(": x").is_err());
    }
}
