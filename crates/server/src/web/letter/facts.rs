//! What is known of a letter, line by line.

use lazaret_core::filter::{Filter, Patterns};
use lazaret_core::limits;
use lazaret_core::origin::Origin;

use super::payload::Shown;
use super::room::{Fitted, Room};
use crate::api::wire::entry::LetterEntry;
use crate::web::format::{encoded, size, visible};

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    pub name: &'static str,
    pub value: Fitted,
    /// What a button copies, where copying makes sense.
    pub copy: Option<String>,
    /// Where more of the kind is found.
    pub link: Option<String>,
    /// The value is a time.
    pub is_time: bool,
}

/// Everything that is known and stands nowhere else on the page.
pub(super) fn of(entry: &LetterEntry, shown: &Shown) -> Vec<Fact> {
    let summary = &entry.summary;
    let present = entry.lives.iter().find(|life| life.life == summary.life);
    let mut facts = vec![
        copied("Letter", &summary.id),
        copied("Event", &summary.event_id),
        linked("Type", &summary.letter_type, |letter_type| Filter { letter_type, ..Filter::default() }),
        linked("Queue", &summary.queue, |queue| Filter { queue, ..Filter::default() }),
        linked("Source", &summary.source, |source| Filter { source, ..Filter::default() }),
    ];
    facts.extend(
        summary
            .subscriber_id
            .as_deref()
            .map(|text| linked("Subscriber", text, |subscriber| Filter { subscriber, ..Filter::default() })),
    );
    facts.extend(
        summary
            .tenant_id
            .as_deref()
            .map(|text| linked("Tenant", text, |tenant| Filter { tenant, ..Filter::default() })),
    );
    facts.extend(
        summary
            .aggregate_id
            .as_deref()
            .map(|text| linked("Order key", text, |aggregate| Filter { aggregate, ..Filter::default() })),
    );
    facts.extend(summary.schema_version.as_deref().map(|text| fact("Schema", text)));
    facts.push(Fact { is_time: true, ..fact("Captured", &summary.created_at) });
    facts.push(Fact { is_time: true, ..fact("Died", &summary.died_at) });
    facts.push(fact("Retries", &retries(summary.retry_count, summary.max_retries)));
    if let Some(resolution) = &summary.resolution {
        facts.push(fact(
            "Resolved",
            &format!("{} by {}", resolution.strategy.replace('_', " "), resolution.resolved_by),
        ));
        facts.extend(resolution.notes.as_deref().map(|text| fact("Notes", text)));
    }
    facts.extend(
        summary
            .previous_id
            .as_ref()
            .map(|id| Fact { link: Some(format!("/letters/{id}")), ..fact("Previous letter", id) }),
    );
    facts.push(copied("Fingerprint", &summary.fingerprint));
    let origin = entry.origin.as_ref().and_then(|raw| Origin::from_json(raw.get()).ok());
    facts.extend(origin.iter().flat_map(Origin::shown).map(|(name, value)| copied(name, &value)));
    match &shown.body_missing {
        Some(why) => facts.push(fact("Body", &format!("missing: {why}"))),
        None => {
            facts.push(fact("Body", &format!("{}, {}", size(shown.bytes), shown.content_type)));
            facts.extend(present.map(|life| copied("SHA-256", &life.sha256)));
        }
    }
    facts
}

fn fact(name: &'static str, text: &str) -> Fact {
    let most = limits::WEB_MESSAGE_MARKUP_BYTES / 4;
    Fact { name, value: Room::new(most).fit(text, most), ..Fact::default() }
}

/// With a button that copies it: what holds hidden signs, or is as long as a page, is better not pasted anywhere.
fn copied(name: &'static str, text: &str) -> Fact {
    let is_fit = text.len() <= limits::NAME_BYTES_MAX && visible(text) == text;
    Fact { copy: is_fit.then(|| text.to_owned()), ..fact(name, text) }
}

/// With a link to all letters that have it.
fn linked(name: &'static str, text: &str, filter: impl FnOnce(Patterns) -> Filter) -> Fact {
    let filter = filter(Patterns::only(text)).to_string();
    Fact { link: Some(format!("/letters?q={}", encoded(&filter))), ..fact(name, text) }
}

fn retries(count: u32, max: Option<u32>) -> String {
    match max {
        Some(max) => format!("{count} of {max}"),
        None => count.to_string(),
    }
}
