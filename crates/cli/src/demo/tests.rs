//! The picture that the demo promises: counts, shares, order, and that everything it hands out is what a real report
//! could have been.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lazaret_core::class::ClassRules;
use lazaret_core::fingerprint::FingerprintRules;
use lazaret_core::letter::{Admitted, Captured, admit};
use lazaret_core::lifecycle::{Action, Next, Standing, Status};
use lazaret_core::time::Time;
use lazaret_store::decision::Verb;
use serde_json::Value;

use super::calendar::{DAY, HISTORY, HOUR, MINUTE};
use super::programs::{BAD_DEPLOY_AGO, ROLLBACK_AGO};
use super::story::{DATABASE_AWAY, GATEWAY_AWAY};
use super::{Demo, Moment, What};

fn until() -> Time {
    Time::parse("2026-11-15T09:30:00Z").unwrap()
}

fn history(seed: u64) -> Vec<Moment> {
    Demo::new(seed).history(until())
}

fn live(seed: u64, minutes: i64) -> Vec<Moment> {
    let mut demo = Demo::new(seed);
    demo.history(until());
    demo.live(until()).take_while(|moment| moment.at.since(until()) < minutes * MINUTE).collect()
}

fn deaths(moments: &[Moment]) -> Vec<&Captured> {
    let mut deaths = Vec::new();
    for moment in moments {
        match &moment.what {
            What::Death(captured) => deaths.push(captured.as_ref()),
            What::Decision { .. } => {}
        }
    }
    deaths
}

fn admitted(captured: &Captured) -> Admitted {
    let now = captured.died_at.unwrap();
    let (classes, groups) = (ClassRules::default(), FingerprintRules::default());
    admit(captured.clone(), now, [[1; 10], [2; 10]], &classes, &groups)
}

/// Deaths within so long a time, counted from so long ago.
fn died_within(moments: &[Moment], (ago, length): (i64, i64)) -> usize {
    let from = until().plus_ms(-ago);
    deaths(moments).iter().filter(|death| (0..length).contains(&death.died_at.unwrap().since(from))).count()
}

/// Follows every letter through the machine; a decision that the machine refuses fails the test.
fn standings(moments: &[Moment]) -> HashMap<String, Standing> {
    let mut letters: HashMap<String, Standing> = HashMap::new();
    let after = |standing: Standing, action: Action| match standing.after(action) {
        Ok(Next::Moves { status, place, .. }) => Standing { status, place, ..standing },
        Ok(Next::NewLetter) => panic!("no letter of the demo is deleted"),
        Err(refused) => panic!("{refused}"),
    };
    for moment in moments {
        match &moment.what {
            What::Death(captured) => {
                let known = letters.get(&captured.message_id).copied();
                let next =
                    known.map_or(Standing::live(Status::Pending), |known| after(known, Action::DieAgain));
                letters.insert(captured.message_id.clone(), next);
            }
            What::Decision { verb, event_ids, by, reason } => {
                assert!(!event_ids.is_empty() && !by.is_empty() && !reason.is_empty());
                for id in event_ids {
                    let known = *letters.get(id).expect("a decision is about letters that died before");
                    let mut next = after(known, verb.action());
                    match verb {
                        Verb::Hold => next.held = true,
                        Verb::Release => next.held = false,
                        Verb::Resolve
                        | Verb::Discard
                        | Verb::Reopen
                        | Verb::Retry
                        | Verb::Delete
                        | Verb::Restore => {}
                    }
                    letters.insert(id.clone(), next);
                }
            }
        }
    }
    letters
}

#[test]
fn the_same_seed_tells_the_same_story_and_another_seed_another() {
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
    assert_eq!(live(1, 20), live(1, 20));
    assert_ne!(live(1, 20), live(2, 20));
}

#[test]
fn the_history_is_ordered_and_fills_fourteen_days() {
    for seed in 0..3 {
        let moments = history(seed);
        assert!(moments.is_sorted_by_key(|moment| moment.at));
        let (first, last) = (moments.first().unwrap().at, moments.last().unwrap().at);
        assert!(until().plus_ms(-HISTORY) <= first && last <= until());
        for moment in &moments {
            if let What::Death(captured) = &moment.what {
                assert_eq!(captured.died_at, Some(moment.at));
            }
        }
        assert!(last.since(first) > 13 * DAY + 12 * HOUR);
        assert!((3_000..=5_000).contains(&deaths(&moments).len()), "{}", deaths(&moments).len());
    }
}

#[test]
fn there_are_many_causes_in_six_languages_and_of_most_classes() {
    let moments = history(7);
    let deaths = deaths(&moments);
    let pairs: BTreeSet<_> =
        deaths.iter().map(|death| (&death.letter_type, &death.error.error_type)).collect();
    assert!(pairs.len() >= 14, "{pairs:?}");
    let language = |death: &&&Captured| -> String {
        let context: Value = serde_json::from_str(death.error.context.as_deref().unwrap()).unwrap();
        context["runtime"].as_str().unwrap().split(' ').next().unwrap().to_owned()
    };
    let languages: BTreeSet<String> = deaths.iter().map(|death| language(&death)).collect();
    assert!(languages.len() >= 6, "{languages:?}");
    let classes: BTreeSet<_> = deaths.iter().map(|death| admitted(death).class).collect();
    assert!(classes.len() >= 7, "{classes:?}");
    let tenants: BTreeSet<_> = deaths.iter().map(|death| death.tenant.as_deref().unwrap()).collect();
    assert_eq!(tenants.len(), 5);
}

#[test]
fn outages_and_the_bad_deploy_stand_out() {
    let moments = history(7);
    let per_hour = deaths(&moments).len() as i64 * HOUR / HISTORY;
    for (window, least) in
        [(GATEWAY_AWAY, 800), (DATABASE_AWAY, 380), ((BAD_DEPLOY_AGO, BAD_DEPLOY_AGO - ROLLBACK_AGO), 600)]
    {
        let died = died_within(&moments, window);
        assert!(died >= least, "{window:?}: {died}");
        assert!(died as i64 * HOUR / window.1 > 10 * per_hour, "{window:?}: {died}");
    }
    // The leak grows: twice as much in its second half, at the least.
    let leaks: Vec<Time> = deaths(&moments)
        .iter()
        .filter(|death| death.error.code.as_deref() == Some("EMFILE"))
        .map(|death| death.died_at.unwrap())
        .collect();
    let late = leaks.iter().filter(|at| until().since(**at) < 5 * DAY).count();
    assert!(late > 2 * (leaks.len() - late), "{late} of {}", leaks.len());
}

#[test]
fn the_bad_deploy_shows_in_bodies_and_versions() {
    let moments = history(7);
    let mut seen = 0;
    for death in deaths(&moments) {
        if death.error.error_type != "KeyError" {
            continue;
        }
        seen += 1;
        let event: Value = serde_json::from_slice(death.envelope.body()).unwrap();
        assert!(event["payload"]["currency"].is_null(), "{event}");
        assert_eq!(event["metadata"]["sentBy"], "order-service/4.12.0");
        assert_eq!(death.schema_version.as_deref(), Some("2.3"));
    }
    assert!((600..800).contains(&seen), "{seen}");
}

#[test]
fn bodies_are_events_unless_they_are_poison() {
    let mut moments = history(7);
    moments.extend(live(7, 30));
    let mut poison = BTreeMap::new();
    for death in deaths(&moments) {
        let body = death.envelope.body();
        match serde_json::from_slice::<Value>(body) {
            Ok(event) => {
                assert_eq!(event["eventId"], death.message_id.as_str());
                assert_eq!(event["pattern"], death.letter_type.as_str());
                assert_eq!(event["metadata"]["tenantId"].as_str(), death.tenant.as_deref());
                assert_eq!(event["version"].as_str(), death.schema_version.as_deref());
                assert!(Time::parse(event["timestamp"].as_str().unwrap()).unwrap() < death.died_at.unwrap());
            }
            Err(_) => *poison.entry(death.message_id.as_str()).or_insert(0) += 1,
        }
    }
    assert!((6..12).contains(&poison.len()), "{poison:?}");
    assert!(poison.values().all(|deaths| *deaths >= 2), "{poison:?}");
    let last = *poison.values().max().unwrap();
    assert!(last >= 5, "{poison:?}");
}

#[test]
fn every_death_is_a_full_report() {
    let mut moments = history(7);
    moments.extend(live(7, 40));
    for death in deaths(&moments) {
        let died_at = death.died_at.unwrap();
        assert_eq!(death.source, "report");
        assert!((3..=5).contains(&death.attempts.len()));
        assert_eq!(death.retry_count as usize, death.attempts.len());
        assert_eq!(death.max_retries, Some(death.retry_count));
        let times: Vec<Time> = death.attempts.iter().map(|attempt| attempt.at.unwrap()).collect();
        assert!(times.is_sorted() && times.last() == Some(&died_at));
        let pauses: Vec<i64> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(pauses.last() > pauses.first(), "{pauses:?}");
        // The fatal run is told twice, in the history and as the error; it must be seen as one.
        assert_eq!(admitted(death).captured.attempts.len(), death.attempts.len());
        let backtrace = death.error.backtrace.as_deref().unwrap();
        assert!((8..=60).contains(&backtrace.lines().count()), "{backtrace}");
        let header = |name: &str| death.envelope.headers().iter().any(|(known, _)| known == name);
        assert!(header("traceparent") && header("content-type") && header("x-retry-count"));
        assert!(serde_json::from_str::<Value>(death.reported.as_deref().unwrap()).unwrap().is_object());
        for text in [&death.error.message, backtrace, death.error.context.as_deref().unwrap()] {
            let bare = text.replace("{{closure}}", "");
            let unfilled = bare.split('{').skip(1).find(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                rest[end..].starts_with('}')
            });
            assert_eq!(unfilled, None, "{text}");
        }
    }
}

#[test]
fn lines_of_own_code_move_with_a_deploy() {
    let moments = history(7);
    let mut lines = BTreeSet::new();
    for death in deaths(&moments) {
        let backtrace = death.error.backtrace.as_deref().unwrap();
        let own = backtrace.split_once("CapturePayment.kt:").map(|(_, rest)| rest);
        lines.extend(own.map(|rest| rest.split(')').next().unwrap().to_owned()));
    }
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), ["61", "75"]);
}

#[test]
fn decisions_are_allowed_and_leave_work_to_do() {
    for seed in 0..3 {
        let mut demo = Demo::new(seed);
        let mut moments = demo.history(until());
        let count = |letters: &HashMap<String, Standing>, status| {
            letters.values().filter(|standing| standing.status == status).count()
        };
        let letters = standings(&moments);
        assert!(count(&letters, Status::Resolved) > 850);
        assert!(count(&letters, Status::Discarded) > 50);
        assert!(count(&letters, Status::Pending) > 1_500);
        assert_eq!(letters.values().filter(|standing| standing.held).count(), 2);
        let reopened = |moment: &Moment| matches!(&moment.what, What::Decision { verb: Verb::Reopen, .. });
        assert!(moments.iter().any(reopened));
        let from = moments.len();
        moments.extend(demo.live(until()).take(3_000));
        standings(&moments);
        let decided = moments[from..].iter().filter(|moment| matches!(moment.what, What::Decision { .. }));
        assert!(decided.count() > 10);
    }
}

#[test]
fn the_live_part_trickles_bursts_and_brings_something_new() {
    let minutes = 120;
    let moments = live(7, minutes);
    assert!(moments.is_sorted_by_key(|moment| moment.at));
    assert!(moments.first().unwrap().at >= until());
    let died = deaths(&moments);
    let pace = minutes * 60 / died.len() as i64;
    assert!((3..=6).contains(&pace), "one death every {pace} s");
    let mut by_minute: BTreeMap<i64, i64> = BTreeMap::new();
    for death in &died {
        *by_minute.entry(death.died_at.unwrap().since(until()) / MINUTE).or_default() += 1;
    }
    let bursts = by_minute.values().filter(|deaths| **deaths >= 24).count();
    assert!((12..40).contains(&bursts), "{bursts} bursts");
    assert_eq!(by_minute.len() as i64, minutes, "a minute without a death");
    let before = history(7);
    let known: BTreeSet<_> =
        deaths(&before).iter().map(|death| admitted(death).grouping.fingerprint).collect();
    let new: BTreeSet<_> = died.iter().map(|death| admitted(death).grouping.fingerprint).collect();
    assert_eq!(new.difference(&known).count(), 3);
}

#[test]
fn the_live_part_needs_no_history() {
    let moments: Vec<Moment> = Demo::new(3).live(until()).take(500).collect();
    standings(&moments);
}
