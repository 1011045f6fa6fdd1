//! Jobs over HTTP on PostgreSQL: the same work done by one instance and by two on one database.

use std::time::Instant;

use futures_util::future::join_all;
use lazaret_store::testing::TestDatabase;
use tokio_postgres::Client;

use super::jobs_load::{Done, End, Line, QUEUE, Served, at, fill, work};
use super::postgres::instance;
use super::postgres_floor::connect;

/// Clients in all, however many instances they are spread over.
const CLIENTS: [usize; 2] = [16, 64];
const JOBS: usize = 4_000;

/// Jobs that a fetch asks for.
const FETCH: usize = 10;

/// Each is measured this often, by turns, and the best is taken.
const TURNS: usize = 2;

pub async fn run() {
    println!("## PostgreSQL: jobs over HTTP, fsync on\n");
    println!("{JOBS} jobs of 1 KiB, fetched {FETCH} at a time. Best of {TURNS} turns.\n");
    println!(
        "| what | clients | instances | jobs/s | end p50 ms | end p99 ms | fetch p99 ms | of one instance | statements a job | WAL a job, KB |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for (name, end) in
        [("fetch and acknowledge", End::Ack), ("fetch and fail into the dead letter", End::Die)]
    {
        for clients in CLIENTS {
            let mut best: [Option<(Done, Cost)>; 2] = [None, None];
            for _ in 0..TURNS {
                for (n, best) in best.iter_mut().enumerate() {
                    let done = turn(n + 1, clients, end).await;
                    if best.as_ref().is_none_or(|(best, _)| done.0.rate() > best.rate()) {
                        *best = Some(done);
                    }
                }
            }
            let [Some(one), Some(two)] = best else { continue };
            let alone = one.0.rate();
            for (instances, (mut done, cost)) in [(1, one), (2, two)] {
                println!(
                    "| {name} | {clients} | {instances} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.1} |",
                    done.rate(),
                    at(&mut done.waits, 0.5),
                    at(&mut done.waits, 0.99),
                    at(&mut done.fetch_waits, 0.99),
                    done.rate() / alone,
                    cost.statements as f64 / JOBS as f64,
                    cost.wal as f64 / 1024.0 / JOBS as f64,
                );
            }
        }
    }
    println!();
    retry().await;
}

/// Jobs that one request puts back from the dead letter.
const RETRIED: usize = 10_000;

async fn retry() {
    let database = TestDatabase::durable();
    let app = instance(&database).await;
    let served = Served::of(app.clone()).await;
    fill(served.address, RETRIED).await;
    work(served.address, 16, 100, End::Die).await;
    let mut line = Line::open(served.address).await;
    let asked = format!(r#"{{"filter":{{"queue":"{QUEUE}"}},"confirm":true}}"#);
    let started = Instant::now();
    let answer = String::from_utf8_lossy(line.post("/ojs/v1/dead-letter/retry", &asked).await).into_owned();
    let took = started.elapsed().as_secs_f64();
    assert!(answer.contains(&format!("\"retried\":{RETRIED}")), "{answer}");
    println!(
        "One `POST /ojs/v1/dead-letter/retry` put {RETRIED} jobs back in {took:.3} s, {:.0} a second.\n",
        RETRIED as f64 / took
    );
    served.stop().await;
    app.store.close().await.expect("the store closes");
}

/// What PostgreSQL was asked, and what it wrote ahead.
#[derive(Clone, Copy)]
struct Cost {
    statements: i64,
    wal: i64,
}

impl Cost {
    /// All of it so far.
    async fn so_far(client: &Client) -> Cost {
        const COST: &str = "
            select (select coalesce(sum(calls), 0)::bigint
                      from pg_stat_statements
                     where dbid = (select oid from pg_database where datname = current_database())),
                   pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";
        let row = client.query_one(COST, &[]).await.expect("statements are counted");
        Cost { statements: row.get(0), wal: row.get(1) }
    }
}

async fn turn(instances: usize, clients: usize, end: End) -> (Done, Cost) {
    let database = TestDatabase::durable();
    let mut apps = Vec::new();
    let mut served = Vec::new();
    for _ in 0..instances {
        let app = instance(&database).await;
        served.push(Served::of(app.clone()).await);
        apps.push(app);
    }
    fill(served[0].address, JOBS).await;
    let client = connect(&database).await;
    client
        .batch_execute("create extension pg_stat_statements schema public")
        .await
        .expect("statements can be counted");
    let before = Cost::so_far(&client).await;
    let halves = served.iter().map(|served| work(served.address, clients / instances, FETCH, end));
    let done = Done::joined(join_all(halves).await);
    assert_eq!(done.jobs, JOBS, "every job is fetched once");
    let after = Cost::so_far(&client).await;
    let cost = Cost { statements: after.statements - before.statements, wal: after.wal - before.wal };
    for served in served {
        served.stop().await;
    }
    for app in apps {
        app.store.close().await.expect("the store closes");
    }
    (done, cost)
}
