//! Why letters are one incident, in words; the same for a letter and for an incident.

use crate::answers::incident::{Difference, Parts};
use crate::output::page::Page;
use crate::output::table::{Column, Table};
use crate::output::{escape, moment};

/// Frames shown; the ones nearest the failure come first and are those that count.
const FRAMES_SHOWN: usize = 12;

/// What a fingerprint is made of.
pub fn parts(page: &mut Page<'_>, parts: &Parts) {
    page.inner_field("type", &parts.letter_type);
    page.inner_field("error type", &parts.error_type);
    if let Some(language) = &parts.language {
        page.inner_field("language", language);
    }
    for (at, frame) in parts.frames.iter().take(FRAMES_SHOWN).enumerate() {
        page.inner_field(if at == 0 { "frames" } else { "" }, frame);
    }
    let more = parts.frames.len().saturating_sub(FRAMES_SHOWN);
    if more > 0 {
        page.inner_field("", &format!("… and {} more", moment::count(more as u64)));
    }
    page.inner_field("template", &parts.template);
    match &parts.rule {
        Some(rule) => page.inner_field("rule", rule),
        None => page.inner_field("rule", "none (default grouping)"),
    }
}

/// What this letter has in the places where the letters of its incident differ.
pub fn differences(page: &mut Page<'_>, differences: &[Difference]) {
    if differences.is_empty() {
        page.block("no difference from the incident");
        return;
    }
    let mut table = Table::new(vec![Column::cut("FIELD"), Column::cut("INCIDENT"), Column::cut("LETTER")]);
    for difference in differences {
        table.row(vec![
            difference.part.as_str().into(),
            difference.common.as_str().into(),
            difference.here.as_str().into(),
        ]);
    }
    page.table(&table);
}

/// Commands to go on with, and what each is for.
pub fn next_steps(page: &mut Page<'_>, steps: &[(String, &str)]) {
    page.heading("next steps");
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    for (command, purpose) in steps {
        page.block(&format!("{:<width$}  {purpose}", escape::line(command)));
    }
}
