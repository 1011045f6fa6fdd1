//! Reporters and operators beside the workers of a race: letters are reported and decided on, and what was acknowledged
//! has to be there in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::doors::{Doors, Lost};
use crate::running::Desk;
use crate::torture::{Random, call};

const BATCH_MAX: u64 = 8;

/// What one reporter knows.
#[derive(Default)]
pub struct Reported {
    sent: BTreeSet<String>,
    /// Event id → letter id, for each item that was answered.
    pub acknowledged: BTreeMap<String, String>,
    /// Letter id → status, for each decision that was heard of.
    decided: BTreeMap<String, &'static str>,
}

/// Reports and decides until it is told to stop.
pub fn report_until(stop: &AtomicBool, doors: &Doors, reporter: usize, mut random: Random) -> Reported {
    let mut told = Reported::default();
    let mut unheard: Vec<String> = Vec::new();
    for request in 0_u64.. {
        // Whoever gets no answer sends it again, as long as it takes.
        if stop.load(Ordering::SeqCst) && unheard.is_empty() {
            break;
        }
        let batch = if unheard.is_empty() {
            (0..1 + random.below(BATCH_MAX)).map(|item| format!("l{reporter}-{request}-{item}")).collect()
        } else {
            std::mem::take(&mut unheard)
        };
        told.sent.extend(batch.iter().cloned());
        match doors.ask("POST", "/api/v1/dead-letters", &entries(&batch)) {
            Err(Lost) => unheard = batch,
            Ok((status, answer)) => {
                assert_eq!(status, 200, "{answer}");
                let items = answer["items"].as_array().unwrap();
                assert_eq!(items.len(), batch.len(), "{answer}");
                for (event, item) in batch.into_iter().zip(items) {
                    told.acknowledged.insert(event, item["id"].as_str().unwrap().to_owned());
                }
            }
        }
        if random.below(4) == 0 {
            decide(&mut told, doors, &mut random);
        }
    }
    told
}

fn entries(events: &[String]) -> Value {
    let entries: Vec<Value> = events
        .iter()
        .map(|event| {
            json!({
                "eventId": event,
                "originalEvent": {"eventId": event, "pattern": "load.report", "payload": {"pad": "x".repeat(300)}},
                "error": {"type": "LoadError", "message": format!("no answer for {event}")},
            })
        })
        .collect();
    json!({ "items": entries })
}

/// Ends one of its letters, and says so until it is heard.
fn decide(told: &mut Reported, doors: &Doors, random: &mut Random) {
    let at = random.below(told.acknowledged.len().max(1) as u64) as usize;
    let Some(letter) = told.acknowledged.values().nth(at).cloned() else { return };
    let (verb, status) =
        if random.below(2) == 0 { ("discard", "discarded") } else { ("resolve", "resolved") };
    let (path, mut unheard) = (format!("/api/v1/dead-letters/{letter}/{verb}"), 0);
    let (code, answer) = loop {
        match doors.ask("POST", &path, &json!({"reason": "load"})) {
            Ok(answer) => break answer,
            Err(Lost) => unheard += 1,
        }
    };
    match (code, told.decided.get(&letter)) {
        (200, None) => _ = told.decided.insert(letter, status),
        // It was heard the first time, though its answer was not.
        (409, None) if unheard > 0 => _ = told.decided.insert(letter, status),
        (409, Some(_)) => {}
        (code, before) => panic!("{letter} was {before:?}, {verb}: {code} {answer}"),
    }
}

/// Compares what is there with what was heard, and says in a line what it was.
pub fn verify(address: &str, reported: &[Reported]) -> String {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/api/v1/dead-letters?type=load.report&limit=500&cursor={cursor}");
        let (status, page) = call(address, "GET", &path, "", "").expect("nobody kills the server now");
        assert_eq!(status, 200, "{page}");
        for letter in page["items"].as_array().unwrap() {
            let text = |name: &str| letter[name].as_str().unwrap().to_owned();
            let before = found.insert(text("eventId"), (text("id"), text("status")));
            assert!(before.is_none(), "{letter} is there twice");
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    let (mut acknowledged, mut decided) = (0, 0);
    for one in reported {
        for (event, id) in &one.acknowledged {
            let Some((letter, status)) = found.get(event) else {
                panic!("{event} was acknowledged and is lost")
            };
            let expected = one.decided.get(id).copied().unwrap_or("pending");
            assert_eq!((letter, status.as_str()), (id, expected), "{event}");
        }
        acknowledged += one.acknowledged.len();
        decided += one.decided.len();
    }
    let sent = |event: &String| reported.iter().any(|one| one.sent.contains(event));
    assert!(found.keys().all(sent), "a letter that nobody sent");
    assert!(acknowledged > 0 && decided > 0, "the test proved nothing: {acknowledged} {decided}");
    format!("{acknowledged} letters acknowledged, {decided} decided on")
}

/// Recounts the whole store with the command that people use.
pub fn recount(address: &str) {
    let told = Desk::new().run(&["--url", &format!("http://{address}"), "ledger", "verify", "--json"]).ok();
    let ledger: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&ledger["difference"], &ledger["wrongCounters"]), (&json!(0), &json!(0)), "{ledger}");
}
