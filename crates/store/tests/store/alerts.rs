//! Cases: what alerts are made from, evaluations that exclude each other, and notifications that are claimed once.

use lazaret_core::alert::{Alert, AlertKey, AlertState, Group, Matchers, RuleKind, Scope, Severity};
use lazaret_core::id::{NotificationId, SilenceId};
use lazaret_core::time::Time;
use lazaret_store::alert_store::{
    AlertBatch, AlertProgress, NewNotification, NotificationOutcome, NotificationState, SilenceRecord,
};
use lazaret_store::audit::AuditQuery;

use crate::rig::{Rig, ana, at, captured};

const DEATHS: [&str; 3] = ["dead_letter.added", "dead_letter.recurred", "dead_letter.relapsed"];

fn firing(subject: &str, now: Time) -> Alert {
    Alert {
        key: AlertKey { kind: RuleKind::LetterCount, scope: Scope::Type, subject: subject.to_owned() },
        rule: "letter_count".to_owned(),
        severity: Severity::Warning,
        state: AlertState::Firing,
        since: now,
        fired_at: Some(now),
        clear_since: None,
        resolved_at: None,
        value: 11.5,
        count: 11,
        recent: vec![(7, 3), (8, 8)],
        summary: "11 pending letters".to_owned(),
        labels: vec![("source".to_owned(), "report \"x\"".to_owned())],
        sample: None,
        incident: None,
        flaps: 2,
        ack: None,
        updated_at: now,
    }
}

fn batch(revision: u64, alerts: Vec<Alert>, now: Time) -> AlertBatch {
    AlertBatch {
        progress: AlertProgress { revision, events: 5, letters: 3 },
        moved: alerts.iter().map(|alert| ("alert.fired", alert.id())).collect(),
        alerts,
        groups: Vec::new(),
        ended_groups: Vec::new(),
        notifications: Vec::new(),
        at: now,
    }
}

fn notification(n: u8) -> NewNotification {
    let id = NotificationId::mint(at(0), [n; 10]);
    NewNotification { id, receiver: "ops".to_owned(), payload: "{}".to_owned() }
}

pub async fn events_are_counted_by_incident_with_their_newest_letter(rig: &mut Rig) {
    let after = rig.store().events_kept().await.unwrap().newest;
    let mut last = None;
    for n in 0..5_i64 {
        let mut message = captured(&format!("e{n}"));
        message.aggregate = (n < 3).then(|| "order-1".to_owned());
        message.tenant = Some("acme".to_owned());
        last = Some(rig.create(message, at(n)).await);
    }
    let newest = rig.store().events_kept().await.unwrap().newest;
    let counts = rig.store().count_events(after, newest, DEATHS.to_vec()).await.unwrap();
    let [count] = counts.as_slice() else { panic!("{counts:?}") };
    assert_eq!((count.kind.as_str(), count.times), ("dead_letter.added", 5));
    assert!(count.incident.is_some());
    assert_eq!(count.newest.as_ref().map(|letter| letter.id), last);
    let opened = rig.store().count_events(after, newest, vec!["incident.opened"]).await.unwrap();
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0].incident, count.incident);
    assert_eq!(rig.store().count_events(newest, newest, DEATHS.to_vec()).await.unwrap(), []);
    let mut letters = rig.store().new_letters(after, newest, DEATHS.to_vec(), at(-1_000_000)).await.unwrap();
    letters.sort_by_key(|new| new.aggregate.is_none());
    assert_eq!(letters.iter().map(|new| (new.times, new.repeated)).collect::<Vec<_>>(), [(3, 3), (2, 0)]);
    assert!(letters.iter().all(|new| new.tenant.as_deref() == Some("acme")));
}

pub async fn an_evaluation_is_applied_once_and_comes_back_whole(rig: &mut Rig) {
    let store = rig.store();
    assert_eq!(store.alert_inputs(at(0), at(0)).await.unwrap().progress, None);
    let alert = firing("invoice", at(10));
    let mut first = batch(1, vec![alert.clone()], at(10));
    let members = [alert.id()].into();
    first.groups = vec![Group { key: "ops:".into(), receiver: "ops".into(), notified_at: at(10), members }];
    first.notifications = vec![notification(1)];
    assert!(store.apply_alerts(first.clone()).await.unwrap());
    assert!(!store.apply_alerts(first.clone()).await.unwrap(), "another instance was first");
    let inputs = store.alert_inputs(at(0), at(10)).await.unwrap();
    assert_eq!(inputs.progress, Some(first.progress));
    assert_eq!((inputs.alerts, inputs.groups), (vec![alert.clone()], first.groups));
    assert_eq!(store.notifications(10).await.unwrap().len(), 1, "and not two");
    let resolved =
        Alert { state: AlertState::Resolved, resolved_at: Some(at(20)), updated_at: at(20), ..alert };
    let second = AlertBatch { ended_groups: vec!["ops:".into()], ..batch(2, vec![resolved.clone()], at(20)) };
    assert!(store.apply_alerts(second).await.unwrap());
    assert_eq!(store.alert_inputs(at(20), at(20)).await.unwrap().alerts, std::slice::from_ref(&resolved));
    let later = store.alert_inputs(at(21), at(21)).await.unwrap();
    assert!(later.alerts.is_empty() && later.groups.is_empty());
    assert_eq!(store.alerts(10).await.unwrap(), [resolved]);
    assert_eq!(store.prune_alerts(at(30)).await.unwrap(), 1);
}

pub async fn an_acknowledgement_is_on_record_and_outlives_an_evaluation(rig: &mut Rig) {
    let store = rig.store();
    let alert = firing("a", at(10));
    let members = [alert.id()].into();
    let group = Group { key: "ops:a".into(), receiver: "ops".into(), notified_at: at(10), members };
    let first = AlertBatch { groups: vec![group], ..batch(1, vec![alert.clone()], at(10)) };
    assert!(store.apply_alerts(first).await.unwrap());
    let acked =
        store.acknowledge_alert(alert.id(), Some("mine".into()), ana(), at(11)).await.unwrap().unwrap();
    assert_eq!(acked.ack.as_ref().map(|ack| (ack.by.as_str(), ack.at)), Some(("ana", at(11))));
    assert!(
        !store.apply_alerts(batch(2, vec![alert.clone()], at(12))).await.unwrap(),
        "it did not know of it"
    );
    assert!(store.alerts(1).await.unwrap()[0].ack.is_some());
    assert_eq!(store.acknowledge_alert(firing("b", at(0)).id(), None, ana(), at(13)).await.unwrap(), None);
    let entry = &store.audit(AuditQuery::newest(1)).await.unwrap()[0];
    assert_eq!((entry.action.as_str(), entry.reason.as_deref()), ("alert_acknowledged", Some("mine")));
    let events = store.events(0, 100).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["alert.fired", "alert.acknowledged"]);
}

pub async fn a_notification_is_claimed_by_one_until_its_lease_ends(rig: &mut Rig) {
    let store = rig.store();
    let (one, two) = (notification(1), notification(2));
    for new in [&one, &two] {
        store.add_notification(new.clone(), at(0)).await.unwrap();
    }
    let claimed = store.claim_notifications(at(10), at(70), 10).await.unwrap();
    assert_eq!(claimed.iter().map(|it| (it.id, it.attempts)).collect::<Vec<_>>(), [(one.id, 1), (two.id, 1)]);
    assert!(store.claim_notifications(at(69), at(200), 10).await.unwrap().is_empty());
    assert!(store.settle_notification(one.id, 1, NotificationOutcome::Delivered, at(20)).await.unwrap());
    // Whoever had the other one died; the next instance takes it on, and the first can no longer settle it.
    let again = store.claim_notifications(at(70), at(130), 10).await.unwrap();
    assert_eq!(again.iter().map(|it| (it.id, it.attempts)).collect::<Vec<_>>(), [(two.id, 2)]);
    assert!(!store.settle_notification(two.id, 1, NotificationOutcome::Delivered, at(71)).await.unwrap());
    let retry = NotificationOutcome::Again { at: at(500), error: "503".into() };
    assert!(store.settle_notification(two.id, 2, retry, at(72)).await.unwrap());
    assert!(store.claim_notifications(at(499), at(600), 10).await.unwrap().is_empty());
    assert_eq!(
        store.claim_notifications(at(500), at(600), 10).await.unwrap()[0].error.as_deref(),
        Some("503")
    );
    let failed = NotificationOutcome::Failed { error: "503".into() };
    assert!(store.settle_notification(two.id, 3, failed, at(501)).await.unwrap());
    let states: Vec<NotificationState> =
        store.notifications(10).await.unwrap().into_iter().map(|it| it.state).collect();
    assert_eq!(states, [NotificationState::Failed, NotificationState::Delivered]);
    assert_eq!(store.notification(one.id).await.unwrap().map(|it| it.ended_at), Some(Some(at(20))));
}

pub async fn silences_are_kept_until_they_end(rig: &mut Rig) {
    let store = rig.store();
    let silence = SilenceRecord {
        id: SilenceId::mint(at(0), [1; 10]),
        matchers: Matchers::parse("type=invoice.* queue=\"a b\"").unwrap(),
        reason: "maintenance".into(),
        created_by: "ana".into(),
        created_at: at(0),
        starts_at: at(10),
        ends_at: at(100),
    };
    assert!(store.add_silence(silence.clone(), ana()).await.unwrap());
    assert_eq!(store.silences(at(99)).await.unwrap(), std::slice::from_ref(&silence));
    assert_eq!(store.silences(at(100)).await.unwrap(), []);
    assert_eq!(store.alert_inputs(at(0), at(50)).await.unwrap().silences.len(), 1);
    assert!(store.end_silence(silence.id, ana(), at(60)).await.unwrap());
    assert!(!store.end_silence(silence.id, ana(), at(61)).await.unwrap());
    assert_eq!(store.silences(at(61)).await.unwrap(), []);
}
