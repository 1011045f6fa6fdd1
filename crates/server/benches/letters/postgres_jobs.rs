//! Jobs over HTTP on PostgreSQL: the same work done by one instance and by two on one database.

use futures_util::future::join_all;
use lazaret_store::testing::TestDatabase;

use super::jobs_load::{Done, End, Served, at, fill, work};
use super::postgres::instance;

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
        "| what | clients | instances | jobs/s | end p50 ms | end p99 ms | fetch p99 ms | of one instance |\n|---|---|---|---|---|---|---|---|"
    );
    for (name, end) in
        [("fetch and acknowledge", End::Ack), ("fetch and fail into the dead letter", End::Die)]
    {
        for clients in CLIENTS {
            let mut best: [Option<Done>; 2] = [None, None];
            for _ in 0..TURNS {
                for (n, best) in best.iter_mut().enumerate() {
                    let done = turn(n + 1, clients, end).await;
                    if best.as_ref().is_none_or(|best| done.rate() > best.rate()) {
                        *best = Some(done);
                    }
                }
            }
            let [Some(one), Some(two)] = best else { continue };
            let alone = one.rate();
            for (instances, mut done) in [(1, one), (2, two)] {
                println!(
                    "| {name} | {clients} | {instances} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} |",
                    done.rate(),
                    at(&mut done.waits, 0.5),
                    at(&mut done.waits, 0.99),
                    at(&mut done.fetch_waits, 0.99),
                    done.rate() / alone,
                );
            }
        }
    }
    println!();
}

async fn turn(instances: usize, clients: usize, end: End) -> Done {
    let database = TestDatabase::durable();
    let mut apps = Vec::new();
    let mut served = Vec::new();
    for _ in 0..instances {
        let app = instance(&database).await;
        served.push(Served::of(app.clone()).await);
        apps.push(app);
    }
    fill(served[0].address, JOBS).await;
    let halves = served.iter().map(|served| work(served.address, clients / instances, FETCH, end));
    let done = Done::joined(join_all(halves).await);
    assert_eq!(done.jobs, JOBS, "every job is fetched once");
    for served in served {
        served.stop().await;
    }
    for app in apps {
        app.store.close().await.expect("the store closes");
    }
    done
}
