//! What of the API's shapes holds a stranger's words or values, and is masked before it goes out.
//!
//! A shape that gets a field of that kind gets a line here; the test that walks through all routes with a letter full of
//! secrets finds the ones that were forgotten.

use lazaret_core::limits;
use lazaret_core::redaction::MASK;

use super::archive::ArchiveList;
use super::entry::{AttemptBody, EventBody, GroupingBody, LetterEntry};
use super::hold::HoldRecordBody;
use super::incident::{IncidentBody, IncidentEntry, PartsBody};
use super::record::{FixBody, RcaBody, RecordBody};
use super::redrive::{LetterRedriveBody, RedriveBody, RedriveLetterBody};
use super::{AuditBody, ErrorBody, LetterSummary, OperationBody};
use crate::redaction::Masker;

impl ErrorBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        // A character has up to four bytes, and is not cut.
        let cut = limits::MESSAGE_BYTES_LISTED - 3..=limits::MESSAGE_BYTES_LISTED;
        match cut.contains(&self.message.len()) {
            true => masker.cut(&mut self.message),
            false => masker.text(&mut self.message),
        }
        masker.maybe(&mut self.stack_trace);
        if let Some(context) = &mut self.context {
            masker.json(context);
        }
        masker.fields(&mut self.extra);
    }
}

impl LetterSummary {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        self.error.hide(masker);
        if let Some(hold) = &mut self.hold {
            masker.text(&mut hold.reason);
        }
        if let Some(resolution) = &mut self.resolution {
            masker.maybe(&mut resolution.notes);
        }
    }
}

impl AttemptBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        self.error.hide(masker);
        masker.fields(&mut self.extra);
    }
}

impl EventBody {
    /// Paths of redaction begin at the body, so the payload of a described event is masked by itself.
    fn hide(&mut self, masker: &Masker<'_>) {
        match self {
            EventBody::Verbatim(event) => masker.json(event),
            EventBody::Described(event) => {
                masker.json(&mut event.payload);
                masker.json(&mut event.metadata);
            }
        }
    }
}

impl LetterEntry {
    /// Masks the whole entry, but for its edits, which are compared as they are shown.
    pub fn hide(&mut self, masker: &Masker<'_>) {
        let said = Said::of(&self.summary.error);
        self.summary.hide(masker);
        if let Some(grouping) = &mut self.grouping {
            grouping.hide(&said, &Said::of(&self.summary.error), masker);
        }
        self.original_event.hide(masker);
        masker.headers(&mut self.headers.0);
        self.origin.iter_mut().for_each(|origin| masker.json(origin));
        masker.maybe(&mut self.body_missing);
        for life in &mut self.lives {
            life.origin.iter_mut().for_each(|origin| masker.json(origin));
            masker.maybe(&mut life.body_missing);
        }
        if let Some(reported) = &mut self.reported {
            masker.json(reported);
        }
        self.retry_history.iter_mut().for_each(|attempt| attempt.hide(masker));
        self.decisions.iter_mut().for_each(|decision| masker.maybe(&mut decision.reason));
        self.redrives.iter_mut().for_each(|redrive| redrive.hide(masker));
        self.holds.iter_mut().for_each(|hold| hold.hide(masker));
        if self.edits.iter().any(|edit| edit.redacted) {
            masker.note();
        }
        self.redacted = masker.hid();
    }
}

/// What an error says, whole.
struct Said(String);

impl Said {
    fn of(error: &ErrorBody) -> Said {
        Said(format!("{}\n{}", error.message, error.stack_trace.as_deref().unwrap_or_default()))
    }
}

impl GroupingBody {
    /// A difference is a part of what the error says, cut out of what would tell that it is to be hidden: it goes if the
    /// error does not say it any more.
    fn hide(&mut self, before: &Said, after: &Said, masker: &Masker<'_>) {
        self.parts.hide(masker);
        for difference in &mut self.differences {
            masker.text(&mut difference.common);
            masker.text(&mut difference.here);
            if before.0.contains(&difference.here) && !after.0.contains(&difference.here) {
                difference.here = MASK.to_owned();
            }
        }
    }
}

impl PartsBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.template);
        self.frames.iter_mut().for_each(|frame| masker.text(frame));
    }
}

impl ArchiveList {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        self.items.iter_mut().for_each(|item| item.letter.hide(masker));
    }
}

impl IncidentBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.title);
        masker.text(&mut self.template);
    }
}

impl IncidentEntry {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        self.incident.hide(masker);
        self.record.hide(masker);
        self.fingerprints.iter_mut().for_each(|one| one.parts.hide(masker));
        for similar in &mut self.similar {
            masker.text(&mut similar.title);
            similar.rca.iter_mut().for_each(|rca| rca.hide(masker));
            similar.fix.iter_mut().for_each(|fix| fix.hide(masker));
        }
    }
}

impl RcaBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.root_cause);
        masker.text(&mut self.remediation);
    }
}

impl FixBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.reference);
    }
}

impl RecordBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        self.rca.iter_mut().chain(&mut self.rcas).for_each(|rca| rca.hide(masker));
        self.fix.iter_mut().chain(&mut self.fixes).for_each(|fix| fix.hide(masker));
        self.timeline.iter_mut().for_each(|entry| masker.maybe(&mut entry.text));
        self.redrives.iter_mut().for_each(|redrive| redrive.hide(masker));
    }
}

impl RedriveBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.filter);
        masker.maybe(&mut self.reason);
        masker.maybe(&mut self.why);
        masker.maybe(&mut self.break_glass);
        for sample in self.plan.iter_mut().flat_map(|plan| &mut plan.samples) {
            masker.maybe(&mut sample.body);
        }
    }
}

impl RedriveLetterBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.maybe(&mut self.evidence);
    }
}

impl LetterRedriveBody {
    fn hide(&mut self, masker: &Masker<'_>) {
        masker.maybe(&mut self.evidence);
        masker.maybe(&mut self.reason);
    }
}

impl HoldRecordBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.reason);
        masker.maybe(&mut self.filter);
        masker.maybe(&mut self.release_reason);
    }
}

impl AuditBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.maybe(&mut self.filter);
        masker.maybe(&mut self.reason);
    }
}

impl OperationBody {
    pub fn hide(&mut self, masker: &Masker<'_>) {
        masker.text(&mut self.filter);
        masker.maybe(&mut self.reason);
    }
}
