//! The form of an analysis, as it is typed in an editor or kept in a file: Markdown with three headings, or TOML.
//!
//! Reading is forgiving about marks and strict about what is missing; what it means is decided by the server.

use lazaret_core::class::Category;
use serde::Deserialize;

use crate::failure::Failure;

/// What a form says; what it leaves empty is empty.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Form {
    pub category: String,
    pub cause: String,
    pub remedy: String,
}

/// What a blank form tells the person who fills it in.
#[derive(Debug)]
pub struct Blank<'a> {
    /// Lines about the incident, harmless already.
    pub about: &'a [String],
    /// What was written before, or what the class of the letters suggests.
    pub filled: &'a Form,
}

impl Blank<'_> {
    pub fn text(&self) -> String {
        let mut text = String::from("<!--\n");
        for line in self.about {
            // The end of a comment inside of it would put the rest into the form.
            text.push_str(&format!("  {}\n", line.replace("-->", "- ->")));
        }
        let categories = Category::ALL.map(Category::name).join(", ");
        text.push_str(&format!(
            "\n  Fill in the three sections. Save an empty form, or quit without saving, to cancel.\n  \
             Categories: {categories}\n-->\n\n"
        ));
        let Form { category, cause, remedy } = self.filled;
        text.push_str(&format!(
            "Category: {category}\n\n## Root cause\n\n{cause}\n\n## Remediation\n\n{remedy}\n"
        ));
        text
    }
}

/// Reads a form. What parses as TOML with one of our keys is TOML; everything else is taken for Markdown.
pub fn read(text: &str) -> Result<Form, Failure> {
    match toml::from_str::<toml::Table>(text) {
        Ok(table) if !table.is_empty() => of_toml(table),
        Ok(_) | Err(_) => of_markdown(text),
    }
}

fn of_toml(table: toml::Table) -> Result<Form, Failure> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Keys {
        #[serde(default)]
        category: String,
        #[serde(default, alias = "root_cause", alias = "rootCause")]
        cause: String,
        #[serde(default, alias = "remediation")]
        remedy: String,
    }
    let keys: Keys = table.try_into().map_err(|error: toml::de::Error| {
        Failure::misuse(format!("cannot read the form: {}", error.message()))
            .hint("keys: category, cause, remedy")
    })?;
    let trimmed = |text: String| text.trim().to_owned();
    Ok(Form { category: trimmed(keys.category), cause: trimmed(keys.cause), remedy: trimmed(keys.remedy) })
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Category,
    Cause,
    Remedy,
}

fn of_markdown(text: &str) -> Result<Form, Failure> {
    let text = without_comments(text);
    let mut form = Form::default();
    let mut part = None;
    let mut seen = Vec::new();
    for line in text.lines() {
        let rest = match heading(line) {
            Some((found, rest)) => {
                if seen.contains(&found) {
                    return Err(Failure::misuse(format!("the form has two sections `{}`", name(found))));
                }
                seen.push(found);
                part = Some(found);
                rest
            }
            None => line,
        };
        let target = match part {
            Some(Part::Category) => &mut form.category,
            Some(Part::Cause) => &mut form.cause,
            Some(Part::Remedy) => &mut form.remedy,
            None if rest.trim().is_empty() => continue,
            None => {
                return Err(Failure::misuse("cannot read the form: text before the first section")
                    .hint("sections: `Category: …`, `## Root cause` and `## Remediation`; or TOML with category, cause, remedy"));
            }
        };
        target.push_str(rest);
        target.push('\n');
    }
    for text in [&mut form.category, &mut form.cause, &mut form.remedy] {
        *text = text.trim().to_owned();
    }
    Ok(form)
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

/// The part that a line begins, and what stands behind its name. Marks of headings, lists and bold type are no part of
/// the name, so that the document of an earlier incident can be filled in anew.
fn heading(line: &str) -> Option<(Part, &str)> {
    let bare = line.trim_start_matches(['#', '-', '*', ' ']);
    let is_marked = bare.len() < line.len();
    let names = [
        ("category", Part::Category),
        ("root cause", Part::Cause),
        ("cause", Part::Cause),
        ("remediation", Part::Remedy),
        ("remedy", Part::Remedy),
    ];
    for (name, part) in names {
        let Some(start) = bare.get(..name.len()) else { continue };
        if !start.eq_ignore_ascii_case(name) {
            continue;
        }
        let rest = bare[name.len()..].trim_start_matches('*');
        if let Some(rest) = rest.strip_prefix(':') {
            return Some((part, rest.trim_start_matches('*').trim_start()));
        }
        if rest.trim().is_empty() && is_marked {
            return Some((part, ""));
        }
    }
    None
}

const fn name(part: Part) -> &'static str {
    match part {
        Part::Category => "Category",
        Part::Cause => "Root cause",
        Part::Remedy => "Remediation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(category: &str, cause: &str, remedy: &str) -> Form {
        Form { category: category.into(), cause: cause.into(), remedy: remedy.into() }
    }

    #[test]
    fn a_blank_form_reads_as_what_was_filled_in() {
        for filled in [
            form("contract", "the field `currency`\nis missing", "ask for it\n\n- deploy\n- look"),
            Form::default(),
        ] {
            let about = ["incident --> 7".to_owned(), "Category: none of this".to_owned()];
            assert_eq!(read(&Blank { about: &about, filled: &filled }.text()).unwrap(), filled);
        }
    }

    #[test]
    fn toml_and_the_document_of_the_rule_are_forms_too() {
        let expected = form("contract", "field missing", "added it");
        let texts = [
            "category = \"contract\"\ncause = \"field missing\"\nremedy = \"added it\"\n",
            "# mine\ncategory = 'contract'\nroot_cause = '''\nfield missing\n'''\nremediation = 'added it'",
            "- **Category**: contract\n- **Root Cause**: field missing\n- **Remediation**: added it\n",
            "CATEGORY: contract\nCause: field missing\nRemedy: added it",
            "# Category\ncontract\n# Root cause\n\nfield missing\n\n# Remedy\nadded it",
        ];
        for text in texts {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_form_is_said() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("colour = 'red'").contains("colour"), "{}", error("colour = 'red'"));
        assert!(error("it broke\nCategory: contract").contains("before the first section"));
        assert!(error("Cause: a\nCause: b").contains("two sections `Root cause`"));
        assert_eq!(read("\n<!-- nothing -->\n").unwrap(), Form::default());
        // A word that only begins like a part, or stands without a mark, is text.
        let text = "Cause: a\nremedy\ncauses: b";
        assert_eq!(read(text).unwrap().cause, "a\nremedy\ncauses: b");
    }
}
