//! Jobs over HTTP: push, fetch and acknowledge, fetch and fail into the dead letter; beside the bare loop of the same
//! statements at the size of commit that was reached, and beside the framework that only sends back what it gets.

use super::jobs_floor::{Dump, Look, Stage};
use super::jobs_load::{Done, End, Served, at, fill, push, work};

/// Clients, and jobs for them.
const LOADS: [(usize, usize); 3] = [(1, 1_000), (16, 10_000), (64, 10_000)];

/// Jobs that a fetch asks for.
const FETCHES: [usize; 3] = [1, 10, 100];

/// Jobs by which the statements are found out.
const SAMPLE: usize = 5_000;

/// Requests to the echo at least: fewer are over before anything else gets the processor.
const ECHOES_MIN: usize = 10_000;

/// Each side is measured this often and the best is taken: the machine is shared, and whatever else runs on it only
/// ever makes a run slower.
const TURNS: usize = 3;

pub async fn run() {
    println!("## Jobs over HTTP, fsync on\n");
    println!("Jobs of 1 KiB; a failure has a backtrace of 20 frames. Best of {TURNS} turns.\n");
    let floors = Floors::find().await;
    print_pushes(&floors).await;
    let ack = [(&floors.fetch, Kind::Fetch), (&floors.ack, Kind::End)];
    print_work("Fetch and acknowledge", End::Ack, ack).await;
    let die = [(&floors.fetch, Kind::Fetch), (&floors.die, Kind::End)];
    print_work("Fetch and fail into the dead letter", End::Die, die).await;
}

/// An operation as statements, with the tables that it begins from.
struct Floor {
    before: Dump,
    stage: Stage,
}

struct Floors {
    push: Floor,
    fetch: Floor,
    ack: Floor,
    die: Floor,
}

impl Floors {
    /// Does each operation on some jobs, and compares the tables before and after.
    async fn find() -> Floors {
        let [empty, pushed, fetched, acked] = dumps(End::Ack).await;
        let push = Stage::between(&empty, &pushed, SAMPLE);
        let fetch = Stage::between(&pushed, &fetched, SAMPLE);
        let ack = Stage::between(&fetched, &acked, SAMPLE);
        let [.., running, dead] = dumps(End::Die).await;
        let die = Stage::between(&running, &dead, SAMPLE);
        Floors {
            push: Floor { before: empty, stage: push },
            fetch: Floor { before: pushed, stage: fetch },
            ack: Floor { before: fetched, stage: ack },
            die: Floor { before: running, stage: die },
        }
    }
}

/// The tables when empty, and after a push, a fetch and an end of all jobs.
async fn dumps(end: End) -> [Dump; 4] {
    let served = Served::start().await;
    let data = served.bed.as_ref().expect("it has a store").folder.path().to_owned();
    let empty = Dump::of(&data);
    push(served.address, 16, SAMPLE).await;
    let pushed = Dump::of(&data);
    let ids = work(served.address, 1, 100, End::Never).await.held;
    let fetched = Dump::of(&data);
    super::jobs_load::end_all(served.address, 16, ids, end).await;
    let ended = Dump::of(&data);
    served.stop().await;
    [empty, pushed, fetched, ended]
}

async fn print_pushes(floors: &Floors) {
    println!("### Push, one job a request\n");
    println!(
        "| clients | jobs/s | p50 ms | p99 ms | requests a commit | bare loop, jobs/s | its slowest turn | of the bare loop | echo, requests/s | of the echo |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for (clients, jobs) in LOADS {
        let (mut best, mut echo) = (Best::default(), 0_f64);
        for _ in 0..TURNS {
            let served = Served::start().await;
            let before = served.commits();
            let done = push(served.address, clients, jobs).await;
            let size = done.requests as f64 / (served.commits() - before).max(1) as f64;
            served.stop().await;
            best.take(done, size, bare(&[(&floors.push, Kind::Push)], 1, size));
            let served = Served::start_echo().await;
            echo = echo.max(push(served.address, clients, jobs.max(ECHOES_MIN)).await.rate());
            served.stop().await;
        }
        let Best { mut done, size, bare, bare_slowest } = best;
        println!(
            "| {clients} | {:.0} | {:.2} | {:.2} | {size:.1} | {bare:.0} | {bare_slowest:.0} | {:.2} | {echo:.0} | {:.2} |",
            done.rate(),
            at(&mut done.waits, 0.5),
            at(&mut done.waits, 0.99),
            done.rate() / bare,
            done.rate() / echo,
        );
        doubt(done.rate() / bare);
    }
    println!();
}

async fn print_work(title: &str, end: End, floors: [(&Floor, Kind); 2]) {
    println!("### {title}\n");
    println!(
        "| clients | fetch of | jobs/s | end p50 ms | end p99 ms | fetch p99 ms | requests a commit | bare loop, jobs/s | its slowest turn | of the bare loop |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for (clients, jobs) in LOADS {
        for count in FETCHES {
            let mut best = Best::default();
            for _ in 0..TURNS {
                let served = Served::start().await;
                fill(served.address, jobs).await;
                let before = served.commits();
                let done = work(served.address, clients, count, end).await;
                assert_eq!(done.jobs, jobs, "every job is fetched once");
                // The last fetch of each client finds nothing and commits nothing.
                let size = (done.requests - clients) as f64 / (served.commits() - before).max(1) as f64;
                served.stop().await;
                best.take(done, size, bare(&floors, count, size));
            }
            let Best { mut done, size, bare, bare_slowest } = best;
            println!(
                "| {clients} | {count} | {:.0} | {:.2} | {:.2} | {:.2} | {size:.1} | {bare:.0} | {bare_slowest:.0} | {:.2} |",
                done.rate(),
                at(&mut done.waits, 0.5),
                at(&mut done.waits, 0.99),
                at(&mut done.fetch_waits, 0.99),
                done.rate() / bare,
            );
            doubt(done.rate() / bare);
        }
    }
    println!();
}

/// The best turn of each side. They take turns, so that both meet the same neighbours on the disk.
struct Best {
    done: Done,
    size: f64,
    bare: f64,
    /// How far the bare loop itself moves from turn to turn: a ratio is no better than that.
    bare_slowest: f64,
}

impl Default for Best {
    fn default() -> Best {
        Best { done: Done::default(), size: 0.0, bare: 0.0, bare_slowest: f64::MAX }
    }
}

impl Best {
    fn take(&mut self, done: Done, size: f64, bare: f64) {
        self.bare = self.bare.max(bare);
        self.bare_slowest = self.bare_slowest.min(bare);
        if self.done.jobs == 0 || done.rate() > self.done.rate() {
            (self.done, self.size) = (done, size);
        }
    }
}

/// Serving cannot be quicker than the statements that it makes.
fn doubt(ratio: f64) {
    if ratio > 1.05 {
        eprintln!(
            "warning: {ratio:.2} of the bare loop cannot be: the machine is too busy, or the loop does more"
        );
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Push,
    Fetch,
    End,
}

/// Jobs a second that a bare loop brings through all of these, with so many requests in a commit.
fn bare(floors: &[(&Floor, Kind)], count: usize, size: f64) -> f64 {
    // A commit of one syncs each time: fewer jobs tell the same.
    let jobs = if size < 2.0 { SAMPLE / 5 } else { SAMPLE };
    let requests = size.round().max(1.0) as usize;
    let seconds: f64 = floors
        .iter()
        .map(|(floor, kind)| {
            let (per_commit, look) = match kind {
                Kind::Push => (requests, Look::Key),
                Kind::Fetch => (requests * count, Look::Waiting(count)),
                Kind::End => (requests, Look::Job),
            };
            floor.stage.run(&floor.before, jobs, per_commit, look).as_secs_f64()
        })
        .sum();
    jobs as f64 / seconds
}
