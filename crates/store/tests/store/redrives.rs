//! Cases: a list is frozen, planned and launched, and every way of putting letters back leaves a redrive.

use lazaret_core::class::Category;
use lazaret_core::filter::Filter;
use lazaret_core::gate::{Governance, Passed, Shut};
use lazaret_core::id::{IncidentId, LetterId, RedriveId};
use lazaret_core::incident::{AgainstFix, IncidentState};
use lazaret_core::job::reenqueue::Override;
use lazaret_core::job::state::JobState;
use lazaret_core::letter::{Captured, Strategy};
use lazaret_core::lifecycle::Status;
use lazaret_core::limits;
use lazaret_core::redrive::{Options, Outcome, Pace, RedriveKind, RunState};
use lazaret_store::audit::AuditQuery;
use lazaret_store::decision::Verb;
use lazaret_store::job::LetterEffect;
use lazaret_store::redrive::{
    Edit, Group, GroupVerdict, Launch, Launched, NewRedrive, Redrive, RedriveLetter, RedriveQuery, RunStep,
    Selection, Stepped,
};
use lazaret_store::replay::Replay;
use lazaret_store::series::Step;

use crate::analyses::cured;
use crate::job_letters::{dead, kill, letter as letter_of};
use crate::jobs::{ack, change, fetch, stored};
use crate::rig::{Rig, ana, at, captured, dying};
use crate::run_lines::{line, point};

/// Everything at once: no pace, no canaries.
pub fn unpaced() -> Options {
    Options { pace: Pace::Unlimited, canary: 0, ..Options::default() }
}

/// A letter that has to keep its place among those of its key.
pub fn keyed(event: &str, key: &str, died_ms: i64) -> Captured {
    Captured { aggregate: Some(key.into()), ..dying(event, at(died_ms)) }
}

pub async fn open(rig: &Rig, selection: Selection, options: Options, ms: i64) -> RedriveId {
    let id = rig.run_id();
    let redrive = NewRedrive {
        id,
        kind: RedriveKind::Plan,
        selection,
        options,
        by: ana(),
        reason: Some("ticket 7".into()),
        edit: None,
        at: at(ms),
    };
    rig.store().open_redrive(redrive).await.unwrap();
    id
}

pub fn by_filter(text: &str) -> Selection {
    Selection::Filter(Filter::from_text(text).unwrap())
}

/// Opens a redrive and takes its list down; counts the calls.
pub async fn frozen(rig: &Rig, filter: &str, options: Options, ms: i64) -> (RedriveId, usize) {
    let id = open(rig, by_filter(filter), options, ms).await;
    for calls in 1.. {
        if rig.store().freeze_redrive(id).await.unwrap() {
            return (id, calls);
        }
    }
    unreachable!("a list is taken down in finitely many calls")
}

pub async fn groups(rig: &Rig, id: RedriveId) -> Vec<Group> {
    rig.store().redrive_groups(id).await.unwrap()
}

pub async fn redrive(rig: &Rig, id: RedriveId) -> Redrive {
    rig.store().redrive(id).await.unwrap().expect("the redrive exists")
}

pub async fn letters(rig: &Rig, id: RedriveId) -> Vec<RedriveLetter> {
    rig.store().redrive_letters(id, None, 0, 10_000).await.unwrap()
}

pub async fn outcome(rig: &Rig, id: RedriveId, letter: LetterId) -> Outcome {
    let rows = letters(rig, id).await;
    rows.into_iter().rfind(|row| row.letter == letter).expect("the letter is on the list").outcome
}

/// Plans a frozen list so that every group goes.
pub async fn plan(rig: &Rig, id: RedriveId, passed: Passed, ms: i64) -> Redrive {
    let goes = |group: &Group| GroupVerdict::Goes { passed, destination: group.source.clone() };
    let verdicts = groups(rig, id).await.iter().map(|group| (group.number, goes(group))).collect();
    rig.store().plan_redrive(id, verdicts, "{}".into(), at(ms)).await.unwrap().expect("it can be planned")
}

pub fn launch_of(count: u64, options: Options, ms: i64) -> Launch {
    Launch { count, options, break_glass: None, by: ana(), at: at(ms) }
}

/// Freezes, plans and launches.
pub async fn run(rig: &Rig, filter: &str, passed: Passed, options: Options, ms: i64) -> RedriveId {
    let (id, _) = frozen(rig, filter, options, ms).await;
    let count = plan(rig, id, passed, ms).await.letters[&Outcome::Waiting];
    let launched = rig.store().launch_redrive(id, launch_of(count, options, ms)).await.unwrap();
    assert!(matches!(launched, Launched::Done(_)), "{launched:?}");
    id
}

pub async fn step(rig: &Rig, id: RedriveId, step: RunStep, ms: i64) -> Stepped {
    rig.store().step_redrive(id, step, ana(), at(ms)).await.unwrap()
}

pub fn state_of(stepped: Stepped) -> RunState {
    match stepped {
        Stepped::Done(redrive) => redrive.state,
        other => panic!("{other:?}"),
    }
}

pub async fn a_list_is_frozen_with_its_groups_and_lanes(rig: &mut Rig) {
    let second = rig.create(keyed("a2", "k1", -20), at(0)).await;
    let first = rig.create(keyed("a1", "k1", -30), at(0)).await;
    let other_key = rig.create(keyed("a3", "k2", -10), at(0)).await;
    let free = rig.create(dying("a4", at(-5)), at(0)).await;
    let elsewhere = Captured { subscriber: Some("mail".into()), ..dying("a5", at(-4)) };
    let elsewhere = rig.create(elsewhere, at(0)).await;
    let mut mail = dying("b1", at(-3));
    (mail.letter_type, mail.error.error_type) = ("mail.sent".into(), "MailError".into());
    let mail = rig.create(mail, at(0)).await;
    let settled = rig.create(dying("c1", at(-2)), at(0)).await;
    rig.done(settled, Verb::Resolve, at(10)).await;
    let id = open(rig, by_filter("source:report"), unpaced(), 100).await;
    // It is captured after the list was opened.
    rig.create(dying("d1", at(-1)), at(200)).await;
    assert!(rig.store().freeze_redrive(id).await.unwrap());
    let rows = letters(rig, id).await;
    let listed: Vec<LetterId> = rows.iter().map(|row| row.letter).collect();
    assert_eq!(listed, [first, second, other_key, free, elsewhere, mail]);
    let lanes: Vec<_> = rows.iter().map(|row| row.lane.as_deref()).collect();
    assert_eq!(lanes, [Some("k1"), Some("k1"), Some("k2"), None, None, None]);
    assert!(rows.iter().all(|row| (row.life, row.outcome) == (1, Outcome::Waiting)));
    let orders = rig.letter(first).await.incident;
    let found: Vec<_> = groups(rig, id)
        .await
        .into_iter()
        .map(|group| (group.number, group.incident == orders, group.subscriber.unwrap(), group.letters))
        .collect();
    assert_eq!(
        found,
        [(1, true, "billing".into(), 4), (2, true, "mail".into(), 1), (3, false, "billing".into(), 1)]
    );
    let found = redrive(rig, id).await;
    assert_eq!((found.state, found.total, found.refused), (RunState::Planning, 6, 0));
    assert_eq!(
        (found.filter.as_str(), found.by, found.letters[&Outcome::Waiting]),
        ("source:report", ana(), 6)
    );
}

pub async fn letters_are_grouped_by_when_they_died_against_the_fix(rig: &mut Rig) {
    let early = rig.create(dying("a", at(10)), at(20)).await;
    rig.create(dying("b", at(50)), at(60)).await;
    let incident = rig.letter(early).await.incident;
    cured(rig, incident, 30, 100).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 200).await;
    let died: Vec<_> = groups(rig, id).await.into_iter().map(|group| (group.died, group.letters)).collect();
    assert_eq!(died, [(AgainstFix::Before, 1), (AgainstFix::After, 1)]);
    assert_eq!(groups(rig, id).await[0].cause.state, IncidentState::Fixed);
}

pub async fn a_long_list_is_frozen_in_chunks(rig: &mut Rig) {
    let count = limits::FREEZE_ROWS_PER_WRITE as i64 + 500;
    let ids = rig.create_many(count, at(0)).await;
    let id = open(rig, by_filter("queue:orders"), unpaced(), 10).await;
    assert!(!rig.store().freeze_redrive(id).await.unwrap());
    // It moves behind the place reached and is met again.
    rig.capture(dying("e0", at(15)), at(20)).await;
    while !rig.store().freeze_redrive(id).await.unwrap() {}
    for _ in 0..2 {
        assert!(rig.store().freeze_redrive(id).await.unwrap());
        assert_eq!(redrive(rig, id).await.total, count as u64);
    }
    let rows = rig.store().redrive_letters(id, None, 0, 1).await.unwrap();
    assert_eq!((rows[0].letter, rows[0].life), (ids[0], 1), "it stays listed as it was");
}

pub async fn named_letters_are_taken_down_at_once(rig: &mut Rig) {
    let one = rig.create(dying("a", at(-10)), at(0)).await;
    let two = rig.create(dying("b", at(-20)), at(0)).await;
    let other_life = rig.create(dying("c", at(-30)), at(0)).await;
    let id = open(rig, Selection::Letters(vec![(one, 1), (two, 1), (other_life, 2)]), unpaced(), 5).await;
    assert!(rig.store().freeze_redrive(id).await.unwrap());
    let listed: Vec<LetterId> = letters(rig, id).await.iter().map(|row| row.letter).collect();
    assert_eq!(listed, [two, one], "in the order of their deaths, in the life that was named");
    assert_eq!(redrive(rig, id).await.filter, "");
}

pub async fn a_plan_counts_what_would_go(rig: &mut Rig) {
    for (event, key, died) in [("a", "k1", -50), ("b", "k1", -40), ("c", "k2", -30)] {
        rig.create(keyed(event, key, died), at(0)).await;
    }
    let mut mail = dying("d", at(-20));
    (mail.letter_type, mail.queue) = ("mail.sent".into(), "mails".into());
    let mail = rig.create(mail, at(0)).await;
    // Older than one of the list, of the same key, and not on it; the same key of another source is another lane.
    let outside = Captured { queue: "slow".into(), ..keyed("e", "k2", -100) };
    rig.create(outside, at(0)).await;
    rig.create(Captured { source: "outbox".into(), queue: "slow".into(), ..keyed("f", "k2", -90) }, at(0))
        .await;
    rig.create(Captured { queue: "slow".into(), ..keyed("g", "k2", -10) }, at(0)).await;
    let (id, _) = frozen(rig, "queue:orders queue:mails", unpaced(), 10).await;
    let counts = rig.store().plan_counts(id).await.unwrap();
    assert_eq!(counts.types, [("order.created".into(), 3), ("mail.sent".into(), 1)]);
    assert_eq!(counts.queues, [("orders".into(), 3), ("mails".into(), 1)]);
    assert_eq!(counts.lanes, [("k1".into(), 2), ("k2".into(), 1)]);
    assert_eq!((counts.lanes_total, counts.unordered), (2, 1));
    assert_eq!((counts.older_outside, counts.older_lanes), (1, vec!["k2".to_owned()]));
    assert_eq!((counts.samples.len(), counts.samples[3]), (4, (mail, 1)));
}

pub async fn refused_groups_do_not_go_and_nothing_overtakes_them(rig: &mut Rig) {
    let shut = rig.create(keyed("a", "k1", -50), at(0)).await;
    let of_mail = |event: &str, key: &str, died| {
        let mut mail = keyed(event, key, died);
        mail.error.error_type = "MailError".into();
        mail
    };
    let behind = rig.create(of_mail("b", "k1", -40), at(0)).await;
    let free = rig.create(of_mail("c", "k2", -30), at(0)).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 10).await;
    let goes = GroupVerdict::Goes { passed: Passed::Freely, destination: "report".into() };
    let verdicts = vec![(1, GroupVerdict::Shut(Shut::RcaRequired)), (2, goes.clone())];
    let planned = rig.store().plan_redrive(id, verdicts, "{}".into(), at(20)).await.unwrap().unwrap();
    assert_eq!((planned.state, planned.total, planned.refused), (RunState::Planned, 3, 1));
    assert_eq!((planned.letters[&Outcome::Waiting], planned.letters[&Outcome::LaneBlocked]), (1, 1));
    let counts = rig.store().plan_counts(id).await.unwrap();
    assert_eq!(counts.groups, [(2, 1)].into(), "what is blocked does not go");
    let rows = letters(rig, id).await;
    let found: Vec<_> = rows.iter().map(|row| (row.letter, row.outcome)).collect();
    assert_eq!(found, [(behind, Outcome::LaneBlocked), (free, Outcome::Waiting)]);
    assert_eq!(rows[0].evidence.as_deref(), Some("an earlier letter of its key is refused"));
    assert_eq!(groups(rig, id).await[0].verdict, Some(GroupVerdict::Shut(Shut::RcaRequired)));
    // Judged anew, all of them go.
    let again = plan(rig, id, Passed::Freely, 30).await;
    assert_eq!((again.refused, again.letters[&Outcome::Waiting]), (0, 3));
    assert_eq!(letters(rig, id).await[0].letter, shut);
    let none = vec![(1, GroupVerdict::NoWayBack("no destination".into())), (2, goes)];
    let none = rig.store().plan_redrive(id, none, "{}".into(), at(40)).await.unwrap().unwrap();
    assert_eq!((none.refused, none.letters[&Outcome::Waiting]), (1, 1));
    assert_eq!(
        groups(rig, id).await[0].verdict,
        Some(GroupVerdict::NoWayBack("no destination".into())),
        "with the reason"
    );
}

pub async fn a_launch_needs_the_count_and_happens_once(rig: &mut Rig) {
    rig.create_many(3, at(0)).await;
    let (id, _) = frozen(rig, "queue:orders", unpaced(), 10).await;
    let launch = |count| rig.store().launch_redrive(id, launch_of(count, unpaced(), 30));
    assert_eq!(launch(3).await.unwrap(), Launched::State(RunState::Planning));
    plan(rig, id, Passed::Freely, 20).await;
    let before = rig.dump().await;
    for count in [0, 2, 4] {
        assert_eq!(launch(count).await.unwrap(), Launched::CountMismatch(3));
    }
    assert_eq!(rig.dump().await, before, "a launch that is refused leaves no trace");
    let Launched::Done(run) = launch(3).await.unwrap() else { panic!("it is as planned") };
    assert_eq!((run.state, run.launched_at), (RunState::Running, Some(at(30))));
    assert_eq!(launch(3).await.unwrap(), Launched::State(RunState::Running));
    let nowhere = RedriveId::mint(at(0), [255; 10]);
    let unknown = rig.store().launch_redrive(nowhere, launch_of(3, unpaced(), 30)).await.unwrap();
    assert_eq!(unknown, Launched::Unknown);
    let entry = rig.store().audit(AuditQuery::newest(1)).await.unwrap().remove(0);
    assert_eq!((entry.action.as_str(), entry.count, entry.redrive), ("redrive", 3, Some(id)));
    assert_eq!((entry.filter.as_deref(), entry.reason.as_deref()), (Some("queue:orders"), Some("ticket 7")));
    let told: Vec<String> =
        rig.told().await.into_iter().filter(|kind| kind.starts_with("redrive.")).collect();
    assert_eq!(told, ["redrive.planned", "redrive.started"]);
}

pub async fn a_launch_is_refused_once_the_incident_came_back(rig: &mut Rig) {
    let letter = rig.create(dying("a", at(-10)), at(0)).await;
    let incident = rig.letter(letter).await.incident;
    cured(rig, incident, 100, 100).await;
    let (id, _) = frozen(rig, "source:report", unpaced(), 200).await;
    plan(rig, id, Passed::Governed, 200).await;
    rig.create(dying("b", at(300)), at(310)).await;
    let launch = launch_of(1, unpaced(), 400);
    let refused = rig.store().launch_redrive(id, launch.clone()).await.unwrap();
    assert_eq!(refused, Launched::Shut(Shut::Regressed, incident));
    assert_eq!(redrive(rig, id).await.state, RunState::Planned);
    let forced = Launch { break_glass: Some("the customer waits for it".into()), ..launch };
    let Launched::Done(run) = rig.store().launch_redrive(id, forced).await.unwrap() else {
        panic!("the glass was broken")
    };
    assert_eq!(run.break_glass.as_deref(), Some("the customer waits for it"));
    let actions: Vec<(String, Option<IncidentId>)> = rig
        .store()
        .audit(AuditQuery::newest(2))
        .await
        .unwrap()
        .into_iter()
        .map(|e| (e.action, e.incident))
        .collect();
    assert_eq!(actions, [("break_glass".into(), Some(incident)), ("redrive".into(), Some(incident))]);
    // What the gate says does not stop it any more.
    assert_eq!(rig.store().tend_redrive(id, at(500)).await.unwrap().unwrap().state, RunState::Running);
}

pub async fn plans_that_nobody_launches_are_dropped(rig: &mut Rig) {
    rig.create_many(3, at(0)).await;
    let (old, _) = frozen(rig, "queue:orders", unpaced(), 10).await;
    plan(rig, old, Passed::Freely, 20).await;
    let young = open(rig, by_filter("queue:orders"), unpaced(), 100).await;
    assert_eq!(rig.store().drop_plans(at(50)).await.unwrap(), 1);
    assert_eq!(rig.store().drop_plans(at(50)).await.unwrap(), 0);
    let dropped = redrive(rig, old).await;
    assert_eq!((dropped.state, dropped.letters[&Outcome::Cancelled]), (RunState::Cancelled, 3));
    assert!(letters(rig, old).await.is_empty());
    let launched = rig.store().launch_redrive(old, launch_of(3, unpaced(), 60)).await.unwrap();
    assert_eq!(launched, Launched::State(RunState::Cancelled));
    assert_eq!(redrive(rig, young).await.state, RunState::Planning);
}

pub async fn a_run_is_paused_resumed_paced_and_cancelled(rig: &mut Rig) {
    rig.create_many(4, at(0)).await;
    let id = run(rig, "queue:orders", Passed::Freely, unpaced(), 10).await;
    assert_eq!(step(rig, id, RunStep::Resume, 20).await, Stepped::Refused(RunState::Running));
    assert_eq!(state_of(step(rig, id, RunStep::Pause("lunch".into()), 30).await), RunState::Paused);
    assert_eq!(redrive(rig, id).await.why.as_deref(), Some("lunch"));
    let none = rig.store().take_letters(id, 10, at(60_000), at(40)).await.unwrap();
    assert!(none.taken.is_empty());
    let slow = Pace::from_per_minute(Some(60)).unwrap();
    assert_eq!(state_of(step(rig, id, RunStep::Pace(slow), 50).await), RunState::Paused);
    assert_eq!(redrive(rig, id).await.options.pace, slow);
    assert_eq!(state_of(step(rig, id, RunStep::Resume, 60).await), RunState::Running);
    let next = rig.store().take_letters(id, 10, at(60_000), at(70)).await.unwrap();
    assert_eq!(next.taken.len(), 1);
    let Stepped::Done(ended) = step(rig, id, RunStep::Cancel(Some("enough".into())), 80).await else {
        panic!("a run can be cancelled")
    };
    assert_eq!((ended.state, ended.letters[&Outcome::Cancelled]), (RunState::Cancelled, 3));
    assert_eq!((ended.letters[&Outcome::Out], ended.finished_at), (1, None), "one is still out");
    for again in [RunStep::Resume, RunStep::Cancel(None), RunStep::Pace(slow), RunStep::Pause(String::new())]
    {
        assert_eq!(step(rig, id, again, 90).await, Stepped::Refused(RunState::Cancelled));
    }
    let actions: Vec<String> = rig
        .store()
        .audit(AuditQuery::newest(4))
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.action)
        .collect();
    assert_eq!(actions, ["redrive_cancel", "redrive_resume", "redrive_pace", "redrive_pause"]);
    let told: Vec<String> =
        rig.told().await.into_iter().filter(|kind| kind.starts_with("redrive.")).collect();
    assert_eq!(told[2..], ["redrive.paused", "redrive.resumed", "redrive.cancelled"]);
}

pub async fn redrives_are_listed_newest_first(rig: &mut Rig) {
    let letter = rig.create_many(2, at(0)).await[0];
    let first = run(rig, "queue:orders", Passed::Freely, unpaced(), 10).await;
    let (second, _) = frozen(rig, "queue:orders", unpaced(), 20).await;
    let page = async |query: RedriveQuery| -> Vec<RedriveId> {
        rig.store().redrives(query).await.unwrap().into_iter().map(|redrive| redrive.id).collect()
    };
    let all = RedriveQuery { limit: 10, ..RedriveQuery::default() };
    assert_eq!(page(all.clone()).await, [second, first]);
    assert_eq!(page(RedriveQuery { limit: 1, ..all.clone() }).await, [second]);
    assert_eq!(page(RedriveQuery { before: Some(second), ..all.clone() }).await, [first]);
    assert_eq!(page(RedriveQuery { states: vec![RunState::Running], ..all.clone() }).await, [first]);
    assert!(page(RedriveQuery { kinds: vec![RedriveKind::Rule], ..all.clone() }).await.is_empty());
    let incident = Some(rig.letter(letter).await.incident);
    assert_eq!(page(RedriveQuery { incident, ..all.clone() }).await, [second, first]);
    let other = Some(IncidentId::mint(at(0), [255; 10]));
    assert!(page(RedriveQuery { incident: other, ..all }).await.is_empty());
    let unfinished = rig.store().unfinished_redrives(10).await.unwrap();
    assert_eq!(unfinished.iter().map(|redrive| redrive.id).collect::<Vec<_>>(), [first]);
    let of_letter = rig.store().redrives_of(letter).await.unwrap();
    let of_letter: Vec<_> = of_letter.into_iter().map(|(redrive, row)| (redrive.id, row.letter)).collect();
    assert_eq!(of_letter, [(second, letter), (first, letter)]);
}

/// What the only redrive of a letter made of it.
async fn only(rig: &Rig, letter: LetterId) -> (RedriveKind, RunState, Outcome, Option<String>) {
    let mut found = rig.store().redrives_of(letter).await.unwrap();
    assert_eq!(found.len(), 1);
    let (redrive, row) = found.remove(0);
    (redrive.kind, redrive.state, row.outcome, row.evidence)
}

pub async fn every_single_retry_leaves_a_redrive(rig: &mut Rig) {
    let id = dead(rig).await;
    let letter = letter_of(rig, id).await.letter.id;
    rig.done(letter, Verb::Retry, at(5_000)).await;
    assert_eq!(only(rig, letter).await, (RedriveKind::Single, RunState::Verifying, Outcome::Sent, None));
    assert!(rig.store().unfinished_redrives(10).await.unwrap().is_empty(), "it looks after itself");
    fetch(rig, &["default"], 1, at(5_001)).await;
    ack(rig, id, at(5_002)).await;
    let acked = Some("acked".to_owned());
    assert_eq!(only(rig, letter).await, (RedriveKind::Single, RunState::Done, Outcome::Succeeded, acked));
    let single = rig.store().redrives_of(letter).await.unwrap().remove(0).0.id;
    assert_eq!(line(rig, single, Step::Minute, 0, 60_000).await, [], "one letter has no line");
    // The same by the job's own door, and the job dies again.
    let id = dead(rig).await;
    let letter = letter_of(rig, id).await.letter.id;
    let before = stored(rig, id).await;
    let after = before.job.clone().retried_from_dead_letter(&Override::default(), at(6_000)).unwrap();
    change(rig, &before, after, LetterEffect::Redrive(letter, Governance::Optional), at(6_000)).await;
    kill(rig, id, 7_000).await;
    let (kind, state, outcome, _) = only(rig, letter).await;
    assert_eq!((kind, state, outcome), (RedriveKind::Single, RunState::Done, Outcome::Relapsed));
    let (redrive, row) = rig.store().redrives_of(letter).await.unwrap().remove(0);
    assert_eq!((row.life, redrive.letters[&Outcome::Relapsed], redrive.finished_at.is_some()), (1, 1, true));
}

pub async fn bulk_retries_and_rules_leave_a_redrive(rig: &mut Rig) {
    let job = dead(rig).await;
    let letter = letter_of(rig, job).await.letter.id;
    let operation = rig.open_operation(Verb::Retry, "source:jobs", 1, at(5_000)).await;
    rig.freeze(operation).await;
    rig.work(operation, at(5_001)).await;
    let (redrive, row) = rig.store().redrives_of(letter).await.unwrap().remove(0);
    assert_eq!((redrive.kind, redrive.id.bytes()), (RedriveKind::Bulk, operation.bytes()));
    assert_eq!((redrive.total, row.outcome), (1, Outcome::Sent));
    let before = stored(rig, job).await;
    let after = before.job.clone().cancelled(at(5_002)).unwrap();
    change(rig, &before, after, LetterEffect::End { evidence: "cancelled" }, at(5_002)).await;
    let ended = rig.store().tend_redrive(redrive.id, at(5_003)).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.letters[&Outcome::Ended]), (RunState::Done, 1));
    assert_eq!(line(rig, redrive.id, Step::Minute, 0, 60_000).await, [point(0, 1, 1, 0)]);
    // A rule puts it back twice on one day: one redrive, two rows.
    rig.done(letter, Verb::Reopen, at(6_000)).await;
    let rule = async |ms: i64| {
        let life = rig.letter(letter).await.life;
        let replay = Replay {
            rule: "r".into(),
            category: Category::Infrastructure,
            max_replays: 5,
            letters: vec![(letter, life)],
            at: at(ms),
        };
        rig.store().replay(replay).await.unwrap();
    };
    rule(7_000).await;
    kill(rig, job, 8_000).await;
    rule(20_000).await;
    fetch(rig, &["default"], 1, at(20_001)).await;
    ack(rig, job, at(20_002)).await;
    let rows = rig.store().redrives_of(letter).await.unwrap();
    let of_rule: Vec<_> = rows.iter().filter(|(redrive, _)| redrive.kind == RedriveKind::Rule).collect();
    assert_eq!(of_rule.len(), 2);
    assert_eq!((of_rule[0].0.id, of_rule[0].0.rule.as_deref()), (of_rule[1].0.id, Some("r")));
    let outcomes: Vec<_> = of_rule.iter().map(|(_, row)| (row.life, row.outcome)).collect();
    assert_eq!(outcomes, [(2, Outcome::Succeeded), (1, Outcome::Relapsed)]);
    let resolution = rig.letter(letter).await.resolution.unwrap();
    assert_eq!((resolution.strategy, resolution.by.as_str()), (Strategy::AutomaticRetry, "rule:r"));
    let id = of_rule[0].0.id;
    let open = rig.store().tend_redrive(id, at(30_000)).await.unwrap().unwrap();
    assert_eq!(open.state, RunState::Verifying, "others may join until the day is over");
    let over = rig.store().tend_redrive(id, at(86_400_000)).await.unwrap().unwrap();
    assert_eq!((over.state, over.total), (RunState::Done, 2));
    assert_eq!(line(rig, id, Step::Minute, 0, 60_000).await, [point(0, 2, 1, 1)]);
    assert_eq!(stored(rig, job).await.job.state, JobState::Completed);
}

pub async fn edits_are_kept_beside_the_original(rig: &mut Rig) {
    let letter = rig.create(captured("a"), at(0)).await;
    let before = rig.store().original(letter, None).await.unwrap().unwrap();
    let edit = |life, body: &[u8]| Edit {
        number: 0,
        life,
        body: body.to_vec(),
        content_type: "application/json".into(),
        headers: vec![("trace".into(), "8".into()), ("Trace".into(), "ü".into())],
        destination: Some("report/mail".into()),
        author: "ana".into(),
        reason: Some("a typing error".into()),
        at: at(10),
    };
    let long = vec![7; 10_000];
    assert_eq!(rig.store().add_edit(letter, edit(1, b"{}")).await.unwrap(), Some(1));
    assert_eq!(rig.store().add_edit(letter, edit(1, &long)).await.unwrap(), Some(2));
    assert_eq!(rig.store().add_edit(letter, edit(2, b"{}")).await.unwrap(), None);
    let nowhere = LetterId::mint(at(0), [255; 10]);
    assert_eq!(rig.store().add_edit(nowhere, edit(1, b"{}")).await.unwrap(), None);
    let kept = rig.store().edits(letter).await.unwrap();
    assert_eq!(kept, [Edit { number: 1, ..edit(1, b"{}") }, Edit { number: 2, ..edit(1, &long) }]);
    let after = rig.store().original(letter, None).await.unwrap().unwrap();
    assert_eq!(after.envelope.body(), before.envelope.body());
    assert_eq!(rig.letter(letter).await.status, Status::Pending);
    rig.store().reset().await.unwrap();
    assert!(rig.store().edits(letter).await.unwrap().is_empty());
}
