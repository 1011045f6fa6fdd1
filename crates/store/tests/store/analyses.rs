//! Cases: what people find out about an incident, and how it lives with its letters and its runs.

use lazaret_core::class::Category;
use lazaret_core::gate::Passed;
use lazaret_core::id::IncidentId;
use lazaret_core::incident::{FixStanding, IncidentState, Unmoved};
use lazaret_core::limits;
use lazaret_core::rca::{Analysis, FixKind};
use lazaret_core::redrive::{Outcome, RunState};
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::Verb;
use lazaret_store::incident::{IncidentQuery, IncidentRecord, IncidentStep, IncidentStepped};
use lazaret_store::redrive::{RunStep, SendOutcome};

use crate::job_letters::{dead, kill, letter as letter_of};
use crate::jobs::{ack, fetch};
use crate::redrive_runs::{begin, deliver, refused, settle, take, tend};
use crate::redrives::{redrive, run, state_of, step as step_run, unpaced};
use crate::rig::{Rig, ana, at, captured, dying, mark};

pub async fn step(rig: &Rig, id: IncidentId, step: IncidentStep, ms: i64) -> IncidentStepped {
    rig.store().step_incident(id, step, ana(), at(ms)).await.unwrap()
}

pub fn diagnosis() -> IncidentStep {
    IncidentStep::Diagnose(Analysis::new(Category::Contract, "a field was renamed", "read both").unwrap())
}

pub fn fix(fixed_ms: i64) -> IncidentStep {
    IncidentStep::Fix { kind: FixKind::Deployed, reference: "PR 7".into(), fixed_at: at(fixed_ms) }
}

/// Writes the analysis and names a fix that holds from a time on.
pub async fn cured(rig: &Rig, id: IncidentId, fixed_ms: i64, ms: i64) {
    step(rig, id, diagnosis(), ms).await;
    assert_eq!(step(rig, id, fix(fixed_ms), ms).await, IncidentStepped::Done(IncidentState::Fixed));
}

pub async fn state(rig: &Rig, id: IncidentId) -> IncidentState {
    rig.store().incident(id).await.unwrap().expect("the incident exists").incident.state
}

pub async fn record(rig: &Rig, id: IncidentId) -> IncidentRecord {
    rig.store().incident(id).await.unwrap().expect("the incident exists").record
}

async fn kinds(rig: &Rig, id: IncidentId) -> Vec<String> {
    record(rig, id).await.timeline.into_iter().map(|entry| entry.kind).collect()
}

pub async fn an_analysis_is_written_revised_and_kept(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = rig.letter(letter).await.incident;
    let refused = step(rig, id, fix(5), 5).await;
    assert_eq!(refused, IncidentStepped::Refused(Unmoved::NotDiagnosed));
    let done = IncidentStepped::Done;
    assert_eq!(step(rig, id, diagnosis(), 10).await, done(IncidentState::Diagnosed));
    assert_eq!(step(rig, id, diagnosis(), 20).await, done(IncidentState::Diagnosed));
    assert_eq!(step(rig, id, fix(15), 30).await, done(IncidentState::Fixed));
    assert_eq!(step(rig, id, IncidentStep::Assign(Some("bo".into())), 40).await, done(IncidentState::Fixed));
    assert_eq!(step(rig, id, IncidentStep::Note("seen twice".into()), 50).await, done(IncidentState::Fixed));
    let left = step(rig, id, IncidentStep::Close(None), 60).await;
    assert_eq!(left, IncidentStepped::Refused(Unmoved::LettersLeft));
    let found = record(rig, id).await;
    assert_eq!(found.rcas.iter().map(|rca| rca.revision).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((found.rcas[1].analysis.category, found.rcas[1].author.as_str()), (Category::Contract, "ana"));
    let named = &found.fixes[0];
    assert_eq!(
        (named.reference.as_str(), named.fixed_at, named.at, named.revision),
        ("PR 7", at(15), at(30), 2)
    );
    assert_eq!(found.fix.at(), Some(at(15)));
    let listed =
        rig.store().incidents(IncidentQuery { limit: 10, ..IncidentQuery::default() }).await.unwrap();
    let listed = listed.incidents.iter().find(|incident| incident.id == id).unwrap();
    assert_eq!((listed.assignee.as_deref(), listed.analysed), (Some("bo"), Some(Category::Contract)));
    let counts = rig.store().incident_counts().await.unwrap();
    assert_eq!(counts.get(&IncidentState::Fixed), Some(&1));
    assert_eq!(counts.values().sum::<u64>(), 1);
    let timeline: Vec<_> =
        found.timeline.iter().map(|entry| (entry.kind.as_str(), entry.text.as_deref())).collect();
    assert_eq!(
        timeline,
        [
            ("open", None),
            ("diagnosed", None),
            ("revised", None),
            ("fix_named", Some("PR 7")),
            ("fixed", None),
            ("assigned", Some("bo")),
            ("note", Some("seen twice")),
        ]
    );
    assert_eq!((found.timeline[0].by.clone(), found.timeline[1].by.as_deref()), (None, Some("ana")));
    let entries = rig.store().audit(AuditQuery::newest(100)).await.unwrap();
    let actions: Vec<_> = entries.iter().rev().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["diagnose", "diagnose", "fix", "assign", "note"]);
    assert!(entries.iter().all(|entry| entry.incident == Some(id) && entry.actor == ana()));
    let told: Vec<String> =
        rig.told().await.into_iter().filter(|kind| kind.starts_with("incident.")).collect();
    assert_eq!(told, ["incident.opened", "incident.diagnosed", "incident.fixed"]);
    let nowhere = IncidentId::mint(at(0), [255; 10]);
    assert_eq!(step(rig, nowhere, diagnosis(), 70).await, IncidentStepped::Unknown);
}

pub async fn an_analysis_is_not_revised_without_end(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = rig.letter(letter).await.incident;
    for _ in 0..limits::RCA_REVISIONS_MAX {
        step(rig, id, diagnosis(), 10).await;
    }
    assert_eq!(step(rig, id, diagnosis(), 20).await, IncidentStepped::TooMany);
    assert_eq!(record(rig, id).await.rcas.len(), limits::RCA_REVISIONS_MAX as usize);
    assert_eq!(kinds(rig, id).await.len(), limits::TIMELINE_ENTRIES_SHOWN);
}

pub async fn an_incident_without_letters_left_is_closed_by_hand(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let id = rig.letter(letter).await.incident;
    rig.done(letter, Verb::Resolve, at(10)).await;
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    let done = IncidentStepped::Done(IncidentState::Closed);
    assert_eq!(step(rig, id, IncidentStep::Close(Some("over".into())), 20).await, done);
    // An incident can be understood after it is over, and its fix be named.
    assert_eq!(step(rig, id, fix(5), 25).await, IncidentStepped::Refused(Unmoved::NotDiagnosed));
    assert_eq!(step(rig, id, diagnosis(), 30).await, done);
    assert_eq!(step(rig, id, fix(5), 40).await, done);
}

pub async fn a_death_is_weighed_against_the_fix(rig: &mut Rig) {
    let letter = rig.create(dying("a", at(0)), at(10)).await;
    let id = rig.letter(letter).await.incident;
    cured(rig, id, 1_000, 2_000).await;
    // Told late, but died before.
    rig.create(dying("b", at(900)), at(3_000)).await;
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
    rig.create(dying("c", at(1_001)), at(3_100)).await;
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    assert_eq!(step(rig, id, fix(3_100), 3_200).await, IncidentStepped::Refused(Unmoved::Regressed));
    assert_eq!(step(rig, id, diagnosis(), 3_300).await, IncidentStepped::Done(IncidentState::Diagnosed));
    assert_eq!(record(rig, id).await.fix, FixStanding::None, "the old fix was none");
    // Without a fix a death is nothing new.
    rig.create(dying("d", at(3_350)), at(3_350)).await;
    assert_eq!(state(rig, id).await, IncidentState::Diagnosed);
    assert_eq!(step(rig, id, fix(3_400), 3_400).await, IncidentStepped::Done(IncidentState::Fixed));
    let timeline = kinds(rig, id).await;
    assert_eq!(
        timeline,
        ["open", "diagnosed", "fix_named", "fixed", "regressed", "diagnosed", "fix_named", "fixed"]
    );
}

pub async fn a_closed_incident_comes_back_by_when_its_letter_died(rig: &mut Rig) {
    let letter = rig.create(dying("a", at(0)), at(10)).await;
    let id = rig.letter(letter).await.incident;
    cured(rig, id, 1_000, 2_000).await;
    rig.done(letter, Verb::Resolve, at(2_100)).await;
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    let before = rig.create(dying("b", at(900)), at(3_000)).await;
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
    rig.done(before, Verb::Resolve, at(3_100)).await;
    // A person's change of mind is no proof against the fix.
    rig.done(before, Verb::Reopen, at(3_200)).await;
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
    rig.done(before, Verb::Discard, at(3_300)).await;
    rig.create(dying("c", at(3_400)), at(3_400)).await;
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
}

pub async fn an_incident_goes_from_open_to_closed_with_its_run(rig: &mut Rig) {
    let one = rig.create(dying("a", at(0)), at(10)).await;
    rig.create(dying("b", at(1)), at(11)).await;
    let id = rig.letter(one).await.incident;
    cured(rig, id, 1_000, 1_000).await;
    let redriven = run(rig, "source:report", Passed::Governed, unpaced(), 2_000).await;
    assert_eq!(state(rig, id).await, IncidentState::Redriving);
    assert_eq!(record(rig, id).await.redriven_at, Some(at(2_000)));
    let taken = take(rig, redriven, 1, 2_100).await.taken;
    deliver(rig, redriven, taken[0].letter, 2_200).await;
    assert_eq!(tend(rig, redriven, 2_300).await.state, RunState::Running);
    let taken = take(rig, redriven, 10, 2_400).await.taken;
    begin(rig, redriven, &[taken[0].letter], 2_450).await;
    assert!(settle(rig, redriven, taken[0].letter, SendOutcome::Sent { handle: None }, 2_500).await);
    assert_eq!(tend(rig, redriven, 2_600).await.state, RunState::Verifying);
    assert_eq!(state(rig, id).await, IncidentState::Verifying);
    assert!(
        settle(
            rig,
            redriven,
            taken[0].letter,
            SendOutcome::Delivered { evidence: "processed", handle: None },
            2_700
        )
        .await
    );
    assert_eq!(state(rig, id).await, IncidentState::Closed, "with its last letter");
    assert_eq!(tend(rig, redriven, 2_800).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    assert_eq!(
        kinds(rig, id).await[4..],
        ["redrive_started", "redriving", "verifying", "closed", "redrive_done"]
    );
}

pub async fn the_incident_of_a_job_goes_the_same_way(rig: &mut Rig) {
    let job = dead(rig).await;
    let letter = letter_of(rig, job).await.letter;
    let id = letter.incident;
    cured(rig, id, 2_000, 2_000).await;
    let first = run(rig, "source:jobs", Passed::Governed, unpaced(), 3_000).await;
    assert_eq!(take(rig, first, 10, 3_100).await.put_back, 1);
    assert_eq!(tend(rig, first, 3_150).await.state, RunState::Verifying);
    assert_eq!(state(rig, id).await, IncidentState::Verifying);
    kill(rig, job, 3_200).await;
    assert_eq!(tend(rig, first, 5_000).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Regressed, "a run that ends with relapses was no cure");
    assert_eq!(step(rig, id, diagnosis(), 5_100).await, IncidentStepped::Done(IncidentState::Diagnosed));
    assert_eq!(step(rig, id, fix(5_200), 5_200).await, IncidentStepped::Done(IncidentState::Fixed));
    let second = run(rig, "source:jobs", Passed::Governed, unpaced(), 6_000).await;
    assert_eq!(take(rig, second, 10, 6_100).await.put_back, 1);
    assert_eq!(fetch(rig, &["default"], 1, at(6_200)).await, [job]);
    ack(rig, job, at(6_300)).await;
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    assert_eq!(tend(rig, second, 6_400).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Closed);
}

pub async fn a_run_that_leaves_letters_leaves_the_fix_as_it_is(rig: &mut Rig) {
    let one = rig.create(dying("a", at(0)), at(10)).await;
    let id = rig.letter(one).await.incident;
    cured(rig, id, 1_000, 1_000).await;
    let redriven = run(rig, "source:report", Passed::Governed, unpaced(), 2_000).await;
    let taken = take(rig, redriven, 10, 2_100).await.taken;
    begin(rig, redriven, &[taken[0].letter], 2_150).await;
    assert!(settle(rig, redriven, taken[0].letter, refused(2_200), 2_200).await);
    assert_eq!(tend(rig, redriven, 2_300).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
    // The same when it is cancelled before anything was sent.
    let again = run(rig, "source:report", Passed::Governed, unpaced(), 3_000).await;
    assert_eq!(state(rig, id).await, IncidentState::Redriving);
    assert_eq!(state_of(step_run(rig, again, RunStep::Cancel(None), 3_100).await), RunState::Cancelled);
    assert_eq!(state(rig, id).await, IncidentState::Fixed);
    assert!(redrive(rig, again).await.finished_at.is_some());
}

pub async fn a_run_without_governance_moves_no_incident(rig: &mut Rig) {
    let one = rig.create(dying("a", at(0)), at(10)).await;
    rig.create(dying("b", at(0)), at(10)).await;
    let id = rig.letter(one).await.incident;
    let redriven = run(rig, "source:report", Passed::Freely, unpaced(), 2_000).await;
    assert_eq!(state(rig, id).await, IncidentState::Open);
    for taken in take(rig, redriven, 10, 2_100).await.taken {
        deliver(rig, redriven, taken.letter, 2_200).await;
    }
    assert_eq!(tend(rig, redriven, 2_300).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Closed);
}

pub async fn a_relapse_after_the_run_brings_the_incident_back(rig: &mut Rig) {
    let one = rig.create(dying("a", at(0)), at(10)).await;
    let id = rig.letter(one).await.incident;
    cured(rig, id, 1_000, 1_000).await;
    let redriven = run(rig, "source:report", Passed::Governed, unpaced(), 2_000).await;
    let taken = take(rig, redriven, 10, 2_100).await.taken;
    deliver(rig, redriven, taken[0].letter, 2_200).await;
    assert_eq!(tend(rig, redriven, 2_300).await.state, RunState::Done);
    assert_eq!(state(rig, id).await, IncidentState::Closed);
    let mut again = dying("a", at(9_000));
    again.mark = mark(one, 1, redriven);
    rig.capture(again, at(9_100)).await;
    assert_eq!(state(rig, id).await, IncidentState::Regressed);
    let found = redrive(rig, redriven).await;
    assert_eq!((found.letters[&Outcome::Succeeded], found.letters[&Outcome::Relapsed]), (0, 1));
}

pub async fn a_relapse_of_another_cause_speaks_against_that_ones_fix(rig: &mut Rig) {
    let of_mail = |event: &str, died: i64| {
        let mut mail = dying(event, at(died));
        mail.error.error_type = "MailError".into();
        mail
    };
    let mail = rig.create(of_mail("m", 0), at(10)).await;
    let mails = rig.letter(mail).await.incident;
    cured(rig, mails, 1_000, 1_000).await;
    rig.done(mail, Verb::Resolve, at(1_100)).await;
    let one = rig.create(dying("a", at(1_150)), at(1_200)).await;
    let redriven = run(rig, "queue:orders", Passed::Freely, unpaced(), 2_000).await;
    let taken = take(rig, redriven, 10, 2_100).await.taken;
    deliver(rig, redriven, taken[0].letter, 2_200).await;
    rig.capture(of_mail("a", 3_000), at(3_100)).await;
    assert_eq!(rig.letter(one).await.incident, mails);
    assert_eq!(state(rig, mails).await, IncidentState::Regressed);
}
