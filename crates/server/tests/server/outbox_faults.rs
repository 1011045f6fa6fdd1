//! An application that treats its outbox as its own: it deletes, renames, restores and rewrites.

use std::sync::Arc;

use lazaret_server::sources::{self, Sources};
use serde_json::{Value, json};

use super::outbox::Shop;
use super::redriving::drive;

impl Shop {
    async fn run(&self, sql: &str) {
        self.database.batch_execute(sql).await.unwrap();
    }

    /// Captures what is dead as a process does that has just started.
    async fn capture_after_restart(&self) -> usize {
        let app = &self.app.app;
        let fresh = Sources::default().under(&app.config, &app.store, &app.clock);
        let running = Arc::clone(fresh.get("shop").unwrap());
        let arrivals = running.source.next().await.unwrap();
        self.app.pass(1_000);
        sources::capture_arrivals(app, &running, arrivals).await.unwrap()
    }

    async fn act(&self, letter: &Value, action: &str) -> Value {
        let path = format!("/api/v1/dead-letters/{}/{action}", letter["id"].as_str().unwrap());
        self.app.post(&path, &json!({"reason": "tried"})).await.expect(200)
    }

    async fn redrive_now(&self, id: &Value) -> Value {
        self.app.get(&format!("/api/v1/redrives/{}", id.as_str().unwrap())).await.expect(200)
    }

    async fn statuses(&self) -> Vec<String> {
        let letters = self.letters().await;
        letters.iter().map(|letter| letter["status"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn every_letter_of_a_large_run_is_verified() {
    let mut shop = Shop::open().await;
    shop.dead_order("o-0").await;
    shop.run(
        "insert into outbox (event_type, aggregate_type, aggregate_id, payload, status, processed_at, retry_count, last_error)
         select 'OrderCreated', 'order', 'm-' || n, '{}', 'DEAD_LETTER', now(), 1, 'Timeout: no answer'
           from generate_series(1, 1299) as n",
    )
    .await;
    let mut captured = 0;
    while captured < 1_300 {
        captured += shop.capture().await;
    }
    let plan = shop.redrive().await;
    let letters = &shop.redrive_now(&plan["id"]).await["letters"];
    assert_eq!(letters["sent"], 1_300, "{letters}");
    shop.run("update outbox set status = 'PROCESSED', processed_at = now()").await;
    drive(&shop.app).await;
    let run = shop.redrive_now(&plan["id"]).await;
    assert_eq!((&run["state"], &run["letters"]["succeeded"]), (&json!("done"), &json!(1_300)), "{run}");
    shop.app.check().await;
}

#[tokio::test]
async fn a_redriven_row_that_is_deleted_is_unknown_and_not_made_again() {
    let mut shop = Shop::open().await;
    shop.dead_order("o-1").await;
    shop.capture().await;
    let plan = shop.redrive().await;
    shop.run("delete from outbox").await;
    drive(&shop.app).await;
    let run = shop.redrive_now(&plan["id"]).await;
    assert_eq!((&run["state"], &run["letters"]["unknown"]), (&json!("done"), &json!(1)), "{run}");
    let listed = shop.app.get(&format!("/api/v1/redrives/{}/letters", plan["id"].as_str().unwrap())).await;
    let listed = listed.expect(200)["items"][0].clone();
    assert_eq!(listed["evidence"], "its row was deleted from public.outbox before it was seen processed");
    let letter = shop.letters().await.remove(0);
    assert_eq!(letter["status"], "reprocessing");
    let put_back = format!("/api/v1/dead-letters/{}/put-back", letter["id"].as_str().unwrap());
    let refused = shop.app.post(&put_back, &json!({})).await.problem(409, "not_allowed");
    assert_eq!(refused["detail"], "the letter is reprocessing: its event may have been processed");
    // A person knows that it was not.
    let settle = format!(
        "/api/v1/redrives/{}/letters/{}/settle",
        plan["id"].as_str().unwrap(),
        letter["id"].as_str().unwrap()
    );
    shop.app.post(&settle, &json!({"outcome": "unclaim"})).await.expect(200);
    assert_eq!(shop.statuses().await, ["pending"]);
    assert_eq!(shop.app.post(&put_back, &json!({})).await.expect(200)["row"], "made");
    shop.app.check().await;
}

#[tokio::test]
async fn a_table_that_does_not_fit_pauses_the_run_and_fails_no_letter() {
    let mut shop = Shop::open().await;
    for n in 0..30 {
        shop.dead_order(&format!("o-{n}")).await;
    }
    while shop.letters().await.len() < 30 {
        shop.capture().await;
    }
    shop.run("alter table outbox rename column retry_count to tries").await;
    let plan = shop.redrive().await;
    let run = shop.redrive_now(&plan["id"]).await;
    assert_eq!((&run["state"], &run["letters"]["failed"]), (&json!("paused"), &json!(0)), "{run}");
    assert!(run["why"].as_str().unwrap().contains("retry_count"), "{run}");
    shop.run("alter table outbox rename column tries to retry_count").await;
    let resume = format!("/api/v1/redrives/{}/resume", plan["id"].as_str().unwrap());
    shop.app.post(&resume, &json!({})).await.expect(200);
    drive(&shop.app).await;
    assert_eq!(shop.redrive_now(&plan["id"]).await["letters"]["sent"], 30);
    shop.app.check().await;
}

#[tokio::test]
async fn a_row_that_stays_dead_does_not_bring_its_letter_back() {
    let mut shop = Shop::open().await;
    for n in 0..3 {
        shop.dead_order(&format!("o-{n}")).await;
    }
    while shop.letters().await.len() < 3 {
        shop.capture().await;
    }
    let letters = shop.letters().await;
    shop.act(&letters[0], "delete").await;
    shop.act(&letters[1], "resolve").await;
    assert_eq!(shop.capture_after_restart().await, 3);
    assert_eq!(shop.statuses().await, ["resolved", "pending"]);
    // Rewritten, as a restored dump is.
    shop.run("update outbox set status = status").await;
    assert_eq!(shop.capture_after_restart().await, 3);
    assert_eq!(shop.statuses().await, ["resolved", "pending"]);
    assert!(shop.letters().await.iter().all(|letter| letter["life"] == 1));
    // Each dies of something else.
    shop.run("update outbox set retry_count = retry_count + 1, last_error = 'Error: other'").await;
    assert_eq!(shop.capture_after_restart().await, 3);
    assert_eq!(shop.statuses().await, ["pending", "pending", "pending"]);
    shop.app.check().await;
}

#[tokio::test]
async fn a_row_with_a_very_long_key_is_redriven_and_verified() {
    let shop = Shop::open().await;
    shop.run(
        "alter table outbox alter column id drop default, alter column id type text;
         insert into outbox (id, event_type, payload, status, processed_at, retry_count, last_error)
         select repeat('k', 700) || n, 'OrderCreated', '{}', 'DEAD_LETTER', now(), 1, 'Timeout: no answer'
           from generate_series(1, 2) as n",
    )
    .await;
    assert_eq!(shop.capture().await, 2);
    shop.look().await;
    assert_eq!(shop.app.get("/api/v1/sources/shop").await.expect(200)["outbox"]["vanished"], 0);
    let plan = shop.redrive().await;
    assert_eq!(shop.redrive_now(&plan["id"]).await["letters"]["sent"], 2);
    shop.run("update outbox set status = 'PROCESSED', processed_at = now() where right(id, 1) = '1'").await;
    drive(&shop.app).await;
    let mut statuses = shop.statuses().await;
    statuses.sort();
    assert_eq!(statuses, ["reprocessing", "resolved"]);
    shop.app.check().await;
}
