//! What a plan shows: numbers, destinations, samples, refusals and warnings. Reads only.

use std::collections::BTreeMap;

use lazaret_core::class::Category;
use lazaret_core::duration::Length;
use lazaret_core::gate::{Passed, Shut};
use lazaret_core::header::HeaderValue;
use lazaret_core::id::{IncidentId, LetterId};
use lazaret_core::limits;
use lazaret_core::redaction::Shown;
use lazaret_core::redrive::Outcome;
use lazaret_store::StoreError;
use lazaret_store::redrive::{Group, GroupVerdict, PlanCounts, Redrive};

use super::load::outgoing;
use super::shown::{
    Counted, Destined, IncidentCounted, LanesShown, OlderOutside, Plan, RefusalShown, Sample, ShutShown,
};
use crate::app::App;
use crate::destination::{Route, Way};

/// Looks at what would be sent.
pub(super) async fn preview(
    app: &App,
    redrive: &Redrive,
    groups: &[Group],
    verdicts: &[(u32, GroupVerdict)],
) -> Result<Plan, StoreError> {
    let counts = app.store.plan_counts(redrive.id).await?;
    let judged: Vec<(&Group, &GroupVerdict)> = groups.iter().zip(verdicts.iter().map(|(_, it)| it)).collect();
    let destinations = destinations(app, redrive, &judged, &counts).await?;
    let ms = redrive.options.pace.duration_ms(super::goes(redrive));
    Ok(Plan {
        types: counted(&counts.types),
        queues: counted(&counts.queues),
        lanes: LanesShown {
            total: counts.lanes_total,
            unordered: counts.unordered,
            largest: counted(&counts.lanes),
        },
        older_outside: OlderOutside { count: counts.older_outside, lanes: counts.older_lanes.clone() },
        duration: Length::from_ms(i64::try_from(ms).unwrap_or(i64::MAX)).to_string(),
        samples: samples(app, redrive, &counts).await?,
        refusals: refusals(redrive, &judged),
        incidents: governed(&judged),
        warnings: warnings(&judged, &counts, &destinations),
        destinations,
    })
}

fn counted(values: &[(String, u64)]) -> Vec<Counted> {
    values.iter().map(|(value, count)| Counted { value: value.clone(), count: *count }).collect()
}

/// Where the letters go, by the configured name, and who else gets them.
async fn destinations(
    app: &App,
    redrive: &Redrive,
    judged: &[(&Group, &GroupVerdict)],
    counts: &PlanCounts,
) -> Result<Vec<Destined>, StoreError> {
    let mut letters: BTreeMap<&str, u64> = BTreeMap::new();
    let mut names: BTreeMap<u32, &str> = BTreeMap::new();
    for (group, verdict) in judged {
        let goes = counts.groups.get(&group.number).copied().unwrap_or(0);
        if let GroupVerdict::Goes { destination, .. } = verdict
            && goes > 0
        {
            *letters.entry(destination).or_default() += goes;
            names.insert(group.number, destination);
        }
    }
    let mut routes: BTreeMap<&str, Route> = BTreeMap::new();
    for row in app.store.redrive_letters(redrive.id, None, 0, limits::PAGE_ROWS_MAX).await? {
        let Some(name) = names.get(&row.group).copied() else { continue };
        if !routes.contains_key(name)
            && let Some(route) = route(app, redrive, name, row.letter, row.life).await?
        {
            routes.insert(name, route);
        }
    }
    Ok(letters
        .into_iter()
        .map(|(name, count)| {
            let route = routes.remove(name);
            let (address, also_reaches) = route.map(|it| (it.address, it.also_reaches)).unzip();
            Destined { name: name.to_owned(), address, count, also_reaches: also_reaches.unwrap_or_default() }
        })
        .collect())
}

async fn route(
    app: &App,
    redrive: &Redrive,
    name: &str,
    letter: LetterId,
    life: u32,
) -> Result<Option<Route>, StoreError> {
    let Ok(named) = app.destinations.by_name(name) else { return Ok(None) };
    let destination = match named.way {
        Way::Jobs => return Ok(Some(Route { address: named.name, also_reaches: Vec::new() })),
        Way::Out(destination) => destination,
    };
    let Some(original) = app.store.original(letter, Some(life)).await? else { return Ok(None) };
    let outgoing = outgoing(redrive.id, letter, life, String::new(), &original.envelope);
    // A way that cannot be told now is found out by sending; the plan shows no address for it.
    Ok(destination.route(&outgoing).await.ok())
}

async fn samples(app: &App, redrive: &Redrive, counts: &PlanCounts) -> Result<Vec<Sample>, StoreError> {
    let mut samples = Vec::with_capacity(counts.samples.len());
    for (letter, life) in &counts.samples {
        let Some(history) = app.store.history(*letter).await? else { continue };
        let Some(original) = app.store.original(*letter, Some(*life)).await? else { continue };
        let way = app.destinations.of(&history.letter.source, history.letter.subscriber.as_deref());
        let Ok(named) = way else { continue };
        let key = format!("{letter}:{life}:N");
        let outgoing = outgoing(redrive.id, *letter, *life, key, &original.envelope);
        let sent = match &named.way {
            Way::Jobs => None,
            Way::Out(destination) => destination.headers(&outgoing),
        };
        let (headers_added, headers_left_out) = changed(&outgoing.headers, sent);
        samples.push(Sample {
            letter_id: letter.to_string(),
            life: *life,
            destination: named.address(),
            body: shown(app, &outgoing.content_type, &outgoing.body),
            body_bytes: outgoing.body.len() as u64,
            content_type: outgoing.content_type,
            headers_added,
            headers_left_out,
        });
    }
    Ok(samples)
}

/// Which headers a letter is sent with that it did not come with, and which of its own stay behind.
fn changed(
    original: &[(String, HeaderValue)],
    sent: Option<Vec<(String, String)>>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let Some(sent) = sent else { return Default::default() };
    let mut left_out: Vec<String> = original
        .iter()
        .filter(|(name, _)| !sent.iter().any(|(it, _)| it.eq_ignore_ascii_case(name)))
        .map(|(name, _)| name.chars().take(limits::NAME_BYTES_MAX).collect())
        .collect();
    left_out.sort();
    left_out.dedup();
    left_out.truncate(limits::PLAN_HEADERS_SHOWN);
    let came = |name: &str| original.iter().any(|(it, _)| it.eq_ignore_ascii_case(name));
    let ours = |name: &str| !matches!(name, "content-type" | "content-length") && !came(name);
    let added = sent.into_iter().filter(|(name, _)| ours(name)).collect();
    (added, left_out)
}

/// The beginning of a body with what is hidden masked. What is sent is not.
fn shown(app: &App, content_type: &str, body: &[u8]) -> Option<String> {
    match app.redactor.body(content_type, body) {
        Shown::Whole(bytes) => beginning(bytes),
        Shown::Masked(text) => beginning(text.as_bytes()),
        Shown::Withheld => None,
    }
}

/// The beginning of a text; nothing of what is none.
fn beginning(body: &[u8]) -> Option<String> {
    let cut = &body[..body.len().min(limits::PLAN_SAMPLE_BYTES)];
    match std::str::from_utf8(cut) {
        Ok(text) => Some(text.to_owned()),
        // A character that the cut went through is left out.
        Err(error) if error.error_len().is_none() && cut.len() < body.len() => {
            Some(String::from_utf8_lossy(&cut[..error.valid_up_to()]).into_owned())
        }
        Err(_) => None,
    }
}

fn refusals(redrive: &Redrive, judged: &[(&Group, &GroupVerdict)]) -> Vec<RefusalShown> {
    let mut shown: Vec<RefusalShown> = Vec::new();
    for (group, verdict) in judged {
        let (code, reason, hint) = match verdict {
            GroupVerdict::Goes { .. } => continue,
            GroupVerdict::Shut(shut) => (shut.code(), shut.to_string(), shut.hint()),
            GroupVerdict::NoWayBack(why) => {
                ("no_way_back", why.clone(), "configure the redrive destination of this source")
            }
            GroupVerdict::BodyMissing(why) => (
                "body_missing",
                format!("body missing: {why}"),
                "retry each letter with a new body (`edit`), or discard them",
            ),
        };
        let refusal = match shown.iter_mut().position(|known| known.code == code && known.reason == reason) {
            Some(at) => &mut shown[at],
            None => {
                let (code, hint) = (code.to_owned(), hint.to_owned());
                let reason = reason.clone();
                shown.push(RefusalShown { code, reason, hint, count: 0, incidents: Vec::new() });
                let last = shown.len() - 1;
                &mut shown[last]
            }
        };
        refusal.count += group.letters;
        add_incident(&mut refusal.incidents, group.incident, &reason, group.letters);
    }
    // Nothing was sent yet, so what is blocked is so by the plan.
    let blocked = redrive.letters.get(&Outcome::LaneBlocked).copied().unwrap_or(0);
    if blocked > 0 {
        shown.push(RefusalShown {
            code: Outcome::LaneBlocked.name().to_owned(),
            reason: "an earlier letter with the same order key is blocked".to_owned(),
            hint: "redrive or discard the earlier letters first".to_owned(),
            count: blocked,
            incidents: Vec::new(),
        });
    }
    shown
}

fn add_incident(incidents: &mut Vec<ShutShown>, incident: IncidentId, reason: &str, letters: u64) {
    let id = incident.to_string();
    if let Some(known) = incidents.iter_mut().find(|known| known.id == id) {
        known.count += letters;
    } else if incidents.len() < limits::INCIDENTS_NAMED {
        incidents.push(ShutShown { id, url: url(incident), reason: reason.to_owned(), count: letters });
    }
}

fn url(incident: IncidentId) -> String {
    format!("/api/v1/incidents/{incident}")
}

/// Incidents that move with the run.
fn governed(judged: &[(&Group, &GroupVerdict)]) -> Vec<IncidentCounted> {
    let mut letters: BTreeMap<IncidentId, u64> = BTreeMap::new();
    for (group, verdict) in judged {
        if let GroupVerdict::Goes { passed: Passed::Governed, .. } = verdict {
            *letters.entry(group.incident).or_default() += group.letters;
        }
    }
    let shown = |(id, count): (IncidentId, u64)| IncidentCounted { id: id.to_string(), url: url(id), count };
    letters.into_iter().map(shown).collect()
}

fn warnings(
    judged: &[(&Group, &GroupVerdict)],
    counts: &PlanCounts,
    destinations: &[Destined],
) -> Vec<String> {
    let mut warnings = Vec::new();
    let poison: u64 = judged
        .iter()
        .filter(|(group, verdict)| {
            matches!(verdict, GroupVerdict::Goes { .. })
                && group.cause.analysed.or(group.cause.class) == Some(Category::PoisonPill)
        })
        .map(|(group, _)| group.letters)
        .sum();
    if poison > 0 {
        warnings.push(format!("{poison} letters are expected to fail: {}", Shut::Poison));
    }
    if counts.older_outside > 0 {
        let older = counts.older_outside;
        warnings.push(format!("{older} older letters with the same order keys are not selected"));
    }
    for destined in destinations.iter().filter(|destined| !destined.also_reaches.is_empty()) {
        let (name, others) = (&destined.name, destined.also_reaches.join(", "));
        warnings.push(format!("messages sent to {name} also reach {others} (not failed)"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_sample_names_headers_that_come_and_stay_behind() {
        let original =
            headers(&[("X-Order", "7"), ("Cookie", "secret"), ("cookie", "secret"), ("Host", "a")]);
        let mut original: Vec<_> =
            original.into_iter().map(|(name, value)| (name, HeaderValue::from(value))).collect();
        original.push(("x-death".to_owned(), HeaderValue::Table(Vec::new())));
        let sent = headers(&[("x-order", "7"), ("content-length", "2"), ("lazaret-life", "1")]);
        let (added, left_out) = changed(&original, Some(sent));
        assert_eq!(added, [("lazaret-life".to_owned(), "1".to_owned())].into());
        assert_eq!(left_out, ["Cookie", "Host", "cookie", "x-death"]);
        assert_eq!(changed(&original, None), Default::default());
    }
}
