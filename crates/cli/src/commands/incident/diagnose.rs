//! `lazaret incident diagnose`: the analysis of an incident, by flags, from a file, or in the person's editor.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use lazaret_core::class::Category;
use lazaret_core::id::IncidentId;
use lazaret_core::limits;
use serde_json::json;

use super::form::{self, Blank, Form};
use super::{Step, told};
use crate::answers::incident::{Incident, IncidentRest};
use crate::client::{Client, ClientError};
use crate::failure::{Failure, Outcome};
use crate::output::{Screen, escape, moment};
use crate::{editor, prompt};

pub const EXAMPLES: &str = "\
Examples:
  lazaret incident diagnose 019a8b1c-7e00-7000-8000-000000000001      opens $EDITOR with a form
  lazaret incident diagnose 019a8b1c-7e00-7000-8000-000000000001 --category contract \\
      --cause 'orders of the app have no currency since 4.2' --remedy 'the default is EUR again'
  lazaret incident diagnose 019a8b1c-7e00-7000-8000-000000000001 --file analysis.md
  lazaret incident rca 019a8b1c-7e00-7000-8000-000000000009 | lazaret incident diagnose 019a8b1c-7e00-7000-8000-000000000001 --file -

A file is Markdown with `Category: …`, `## Root cause` and `## Remediation`, or TOML with category, cause and remedy.
Flags override the file. Categories: infrastructure (a dependency was unavailable), contract (message and code do not \
match), business (rejected by a business rule; requires an approver decision), poison_pill (can never succeed).
Each save creates a new revision; earlier revisions are kept.";

#[derive(Args, Debug)]
pub struct DiagnoseArgs {
    /// Incident id
    #[arg(value_parser = IncidentId::parse)]
    id: IncidentId,

    /// RCA category
    #[arg(long, value_parser = Category::ALL.map(Category::name))]
    category: Option<String>,

    /// Root cause
    #[arg(long, value_name = "TEXT")]
    cause: Option<String>,

    /// Remediation (done or planned)
    #[arg(long, value_name = "TEXT")]
    remedy: Option<String>,

    /// Read the RCA from a file, `-` for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

pub async fn run(args: DiagnoseArgs, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let id = args.id.to_string();
    let by_flags = args.category.is_some() || args.cause.is_some() || args.remedy.is_some();
    if args.file.is_none() && !by_flags {
        if !prompt::can_ask() {
            return Err(Failure::misuse("RCA required")
                .hint("pass --category, --cause and --remedy, or --file FILE")
                .into());
        }
        return in_editor(&id, client, screen).await;
    }
    let mut form = match &args.file {
        Some(path) => form::read(&text_of(path)?)?,
        None => Form::default(),
    };
    let flags =
        [(args.category, &mut form.category), (args.cause, &mut form.cause), (args.remedy, &mut form.remedy)];
    for (flag, part) in flags {
        if let Some(text) = flag {
            *part = text;
        }
    }
    send(&id, &check(form)?, client, screen).await
}

/// Opens the editor until the form is taken, given up, or refused for what the form cannot change.
async fn in_editor(id: &str, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let answer = client.get(&["incidents", id], &[]).await?;
    let (incident, rest): (Incident, IncidentRest) = (answer.read()?, answer.read()?);
    let filled = written_before(&rest);
    let mut text = Blank { about: &about(&incident), filled: &filled }.text();
    loop {
        let draft = editor::edit(&text, ".md")?;
        let form = form::read(&draft.text);
        let is_untouched = draft.text == text || form.as_ref().is_ok_and(|form| *form == filled);
        if is_untouched || form.as_ref().is_ok_and(|form| *form == Form::default()) {
            return Err(Failure::failed("form unchanged: nothing was saved").into());
        }
        let trouble = match form.and_then(check) {
            Ok(form) => match send(id, &form, client, screen).await {
                Err(error) if error.downcast_ref::<ClientError>().is_some() => {
                    screen.note(&format!("form saved in {}", draft.keep()?.display()));
                    return Err(error);
                }
                sent => return sent,
            },
            Err(failure) => failure,
        };
        screen.error(&trouble.to_string(), None);
        if !prompt::yes("Open the form again?")? {
            screen.note(&format!("form saved in {}", draft.keep()?.display()));
            return Err(prompt::not_confirmed().into());
        }
        text.clone_from(&draft.text);
    }
}

/// The analysis to begin with: the one that holds, or what the class of the letters says.
fn written_before(rest: &IncidentRest) -> Form {
    match &rest.rca {
        Some(rca) => Form {
            category: rca.category.clone(),
            cause: rca.root_cause.trim().to_owned(),
            remedy: rca.remediation.trim().to_owned(),
        },
        None => Form { category: rest.suggested_category.clone().unwrap_or_default(), ..Form::default() },
    }
}

fn about(incident: &Incident) -> Vec<String> {
    let now = moment::now();
    vec![
        escape::line(&incident.title),
        format!("incident {}", escape::line(&incident.id)),
        escape::line(&format!(
            "{} pending, first seen {}, last seen {}, class {}",
            moment::letters(incident.by_status.pending),
            moment::ago(&incident.first_seen_at, now),
            moment::ago(&incident.last_seen_at, now),
            incident.class,
        )),
    ]
}

/// Tells all that is missing at once, before anything is sent.
fn check(form: Form) -> Result<Form, Failure> {
    let parts = [("category", &form.category), ("cause", &form.cause), ("remedy", &form.remedy)];
    let missing: Vec<&str> =
        parts.iter().filter(|(_, text)| text.trim().is_empty()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        return Err(Failure::misuse(format!("RCA has no {}", missing.join(" and no ")))
            .hint("pass --category, --cause and --remedy; see lazaret incident diagnose --help"));
    }
    if Category::parse(&form.category).is_none() {
        let known = Category::ALL.map(Category::name).join(", ");
        return Err(Failure::misuse(format!("unknown category `{}`", escape::line(&form.category)))
            .hint(format!("categories: {known}")));
    }
    Ok(form)
}

async fn send(id: &str, form: &Form, client: &Client, screen: &mut Screen) -> anyhow::Result<Outcome> {
    let body = json!({ "category": form.category, "rootCause": form.cause, "remediation": form.remedy });
    told(Step { id, what: "rca", past: "diagnosed" }, &body, client, screen).await
}

/// A file or stdin, bounded: an analysis is some pages.
fn text_of(path: &Path) -> anyhow::Result<String> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    let reader: Box<dyn Read> = match path == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(path).with_context(|| format!("cannot open {name}"))?),
    };
    let max = limits::RCA_TEXT_CHARS_MAX as u64 * 8;
    let mut text = String::new();
    reader.take(max).read_to_string(&mut text).with_context(|| format!("cannot read {name}"))?;
    if text.len() as u64 >= max {
        return Err(Failure::misuse(format!("{name} is too long for an RCA")).into());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_missing_is_told_at_once() {
        let form = Form { cause: "x".into(), ..Form::default() };
        assert_eq!(check(form.clone()).unwrap_err().to_string(), "RCA has no category and no remedy");
        let form = Form { category: "weather".into(), remedy: "y".into(), ..form };
        assert_eq!(check(form).unwrap_err().to_string(), "unknown category `weather`");
    }
}
